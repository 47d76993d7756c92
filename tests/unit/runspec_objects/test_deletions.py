"""A deletion that a service does not permit is an error of the login, also within an answer about many objects."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from obstore.store import AzureStore, S3Store

from runspec_azure.errors import translated
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError
from runspec_kubernetes.store import refused
from runspec_objects.object_store import Bucket, client_options

pytestmark = pytest.mark.process

# https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
S3 = "<DeleteResult><Error><Key>a</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>"
# https://learn.microsoft.com/rest/api/storageservices/blob-batch
AZURE = (
    "--batch_1\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
    "HTTP/1.1 {code} no\r\nContent-Length: 0\r\n\r\n--batch_1--\r\n"
)


@contextlib.contextmanager
def answering(body: str) -> Iterator[str]:
    """Yield the URL of a service that answers every request with *body*."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "multipart/mixed; boundary=batch_1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def open_bucket(kind: str, url: str) -> Bucket:
    place: dict[str, Any] = {"endpoint": url, "client_options": client_options(url)}
    if kind == "s3":
        place |= {"access_key_id": "key", "secret_access_key": "secret"}
        native: Any = S3Store("jobs", region="eu-central-1", **place)
    else:
        native = AzureStore("jobs", account_name="account", account_key="a2V5", **place)
    return Bucket(lambda: native, refused if kind == "s3" else translated, ("", ""))


@pytest.mark.parametrize(
    ("kind", "body", "code", "error"),
    [
        ("s3", S3, "AccessDenied", CredentialsError),
        ("s3", S3, "InvalidArgument", NoAnswer),
        ("azure", AZURE, "403", CredentialsError),
        ("azure", AZURE, "500", NoAnswer),
    ],
)
def test_a_deletion_that_is_not_permitted_is_an_error_of_the_login(
    kind: str, body: str, code: str, error: type[RemoteError]
) -> None:
    with answering(body.format(code=code)) as url, pytest.raises(error, match=f"code: {code}"):
        open_bucket(kind, url).remove(["a"])
