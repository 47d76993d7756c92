"""Probes of AWS Batch: assumptions about lists, TerminateJob, attempts and logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from runspec_aws import plan
from runspec_aws.client import AwsClient
from runspec_aws.decision import decide
from runspec_aws.errors import got, translated
from runspec_aws.infrastructure import compute_environments
from runspec_aws.naming import batch
from runspec_aws.options import AwsOptions
from runspec_aws.probes.store import observation
from runspec_aws.status.poll import Job
from runspec_jobs.provider import AlreadyExists, Facts, RemoteError, Request, Spec, Unavailable
from runspec_jobs.provider.probe import Observation, ProbeContext, Verdict

MADE_S = 300.0  # for a compute environment and a queue to become VALID
SHOWN_S = 120.0  # for a request to have a visible effect
RUN_S = 900.0  # for a job to get a machine and to end
SPOT_S = 900.0  # time in which a job should get spot machines
PAUSE_S = 1.0
WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
REASON = "ended by a probe of runspec"
LAST = "the last line"
# It prints the names of the fields that the role's credentials endpoint returns, and no value.
ROLE = """
import json, os, urllib.request as web
e = os.environ.get
url = e("AWS_CONTAINER_CREDENTIALS_FULL_URI") or (
    "http://169.254.170.2" + os.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
token = e("AWS_CONTAINER_AUTHORIZATION_TOKEN")
ask = web.Request(url, headers={"Authorization": token} if token else {})
found = json.load(web.build_opener(web.ProxyHandler({})).open(ask, timeout=10))
print("role:", *sorted(name for name in found if found[name]))
"""
KEYS = {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
ATTEMPT = f"""
echo "attempt $AWS_BATCH_JOB_ATTEMPT"
command -v python3 >/dev/null || echo "no python3"
python3 -c '{ROLE}'
[ "$AWS_BATCH_JOB_ATTEMPT" = 1 ] && exit 75
echo "{LAST}"
"""
LISTEN = (
    "trap 'echo got SIGTERM; sleep 3; echo still running; exit 3' TERM; "
    "echo ready; i=0; while [ $i -lt 600 ]; do sleep 1; i=$((i+1)); done"
)


class Bench:
    """The resources that the probes of one session share: a queue that starts no jobs, others that do, and jobs."""

    def __init__(self, options: AwsOptions) -> None:
        self.options = options
        self.requests: dict[
            str, tuple[Request, ...]
        ] = {}  # the requests that made a queue, by its name
        self._queues: dict[str, str] = {}
        self._array = ""
        self._retried: Job = {}

    def queue(self, client: AwsClient, context: ProbeContext, kind: str) -> str:
        """Return the name of a queue: the profile's, or one made for this session.

        The kind `idle` is always made, and never starts jobs.
        """
        if kind != "idle" and self.options.queue:
            return self.options.queue
        if kind not in self._queues:
            self._queues[kind] = self._made(client, context, kind)
        return self._queues[kind]

    def _made(self, client: AwsClient, context: ProbeContext, kind: str) -> str:
        if not self.options.subnets:
            raise Unavailable("the profile has no `subnets`, which a compute environment needs")
        name, spot = f"runspec-{context.name}-{kind}", kind == "spot"
        needed = {"queue": None, "max_vcpus": 4, "fargate": self.options.fargate and not spot}
        wanted = spec("true", capacity="spot" if spot else "on-demand")
        options = self.options.model_copy(update=needed)
        made_steps = compute_environments.steps(decide(wanted, options), options)
        steps = {step.id: step.do for step in made_steps}
        (made,) = (do for key, do in steps.items() if key.startswith("environment-"))
        for which, noun in (
            (compute_environments.ENVIRONMENT, "compute-environment"),
            (compute_environments.QUEUE, "job-queue"),
        ):
            by_hand = (
                f"aws batch update-{noun} --{noun} {name} --state DISABLED, and when it is: "
                f"aws batch delete-{noun} --{noun} {name}"
            )
            context.note(f"{noun} {name}", by_hand, compute_environments.deletion(which, name))
        context.tell(f"making a compute environment and a queue: {name}")
        environment = made._replace(params={**made.params, "computeEnvironmentName": name})
        client.call(environment)
        _await(lambda: _valid(client, "compute_environments", name), context, MADE_S)
        order = [{"order": 1, "computeEnvironment": name}]
        named = {"jobQueueName": name, "computeEnvironmentOrder": order}
        queue = batch("create_job_queue", **{**steps["queue"].params, **named})
        client.call(queue)
        self.requests[name] = (environment, queue)
        _await(lambda: _valid(client, "job_queues", name), context, MADE_S)
        if kind == "idle":
            off = {"computeEnvironment": name, "state": "DISABLED"}
            client.call(batch("update_compute_environment", **off))
        return name

    def array(self, client: AwsClient, context: ProbeContext) -> str:
        """Return the id of an array job with two children that waits forever; it is submitted once."""
        if not self._array:
            queue = self.queue(client, context, "idle")
            self._array = submitted(
                client, context, queue, "array", "true", arrayProperties={"size": 2}
            )
        return self._array

    def retried(self, client: AwsClient, context: ProbeContext) -> Job:
        """Return the description of an ended job whose first attempt exited with 75; it is submitted once."""
        if not self._retried:
            queue = self.queue(client, context, "work")
            job = submitted(client, context, queue, "tried", ATTEMPT)
            self._retried = ended(client, context, job)
        return self._retried


def spec(text: str, *, nodes: int = 1, capacity: str = "on-demand") -> Spec:
    """Return a spec of the smallest job with two attempts."""
    fields = {"apiVersion": "runspec/v1", "name": "probe", "provider": "aws-batch", "run": text}
    cluster = {"cpus": 1, "nodes": nodes, "capacity": capacity}
    bounds = {"retry": {"attempts": 2}, "timeout": "15m"}
    return Spec.model_validate({**fields, **bounds, "cluster": cluster})


def submitted(
    client: AwsClient,
    context: ProbeContext,
    queue: str,
    kind: str,
    text: str,
    nodes: int = 1,
    **more: Any,
) -> str:
    """Submit a job that runs *text* in the image's shell, as runspec's definitions do; return its id."""
    name = f"runspec-{context.name}-{kind}"
    options = client.options.model_copy(update={"queue": queue, "files": "role"})
    steps = {step.id: step.do for step in plan.steps(spec(text, nodes=nodes), name, Facts(options))}
    content = {**steps["definition"].params, "jobDefinitionName": name}
    groups = content.get("nodeProperties", {}).get("nodeRangeProperties", ())
    for container in (
        content.get("containerProperties"),
        *(group["container"] for group in groups),
    ):
        if container is not None:
            container["command"] = ["/bin/sh", "-c", text]
    context.note(
        f"the job definition {name}",
        f"aws batch deregister-job-definition --job-definition {name}:1",
        batch("deregister_job_definition", jobDefinition=f"{name}:1"),
    )
    context.note(
        f"jobs {name} in {queue}",
        f"aws batch list-jobs --job-queue {queue} --filters name=JOB_NAME,values={name}, and for each: "
        "aws batch terminate-job --reason probe --job-id ID",
        Request("runspec", "end_jobs", {"queue": queue, "name": name}),
    )
    prefix = steps["record"].params["Key"].removesuffix("record.json")
    where = {"bucket": client.session.bucket, "prefix": prefix}
    by_hand = f"aws s3 rm --recursive s3://{where['bucket']}/{prefix}"
    context.note(f"the record of {name}", by_hand, Request("runspec", "empty_prefix", where))
    client.call(
        steps["record"]
    )  # with the record, `gc` on another machine recognises the job, and ends it
    answer = client.call(batch("register_job_definition", **content))
    arn = answer["jobDefinitionArn"]
    job = {**steps["job"].params, "jobDefinition": arn, **more}
    job.pop("containerOverrides", None)
    return str(client.call(batch("submit_job", **job))["jobId"])


def described(client: AwsClient, job: str) -> Job | None:
    return client.jobs.poller.describe([job], anew=True).get(job)


def ended(client: AwsClient, context: ProbeContext, job: str) -> Job:
    """Wait until *job* has ended, and return it. Raise Unavailable on timeout."""
    _await(
        lambda: (described(client, job) or {}).get("status") in ("SUCCEEDED", "FAILED"),
        context,
        RUN_S,
    )
    return described(client, job) or {}


def printed(client: AwsClient, stream: str) -> list[str]:
    """Return the lines of a log stream so far."""
    where = {"logGroupName": client.options.log_group, "logStreamName": stream}
    with translated("get_log_events"):
        answer = client.session.look("logs").get_log_events(**where, startFromHead=True)
    return [event["message"] for event in got(answer, "events")]


def _valid(client: AwsClient, noun: str, name: str) -> bool:
    key = "computeEnvironments" if noun == "compute_environments" else "jobQueues"
    with translated(f"describe_{noun}"):
        answer = getattr(client.session.look("batch"), f"describe_{noun}")(**{key: [name]})
    items = got(answer, key)
    if items and items[0]["status"] == "INVALID":
        raise Unavailable(f"{name} is INVALID: {items[0].get('statusReason', '')}")
    return bool(items) and items[0]["status"] == "VALID"


def _await(done: Callable[[], bool], context: ProbeContext, longest_s: float) -> float:
    """Wait until *done*, and return how long that took. Raise Unavailable after *longest_s*."""
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > longest_s:
            raise Unavailable(
                f"the probe waited {longest_s:.0f} s for the service without a result"
            )
        context.sleep(PAUSE_S)
    return time.monotonic() - began


def shown_at_once(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    queue = bench.queue(client, context, "idle")
    job = bench.array(client, context)
    name, began = f"runspec-{context.name}-array", time.monotonic()

    def listed() -> bool:
        pages = client.session.look("batch").get_paginator("list_jobs")
        by_name = [{"name": "JOB_NAME", "values": [name]}]
        with translated("list_jobs"):
            summaries = [
                summary
                for page in pages.paginate(jobQueue=queue, filters=by_name)
                for summary in got(page, "jobSummaryList")
            ]
        return any(summary["jobId"] == job for summary in summaries)

    _await(lambda: described(client, job) is not None, context, SHOWN_S)
    described_s = time.monotonic() - began
    _await(listed, context, SHOWN_S)
    listed_s = time.monotonic() - began
    seen = f"DescribeJobs shows a job {described_s:.1f} s after SubmitJob, ListJobs by name {listed_s:.1f} s after it"
    return observation(max(described_s, listed_s) <= client.timing.settle_s, seen)


def made_twice(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    name = bench.queue(client, context, "idle")
    results = []
    for request in bench.requests[name]:
        try:
            client.call(request)
            results.append(f"{request.operation} was accepted twice")
        except AlreadyExists:
            results.append(f"{request.operation} was refused")
        except RemoteError as exc:
            results.append(exc.message)
    valid = all(_valid(client, noun, name) for noun in ("compute_environments", "job_queues"))
    holds = valid and all(line.endswith("refused") for line in results)
    return observation(
        holds, f"{'; '.join(results)}; {'both are' if valid else 'not both are'} VALID"
    )


def waiting_child_ends(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    job = bench.array(client, context)
    child, other = f"{job}:0", f"{job}:1"
    _await(lambda: (described(client, child) or {}).get("status") == "RUNNABLE", context, SHOWN_S)
    terminated(client, child)
    ended_job = _settled(client, context, child)
    rest = (described(client, other) or {}).get("status", "nothing")
    reason = ended_job.get("statusReason", "")
    holds = (
        ended_job.get("status") == "FAILED"
        and reason.startswith(REASON)
        and rest not in ("SUCCEEDED", "FAILED")
    )
    return observation(
        holds, f"the child is {ended_job.get('status')} ({reason}), the other {rest}"
    )


def waiting_array_ends(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    job = bench.array(client, context)
    terminated(client, job)
    ended_job = _settled(client, context, job)
    reason = ended_job.get("statusReason", "")
    holds = ended_job.get("status") == "FAILED" and reason.startswith(REASON)
    return observation(holds, f"the array is {ended_job.get('status')} ({reason})")


def terminated(client: AwsClient, job: str) -> None:
    with translated("terminate_job"):
        client.session.look("batch").terminate_job(jobId=job, reason=REASON)


def _settled(client: AwsClient, context: ProbeContext, job: str) -> Job:
    """Return the description of *job* once it has ended, or after SHOWN_S if it has not."""
    end = time.monotonic() + SHOWN_S
    latest: Mapping[str, Any] = {}
    while latest.get("status") not in ("SUCCEEDED", "FAILED") and time.monotonic() < end:
        context.sleep(PAUSE_S)
        latest = described(client, job) or {}
    return latest


def code_75_is_retried(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    job = bench.retried(client, context)
    codes = [attempt.get("container", {}).get("exitCode") for attempt in job.get("attempts", ())]
    holds = (job.get("status"), codes) == ("SUCCEEDED", [75, 0])
    return observation(holds, f"{job.get('status')}, exit codes of its attempts: {codes}")


def attempts_have_logs(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    job = bench.retried(client, context)
    streams = [
        attempt.get("container", {}).get("logStreamName") for attempt in job.get("attempts", ())
    ]
    if not streams or None in streams:
        return observation(False, f"log streams of its attempts: {streams}")
    first = [(printed(client, name) or [""])[0] for name in streams]
    holds = len({*streams}) == 2 and [line[:9] for line in first] == ["attempt 1", "attempt 2"]
    return observation(
        holds, f"{len({*streams})} log streams, which begin with {[line[:9] for line in first]}"
    )


def credentials_are_given(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    job = bench.retried(client, context)
    names = [
        attempt.get("container", {}).get("logStreamName") for attempt in job.get("attempts", ())
    ]
    lines = printed(client, names[0]) if names and names[0] else []
    if not client.options.job_role or not lines or "no python3" in lines:
        message = "the profile has no job_role, the image has no python3, or the job did not run"
        return Observation(Verdict.UNKNOWN, message)
    printed_line = next((line for line in lines if line.startswith("role:")), lines[-1])
    return observation({*printed_line.split()[1:]} >= KEYS, f"the job printed '{printed_line}'")


def last_line_is_logged(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    queue = bench.queue(client, context, "work")
    text = f"i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done; echo {LAST}"
    ended_job = ended(client, context, submitted(client, context, queue, "lines", text))
    stream = ended_job.get("container", {}).get("logStreamName", "")
    if not stream:
        return Observation(
            Verdict.UNKNOWN, f"the job is {ended_job.get('status')} and has no log stream"
        )
    _await(lambda: LAST in printed(client, stream), context, SHOWN_S)
    late_s = client.jobs.poller.service_s() - ended_job.get("stoppedAt", 0) / 1000
    return observation(
        late_s <= client.timing.quiet_s + SLACK_S,
        f"the log has the last line {late_s:.1f} s after stoppedAt",
    )


SLACK_S = 2 * PAUSE_S  # the log may have the line for that long before a poll sees it


def sigterm_comes_first(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    queue = bench.queue(client, context, "work")
    job = submitted(client, context, queue, "told", LISTEN)

    def lines() -> list[str]:
        name = (described(client, job) or {}).get("container", {}).get("logStreamName")
        return printed(client, name) if name else []

    _await(lambda: "ready" in lines(), context, RUN_S)
    terminated(client, job)
    ended(client, context, job)
    context.sleep(client.timing.quiet_s)
    seen = [line for line in ("got SIGTERM", "still running") if line in lines()]
    return observation(len(seen) == 2, f"after TerminateJob the program printed {seen}")


def gang_on_spot(client: AwsClient, context: ProbeContext, bench: Bench) -> Observation:
    queue = bench.queue(client, context, "spot")
    try:
        job = submitted(client, context, queue, "gang", "true", nodes=2)
    except RemoteError as exc:
        return observation(True, f"SubmitJob refuses the job: {exc.message}")
    latest: Job = {}
    end = time.monotonic() + SPOT_S
    while latest.get("status", "RUNNABLE") in WAITING and time.monotonic() < end:
        context.sleep(PAUSE_S)
        latest = described(client, job) or {}
    seen = f"after at most {SPOT_S:.0f} s the job is {latest.get('status')} ({latest.get('statusReason', '')})"
    return observation(latest.get("status") in WAITING, seen)
