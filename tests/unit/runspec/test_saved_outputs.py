"""What lists of saved files are worth that cannot be read."""

from __future__ import annotations

import io

import pytest

from runspec.errors import RemoteError
from runspec.outputs import saved_outputs

KEY = "p/model/0/0/.runspec/manifest.json"


@pytest.mark.parametrize(
    "text", [b"", b'{"files": [{"path": "a', b"[]", b"{}", b'{"files": [{"path": "a"}]}', b"\xff"]
)
def test_a_list_of_files_that_is_cut_off_is_an_error_in_words(text: bytes) -> None:
    with pytest.raises(RemoteError, match="is no list of files"):
        saved_outputs("p/", [(KEY, len(text))], lambda key, start, end: io.BytesIO(text))
