"""Scheduled Events: the notice that Azure will reclaim a machine, at least half a minute ahead.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events: a Preempt event comes at least 30 seconds
before, if the platform can. The pages of Azure Batch do not mention it for spot or low-priority nodes: see
docs/unverified.md, azure-34.
"""

import json
from typing import Any, Dict, Mapping, Optional

from runspec_agent.preemption.watcher import OK, PreemptionWatcher

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
ENDS = ("Preempt", "Terminate")
HEADER = {"Metadata": "true"}


class ScheduledEventsWatcher(PreemptionWatcher):
    """Poll the machine's metadata service for a Preempt event; a machine that is not a spot machine gets none.

    All machines of a scale set receive each other's events, so each has to know its own name.
    """

    holds = True
    every_s = 1.0  # as Azure recommends, since a notice may be only 30 seconds long
    # The first answer may take two minutes, since the first request turns the service on.
    answer_s = 130.0
    misses = 60  # every machine of Azure has this service

    def __init__(self, env: Mapping[str, str]) -> None:
        # The variable with which Azure's own SDKs override the address of the metadata service:
        # https://learn.microsoft.com/python/api/azure-identity/azure.identity.managedidentitycredential
        dedicated = env.get("AZ_BATCH_NODE_IS_DEDICATED", "").lower() == "true"
        super().__init__(env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST"), dedicated)
        self._name = ""

    def look(self) -> Optional[str]:
        if not self._name:
            self._name = self._got(NAME).decode("utf-8").strip().lower()
        document = json.loads(self._got(EVENTS).decode("utf-8"))
        events = document.get("Events") if isinstance(document, dict) else None
        if isinstance(events, list):
            for event in events:
                if isinstance(event, dict) and self._mine(event):
                    return str(event.get("NotBefore") or "once")  # empty when the event has begun
            return None
        raise ValueError("no events: {}".format(document))

    def _mine(self, event: Dict[str, Any]) -> bool:
        names = event.get("Resources")
        listed = [str(name).lower() for name in names] if isinstance(names, list) else []
        return event.get("EventType") in ENDS and self._name in listed

    def _got(self, path: str) -> bytes:
        status, body = self.request("GET", path, HEADER)
        if status != OK:
            raise OSError("no answer: {}".format(status))
        return body
