"""moto's server with what moto lacks: signatures, EC2's placement groups, and conditional writes of which one wins.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.responses._base_response import EC2BaseResponse
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.responses import S3Response
from werkzeug.serving import run_simple

from runspec_emulators import privacy
from runspec_emulators.aws import signature

SECRET = "RUNSPEC_REHEARSAL_SECRET"
# moto finds the service, the region and a bucket in the name.
NAMES = ("*.amazonaws.com", "*.amazonaws.com.cn")
Start = Callable[..., Any]
Group = dict[str, Any]
Groups = dict[str, Group]
_lock = threading.Lock()
_known: dict[tuple[str, str], Groups] = {}


class PlacementGroups(EC2BaseResponse):
    """The calls, as moto has calls."""

    def create_placement_group(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html"""
        name = self._get_param("GroupName")
        with _lock:
            groups = self._groups()
            if name in groups:
                what = f"The Placement Group '{name}' already exists."
                raise EC2ClientError("InvalidPlacementGroup.Duplicate", what)
            groups[name] = {
                "GroupName": name,
                "GroupId": f"pg-{uuid.uuid4().hex[:17]}",
                "Strategy": self._get_param("Strategy") or "cluster",
                "State": "available",
            }
            return ActionResult({"PlacementGroup": groups[name]})

    def describe_placement_groups(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribePlacementGroups.html"""
        with _lock:
            groups = self._groups()
            names = self._get_param("GroupNames") or list(groups)
            return ActionResult({"PlacementGroups": [_one(groups, name) for name in names]})

    def delete_placement_group(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html"""
        with _lock:
            groups = self._groups()
            del groups[_one(groups, self._get_param("GroupName"))["GroupName"]]
            return ActionResult({})

    def _groups(self) -> Groups:
        return _known.setdefault((self.current_account, self.region), {})


def _one(groups: Groups, name: str) -> Group:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"""
    if name not in groups:
        what = f"The Placement Group '{name}' is unknown."
        raise EC2ClientError("InvalidPlacementGroup.Unknown", what)
    return groups[name]


for call, function in vars(PlacementGroups).items():
    if not call.startswith("__"):
        setattr(EC2Response, call, function)

_put = S3Response.put_object
_one_put = threading.Lock()


def _put_object(self: S3Response) -> Any:
    """There, a thread for each request looks at the condition and then writes: two would find it true."""
    if not (self.headers.get("If-Match") or self.headers.get("If-None-Match")):
        return _put(self)
    with _one_put:
        return _put(self)


S3Response.put_object = _put_object  # type: ignore[method-assign]  # as moto calls it


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
        wrong = privacy.refusal(headers, NAMES) or signature.problem(
            method, target, headers, lambda _: self._secret, body
        )
        return self._refused(start, wrong) if wrong else self._answer(environ, start)

    def _refused(self, start: Start, why: str) -> Iterable[bytes]:
        """https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""
        said = f"<Error><Code>SignatureDoesNotMatch</Code><Message>{escape(why)}</Message></Error>"
        content = said.encode()
        # What was not read of the body would be taken for another request.
        headers = {"Content-Type": "application/xml", "Content-Length": str(len(content))}
        start("403 Forbidden", [*headers.items(), ("Connection", "close")])
        return [content]


def named(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request by their names in lower case."""
    kept = {k[5:]: v for k, v in environ.items() if k.startswith("HTTP_")}
    kept |= {k: environ[k] for k in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(k)}
    return {name.lower().replace("_", "-"): value for name, value in kept.items()}


def main(port: int) -> None:
    """Serve at a port of the loopback interface, as `moto.server.main` does."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal's: who started the server still needs it
    os.environ["MOTO_PORT"] = str(port)
    app = DomainDispatcherApplication(create_backend_app)
    app.debug = True  # type: ignore[attr-defined]  # as moto's own has it
    own = Signed(app, os.environ.pop(SECRET))
    run_simple("127.0.0.1", port, own, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
