"""The manifest of an output: its valid saves, each a complete set of files with the objects that contain them.

Every object has a unique name and is never changed. Only the manifest changes, by conditional writes, so that at
every moment exactly one set of files is valid.
"""

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.base.record_formats import newer

OURS = ".runspec"
MANIFEST = OURS + "/manifest.json"
OBJECTS = OURS + "/objects/"
PUBLISHED = OURS + "/published"
FORMAT = "runspec.outputs/v2"
FIRST_FORMAT = "runspec.outputs/v1"


class Entry(NamedTuple):
    size: int
    mtime_ns: int
    sha256: str
    object: str = ""  # its name below OBJECTS; "": the first format, where the object has the path of the file


Listed = Dict[str, Entry]


class Save(NamedTuple):
    number: int  # from 1 on
    at: int  # seconds since the epoch, by the clock of the node that saved
    files: Listed


class Manifest(NamedTuple):
    saves: Tuple[Save, ...] = ()  # the newest is last
    holder: str = ""  # who wrote it, and with which of its writes

    @property
    def files(self) -> Listed:
        """Return the files of the newest save."""
        return self.saves[-1].files if self.saves else {}

    @property
    def objects(self) -> Set[str]:
        return {one.object for save in self.saves for one in save.files.values() if one.object}

    def plus(self, files: Listed, at: float, keep: int) -> "Manifest":
        """Return a manifest with one more save, and *keep* saves at most."""
        number = self.saves[-1].number + 1 if self.saves else 1
        return Manifest((*self.saves, Save(number, int(at), files))[-keep:], self.holder)

    def record(self) -> Dict[str, Any]:
        saves = [dict(save._asdict(), files=_listed(save.files)) for save in self.saves]
        return {"format": FORMAT, "holder": self.holder, "saves": saves}

    def to_bytes(self) -> bytes:
        return json.dumps(self.record()).encode("utf-8")


def parsed(content: Optional[bytes], key: str) -> Manifest:
    """Return the manifest at *key*. Raise Failure if it is damaged, or if a newer version wrote it."""
    if content is None:
        return Manifest()
    try:
        return of(json.loads(content.decode("utf-8")), key)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Failure("{} is not a manifest of saved files: {}".format(key, error), LOST) from error


def of(record: Any, what: str) -> Manifest:
    """Return the manifest in *record*; in the first format, that is only the list of files.

    Raise Failure if a newer version wrote it, and ValueError, LookupError or TypeError if it is damaged.
    """
    if isinstance(record, list):
        record = {"format": FIRST_FORMAT, "files": record}
    if record["format"] == FIRST_FORMAT:
        return Manifest((Save(1, 0, _entries(record["files"])),))
    if record["format"] != FORMAT:
        raise Failure(newer(what, record["format"], FORMAT), USAGE)
    saves = tuple(Save(s["number"], s["at"], _entries(s["files"])) for s in record["saves"])
    return Manifest(saves, record["holder"])


def _listed(files: Listed) -> List[Dict[str, Any]]:
    return [dict(files[path]._asdict(), path=path) for path in sorted(files)]


def _entries(listed: List[Mapping[str, Any]]) -> Listed:
    return {
        e["path"]: Entry(e["size"], e["mtime_ns"], e["sha256"], e.get("object", "")) for e in listed
    }


def contents(files: Listed) -> Dict[str, str]:
    return {path: entry.sha256 for path, entry in files.items()}
