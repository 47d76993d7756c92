"""The first request of a job: signed as AWS wants it, tried again, and checked before anything of it runs."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from runspec_agent.base import boot
from runspec_agent.base.boot import Ask, Store
from runspec_agent.store.s3 import S3Bucket
from runspec_jobs.provider.payload import pack_agent, strip_boot
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process

ZIPAPP = pack_agent()
DIGEST = hashlib.sha256(ZIPAPP).hexdigest()
NOW = datetime.datetime(2026, 2, 3, 4, 5, 6)  # noqa: DTZ001 - botocore's own is naive, too


@pytest.fixture
def kind() -> str:
    """Only there does a text come before the zipapp."""
    return "s3"


# Signatures

ASKS = {
    "plain": Ask("GET", "inside/x.pyz"),
    "spaces": Ask("PUT", "a b/c  d", body=b"content"),
    "plus": Ask("GET", "a+b=c&d?e#f%20"),
    "tilde": Ask("GET", "~a/-_.b/!'()*"),
    "unicode": Ask("PUT", "é/日本/\U0001f600", body=b"x"),
    "newline": Ask("PUT", "a\nb\t", body=b"x"),
    "slashes": Ask("GET", "a//b/./c/../d/"),
    "empty value": Ask("POST", "k", (("uploads", ""),)),
    "part": Ask("PUT", "k", (("uploadId", "a/b+c=="), ("partNumber", "2")), b"part"),
    "next page": Ask(
        "GET",
        "",
        (
            ("list-type", "2"),
            ("prefix", "a b/~é+"),
            ("continuation-token", "1/+=&ab=="),
            ("encoding-type", "url"),
        ),
    ),
    "claim": Ask("PUT", "runs/x/claim", body=b"job", headers=(("If-None-Match", "*"),)),
    "names in need of quotes": Ask("GET", "k", (("a~", "1"), ("a b", "2"), ("a", "3"))),
}


def botocores(store: Store, ask: Ask, token: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the header that botocore makes of the same request."""
    path, query = store.path_of(ask)
    assert not callable(ask.body)
    digest = hashlib.sha256(ask.body).hexdigest()
    url = f"https://{store.host}{path}" + (f"?{query}" if query else "")
    headers = {**dict(ask.headers), "x-amz-content-sha256": digest}
    request = AWSRequest(ask.method, url, headers=headers, data=ask.body)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: NOW)
    S3SigV4Auth(Credentials("AKID", "secret/+=", token), "s3", "cn-north-1").add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize("name", ASKS)
def test_signatures_are_botocores(
    name: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in a key, a query or a token."""
    store = Store({"RUNSPEC_STORE": "s3://bucket/pre fix/é", "RUNSPEC_REGION": "cn-north-1"})
    monkeypatch.setattr(boot, "credentials", lambda: ("AKID", "secret/+=", token))
    monkeypatch.setattr(boot, "time", frozen(NOW))

    path, query = store.path_of(ASKS[name])
    headers = store.sign(ASKS[name], path, query)

    assert headers["Authorization"] == botocores(store, ASKS[name], token, monkeypatch)
    assert headers.get("x-amz-security-token") == token


def frozen(now: datetime.datetime) -> Any:
    return SimpleNamespace(strftime=time.strftime, gmtime=lambda _: now.timetuple(), time=time.time)


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-central-1", "s3.eu-central-1.amazonaws.com"),
        ("cn-north-1", "s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_store_is_that_of_the_region(region: str, host: str) -> None:
    """By TLS."""
    store = Store({"RUNSPEC_STORE": "s3://b/p", "RUNSPEC_REGION": region})

    assert (store.https, store.host) == (True, host)


# Credentials


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """What a machine's own services answer: nothing but what a test says."""
    monkeypatch.setattr(boot, "role_cache", {})
    with Way("http://127.0.0.1:1") as found:
        monkeypatch.setattr(boot, "HOSTS", {"container": found.url, "machine": found.url})
        yield found


def keys(name: str, lasts_s: float = 6 * 3600) -> tuple[int, bytes]:
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + lasts_s))
    found = {"AccessKeyId": name, "SecretAccessKey": "s" + name, "Token": "t" + name}
    return 200, json.dumps({**found, "Expiration": end}).encode()


def test_credentials_of_the_environment_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a session token or without."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    assert boot.credentials() == ("a", "b", None)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "c")
    assert boot.credentials() == ("a", "b", "c")


def test_a_container_asks_for_its_role_by_url_and_token(
    machine: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_CONTAINER_CREDENTIALS_FULL_URI and AWS_CONTAINER_AUTHORIZATION_TOKEN, with its query."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url + "/role?a=b")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "who I am")
    machine.answers["/role?a=b"] = keys("one")

    assert boot.credentials() == ("one", "sone", "tone")

    assert machine.headers[0]["authorization"] == "who I am"


def test_a_container_asks_for_its_role_by_path(
    machine: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, as ECS sets it."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/x")
    machine.answers["/v2/credentials/x"] = keys("two")

    assert boot.credentials() == ("two", "stwo", "ttwo")


def test_else_the_machines_own_role_is_asked_for_by_a_session(machine: Way) -> None:
    """IMDSv2: a PUT gives the token that the others carry."""
    base = "/latest/meta-data/iam/security-credentials/"
    machine.answers["/latest/api/token"] = 200, b"session"
    machine.answers[base] = 200, b"my-role\n"
    machine.answers[base + "my-role"] = keys("three")

    assert boot.credentials() == ("three", "sthree", "tthree")

    assert [call.method for call in machine.calls] == ["PUT", "GET", "GET"]
    assert [h.get("x-aws-ec2-metadata-token") for h in machine.headers] == [
        None,
        "session",
        "session",
    ]


@pytest.mark.parametrize(("lasts_s", "asked"), [(6 * 3600, 1), (200, 2)])
def test_credentials_are_renewed_before_they_end(
    machine: Way, monkeypatch: pytest.MonkeyPatch, lasts_s: float, asked: int
) -> None:
    """Five minutes before; until then they are kept."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url + "/role")
    machine.answers["/role"] = keys("old", lasts_s)
    boot.credentials()
    machine.answers["/role"] = keys("new")

    assert boot.credentials()[0] == ("old" if asked == 1 else "new")

    assert machine.count("GET") == asked


def test_threads_never_see_half_of_new_credentials(
    machine: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread renews while others read."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url + "/role")
    numbers = iter(range(10_000))
    found: set[tuple[str, str, str | None]] = set()

    def asked(env: Mapping[str, str]) -> dict[str, str]:
        answer: dict[str, str] = json.loads(keys(str(next(numbers)), 1)[1])
        return answer

    def ask() -> None:
        for _ in range(200):
            found.add(boot.credentials())

    monkeypatch.setattr(boot, "request_role", asked)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 800
    assert all((secret, token) == ("s" + key, "t" + key) for key, secret, token in found)


# Tries


@pytest.mark.parametrize("kind", ["429", "500", "502", "503", "504", "reset before", "truncated"])
def test_transient_errors_are_retried_after_growing_pauses(
    bucket: S3Bucket, way: Way, pauses: list[float], kind: str
) -> None:
    """With longer and longer pauses."""
    bucket.put("a", b"content")
    way.breaks(kind, "GET", times=3)

    assert bucket.get("a") == b"content"

    assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("kind", ["400", "403", "501"])
def test_other_errors_are_returned_at_once(
    bucket: S3Bucket, way: Way, pauses: list[float], kind: str
) -> None:
    """The answer is the caller's to judge."""
    way.breaks(kind, times=100)

    assert bucket.store.send(Ask("GET", "a")).status == int(kind)

    assert pauses == []


def test_a_busy_store_is_given_up(bucket: S3Bucket, way: Way, pauses: list[float]) -> None:
    """After six tries in a quarter of a minute, with its last answer."""
    way.breaks("503", times=100)

    assert bucket.store.send(Ask("GET", "a")).status == 503

    assert (len(way.calls), sum(pauses)) == (boot.TRIES, 15.5)


def test_a_store_that_hangs_up_is_given_up(bucket: S3Bucket, way: Way) -> None:
    """With what the system says."""
    way.breaks("reset before", times=100)

    with pytest.raises(OSError, match=r"reset|closed|aborted"):
        bucket.store.send(Ask("GET", "a"))

    assert len(way.calls) == boot.TRIES


# The text that travels


def booted(
    *words: str, python: str = sys.executable, before: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the text as Batch would, without anything of this environment but *env*."""
    kept = "PATH RUNSPEC_STORE RUNSPEC_REGION AWS_ENDPOINT_URL_S3 AWS_ACCESS_KEY_ID".split()
    env = {k: os.environ[k] for k in [*kept, "AWS_SECRET_ACCESS_KEY"]} | env
    line = [python, *before, "-IS", "-c", strip_boot(), *words]
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=60)


def test_the_text_becomes_the_zipapp(bucket: S3Bucket, tmp_path: Path) -> None:
    """With the words byte for byte; RUNSPEC_INSIDE says where it lies."""
    script = "import os, sys; print(sys.argv[1:], os.path.isfile(os.environ['RUNSPEC_INSIDE']))"
    content = zipped(script)
    digest = hashlib.sha256(content).hexdigest()
    bucket.put(f"inside/{digest}.pyz", content)

    done = booted("a b", "$x", "", "é", RUNSPEC_INSIDE_SHA256=digest, TMPDIR=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['job', '--', 'a b', '$x', '', 'é'] True\n"


def test_a_zipapp_that_cannot_be_written_is_told_with_what_to_do(
    bucket: S3Bucket, tmp_path: Path
) -> None:
    """And nothing of it stays: a limit for files stands for a full disk."""
    bucket.put(f"inside/{DIGEST}.pyz", ZIPAPP)

    done = booted(
        "true",
        python="prlimit",
        before=("--fsize=1000", sys.executable),
        RUNSPEC_INSIDE_SHA256=DIGEST,
        TMPDIR=str(tmp_path),
    )

    assert done.returncode == 1
    assert done.stderr == (
        f"runspec: cannot fetch the agent: {tmp_path}: File too large; "
        "set TMPDIR to another folder\n"
    )
    assert list(tmp_path.iterdir()) == []


def zipped(script: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", script)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (ZIPAPP + b"x", "its SHA-256 differs from that of the file that was uploaded"),
        (None, "the store answered with status 404"),
    ],
)
def test_the_text_refuses_what_is_not_the_zipapp(
    bucket: S3Bucket, content: bytes | None, text: str
) -> None:
    """In one line; nothing of it has run."""
    if content is not None:
        bucket.put(f"inside/{DIGEST}.pyz", content)

    done = booted("true", RUNSPEC_INSIDE_SHA256=DIGEST)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"runspec: cannot fetch the agent: {text}\n"


def test_a_store_that_is_not_there_is_a_reason_to_try_again(
    way: Way, pauses: list[float], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Exit 75, which the service's retry strategy knows."""
    way.breaks("reset before", times=100)
    monkeypatch.setenv("RUNSPEC_INSIDE_SHA256", DIGEST)

    with pytest.raises(SystemExit) as end:
        boot.main()

    assert end.value.code == boot.LOST
    assert capsys.readouterr().err.startswith(
        "runspec: cannot fetch the agent: cannot reach the store"
    )


def test_a_folder_that_another_boot_takes_for_one_that_was_left_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no lock for a moment; fifty jobs that begin on one machine came to that."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[str] = []
    make = tempfile.mkdtemp

    def mkdtemp(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            boot.sweep(str(tmp_path))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)

    found = boot.locked_folder()

    assert len(made) == 2 and found == made[1]
    assert [str(path) for path in tmp_path.iterdir()] == [found]
