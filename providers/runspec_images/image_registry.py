"""Ask a registry of images for what a tag names, by the API of distribution, with the logins of docker and podman.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import urllib.error
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_agent.base import image_entrypoint
from runspec_agent.base.light_typing import NamedTuple
from runspec_images.image_plan import Name, is_loopback, parse_name
from runspec_images.registry_logins import Login, find_login
from runspec_jobs.provider import CredentialsError, RemoteError
from runspec_jobs.provider.registry_login import HUB

ANSWER_S = 60.0
LONGEST_CODE = 100_000  # bytes; Linux starts no program with a variable of 128 KiB: execve(2)
MOST_BYTES = 4 << 20  # of a manifest: "Pushing Manifests" of the specification
HUB_API = "registry-1.docker.io"
CLIENT = "runspec"  # what asks for tokens, which a registry may log
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
TOKEN = re.compile(r"[!-~]+")  # the error of http.client for another one contains it
UNFIT = re.compile("[\0\ud800-\udfff]")  # no word of a command has these


def find_digest(image: str, login: Login | None = None) -> str | None:
    """Return the digest of the manifest that *image* names, or None if the registry has none.

    Without *login*, it is the one that podman or docker have of the user. Raises CredentialsError if the registry
    refuses it, and RemoteError if it cannot be reached.
    """
    name = parse_name(image)
    link = _Link(name, login or find_login(name.host))
    answer = link.get(f"manifests/{name.reference}", ",".join(KINDS), "HEAD")
    if answer is None:
        return None
    digest = answer.headers.get("Docker-Content-Digest") or ""
    if not DIGEST.fullmatch(digest):
        raise RemoteError(f"the registry {name.host} named no digest of {image}")
    return digest


class ImageConfig(NamedTuple):
    """What an image runs: https://github.com/opencontainers/image-spec/blob/main/config.md#properties"""

    pinned: str  # the name of the image with its digest, in place of a tag
    content: Mapping[str, Any]  # `Entrypoint`, `Cmd`, `WorkingDir` and others

    def write_program(self) -> Mapping[str, str]:
        """Return `code`, a line of shell that runs the ENTRYPOINT, and `image`, the name with the digest.

        Raises RemoteError if the image runs no program, or one that no variable can hold.
        """
        code = image_entrypoint.write(self.content)
        if code is None:
            hint = "write command: [program, argument] in place of entrypoint"
            raise RemoteError(f"the image {self.pinned} has neither ENTRYPOINT nor CMD", hint)
        if len(code.encode()) > LONGEST_CODE:
            raise RemoteError(
                f"the ENTRYPOINT and CMD of {self.pinned} are too long for a variable"
            )
        return {"image": self.pinned, "code": code}


def read_config(image: str, architecture: str, login: Login | None = None) -> ImageConfig:
    """Return the configuration of *image* for Linux on machines of *architecture*, such as `amd64`.

    Raises RemoteError if the registry has no such image, or cannot be reached, and CredentialsError if it refuses
    *login*. Without *login*, it is the one that podman or docker have of the user.
    """
    name = parse_name(image)
    link = _Link(name, login or find_login(name.host))
    manifest, digest = _read_json(link, "manifests", name.reference, image)
    if "manifests" in manifest:
        digest = _choose(manifest["manifests"], architecture, image)
        manifest, digest = _read_json(link, "manifests", digest, image)
    if not isinstance(manifest.get("config"), dict):
        raise RemoteError(f"the registry {name.host} has no image that runs under the name {image}")
    described, _ = _read_json(link, "blobs", _digest_of(manifest["config"], image), image)
    content = described.get("config") or {}
    if not _is_runnable(content):
        raise RemoteError(f"the registry {name.host} gave no configuration of {image} that runs")
    host = f"{name.host}/" if image.startswith(f"{name.host}/") else ""
    repository = image.removeprefix(host).partition("@")[0].partition(":")[0]
    return ImageConfig(f"{host}{repository}@{digest}", content)


def _is_runnable(content: Any) -> bool:
    """Return whether *content* has the types that a configuration has by its specification."""
    if not isinstance(content, dict):
        return False
    lists = [content.get(key) or [] for key in ("Entrypoint", "Cmd")]
    if not all(isinstance(words, list) for words in lists):
        return False
    words = [content.get("WorkingDir") or "", *lists[0], *lists[1]]
    return all(isinstance(word, str) and not UNFIT.search(word) for word in words)


def _digest_of(entry: Mapping[str, Any], image: str) -> str:
    digest = str(entry.get("digest"))
    if not DIGEST.fullmatch(digest):
        raise RemoteError(f"the registry names a part of {image} by no digest of SHA-256")
    return digest


def _choose(listed: Any, architecture: str, image: str) -> str:
    wanted = {"os": "linux", "architecture": architecture}
    for entry in listed if isinstance(listed, list) else ():
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if isinstance(platform, dict) and wanted.items() <= platform.items():
            return _digest_of(entry, image)
    raise RemoteError(f"{image} has no image for linux/{architecture}")


def _read_json(link: _Link, kind: str, reference: str, image: str) -> tuple[dict[str, Any], str]:
    """Return a document of the registry and its digest, which is that of *reference* if it is one."""
    answer = link.get(f"{kind}/{reference}", ",".join(KINDS) if kind == "manifests" else "*/*")
    if answer is None:
        hint = "check its name and tag, and that it was pushed"
        raise RemoteError(f"the registry {link.name.host} has no image {image}", hint)
    digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
    if reference.startswith("sha256:") and reference != digest:
        raise RemoteError(f"the registry {link.name.host} gave other bytes than {reference}")
    found = _load(answer.body)
    if found is None:
        raise RemoteError(f"the registry {link.name.host} gave no description of {image}")
    return found, digest


def _load(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class _Answer(NamedTuple):
    headers: Mapping[str, str]
    body: bytes


class _Link:
    """Requests to one repository."""

    def __init__(self, name: Name, login: Login | None) -> None:
        self.name, self.login = name, login
        host = HUB_API if name.host == HUB else name.host
        scheme = "http" if is_loopback(host) else "https"
        self.base = f"{scheme}://{host}/v2/{name.repository}/"
        self._right: str | None = None

    def get(self, path: str, kinds: str, method: str = "GET") -> _Answer | None:
        """Return the answer, or None if there is nothing. A registry says which login it wants by a refusal."""
        with self._told():
            try:
                return self._look(method, path, kinds)
            except urllib.error.HTTPError as exc:
                if exc.code != 401 or self._right is not None:
                    raise
                exc.close()
                self._right = self._log_in(exc.headers.get("WWW-Authenticate") or "")
            return self._look(method, path, kinds)

    def _look(self, method: str, path: str, kinds: str) -> _Answer | None:
        try:
            return self._send(method, self.base + path, kinds)
        except urllib.error.HTTPError as exc:
            if exc.code != 404:
                raise
            exc.close()
            return None

    def _send(
        self, method: str, url: str, kinds: str, right: str | None = None, form: bytes | None = None
    ) -> _Answer:
        import urllib.request  # with the network, which a plan does without

        request = urllib.request.Request(url, form, {"Accept": kinds}, method=method)  # noqa: S310 - http(s)
        right = right or self._right
        if right:  # not sent again to where a registry redirects
            request.add_unredirected_header("Authorization", right)
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310 - http(s)
            body = answer.read(MOST_BYTES + 1)
            if len(body) > MOST_BYTES:
                message = f"{self.name.host} answered with more than {MOST_BYTES:,} bytes"
                raise RemoteError(message)
            return _Answer(answer.headers, body)

    def _log_in(self, challenge: str) -> str:
        """Return the header for *challenge*: https://distribution.github.io/distribution/spec/auth/token/

        An identity token is exchanged as https://distribution.github.io/distribution/spec/auth/oauth/ says.
        """
        basic = None
        if self.login and not self.login.is_token:
            pair = f"{self.login.user}:{self.login.password}".encode()
            basic = f"Basic {base64.b64encode(pair).decode('ascii')}"
        if not challenge.lower().startswith("bearer "):
            if basic is None:
                raise self._refused()
            return basic
        given = dict(CHALLENGE.findall(challenge))
        realm = given.pop("realm", "")
        parts = urllib.parse.urlsplit(realm)
        on_machine = is_loopback(self.name.host) and is_loopback(parts.hostname or "")
        if parts.scheme != "https" and not (parts.scheme == "http" and on_machine):
            raise RemoteError(f"{self.name.host} names no address that gives tokens by TLS")
        asked = {k: v for k, v in given.items() if k in ("service", "scope")}
        if self.login and self.login.is_token:
            asked |= {"grant_type": "refresh_token", "client_id": CLIENT}
            form = urllib.parse.urlencode({**asked, "refresh_token": self.login.password})
            found = self._send("POST", realm, "application/json", form=form.encode())
        else:
            link = f"{realm}{'&' if parts.query else '?'}{urllib.parse.urlencode(asked)}"
            found = self._send("GET", link, "application/json", basic)
        answer = _load(found.body) or {}
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not TOKEN.fullmatch(token):
            raise RemoteError(f"{self.name.host} gave no token for {self.name.repository}")
        return f"Bearer {token}"

    def _refused(self) -> CredentialsError:
        host = self.name.host
        return CredentialsError(
            f"the registry {host} wants a login", f"podman login {host}, or docker login {host}"
        )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        from http.client import HTTPException  # with the network, which a plan does without

        host = self.name.host
        try:
            yield
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code in (401, 403):
                raise self._refused() from exc
            passing = exc.code == 429 or exc.code >= 500
            raise RemoteError(
                f"the registry {host} answered {exc.code}", transient=passing
            ) from exc
        except (OSError, ValueError, HTTPException) as exc:
            reason = getattr(exc, "reason", None) or exc
            raise RemoteError(
                f"cannot reach the registry {host}: {reason}", transient=True
            ) from exc
