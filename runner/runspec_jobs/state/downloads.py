"""Downloads the files of `https://` sources to this machine, from which they are uploaded as other files are.

A file is kept under its digest below the folder of runspec's state, so that it is downloaded once.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import time
import urllib.parse
from io import BufferedRandom
from pathlib import Path

from runspec_agent.base import boot, file_lock
from runspec_jobs.errors import UsageError
from runspec_jobs.provider import Progress
from runspec_jobs.state_folder import find_home

BLOCK = 1 << 18
TRIES, PAUSE_S = 4, 1.0
SILENCE_S = 60.0  # the longest wait for the next bytes
WHOLE_S = 7200.0  # the longest time for a file, however slowly its bytes come
REDIRECTS = 5
MOST_GIB = 10  # as of a folder that is uploaded
MOVED = (301, 302, 303, 307, 308)
# Services that every machine of a cloud reaches, and nobody publishes files on.
# https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
OF_CLOUDS = tuple(map(ipaddress.ip_network, ("168.63.129.16/32", "fd00:ec2::/32")))


class _Passing(Exception):
    """A failure that another attempt may not meet."""


def find_folder() -> Path:
    """Return the folder of downloaded files. Each of them may be deleted at any time."""
    return find_home() / "downloads"


def download(url: str, sha256: str, progress: Progress) -> Path:
    """Return the file that *url* names, whose content has the digest *sha256*; it is downloaded if it is not here.

    An interrupted download is continued. Raises UsageError if the file cannot be downloaded, or is another one.
    """
    path = find_folder() / sha256
    try:
        if path.is_file():
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(f"{path}.part", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "r+b") as part:
            file_lock.take(part.fileno())
            if not path.is_file():  # another command may have downloaded it meanwhile
                _Download(url, part, progress).run(sha256)
                os.fchmod(part.fileno(), 0o644)
                os.rename(f"{path}.part", path)
        return path
    except (OSError, ValueError, http.client.HTTPException) as exc:
        raise UsageError(f"{url} cannot be downloaded: {exc}") from exc


class _Download:
    """The download of *url* to the open file *part*, which may have the beginning of it."""

    def __init__(self, url: str, part: BufferedRandom, progress: Progress) -> None:
        self.url, self.part, self.progress = url, part, progress
        self.until = time.monotonic() + WHOLE_S

    def run(self, sha256: str) -> None:
        for count in range(1, TRIES + 1):
            try:
                self._continue()
                break
            except (_Passing, OSError, http.client.HTTPException) as exc:
                if count == TRIES or isinstance(exc, TimeoutError):
                    raise OSError(str(exc) or "the server closed the connection") from exc
                time.sleep(PAUSE_S * 2**count)
        self.part.seek(0)
        found = hashlib.file_digest(self.part, "sha256").hexdigest()
        if found != sha256:
            self.part.truncate(0)
            message = f"{self.url} is another file than the spec says: its sha256 is {found}"
            raise UsageError(message, "compare it with what the publisher says, and correct sha256")

    def _continue(self) -> None:
        """Download what is missing."""
        here = self.part.seek(0, os.SEEK_END)
        url = self.url
        for _ in range(REDIRECTS + 1):
            link, answer = self._ask(url, here)
            try:
                if answer.status not in MOVED:
                    self._take(answer, here)
                    return
                url = urllib.parse.urljoin(url, answer.headers["Location"] or "")
                if not url.startswith("https://"):
                    hint = "mount the address of another mirror"
                    raise UsageError(f"{self.url} leads to {url}, which is not https", hint)
            finally:
                link.close()
        raise UsageError(f"{self.url} leads on more than {REDIRECTS} times", "mount where it ends")

    def _ask(
        self, url: str, here: int
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        link = boot.connection(True, host, SILENCE_S)
        try:
            is_direct = link.host == parts.hostname
            refuse_address(url, parts.hostname or "")
            link.connect()
            if is_direct:  # a name may have any address
                refuse_address(url, link.sock.getpeername()[0])
            headers = {"Accept-Encoding": "identity", "User-Agent": "runspec"}
            headers |= {"Range": f"bytes={here}-"} if here else {}
            path = urllib.parse.quote(parts.path or "/", "/%:@!$&'()*+,;=~")
            link.request("GET", path + (f"?{parts.query}" if parts.query else ""), None, headers)
            return link, link.getresponse()
        except BaseException:
            link.close()
            raise

    def _take(self, answer: http.client.HTTPResponse, here: int) -> None:
        """Write the body of *answer*, which begins at *here* if it is a part of the file."""
        if answer.status == 416:  # all of it is here, or more
            return
        if answer.status in boot.PASSING:
            raise _Passing(f"the server answers {answer.status}")
        if answer.status not in (200, 206):
            raise UsageError(f"{self.url}: the server answers {answer.status} {answer.reason}")
        if answer.status == 200:
            here = 0
            self.part.truncate(0)
        self.part.seek(here)
        left = answer.length
        total = here + (left or 0)
        # Not `read`, which waits until a block is full, however slowly its bytes come.
        while block := answer.read1(BLOCK):
            here += len(block)
            self.part.write(block)
            if here > MOST_GIB << 30:
                hint = "put it into the store of the profile, and mount it as store://"
                raise UsageError(f"{self.url} is larger than {MOST_GIB} GiB", hint)
            if time.monotonic() > self.until:
                raise TimeoutError(f"it takes longer than {WHOLE_S / 3600:.0f} hours")
            self.progress(here, max(here, total))
        if left is not None and here < total:
            raise _Passing("the server closed the connection")


def refuse_address(url: str, host: str) -> None:
    """Raise UsageError if *host* is an address of this machine, or one that services of a cloud alone have."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:  # a name
        return
    mapped = getattr(address, "ipv4_mapped", None) or address
    if (
        mapped.is_loopback
        or mapped.is_link_local
        or mapped.is_unspecified
        or mapped.is_multicast
        or any(mapped in network for network in OF_CLOUDS)
    ):
        message = f"{url} leads to {host}, which is no server of files"
        raise UsageError(message, "mount the file from this machine")
