"""A thread that asks a machine's metadata service whether the machine is about to be reclaimed."""

import threading
from typing import Dict, Optional, Tuple

MACHINE = "http://169.254.169.254"
LONGEST = 1 << 16  # bytes of an answer that are read
OK, NOTHING = 200, 404


class PreemptionWatcher(threading.Thread):
    """Poll the metadata service at *base* for a notice; `notice` is its time, once there is one.

    The thread never raises, and no other code waits for it, so a job runs the same without the service.
    """

    holds = False  # whether an attempt must run until its machine is reclaimed: see `hold`
    every_s = 5.0  # between two requests
    answer_s = 2.0  # timeout of one answer
    misses = 3  # failed requests in a row at the beginning, after which there is no such service

    def __init__(self, base: Optional[str], disabled: bool) -> None:
        super().__init__(daemon=True)
        self.notice: Optional[str] = None
        self._base = (base or MACHINE).rstrip("/")
        self._disabled = disabled
        self._over = threading.Event()

    def run(self) -> None:
        from http.client import HTTPException

        misses, known = 0, False
        while not self._disabled and self.notice is None and (known or misses < self.misses):
            try:
                self.notice = self.look()
                known = True
            except (OSError, ValueError, HTTPException):
                self.forget()
                misses += 1
            if self._over.wait(self.every_s):
                return

    def finish(self) -> None:
        """Stop polling."""
        self._over.set()

    def look(self) -> Optional[str]:
        """Return when the machine will be reclaimed, or None. Raise OSError or ValueError without a usable answer."""
        raise NotImplementedError

    def still(self) -> bool:
        """Return whether the machine will still be reclaimed. Raise OSError or ValueError without a usable answer."""
        return self.look() is not None

    def forget(self) -> None:
        """Forget what may have caused the last error, such as an expired token."""

    def request(self, method: str, path: str, headers: Dict[str, str]) -> Tuple[int, bytes]:
        """Return the status and the body of an answer of the service. Raise OSError or HTTPException without one."""
        from http.client import HTTPConnection
        from urllib.parse import urlsplit

        parts = urlsplit(self._base + path)
        link = HTTPConnection(parts.netloc, timeout=self.answer_s)
        try:
            link.request(method, parts._replace(scheme="", netloc="").geturl(), headers=headers)
            answer = link.getresponse()
            return answer.status, answer.read(LONGEST)
        finally:
            link.close()
