"""Runs on a Batch AI, and a subscription, that answer as a test draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from azure.mgmt.batch import BatchManagementClient
from hypothesis import strategies as st

from runspec_azure.batch.provider import PROVIDER as BATCH
from runspec_azure.discover import Subscription, survey
from runspec_azure.session.management import Management
from runspec_batchai import doctor as examination, timing
from runspec_batchai.client import BatchAiClient
from runspec_jobs.provider import Facts
from tests.drawn.azure_cloud import Cloud, Truth, path_of
from tests.drawn.azure_table import operations, reply
from tests.support.azure import batch_ai_specs
from tests.support.azure.resource_manager import SUBSCRIPTION, Azure, Login, OverHttp
from tests.support.azure.specs import IDENTITY, options, spec
from tests.support.http_server import ReceivedRequest, Reply, Server

RUN = "job-abc123"
SINCE = "2026-06-01T00:00:00Z"
PHASES: Mapping[str, Mapping[str, Any]] = {
    "queued": {"executionState": "queued", "executionInfo": None},
    "running": {"executionState": "running", "executionInfo": None},
    "over": {"executionState": "succeeded", "executionInfo": {"exitCode": 0, "errors": None}},
}
# What a client finds where something of a workspace is not there, or where an account cannot be asked.
_JOB = (RUN, True, ["Jobs_Delete", "empty_prefix"])
_OF = {kind: [f"{kind}_Delete"] for kind in ("Experiments", "Clusters")}
LESS: tuple[Any, ...] = (
    [_JOB, (None, True, _OF["Clusters"])],
    [_JOB, (None, True, _OF["Experiments"])],
    [(None, False, _OF["Experiments"]), (None, False, _OF["Clusters"])],
    [(None, False, _OF["Clusters"])],
)
NOTHING: tuple[Any, ...] = ({}, {"pool_allocation": "user-subscription"})
TAGS = {"runspec": "made"}


class Workspace:
    """A workspace of Batch AI with one run, behind *server*."""

    def __init__(self, server: Server, phase: str) -> None:
        self.server, self.phase = server, phase
        where = {"arm_url": server.url, "blob_url": f"{server.url}/acct"}
        self.options: Any = batch_ai_specs.facts(batch_ai_specs.spec(), **where).options
        planned = batch_ai_specs.planned(batch_ai_specs.spec(), **where)
        self.steps = {one.id: one for one in planned.steps}
        self._known = BatchAiClient(self.options)
        self.reset()

    def reset(self) -> None:
        """Have nothing happened yet."""
        self.cloud = cloud = Cloud()
        self.server.answering = cloud.answer
        for operation, value in self.truths().items():
            cloud.says(operation, value)
        for operation, one in operations().items():
            if operation.endswith("_Delete") and one.service in ("batchai", "arm"):
                cloud.truth[operation] = self._deleting(operation)
        cloud.says("Jobs_Terminate", None, 202)

    def _deleting(self, operation: str) -> Truth:
        look = operation.replace("_Delete", "_Get")

        def answer(asked: ReceivedRequest) -> Reply:
            error = {"error": {"code": "ResourceNotFound", "message": "no"}}
            self.cloud.truth[look] = lambda _: reply(404, error)
            return Reply(202)

        return answer

    def truths(self) -> dict[str, Any]:
        """Return what the service says of what it is asked for."""
        cluster = self.steps["cluster"].do.params["path"]["clusterName"]
        where = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/runspec/clusters/{cluster}"
        job = {
            "name": RUN,
            "properties": {
                **PHASES[self.phase],
                "cluster": {"id": where},
                "provisioningState": "succeeded",
                "creationTime": SINCE,
                "executionStateTransitionTime": SINCE,
                "environmentVariables": [{"name": "RUNSPEC_RUN", "value": RUN}],
                "outputDirectories": [],
                "customToolkitSettings": None,
            },
        }
        nodes = {"allocationState": "steady", "currentNodeCount": 1, "errors": None}
        nodes |= {"provisioningState": "succeeded", "nodeStateCounts": None}
        group = {"name": "runspec", "location": "eastus", "tags": TAGS}
        group |= {"properties": {"provisioningState": "Succeeded"}}
        made = {"name": "runspec", "tags": TAGS, "properties": {"provisioningState": "succeeded"}}
        found = {"name": cluster, "properties": nodes}
        quota = {"unit": "Count", "currentValue": 0, "limit": 9, "name": {"value": "Clusters"}}
        return {
            "ResourceGroups_Get": group,
            "ResourceGroups_CreateOrUpdate": group,
            "Resources_ListByResourceGroup": {"value": []},
            "Workspaces_Get": made,
            "Workspaces_Create": made,
            "Clusters_Get": found,
            "Clusters_Create": found,
            "Clusters_ListByWorkspace": {"value": [found]},
            "Experiments_Get": made,
            "Experiments_Create": made,
            "Experiments_ListByWorkspace": {"value": [made]},
            "FileServers_ListByWorkspace": {"value": []},
            "Jobs_Get": job,
            "Jobs_Create": job,
            "Jobs_ListByExperiment": {"value": [job]},
            "Jobs_ListOutputFiles": {"value": []},
            "Usages_List": {"value": [quota]},
            "ResourceSkus_List": {"value": Azure().skus},
        }

    def told(self, operation: str) -> st.SearchStrategy[Truth] | None:
        """Return how something goes, which the service may say in several ways."""
        if not operation.endswith("_Delete"):
            return None
        return st.builds(lambda: self.cloud.truth[operation])

    def client(self) -> BatchAiClient:
        """Return a client that knows nothing yet, over connections that are there."""
        found, known = BatchAiClient(self.options, timing.DEFAULT), self._known.arm
        known.bearer.__dict__["_login"] = Login()
        found.arm.bearer, found.store = known.bearer, self._known.store
        for name in ("maker", "looker", "_manager"):
            found.arm.__dict__[name] = getattr(known, name)
        return found


def state(account: Workspace) -> Any:
    found = account.client().state(RUN)
    return found.state, found.exit_code, [(node.task, node.state) for node in found.nodes]


def cancel(account: Workspace) -> Any:
    return account.client().cancel(RUN)


def streams(account: Workspace) -> Any:
    client = account.client()
    return [stream.name for stream in client.streams(RUN)]  # type: ignore[attr-defined]


def stdout(server: Server) -> dict[str, Any]:
    """Return what a list of files has of a log."""
    link = f"{server.url}{path_of('logs/stdout.txt')}?sig=eyJ"
    own = {"contentLength": 1, "lastModified": SINCE}
    return {"name": "stdout.txt", "downloadUrl": link, "fileType": "file", "properties": own}


def log(account: Workspace) -> bytes:
    """Read a log to its end."""
    (stream,) = account.client().streams(RUN)
    found, position = b"", None
    while (chunk := stream.read(position)).data or chunk.more:
        found, position = found + chunk.data, chunk.position
    return found


def litter(account: Workspace) -> Any:
    found = account.client().find_orphans([], [])
    return [(one.run, one.alive, [call.operation for call in one.remove]) for one in found]


def usages(account: Workspace) -> Any:
    return account.client().arm.usages()


def skus(account: Workspace) -> Any:
    return account.client().arm.skus()


def doctor(account: Workspace) -> Any:
    """Examine the account over connections that are there, and return which findings are good."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "Arm", lambda *_, **__: account.client().arm)
        return [one.ok for one in examination.examine(account.options)]


def of_a_sweep(account: Workspace) -> Any:
    """Ask for a run that no job is called by: it has a job for each of its tasks."""
    return account.client().state("other-abc123").state


def find(step: str) -> Callable[[Workspace], Any]:
    return lambda account: account.client().find(account.steps[step])


def settled(step: str) -> Callable[[Workspace], Any]:
    return lambda account: account.client().settled(account.steps[step])


def call(step: str) -> Callable[[Workspace], Any]:
    return lambda account: account.client().call(account.steps[step].do)


def undo(step: str) -> Callable[[Workspace], Any]:
    def done(account: Workspace) -> Any:
        undo_ = account.steps[step].undo
        assert undo_ is not None
        if account.cloud.drawn and account.cloud.drawn[0].endswith("_Get"):
            account.cloud.often = (
                1  # what is there for ever is waited for, for a quarter of an hour
            )
        return account.client().call(undo_)

    return done


def file_servers(account: Workspace) -> Any:
    path = account.steps["workspace"].do.params["path"]
    return [one.name for one in account.client().arm.file_servers(path)]


def delete(kind: str) -> Callable[[Workspace], Any]:
    """Send the call alone: what is in a workspace or an experiment keeps the client from it."""
    step = {"Workspaces": "workspace", "Experiments": "experiment"}[kind]

    def done(account: Workspace) -> Any:
        undo_ = account.steps[step].undo
        assert undo_ is not None
        return account.client().arm.send(undo_)

    return done


class Subscribed:
    """A subscription with a Batch account."""

    def __init__(self, server: Server, phase: str) -> None:
        self.server, self.azure = server, Azure()
        more = {"subscription": SUBSCRIPTION, "resource_group": "g", "identity": IDENTITY}
        more["arm_url"] = server.url
        self.options = options(batch_url="https://jobs.westeurope.batch.azure.com", **more)
        facts = Facts(self.options, {}, ())
        steps = BATCH.plan(spec(), "n-abc123", facts)
        self.pool = next(one.do for one in steps if one.id == "pool")
        ways: Any = {"base_url": server.url, "authentication_policy": OverHttp()}
        self.management = Management.__new__(Management)
        self.management.client = BatchManagementClient(Login(), SUBSCRIPTION, retry_total=0, **ways)
        self.subscription = Subscription(self.options, Login(), retry_total=1, **ways)
        self.reset()

    def reset(self) -> None:
        self.cloud = Cloud()
        self.server.answering = self.cloud.answer
        for operation, value in self.truths().items():
            self.cloud.says(operation, value)
        for name in ("account", "skus", "usages"):
            self.subscription.__dict__.pop(name, None)

    def truths(self) -> dict[str, Any]:
        where = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Batch/batchAccounts/jobs"
        kind = "Microsoft.Batch/batchAccounts"
        account = {"id": where, "name": "jobs", "type": kind, "location": "westeurope"}
        return {
            "Resources_List": {"value": [account, {"id": "/x", "name": "other", "type": kind}]},
            "Resources_GetById": {**account, "properties": self.azure.account},
            "ResourceSkus_List": {"value": self.azure.skus},
            "Usage_List": {"value": self.azure.usages},
            "Pool_Create": {"name": "p", "properties": {"vmSize": "x"}},
        }

    def told(self, operation: str) -> None:
        return None


def surveyed(account: Subscribed) -> Any:
    return survey(account.options, account.subscription)


def counted(account: Subscribed) -> Any:
    return account.subscription.usages


def made(account: Subscribed) -> Any:
    return account.management.make_pool(account.pool.params["path"], account.pool.params["body"])
