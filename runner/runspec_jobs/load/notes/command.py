"""Notes about the command or script of a spec: what is allowed there, and is nearly always a mistake."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from runspec_jobs.diagnostics.problem import Path, Problem
from runspec_jobs.load.notes.bash_words import find_bash_words, strip_quoted
from runspec_jobs.regex import regex
from runspec_jobs.spec.interpreter import interpreter
from runspec_jobs.spec.model import Launch, Spec
from runspec_jobs.spec.placeholders import list_parameters, shell_script, variable

OPERATORS = frozenset("&& || | ; & > >> < << 2> 2>> 1> &> 2>&1 >&2 1>&2".split())
COMPARES = frozenset({"test", "[", "expr"})  # programs that get such words
TAKES_FILES = frozenset("cat cp mv rm ls wc head tail sort chmod md5sum sha256sum".split())
SHELL_OPTION = regex(r"-\w*c")
REFERENCE = regex(r"[\w./=:,@+-]*\$(?:([A-Z_][A-Z0-9_]*)|\{([A-Z_][A-Z0-9_]*)\})[\w./=:,@+-]*")
BRACELESS = regex(r"(?<!\$)\$((?:mounts|outputs|sweep)\.[A-Za-z0-9_-]+)")
OURS = regex(r"\b(RUNSPEC_[A-Z0-9_]+)(?![A-Z0-9_*])(?!=|:?[-+?])")
# The variables of the contract, those of elastic jobs, and those by which providers set up the agent.
NAMES = frozenset(
    "RUN TASK ATTEMPT RANK NODES SLOTS HOST LEADER HOSTFILE GLOBAL_BATCH SMOKE LAUNCH JOB INDEX PYTHON INSIDE MPI "
    "MEET SCRIPTS GRACE_S TIMEOUT_S GENERATION PROGRESS DISCOVERY NOTICE MEMBERS PORT WORLD_SIZE HOME PROFILE STORE "
    "TORCHRUN BELOW SHARED REGION".split()
)
MEANT = {
    "NODE_RANK": "RANK", "NODEID": "RANK", "NODE_ID": "RANK", "NODE": "RANK", "NUM_NODES": "NODES",
    "NNODES": "NODES", "NODE_COUNT": "NODES", "TASK_ID": "TASK", "TASK_INDEX": "TASK", "RUN_ID": "RUN",
    "MASTER_ADDR": "LEADER", "MASTER": "LEADER", "LEADER_ADDR": "LEADER", "LOCAL_WORLD_SIZE": "SLOTS",
    "HOSTNAME": "HOST", "NUM_GPUS": "SLOTS", "OUTPUT_DIR": "OUTPUT_<NAME>", "OUTPUT": "OUTPUT_<NAME>",
}  # fmt: skip
# Variables of torchrun, with what a job has without it.
TORCH = {
    "WORLD_SIZE": "RUNSPEC_NODES", "RANK": "RUNSPEC_RANK", "LOCAL_RANK": "RUNSPEC_RANK",
    "LOCAL_WORLD_SIZE": "RUNSPEC_SLOTS", "MASTER_ADDR": "RUNSPEC_LEADER", "MASTER_PORT": "a port of your choice",
}  # fmt: skip
OF_TORCH = regex(rf"\$(?:({'|'.join(TORCH)})\b|\{{({'|'.join(TORCH)})\}})")


def find_notes(spec: Spec, *, torch: bool = True) -> Iterator[Problem]:
    """Yield a note for each such thing in *spec*, with what to write; about variables of torchrun only if *torch*."""
    yield from _check_words(spec)
    yield from _check_bash(spec)
    yield from _check_names(spec)
    if torch and spec.launch is not Launch.TORCHRUN:
        yield from _check_torch(spec)
    yield from _check_env(spec)


def list_texts(spec: Spec) -> Iterator[tuple[Path, str]]:
    """Yield the words of the command, and the scripts of *spec*, each with its path."""
    yield from ((("command", i), word) for i, word in enumerate(spec.command or ()))
    yield from ((where, text) for where, text in list_scripts(spec))


def list_scripts(spec: Spec) -> Iterator[tuple[Path, str]]:
    """Yield the scripts of *spec* with their paths."""
    if spec.run is not None:
        yield ("run",), spec.run
    for key, text in (("setup", spec.setup), ("smoke", spec.smoke)):
        if isinstance(text, str):
            yield (key,), text


def _note(where: Path, message: str, hint: str) -> Problem:
    is_script = where in (("run",), ("setup",), ("smoke",))
    return Problem(where, message, hint, at="key" if is_script else "value", severity="note")


# Words that only a shell reads


def _check_words(spec: Spec) -> Iterator[Problem]:
    """Yield a note for each word of the command that only a shell would act on."""
    for where, text in list_texts(spec):
        for name in BRACELESS.findall(text):
            yield _note(where, f"'${name}' has no braces and is not replaced", f"write ${{{name}}}")
    words = spec.command or ()
    if not words or any(SHELL_OPTION.fullmatch(word) for word in words):
        return
    program = words[0].rpartition("/")[2]
    for_shell = [i > 0 and _is_for_shell(program, words, i) for i in range(len(words))]
    line = " ".join(
        word if word in OPERATORS or for_shell[i] or _is_read(word) else shlex.quote(word)
        for i, word in enumerate(words)
    )
    for i, word in enumerate(words):
        if for_shell[i]:
            message = f"no shell reads the words of command: the program gets '{word}' itself"
            yield _note(("command", i), message, f"write run: {line}")


def _is_for_shell(program: str, words: tuple[str, ...], i: int) -> bool:
    """Return whether word *i* is for a shell; the value of an option may be a delimiter, and `;` ends -exec of find."""
    word = words[i]
    if word in OPERATORS:
        return not (
            program in COMPARES
            or words[i - 1].startswith("-")
            or (word == ";" and any(w.startswith(("-exec", "-ok")) for w in words))
        )
    return _is_read(word) or (program in TAKES_FILES and "*" in word and not word.startswith("-"))


def _is_read(word: str) -> bool:
    return bool(REFERENCE.fullmatch(word)) or word.startswith("~/")


def _check_env(spec: Spec) -> Iterator[Problem]:
    """Yield a note for each variable whose value names another one, as in `PATH: "/x:$PATH"`."""
    for name, value in spec.env.items():
        if REFERENCE.fullmatch(str(value)):
            message = f"values in env are taken as they are: {name} is '{value}' itself"
            yield _note(("env", name), message, f'set it in run: export {name}="{value}"')


# What only bash has


def _check_bash(spec: Spec) -> Iterator[Problem]:
    for where, text in list_scripts(spec):
        bashisms = find_bash_words(shell_script(text)) if interpreter(text) is None else []
        if bashisms:
            listed = ", ".join(f"'{name}' in line {line}" for line, name in bashisms)
            message = f"/bin/sh reads this script, and not every /bin/sh knows {listed}"
            yield _note(where, message, "write #!/bin/bash as the first line of the script")


# Variables that no job has


def _check_names(spec: Spec) -> Iterator[Problem]:
    known = _list_known_names(spec)
    for where, text in list_texts(spec):
        assigned = set(re.findall(r"\b(RUNSPEC_[A-Z0-9_]+)=", text))
        for name in dict.fromkeys(OURS.findall(text)):
            if name not in known | assigned and not name.endswith("_"):
                yield _note(where, f"a job has no variable {name}", _suggest_name(name, known))


def _list_known_names(spec: Spec) -> set[str]:
    made = [
        *(variable("mounts", mount.name) for mount in spec.mounts),
        *(variable("outputs", output.name) for output in spec.outputs),
        *(variable("sweep", name) for name in list_parameters(spec.sweep)),
        *spec.param_env,
    ]
    return {*(f"RUNSPEC_{name}" for name in NAMES), *made, *spec.env, *spec.secrets}


def _suggest_name(name: str, known: Iterable[str]) -> str:
    short = name.removeprefix("RUNSPEC_")
    if short in MEANT:
        return f"write RUNSPEC_{MEANT[short]}"
    import difflib  # slow to import, and only a wrong name needs it

    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return (
        f"did you mean {near[0]}?" if near else "runspec docs inside lists the variables of a job"
    )


def _check_torch(spec: Spec) -> Iterator[Problem]:
    """Yield a note for variables of torchrun in a script of a job without it; a file that is read may set them."""
    for where, text in list_scripts(spec):
        reads = interpreter(text)
        bare = strip_quoted(text)
        if (reads is not None and not reads.is_shell) or re.search(
            r"(?m)(?:^|[;&|]\s*)\s*(?:\.|source)\s", bare
        ):
            continue
        matches = OF_TORCH.findall(strip_quoted(text, double=False))
        for name in dict.fromkeys(first or other for first, other in matches):
            if (
                name in spec.env
                or name in spec.secrets
                or re.search(rf"\b(?:{name}=|for\s+{name}\b|read\b.*\b{name}\b)", text)
            ):
                continue
            yield _note(
                where,
                f"a job without launch: torchrun has no variable {name}",
                f"write {TORCH[name]}, or set launch: torchrun",
            )
