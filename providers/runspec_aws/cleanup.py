"""End what a run does not need any more, and find resources that no record names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from runspec_aws.errors import FORBIDDEN, code_of, got, listed, translated
from runspec_aws.infrastructure.compute_environments import deletion
from runspec_aws.lookup import ENVIRONMENT, QUEUE, Kind
from runspec_aws.naming import batch, s3
from runspec_aws.session import Session
from runspec_aws.status.jobs import Jobs
from runspec_aws.store import run_secrets
from runspec_aws.store.objects import Objects
from runspec_jobs.provider import CredentialsError, Orphan, Request, State
from runspec_jobs.provider.elastic_tasks import NOT_NEEDED

SECOND = "a second job of the same run"
QUEUED = ("SUBMITTED", "PENDING", "RUNNABLE")


class Reconciler:
    """Ends jobs, each once."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self._next_s: dict[
            str, float | None
        ] = {}  # when to list the jobs of a run again; None for never
        self._ended: set[str] = set()

    def reconcile(self, run: str) -> Sequence[str]:
        """Terminate what *run* does not need; return a line for each kind of it."""
        record = self.jobs.record(run)
        if record is None:
            return ()
        self.jobs.count_failed(run, record)
        if halted := self.jobs.halted(run, record):
            self.jobs.stop(run, halted)
        waited = "terminated {} that waited for machines, because the elastic job is over"
        return [
            *_lines("terminated {} of the same run", self._end_others(run, record)),
            *_lines(waited, self._end_waiting(run, record)),
        ]

    def _end_others(self, run: str, record: Mapping[str, Any]) -> list[str]:
        """Terminate all jobs of *run* except those to use, after two listings: one may lack a new job."""
        now = self.jobs.session.clock.monotonic()
        next_s = self._next_s.get(run, now)
        if next_s is None or now < next_s:
            return []
        self._next_s[run] = None if run in self._next_s else now + self.jobs.session.timing.settle_s
        jobs = self.jobs.all_of(run)
        if jobs:
            self.jobs.remember(run, jobs[0]["jobId"])
        alive = [job["jobId"] for job in jobs[1:] if not self.jobs.state_of(job).terminal]
        if record.get("elastic"):
            self.jobs.look_at_returns(run, record, every=True)
            others = self.jobs.poller.describe(self.jobs.returns.others(run)).items()
            alive += [name for name, job in others if not self.jobs.state_of(job).terminal]
        return self._terminate(alive, SECOND)

    def _end_waiting(self, run: str, record: Mapping[str, Any]) -> list[str]:
        """Terminate the nodes of an elastic job that is over which still wait: machines would start for them."""
        job = self.jobs.job(run) if record.get("elastic") else None
        if job is None:
            return []
        if self.jobs.elastic_end(run, record, job) is None:
            if self.jobs.state_of(job) is State.CANCELLED and self.jobs.returns.of(run):
                self.jobs.end(run)  # a node may have been asked for on another machine meanwhile
            return []
        places = self.jobs.places(run, record)
        self.jobs.returns.call_off(run)
        nodes = self.jobs.poller.describe(place.job for place in places if place.absent is None)
        waiting = (node["jobId"] for node in nodes.values() if node["status"] in QUEUED)
        return self._terminate(waiting, NOT_NEEDED)

    def _terminate(self, ids: Iterable[str], reason: str) -> list[str]:
        """Terminate the jobs *ids*, except those that were terminated before; return the others."""
        ended = [name for name in ids if name not in self._ended]
        self.jobs.terminate(ended, reason, self._ended)
        return ended


def _lines(text: str, ids: Sequence[str]) -> list[str]:
    """Return *text* with the number of *ids*, or nothing if there are none.

    >>> _lines("terminated {} of the same run", ["a", "b"])
    ['terminated 2 jobs of the same run']
    """
    count = len(ids)
    return [text.format(f"{count} {'job' if count == 1 else 'jobs'}")] if ids else []


# Find orphans at AWS: resources that runspec made and that no local record mentions.


OURS = "runspec-"
MACHINES = re.compile(r"runspec-(machine|close)-[0-9a-f]{12}")  # these resources have no tags


class OrphanFinder:
    """Finds orphans in one account, region and bucket."""

    def __init__(self, session: Session, files: Objects, jobs: Jobs) -> None:
        self.session, self.files, self.jobs = session, files, jobs

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        """Yield everything that belongs neither to *runs* nor to the names in *made*, in the order of deletion."""
        alone = list(self._runs(runs))
        yield from alone
        needed = any(run.alive for run in alone)  # by a job without a local record
        yield from (orphan._replace(alive=orphan.alive or needed) for orphan in self._shared(made))

    def _shared(self, made: Collection[str]) -> Iterator[Orphan]:
        yield from self._definitions(made)
        for kind, noun, key in (
            (QUEUE, "job_queue", "jobQueue"),
            (ENVIRONMENT, "compute_environment", "computeEnvironment"),
        ):
            yield from self._things(kind, noun, key, made)
        if self.session.own_queue:
            yield from self.machines(made)
        yield from self._objects(made)
        yield from self._uploads()

    def _runs(self, runs: Collection[str]) -> Iterator[Orphan]:
        base = f"{self.files.prefix}/runs/"
        store = f"s3://{self.session.bucket}/{self.files.prefix}"
        secrets = list_left_secrets(self.session, store, runs)
        forgotten = sorted({*self.files.folders(base), *secrets} - set(runs))
        living = self._living(forgotten)
        for run in forgotten:
            alive = run in living
            where = {"bucket": self.session.bucket, "prefix": f"{base}{run}/"}
            remove = (*secrets.get(run, ()), Request("runspec", "empty_prefix", where))
            yield Orphan(f"run {run}{', whose job is alive' if alive else ''}", remove, run, alive)

    def _living(self, forgotten: Sequence[str]) -> set[str]:
        """Return those whose job has not ended, from two listings: one may lack a job submitted just now.

        A job that starts after both listings finds that its run was destroyed, and exits.
        """
        living = self.jobs.alive() if forgotten else set()
        if not living.issuperset(forgotten):
            self.session.clock.sleep(self.session.timing.settle_s)
            living |= self.jobs.alive()
        return living

    def _definitions(self, made: Collection[str]) -> Iterator[Orphan]:
        pages = self.session.look("batch").get_paginator("describe_job_definitions")
        with translated("describe_job_definitions"):
            definitions = [
                d for page in pages.paginate(status="ACTIVE") for d in got(page, "jobDefinitions")
            ]
        for definition in definitions:
            name, arn = definition["jobDefinitionName"], definition["jobDefinitionArn"]
            if name.startswith(OURS) and name not in made:
                remove = batch("deregister_job_definition", jobDefinition=arn)
                yield Orphan(f"job definition {name}:{definition['revision']}", (remove,))

    def _things(self, kind: Kind, noun: str, key: str, made: Collection[str]) -> Iterator[Orphan]:
        pages = self.session.look("batch").get_paginator(kind.describe)
        with translated(kind.describe):
            things = [thing for page in pages.paginate() for thing in got(page, kind.listed)]
        for thing in things:
            name = thing[kind.name]
            if name.startswith(OURS) and name not in made and _tagged(thing):
                remove = deletion((noun, key), name)
                yield Orphan(f"{noun.replace('_', ' ')} {name}", (remove,))

    def machines(self, made: Collection[str]) -> Iterator[Orphan]:
        """Yield the EC2 resources of compute environments."""
        ec2 = self.session.look("ec2")
        pages = ec2.get_paginator("describe_launch_templates")
        with translated("describe_launch_templates"):
            templates = [t for page in pages.paginate() for t in got(page, "LaunchTemplates")]
        with translated("describe_placement_groups"):
            groups = got(ec2.describe_placement_groups(), "PlacementGroups")
        for noun, key, resources in (
            ("launch_template", "LaunchTemplateName", templates),
            ("placement_group", "GroupName", groups),
        ):
            for name in (thing[key] for thing in resources if thing.get("State") != "deleted"):
                if MACHINES.fullmatch(name) and name not in made:
                    remove = Request("ec2", f"delete_{noun}", {key: name})
                    yield Orphan(f"{noun.replace('_', ' ')} {name}", (remove,))

    def _objects(self, made: Collection[str]) -> Iterator[Orphan]:
        for kind in ("blobs", "inside"):
            for entry in self.files.listing(f"{self.files.prefix}/{kind}/"):
                key = entry["Key"]
                if key not in made:
                    remove = s3("delete_object", Bucket=self.session.bucket, Key=key)
                    yield Orphan(f"upload {key} ({entry['Size']:,} bytes)", (remove,))

    def _uploads(self) -> Iterator[Orphan]:
        """Yield unfinished uploads in parts, which cost as much as complete ones."""
        pages = self.session.look("s3").get_paginator("list_multipart_uploads")
        where = {"Bucket": self.session.bucket, "Prefix": f"{self.files.prefix}/"}
        with translated("list_multipart_uploads"):
            uploads = [u for page in pages.paginate(**where) for u in listed(page, "Uploads")]
        for upload in uploads:
            where = {"Bucket": self.session.bucket, "Key": upload["Key"]}
            remove = s3("abort_multipart_upload", **where, UploadId=upload["UploadId"])
            began_s: float = upload["Initiated"].timestamp()
            young = (self.session.clock.wall() - began_s) < self.session.timing.young_s
            yield Orphan(f"unfinished upload of {upload['Key']}", (remove,), alive=young)


def _tagged(thing: Mapping[str, Any]) -> bool:
    """Return whether the tag of runspec is set; a resource of others may have a similar name."""
    return any(key.startswith("runspec:") for key in thing.get("tags", {}))


def list_left_secrets(
    session: Session, where: str, runs: Collection[str]
) -> dict[str, list[Request]]:
    """Return deletions of the secrets of runs at the store *where* that are not among *runs*, by the run.

    Who may not list secrets has made none: `runspec policy` permits both together.
    """
    found: dict[str, list[Request]] = {}
    pages = session.look("secretsmanager").get_paginator("list_secrets")
    begins = [{"Key": "name", "Values": [f"{run_secrets.ROOT}/"]}]
    try:
        with translated("list_secrets"):
            secrets = [
                s for page in pages.paginate(Filters=begins) for s in got(page, "SecretList")
            ]
    except CredentialsError as exc:
        if code_of(exc) in FORBIDDEN:
            return {}
        raise
    for secret in secrets:
        own = {tag["Key"]: tag["Value"] for tag in secret.get("Tags", ())}
        run = own.get("runspec:run", "")
        if own.get("runspec:store") == where and run and run not in runs:
            found.setdefault(run, []).append(run_secrets.deletion(secret["Name"]))
    return found
