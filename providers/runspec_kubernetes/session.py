"""The connection to the API server: kubeconfig and login by the official client, requests as plain JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from urllib3 import Timeout

from runspec_jobs.provider import NoAnswer, RemoteError, Unavailable
from runspec_kubernetes.errors import Answer, Refused, raised_logins, translated
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.timing import Clock, Timing

MERGE = "application/merge-patch+json"
PAGE = 500  # objects in one answer
KUBECONFIG = "~/.kube/config"
CHECK_CONFIG = "see what it says: kubectl config view"
NEW_CONFIG = "runspec docs kubernetes has the command of each cloud that writes it"
# The first version with `backoffLimitPerIndex` switched on. 1.28 drops the field, and 1.20 `completionMode`, too.
# https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/#JobBackoffLimitPerIndex
LEAST = (1, 29)
OLD = "the API server is Kubernetes {}, and jobs need 1.29"
UPGRADE = "upgrade it: it ignores retry by index"


def version_of(answer: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the version in an answer to `GET /version`, and whether jobs can use it."""
    said = answer.get("gitVersion") or f"{answer.get('major')}.{answer.get('minor')}"
    return said, tuple(map(int, re.findall(r"\d+", said)[:2])) >= LEAST


class Session:
    """Sends requests to the API server, each once."""

    def __init__(self, options: KubernetesOptions, timing: Timing, clock: Clock) -> None:
        self.options, self.timing, self.clock = options, timing, clock
        self._is_new = False  # whether the server was asked for its version

    @cached_property
    def api(self) -> ApiClient:
        """The client of the context; its login is renewed by itself."""
        settings = Configuration()
        chosen = self.options.kubeconfig
        # The library reads KUBECONFIG only when it is imported.
        path = str(Path(chosen).expanduser()) if chosen else os.environ.get("KUBECONFIG")
        with translated("read the kubeconfig"), raised_logins():
            if path or self.options.context or "KUBERNETES_SERVICE_HOST" not in os.environ:
                _read(settings, path or KUBECONFIG, self.options.context)
            else:
                load: Any = config.load_incluster_config
                load(settings)
        return ApiClient(settings)

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        content_type: str = "application/json",
        action: str = "",
    ) -> dict[str, Any]:
        """Send one request, and return the answer. Raises what `translated` raises."""
        what = action or f"{method} {path.rpartition('/')[2]}"
        with translated(what, writes=method != "GET"):
            answer = self._open(method, path, query, body, content_type)
            with answer:
                data = answer.read()
        try:
            value = json.loads(data)
        except ValueError as exc:
            raise NoAnswer(f"{what}: the reply was cut off") from exc
        if not isinstance(value, dict):
            raise NoAnswer(f"{what}: the reply is no object")
        return value

    def refuse_old(self) -> None:
        """Raise RemoteError if the API server would drop fields of a Job.

        A server that does not tell its version to this login is taken for a new one.
        """
        if self._is_new:
            return
        try:
            said, good = version_of(self.send("GET", "/version", action="ask for the version"))
        except Refused:
            said, good = "", True
        if not good:
            raise RemoteError(OLD.format(said), UPGRADE)
        self._is_new = True

    def login(self) -> dict[str, str]:
        """Return the headers of the login. It is renewed here, which may start the program of a kubeconfig."""
        with raised_logins():
            login = self.api.configuration.auth_settings().get("BearerToken")
        return {"Authorization": login["value"]} if login and login.get("value") else {}

    def url(self, path: str, query: Mapping[str, Any] | Sequence[tuple[str, str]] | None) -> str:
        """Return the URL of a request."""
        url = f"{self.api.configuration.host}{path}"
        return f"{url}?{urlencode(query)}" if query else url

    def _open(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, content_type: str
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type, **self.login()}
        answer: Any = self.api.rest_client.pool_manager.request(
            method,
            self.url(path, query),
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=Timeout(connect=self.timing.reach_s, read=self.timing.answer_s),
            preload_content=False,
            redirect=False,
            retries=False,  # urllib3 would send a request again by itself
        )
        if answer.status >= 300:
            with answer:
                raise Answer(answer.status, answer.headers, answer.read())
        return answer

    def read(self, path: str, action: str = "") -> dict[str, Any] | None:
        """Return an object, or None if it does not exist."""
        try:
            return self.send("GET", path, action=action)
        except Refused as exc:
            if exc.code == 404:
                return None
            raise

    def listed(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield the objects of a collection, page by page.

        https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
        """
        following: dict[str, Any] = {"limit": PAGE}
        while True:
            answer = self.send("GET", path, {**query, **following})
            yield from answer.get("items") or ()
            mark = answer.get("metadata", {}).get("continue")
            if not mark:
                return
            following["continue"] = mark

    def opened(self, path: str, query: Mapping[str, Any], action: str) -> Any:
        """Return the answer to a GET as a stream of bytes, which the caller closes."""
        with translated(action):
            return self._open("GET", path, query, None, "application/json")


def _read(settings: Configuration, path: str, context: str | None) -> None:
    """Fill *settings* from the files of *path*, which are joined as by kubectl; its text is not part of errors."""
    if not any(Path(file).expanduser().exists() for file in path.split(os.pathsep) if file):
        raise Unavailable(f"there is no kubeconfig {path}", NEW_CONFIG)
    load: Any = config.load_kube_config
    try:
        load(path, context, settings)
    except config.ConfigException:
        raise
    except Exception as exc:  # the library raises whatever its code meets in a malformed file
        why = getattr(exc, "strerror", None) or f"it is malformed ({type(exc).__name__})"
        raise Unavailable(f"the kubeconfig {path} cannot be used: {why}", CHECK_CONFIG) from exc
