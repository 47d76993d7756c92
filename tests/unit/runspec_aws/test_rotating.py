"""A long upload outlives its first credentials, and says so where there are no others."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runspec_aws.client import AwsClient
from runspec_aws.errors import LOGIN, RIGHTS
from runspec_aws.options import AwsOptions
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import CredentialsError
from tests.support.aws.specs import PROFILE

pytestmark = pytest.mark.process

PARTS, GOOD_FOR = 6, 2  # parts of the folder, and of which one key may send so many
BEGUN = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
DONE = '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
ERROR = '<?xml version="1.0"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>'

# For botocore's credential_process: another key each time, which soon ends.
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
PROCESS = """
import datetime, json, pathlib, sys
count = pathlib.Path(sys.argv[1])
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)
print(json.dumps({"Version": 1, "AccessKeyId": f"KEY{number}", "SecretAccessKey": "s",
    "SessionToken": "t", "Expiration": end.isoformat()}))
"""


class Store(ThreadingHTTPServer):
    """As much of S3 as a multipart upload needs; a key that has sent GOOD_FOR parts has expired."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.sent: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.refusal = ("ExpiredToken", 400)
        self.good_for = GOOD_FOR
        self.busy = 0  # the number of the request that is refused, if any
        self.wrong = 0  # parts that are not what their signature says


class Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self) -> None:
        self._answer(200, "<ListUploads><IsTruncated>false</IsTruncated></ListUploads>")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(200, DONE if "uploadId=" in self.path else BEGUN)

    def do_DELETE(self) -> None:
        self._answer(204)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        with self.server.lock:
            self.server.sent[key] += 1
            good = self.server.sent[key] <= self.server.good_for
            good = good and self.server.sent[key] != self.server.busy
            said = self.headers["X-Amz-Content-SHA256"]
            self.server.wrong += hashlib.sha256(content).hexdigest() != said
        code, status = self.server.refusal
        text = "The provided token has expired."
        self._answer(200) if good else self._answer(status, ERROR.format(code, text))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    found = Store()
    serving = threading.Thread(target=found.serve_forever, daemon=True)
    serving.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{found.server_port}")
    monkeypatch.setattr("runspec_aws.store.multipart.AT_ONCE", 1)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "large").write_bytes(bytes((PARTS - 1 << 23) - (1 << 20)))
    yield found
    found.shutdown()
    found.server_close()
    serving.join()


def send(folder: Path) -> None:
    client = AwsClient(AwsOptions.model_validate(PROFILE))
    client.files.put_folder("k", bundle(folder / "data"), lambda done, whole: None)


def renewed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have credentials that another program gives, new ones whenever it is asked."""
    (folder / "process.py").write_text(PROCESS)
    line = json.dumps(f"{sys.executable} {folder}/process.py {folder}/count").strip('"')
    (folder / "config").write_text(f"[default]\ncredential_process = {line}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")


def test_credentials_that_are_renewed_meanwhile_are_taken(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed(tmp_path, monkeypatch)

    send(tmp_path)

    assert sum(store.sent.values()) == PARTS
    assert len(store.sent) >= PARTS // GOOD_FOR


def test_a_part_is_sent_again_if_the_service_is_busy(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read for it is not lost, nor taken for another part."""
    kept(monkeypatch)
    store.good_for, store.refusal, store.busy = PARTS + 1, ("SlowDown", 503), 3

    send(tmp_path)

    assert list(store.sent.values()) == [PARTS + 1]
    assert store.wrong == 0


def test_credentials_that_have_expired_are_an_error_with_a_way_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(monkeypatch)

    with pytest.raises(CredentialsError, match="upload k: The provided token has expired") as told:
        send(tmp_path)

    assert (told.value.hint, told.value.exit_code) == (LOGIN, 5)
    assert "very-secret" not in str(told.value)


def test_a_right_that_lacks_is_no_login(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(monkeypatch)
    store.refusal = ("AccessDenied", 403)

    with pytest.raises(CredentialsError) as told:
        send(tmp_path)

    assert told.value.hint == RIGHTS


def test_credentials_that_cannot_be_renewed_are_an_error_with_a_way_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed(tmp_path, monkeypatch)
    ask = (tmp_path / "process.py").read_text()
    (tmp_path / "process.py").write_text(
        ask.replace("print", "sys.exit('you are logged out') if number > 3 else print")
    )

    with pytest.raises(CredentialsError) as told:
        send(tmp_path)

    assert told.value.hint == LOGIN
