"""What doctor checks beyond the account: whether one job will run, and assumptions about a service by probes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.jobs import Job
from runspec_jobs.api.profiles import load_configured
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.secrets import read_secret
from runspec_jobs.errors import Conflict, RunspecError, Unavailable, UsageError
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Facts,
    Finding,
    Options,
    Provider,
    Request,
    SupportsDoctor,
    SupportsDoctorPolicy,
    SupportsJobDoctor,
    SupportsProbes,
)
from runspec_jobs.provider.probe import Observation, Probe as Probe, Verdict as Verdict
from runspec_jobs.state import probe_leftovers
from runspec_jobs.state.probe_leftovers import Left as Left, Session

PAGE = "runspec docs unverified"
READABLE = ("env:", "file:")  # secrets that this machine reads


class Observed(NamedTuple):
    """What a probe has observed in *seconds*; *verdict* is the text of a `Verdict`."""

    id: str
    title: str
    verdict: str
    seen: str
    seconds: float


@dataclass(frozen=True)
class _Context:
    """The context of a probe: see `runspec_jobs.provider.probe.ProbeContext`."""

    session: Session
    sleep: Callable[[float], None]
    reporter: Reporter

    @property
    def name(self) -> str:
        return self.session.name

    def note(self, what: str, by_hand: str, *remove: Request) -> None:
        self.session.note(Left(what, by_hand, remove))

    def tell(self, line: str) -> None:
        self.reporter.note(f"  {line}")


@dataclass
class Probing:
    """The probes that were chosen, in their order, and after `run` the resources that are *left*."""

    provider: Provider
    options: Options
    probes: Sequence[Probe]
    left: list[Left] = field(default_factory=list)

    def run(
        self,
        *,
        on_event: OnEvent | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Generator[Observed]:
        """Run the probes one after the other, yield what each has observed, and delete what they made.

        Raises Conflict if another process is running probes of the provider, and Unavailable if what a killed session
        has left cannot be deleted; *left* says what it is.
        """
        reporter = Events(on_event)
        with probe_leftovers.lock_probes(self.provider.name) as free:
            if not free:
                message = f"another runspec is running probes of '{self.provider.name}'"
                raise Conflict(message, "wait until it has ended")
            # First: what an earlier session left could make a probe see what it did not make itself.
            self._clean_up(reporter)
            client = self.provider.connect(Facts(self.options))
            # Random, because two machines may probe one account at the same time.
            name = f"probe-{os.urandom(5).hex()}"
            options = self.options.model_dump(mode="json")
            # On disk before the first probe, so that a killed session leaves a note of what it made.
            session = Session.begin(self.provider.name, name, options)
            context = _Context(session, sleep, reporter)
            try:
                for probe in self.probes:
                    sleep(0)  # raises an error if the user has asked to stop meanwhile
                    reporter.note(f"{probe.id}: {probe.title}")
                    yield _observe(probe, client, context)
            except KeyboardInterrupt:
                reporter.note("interrupted; deleting the resources of the probes")
                raise
            finally:
                try:
                    session.clean(client, reporter.note)
                finally:
                    # Also after an error: the command prints what has to be deleted by hand.
                    self.left = list(session.made)

    def _clean_up(self, reporter: Reporter) -> None:
        """Delete the resources that killed sessions have left. Raises Unavailable if one cannot be deleted."""
        for session in probe_leftovers.list_sessions(self.provider.name):
            things = "1 resource" if len(session.made) == 1 else f"{len(session.made)} resources"
            reporter.note(f"deleting {things} that {session.name} has left")
            probe_leftovers.clean(session, self.provider, reporter.note)
            if session.made:
                self.left = list(session.made)
                raise Unavailable(f"cannot delete all resources that {session.name} has left")


def choose(provider: str, only: Sequence[str] | None = None) -> Probing:
    """Return the probes of *provider*, or those with the ids in *only* and the probes that these need.

    Raises Unavailable if the provider has no probes, and UsageError if there is none with that id.
    """
    service, options = load_configured(provider)
    if not isinstance(service, SupportsProbes):
        raise Unavailable(f"'{provider}' has no probes", f"see {PAGE}")
    return Probing(service, options, _choose_probes(tuple(service.probes(options)), only))


def _choose_probes(probes: Sequence[Probe], only: Sequence[str] | None) -> list[Probe]:
    if only is None:
        return list(probes)
    wanted = list(only)
    if unknown := [word for word in wanted if word not in {probe.id for probe in probes}]:
        raise UsageError(
            f"there is no probe '{unknown[0]}'",
            f"choose one of {', '.join(probe.id for probe in probes)}",
        )
    before = {probe.id: probe.after for probe in probes}
    # The list grows while it is read, so that the needs of needed probes are added too.
    for word in wanted:
        if (needed := before[word]) is not None and needed not in wanted:
            wanted.append(needed)
    return [probe for probe in probes if probe.id in wanted]


def _observe(probe: Probe, client: object, context: _Context) -> Observed:
    began = time.monotonic()
    try:
        observation = probe.run(client, context)
    except RunspecError as exc:
        observation = Observation(Verdict.UNKNOWN, exc.message)
    seconds = round(time.monotonic() - began, 1)
    return Observed(probe.id, probe.title, str(observation.verdict), observation.seen, seconds)


def list_job_findings(job: Job) -> Iterator[Finding]:
    """Yield each finding about whether *job* will run on its provider, as soon as it is made.

    Nothing is made for the job. Of a job with several sizes, the largest is checked. A finding with `unknown` is about
    something that could not be checked.
    """
    sizes = job.spec.scaling.sizes if job.spec.scaling else (1,)
    facts = job.sizes()[sizes.index(max(sizes))].inputs
    plan = model.make_plan(facts.provider, facts.spec, model.PREVIEW, facts.facts)
    steps = "1 step" if len(plan.steps) == 1 else f"{len(plan.steps)} steps"
    yield Finding(f"the spec is valid, and its plan has {steps}", True)
    secrets = set(model.find_marked([step.do.params for step in plan.steps], model.SECRET))
    for secret in sorted(name for name in secrets if name.startswith(READABLE)):
        yield _check_secret(secret)
    provider = facts.provider
    if isinstance(provider, SupportsJobDoctor):
        yield from provider.examine_job(facts.spec, facts.facts, plan.steps)
        return
    if isinstance(provider, SupportsDoctor):
        yield from provider.examine(facts.facts.options)
    what = f"`{provider.name}` has no checks for a single job"
    yield Finding(what, True, unknown=True)


def _check_secret(source: str) -> Finding:
    try:
        read_secret(source)
    except RunspecError as exc:
        return Finding(exc.message, False, exc.hint)
    return Finding(f"the secret {source} can be read", True)


def make_doctor_policy(job: Job) -> Mapping[str, Any]:
    """Return the least permissions that `runspec doctor` needs on the provider of *job*.

    Raises Unavailable if the provider has none that could be listed.
    """
    provider = job.inputs.provider
    if not isinstance(provider, SupportsDoctorPolicy):
        raise Unavailable(f"'{provider.name}' has no permissions that runspec could list")
    return provider.doctor_policy(job.inputs.facts.options)
