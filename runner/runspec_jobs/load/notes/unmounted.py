"""Finds programs beside a spec that its job is told to start and that no mount brings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from runspec_jobs.diagnostics.problem import Path as Path_, Problem
from runspec_jobs.load.notes.bash_words import strip_quoted
from runspec_jobs.provider import Spec
from runspec_jobs.regex import regex
from runspec_jobs.spec.interpreter import interpreter

PROGRAM_NAME = r"(?:\./)?[\w-][\w./-]*\.(?:py|sh|R|r|jl|pl|lua|js|ipynb)"
PROGRAM = regex(PROGRAM_NAME)
STARTED = regex(
    r"(?m)(?:^|[\s;&|])(?:python[\d.]*|bash|sh|Rscript|julia|perl|lua|node|torchrun)"
    rf"(?:[ \t]+-[\w=-]+)*[ \t]+({PROGRAM_NAME})(?=$|[\s;&|)])"
)
MOVES = regex(r"(?m)(?:^|[\s;&|])(?:cd|pushd|git|curl|wget|tar|unzip|cp|ln|mv)\s")


def find_notes(spec: Spec, base: Path) -> Iterator[Problem]:
    """Yield a note for each file below *base* that *spec* starts by a relative path.

    A job starts in a folder of its own. In an image, a file of that name may be in the working directory.
    """
    for where, name in _find_started(spec):
        try:
            # Only a file that exists here: a note about others would mostly be wrong.
            there = (base / name).is_file()
        except (OSError, ValueError):  # a word that cannot be a path, such as one with a NUL
            continue
        if there:
            yield _note(spec, base, where, name)


def _find_started(spec: Spec) -> Iterator[tuple[Path_, str]]:
    # Later words are arguments of the program, mostly names of files in the job.
    for i, word in enumerate((spec.command or ())[:6]):
        if PROGRAM.fullmatch(word) and ".." not in word and not _is_option_value(spec, i):
            yield ("command", i), word
            return
    if spec.run is None or interpreter(spec.run) is not None:
        return
    bare = strip_quoted(spec.run)
    if MOVES.search(bare):
        return  # the script makes its own folders and files
    for name in dict.fromkeys(STARTED.findall(bare)):
        if ".." not in name and not re.search(rf">\s*{re.escape(name)}", bare):
            yield ("run",), name


def _is_option_value(spec: Spec, i: int) -> bool:
    """Return whether word *i* of the command may be the value of an option such as --config."""
    return i > 1 and (spec.command or ())[i - 1].startswith("--")


def _note(spec: Spec, base: Path, where: Path_, name: str) -> Problem:
    here = (base / name).resolve()
    for mount in spec.mounts:
        source = (base / mount.place).resolve()
        if mount.scheme == "file" and here.is_relative_to(source):
            inner = "" if here == source else f"/{here.relative_to(source).as_posix()}"
            write = f"write ${{mounts.{mount.name}}}{inner}"
            message = f"the job does not start in the mount '{mount.name}', which has {name}"
            break
    else:
        folder, _, file = name.removeprefix("./").rpartition("/")
        source_ = f"./{folder}" if folder else "."
        write = f"write mounts: [{{name: code, source: {source_}, target: /job/code}}] and ${{mounts.code}}/{file}"
        message = f"{name} is beside this file, and no mount brings it to the job"
    if spec.container.image is not None or spec.container.build is not None:
        message += "; it is found only if the image has it in its working directory"
    is_script = where == ("run",)
    return Problem(where, message, write, at="key" if is_script else "value", severity="note")
