"""What lists of saved files are worth that cannot be read."""

from __future__ import annotations

import io
import json

import pytest

from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.saved_outputs import newest, read_saved_outputs

KEY = "p/model/0/0/.runspec/manifest.json"


@pytest.mark.parametrize(
    "text", [b"", b'{"files": [{"path": "a', b"[]", b"{}", b'{"files": [{"path": "a"}]}', b"\xff"]
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
            "files": [{"path": "a", "size": n, "sha256": f"{n}", "object": f"x-{n}"}],
        }
        for n in (4, 5)
    ]
    text = json.dumps({"format": "runspec.outputs/v2", "holder": "x", "saves": saves}).encode()
    keys: list[str] = []

    def opened(key: str, start: int, end: int | None) -> io.BytesIO:
        keys.append(key)
        return io.BytesIO(text)

    found = read_saved_outputs("p/", [(KEY, len(text))], opened)
    for file in newest(found):
        file.open()

    assert [(f.save, f.path, f.bytes, f.sha256) for f in found] == [
        (4, "a", 4, "4"),
        (5, "a", 5, "5"),
    ]
    assert keys == [KEY, "p/model/0/0/.runspec/objects/x-5"]


def test_an_object_elsewhere_is_refused() -> None:
    """What lies in a store is data."""
    file = {"path": "a", "size": 1, "sha256": "", "object": "../../../secret"}
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
