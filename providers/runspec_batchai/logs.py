"""Read the logs and outputs of jobs, for which the service returns signed links."""

from __future__ import annotations

import io
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import BinaryIO

from azure.mgmt.batchai import models

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.session.clouds import is_confidential
from runspec_azure.session.responses import elements
from runspec_azure.timing import CLOCK, Clock, PollScheduler
from runspec_batchai.attempts import ATTEMPTS_FILE, End
from runspec_batchai.session import Arm, place
from runspec_batchai.timing import DEFAULT, Timing
from runspec_jobs.provider import NoAnswer, OutputFile, RemoteError
from runspec_jobs.provider.streams.log_streams import Chunk
from runspec_jobs.provider.streams.object_streams import RangedReader

STDOUTERR = "stdouterr"
EXPIRY_MIN = 60
PART = 1 << 20
LINKS = 4  # how many links are used for one read before it fails
# A busy share answers with 503 for a while: if every fifth answer is one, one of 390,000 reads fails.
# https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
ATTEMPTS = 8
# stdout.txt, stdout-wk-0.txt, stderr-ps-1.txt, stdout-job_prep.txt, as in the public recipes.
NAMED = re.compile(r"std(out|err)(?:-(wk|ps|job_prep))?(?:-(\d+))?\.txt")
# With several nodes, each has its own file, such as stderr-job_prep-tvm-676767296_1-20180718t174802z-p.txt:
# https://github.com/MicrosoftDocs/azure-docs/blob/HEAD/articles/batch-ai/tutorial-horovod-tensorflow.md
PREPARED = re.compile(r"std(out|err)-job_prep-(.+)\.txt")
OFFSETS = {"wk": 0, None: 0, "ps": 2000, "job_prep": 4000}
STDERR = 1000
# A line that the shell text in `attempts` writes.
ROW = re.compile(r"^([0-9]{1,9}) ([0-9]{1,9})(?: ([0-9]{10,11}))?\n", re.MULTILINE)


class Found(NamedTuple):
    """A file of a job: its path below the directory, its link, and its size in bytes."""

    path: str
    url: str
    size: int


class Listed(NamedTuple):
    """When the files of a job were last listed, whether there were some, and whether the job had ended before."""

    at: float
    some: bool
    over: bool


class Files:
    """The files of jobs. Each stream is always the same object, since followers keep it."""

    def __init__(self, arm: Arm, timing: Timing = DEFAULT, clock: Clock = CLOCK) -> None:
        self.arm, self.timing, self.clock = arm, timing, clock
        self._streams: dict[tuple[str, str], FileStream] = {}
        self._listed: dict[str, Listed] = {}
        self._nodes: dict[str, list[str]] = {}  # the nodes on which each job was prepared
        self.turns = PollScheduler(timing.poll_s, clock.monotonic)

    def streams(
        self, task: int, path: Mapping[str, str], *, over: bool, waits: bool = False
    ) -> list[FileStream]:
        """Return the streams of one job, which has none while it waits.

        *over* says that the job has ended, so that its files are complete and are listed for the last time.
        """
        job = path["jobName"]
        if not waits and self._due(job, over):
            files = list(self.list(path, STDOUTERR))
            self._listed[job] = Listed(self.clock.monotonic(), bool(files), over)
            nodes = self._nodes.setdefault(job, [])
            nodes += sorted(prepared_on(file.path for file in files) - set(nodes), key=_counted)
            for file in files:
                rank = rank_of(file.path, nodes)
                if rank is not None and (file.size or rank == 0):
                    key = (job, file.path)
                    if key not in self._streams:
                        self._streams[key] = FileStream(self, path, file.path, task, rank)
                    self._streams[key].know(file)
        mine = [stream for (name, _), stream in self._streams.items() if name == job]
        for stream in mine:
            stream.over = over
        return mine

    def _due(self, job: str, over: bool) -> bool:
        """Return whether to list the files of a job. All jobs that have not ended share one rate of requests."""
        last = self._listed.get(job)
        if last is None or (over and not (last.over and last.some)):
            return True
        pause_s = self.timing.listed_s if last.some else self.timing.poll_s
        asked = sum(not (listed.over and listed.some) for listed in self._listed.values())
        return not last.over and self.clock.monotonic() - last.at > pause_s * asked

    def list(self, path: Mapping[str, str], directory: str, below: str = ".") -> Iterator[Found]:
        """Yield the files of a directory of a job and its subdirectories, each with a link."""
        asked = models.JobsListOutputFilesOptions(
            outputdirectoryid=directory,
            directory=below,
            linkexpiryinminutes=EXPIRY_MIN,
            max_results=1000,
        )
        jobs = self.arm.looker.jobs
        where = place(path, "experiment", "job")
        for file in self.arm.listed(
            "Jobs_ListOutputFiles", lambda: jobs.list_output_files(*where, asked, cls=elements)
        ):
            if not file.name:
                continue
            name = file.name if below == "." else f"{below}/{file.name}"
            if str(file.file_type) == "directory":
                yield from self.list(path, directory, name)
            elif file.download_url:
                yield Found(name, file.download_url, file.content_length or 0)

    def link(self, path: Mapping[str, str], directory: str, name: str) -> Found | None:
        """Return a file with a new link; None if it does not exist."""
        folder = name.rpartition("/")[0] or "."
        return next((f for f in self.list(path, directory, folder) if f.path == name), None)

    def patient_part(self, url: str, start: int, end: int) -> bytes:
        """Return the result of `part`, which is called up to ATTEMPTS times while there is no answer."""
        pause_s = self.timing.first_pause_s
        for _ in range(ATTEMPTS - 1):
            try:
                return part(url, start, end)
            except NoAnswer:
                self.clock.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 2)
        return part(url, start, end)


def rank_of(name: str, nodes: Sequence[str] = ()) -> int | None:
    """Return the number of a stream among those of its job; None if the file is not a stream.

    *nodes* are the nodes on which the job was prepared, each with its own logs.

    >>> rank_of("stdout.txt"), rank_of("stdout-wk-2.txt"), rank_of("stderr.txt"), rank_of("x.txt")
    (0, 2, 1000, None)
    >>> rank_of("stderr-job_prep-tvm-2.txt", ["tvm-1", "tvm-2"])
    5001
    """
    prepared = PREPARED.fullmatch(name)
    match = prepared or NAMED.fullmatch(name)
    if match is None:
        return None
    err = STDERR if match[1] == "err" else 0
    if prepared is not None:
        return OFFSETS["job_prep"] + nodes.index(prepared[2]) + err
    return OFFSETS[match[2]] + int(match[3] or 0) + err


def prepared_on(names: Iterable[str]) -> set[str]:
    """Return the nodes that have logs of the preparation."""
    return {match[2] for match in map(PREPARED.fullmatch, names) if match}


def _counted(node: str) -> list[tuple[int, str]]:
    """Return a sort key that orders nodes by the numbers in their names: ..._2 before ..._10."""
    return [
        (int(part or 0), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", node)
    ]


class FileStream:
    """A file with the output of a job. A position is a number of bytes."""

    def __init__(
        self, files: Files, path: Mapping[str, str], name: str, task: int, rank: int
    ) -> None:
        self.files, self.path, self.name = files, path, name
        self.task, self.rank = task, rank
        self.over = False
        self._url, self._since = "", 0.0
        self._failed = 0  # the number of reads in a row without an answer

    def know(self, file: Found) -> None:
        if not self._url or self._is_old():
            self._url, self._since = file.url, self.files.clock.monotonic()

    def _is_old(self) -> bool:
        """Return whether the link must be renewed, before it expires."""
        return self.files.clock.monotonic() - self._since > self.files.timing.link_s

    def read(self, position: str | None) -> Chunk:
        start = int(position or 0)
        log, mark, over = (self.path["jobName"], self.name), f"{start} {self.over}", self.over
        if not self.files.turns.due(log, mark):
            return Chunk(b"", str(start))
        try:
            data = self._part(start)
        except NoAnswer:
            self._failed += 1
            if self._failed >= ATTEMPTS:
                raise
            return Chunk(b"", str(start), more=True)
        self._failed = 0
        self.files.turns.note(log, mark, new=bool(data), last=over)
        return Chunk(data, str(start + len(data)))

    def _part(self, start: int) -> bytes:
        """Return the bytes after *start*; an expired link is renewed."""
        for _ in range(LINKS):
            if self._is_old():
                self._url = ""
            if not self._url and not self._renewed():
                return b""
            try:
                return part(self._url, start, start + PART)
            except PermissionError:
                self._url = ""
        raise RemoteError(
            f"{self.name}: the store refuses the signed links to this file",
            "check the clock of this machine",
        )

    def _renewed(self) -> bool:
        link = self.files.link(self.path, STDOUTERR, self.name)
        if link is not None:
            self._url, self._since = link.url, self.files.clock.monotonic()
        return link is not None


def part(url: str, start: int, end: int) -> bytes:
    """Return the bytes of a link from *start* up to *end*, or fewer at the end of the file.

    Raise PermissionError for a link that has expired, and NoAnswer, which never contains the link, because it is
    a secret. A busy share refuses some requests, so callers repeat a request without an answer.
    """
    if not is_confidential(url):
        raise RemoteError("the service returned an unencrypted link to a file of the job")
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-{end - 1}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            data: bytes = answer.read()
            return data[start:end] if answer.status == 200 else data
    except urllib.error.HTTPError as exc:
        exc.close()
        if exc.code in (404, 416):
            return b""
        if exc.code == 403:
            raise PermissionError from None
        failure = f"the service answered {exc.code}"
    except (OSError, HTTPException) as exc:
        failure = type(exc).__name__
    raise NoAnswer(f"cannot read a file of the job: {failure}")


def ends(files: Files, path: Mapping[str, str]) -> dict[int, End]:
    """Return how and when attempts ended, by number, from the file that the shell of a job writes.

    Only complete lines count, because the file may be read while it is written.
    """
    link = files.link(path, STDOUTERR, ATTEMPTS_FILE)
    try:
        text = files.patient_part(link.url, 0, PART).decode(errors="replace") if link else ""
    except PermissionError:  # the link has expired meanwhile; the next poll requests a new one
        return {}
    rows = ROW.finditer(text)
    return {int(row[1]): End(int(row[2]), float(row[3]) if row[3] else None) for row in rows}


class OutputReader:
    """Reads ranges of a file of a job; a link that is refused is renewed once."""

    def __init__(self, files: Files, path: Mapping[str, str], directory: str, file: Found) -> None:
        self.files, self.path, self.directory, self.file = files, path, directory, file

    def read(self, start: int, end: int) -> bytes:
        try:
            data = self.files.patient_part(self.file.url, start, end)
        except PermissionError:
            link = self.files.link(self.path, self.directory, self.file.path)
            self.file = self.file if link is None else link._replace(size=self.file.size)
            try:
                data = self.files.patient_part(self.file.url, start, end)
            except PermissionError:
                raise RemoteError("the store refuses access to a file of the job") from None
        if not data:
            raise RemoteError(f"{self.file.path} has become shorter while it was read")
        return data


def outputs(
    files: Files, task: int, path: Mapping[str, str], named: Sequence[tuple[str, str]]
) -> Iterator[OutputFile]:
    """Yield every file in the output directories of one job; *named* has the ids and names of the directories."""
    for word, name in named:
        for file in files.list(path, word):

            def opened(file: Found = file, word: str = word) -> BinaryIO:
                read = OutputReader(files, path, word, file).read
                return io.BufferedReader(RangedReader(read, end=file.size), PART)

            yield OutputFile(name, task, 0, file.path, file.size, opened)
