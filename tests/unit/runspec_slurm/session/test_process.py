"""A command on this machine, with and without something to read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runspec_slurm.session.process import run_process


@pytest.mark.process
@pytest.mark.parametrize(("content", "out"), [(None, b"end\n"), ([b"a", b"b\n"], b"ab\nend\n")])
def test_a_command_reads_what_it_is_given(content: Sequence[bytes] | None, out: bytes) -> None:
    done = run_process(["/bin/sh", "-c", "cat; echo end"], content, 60.0)

    assert (done.code, done.out, done.lost) == (0, out, False)
