"""moto's server with what moto lacks: signatures, EC2's placement groups, and conditional writes of which one wins.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape

import xmltodict  # type: ignore[import-untyped]  # moto brings it, without types
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response
from werkzeug.serving import make_server

from runspec_emulators import privacy
from runspec_emulators.aws import signature

SECRET = "RUNSPEC_REHEARSAL_SECRET"
# moto finds the service, the region and a bucket in the name.
NAMES = ("*.amazonaws.com", "*.amazonaws.com.cn")
Start = Callable[..., Any]


_put = S3Response.put_object
_one_put = threading.Lock()


def _put_object(self: S3Response) -> Any:
    """There, a thread for each request looks at the condition and then writes: two would find it true."""
    if not (self.headers.get("If-Match") or self.headers.get("If-None-Match")):
        return _put(self)
    with _one_put:
        return _put(self)


S3Response.put_object = _put_object  # type: ignore[method-assign]  # as moto calls it


_put_bucket = S3Response._bucket_response_put  # noqa: SLF001 - moto has no public name for it


def _put_bucket_with_tags(
    self: S3Response, request: Any, bucket_name: str, querystring: dict[str, Any]
) -> Any:
    """A new bucket has the tags of CreateBucketConfiguration, which moto leaves out.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucketConfiguration.html
    """
    existed = any(bucket_name in s3_backends[account]["aws"].buckets for account in s3_backends)
    answer = _put_bucket(self, request, bucket_name, querystring)
    if not querystring and not existed and self.body:
        config = xmltodict.parse(self.body).get("CreateBucketConfiguration") or {}
        tags = (config.get("Tags") or {}).get("Tag") or []
        known = {one["Key"]: one["Value"] for one in ([tags] if isinstance(tags, dict) else tags)}
        self.backend.put_bucket_tagging(bucket_name, known)
    return answer


S3Response._bucket_response_put = _put_bucket_with_tags  # type: ignore[method-assign]  # noqa: SLF001


def _is_public(target: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request without a signature asks for a bucket that its owner has made public."""
    if "authorization" in headers or "X-Amz-Signature" in target:
        return False
    name = target.lstrip("/").partition("?")[0].partition("/")[0]
    for account in s3_backends:
        bucket = s3_backends[account]["aws"].buckets.get(name)
        if bucket is not None and bucket.acl is not None and bucket.acl.public_read:
            return True
    return False


class Signed:
    """Answers what is signed with *secret*, whatever the id of the key is, and no page of a browser."""

    def __init__(self, answer: Callable[[Any, Start], Iterable[bytes]], secret: str) -> None:
        self._answer, self._secret = answer, secret

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """https://peps.python.org/pep-3333/; werkzeug has the target as it came in RAW_URI."""
        headers = named(environ)

        def body() -> bytes:
            content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(content)
            return bytes(content)

        method, target = environ["REQUEST_METHOD"], environ["RAW_URI"]
        wrong = privacy.refusal(headers, NAMES)
        if not (wrong or (method in ("GET", "HEAD") and _is_public(target, headers))):
            wrong = signature.problem(method, target, headers, lambda _: self._secret, body)
        return self._refused(start, wrong) if wrong else self._answer(environ, start)

    def _refused(self, start: Start, why: str) -> Iterable[bytes]:
        """https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""
        said = f"<Error><Code>SignatureDoesNotMatch</Code><Message>{escape(why)}</Message></Error>"
        content = said.encode()
        # The rest of the body is not read, and would be taken for another request on this connection.
        headers = {"Content-Type": "application/xml", "Content-Length": str(len(content))}
        start("403 Forbidden", [*headers.items(), ("Connection", "close")])
        return [content]


def named(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request by their names in lower case."""
    kept = {k[5:]: v for k, v in environ.items() if k.startswith("HTTP_")}
    kept |= {k: environ[k] for k in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(k)}
    return {name.lower().replace("_", "-"): value for name, value in kept.items()}


def create_app(service: Any) -> Any:
    """Return moto's application for *service*. Its EC2 takes two seconds to import, and many a job never calls it."""
    if service == "ec2":
        importlib.import_module("runspec_emulators.aws.moto_ec2")
    return create_backend_app(service)


class Dispatcher(DomainDispatcherApplication):
    """moto's own, which lists its folder of services twice for each request: a third of what one takes."""

    def __init__(self, create: Callable[[Any], Any]) -> None:
        super().__init__(create)
        self._find_backend = functools.cache(super().get_backend_for_host)

    def get_backend_for_host(self, host: str | None) -> Any:
        return self._find_backend(host)


def serve(
    listener: int,
    create: Callable[[Any], Any] = create_backend_app,
    guard: Callable[[Any], Any] = lambda app: app,
) -> None:
    """Serve at the socket with the number *listener*, which was inherited, as `moto.server.main` does at a port.

    *create* makes the application of a service, and *guard* wraps that of all.
    """
    with socket.socket(fileno=listener) as inherited:
        host, port = inherited.getsockname()
        os.environ["MOTO_PORT"] = str(port)
        app = Dispatcher(create)
        app.debug = True  # type: ignore[attr-defined]  # as moto's own has it
        server = make_server(
            host, port, guard(app), threaded=True, request_handler=MotoRequestHandler, fd=listener
        )
    server.serve_forever()


def main(listener: int) -> None:
    # Ctrl-C at a terminal reaches this process too, but its parent still needs the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    secret = os.environ.pop(SECRET)
    serve(listener, create_app, lambda app: Signed(app, secret))


if __name__ == "__main__":
    main(int(sys.argv[1]))
