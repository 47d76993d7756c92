"""The table of ends in docs/exit-codes.md is made of what tests have established."""

from __future__ import annotations

from tests.support import ends


def test_the_page_has_the_recorded_ends() -> None:
    """`RUNSPEC_GOLDEN=write` with the tests of tests/e2e/test_ends.py writes both anew."""
    assert ends.PAGE.read_text() == ends.page()


def test_every_way_to_end_is_recorded_for_each_provider() -> None:
    for name, more in (("local", "supervisor"), ("slurm", "batch")):
        known = ends.recorded(name)

        assert set(known) >= {*ends.OF_PROGRAM, "timeout", "cancel", more}


def test_a_program_that_fails_by_itself_has_its_code_everywhere() -> None:
    """Whatever this code means to an agent or a service, and with the attempts of a failure."""
    for name in ("local", "slurm", "aws-batch", "azure-batch"):
        for code in ends.CODES[1:]:
            (row,) = ends.recorded(name)[f"exit-{code}"]

            assert (row["state"], row["exit_code"]) == ("failed", code)
            assert row["attempts"] == [[code, "failed"]] * ends.ATTEMPTS
