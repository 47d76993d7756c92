"""Calls of `pcluster`, whose answers are JSON, and the translation of its errors.

https://docs.aws.amazon.com/parallelcluster/latest/ug/pcluster-v3.html
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.provider import (
    AlreadyExists,
    CredentialsError,
    NoAnswer,
    RemoteError,
    RunspecError,
    Unavailable,
)
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session import install
from runspec_parallelcluster.timing import DEFAULT

CHANGES = ("create-cluster", "update-cluster", "update-compute-fleet", "delete-cluster")
KEPT_OUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PCLUSTER_LOG_TO_STDOUT")
MOST = 5  # problems of a configuration in an error message

# pcluster/api/controllers/cluster_operations_controller.py of 3.16.1
NOT_THERE = re.compile(r"does not exist|Cluster '?\S+'? not found", re.IGNORECASE)
CREDENTIALS = re.compile(
    r"credentials|security token|ExpiredToken|InvalidClientTokenId|SignatureDoesNotMatch",
    re.IGNORECASE,
)
BUSY = re.compile(
    r"Throttl|Rate exceeded|RequestLimitExceeded|LimitExceeded|try again later", re.IGNORECASE
)
FAR = re.compile(
    r"connect to the endpoint|Connect timeout|Read timeout|EndpointConnection|Connection was closed"
)
EXISTS = re.compile(r"already exists")
REFUSED = re.compile(
    r"^Bad Request|Invalid|Unable to|can be performed only|No changes found|not supported"
    r"|cannot be|belongs to an incompatible|is not authorized|AccessDenied"
)


class NotThere(RunspecError):
    """The error that a cluster does not exist."""


class StopFirst(RemoteError):
    """The error that an update is possible only while no machine of the queues runs."""


class Cli:
    """Runs `pcluster` for one account and region. Credentials come from the environment, as with any AWS SDK."""

    def __init__(
        self,
        options: ParallelClusterOptions,
        tell: install.Tell,
        longest_s: float = DEFAULT.call_s,
    ) -> None:
        self.options, self.tell, self.longest_s = options, tell, longest_s
        self._program: Path | None = None

    def run(
        self,
        operation: str,
        cluster: str,
        *words: str,
        configuration: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Call an operation and return its answer.

        Raises NotThere, StopFirst, and RemoteError if the call was refused. If the outcome is unknown, raises NoAnswer
        for a change, and Unavailable for a query.
        """
        if self._program is None:
            self._program = install.program(self.options, self.tell)
        with _file(configuration) as file:
            argv = [str(self._program), operation, "--cluster-name", cluster, *words]
            argv += ["--region", self.options.region] if self.options.region else []
            argv += ["--cluster-configuration", file] if file else []
            code, out = execute(argv, self._env(), operation in CHANGES, self.longest_s)
        answer = _json(out)
        if code == 0 and answer is not None:
            return answer
        if code == 0:  # the operation was carried out, whatever the incomplete answer looks like
            kind = NoAnswer if operation in CHANGES else Unavailable
            raise kind(f"pcluster {operation}: the answer was cut off")
        raise failure(operation, answer, out)

    def _env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name not in KEPT_OUT}
        if self.options.account_profile:
            env["AWS_PROFILE"] = self.options.account_profile
        if self.options.region:
            env["AWS_DEFAULT_REGION"] = self.options.region
        return env


@contextlib.contextmanager
def _file(configuration: Mapping[str, Any] | None) -> Iterator[str | None]:
    """Yield a private file with *configuration* as JSON, which is also YAML."""
    if configuration is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="runspec-") as folder:
        file = Path(folder) / "cluster.yaml"
        file.touch(mode=0o600)
        file.write_text(json.dumps(configuration, indent=2))
        yield str(file)


def execute(
    argv: list[str], env: dict[str, str], changes: bool, longest_s: float
) -> tuple[int, str]:
    try:
        process = subprocess.Popen(
            argv,
            cwd="/",  # so that no file beside a job file configures the command
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as exc:
        raise Unavailable(f"{argv[0]}: {(exc.strerror or str(exc)).lower()}") from exc
    try:
        out, _ = process.communicate(timeout=longest_s)
    except subprocess.TimeoutExpired as exc:
        what = f"pcluster {argv[1]}: no answer in {longest_s:.0f} s"
        raise (NoAnswer if changes else Unavailable)(what) from exc
    finally:
        _end(process)
    if process.returncode < 0:
        what = f"pcluster {argv[1]} was killed by signal {-process.returncode}"
        raise (NoAnswer if changes else Unavailable)(what)
    return process.returncode, out


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the program and the Node.js that it starts, if it has not ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _json(out: str) -> dict[str, Any] | None:
    """Return the JSON object in *out*, which may have warnings of Python or Node.js before it, or None."""
    for start in (match.start() for match in re.finditer(r"^\{", out, re.MULTILINE)):
        with contextlib.suppress(ValueError):  # a line of a warning that begins with a brace
            document, _ = json.JSONDecoder().raw_decode(out[start:])
            if isinstance(document, dict):
                return document
    return None


def failure(operation: str, answer: Mapping[str, Any] | None, out: str) -> RunspecError:
    """Return the error for the output of a failed `pcluster`."""
    last = next((line for line in reversed(out.splitlines()) if line.strip()), "no reason")
    said = str((answer or {}).get("message") or last.strip())
    what = f"pcluster {operation}: {said}"
    if answer and (wrong := _wrong(answer)):
        return _refused(f"{what}: {wrong}", answer)
    if NOT_THERE.search(said):
        return NotThere(what)
    if CREDENTIALS.search(said):
        return CredentialsError(
            what,
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or account_profile in the profile",
        )
    if BUSY.search(said):
        return RemoteError(what, transient=True)
    if FAR.search(said):
        return (NoAnswer if operation in CHANGES else Unavailable)(what)
    if EXISTS.search(said):
        return AlreadyExists(what)
    if REFUSED.search(said):
        return RemoteError(what)
    return NoAnswer(what) if operation in CHANGES else Unavailable(what)


def _wrong(answer: Mapping[str, Any]) -> str:
    """Return the messages about an invalid configuration, or about changes that an update cannot make."""
    reasons = [
        f"{message.get('type', 'schema')}: {message.get('message', '')}"
        for message in answer.get("configurationValidationErrors") or ()
        if message.get("level", "ERROR") == "ERROR"
    ]
    reasons += [
        f"{message.get('parameter')}: {message.get('message', '')}"
        for message in answer.get("updateValidationErrors") or ()
    ]
    more = f" (and {len(reasons) - MOST} more)" if len(reasons) > MOST else ""
    return "; ".join(reasons[:MOST]) + more


def _refused(what: str, answer: Mapping[str, Any]) -> RemoteError:
    changes = answer.get("updateValidationErrors") or ()
    if changes and all("must be stopped" in str(message.get("message")) for message in changes):
        hint = (
            "keep the existing queues and only add others, or set providers.parallelcluster.update: terminate, which "
            "ends the machines that are removed, or stop, which ends all jobs of the cluster"
        )
        return StopFirst(what, hint)
    if changes:
        return RemoteError(
            what, "set providers.parallelcluster.cluster to another name, for a new cluster"
        )
    return RemoteError(what, "correct the settings of providers.parallelcluster")
