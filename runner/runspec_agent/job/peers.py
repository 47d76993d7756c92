"""How a node finds the other nodes of its attempt, for programs that runspec does not launch on them itself."""

from typing import Any, Callable, Dict, NamedTuple, Optional

from runspec_agent.base.process import Signals
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.rendezvous import host_exchange, hostfile
from runspec_agent.rendezvous.shared_directory import Node
from runspec_agent.retry.multi_instance import MultiInstanceTask
from runspec_agent.store.base import Bucket


class Peers(NamedTuple):
    """The nodes of one attempt. *failed* returns the exit code of a node that failed before it had met the others."""

    bucket: Bucket
    at: str  # the prefix of the run's objects
    record: Dict[str, Any]
    env: Dict[str, str]
    place: TaskIdentity  # with the number of the attempt that all nodes share
    signals: Signals
    failed: Callable[[], Optional[int]]

    def write_hostfile(self, crew: Optional[MultiInstanceTask]) -> None:
        """Write the host file and set RUNSPEC_LEADER; the nodes are those of *crew*, or exchange their addresses."""
        nodes = [self._own()]
        if crew is not None:
            nodes = [Node(rank, host, "", "", 0) for rank, host in enumerate(crew.hosts)]
        elif self.record["nodes"] > 1:
            count = self.record["nodes"]
            nodes = host_exchange.call(
                self.bucket, self._prefix("hosts"), nodes[0], count, self.signals, self.failed
            )
        hostfile.write(self.env["RUNSPEC_HOSTFILE"], nodes, self.record["slots"])
        self.env["RUNSPEC_LEADER"] = nodes[0].host

    def check_reach(self) -> None:
        """Check that the nodes can connect to each other. Raise Failure if they cannot."""
        # Used by smoke tests only: it would be compiled for every job.
        from runspec_agent.rendezvous.connectivity import Reach

        nodes = self.record["nodes"]
        reach = Reach(self.bucket, self._prefix("reach"), self._own(), nodes, self.failed)
        reach.check(self.signals, self.record["reach"])

    def _own(self) -> Node:
        return Node(self.place.rank, self.env["RUNSPEC_HOST"], "", "", 0)

    def _prefix(self, name: str) -> str:
        return "{}{}/{}/{}/".format(self.at, name, self.place.task, self.place.attempt)
