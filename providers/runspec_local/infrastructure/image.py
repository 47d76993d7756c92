"""Build an image with requirements on top of another image, named by a hash of its content."""

from __future__ import annotations

import os
import shutil
import string
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from runspec_jobs.provider import RemoteError
from runspec_local.session import container_engine

BUILD = """\
FROM {base}
COPY requirements.txt build-constraints.txt /.runspec-build/
ENV PIP_CONSTRAINT=
RUN PIP_CONSTRAINT=/.runspec-build/build-constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \\
    PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1 \\
    python3 -m pip install --no-cache-dir -r /.runspec-build/requirements.txt
"""
# How pip reaches an index depends on this machine; the build gets these settings, and the image does not keep them.
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def build(
    name: str,
    image: str,
    base: str,
    requirements: Sequence[str],
    build_constraints: Sequence[str],
    folder: Path,
    tell: Callable[[str], None],
) -> None:
    """Build *image* from *base* and *requirements* with the engine *name*; *folder* is for its files.

    Raise RemoteError with the engine's last line of output.
    """
    assert not set(base) & set(string.whitespace), "BUG: a spec's image has no white space"
    context = folder / image.rpartition(":")[2]
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir(parents=True)
    (context / "Containerfile").write_text(BUILD.format(base=base))
    (context / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
    limits = "".join(f"{line}\n" for line in build_constraints)
    (context / "build-constraints.txt").write_text(limits)
    line = [name, "build", "--network", "host", "--tag", image]
    for variable in PASSED:
        if variable in os.environ:
            line += ["--build-arg", variable]
    line += ["--file", str(context / "Containerfile"), str(context)]
    said = _run(line, tell)
    shutil.rmtree(context, ignore_errors=True)
    if said is not None:
        message = f"cannot add the requirements to {base}: {said}"
        raise RemoteError(
            message, "the image needs python3 with pip and access to the package index"
        )


def _run(line: Sequence[str], tell: Callable[[str], None]) -> str | None:
    """Run *line* and pass its output to *tell*; return the last line of output if it fails, else None."""
    words = []
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=container_engine.AWAY,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "BUG: it is a pipe"
        for text in process.stdout:
            words.append(text.rstrip())
            tell(words[-1])
    return container_engine.last_line("\n".join(words)) if process.returncode else None
