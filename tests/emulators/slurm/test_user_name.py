"""A user of the rehearsal's Slurm needs a name."""

from __future__ import annotations

import pytest

from runspec_emulators.slurm import Failed
from runspec_emulators.slurm.cluster import user_name

NOBODY_HAS_THIS = 2_000_000_123


def test_root_has_a_name() -> None:
    assert user_name(0) == "root"


def test_a_user_without_an_entry_in_passwd_is_told_how_to_add_one() -> None:
    with pytest.raises(Failed, match="no entry in the passwd database") as failed:
        user_name(NOBODY_HAS_THIS)

    assert f"echo me:x:{NOBODY_HAS_THIS}:" in str(failed.value)
