"""The interruption notice of a spot machine of EC2, two minutes ahead.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
"""

import json
import threading
from typing import Dict, Mapping, Optional, Tuple

MACHINE = "http://169.254.169.254"
EVERY_S = 5.0  # as often as EC2 recommends
ANSWER_S = 2.0  # the service answers at once or not at all
TOKEN_S = 6 * 3600  # the longest lifetime of a token
MISSES = 3  # after which there is no such service: Fargate has none, and containers may be a network hop too far
# See docs/unverified.md, aws-33.
LONGEST = 1 << 16  # bytes of an answer that are read
OK, NOTHING = 200, 404


class Ec2PreemptionWatcher(threading.Thread):
    """Poll the machine's metadata service for a notice; `notice` is its time, once there is one.

    The thread never raises, and no other code waits for it, so a job runs the same without the service.
    """

    def __init__(self, env: Mapping[str, str], base: Optional[str] = None) -> None:
        super().__init__(daemon=True)
        self.notice: Optional[str] = None
        base = base or env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or MACHINE
        self._base = base.rstrip("/")
        self._disabled = env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
        self._over = threading.Event()
        self._token = ""

    def run(self) -> None:
        from http.client import HTTPException

        misses, known = 0, False
        while not self._disabled and self.notice is None and (known or misses < self._misses()):
            try:
                self.notice = self._look()
                known = True
            except (OSError, ValueError, HTTPException):
                self._token = ""  # it may be the cause of the error
                misses += 1
            if self._over.wait(self._pause_s()):
                return

    def finish(self) -> None:
        """Stop polling."""
        self._over.set()

    def _pause_s(self) -> float:
        return EVERY_S

    def _misses(self) -> int:
        return MISSES

    def _answer_s(self) -> float:
        return ANSWER_S

    def _look(self) -> Optional[str]:
        """Return when the machine will be reclaimed, or None. Raise OSError without a usable answer.

        The service answers 404 as long as there is no notice.
        """
        if not self._token:
            header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
            status, body = self._asked("PUT", "/latest/api/token", header)
            if status != OK:
                raise OSError("no token: {}".format(status))
            self._token = body.decode("ascii")
        header = {"X-aws-ec2-metadata-token": self._token}
        status, body = self._asked("GET", "/latest/meta-data/spot/instance-action", header)
        if status == NOTHING:
            return None
        if status != OK:
            raise OSError("no answer: {}".format(status))
        found = json.loads(body.decode("utf-8"))
        if not isinstance(found, dict) or "action" not in found:
            raise ValueError("no notice: {}".format(found))
        return str(found.get("time", "once"))

    def _asked(self, method: str, path: str, headers: Dict[str, str]) -> Tuple[int, bytes]:
        from http.client import HTTPConnection
        from urllib.parse import urlsplit

        parts = urlsplit(self._base + path)
        link = HTTPConnection(parts.netloc, timeout=self._answer_s())
        try:
            link.request(method, parts._replace(scheme="", netloc="").geturl(), headers=headers)
            answer = link.getresponse()
            return answer.status, answer.read(LONGEST)
        finally:
            link.close()
