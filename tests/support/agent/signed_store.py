"""An object store for signed.sh: moto's server, or a server that says what a test wants."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from runspec_emulators.aws.region import KEYS, Objects
from runspec_jobs.provider.payload import strip_inside_sh, strip_signed
from tests.support.agent.shells import SHELLS, Word, program
from tests.support.http_server import ReceivedRequest, Reply, Server

BUCKET = "jobs"
TOOLS = ("curl", "python3", "wget")
# What the script needs of an image beside a shell, and what tests run in it.
BESIDE = (
    "cat cp dd echo env grep ln ls mkdir printf rm sh sha256sum sleep sort tar touch true wc find "
    "dash busybox bash date"
).split()
Lines = Sequence[str]


class Bucket:
    """One bucket, and signed URLs for it."""

    def __init__(self, objects: Objects) -> None:
        config = Config(signature_version="s3v4", request_checksum_calculation="when_required")
        self.s3: Any = boto3.client(
            "s3",
            endpoint_url=objects.url,
            region_name="us-east-1",
            config=config,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )

    def url(self, operation: str, key: str, **more: str) -> str:
        params = {"Bucket": BUCKET, "Key": key, **more}
        found: str = self.s3.generate_presigned_url(operation, Params=params, ExpiresIn=600)
        return found

    def get(self, key: str) -> str:
        return self.url("get_object", key)

    def put(self, key: str) -> str:
        return self.url("put_object", key)

    def claim(self, key: str = "claim") -> list[str]:
        return [
            f"claim={self.url('put_object', key, IfNoneMatch='*')}",
            f"holder={self.get(key)}",
        ]

    def content(self, key: str) -> bytes | None:
        try:
            data: bytes = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            return None
        return data

    def write(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    def listed(self, lines: Lines, key: str = "files") -> str:
        """Put a list of files there; give the URL of it."""
        self.write(key, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
        return self.get(key)


def image(folder: Path, tool: str) -> Path:
    """Give a folder for PATH with what an image has, and of what talks to stores only *tool*."""
    made = folder / f"bin-{tool or 'none'}"
    made.mkdir(exist_ok=True)
    for name in [*BESIDE, *filter(None, [tool])]:
        found = shutil.which(name)
        assert found is not None, f"{name} is needed: install it"
        if not (made / name).exists():
            program(made, name, f'exec {found} "$@"')
    return made


def line(shell: str, words: Sequence[Word]) -> list[Word]:
    found = shutil.which(SHELLS[shell][0])
    assert found is not None, f"{shell} is needed: install it"
    return [found, *SHELLS[shell][1:], "-c", strip_signed(), strip_inside_sh(), *words]


class Image:
    """What a job on AWS Batch finds: a shell, one tool, and a folder that stands for the root."""

    def __init__(self, folder: Path, shell: str, tool: str) -> None:
        self.folder, self.shell, self.tool = folder, shell, tool
        self.root = folder / "root"
        self.root.mkdir(exist_ok=True)
        self.path = image(folder, tool)

    @property
    def puts(self) -> bool:
        """Busybox's shell runs busybox's wget, which can only GET."""
        return (self.shell, self.tool) != ("busybox", "wget")

    def start(self, url: str, words: Sequence[Word], **extra: Word) -> subprocess.Popen[bytes]:
        env: dict[str, Word] = {
            "PATH": str(self.path),
            "TMPDIR": str(self.folder / "tmp"),
            "RUNSPEC_BELOW": str(self.root),
            "RUNSPEC_FILES": url,
            "RUNSPEC_WORDS": "RUNSPEC_JOB=SERVICE_JOB RUNSPEC_INDEX=SERVICE_INDEX RUNSPEC_ATTEMPT=SERVICE_TRY",
            "SERVICE_JOB": "job-1",
            "SERVICE_TRY": "1",
            **extra,
        }
        return subprocess.Popen(
            line(self.shell, words),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(
        self, url: str, words: Sequence[Word], **extra: Word
    ) -> subprocess.CompletedProcess[bytes]:
        child = self.start(url, words, **extra)
        try:
            out, err = child.communicate(timeout=60)
        finally:
            child.kill()
        assert b"X-Amz-" not in out + err
        assert list((self.folder / "tmp").glob("*")) == []
        return subprocess.CompletedProcess(words, child.returncode, out, err)


@contextmanager
def answering(status: int) -> Iterator[tuple[str, list[str]]]:
    """Serve *status* to everything; give the URL, and what was asked for."""
    asked: list[str] = []

    def answered(request: ReceivedRequest) -> Reply:
        asked.append(f"{request.method} {request.target}")
        return Reply(status)

    with Server(answered) as server:
        yield f"{server.url}/x?X-Amz-Signature=canary", asked
