"""Messages of ssh about a command that it did not start."""

from __future__ import annotations

import re

# Whole lines that ssh prints if the command certainly did not begin, and hints. Other lines may come from the login's
# own files, after which the command may have begun.
NEVER_BEGUN = tuple(
    (re.compile(said), way)
    for said, way in (
        (
            r"(\S+: )?Permission denied \([a-z0-9,-]+\)\.",
            "log in by hand once, and check that the key exists and that ssh-agent has it",
        ),
        (r"Host key verification failed\.", "log in by hand once, and verify the key of the host"),
        (
            r"@\s+WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\s+@",
            "the key of the host has changed: ask its administrators",
        ),
        (
            r"ssh: Could not resolve hostname .*",
            "check option host of the profile",
        ),
        (
            r"ssh: connect to host .*",
            "check that the host is up and that this machine may reach it, or repeat the command later",
        ),
        (
            r"Connection closed by UNKNOWN port \d+",
            "check that the jump host accepts your connection",
        ),
        (r"command-line:? line \d+: .*", "correct ssh_options in the profile"),
        (r"\S+: terminating, \d+ bad configuration options", "correct ~/.ssh/config"),
        (r"unknown option -- .*", "correct ssh_options in the profile"),
        (
            r"Received disconnect from .*: Too many authentication failures",
            "let ssh offer only the configured key: set ssh_options: [IdentitiesOnly=yes]",
        ),
    )
)


def never_begun(err: str) -> str:
    """Return a hint if *err* says that the command certainly did not begin, or else an empty text."""
    lines = [line.strip() for line in err.splitlines()]
    return next((way for said, way in NEVER_BEGUN if any(map(said.fullmatch, lines))), "")
