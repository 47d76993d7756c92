"""The client of a setup: sends its requests, and deletes only what bears its mark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from runspec_aws.errors import IN_USE_S, code_of, got, translated
from runspec_aws.setup import finders, undo_check
from runspec_aws.setup.finders import MISSING, Place
from runspec_aws.setup.marks import read_marks
from runspec_aws.setup.options import AwsSetup
from runspec_aws.setup.steps import MARK, Names
from runspec_aws.setup.survey import open_session
from runspec_jobs.provider import (
    Conflict,
    CredentialsError,
    RemoteError,
    Request,
    Response,
    Step,
)

# What a later step or the settings need of an answer, by operation.
KEPT: Mapping[str, Callable[[Mapping[str, Any]], Response]] = {
    "create_role": lambda answer: {"Arn": got(got(answer, "Role"), "Arn")},
    "create_instance_profile": lambda answer: {"Arn": got(got(answer, "InstanceProfile"), "Arn")},
    "create_vpc": lambda answer: {"VpcId": got(got(answer, "Vpc"), "VpcId")},
    "create_internet_gateway": lambda answer: {
        "InternetGatewayId": got(got(answer, "InternetGateway"), "InternetGatewayId")
    },
    "create_route_table": lambda answer: {
        "RouteTableId": got(got(answer, "RouteTable"), "RouteTableId")
    },
    "create_subnet": lambda answer: {"SubnetId": got(got(answer, "Subnet"), "SubnetId")},
    "associate_route_table": lambda answer: {"AssociationId": got(answer, "AssociationId")},
    "create_security_group": lambda answer: {"GroupId": got(answer, "GroupId")},
    "create_vpc_endpoint": lambda answer: {
        "VpcEndpointId": got(got(answer, "VpcEndpoint"), "VpcEndpointId")
    },
    "create_repository": lambda answer: {
        "repositoryUri": got(got(answer, "repository"), "repositoryUri")
    },
}
# AWS refuses for some seconds to delete what something else, which is being deleted, uses.
IN_USE = frozenset("DependencyViolation DeleteConflict DeleteConflictException".split())
# A role that was made just now, or a network, may be unknown to the next call for some seconds.
# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
NOT_YET = frozenset(
    "NoSuchEntity InvalidVpcID.NotFound InvalidGroup.NotFound InvalidSubnetID.NotFound "
    "InvalidRouteTableID.NotFound InvalidInternetGatewayID.NotFound InvalidVpcEndpointId.NotFound "
    "NoSuchBucket".split()
)
PAGE = 1000  # objects of one request: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html


def connect(options: AwsSetup, survey: Mapping[str, Any], setup: str) -> AwsSetupClient:
    """Return the client. Raises CredentialsError if the login is one of another account than that of *survey*.

    There, everything that a setup has made would look as if somebody had deleted it.
    """
    client = AwsSetupClient(options, survey, setup)
    with translated("the identity of the caller"):
        answer = client.place.session.look("sts").get_caller_identity()
    if (account := got(answer, "Account")) != survey["account"]:
        message = f"the login is of the account {account}, and the setup is in {survey['account']}"
        raise CredentialsError(message, "log in there, or set AWS_PROFILE or account_profile")
    return client


class AwsSetupClient:
    def __init__(self, options: AwsSetup, survey: Mapping[str, Any], setup: str) -> None:
        names = Names(options, survey)
        self.setup = setup
        self.place = Place(open_session(options, names.region, names.bucket), names)

    def call(self, request: Request) -> Response:
        if request.operation == "empty_bucket":
            self._empty_bucket(request.params["Bucket"])
            return {}
        if request.operation == "empty_log_group":
            self._empty_log_group(request.params["logGroupName"])
            return {}
        if request.operation.startswith(UNDOING):
            return self._undo(request)
        try:
            answer = self._send(request)
        except RemoteError as exc:
            if code_of(exc) in NOT_YET:
                exc.transient = True
            raise
        keep = KEPT.get(request.operation)
        return keep(answer) if keep is not None else {}

    def _send(self, request: Request) -> Mapping[str, Any]:
        with translated(f"{request.service} {request.operation}"):
            send = getattr(self.place.session.make(request.service), request.operation)
            answer: Mapping[str, Any] = send(**request.params)
        return answer

    def _undo(self, request: Request) -> Response:
        tags = read_marks(self.place, request)
        if tags is not None and tags.get(MARK) != self.setup:
            return {}  # it is gone, or somebody else has made it since
        if request.operation == "delete_log_group":
            undo_check.refuse(undo_check.find_data(self.place, request))
        if request.operation == REMOVAL and not finders.find(self.place, ADDITION, request.params):
            return {}  # an undo that was killed has removed it
        try:
            _refuse_left(self._send(request))
        except RemoteError as exc:
            code = code_of(exc)
            if code in MISSING:
                return {}
            if code in ("BucketNotEmpty", "RepositoryNotEmptyException"):
                raise undo_check.make_conflict(request) from exc
            if code in IN_USE:
                exc.transient, exc.retry_after_s = True, IN_USE_S
            raise
        return {}

    def _empty_bucket(self, name: str) -> None:
        """Delete every version of every object of a bucket that this setup has made."""
        if finders.read_bucket_tags(self.place.session, name).get(MARK) != self.setup:
            return
        s3 = self.place.session.look("s3")
        while True:
            with translated(f"list {name}"):
                page = s3.list_object_versions(Bucket=name, MaxKeys=PAGE)
            rows = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if not rows:
                return
            keys = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
            with translated(f"delete the objects of {name}"):
                answer = s3.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
            if errors := answer.get("Errors"):
                raise RemoteError(f"{name}: {errors[0].get('Message', errors[0].get('Code'))}")

    def _empty_log_group(self, name: str) -> None:
        """Delete the streams of a log group that this setup has made."""
        request = Request("logs", "delete_log_group", {"logGroupName": name})
        if (read_marks(self.place, request) or {}).get(MARK) != self.setup:
            return
        logs = self.place.session.look("logs")
        while True:
            with translated("describe_log_streams"):
                streams = got(logs.describe_log_streams(logGroupName=name), "logStreams")
            if not streams:
                return
            for stream in streams:
                with translated("delete_log_stream"):
                    logs.delete_log_stream(logGroupName=name, logStreamName=stream["logStreamName"])

    def find(self, step: Step) -> Response | None:
        return finders.find(self.place, step.do.operation, step.do.params)

    def settled(self, step: Step) -> bool:
        return True

    def check_undo(
        self, requests: Sequence[Request], together: Collection[str], *, with_data: bool
    ) -> Sequence[Conflict]:
        marked = [(request, read_marks(self.place, request)) for request in requests]
        ours = [request for request, tags in marked if tags and tags.get(MARK) == self.setup]
        return undo_check.list_conflicts(self.place, ours, with_data=with_data)


def _refuse_left(answer: Mapping[str, Any]) -> None:
    """Raise RemoteError for what stays though the status is 200.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteVpcEndpoints.html
    """
    for left in answer.get("Unsuccessful", ()):
        error = left.get("Error", {})
        if error.get("Code") not in MISSING:
            raise RemoteError(f"{left.get('ResourceId')}: {error.get('Message')}")


UNDOING = ("delete", "detach", "remove", "disassociate")
REMOVAL, ADDITION = "remove_role_from_instance_profile", "add_role_to_instance_profile"
