"""The client of ParallelCluster: clusters by `pcluster`, and their jobs by a Slurm client over SSH to the head node."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from runspec_jobs.provider import (
    Bundle,
    Client,
    Facts,
    MembershipChange,
    NoAnswer,
    Orphan,
    OutputFile,
    Places,
    Progress,
    Released,
    RemoteError,
    Request,
    Response,
    Seat,
    State,
    Status,
    Step,
    Submits,
    Unavailable,
    requests_of,
    state_folder,
)
from runspec_jobs.provider.machines import Usage
from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk
from runspec_jobs.provider.types import ExecSpec, Route
from runspec_parallelcluster import job, store, timing
from runspec_parallelcluster.lookup import Clusters, address_of
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session.pcluster import Cli, NotThere
from runspec_parallelcluster.timing import Timing
from runspec_slurm import timing as slurm_timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.logs import LogStream
from runspec_slurm.timing import Clock

# Operations that have nothing to do once the cluster was deleted.
CONTENT = frozenset("remove remove_run remove_tree scancel".split())
OURS = "parallelcluster"
Asked = TypeVar("Asked")


def connect(facts: Facts) -> Client:
    reach = partial(SlurmClient, timing=slurm_timing.DEFAULT)
    return ParallelClusterClient(facts.options, reach=reach, timing=timing.DEFAULT)


class ParallelClusterClient:
    """Makes clusters, and passes requests about jobs to a Slurm client once the head node is known."""

    def __init__(
        self,
        options: ParallelClusterOptions,
        clusters: Clusters | None = None,
        reach: Callable[[ParallelClusterOptions], SlurmClient] = SlurmClient,
        timing: Timing = timing.DEFAULT,
        clock: Clock = slurm_timing.CLOCK,
    ) -> None:
        self.timing, self.clock = timing, clock
        self._asked_s = -math.inf  # when the address of the head node was last queried again
        self.options, self.reach = options, reach
        self.listener: Callable[[str], None] = lambda line: None
        cli = Cli(options, self.tell, timing.call_s)
        self.clusters = clusters or Clusters(cli, self.tell, timing, clock)
        self.cluster = options.cluster
        self.host = options.host
        self._slurm: SlurmClient | None = None
        self._known: dict[str, Mapping[str, Response]] = {}

    @property
    def poll_s(self) -> float:
        return self.timing.logs_s

    def listen(self, tell: Callable[[str], None]) -> None:
        self.listener = tell

    def tell(self, line: str) -> None:
        self.listener(line)

    def remember(self, run: str, answers: Mapping[str, Response]) -> None:
        head = answers.get("head", {})
        self.cluster = self.cluster or head.get("cluster")
        self.host = self.host or head.get("host")
        self._known[run] = answers

    def slurm(self) -> SlurmClient:
        """Return the client of the cluster's Slurm. Raises NotThere if the cluster does not exist."""
        if self._slurm is None:
            self._slurm = self.reach(self._reached(self._address()))
            for run, answers in self._known.items():
                self._slurm.remember(run, answers)
        return self._slurm

    def ask(self, what: Callable[[SlurmClient], Asked]) -> Asked:
        """Return the result of *what* with the client of the cluster's Slurm.

        If the head node does not answer, its address is queried again and the call repeated, since the address may
        have changed. Raises NotThere if the cluster does not exist any more.
        """
        try:
            return what(self.slurm())
        except Unavailable:
            # A head node that is down has no other address a moment later, and pcluster takes seconds.
            early = self.clock.monotonic() - self._asked_s < self.timing.address_s
            if self.options.host or self.cluster is None or early:
                raise
            self._asked_s = self.clock.monotonic()
            before, self.host, self._slurm = self.host, None, None
            try:
                # The client of Slurm below keeps its connection, so it is made anew.
                same = self._address() == before
            except (NoAnswer, Unavailable):
                self.host = before
                raise
            if same:
                raise
        return what(self.slurm())

    def _ask_or(self, gone: Asked, what: Callable[[SlurmClient], Asked]) -> Asked:
        """Return the result of *what* as `ask` does, or *gone* if the cluster does not exist any more."""
        try:
            return self.ask(what)
        except NotThere:
            return gone

    def _address(self) -> str:
        if self.host is None:
            if self.cluster is None:
                raise NotThere(
                    "the cluster is unknown", "set option cluster or host in the profile"
                )
            cluster = self.clusters.describe(self.cluster)
            if cluster is None:
                raise NotThere(f"there is no cluster '{self.cluster}'")
            self.host = address_of(cluster)
        if self.host is None:
            raise Unavailable(
                f"the head node of '{self.cluster}' has no address yet", "repeat the command later"
            )
        return self.host

    def _reached(self, address: str) -> ParallelClusterOptions:
        options = self.options
        arguments = list(options.ssh_options)
        if options.ssh_key:
            key = Path(options.ssh_key).expanduser()
            # An agent with many keys would be refused after a few of them.
            arguments += [f"IdentityFile={key}", "IdentitiesOnly=yes"]
        if options.host_keys == "first-seen":
            arguments += [
                "StrictHostKeyChecking=accept-new",
                f"UserKnownHostsFile={self._known_hosts()}",
            ]
        follows = {"host": job.login(options, address), "ssh_options": tuple(arguments)}
        return job.access(options).model_copy(update=follows)

    def _known_hosts(self) -> Path:
        """Return a known_hosts file for this cluster alone, because the next cluster may get the same address."""
        folder = state_folder() / OURS / f"{self.cluster or 'head'}.known_hosts"
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def call(self, request: Request) -> Response:
        if request.service == OURS:
            answer: Response = {}
            for single in requests_of(request):
                answer = self._call(single)
            return answer
        request = self._of_slurm(request)
        # What is to be removed from a cluster that is gone is gone, too.
        if request.operation not in CONTENT:
            return self._made(lambda slurm: slurm.call(request))
        return self._ask_or({}, lambda slurm: slurm.call(request))

    def _of_slurm(self, request: Request) -> Request:
        """Return *request* without the name of its cluster, which is remembered."""
        params = dict(request.params)
        self.cluster = self.cluster or params.get("clusterName")
        params.pop("clusterName", None)
        return request._replace(params=params)

    def _call(self, request: Request) -> Response:
        name = request.params["clusterName"]
        match request.operation:
            case "create_cluster":
                return self.clusters.create(request.params)
            case "update_cluster":
                return self.clusters.update(request.params)
            case "describe_cluster":
                return self._learn(self.clusters.head(name))
            case "archive":
                self._archive(name, request.params["folders"])
            case "delete_cluster":
                self.clusters.delete(name)
                self._known_hosts().unlink(missing_ok=True)
            case other:
                raise RemoteError(f"there is no operation '{other}' of ParallelCluster")
        return {}

    def _learn(self, answer: Response) -> Response:
        self.cluster = str(answer["cluster"])
        if self.options.host is None and self.host != answer["host"]:
            self.host, self._slurm = str(answer["host"]), None
        return answer

    def _archive(self, name: str, folders: Sequence[str]) -> None:
        """Archive *folders*, unless the cluster does not exist or was never complete, and so has no files."""
        cluster = self.clusters.describe(name)
        # Nothing was ever saved there, and its head node may not answer.
        if cluster is None or str(cluster.get("clusterStatus")) == "CREATE_FAILED":
            return
        self.cluster = name
        connection = self.slurm().way
        for folder in folders:
            store.archive(
                folder,
                lambda script, args, longest_s: connection.run(script, args, timeout_s=longest_s),
                self.listener,
                self.timing,
                self.clock,
            )

    def _made(self, what: Callable[[SlurmClient], Response]) -> Response:
        try:
            return self.ask(what)
        except NotThere as exc:
            raise RemoteError(exc.message, "run apply, which makes the cluster") from exc

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        plain = self._of_slurm(request)

        def put(slurm: SlurmClient) -> Response:
            slurm.listen(self.tell)
            return slurm.stage(plain, bundle, progress)

        return self._made(put)

    def find(self, step: Step) -> Response | None:
        with _unknown():
            if step.do.service == OURS:
                cluster = self.clusters.find(step)
                if cluster is not None and step.do.operation == "describe_cluster":
                    return self._learn(cluster)
                return cluster
            plain = step._replace(do=self._of_slurm(step.do))
            return self._ask_or(None, lambda slurm: slurm.find(plain))

    def settled(self, step: Step) -> bool:
        if step.do.service != OURS:
            return True  # as with Slurm, a request is effective when it was answered
        # A cluster is made within minutes, and jobs are refused until then.
        return step.do.operation == "describe_cluster" or self.clusters.settled(step.do)

    def state(self, run: str) -> Status:
        return self._ask_or(Status(State.GONE), lambda slurm: slurm.state(run))

    def cancel(self, run: str) -> None:
        with contextlib.suppress(NotThere):  # the jobs ended with their cluster
            self.ask(lambda slurm: slurm.cancel(run))

    def reconcile(self, run: str) -> Sequence[str]:
        return self._ask_or((), lambda slurm: slurm.reconcile(run))

    def stop(self, run: str, tasks: Collection[int]) -> None:
        with contextlib.suppress(NotThere):  # the tasks ended with their cluster
            self.ask(lambda slurm: slurm.stop(run, tasks))

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        try:
            found: Released = self.ask(lambda slurm: slurm.release(run, away, back, submits))
        except NotThere:
            return Released((), ())
        return found

    def changes(self, run: str) -> Sequence[MembershipChange]:
        return self._ask_or((), lambda slurm: slurm.changes(run))

    def streams(self, run: str) -> Sequence[Stream]:
        return self._ask_or((), lambda slurm: slurm.streams(run))

    def publish(self, run: str) -> Sequence[str]:
        return self._ask_or((), lambda slurm: slurm.publish(run))

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        assert isinstance(stream, LogStream), "BUG: it is not a stream of this client"
        return stream.timed(position)

    def places(self, run: str) -> Places:
        kept = f"{self.cluster or self.host or 'the head node'}:{self.options.workspace}/runs/{run}"
        return Places(f"{kept}/logs", f"{kept}/outputs")

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return self._ask_or((), lambda slurm: slurm.outputs(run))

    def usage(self, run: str, most: int | None) -> Usage:
        return self._ask_or(Usage(), lambda slurm: slurm.usage(run, most))

    def shell(
        self, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
    ) -> ExecSpec:
        with _known():
            return self.ask(lambda slurm: slurm.shell(run, task, rank, words, terminal=terminal))

    def tunnel(self, run: str, task: int, rank: int, port: int) -> Route:
        with _known():
            return self.ask(lambda slurm: slurm.tunnel(run, task, rank, port))

    def keep_state(self, run: str, content: bytes) -> None:
        def keep(slurm: SlurmClient) -> Response:
            slurm.keep_state(run, content)
            return {}

        self._made(keep)

    def kept_state(self, run: str) -> bytes | None:
        return self._ask_or(None, lambda slurm: slurm.kept_state(run))

    def kept_runs(self) -> Sequence[str]:
        """Return the runs on the cluster. Raises Unavailable if neither the profile nor a run names the cluster."""
        if self.cluster is None and self.host is None:
            what = "the profile does not name the cluster that the runs to adopt are on"
            raise Unavailable(what, "set cluster or host, as pcluster list-clusters shows it")
        return self._ask_or((), lambda slurm: slurm.kept_runs())

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        return self._ask_or((), lambda slurm: tuple(slurm.find_orphans(runs, made)))


@contextlib.contextmanager
def _known() -> Iterator[None]:
    """Translate NotThere to Unavailable: without a cluster, nothing runs."""
    try:
        yield
    except NotThere as exc:
        raise Unavailable(exc.message, exc.hint) from exc


@contextlib.contextmanager
def _unknown() -> Iterator[None]:
    """Translate errors for `find`: if the cluster cannot be reached, the outcome of a step is unknown."""
    try:
        yield
    except Unavailable as exc:
        raise NoAnswer(exc.message, exc.hint) from exc
    except NotThere as exc:
        raise RemoteError(exc.message, exc.hint) from exc
