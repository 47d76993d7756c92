"""The client of the AWS Batch provider: it sends the requests of a plan, and finds what they made."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec_aws import lookup, resources, timing
from runspec_aws.cleanup import OrphanFinder, Reconciler
from runspec_aws.errors import code_of, translated
from runspec_aws.infrastructure import built_image
from runspec_aws.logs import CloudStream, Logs
from runspec_aws.naming import s3
from runspec_aws.options import AwsOptions
from runspec_aws.session import Session
from runspec_aws.status.jobs import Jobs
from runspec_aws.store import objects, publish
from runspec_aws.store.layout import AGENT_SHA256
from runspec_aws.task_stop import Releases, Sender
from runspec_aws.timing import Clock, Timing
from runspec_images.image_build import build_and_push
from runspec_images.image_plan import BUILD
from runspec_jobs.provider import (
    Bundle,
    Client,
    Conflict,
    CredentialsError,
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
    Status,
    Step,
    Submits,
    requests_of,
)
from runspec_jobs.provider.machines import Usage
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk

NOT_EMPTY = "RepositoryNotEmptyException"
STATE = "state.json"  # the state of a run in the store, with which other machines adopt it

# The fields that are kept of answers of calls that make something. An answer without them was cut off and has an
# unknown outcome.
KEPT: Mapping[str, tuple[str, ...]] = {
    "submit_job": ("jobArn", "jobId", "jobName"),
    "register_job_definition": ("jobDefinitionArn", "jobDefinitionName", "revision"),
    "create_compute_environment": ("computeEnvironmentArn", "computeEnvironmentName"),
    "create_job_queue": ("jobQueueArn", "jobQueueName"),
    "create_secret": ("ARN", "Name"),
    "put_secret_value": ("VersionId",),
}


MOST_OVERRIDES = 8192  # https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
OWN_OVERRIDES = 1024  # the variables AWS_BATCH_... that the service adds


def connect(facts: Facts) -> Client:
    return AwsClient(facts.options, timing.DEFAULT)


class AwsClient:
    """A client of AWS Batch, S3, EC2 and CloudWatch Logs."""

    def __init__(
        self,
        options: AwsOptions,
        timing: Timing = timing.DEFAULT,
        clock: Clock = timing.CLOCK,
    ) -> None:
        self.options, self.timing, self.clock = options, timing, clock
        self.session = Session(options, timing, clock)
        self.files = objects.Objects(
            self.session, options.prefix, options.signed_for, versioned=bool(options.versioned)
        )
        self.jobs = Jobs(self.session, self.files)
        self.reconciler = Reconciler(self.jobs)
        self.releases = Releases(self.jobs)
        self.logs = Logs(self.session, self.jobs)
        self._tell: Callable[[str], None] = lambda line: None

    @property
    def poll_s(self) -> float:
        return self.timing.poll_s

    def call(self, request: Request) -> Response:
        if request.operation == "empty_prefix":
            self.files.empty(request.params["prefix"])
            return {}
        if request.operation == "remove_upload":
            self.files.remove(request.params["key"])
            return {}
        if request.operation == "delete_object" and self.files.versioned:
            self.files.remove(request.params["Key"])
            return {}
        if request.operation == "end_jobs":
            self.jobs.end_named(request.params["queue"], request.params["name"])
            return {}
        if request.operation == "in_turn":
            for part in requests_of(request):
                self.undo(part)
            return {}
        if lookup.undoes(request):
            return self.undo(request)
        answer = self.send(request)
        if request.operation == "submit_job":
            self.jobs.remember(answer["jobName"], answer["jobId"])
        return answer

    def send(self, request: Request) -> Response:
        asked = self.files.with_urls(request.params)
        params = {k: _body(v) if k == "Body" else v for k, v in asked.items()}
        message = f"{request.service} {request.operation}"
        if request.operation == "submit_job":
            _refuse_long(params)
        if request.operation == "put_secret_value":
            _refuse_empty(params)
        self.session.valid.clear()
        try:
            with translated(message):
                answer = getattr(self.session.make(request.service), request.operation)(**params)
        except RemoteError as exc:
            types = params.get("computeResources", {}).get("instanceTypes", ())
            exc.hint = exc.hint or resources.suggest_types(exc.message, types)
            raise
        kept = KEPT.get(request.operation, ())
        if any(key not in answer for key in kept):
            raise NoAnswer(f"{message}: the reply was cut off")
        return {key: answer[key] for key in kept} or lookup.named(request)

    def undo(self, request: Request) -> Response:
        """Delete something, after deletions that have already begun, and wait until it no longer exists."""
        if not lookup.there(self.session, request):
            return {}
        if request.operation in ("update_job_queue", "delete_job_queue"):
            self.jobs.refuse_if_used(request.params["jobQueue"])
        self._await(lambda: not lookup.busy(self.session, request), request)
        try:
            self.send(request)
        except (
            RemoteError
        ) as exc:  # "not found" may answer a repeated call whose first attempt succeeded
            if code_of(exc) == NOT_EMPTY:  # it has images of other runs
                return {}
            if lookup.stays(self.session, request):
                raise
        if request.operation.startswith(("delete", "deregister")):
            self._await(lambda: not lookup.there(self.session, request), request)
        return {}

    def _await(self, done: Callable[[], bool], request: Request) -> None:
        pause_s, longest_s = self.timing.first_pause_s, self.timing.gone_s
        end = self.clock.monotonic() + longest_s
        while not done():
            if self.clock.monotonic() > end:
                raise NoAnswer(f"{request.operation}: not finished after {longest_s:.0f} s")
            self.clock.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)

    def find(self, step: Step) -> Response | None:
        if step.do.operation == "submit_job":
            return self.jobs.find(step.do.params["jobName"])
        return lookup.find(self.session, step.do)

    def settled(self, step: Step) -> bool:
        return lookup.settled(self.session, step.do)

    def listen(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        if request.operation == BUILD:
            login = built_image.login(self.session, request.params["image"])
            return build_and_push(bundle, request.params, login, self._tell, progress)
        self.files.put_folder(request.params["Key"], bundle, progress)
        return lookup.named(request)

    def state(self, run: str) -> Status:
        return self.jobs.status(run)

    def cancel(self, run: str) -> None:
        self.jobs.end(run)

    def reconcile(self, run: str) -> Sequence[str]:
        return self.reconciler.reconcile(run)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        self.jobs.stop(run, tasks)

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        return self.releases.release(run, away, back, Sender(submits, self.call))

    def changes(self, run: str) -> Sequence[MembershipChange]:
        return self.jobs.kept.changes(run)

    def remember(self, run: str, answers: Mapping[str, Response]) -> None:
        if "job" in answers:
            self.jobs.remember(run, answers["job"]["jobId"])

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        return OrphanFinder(self.session, self.files, self.jobs).find_orphans(runs, made)

    def keep_state(self, run: str, content: bytes) -> None:
        where = {"Bucket": self.session.bucket, "Key": self.files.key("runs", run, STATE)}
        self.send(s3("put_object", **where, Body=content, ContentType="application/json"))
        if not self.session.on_amazon_s3:
            self.files.refuse_without_conditions(where["Key"], content)

    def kept_state(self, run: str) -> bytes | None:
        return self.files.read("runs", run, STATE)

    def kept_runs(self) -> Sequence[str]:
        return list(self.files.folders(self.files.key("runs", "")))

    def streams(self, run: str) -> Sequence[Stream]:
        return self.logs.streams(run)

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return self.files.outputs(run)

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        assert isinstance(stream, CloudStream), "BUG: it is not a stream of this client"
        return stream.timed(position)

    def places(self, run: str) -> Places:
        outputs = f"s3://{self.session.bucket}/{self.options.prefix}/runs/{run}/outputs"
        return Places(f"CloudWatch Logs: {self.options.log_group}", outputs)

    def usage(self, run: str, most: int | None) -> Usage:
        return self.jobs.kept.usage(run, most)

    def publish(self, run: str) -> Sequence[str]:
        return publish.publish(self.files, run)


def _body(value: Any) -> Any:
    """Return the bytes to send: text as it is, lists as lines, and the agent by its hash."""
    if not isinstance(value, Mapping):
        return value.encode() if isinstance(value, str) else value
    if "lines" in value:
        return "".join(f"{''.join(line)}\n" for line in value["lines"]).encode()
    if value["$inside"] != AGENT_SHA256:
        raise Conflict(
            "another version of runspec planned this run",
            "use that version, or apply --new",
        )
    return pack_agent()


def _refuse_empty(params: Mapping[str, Any]) -> None:
    """Raise CredentialsError for a value without a character, which a CI system gives for a secret that is not set.

    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html
    """
    if not params["SecretString"]:
        variable = params["SecretId"].rpartition("/")[2]
        raise CredentialsError(
            f"the secret for {variable} is empty, and Secrets Manager takes no empty value",
            "set it and repeat the command, or remove it from `secrets`",
        )


def _refuse_long(params: Mapping[str, Any]) -> None:
    """Raise RemoteError for overrides that SubmitJob accepts, and with which the job then fails.

    See docs/unverified.md, aws-39. Only a signed URL can be that long, by the token of temporary credentials.
    """
    nodes = params.get("nodeOverrides", {}).get("nodePropertyOverrides", ())
    for own in (
        params.get("containerOverrides"),
        *(override.get("containerOverrides") for override in nodes),
    ):
        count = len(json.dumps(own or {}).encode())
        if count > MOST_OVERRIDES - OWN_OVERRIDES:
            message = f"submit_job: the container overrides have {count:,} bytes"
            limit = f"AWS Batch takes {MOST_OVERRIDES:,}, of which its own variables need up to {OWN_OVERRIDES:,}"
            hint = "use credentials with a shorter session token, or set files: role in the profile"
            raise RemoteError(f"{message}, and {limit}", hint)
