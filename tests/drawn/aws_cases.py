"""For each operation that our client of AWS calls: the way through the client's methods to it, and what is right."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from runspec_aws import doctor
from runspec_aws.client import AwsClient
from runspec_aws.infrastructure import built_image
from runspec_aws.infrastructure.compute_environments import (
    ENVIRONMENT as ENVIRONMENTS,
    QUEUE as QUEUES,
    deletion,
)
from runspec_aws.options import AwsOptions
from runspec_aws.status.nodes import STATES
from runspec_images.registry_logins import Login
from runspec_jobs.provider import (
    Conflict,
    CredentialsError,
    Finding,
    NoAnswer,
    RemoteError,
    Request,
    RunspecError,
    Scope,
    State,
    Step,
)
from tests.drawn.aws_account import ARN, BUCKET, JOB, PREFIX, QUEUE, RUN, STATUSES, Account, World
from tests.drawn.aws_truths import (
    DEFINITION,
    ENVIRONMENT,
    FAILED_WITH,
    FSX,
    GROUP,
    PLACEMENT,
    REGISTRY,
    REPOSITORY,
    SECRET,
    SECRET_ARN,
    SUBNET,
    TEMPLATE,
)
from tests.drawn.schema import UNKNOWN_ENUM
from tests.support.saved_outputs import manifest_of

ROLE = "arn:aws:iam::123456789012:role/r"
OPTIONS: dict[str, Any] = {
    "region": "eu-central-1",
    "bucket": BUCKET,
    "prefix": PREFIX,
    "job_role": ROLE,
    "instance_role": ROLE.replace("role/", "instance-profile/"),
    "subnets": [SUBNET],
    "security_groups": [GROUP],
    "instance_types": ["m5.large", "c5.large"],
    "image": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/img:1",
    "shared": {"data": f"fsx:{FSX}:abcdwxyz"},
    "max_vcpus": 16,
}


class Place(NamedTuple):
    """What a case goes through: a client of the account, and the account."""

    client: AwsClient
    account: Account
    folder: Path


class Case(NamedTuple):
    """A way to an operation. *good* says whether a result is right; refusals by *absent* mean that nothing is there."""

    operation: str
    way: str
    drive: Callable[[Place], Any]
    good: Callable[[Account, Any], bool]
    worlds: st.SearchStrategy[World] = st.just(World())
    absent: frozenset[str] = frozenset()
    gone: Callable[[Account, Any], bool] = lambda account, found: found is None
    fair: Callable[[Any], bool] = lambda found: False  # right where the answer lacks a member
    around: frozenset[str] = frozenset()  # refusals that the client knows a way around
    lenient: bool = False  # what goes wrong is left out of the result, which stands without it

    @property
    def name(self) -> str:
        return f"{self.operation}, {self.way}"


def step(service: str, operation: str, **params: Any) -> Step:
    return Step("s", "t", Scope.SITE, Request(service, operation, params))


def pages(*names: str) -> st.SearchStrategy[tuple[tuple[str, ...], ...]]:
    """Return a strategy for all ways to cut *names* into pages, some of which are empty."""
    cuts = st.lists(st.integers(0, len(names)), max_size=3).map(sorted)

    def cut(at: list[int]) -> tuple[tuple[str, ...], ...]:
        ends = [0, *at, len(names)]
        return tuple(names[a:b] for a, b in itertools.pairwise(ends))

    return cuts.map(cut)


def worlds(**drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[World]:
    return st.builds(World, **drawn)


# Jobs

EVERY_STATUS = st.sampled_from((*STATUSES, UNKNOWN_ENUM))
RUNS = worlds(status=EVERY_STATUS, shape=st.sampled_from(("single", "array", "nodes")))


def state(place: Place) -> Any:
    place.client.remember(RUN, {"job": {"jobId": JOB}})
    return place.client.state(RUN)


def right_state(account: Account, found: Any) -> bool:
    wanted = STATES.get(account.world.status)
    if wanted is None:
        return found.state in (State.WAITING, State.RUNNING)
    code = {State.SUCCEEDED: 0, State.FAILED: FAILED_WITH}.get(wanted)
    said = account.drawn.kind == "lacking" or found.exit_code == code
    return bool(found.state is wanted and said)


def cancel(place: Place) -> Any:
    place.client.remember(RUN, {"job": {"jobId": JOB}})
    place.client.cancel(RUN)
    return [call.params["jobId"] for call in place.account.called("TerminateJob")]


def right_cancel(account: Account, found: Any) -> bool:
    return bool(found == [] if account.world.status in ("SUCCEEDED", "FAILED") else found == [JOB])


ARRAYS = worlds(status=EVERY_STATUS, shape=st.just("array"))


def watched(place: Place) -> Any:
    """Follow an array whose children change between two looks; of each look, return the state."""
    place.client.remember(RUN, {"job": {"jobId": JOB}})
    found = [place.client.state(RUN)]
    place.client.jobs.poller.forget(JOB)
    return [*found, place.client.state(RUN)]


def right_watched(account: Account, found: Any) -> bool:
    return all(right_state(account, one) for one in found)


def stop(place: Place) -> Any:
    place.client.remember(RUN, {"job": {"jobId": JOB}})
    place.client.stop(RUN, {1})
    return [call.params["jobId"] for call in place.account.called("TerminateJob")]


def stop_both(place: Place) -> Any:
    place.client.remember(RUN, {"job": {"jobId": JOB}})
    place.client.stop(RUN, {0, 1})
    return [call.params["jobs"] for call in place.account.called("TerminateJobs")]


def right_both(account: Account, found: Any) -> bool:
    ended = account.world.status in ("SUCCEEDED", "FAILED")
    return bool(found == [] if ended else list(map(sorted, found)) == [[f"{JOB}:0", f"{JOB}:1"]])


def right_stop(account: Account, found: Any) -> bool:
    ended = account.world.status in ("SUCCEEDED", "FAILED")
    wished = any(call.params["path"].endswith("/stop/1") for call in account.called("PutObject"))
    return bool(found == [] if ended else found == [f"{JOB}:1"] and wished)


def found_job(place: Place) -> Any:
    return place.client.find(step("batch", "submit_job", jobName=RUN))


def right_job(account: Account, found: Any) -> bool:
    there = any(name == JOB for page in account.world.pages for name in page)
    return bool(found["jobId"] == JOB if there else found is None)


FOUND = worlds(pages=pages("other", JOB, "another") | pages("other") | pages(JOB))


def called(request: Request) -> Callable[[Place], Any]:
    return lambda place: place.client.call(request)


def answers(**wanted: Any) -> Callable[[Account, Any], bool]:
    return lambda account, found: dict(found) == wanted


# What is made and taken away


def undone(request: Request, *operations: str) -> Callable[[Place], Any]:
    """Take something away; return which of *operations* have been carried out."""

    def drive(place: Place) -> Any:
        try:
            place.client.call(request)
        except Conflict:
            return "in use"
        return [name for name in operations if name in place.account.done]

    return drive


def right_undo(*operations: str) -> Callable[[Account, Any], bool]:
    return lambda account, found: found == (list(operations) if account.world.there else [])


def right_repository(account: Account, found: Any) -> bool:
    """Return whether a repository was deleted, or was left because it has images of other runs."""
    refusal = account.drawn.refusal if account.drawn.kind == "refused" else None
    is_kept = refusal is not None and refusal.code == NOT_EMPTY and account.met
    return bool(found == []) if is_kept else right_undo("DeleteRepository")(account, found)


THERE = worlds(there=st.booleans(), pages=st.just(()) | st.just(((),)))
EMPTY_QUEUE = worlds(there=st.booleans(), pages=pages())
QUEUE_OFF, QUEUE_GONE = ("UpdateJobQueue", "DeleteJobQueue")


def in_use(account: Account, found: Any) -> bool:
    return bool(found == "in use" if any(account.world.pages) else found == [QUEUE_OFF, QUEUE_GONE])


def looked(one: Step) -> Callable[[Place], Any]:
    return lambda place: place.client.find(one)


def seen(account: Account, found: Any) -> bool:
    return (found is not None) == account.world.there


def seen_well(account: Account, found: Any) -> bool:
    there = account.world.there and account.world.health not in ("DELETING", "DELETED")
    return (found is not None) == there


def ready(one: Step) -> Callable[[Place], Any]:
    def drive(place: Place) -> Any:
        try:
            return place.client.settled(one)
        except RemoteError as exc:
            if "is invalid" in exc.message:
                return "never"
            raise

    return drive


def right_ready(account: Account, found: Any) -> bool:
    if account.world.health == "INVALID":
        return bool(found == "never")
    return bool(found == ((account.world.health, account.world.state) == ("VALID", "ENABLED")))


HEALTH = ("CREATING", "UPDATING", "DELETING", "DELETED", "VALID", "INVALID", UNKNOWN_ENUM)
HEALTHS = worlds(
    health=st.sampled_from(HEALTH),
    state=st.sampled_from(("ENABLED", "DISABLED")),
    there=st.just(True),
)
SEEN = worlds(health=st.sampled_from(HEALTH), there=st.booleans())

MAKE_QUEUE = step("batch", "create_job_queue", jobQueueName=QUEUE)
MAKE_ENVIRONMENT = step("batch", "create_compute_environment", computeEnvironmentName=ENVIRONMENT)
NOWHERE = frozenset({"NoSuchKey", "NotFound", "404"})
NOT_EMPTY = "RepositoryNotEmptyException"
NO_REPOSITORY = frozenset({"RepositoryNotFoundException"})
NO_IMAGE = frozenset({"RepositoryNotFoundException", "ImageNotFoundException"})
NO_SECRET = frozenset({"ResourceNotFoundException"})


# Logs

LINES = ("one", "zwei", "三", "", "four\nand more", "𝄞")


def log(place: Place) -> Any:
    place.client.remember(RUN, {"job": {"jobId": JOB}})
    data = b""
    for stream in place.client.streams(RUN):
        position = None
        while (chunk := stream.read(position)).data or chunk.more:
            data, position = data + chunk.data, chunk.position
            if not chunk.data:
                place.client.clock.sleep(1.0)  # which passes at once
    return data


def right_log(account: Account, found: Any) -> bool:
    texts = [text for page in account.world.pages for text in page]
    return bool(found == "".join(f"{text}\n" for text in texts).encode())


LOGS = worlds(status=st.just("SUCCEEDED") | st.just("RUNNING"), pages=pages(*LINES))


# Files

BASE = f"{PREFIX}/runs/{RUN}/"
MANIFEST = f"{BASE}outputs/model/0/0/.runspec/manifest.json"
FILE = f"{BASE}outputs/model/0/0/a.bin"
DATA = bytes(range(256)) * 8
LISTED = manifest_of({"a.bin": DATA})
SAVED = {MANIFEST: LISTED, FILE: DATA}
OUTPUTS = worlds(files=st.just(SAVED), pages=pages(f"{BASE}outputs/x", MANIFEST, FILE))


def outputs(place: Place) -> Any:
    found = {}
    for file in place.client.outputs(RUN):
        with file.open() as stream:
            found[file.path] = stream.read()
    return found


def right_outputs(account: Account, found: Any) -> bool:
    return bool(found == {"a.bin": DATA})


def emptied(place: Place) -> Any:
    place.client.call(Request("runspec", "empty_prefix", {"prefix": BASE}))
    return b"".join(call.params["body"] for call in place.account.called("DeleteObjects"))


def right_emptied(account: Account, found: Any) -> bool:
    return all(name.encode() in found for page in account.world.pages for name in page)


def emptied_of_versions(place: Place) -> Any:
    place.client.files.versioned = True
    return emptied(place)


def right_versions(account: Account, found: Any) -> bool:
    names = [name for page in account.world.pages for name in page]
    return all(f"{name}-{end}".encode() in found for name in names for end in ("v", "m"))


def litter(place: Place) -> Any:
    return _litter(place, [])


def litter_beside(place: Place) -> Any:
    """Look for litter where all runs are known."""
    return _litter(place, [name for page in place.account.world.pages for name in page])


def _litter(place: Place, runs: list[str]) -> Any:
    found = list(place.client.find_orphans(runs, []))
    return {one.what.partition(" (")[0]: one.alive for one in found}


def litter_of(*names: str) -> Callable[[Account, Any], bool]:
    return lambda account, found: set(names) <= set(found)


def alive(account: Account, found: Any) -> bool:
    """A run without a record, whose job is alive, is said to be alive."""
    return all(
        found.get(f"run {name}, whose job is alive") is True
        for page in account.world.pages
        for name in page
    )


UNFINISHED = worlds(pages=st.just((("1",),)))


def removed(place: Place) -> Any:
    params = {"bucket": BUCKET, "key": "p/blobs/x"}
    place.client.call(Request("runspec", "remove_upload", params))
    aborted = [call.params["uploadId"] for call in place.account.called("AbortMultipartUpload")]
    return aborted, "DeleteObject" in place.account.done


def right_removed(account: Account, found: Any) -> bool:
    return bool(found == ([f"u-{n}" for page in account.world.pages for n in page], True))


# What doctor says

OFFERED = worlds(pages=pages("m5.large", "c5.large"))


def examined(**more: Any) -> Callable[[Place], Any]:
    options = AwsOptions.model_validate({**OPTIONS, **more})
    return lambda place: list(doctor.examine(options))


def all_well(account: Account, found: Any) -> bool:
    return all(one.ok for one in found)


def bad(found: Any) -> bool:
    """Say whether a list of findings has one that is not well, with what to do about it."""
    return bool(wrong(found)) and all(one.what and one.hint for one in wrong(found))


def wrong(found: Any) -> list[Finding]:
    return [one for one in found if isinstance(one, Finding) and not one.ok]


def cases() -> Iterator[Case]:
    yield Case("DescribeJobs", "state", state, right_state, RUNS)
    yield Case("DescribeJobs", "cancel", cancel, right_cancel, worlds(status=EVERY_STATUS))
    nothing: Callable[[Any], bool] = lambda found: not found  # noqa: E731 - no stream is named yet
    yield Case("DescribeJobs", "logs", log, right_log, LOGS, fair=nothing)
    yield Case("DescribeJobs", "array", watched, right_watched, ARRAYS)
    yield Case("DescribeJobs", "stop", stop, right_stop, ARRAYS)
    yield Case("TerminateJob", "stop", stop, right_stop, ARRAYS)
    yield Case("TerminateJobs", "stop", stop_both, right_both, ARRAYS)
    yield Case("PutObject", "stop", stop, right_stop, ARRAYS)
    yield Case("ListJobs", "find", found_job, right_job, FOUND)
    yield Case("ListJobs", "gc", litter, alive, worlds(pages=pages("run-1", "run-2")))
    off = deletion(QUEUES, QUEUE)
    yield Case(
        "ListJobs",
        "destroy --site",
        undone(off, QUEUE_OFF, QUEUE_GONE),
        in_use,
        worlds(pages=pages("x") | pages()),
    )
    submit = Request("batch", "submit_job", {"jobName": RUN, "jobQueue": "q", "jobDefinition": "d"})
    made = {"jobArn": f"{ARN}:job/{JOB}", "jobId": JOB, "jobName": RUN}
    yield Case("SubmitJob", "call", called(submit), answers(**made))
    yield Case("TerminateJob", "cancel", cancel, right_cancel)
    yield from making()
    yield from taking_away()
    yield from looking()
    absent = frozenset({"ResourceNotFoundException"})  # nothing was printed yet
    yield Case(
        "GetLogEvents",
        "logs",
        log,
        right_log,
        LOGS,
        absent,
        lambda account, found: right_log(account, found) or found == b"",
        around=frozenset({"InvalidParameterException"}),  # a token that is too old
    )
    yield from objects()
    yield from advice()


def making() -> Iterator[Case]:
    request = Request(
        "batch", "register_job_definition", {"jobDefinitionName": DEFINITION, "type": "container"}
    )
    arn = f"{ARN}:job-definition/{DEFINITION}:3"
    good = answers(jobDefinitionArn=arn, jobDefinitionName=DEFINITION, revision=3)
    yield Case("RegisterJobDefinition", "call", called(request), good)
    request = Request(
        "batch",
        "create_compute_environment",
        {"computeEnvironmentName": ENVIRONMENT, "type": "MANAGED"},
    )
    arn = f"{ARN}:compute-environment/{ENVIRONMENT}"
    good = answers(computeEnvironmentArn=arn, computeEnvironmentName=ENVIRONMENT)
    yield Case("CreateComputeEnvironment", "call", called(request), good)
    request = Request("batch", "create_job_queue", {"jobQueueName": QUEUE, "priority": 1})
    good = answers(jobQueueArn=f"{ARN}:job-queue/{QUEUE}", jobQueueName=QUEUE)
    yield Case("CreateJobQueue", "call", called(request), good)
    request = Request("ec2", "create_placement_group", {"GroupName": PLACEMENT})
    yield Case("CreatePlacementGroup", "call", called(request), answers(GroupName=PLACEMENT))
    request = Request(
        "ec2",
        "create_launch_template",
        {"LaunchTemplateName": TEMPLATE, "LaunchTemplateData": {"ImageId": "ami-1"}},
    )
    good = answers(LaunchTemplateName=TEMPLATE)
    yield Case("CreateLaunchTemplate", "call", called(request), good)
    where = {"repositoryName": REPOSITORY}
    request = Request("ecr", "create_repository", where)
    yield Case("CreateRepository", "call", called(request), answers(**where))
    token: Callable[[Account, Any], bool] = lambda account, found: found == Login("AWS", "pw")  # noqa: E731
    yield Case("GetAuthorizationToken", "login", logged_in, token)
    request = Request("secretsmanager", "create_secret", {"Name": SECRET})
    good = answers(ARN=SECRET_ARN, Name=SECRET)
    yield Case("CreateSecret", "call", called(request), good)
    value = {"SecretId": SECRET, "SecretString": "x"}
    request = Request("secretsmanager", "put_secret_value", value)
    yield Case("PutSecretValue", "call", called(request), answers(VersionId="v1"))


def taking_away() -> Iterator[Case]:
    off = deletion(QUEUES, QUEUE)
    names = (QUEUE_OFF, QUEUE_GONE)
    for operation in (*names, "DescribeJobQueues"):
        yield Case(
            operation, "destroy --site", undone(off, *names), right_undo(*names), EMPTY_QUEUE
        )
    off, names = (
        deletion(ENVIRONMENTS, ENVIRONMENT),
        (
            "UpdateComputeEnvironment",
            "DeleteComputeEnvironment",
        ),
    )
    for operation in (*names, "DescribeComputeEnvironments"):
        yield Case(operation, "destroy --site", undone(off, *names), right_undo(*names), THERE)
    for service, request, params, name, look in (
        (
            "batch",
            "deregister_job_definition",
            {"jobDefinition": f"{ARN}:job-definition/{DEFINITION}:3"},
            "DeregisterJobDefinition",
            "DescribeJobDefinitions",
        ),
        ("s3", "delete_object", {"Bucket": BUCKET, "Key": "p/k"}, "DeleteObject", "HeadObject"),
        (
            "ec2",
            "delete_placement_group",
            {"GroupName": PLACEMENT},
            "DeletePlacementGroup",
            "DescribePlacementGroups",
        ),
        (
            "ec2",
            "delete_launch_template",
            {"LaunchTemplateName": TEMPLATE},
            "DeleteLaunchTemplate",
            "DescribeLaunchTemplates",
        ),
    ):
        drive = undone(Request(service, request, params), name)
        for operation in (name, look):
            yield Case(
                operation,
                "destroy",
                drive,
                right_undo(name),
                THERE,
                NOWHERE if operation == "HeadObject" else frozenset(),
                lambda account, found: found == ["DeleteObject"][: account.drawn.at],
            )

    gone = {"SecretId": SECRET, "ForceDeleteWithoutRecovery": True}
    drive = undone(Request("secretsmanager", "delete_secret", gone), "DeleteSecret")
    nothing: Callable[[Account, Any], bool] = lambda account, found: found == []  # noqa: E731
    for operation, absent in (("DeleteSecret", frozenset[str]()), ("DescribeSecret", NO_SECRET)):
        right = right_undo("DeleteSecret")
        yield Case(operation, "destroy", drive, right, THERE, absent, nothing)

    one = {"repositoryName": REPOSITORY}
    image: dict[str, Any] = {**one, "imageIds": [{"imageTag": "t"}]}
    for request, name, look, absent in (
        ("batch_delete_image", "BatchDeleteImage", "DescribeImages", NO_IMAGE),
        ("delete_repository", "DeleteRepository", "DescribeRepositories", NO_REPOSITORY),
    ):
        params = image if name == "BatchDeleteImage" else one
        drive = undone(Request("ecr", request, params), name)
        right, around = right_undo(name), frozenset[str]()
        if name == "DeleteRepository":  # one with images of other runs stays
            right, around = right_repository, frozenset({NOT_EMPTY})
        yield Case(name, "destroy --shared", drive, right, THERE, around=around)
        yield Case(look, "destroy --shared", drive, right_undo(name), THERE, absent, nothing)


def logged_in(place: Place) -> Any:
    return built_image.login(place.client.session, f"{REGISTRY}/{REPOSITORY}:t")


def looking() -> Iterator[Case]:
    one = step("ecr", "create_repository", repositoryName=REPOSITORY)
    yield Case("DescribeRepositories", "find", looked(one), seen, THERE, NO_REPOSITORY)
    make = step("secretsmanager", "create_secret", Name=SECRET)
    yield Case("DescribeSecret", "find", looked(make), seen, THERE, NO_SECRET)
    for operation, one in (
        ("DescribeJobQueues", MAKE_QUEUE),
        ("DescribeComputeEnvironments", MAKE_ENVIRONMENT),
    ):
        yield Case(operation, "find", looked(one), seen_well, SEEN)
        yield Case(operation, "settled", ready(one), right_ready, HEALTHS)
    for operation, one in (
        (
            "DescribeJobDefinitions",
            step("batch", "register_job_definition", jobDefinitionName=DEFINITION),
        ),
        ("HeadObject", step("s3", "put_object", Bucket=BUCKET, Key="p/k")),
        ("DescribePlacementGroups", step("ec2", "create_placement_group", GroupName=PLACEMENT)),
        (
            "DescribeLaunchTemplates",
            step("ec2", "create_launch_template", LaunchTemplateName=TEMPLATE),
        ),
    ):
        absent = NOWHERE if operation == "HeadObject" else frozenset[str]()
        yield Case(operation, "find", looked(one), seen, THERE, absent)


def objects() -> Iterator[Case]:
    absent = frozenset({"NoSuchKey"})
    gone: Callable[[Account, Any], bool] = lambda account, found: found.state is State.GONE  # noqa: E731
    yield Case("GetObject", "state", state, right_state, RUNS, absent, gone)
    yield Case("GetObject", "outputs", outputs, right_outputs, OUTPUTS)
    put = Request("s3", "put_object", {"Bucket": BUCKET, "Key": "p/k", "Body": "x"})
    yield Case("PutObject", "call", called(put), answers(Key="p/k"))
    yield Case("PutObject", "cancel", cancel, right_cancel)
    some = worlds(pages=pages("a", "b", "c/d"))
    yield Case("ListObjectsV2", "outputs", outputs, right_outputs, OUTPUTS)
    yield Case("ListObjectsV2", "destroy", emptied, right_emptied, some)
    yield Case("ListObjectsV2", "gc", litter, alive, worlds(pages=pages("run-1", "run-2")))
    # Who may not list secrets has made none.
    yield Case(
        "ListSecrets",
        "gc",
        litter,
        alive,
        worlds(pages=pages("run-1", "run-2")),
        around=frozenset({"AccessDenied", "AccessDeniedException"}),
    )
    yield Case("ListObjectVersions", "destroy", emptied_of_versions, right_versions, some)
    yield Case("DeleteObjects", "destroy", emptied, right_emptied, some)
    yield Case("ListMultipartUploads", "destroy --site", removed, right_removed, UNFINISHED)
    gc = litter_of("unfinished upload of p/1", "unfinished upload of p/2")
    yield Case("ListMultipartUploads", "gc", litter_beside, gc, worlds(pages=pages("1", "2")))
    yield Case("AbortMultipartUpload", "destroy --site", removed, right_removed, UNFINISHED)
    yield Case("DeleteObject", "destroy --site", removed, right_removed, UNFINISHED)
    for operation, noun, name in (
        ("DescribeLaunchTemplates", "launch template", TEMPLATE),
        ("DescribePlacementGroups", "placement group", PLACEMENT),
    ):
        yield Case(
            operation,
            "gc",
            litter_beside,
            litter_of(f"{noun} {name}"),
            worlds(pages=st.just(((name,),))),
        )
    for operation, noun in (
        ("DescribeJobQueues", "job queue"),
        ("DescribeComputeEnvironments", "compute environment"),
    ):
        mine = litter_of(f"{noun} runspec-1", f"{noun} runspec-2")
        some = worlds(pages=pages("1", "2"))
        untagged: Callable[[Any], bool] = lambda found: True  # noqa: E731 - it is not known to be ours
        yield Case(operation, "gc", litter_beside, mine, some, fair=untagged)


def advice() -> Iterator[Case]:
    for operation in ("GetInstanceProfile", "GetServiceQuota"):
        drive = examined(subnets=[])
        good: Callable[[Account, Any], bool] = lambda account, found: len(wrong(found)) == 1  # noqa: E731 - no subnets
        yield Case(operation, "doctor", drive, good, lenient=operation == "GetServiceQuota")
    for operation in (
        "DescribeSubnets",
        "DescribeRouteTables",
        "DescribeSecurityGroups",
        "DescribeInstanceTypeOfferings",
        "DescribeVpcEndpoints",
    ):
        lenient = operation == "DescribeVpcEndpoints"
        yield Case(operation, "doctor", examined(), all_well, OFFERED, lenient=lenient)
    # IAM may refuse to simulate, or say nothing: then doctor says that it cannot check the rights.
    yield Case("SimulatePrincipalPolicy", "doctor", examined(queue=QUEUE), all_well, lenient=True)
    for operation in (
        "GetCallerIdentity",
        "HeadBucket",
        "GetRole",
        "DescribeImages",
        "DescribeFileSystems",
        "DescribeJobQueues",
        "DescribeComputeEnvironments",
    ):
        yield Case(operation, "doctor", examined(queue=QUEUE), all_well)


def right_error(means: str, exc: RunspecError) -> bool:
    """Say whether *exc* tells what a refusal means."""
    if means in ("login", "rights"):
        return isinstance(exc, CredentialsError) and bool(exc.hint)
    if means == "busy":
        return isinstance(exc, RemoteError) and exc.transient
    if means == "server":
        return isinstance(exc, NoAnswer)
    return True


CASES = {case.name: case for case in cases()}
