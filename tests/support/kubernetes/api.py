"""A client of a Kubernetes API that gives every answer as it is, for the tests and for their node program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient
from kubernetes.config import new_client_from_config

from runspec_emulators.frame.listening import Closing

TIMEOUT_S = 60.0
MERGE = "application/merge-patch+json"


class Answer(NamedTuple):
    """An answer word for word: *body* is a document of JSON, or text where none was asked for."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Refused(RuntimeError):
    """The server answered with an error; *answer* has it."""

    def __init__(self, what: str, answer: Answer) -> None:
        super().__init__(f"{what}: {answer.status}: {answer.body}")
        self.answer = answer


class Api(Closing):
    """A client of one user of a cluster; threads may share it."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.host: str = client.configuration.host
        self.pool: urllib3.PoolManager = client.rest_client.pool_manager

    @classmethod
    def opened(cls, kubeconfig: Path) -> Self:
        """Open the cluster and the login of the current context of *kubeconfig*."""
        client = new_client_from_config(  # type: ignore[no-untyped-call]  # the package has no types
            str(kubeconfig), persist_config=False
        )
        return cls(client)

    def close(self) -> None:
        self.pool.clear()

    def call(
        self,
        verb: str,
        path: str,
        body: object = None,
        kind: str = "application/json",
        parse: bool = True,
        **query: Any,
    ) -> Answer:
        """Send one request, whose *body* is sent as the content type *kind*, and return the answer, also an error."""
        answer = self._send(verb, path, body, kind, query)
        text = answer.data.decode(errors="replace")
        content = json.loads(text) if parse and text else text
        return Answer(answer.status, content, dict(answer.headers))

    def must(self, verb: str, path: str, body: object = None, **query: Any) -> Any:
        """Return the document that is answered, or raise Refused."""
        kind = MERGE if verb == "PATCH" else "application/json"
        answer = self.call(verb, path, body, kind, **query)
        if answer.status >= 300:
            raise Refused(f"{verb} {path}", answer)
        return answer.body

    def get(self, path: str, **query: Any) -> Any:
        return self.must("GET", path, **query)

    def read_log(self, namespace: str, pod: str, **query: Any) -> str:
        """Return the log of a pod with one container, or raise Refused."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        answer = self.call("GET", path, parse=False, **query)
        if answer.status != 200:
            raise Refused(f"GET {path}", answer)
        return str(answer.body)

    def watch(self, path: str, timeout_s: int, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield each event of a watch until the server ends it, after *timeout_s* seconds at the latest."""
        query = {**query, "watch": "true", "timeoutSeconds": timeout_s}
        answer = self._send("GET", path, None, "", query, stream=True, timeout_s=timeout_s + 30.0)
        try:
            if answer.status != 200:
                said = answer.data.decode(errors="replace")
                raise Refused(f"GET {path}", Answer(answer.status, said, dict(answer.headers)))
            for line in read_lines(answer):
                yield json.loads(line)
        finally:
            answer.close()

    def _send(
        self,
        verb: str,
        path: str,
        body: object,
        kind: str,
        query: Mapping[str, object],
        stream: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> urllib3.BaseHTTPResponse:
        headers: dict[str, str] = {}
        self.client.update_params_for_auth(headers, [], ["BearerToken"], path, verb, body)
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        if data is not None:
            headers["Content-Type"] = kind
        url = f"{self.host}{path}"
        if query:
            url += f"{'&' if '?' in path else '?'}{urlencode(query)}"
        return self.pool.request(
            verb,
            url,
            body=data,
            headers=headers,
            timeout=timeout_s,
            retries=False,
            preload_content=not stream,
        )


def read_lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for part in answer.stream():
        *lines, rest = (rest + part).split(b"\n")
        yield from (line for line in lines if line)
