"""Checks of a spec that several providers make in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.provider.types import Options
from runspec_jobs.spec.model import Launch, Spec
from runspec_jobs.spec.placeholders import length, variable

SecretCheck = Callable[[Path, str, str], Iterable[Problem]]
"""Gets the path of a secret in the spec, its name, and its source, such as `env:TOKEN`."""

# What a spec for Batch AI may have and other providers do not: see docs/azure-batch-ai.md.
BATCH_AI = "azure-batch-ai"
BATCH_AI_VARIABLE = re.compile(r"\$\{?(AZ_BATCHAI_(\w*))")
# Toolkits of one process, and those whose processes mpirun starts, as with `launch: mpi`.
ALONE = ("custom",)
BY_MPIRUN = ("custom-mpi", "chainer", "horovod")
# What to use instead of a variable of Batch AI, by the beginning of its name.
INSTEAD = (
    ("INPUT_", "write ${mounts.NAME}"),
    ("OUTPUT_", "write ${outputs.NAME}"),
    ("MOUNT_ROOT", "write ${mounts.NAME}"),
    ("JOB_MOUNT_ROOT", "write ${mounts.NAME}"),
    ("TASK_INDEX", "use RUNSPEC_RANK"),
    ("MPI_", "set launch: mpi, which needs no list of hosts"),
    ("PS_HOSTS", "connect nodes by RUNSPEC_LEADER, or set launch; runspec starts no parameter servers"),
    ("WORKER_HOSTS", "connect nodes by RUNSPEC_LEADER, or set launch"),
    ("PYTORCH_INIT_METHOD", "set launch: torchrun"),
    ("", "use the RUNSPEC_* variables of the job"),
)  # fmt: skip


def not_in_profile(what: str, at: Path, key: str, known: Collection[str], entry: str) -> Problem:
    """Return the problem that the profile has no *what* called *key*.

    *known* are the names that the profile has. *entry* is an entry to add, such as `slurm: {shared: {data: /data}}`.
    """
    hint = did_you_mean(key, known) or f"add providers: {{{entry}}} to the profile"
    return Problem(at, f"the profile has no {what} '{key}'", hint)


def lacking(provider: str, key: str, example: str, why: str = "") -> Problem:
    """Return the problem that the profile has no setting *key* of *provider*; *why* says what needs it.

    >>> lacking("aws-batch", "bucket", "NAME").what
    'the profile has no `bucket`'
    """
    hint = f"add providers: {{{provider}: {{{key}: {example}}}}} to the profile"
    what = f"the profile has no `{key}`{', ' + why if why else ''}"
    return Problem(("provider",), what, hint, lacks=f"{key}: {example}")


def too_many_tasks(spec: Spec, most: int, why: str) -> Iterator[Problem]:
    """Yield a problem if the sweep of *spec* has more tasks than a provider supports; *why* says whose limit it is."""
    if (count := length(spec.sweep)) > most:
        what = f"the sweep has {count:,} tasks; at most {most:,} are allowed: {why}"
        yield Problem(("sweep",), what, "use fewer values, or several specs", at="key")


def secret_problems(
    spec: Spec, options: Options, provider: str, example: str, check: SecretCheck
) -> Iterator[Problem]:
    """Yield a problem for each secret that the profile lacks, and those that *check* finds in the others.

    *example* is a source, in which `{}` stands for the variable.
    """
    for name, key in spec.secrets.items():
        at, source = ("secrets", name), options.secrets.get(key)
        if source is None:
            entry = f"{provider}: {{secrets: {{{key}: {example.format(name)}}}}}"
            yield not_in_profile("secret", at, key, options.secrets, entry)
        else:
            yield from check(at, key, source)


def lost_from_batch_ai(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for everything in *spec* that only Batch AI has, if it is for another provider.

    A setting that is ignored is a note, because a spec may keep it for Batch AI; what would start another program is
    an error.
    """
    if spec.provider == BATCH_AI:
        return
    block = spec.providers.get(BATCH_AI, {})
    if block.get("preparation"):
        yield _lost(
            "preparation",
            "ignored: put it at the beginning of the command, or use container.requirements",
        )
    name = str(block.get("toolkit") or "custom")
    if spec.launch is Launch.NONE and name not in ALONE:
        way = (
            "set launch: mpi, or the command starts without mpirun"
            if name in BY_MPIRUN
            else "each node starts the command once, unless launch is mpi, horovod or torchrun"
        )
        yield _lost("toolkit", f"only Batch AI has the toolkit {name}: {way}")
    if settings := block.get("toolkit_settings"):
        yield from _lost_toolkit_settings(settings)
    yield from _lost_variables(spec)


def lost_setup(spec: Spec, profile: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a note about the setup task in *profile*, the settings of Batch AI, if *spec* is for another provider."""
    if spec.provider != BATCH_AI and BATCH_AI in spec.providers and profile.get("setup"):
        what = f"setup, which the profile has for {BATCH_AI}, is ignored: put it at the beginning of the "
        what += "command, or use an image that contains its results"
        yield Problem(("provider",), what, severity="note")


def _lost_toolkit_settings(settings: Mapping[str, Any]) -> Iterator[Problem]:
    at = ("providers", BATCH_AI, "toolkit_settings")
    file = settings.get("configFilePath")
    if file:
        what = f"only Batch AI starts a program from configFilePath ('{file}')"
        hint = "write the whole command, with the file, and remove configFilePath"
        yield Problem(at, what, hint, at="key")
    else:
        yield _lost("toolkit_settings", "ignored: only Batch AI has toolkits")


def _lost(key: str, what: str) -> Problem:
    return Problem(("providers", BATCH_AI, key), what, at="key", severity="note")


def _lost_variables(spec: Spec) -> Iterator[Problem]:
    texts: list[tuple[Path, str]] = [(("run",), spec.run or "")]
    texts += _numbered("command", spec.command or ())
    texts += [(("env", name), value) for name, value in spec.env.items()]
    smoke = spec.smoke or ()
    texts += [(("smoke",), smoke)] if isinstance(smoke, str) else _numbered("smoke", smoke)
    for at, text in texts:
        if match := BATCH_AI_VARIABLE.search(text):
            way = next(way for begins, way in INSTEAD if match[2].startswith(begins))
            what = f"{match[1]} is a variable of Batch AI, which {spec.provider} does not set"
            yield Problem(at, what, way)


def _numbered(key: str, words: Iterable[str]) -> list[tuple[Path, str]]:
    return [((key, i), word) for i, word in enumerate(words)]


def literal_paths(spec: Spec, why: str) -> Iterator[Problem]:
    """Yield a note for each text of *spec* that names the path of a mount or an output.

    This is for jobs that have it elsewhere; *why* ends the sentence that says so.
    """
    found = [(m.target, f"${{mounts.{m.name}}}", variable("mounts", m.name)) for m in spec.mounts]
    found += [(o.path, f"${{outputs.{o.name}}}", variable("outputs", o.name)) for o in spec.outputs]
    texts: list[tuple[Path, str]] = [
        (("run",), spec.run or ""),
        *_numbered("command", spec.command or ()),
    ]
    texts += [(("env", name), value) for name, value in spec.env.items()]
    for at, text in texts:
        for path, place, name in found:
            match = re.search(rf"(?<![\w$}}/.-]){re.escape(path)}(?![\w.-])(/[\w./-]*)?", text)
            if match is not None:
                write = f"write {place}{match[1] or ''}"
                hint = f"read {name} in the program" if at[0] == "env" else write
                is_script = at == ("run",)
                what = f"there is no {path} {why}"
                yield Problem(at, what, hint, at="key" if is_script else "value", severity="note")
