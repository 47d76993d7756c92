"""The client of a setup: sends its requests, and deletes only what bears its mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runspec_aws.errors import IN_USE_S, code_of, got, translated
from runspec_aws.lookup import absent
from runspec_aws.setup import finders
from runspec_aws.setup.finders import MISSING, Place, read_tags
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
    "InvalidRouteTableID.NotFound InvalidInternetGatewayID.NotFound NoSuchBucket".split()
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
        tags = self._read_tags(request)
        if tags is not None and tags.get(MARK) != self.setup:
            return {}  # it is gone, or somebody else has made it since
        try:
            _refuse_left(self._send(request))
        except RemoteError as exc:
            code = code_of(exc)
            if code in MISSING:
                return {}
            if code == "BucketNotEmpty":
                raise self._refuse_data(
                    f"the bucket {request.params['Bucket']} has objects"
                ) from exc
            if code == "RepositoryNotEmptyException":
                name = request.params["repositoryName"]
                message = f"the repository {name} has images"
                hint = (
                    f"delete them first: aws ecr delete-repository --force --repository-name {name}"
                )
                raise Conflict(message, hint) from exc
            if code in IN_USE:
                exc.transient, exc.retry_after_s = True, IN_USE_S
            raise
        return {}

    def _refuse_data(self, message: str) -> Conflict:
        return Conflict(f"{message}, and stays", "to delete these too, add --with-data")

    def _read_tags(self, request: Request) -> dict[str, str] | None:
        """Return the tags of what *request* deletes, {} if it is gone, and None if it has none of its own."""
        reader = OWNERS.get(request.operation)
        if reader is None:
            return None
        tags = read_tags(reader(self.place, request.params) or ())
        if request.operation == "delete_log_group" and tags.get(MARK) == self.setup:
            self._refuse_logs(request.params["logGroupName"])
        return tags

    def _refuse_logs(self, name: str) -> None:
        with translated("describe_log_streams"):
            answer = self.place.session.look("logs").describe_log_streams(
                logGroupName=name, limit=1
            )
        if got(answer, "logStreams"):
            raise self._refuse_data(f"the log group {name} has logs")

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
        if read_tags(_log_group_tags(self.place, {"logGroupName": name})).get(MARK) != self.setup:
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


def _refuse_left(answer: Mapping[str, Any]) -> None:
    """Raise RemoteError for what stays though the status is 200.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteVpcEndpoints.html
    """
    for left in answer.get("Unsuccessful", ()):
        error = left.get("Error", {})
        if error.get("Code") not in MISSING:
            raise RemoteError(f"{left.get('ResourceId')}: {error.get('Message')}")


UNDOING = ("delete", "detach", "remove", "disassociate")


def _log_group_tags(place: Place, params: Mapping[str, Any]) -> Any:
    group = finders.get_log_group(place.session, params["logGroupName"])
    if group is None:
        return {}
    arn = got(group, "arn").removesuffix(":*")
    ask = lambda: place.session.look("logs").list_tags_for_resource(resourceArn=arn)  # noqa: E731
    answer = absent(ask, f"the tags of {params['logGroupName']}", MISSING)
    return {} if answer is None else got(answer, "tags")


def _repository_tags(place: Place, params: Mapping[str, Any]) -> Any:
    repository = finders.get_repository(place.session, params["repositoryName"])
    if repository is None:
        return ()
    with translated("the tags of a repository"):
        answer = place.session.look("ecr").list_tags_for_resource(
            resourceArn=repository["repositoryArn"]
        )
    return got(answer, "tags")


def _of(operation: str, listed: str, asked: str, key: str) -> Callable[[Place, Any], Any]:
    """Return what reads the tags of a part of a network by its id."""

    def read(place: Place, params: Mapping[str, Any]) -> Any:
        ids = params[key] if isinstance(params[key], list) else [params[key]]
        look = getattr(place.session.look("ec2"), operation)
        answer = absent(lambda: look(**{asked: ids}), operation, MISSING)
        found = () if answer is None else got(answer, listed)
        return found[0].get("Tags", ()) if found else ()

    return read


def _of_iam(get: Callable[[Any, str], Any], key: str) -> Callable[[Place, Any], Any]:
    return lambda place, params: (get(place.session, params[key]) or {}).get("Tags", ())


OWNERS: Mapping[str, Callable[[Place, Mapping[str, Any]], Any]] = {
    "delete_bucket": lambda place, p: finders.read_bucket_tags(place.session, p["Bucket"]),
    "delete_log_group": _log_group_tags,
    "delete_role": _of_iam(finders.get_role, "RoleName"),
    "delete_role_policy": _of_iam(finders.get_role, "RoleName"),
    "detach_role_policy": _of_iam(finders.get_role, "RoleName"),
    "delete_instance_profile": _of_iam(finders.get_profile, "InstanceProfileName"),
    "remove_role_from_instance_profile": _of_iam(finders.get_profile, "InstanceProfileName"),
    "delete_repository": _repository_tags,
    "delete_security_group": _of(
        "describe_security_groups", "SecurityGroups", "GroupIds", "GroupId"
    ),
    "delete_vpc": _of("describe_vpcs", "Vpcs", "VpcIds", "VpcId"),
    "delete_internet_gateway": _of(
        "describe_internet_gateways", "InternetGateways", "InternetGatewayIds", "InternetGatewayId"
    ),
    "delete_route_table": _of(
        "describe_route_tables", "RouteTables", "RouteTableIds", "RouteTableId"
    ),
    "delete_subnet": _of("describe_subnets", "Subnets", "SubnetIds", "SubnetId"),
    "delete_vpc_endpoints": _of(
        "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointIds", "VpcEndpointIds"
    ),
}
