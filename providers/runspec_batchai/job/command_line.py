"""Write the command of a spec as shell text, since Batch AI has command lines for a shell and no lists of words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from runspec_batchai.naming import job_variable
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Spec
from runspec_jobs.provider.commands import PLACE, Interpreter, interpreter

SAFE = re.compile(r"[\w@%+=:,./-]*", re.ASCII)  # characters without a meaning for a shell
SPECIAL = re.compile(r'([\\"$`])')


def reference(name: str, after: str) -> str:
    """Return `$NAME`, in braces if the text *after* it would become part of the name.

    >>> reference("HOME", "/x"), reference("HOME", "x")
    ('$HOME', '${HOME}')
    """
    return f"${{{name}}}" if re.match(r"\w", after) else f"${name}"


def script(text: str, options: BatchAiOptions) -> str:
    """Return the user's script with a reference to a variable for each placeholder."""

    def put(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if not match[2]:
            return match[0]
        return reference(job_variable(match[2], match[3], options), text[match.end() :])

    return PLACE.sub(put, text)


def word(text: str, values: Mapping[str, str], options: BatchAiOptions) -> str:
    """Return one word of a command, quoted so that the shell passes it to the program unchanged.

    >>> word("two words", {}, BatchAiOptions()), word("${outputs.model}/x", {}, BatchAiOptions())
    ("'two words'", '$AZ_BATCHAI_OUTPUT_MODEL/x')
    """
    parts: list[tuple[str, str]] = []
    at = 0
    for match in PLACE.finditer(text):
        parts.append(("text", text[at : match.start()]))
        if match[1]:
            parts.append(("text", match[0][1:]))
        elif not match[2]:
            parts.append(("text", match[0]))
        elif match[2] == "sweep":
            parts.append(("text", values.get(match[3], "")))
        else:
            parts.append(("name", job_variable(match[2], match[3], options)))
        at = match.end()
    parts.append(("text", text[at:]))
    return _quoted([part for part in parts if part[1]])


def _quoted(parts: list[tuple[str, str]]) -> str:
    texts = [text for kind, text in parts if kind == "text"]
    if len(texts) == len(parts):
        return shlex.quote("".join(texts))
    after = [*(text if kind == "text" else "" for kind, text in parts[1:]), ""]
    if all(SAFE.fullmatch(text) for text in texts):
        both = zip(parts, after, strict=True)
        return "".join(t if kind == "text" else reference(t, then) for (kind, t), then in both)
    inner = (SPECIAL.sub(r"\\\1", t) if kind == "text" else f"${{{t}}}" for kind, t in parts)
    return f'"{"".join(inner)}"'


def line(spec: Spec, values: Mapping[str, str], options: BatchAiOptions) -> str:
    """Return the program of the job as one command line, which starts one process.

    A script is run by /bin/sh or by the interpreter that its first line names, because the service uses another shell,
    and mpirun none. Without the contract, the line is the script itself.
    """
    if spec.run is not None and (reads := interpreter(spec.run)) is not None:
        return _interpreted(reads, spec.run.lstrip("\n"), values, options)
    written_line = written(spec, values, options)
    if spec.command is not None or not options.contract:
        return written_line
    return f"/bin/sh -e -c {shlex.quote(written_line)}"


def _interpreted(
    reads: Interpreter, text: str, values: Mapping[str, str], options: BatchAiOptions
) -> str:
    """Return the line that has the interpreter *reads* run the script *text*, which is kept in the job's own folder."""
    shell, option, obey, program, _, *rest = reads.argv("")
    if reads.is_shell:
        text = shlex.quote(script(text, options))
    else:
        text = word(text, values, options)
    obey = obey.replace("RUNSPEC_SCRIPTS", "AZ_BATCHAI_JOB_TEMP").replace(
        "unset AZ_BATCHAI_JOB_TEMP\n", ""
    )
    return " ".join(
        [*map(shlex.quote, (shell, option, obey, program)), text, *map(shlex.quote, rest)]
    )


def written(spec: Spec, values: Mapping[str, str], options: BatchAiOptions) -> str:
    """Return the command or the script without anything added."""
    if spec.command is not None:
        return " ".join(word(text, values, options) for text in spec.command)
    return script((spec.run or "").strip("\n"), options)


def program(spec: Spec, values: Mapping[str, str], options: BatchAiOptions) -> list[str]:
    """Return the interpreter, the script and the arguments, as far as they exist.

    A toolkit starts the interpreter itself and has a field for each of them.
    """
    if spec.command is not None:
        words = [word(text, values, options) for text in spec.command]
        if words[0].endswith(".py"):
            words = ["python", *words]
        return [*words[:2], *([" ".join(words[2:])] if words[2:] else [])]
    parts = written(spec, values, options).split(None, 2)
    return [*(bare(part) for part in parts[:2]), *parts[2:]]


def bare(text: str) -> str:
    """Return a word of a script without the quotes around it, as a field of a toolkit needs it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
