"""Certificates and clocks inside a job: an image has its CA certificates anywhere, or none, and its clock may be off.

Each image is a mount namespace with an /etc of its own. The server speaks TLS with a certificate of the tests' CA.
"""

from __future__ import annotations

import datetime
import hashlib
import http.server
import io
import os
import shutil
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import boot
from runspec_agent.base.boot import BUNDLES
from runspec_agent.base.job_env import Failure
from runspec_agent.store.blob import BlobBucket
from runspec_agent.store.s3 import S3Bucket
from runspec_emulators.frame.listening import HOST, Certificate
from runspec_jobs.provider.payload import strip_boot
from tests.support import certificates
from tests.support.agent.signed_store import TOOLS, image, line
from tests.support.requirements import need, need_root

pytestmark = pytest.mark.process

HOUR_S = 3600
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}


class Server(http.server.ThreadingHTTPServer):
    """Serves *content* for every GET, or a *refusal* to who is not by its own clock, *ahead_s* of this machine's."""

    content, ahead_s, refusal = b"", 0.0, b""

    def __init__(self) -> None:
        super().__init__((HOST, 0), Handler)
        self.asked: list[str] = []

    def now_s(self) -> float:
        return time.time() + self.ahead_s

    @property
    def host(self) -> str:
        return f"{HOST}:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """Stay silent: a client that does not trust it hangs up."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    timeout = 30

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        date = self.headers["x-amz-date"]
        signed = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.server.now_s()))
        # As S3 does, by the hour: tests differ by whole hours.
        late = self.server.refusal and (
            date is None or abs(int(date[9:13]) - int(signed[9:13])) > 15
        )
        body = self.server.refusal if late else self.server.content
        self.send_response(403 if late else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(self.server.now_s(), usegmt=True)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(certificate: Certificate | None) -> Iterator[Server]:
    with Server() as server:
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate.shown, certificate.key)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.made(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """One that is valid in ten minutes: what a machine sees whose clock is behind."""
    ten = datetime.timedelta(minutes=10)
    return certificates.made(tmp_path_factory.mktemp("early"), begins=ten)


def in_image(
    argv: list[Any], env: dict[str, str], bundle: Path | None, place: str
) -> subprocess.CompletedProcess[str]:
    """Run *argv* where /etc is empty but for *bundle*, which lies at *place*."""
    need_root()
    need("unshare", "mount")
    made = "/bin/mount -t tmpfs none /etc"
    if bundle is not None and place.startswith("/etc/"):
        made += f" && /bin/mkdir -p {os.path.dirname(place)} && /bin/cp {bundle} {place}"
    script = f'{made} && exec "$@"'
    command = ["/usr/bin/unshare", "-m", "/bin/sh", "-c", script, "sh", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def booted(
    server: Server, bundle: Path | None, place: str, python: str = sys.executable, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the text that gets the zipapp, as AWS Batch would."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", "print('it runs')")
    server.content = buffer.getvalue()
    env = {
        "PATH": "/usr/bin:/bin",
        "RUNSPEC_STORE": "s3://bucket/p",
        "RUNSPEC_REGION": "eu-central-1",
        "RUNSPEC_INSIDE_SHA256": hashlib.sha256(server.content).hexdigest(),
        "AWS_ENDPOINT_URL_S3": f"https://{server.host}",
        **KEYS,
        **more,
    }
    return in_image([python, "-IS", "-c", strip_boot(), "true"], env, bundle, place)


# The text that gets the zipapp, and with it the agent


@pytest.mark.parametrize("place", [place for place in BUNDLES if place.startswith("/etc/")])
def test_the_certificates_of_the_image_are_found(certificate: Certificate, place: str) -> None:
    with serving(certificate) as server:
        done = booted(server, certificate.authority, place)

    assert (done.returncode, done.stdout, done.stderr) == (0, "it runs\n", "")


def test_the_certificates_of_a_python_with_a_prefix_of_its_own_are_found(
    certificate: Certificate, tmp_path: Path
) -> None:
    """Conda's has them at PREFIX/ssl/cacert.pem."""
    (tmp_path / "bin").mkdir()
    python = shutil.copy(os.path.realpath(sys.executable), tmp_path / "bin" / "python3")
    (tmp_path / "lib").symlink_to(Path(sys.base_prefix) / "lib")
    (tmp_path / "ssl").mkdir()
    shutil.copy(certificate.authority, tmp_path / "ssl" / "cacert.pem")

    with serving(certificate) as server:
        done = booted(server, None, "", python=str(python))

    assert (done.returncode, done.stdout, done.stderr) == (0, "it runs\n", "")


def test_ssl_cert_file_names_a_bundle_anywhere(certificate: Certificate) -> None:
    with serving(certificate) as server:
        done = booted(server, None, "", SSL_CERT_FILE=str(certificate.authority))

    assert (done.returncode, done.stdout) == (0, "it runs\n")


def test_an_image_without_certificates_is_told_what_to_install(certificate: Certificate) -> None:
    """And nothing is sent to a server that nobody vouches for."""
    with serving(certificate) as server:
        done = booted(server, None, "")

    assert (done.returncode, done.stdout, server.asked) == (69, "", [])
    assert done.stderr == (
        "runspec: cannot fetch the agent: this image has no CA certificates: install ca-certificates, or set "
        "SSL_CERT_FILE to a bundle\n"
    )


def test_a_server_that_nobody_here_vouches_for_is_not_asked(
    certificate: Certificate, early: Certificate
) -> None:
    with serving(certificate) as server:
        done = booted(server, early.authority, BUNDLES[0])

    assert (done.returncode, server.asked) == (69, [])
    assert f"the certificate of {HOST} is not trusted: " in done.stderr
    assert "set SSL_CERT_FILE to a bundle with its CA" in done.stderr


def test_a_clock_that_is_behind_is_told_where_it_makes_a_certificate_invalid(
    early: Certificate,
) -> None:
    """With what it says. Another machine may have a better one: 75."""
    with serving(early) as server:
        done = booted(server, early.authority, BUNDLES[0])

    assert (done.returncode, server.asked) == (75, [])
    assert "certificate is not yet valid" in done.stderr
    assert (
        f"the clock of this machine, which shows {time.strftime('%Y-%m-%d', time.gmtime())} "
        in done.stderr
    )


# Clocks


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Bucket, Server]]:
    """A store that refuses what is signed by another clock than its own."""
    with serving(None) as server:
        env = {
            "RUNSPEC_STORE": "s3://bucket/p",
            "RUNSPEC_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL_S3": f"http://{server.host}",
            **KEYS,
        }
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        server.content = b"content"
        server.refusal = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
        yield S3Bucket(), server


@pytest.mark.parametrize("ahead_s,words", [(HOUR_S, "behind"), (-HOUR_S, "ahead of")])
def test_requests_are_signed_by_the_stores_clock_once_it_has_refused_ours(
    s3: tuple[S3Bucket, Server], ahead_s: float, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket, server = s3
    server.ahead_s = ahead_s

    assert [bucket.get("a"), bucket.get("b")] == [b"content", b"content"]

    assert server.asked == ["/bucket/p/a", "/bucket/p/a", "/bucket/p/b"]
    said = f"the clock of this machine is 60 minutes {words} the server's\n"
    assert capsys.readouterr().err == f"runspec: requests are signed with the store's time; {said}"


def test_azure_says_how_far_the_clocks_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the agent sends there is signed by its clock, so there is nothing to correct."""
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + HOUR_S / 2))
    with serving(None) as server:
        monkeypatch.setenv("RUNSPEC_STORE", f"http://{server.host}/account/container/p")
        monkeypatch.setenv("RUNSPEC_SAS", f"sv=2021&se={soon}&sig=x")
        server.ahead_s = HOUR_S
        server.refusal = b"<Error><Code>AuthenticationFailed</Code></Error>"
        with pytest.raises(Failure) as failure:
            BlobBucket().get("a")

    assert str(failure.value) == (
        f"the store rejects the signature of this run (RUNSPEC_SAS): it expired at {soon}; "
        "the clock of this machine is 60 minutes behind the server's"
    )


def test_clocks_that_differ_by_less_than_a_minute_are_not_mentioned() -> None:
    headers = http.client.HTTPMessage()
    headers["Date"] = formatdate(time.time() + boot.SKEW_S / 2, usegmt=True)

    assert boot.skewed(boot.Answer(403, headers, b"")) == ""


# signed.sh


def fetched(
    server: Server, tool: str, tmp_path: Path, bundle: Path | None, place: str, shell: str = "dash"
) -> subprocess.CompletedProcess[str]:
    """Run signed.sh with a list of files that lies behind https."""
    server.content = b"slots=3\n"
    env = {
        "PATH": str(image(tmp_path, tool)),
        "TMPDIR": str(tmp_path),
        "RUNSPEC_BELOW": str(tmp_path),
        "RUNSPEC_FILES": f"https://{server.host}/list",
        "RUNSPEC_JOB": "job-1",
    }
    argv = line(shell, ["sh", "-c", 'echo "$RUNSPEC_SLOTS"'])
    return in_image(argv, env, bundle, place)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_is_told_where_the_image_has_its_certificates(
    tool: str, certificate: Certificate, tmp_path: Path
) -> None:
    """RHEL's place, which no tool of Debian looks at."""
    with serving(certificate) as server:
        done = fetched(server, tool, tmp_path, certificate.authority, BUNDLES[1])

    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_without_certificates_gets_nothing(
    tool: str, certificate: Certificate, tmp_path: Path
) -> None:
    with serving(certificate) as server:
        done = fetched(server, tool, tmp_path, None, "")

    assert (done.returncode, done.stdout, server.asked) == (69, "", [])
    assert done.stderr == (
        "runspec: cannot download the list of files: the store's certificate is not trusted: "
        "install ca-certificates, or set SSL_CERT_FILE or the clock\n"
    )


def test_a_wget_that_checks_no_certificates_gets_nothing(
    certificate: Certificate, tmp_path: Path
) -> None:
    """Busybox's own, whatever certificates there are."""
    with serving(certificate) as server:
        done = fetched(server, "wget", tmp_path, certificate.authority, BUNDLES[0], "busybox")

    assert (done.returncode, done.stdout, server.asked) == (69, "", [])
    assert "this wget does not check certificates: add curl, python3 or GNU wget" in done.stderr
