"""What lists of saved files are worth that cannot be read."""

from __future__ import annotations

import io
import json

import pytest

from runspec_agent.base.failure import Failure
from runspec_agent.store.manifest import parsed
from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.saved_outputs import read_saved_outputs, select_newest

KEY = "p/model/0/0/.runspec/manifest.json"


@pytest.mark.parametrize(
    "text", [b"", b'{"files": [{"path": "a', b"{}", b'{"files": [{"path": "a"}]}', b"\xff"]
)
def test_a_list_of_files_that_is_cut_off_is_an_error_in_words(text: bytes) -> None:
    with pytest.raises(RemoteError, match="is not a list of files"):
        read_saved_outputs("p/", [(KEY, len(text))], lambda key, start, end: io.BytesIO(text))


def test_files_of_every_save_are_given_and_those_of_the_last_are_the_newest() -> None:
    """Each with the key of its object."""
    saves = [
        {
            "number": n,
            "at": 5,
            "files": [
                {"path": "a", "size": n, "mtime_ns": 7, "sha256": f"{n}", "object": f"x-{n}"}
            ],
        }
        for n in (4, 5)
    ]
    text = json.dumps({"format": "runspec.outputs/v2", "holder": "x", "saves": saves}).encode()
    keys: list[str] = []

    def opened(key: str, start: int, end: int | None) -> io.BytesIO:
        keys.append(key)
        return io.BytesIO(text)

    found = read_saved_outputs("p/", [(KEY, len(text))], opened)
    for file in select_newest(found):
        file.open()

    assert [(f.save, f.path, f.bytes, f.sha256) for f in found] == [
        (4, "a", 4, "4"),
        (5, "a", 5, "5"),
    ]
    assert keys == [KEY, "p/model/0/0/.runspec/objects/x-5"]


def test_an_object_elsewhere_is_refused() -> None:
    """What lies in a store is data."""
    file = {"path": "a", "size": 1, "mtime_ns": 7, "sha256": "", "object": "../../../secret"}
    save = {"number": 1, "at": 5, "files": [file]}
    text = json.dumps({"format": "runspec.outputs/v2", "holder": "x", "saves": [save]}).encode()

    with pytest.raises(RemoteError, match="is not an object of this output"):
        read_saved_outputs("p/", [(KEY, len(text))], lambda key, start, end: io.BytesIO(text))


def test_files_of_the_job_by_their_plain_names_are_no_manifests() -> None:
    """A job may have saved a folder that holds outputs of another run."""
    keys = [
        ("p/model/0/0/deep/.runspec/manifest.json", 5),
        ("p/model/0/0/deep/.runspec/output.tar", 5),
    ]

    def opened(key: str, start: int, end: int | None) -> io.BytesIO:
        raise AssertionError(key)

    assert read_saved_outputs("p/", keys, opened) == []


def entry(**fields: object) -> dict[str, object]:
    return {"path": "a", "size": 1, "mtime_ns": 7, "sha256": "x", "object": "o", **fields}


def of_files(*entries: object, **more: object) -> bytes:
    save = {"number": 1, "at": 5, "files": entries, **more}
    return json.dumps({"format": "runspec.outputs/v2", "holder": "x", "saves": [save]}).encode()


HOSTILE = {
    "deep": b"[" * 100_000,
    "deep files": b'{"files": ' * 100_000,
    "NUL": of_files(entry(path="a\0b")),
    "surrogate": of_files(entry(path="\ud800")),
    "way out": of_files(entry(path="../../x")),
    "absolute": of_files(entry(path="/etc/passwd")),
    "empty": of_files(entry(path="")),
    "ours": of_files(entry(path=".runspec/manifest.json")),
    "number as path": of_files(entry(path=5)),
    "huge size": of_files(entry(size=5)).replace(b'"size": 5', b'"size": 1e999'),
    "Infinity": of_files(entry(size=5)).replace(b'"size": 5', b'"size": Infinity'),
    "NaN": of_files(entry(mtime_ns=5)).replace(b'"mtime_ns": 5', b'"mtime_ns": NaN'),
    "negative size": of_files(entry(size=-1)),
    "true size": of_files(entry(size=True)),
    "text as size": of_files(entry(size="1")),
    "time": of_files(entry(mtime_ns=1 << 70)),
    "many digits": of_files(entry(size=5)).replace(b'"size": 5', b'"size": 1' + b"0" * 5000),
    "object elsewhere": of_files(entry(object="../../x")),
    "list as digest": of_files(entry(sha256=[])),
    "null": b"null",
    "a text": b'"files"',
    "saves": b'{"format": "runspec.outputs/v2", "holder": "", "saves": 5}',
    "link out": of_files(links=[{"path": "a", "target": "../..", "mtime_ns": 1}]),
    "link by a link": of_files(links=[{"path": "a", "target": "b/../../..", "mtime_ns": 1}]),
    "link of a file": of_files(entry(link="../x")),
    "folder": of_files(folders=[{"path": "../x", "mode": 0o777, "mtime_ns": 1}]),
    "mode": of_files(folders=[{"path": "x", "mode": 1.5, "mtime_ns": 1}]),
    "UTF-16": of_files(entry()).decode().encode("utf-16-le")[:-1],
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_manifest_that_runspec_did_not_write_is_refused_in_words(text: bytes) -> None:
    """By clients and by agents, with nothing but the error of their own."""
    with pytest.raises(RemoteError, match="is not a list of files") as error:
        read_saved_outputs("p/", [(KEY, len(text))], lambda key, start, end: io.BytesIO(text))
    with pytest.raises(Failure, match="is not a manifest of saved files"):
        parsed(text, KEY)
    assert len(error.value.message) < 400


def test_folders_of_other_names_are_no_outputs() -> None:
    keys = [(f"p/model/{task}/0/.runspec/manifest.json", 5) for task in ("x", "-1", "²", "1" * 99)]

    assert read_saved_outputs("p/", keys, lambda key, start, end: io.BytesIO(b"")) == []


def test_a_save_has_its_folders_links_and_what_was_lost() -> None:
    text = of_files(
        entry(mode=0o755, mtime_ns=5),
        entry(path="newest", link="a"),
        folders=[{"path": "empty", "mode": 0o700, "mtime_ns": 6}],
        links=[{"path": "latest", "target": "empty", "mtime_ns": 7}],
        lost=[{"path": "data", "why": "a link to /data, outside of the output"}],
    )

    found = read_saved_outputs("p/", [(KEY, len(text))], lambda key, start, end: io.BytesIO(text))

    assert {f.path: (f.kind, f.target, f.mode, f.mtime_ns) for f in found} == {
        "a": ("file", "", 0o755, 5),
        "newest": ("file", "a", None, 7),
        "empty": ("folder", "", 0o700, 6),
        "latest": ("link", "empty", None, 7),
        "data": ("lost", "a link to /data, outside of the output", None, None),
    }
