"""Find orphans at AWS: resources that runspec made and that no local record mentions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from runspec_aws.errors import got, listed, translated
from runspec_aws.infrastructure.compute_environments import deletion
from runspec_aws.lookup import ENVIRONMENT, QUEUE, Kind
from runspec_aws.naming import batch, s3
from runspec_aws.session.clients import Session
from runspec_aws.status.jobs import Jobs
from runspec_aws.store.objects import Objects
from runspec_jobs.provider import Orphan, Request

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
        yield from (found._replace(alive=found.alive or needed) for found in self._shared(made))

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
        forgotten = sorted(set(self.files.folders(base)) - set(runs))
        living = self._living(forgotten)
        for run in forgotten:
            alive = run in living
            where = {"bucket": self.session.bucket, "prefix": f"{base}{run}/"}
            remove = (Request("runspec", "empty_prefix", where),)
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
            found = [
                d for page in pages.paginate(status="ACTIVE") for d in got(page, "jobDefinitions")
            ]
        for definition in found:
            name, arn = definition["jobDefinitionName"], definition["jobDefinitionArn"]
            if name.startswith(OURS) and name not in made:
                remove = batch("deregister_job_definition", jobDefinition=arn)
                yield Orphan(f"job definition {name}:{definition['revision']}", (remove,))

    def _things(self, kind: Kind, noun: str, key: str, made: Collection[str]) -> Iterator[Orphan]:
        pages = self.session.look("batch").get_paginator(kind.describe)
        with translated(kind.describe):
            found = [thing for page in pages.paginate() for thing in got(page, kind.listed)]
        for thing in found:
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
        for noun, key, found in (
            ("launch_template", "LaunchTemplateName", templates),
            ("placement_group", "GroupName", groups),
        ):
            for name in (thing[key] for thing in found if thing.get("State") != "deleted"):
                if MACHINES.fullmatch(name) and name not in made:
                    remove = Request("ec2", f"delete_{noun}", {key: name})
                    yield Orphan(f"{noun.replace('_', ' ')} {name}", (remove,))

    def _objects(self, made: Collection[str]) -> Iterator[Orphan]:
        for kind in ("blobs", "inside"):
            for found in self.files.listing(f"{self.files.prefix}/{kind}/"):
                key = found["Key"]
                if key not in made:
                    remove = s3("delete_object", Bucket=self.session.bucket, Key=key)
                    yield Orphan(f"upload {key} ({found['Size']:,} bytes)", (remove,))

    def _uploads(self) -> Iterator[Orphan]:
        """Yield unfinished uploads in parts, which cost as much as complete ones."""
        pages = self.session.look("s3").get_paginator("list_multipart_uploads")
        where = {"Bucket": self.session.bucket, "Prefix": f"{self.files.prefix}/"}
        with translated("list_multipart_uploads"):
            found = [u for page in pages.paginate(**where) for u in listed(page, "Uploads")]
        for upload in found:
            where = {"Bucket": self.session.bucket, "Key": upload["Key"]}
            remove = s3("abort_multipart_upload", **where, UploadId=upload["UploadId"])
            young = self._age_s(upload) < self.session.timing.young_s
            yield Orphan(f"unfinished upload of {upload['Key']}", (remove,), alive=young)

    def _age_s(self, upload: Mapping[str, Any]) -> float:
        began_s: float = upload["Initiated"].timestamp()
        return self.session.clock.wall() - began_s


def _tagged(thing: Mapping[str, Any]) -> bool:
    """Return whether the tag of runspec is set; a resource of others may have a similar name."""
    return any(key.startswith("runspec:") for key in thing.get("tags", {}))
