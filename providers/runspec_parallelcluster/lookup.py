"""Making, finding, updating and deleting clusters by `pcluster`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from runspec_jobs.provider import Conflict, RemoteError, Request, Response, Step
from runspec_parallelcluster.naming import TAG, is_same
from runspec_parallelcluster.session.pcluster import NotThere, StopFirst
from runspec_parallelcluster.timing import DEFAULT, Timing
from runspec_slurm.timing import CLOCK, Clock

GOES_ON = "_IN_PROGRESS"
GOING = ("DELETE_IN_PROGRESS", "DELETE_COMPLETE")
DONE = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
BROKEN = ("CREATE_FAILED", "DELETE_FAILED", "UPDATE_FAILED")
# https://docs.aws.amazon.com/parallelcluster/latest/ug/API-reference-ComputeFleetStatus-v3.html
STOPPED, STOPPING = "STOPPED", ("STOP_REQUESTED", "STOPPING")


class Calls(Protocol):
    """Calls of `pcluster`, by `Cli` or by a replacement in tests."""

    def run(
        self,
        operation: str,
        cluster: str,
        *words: str,
        configuration: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]: ...


class Clusters:
    """The clusters of one account and region."""

    def __init__(
        self,
        cli: Calls,
        tell: Callable[[str], None],
        timing: Timing = DEFAULT,
        clock: Clock = CLOCK,
    ) -> None:
        self.cli, self.tell, self.timing, self.clock = cli, tell, timing, clock
        self._looked: dict[str, float] = {}

    def describe(self, name: str) -> dict[str, Any] | None:
        """Return the description of the cluster *name*; None if it does not exist or is being deleted."""
        try:
            cluster = self.cli.run("describe-cluster", name)
        except NotThere:
            return None
        return None if cluster.get("clusterStatus") in GOING else cluster

    def create(self, params: Mapping[str, Any]) -> Response:
        name = params["clusterName"]
        self.cli.run("create-cluster", name, configuration=params["clusterConfiguration"])
        self._wait(name)
        return {"cluster": name}

    def update(self, params: Mapping[str, Any]) -> Response:
        """Update the cluster. With *stopFleet*, stop its machines first if the service requires it."""
        name, wanted = params["clusterName"], params["clusterConfiguration"]
        try:
            self.cli.run("update-cluster", name, configuration=wanted)
        except StopFirst:
            if not params.get("stopFleet"):
                raise
            # Stopping ends the jobs of everyone on the cluster, so only a plan that shows stopFleet may do it.
            self._stop(name)
            self.cli.run("update-cluster", name, configuration=wanted)
        self._wait(name)
        return {"cluster": name}

    def _wait(self, name: str) -> None:
        """Wait until no operation on the cluster is in progress, or too long; `settled` checks the result."""
        end = self.clock.monotonic() + self.timing.made_s
        while (cluster := self.describe(name)) and str(cluster["clusterStatus"]).endswith(GOES_ON):
            if self.clock.monotonic() > end:
                return
            self.tell(f"{name}: {cluster['clusterStatus'].lower().replace('_', ' ')}")
            self.clock.sleep(self.timing.poll_s)

    def _stop(self, name: str) -> None:
        """Stop all machines: https://docs.aws.amazon.com/parallelcluster/latest/ug/pcluster.update-compute-fleet-v3.html"""
        self.tell(f"{name}: stopping all machines of its queues for the update")
        self.cli.run("update-compute-fleet", name, "--status", "STOP_REQUESTED")
        longest_s = self.timing.stopped_s
        end = self.clock.monotonic() + longest_s
        while (cluster := self.describe(name)) and cluster.get("computeFleetStatus") != STOPPED:
            if self.clock.monotonic() > end:
                what = f"{name}: its machines have not stopped in {longest_s / 60:.0f} minutes"
                raise RemoteError(what, "run apply again, which continues from here")
            self.clock.sleep(self.timing.poll_s)

    def head(self, name: str) -> Response:
        """Return the address of the head node. Raises RemoteError while it has none."""
        cluster = self.describe(name)
        address = cluster and address_of(cluster)
        if not address:
            raise RemoteError(f"{name}: its head node has no address yet", transient=True)
        return {"cluster": name, "host": address}

    def delete(self, name: str) -> None:
        """Delete the cluster and wait until it does not exist; a missing cluster is no error."""
        try:
            # A deletion that is under way needs no second request: only its end is awaited.
            if self.describe(name) is not None:
                self.cli.run("delete-cluster", name)
        except NotThere:
            return
        while True:
            try:
                status = self.cli.run("describe-cluster", name).get("clusterStatus")
            except NotThere:
                return
            if status == "DELETE_COMPLETE":
                return
            if status == "DELETE_FAILED":
                what = f"{name} cannot be deleted"
                raise RemoteError(what, f"see why: pcluster get-cluster-stack-events -n {name}")
            self.tell(f"{name}: {str(status).lower().replace('_', ' ')}")
            self.clock.sleep(self.timing.poll_s)

    def find(self, step: Step) -> Response | None:
        """Return the answer of *step* if it was done: the cluster exists and, for an update, has the new settings."""
        name = step.do.params["clusterName"]
        cluster = self.describe(name)
        if cluster is None:
            return None
        if step.do.operation == "describe_cluster":
            address = address_of(cluster)
            return {"cluster": name, "host": address} if address else None
        tags = {tag["key"]: tag["value"] for tag in cluster.get("tags") or ()}
        if TAG not in tags:
            hint = "set option cluster to another name, or set manage: false to use this cluster as it is"
            raise Conflict(f"there is a cluster '{name}' that runspec did not make", hint)
        # A tag of the cluster holds a digest of the configuration with which it was made.
        same = is_same(tags, step.do.params["clusterConfiguration"])
        return {"cluster": name} if same or step.do.operation == "create_cluster" else None

    def settled(self, request: Request) -> bool:
        """Return whether the cluster can be used; start its machines again if they were stopped for an update."""
        name = request.params["clusterName"]
        # Wait until a cluster that could not be used may be queried again
        last = self._looked.pop(name, None)
        if last is not None and (left := last + self.timing.poll_s - self.clock.monotonic()) > 0:
            self.clock.sleep(left)
        cluster = self.describe(name)
        usable = self._usable(name, request, cluster)
        if not usable:
            self._looked[name] = self.clock.monotonic()
        return usable

    def _usable(self, name: str, request: Request, cluster: Mapping[str, Any] | None) -> bool:
        if cluster is None:
            raise RemoteError(f"{name} does not exist any more", "run apply again, which makes it")
        status, fleet = str(cluster.get("clusterStatus")), cluster.get("computeFleetStatus")
        # After a failed update, the service has restored the cluster as it was: creating it did succeed.
        if status in BROKEN and not (
            status == "UPDATE_FAILED" and request.operation == "create_cluster"
        ):
            raise RemoteError(f"{name}: {failure(cluster)}", _way_out(name, status))
        if status not in (*DONE, "UPDATE_FAILED"):
            self.tell(f"{name}: {status.lower().replace('_', ' ')}")
            return False
        # The service leaves the machines stopped after an update, and jobs would wait for ever.
        if request.params.get("stopFleet") and fleet in (STOPPED, *STOPPING):
            if fleet == STOPPED:
                self.cli.run("update-compute-fleet", name, "--status", "START_REQUESTED")
            return False
        return True


def address_of(cluster: Mapping[str, Any]) -> str | None:
    # In a private subnet the head node has no public address, and is reached over a VPN or a jump host.
    head = cluster.get("headNode") or {}
    return head.get("publicIpAddress") or head.get("privateIpAddress")


def failure(cluster: Mapping[str, Any]) -> str:
    """Return why a cluster could not be made, as far as the service reports it.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/API-reference-DescribeCluster-v3.html
    """
    reasons = [
        f"{cause.get('failureCode', '')}: {cause.get('failureReason', '')}".strip(": ")
        for cause in cluster.get("failures") or ()
    ]
    return "; ".join(reasons) or str(cluster.get("cloudFormationStackStatus") or "no reason given")


def _way_out(name: str, status: str) -> str:
    events = f"pcluster get-cluster-stack-events -n {name}"
    if status == "CREATE_FAILED":
        return f"see why: {events}; then remove it with runspec destroy --shared"
    return f"see why: {events}"
