"""The list of profiles in checkouts that the user trusts, each with its absolute path and the digest of its content.

A file that is moved or changed is no longer trusted, as with direnv's `allow`: https://direnv.net/man/direnv.1.html
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from runspec_jobs.errors import UsageError
from runspec_jobs.provider import paths
from runspec_jobs.state import atomic_io

FILE = "trusted.json"


def resolve_path(path: Path) -> str:
    """Return the absolute path of the file *path*, with links in its folder resolved; the file itself may be a link."""
    return str(path.absolute().parent.resolve() / path.name)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def read_trusted() -> Mapping[str, str]:
    """Return the digest of each trusted file by path. Raises UsageError if the list is damaged."""
    path = paths.find_home() / FILE
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:  # nothing was ever trusted
        return {}
    except OSError as exc:
        raise atomic_io.make_error(exc, path, "read") from exc
    except ValueError as exc:
        hint = "remove it, and run runspec trust again for each profile"
        raise UsageError(f"cannot read {path}, the list of trusted profiles", hint) from exc
    if not isinstance(content, dict):
        hint = "remove it, and run runspec trust again for each profile"
        raise UsageError(f"{path} is not a list of trusted profiles", hint)
    return content


def is_trusted(path: Path, data: bytes) -> bool:
    """Return whether the file *path* was trusted when it held *data*."""
    return read_trusted().get(resolve_path(path)) == digest(data)


def add(path: Path, data: bytes) -> None:
    """Trust the file *path* as long as it holds *data*."""
    with _change_trusted() as digests:
        digests[resolve_path(path)] = digest(data)


def remove(path: Path) -> bool:
    """Stop trusting the file *path*; return whether it was trusted."""
    with _change_trusted() as digests:
        return digests.pop(resolve_path(path), None) is not None


@contextlib.contextmanager
def _change_trusted() -> Iterator[dict[str, str]]:
    """Yield the trusted files, and write them to disk after the caller has changed them."""
    folder = paths.find_home()
    with atomic_io.translate_os_errors(folder):
        atomic_io.make_folder(folder)
    with atomic_io.hold_lock(folder / "trusted.lock", "another runspec trust"):
        digests = dict(read_trusted())
        yield digests
        with atomic_io.translate_os_errors(folder / FILE):
            atomic_io.write(
                folder / FILE, json.dumps(digests, indent=1, sort_keys=True).encode() + b"\n"
            )
