"""One attempt of one task, as the supervisor knows it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from runspec_local.supervisor.child import Child
from runspec_local.supervisor.device_leases import Devices
from runspec_local.supervisor.saver import Saver

LINGER_S = 0.1  # between two looks at the processes that a node has left behind


@dataclass
class Attempt:
    """One attempt of one task: its nodes, and the time of its timeout."""

    nodes: dict[int, Child]
    savers: list[Saver]
    deadline: float | None
    devices: Devices  # the GPUs of each node
    codes: dict[int, int] = field(default_factory=dict)
    failed: int = 0  # exit code of the node that failed first, which ends the others
    reason: str = ""
    late: bool = False  # whether it has reached its timeout
    unable: bool = (
        False  # whether its containers cannot start, so that another attempt could not either
    )
    ending: float | None = None  # when the remaining nodes are killed
    network: Child | None = None  # the container that owns the network of the task's containers
    saving: bool = False  # whether the nodes have ended and their outputs are being saved
    tries: dict[int, int] = field(default_factory=dict)  # attempts of each node of an elastic job
    log_sizes: dict[int, int] = field(
        default_factory=dict
    )  # bytes in the log of each node before it

    @property
    def left(self) -> list[Child]:
        return [child for rank, child in self.nodes.items() if rank not in self.codes]

    @property
    def can_be_stopped(self) -> bool:
        """Return whether any of its nodes runs, so that stopping the task has an effect."""
        return not self.saving and not all(child.ended for child in self.left)

    @property
    def next_s(self) -> list[float]:
        """Return the next time at which something must be done to its nodes, if there is one."""
        next_s = self.deadline if self.ending is None else self.ending
        if any(not child.watched for child in self.left):  # others of its group have not ended
            return [time.monotonic() + LINGER_S]
        return [] if self.saving or next_s is None else [next_s]
