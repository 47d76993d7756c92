"""What travels into the job: the texts of inside.sh, signed.sh and boot.py, and the zipapp of runspec_inside."""

from __future__ import annotations

from pathlib import Path

from runspec_inside import pack
from runspec_inside.pack import boot_py as boot_py, zipapp_bytes as zipapp_bytes

FOLDER = Path(__file__).parent.parent / "runspec_inside"


def inside_sh() -> bytes:
    """Give inside.sh as it is."""
    return (FOLDER / "inside.sh").read_bytes()


def inside_signed() -> tuple[str, str]:
    """Give the texts of signed.sh and of inside.sh, which it is given as its `$0`, as they travel."""
    return pack.signed_sh(), pack.inside_sh()
