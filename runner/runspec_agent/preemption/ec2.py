"""The interruption notice of a spot machine of EC2, two minutes ahead.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
"""

import json
from typing import Mapping, Optional

from runspec_agent.preemption.watcher import NOTHING, OK, PreemptionWatcher

TOKEN_S = 6 * 3600  # the longest lifetime of a token


class Ec2PreemptionWatcher(PreemptionWatcher):
    """Poll the instance metadata service for an interruption notice, as often as EC2 recommends.

    Fargate has no such service, and a container may be a network hop too far from it: docs/unverified.md, aws-33.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        disabled = env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
        super().__init__(env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"), disabled)
        self._token = ""

    def forget(self) -> None:
        self._token = ""

    def look(self) -> Optional[str]:
        """Return when the machine will be reclaimed, or None. Raise OSError without a usable answer.

        The service answers 404 as long as there is no notice.
        """
        if not self._token:
            header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
            status, body = self.request("PUT", "/latest/api/token", header)
            if status != OK:
                raise OSError("no token: {}".format(status))
            self._token = body.decode("ascii")
        header = {"X-aws-ec2-metadata-token": self._token}
        status, body = self.request("GET", "/latest/meta-data/spot/instance-action", header)
        if status == NOTHING:
            return None
        if status != OK:
            raise OSError("no answer: {}".format(status))
        document = json.loads(body.decode("utf-8"))
        if not isinstance(document, dict) or "action" not in document:
            raise ValueError("no notice: {}".format(document))
        return str(document.get("time", "once"))
