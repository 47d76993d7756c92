"""A region of AWS on this machine: moto's server for S3, EC2 and IAM, the emulator for Batch and Logs."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators import privacy
from runspec_emulators.aws import signature
from runspec_emulators.aws.http import Server, serve
from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame import listening
from runspec_emulators.frame.listening import HOST, Closing
from runspec_emulators.frame.processes import inherited

PAIR = ("rehearsal", privacy.KEY)
KEYS = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), PAIR, strict=True))
UP_S = 120.0
ANSWER_S = 60.0
SERVER = "runspec_emulators.aws.moto_server"
SECRET = "RUNSPEC_REHEARSAL_SECRET"


class Objects:
    """moto's server, below *folder*: S3, EC2 and IAM."""

    def __init__(self, folder: Path, more: Mapping[str, str] | None = None) -> None:
        """*more* are settings of moto's own, as variables."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.more = folder, more or {}
        # The server inherits the socket: a port that was only looked for could be another server's before it begins.
        with socket.create_server((HOST, 0), backlog=128) as listener:
            self.port = listener.getsockname()[1]
            self.url = f"http://{HOST}:{self.port}"
            self.process = self._start(listener.fileno())
        try:
            self._wait_until_up()
        except BaseException:  # also Ctrl-C, which must leave no server behind
            self.close()
            raise

    def _start(self, listener: int) -> subprocess.Popen[bytes]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MOTO_"))}
        # Requests name the bucket in the path, not in the host name.
        env |= {"S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true", **self.more, SECRET: privacy.KEY}
        line = [sys.executable, "-m", SERVER, str(listener)]
        with (self.folder / "moto.log").open("wb") as log:
            return subprocess.Popen(
                line,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=env,
                pass_fds=[listener],
            )

    def _wait_until_up(self) -> None:
        """Wait until the server answers. Raises RuntimeError with what it has printed if it does not."""
        end = time.monotonic() + UP_S
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask("GET", "/moto-api/")
                return
            time.sleep(0.05)
        said = (self.folder / "moto.log").read_text(errors="replace")
        why = listening.why_not(self.process.poll(), UP_S, said)
        raise RuntimeError(f"moto's server does not start: {why}")

    def make_bucket(self, name: str, region: str) -> None:
        """https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html"""
        where = f"<LocationConstraint>{region}</LocationConstraint>"
        body = f"<CreateBucketConfiguration>{where}</CreateBucketConfiguration>"
        self.ask("PUT", f"/{name}", "" if region == "us-east-1" else body, region)

    def ask(self, method: str, path: str, body: str = "", region: str = "us-east-1") -> None:
        link = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_S)
        headers = {"host": f"s3.{region}.amazonaws.com"}
        content = body.encode()
        try:
            signed = signature.sign(method, path, headers, content, PAIR, region, "s3")
            link.request(method, path, content, signed)
            answer = link.getresponse()
            answer.read()
        finally:
            link.close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Region(Closing):
    """The emulator beside *objects*, below *folder*. `close` ends it and every process of every job."""

    def __init__(self, folder: Path, name: str, objects: Objects, **settings: Any) -> None:
        self.name, self.objects = name, objects
        machine = {**self._machine(**settings), **settings.pop("machine_env", {})}
        self.server: Server = serve(
            Settings(
                folder / "containers",
                region=name,
                machine_env=machine,
                **{"secrets_url": objects.url, **settings},
            )
        )

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that lead an AWS SDK here.

        https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
        """
        return {
            **KEYS,
            "AWS_ENDPOINT_URL": self.objects.url,
            "AWS_ENDPOINT_URL_BATCH": self.server.url,
            "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": self.server.url,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _machine(
        self, engine: str = "process", *, own_root: bool = False, **_: Any
    ) -> dict[str, str]:
        """Return the variables that machines pass to every job: the URL of S3, and credentials of a role."""
        env = {**KEYS, "AWS_ENDPOINT_URL_S3": self.objects.url}
        if engine == "podman":
            return env
        # Without a root folder of its own, a job keeps its folders below the one that it starts in.
        return {**env, **inherited(), **({} if own_root else {"RUNSPEC_BELOW": "."})}

    def control(self, method: str, path: str, value: Any = None) -> Any:
        """Call a control path of the emulator: see `runspec_emulators.aws.admin`."""
        return self.server.control(method, path, value)

    def close(self) -> None:
        self.server.close()
