"""The notice that a machine of Azure is to be taken away: half a minute to save what there is.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events: a Preempt comes at least 30 seconds before,
as far as the platform can. Azure Batch's own pages say nothing of it, for spot nodes or for what low priority was:
see docs/unverified.md, azure-34.
"""

import json
from typing import Any, Dict, List, Mapping, Optional

from runspec_agent.preemption.ec2 import OK, Ec2PreemptionWatcher

EVERY_S = 1.0  # as often as Azure recommends: of a notice of 30 seconds each second counts
FIRST_S = 130.0  # the first answer may take two minutes: the service is switched on by being asked
MISSES = 60  # in a row at the beginning; a machine of Azure has this service
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
ENDS = ("Preempt", "Terminate")
HEADER = {"Metadata": "true"}


class ScheduledEventsWatcher(Ec2PreemptionWatcher):
    """Asks the machine whether it is to be taken away. Machines that are not spot are not asked.

    All machines of a scale set are told of each other's events, so each has to know its own name.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        # The variable by which Azure's own clients find their machine's metadata elsewhere:
        # https://learn.microsoft.com/python/api/azure-identity/azure.identity.managedidentitycredential
        super().__init__(env, env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST"))
        self._disabled = env.get("AZ_BATCH_NODE_IS_DEDICATED", "").lower() == "true"
        self._name = ""

    def still(self) -> bool:
        """Say whether the machine is still to be taken away. Raise OSError or ValueError when it does not say."""
        return self._look() is not None

    def _pause_s(self) -> float:
        return EVERY_S

    def _misses(self) -> int:
        return MISSES

    def _answer_s(self) -> float:
        return FIRST_S

    def _look(self) -> Optional[str]:
        if not self._name:
            self._name = self._got(NAME).decode("utf-8").strip().lower()
        found = json.loads(self._got(EVENTS).decode("utf-8"))
        events = found.get("Events") if isinstance(found, dict) else None
        if isinstance(events, list):
            return self._first(events)
        raise ValueError("no events: {}".format(found))

    def _first(self, events: List[Any]) -> Optional[str]:
        for event in events:
            if isinstance(event, dict) and self._mine(event):
                return str(event.get("NotBefore") or "once")  # empty when it has begun
        return None

    def _mine(self, event: Dict[str, Any]) -> bool:
        names = event.get("Resources")
        listed = [str(name).lower() for name in names] if isinstance(names, list) else []
        return event.get("EventType") in ENDS and self._name in listed

    def _got(self, path: str) -> bytes:
        status, body = self._asked("GET", path, HEADER)
        if status != OK:
            raise OSError("no answer: {}".format(status))
        return body
