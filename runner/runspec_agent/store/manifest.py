"""What of an output counts: the saves that its manifest lists, each a whole set of files with the objects they are in.

An object has a name of its own and is never written again. The manifest is the one thing that changes, on condition, so
that at every moment one set of files counts.
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
    object: str = (
        ""  # its name below OBJECTS; "": the first format, where a file lies at its own path
    )


Listed = Dict[str, Entry]


class Save(NamedTuple):
    number: int  # from 1 on
    at: int  # s since the epoch, by the clock of the node that saved
    files: Listed


class Manifest(NamedTuple):
    saves: Tuple[Save, ...] = ()  # the newest comes last
    holder: str = ""  # whose it is, and which of its writes

    @property
    def files(self) -> Listed:
        """Return the files of the newest save."""
        return self.saves[-1].files if self.saves else {}

    @property
    def objects(self) -> Set[str]:
        return {one.object for save in self.saves for one in save.files.values() if one.object}

    def plus(self, files: Listed, at: float, keep: int) -> "Manifest":
        """Return this one with one save more, of which no more than *keep* remain."""
        number = self.saves[-1].number + 1 if self.saves else 1
        return Manifest((*self.saves, Save(number, int(at), files))[-keep:], self.holder)

    def record(self) -> Dict[str, Any]:
        saves = [dict(save._asdict(), files=_listed(save.files)) for save in self.saves]
        return {"format": FORMAT, "holder": self.holder, "saves": saves}

    def to_bytes(self) -> bytes:
        return json.dumps(self.record()).encode("utf-8")


def parsed(content: Optional[bytes], key: str) -> Manifest:
    """Return the manifest that lies at *key*. Raises Failure for what is none, or a newer version's."""
    if content is None:
        return Manifest()
    try:
        return of(json.loads(content.decode("utf-8")), key)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Failure("{} is no list of saved files: {}".format(key, error), LOST) from error


def of(record: Any, what: str) -> Manifest:
    """Return the manifest that *record* is; the first format of a note is the list of its files.

    Raises Failure for one that a newer version wrote, and ValueError, LookupError or TypeError for what is none.
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
