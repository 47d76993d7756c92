"""The manifest of an output: its valid saves, each a complete set of files with the objects that contain them.

Every object has a unique name and is never changed. Only the manifest changes, by conditional writes, so that at
every moment exactly one set of files is valid. Everyone who may write to the store may have written a manifest, so a
reader checks each path in it.
"""

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from runspec_agent.base.failure import LOST, USAGE, Failure
from runspec_agent.base.record_formats import newer

OURS = ".runspec"
MANIFEST = OURS + "/manifest.json"
OBJECTS = OURS + "/objects/"
PUBLISHED = OURS + "/published"
FORMAT = "runspec.outputs/v2"
FIRST_FORMAT = "runspec.outputs/v1"
PERMISSIONS = (
    0o777  # what is kept of a mode: the bits above it would give rights to whoever runs the file
)
LONGEST_NS = 1 << 63  # a time of a file, in nanoseconds, is smaller: os.utime refuses others


class Entry(NamedTuple):
    """A file, or a link to a file of the output: versions that knew no links read it as a file with that content."""

    size: int
    mtime_ns: int
    sha256: str
    object: str = ""  # its name below OBJECTS; "": the first format, where the object has the path of the file
    mode: Optional[int] = None  # None if a version saved the file that recorded no modes
    link: str = ""  # the target of a link; one that begins with "/" begins at the output's folder


Listed = Dict[str, Entry]


class Folder(NamedTuple):
    mode: int
    mtime_ns: int


class Link(NamedTuple):
    """A link to a folder of the output, or to a path in it where nothing is."""

    target: str  # as in Entry.link
    mtime_ns: int


class Shape(NamedTuple):
    """What is in an output beside its files. Versions up to 0.2.0 neither write nor read it."""

    folders: Dict[str, Folder]
    links: Dict[str, Link]
    lost: Dict[str, str]  # what cannot be saved, by its path, and why

    def same(self, other: "Shape") -> bool:
        """Return whether both are equal but for their times: a folder's changes with each temporary file in it."""
        mine, others = (
            ({n: f.mode for n, f in s.folders.items()}, {n: k.target for n, k in s.links.items()})
            for s in (self, other)
        )
        return mine == others and self.lost == other.lost


EMPTY = Shape({}, {}, {})


class Save(NamedTuple):
    number: int  # from 1 on
    at: int  # seconds since the epoch, by the clock of the node that saved
    files: Listed
    shape: Shape = EMPTY


class Manifest(NamedTuple):
    saves: Tuple[Save, ...] = ()  # the newest is last
    holder: str = ""  # the machine that wrote the manifest, and the number of the write

    @property
    def files(self) -> Listed:
        """Return the files of the newest save."""
        return self.saves[-1].files if self.saves else {}

    @property
    def shape(self) -> Shape:
        """Return the folders and links of the newest save."""
        return self.saves[-1].shape if self.saves else EMPTY

    @property
    def objects(self) -> Set[str]:
        return {
            entry.object for save in self.saves for entry in save.files.values() if entry.object
        }

    def plus(self, files: Listed, shape: Shape, at: float, keep: int) -> "Manifest":
        """Return a manifest with one more save, and *keep* saves at most."""
        number = self.saves[-1].number + 1 if self.saves else 1
        return Manifest((*self.saves, Save(number, int(at), files, shape))[-keep:], self.holder)

    def record(self) -> Dict[str, Any]:
        saves = [_record(save) for save in self.saves]
        return {"format": FORMAT, "holder": self.holder, "saves": saves}

    def to_bytes(self) -> bytes:
        return json.dumps(self.record()).encode("utf-8")


def fit_time(mtime_ns: int) -> int:
    """Return *mtime_ns*, or the nearest time that a manifest can have: file systems know later ones.

    >>> fit_time(5), fit_time(1 << 64) == fit_time(1 << 65) == (1 << 63) - 1
    (5, True)
    """
    return max(-LONGEST_NS, min(mtime_ns, LONGEST_NS - 1))


def object_key(prefix: str, name: str, entry: Entry) -> str:
    """Return the key of the object with the content of the file *name* of the output at *prefix*."""
    return prefix + (OBJECTS + entry.object if entry.object else name)


def parsed(content: Optional[bytes], key: str) -> Manifest:
    """Return the manifest at *key*. Raise Failure if it is damaged, or if a newer version wrote it."""
    if content is None:
        return Manifest()
    try:
        return of(json.loads(content.decode("utf-8")), key)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
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
        raise Failure(newer(what, str(record["format"])[:80], FORMAT), USAGE)
    saves = tuple(
        Save(_number(s["number"]), _number(s["at"]), _entries(s["files"]), _shape(s))
        for s in record["saves"]
    )
    return Manifest(saves, _text(record["holder"]))


def _record(save: Save) -> Dict[str, Any]:
    shape = save.shape
    return {
        "number": save.number,
        "at": save.at,
        "files": [_known(path, save.files[path]) for path in sorted(save.files)],
        "folders": [dict(shape.folders[p]._asdict(), path=p) for p in sorted(shape.folders)],
        "links": [dict(shape.links[p]._asdict(), path=p) for p in sorted(shape.links)],
        "lost": [{"path": p, "why": shape.lost[p]} for p in sorted(shape.lost)],
    }


def _known(path: str, entry: Entry) -> Dict[str, Any]:
    """Return the record of a file, without what is not known of it or is not so."""
    fields = {k: v for k, v in entry._asdict().items() if k not in ("mode", "link") or v}
    return dict(fields, path=path, **({} if entry.mode is None else {"mode": entry.mode}))


def _entries(listed: List[Mapping[str, Any]]) -> Listed:
    entries = {}
    for e in listed:
        mode = e.get("mode")
        made = _text(e.get("object", ""))
        if "/" in made:
            raise ValueError("{!r} is not an object of this output".format(made))
        entries[_path(e["path"])] = Entry(
            _number(e["size"]),
            _time(e["mtime_ns"]),
            _text(e["sha256"]),
            made,
            None if mode is None else _mode(mode),
            _target(e["link"], e["path"]) if e.get("link") else "",
        )
    return entries


def _shape(save: Mapping[str, Any]) -> Shape:
    return Shape(
        {
            _path(f["path"]): Folder(_mode(f["mode"]), _time(f["mtime_ns"]))
            for f in save.get("folders", ())
        },
        {
            _path(k["path"]): Link(_target(k["target"], k["path"]), _time(k["mtime_ns"]))
            for k in save.get("links", ())
        },
        {_text(o["path"]): _text(o["why"]) for o in save.get("lost", ())},
    )


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:  # True is not a number, and Infinity is no int
        raise ValueError("{!r:.80} is not a count".format(value))
    return value


def _time(value: Any) -> int:
    if type(value) is not int or not -LONGEST_NS <= value < LONGEST_NS:
        raise ValueError("{!r:.80} is not a time".format(value))
    return value


def _mode(value: Any) -> int:
    return _number(value) & PERMISSIONS


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("{!r:.80} is not a text".format(value))
    return value


def _path(value: Any) -> str:
    """Return a path that stays in the output and names nothing of runspec's."""
    parts = _text(value).split("/")
    _encoded(value)
    if not {"", ".", ".."}.isdisjoint(parts) or parts[0] == OURS or "\0" in value:
        raise ValueError("{!r:.80} is not a path in an output".format(value))
    return str(value)


def _encoded(value: str) -> bytes:
    """Return *value* as bytes. Raise UnicodeEncodeError, a ValueError, if it is not the name of a file."""
    return value.encode("utf-8", "surrogateescape")


def _target(value: Any, path: str) -> str:
    """Return the target of the link at *path*, which stays in the output."""
    if not stays(_text(value), path) or "\0" in value:
        raise ValueError("the link {!r:.80} leads out of its output".format(path))
    _encoded(value)
    return str(value)


def stays(target: str, path: str) -> bool:
    """Return whether a link at *path* to *target* stays in its output, wherever other links of the output lead.

    `..` is allowed at the beginning only: after another name, which may be a link, it could lead anywhere.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = 0
    while parts[ups : ups + 1] == [".."]:
        ups += 1
    deep = 0 if target.startswith("/") else path.count("/")
    return bool(target) and ups <= deep and ".." not in parts[ups:]


def contents(files: Listed) -> Dict[str, str]:
    return {path: entry.sha256 for path, entry in files.items()}
