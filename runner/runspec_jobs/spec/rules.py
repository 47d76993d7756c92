"""The rules between the fields of a spec that hold for every provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from runspec_agent.base.retry_rules import APART
from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.errors import UsageError
from runspec_jobs.spec.interpreter import interpreter
from runspec_jobs.spec.metric_rules import check_metric, check_scaling
from runspec_jobs.spec.model import Launch, Spec
from runspec_jobs.spec.placeholders import (
    SMOKE,
    count_tasks,
    find_placeholders,
    find_unknown_placeholders,
    list_parameters,
    make_smoke_name,
    variable,
)
from runspec_jobs.spec.python_versions import python_fits
from runspec_jobs.spec.scaling import list_sizes
from runspec_jobs.spec.sweep import MAX_TASKS, Random
from runspec_jobs.spec.types import NAME, compiled

RESERVED = "RUNSPEC_"
LEAST_TTL_S = 60
ARGUMENT_BYTES = 131_072  # MAX_ARG_STRLEN of Linux, with the NUL at the end
WITH_CONDA = (
    "keep one of them, or if the image has conda, mount the file and write "
    'setup: conda env update --name base --file "${mounts.NAME}"'
)
NOTHING_TO_RUN = "nothing to run"


def find_broken(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for every rule that *spec* breaks."""
    yield from _check_program(spec)
    yield from _check_python(spec)
    yield from _check_conda(spec)
    yield from _check_names(spec)
    yield from _check_targets(spec)
    yield from _check_environment(spec)
    yield from _check_placeholders(spec)
    yield from _check_output_targets(spec)
    yield from _check_sweep(spec)
    yield from _check_launch(spec)
    yield from _check_smoke(spec)
    yield from _time(spec)
    yield from _check_signal(spec)
    yield from _check_retry(spec)
    yield from check_metric(spec)
    yield from check_scaling(spec)


def _check_program(spec: Spec) -> Iterator[Problem]:
    if spec.command is not None and spec.run is not None:
        yield Problem(
            ("run",), "'command' and 'run' cannot be used together", "keep one of them", at="key"
        )
    yield from _check_entrypoint(spec)
    if spec.command is None and spec.run is None and not spec.container.entrypoint:
        yield Problem((), NOTHING_TO_RUN, "add command: [program, argument] or run: |")
    for key, words in (
        ("command", spec.command or ()),
        *((key, _list_words(program)) for key, program in _list_steps(spec)),
    ):
        if words and not words[0]:
            yield Problem((key, 0), "the name of the program is empty")
    for where, text in _list_texts(spec):
        if "\0" in text:
            yield Problem(where, "a NUL character cannot be part of a command")
        yield from _check_length(where, text)
    for name, value in spec.env.items():
        yield from _check_length(("env", name), f"{name}={value}")


def _check_entrypoint(spec: Spec) -> Iterator[Problem]:
    container, where = spec.container, ("container", "entrypoint")
    if container.args and not container.entrypoint:
        hint = "add entrypoint: image, or write command: [program, argument]"
        yield Problem(("container", "args"), "'args' needs 'entrypoint'", hint, at="key")
    if container.entrypoint and not (container.image or container.build):
        yield Problem(where, "'entrypoint' needs 'image'", "add image: NAME:TAG", at="key")
    if container.image and container.build:
        message = "'image' and 'build' cannot be used together"
        yield Problem(("container", "build"), message, "keep one of them", at="key")
    if container.entrypoint and (spec.command is not None or spec.run is not None):
        message = "'entrypoint' cannot be used together with 'command' or 'run'"
        hint = "keep one of them: args are the arguments of the entrypoint"
        yield Problem(where, message, hint, at="key")


def _check_length(where: Path, text: str) -> Iterator[Problem]:
    """Yield a problem if Linux starts no program with *text*, as a word or as a variable: execve(2)."""
    size = len(text.encode())
    # In bytes: a letter that is not ASCII takes up to four of them.
    if size >= ARGUMENT_BYTES:
        message = (
            f"{size:,} bytes, and a program is started with at most {ARGUMENT_BYTES - 1:,} in one"
        )
        which = "variable, NAME=VALUE" if where[0] == "env" else "word of its command"
        yield Problem(where, f"{message} {which}", "put the text into a file of a mounted folder")


def _check_python(spec: Spec) -> Iterator[Problem]:
    if spec.container.python is not None:
        try:
            python_fits("3", spec.container.python)
        except UsageError as exc:
            yield Problem(("container", "python"), exc.message, exc.hint)


def _check_conda(spec: Spec) -> Iterator[Problem]:
    container = spec.container
    for name, hint in (
        ("requirements", "write the packages of pip under pip: in the file"),
        ("build_constraints", "they are for container.requirements"),
        ("python", "write python among the dependencies in the file"),
        ("image", WITH_CONDA),
        ("build", "keep one of them: the image has its own packages"),
    ):
        if container.conda and getattr(container, name):
            message = f"'conda' and '{name}' cannot be used together"
            yield Problem(("container", name), message, hint, at="key")


def _check_names(spec: Spec) -> Iterator[Problem]:
    for kind, names in (
        ("mounts", [m.name for m in spec.mounts]),
        ("outputs", [o.name for o in spec.outputs]),
        ("sweep", list_parameters(spec.sweep)),
        ("params", list(spec.params)),
    ):
        seen: dict[str, str] = {}
        for i, name in enumerate(names):
            # `my-code` and `my_code` are different names, but MY_CODE in both cases.
            same = seen.setdefault(variable(kind, name), name)
            where: Path = _find_parameter(spec, i) if kind == "sweep" else (kind, i, "name")
            where = ("params", name) if kind == "params" else where
            if same != name:
                yield Problem(where, f"'{name}' and '{same}' become the same variable in the job")
        for name in (name for name, times in Counter(names).items() if times > 1):
            last = len(names) - 1 - names[::-1].index(name)
            where = _find_parameter(spec, last) if kind == "sweep" else (kind, last, "name")
            yield Problem(where, f"'{name}' is used twice")


def _check_targets(spec: Spec) -> Iterator[Problem]:
    folders: list[tuple[Path, str]] = [
        *((("mounts", i, "target"), m.target) for i, m in enumerate(spec.mounts)),
        *((("outputs", i, "path"), o.path) for i, o in enumerate(spec.outputs)),
    ]
    for i, (where, folder) in enumerate(folders):
        # Each pair once, reported at the later one.
        for _, other in folders[:i]:
            if f"{folder}/".startswith(f"{other}/") or f"{other}/".startswith(f"{folder}/"):
                yield Problem(where, f"{folder} and {other} overlap")
                break


def _check_environment(spec: Spec) -> Iterator[Problem]:
    for name in spec.env:
        if name.upper().startswith(RESERVED) and name != SMOKE:
            yield Problem(
                ("env", name), f"{RESERVED}* is reserved for runspec", "rename it", at="key"
            )
        if name in spec.secrets:
            yield Problem(("secrets", name), f"'{name}' is in env too", "keep one", at="key")
        if "\0" in spec.env[name]:
            yield Problem(("env", name), "a NUL character cannot be part of a variable")
    for name in spec.secrets:
        if name.upper().startswith(RESERVED):
            yield Problem(("secrets", name), f"{RESERVED}* is reserved for runspec", at="key")


def _list_texts(spec: Spec) -> Iterable[tuple[Path, str]]:
    yield from (((("command", i), word)) for i, word in enumerate(spec.command or ()))
    yield from (((("container", "args", i), word)) for i, word in enumerate(spec.container.args))
    if spec.run is not None:
        yield ("run",), spec.run
    for key, program in _list_steps(spec):
        if isinstance(program, str):
            yield (key,), program
        yield from ((((key, i), word)) for i, word in enumerate(_list_words(program)))


def _list_steps(spec: Spec) -> Iterable[tuple[str, str | tuple[str, ...] | None]]:
    """Return what runs before the job, by the names of their fields."""
    return ("setup", spec.setup), ("smoke", spec.smoke)


def _list_words(program: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return program if isinstance(program, tuple) else ()


def _check_placeholders(spec: Spec) -> Iterator[Problem]:
    known = {
        "mounts": [m.name for m in spec.mounts],
        "outputs": [o.name for o in spec.outputs],
        "sweep": list_parameters(spec.sweep),
        "params": list(spec.params),
    }
    for where, text in _list_texts(spec):
        reads = interpreter(text) if len(where) == 1 else None
        for kind, name in find_placeholders(text):
            if kind == "params" and reads is not None and not reads.is_shell:
                message = f"${{params.{name}}} would become text of a program for {reads.program}"
                there = f"read the job's variable {variable('params', name)} there"
                yield Problem(where, message, there)
            elif name not in known[kind]:
                hint = did_you_mean(name, known[kind])
                yield Problem(where, f"there is no '{name}' in {kind}", hint)
        yield from _check_unknown_placeholders(where, text, known)
    for name, text in spec.env.items():
        if list(find_placeholders(text)):
            message = "${...} is filled in only in command, run, setup and smoke"
            hint = "the same value is in the job's RUNSPEC_* variables"
            yield Problem(("env", name), message, hint)
        yield from _check_unknown_placeholders(("env", name), text, known)
    for i, mount in enumerate(spec.mounts):
        if list(find_placeholders(mount.source)) or list(find_unknown_placeholders(mount.source)):
            message = "${...} is filled in only in command, run, setup and smoke"
            yield Problem(("mounts", i, "source"), message, "write the path itself")


def _check_output_targets(spec: Spec) -> Iterator[Problem]:
    for i, output in enumerate(spec.outputs):
        if output.target and spec.cluster.nodes.elastic:
            message = "the saves of an elastic job are written to the store of the profile alone"
            hint = "remove target, or give nodes one number"
            yield Problem(("outputs", i, "target"), message, hint, at="key")
        for key in ("include", "exclude"):
            if getattr(output, key) and spec.cluster.nodes.elastic:
                message = "the saves of an elastic job have all files, from which its nodes go on"
                hint = f"remove {key}, or give nodes one number"
                yield Problem(("outputs", i, key), message, hint, at="key")


def _check_unknown_placeholders(
    where: Path, text: str, known: Mapping[str, Iterable[str]]
) -> Iterator[Problem]:
    """Yield a problem for each mistyped placeholder in *text*."""
    for kind, name in find_unknown_placeholders(text):
        written = f"{{{kind}.{name}}}"
        message = f"'${written}' is not a placeholder"
        hint = f"{_suggest_placeholder(kind, name, known)} To keep this text as it is, write $${written}"
        yield Problem(where, message, hint)


def _suggest_placeholder(kind: str, name: str, known: Mapping[str, Iterable[str]]) -> str:
    """Return the hint that says what `${kind.name}` was probably meant to be."""
    if kind in ("env", "secrets"):
        return f"the job has {name} as an environment variable."
    near = did_you_mean(f"{kind}.{name}", (f"{k}.{n}" for k in known for n in known[k]))
    return (
        near
        or "placeholders are ${mounts.NAME}, ${outputs.NAME}, ${sweep.NAME} and ${params.NAME}."
    )


def _find_parameter(spec: Spec, number: int) -> Path:
    """Return the path of parameter *number* of the sweep, in the order of `list_parameters`."""
    paths: list[Path] = []
    for name, part in spec.sweep.items():
        if isinstance(part, Random):
            paths += [("sweep", name, "draw", inner) for inner in part.draw]
        elif isinstance(part, Mapping):
            paths += [("sweep", name, inner) for inner in part]
        else:
            paths.append(("sweep", name))
    return paths[number]


def _check_sweep(spec: Spec) -> Iterator[Problem]:
    for name, part in spec.sweep.items():
        if isinstance(part, Random):
            yield from _check_draws(("sweep", name, "draw"), part)
        elif isinstance(part, Mapping):
            yield from _check_lengths(("sweep", name), part)
    count = count_tasks(spec.sweep)
    if count > MAX_TASKS:
        message = f"the sweep has {count:,} tasks; at most {MAX_TASKS:,} are allowed"
        yield Problem(("sweep",), message, "use fewer values, or several specs", at="key")
    for key in ("max_parallel", "max_failed"):
        if getattr(spec, key) is not None and not spec.sweep:
            yield Problem((key,), f"'{key}' needs a sweep", "remove it", at="key")
    if spec.max_failed is not None and spec.cluster.nodes.elastic:
        message = "the nodes of elastic jobs do not count the jobs that have failed"
        yield Problem(("max_failed",), message, "remove it, or set nodes: N", at="key")


def _check_lengths(where: Path, part: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    (first, values), *others = part.items()
    for name, other in others:
        if len(other) != len(values):
            message = f"'{name}' has {len(other):,} values, but '{first}' has {len(values):,}"
            yield Problem((*where, name), message, "make the lists under 'list' equally long")


def _check_draws(where: Path, part: Random) -> Iterator[Problem]:
    for name, how in part.draw.items():
        (kind,) = how.model_fields_set
        ends = how.bounds
        if ends is not None and ends[0] > ends[1]:
            yield Problem((*where, name, kind), "the first number is greater than the second")
        elif how.log_uniform is not None and ends is not None and ends[0] <= 0:
            hint = "write uniform, or begin above 0"
            yield Problem((*where, name, kind), "log_uniform needs numbers above 0", hint)


def _check_launch(spec: Spec) -> Iterator[Problem]:
    # Of the largest size: a batch that this many processes can share is large enough for all.
    processes = max(
        sized.cluster.nodes.max * sized.processes_per_node for sized in list_sizes(spec)
    )
    if spec.global_batch is not None and spec.global_batch < processes:
        message = f"{processes} processes cannot share a batch of {spec.global_batch} samples"
        yield Problem(("global_batch",), message, "make global_batch larger, or use fewer nodes")
    if spec.processes_per_node > 1 and spec.launch is Launch.NONE:
        message = "launch: none starts one process per node"
        yield Problem(
            ("processes_per_node",), message, "set launch: mpi, horovod, torchrun or srun", at="key"
        )
    if spec.launch is Launch.SRUN and spec.cluster.nodes.elastic:
        message = (
            "srun starts a fixed number of processes, and nodes of an elastic job join and leave"
        )
        yield Problem(("launch",), message, "set launch: torchrun, mpi or none, or nodes: 2")
    for key in ("gpu_type", "gpu_memory"):
        if getattr(spec.cluster, key) is not None and spec.cluster.gpus is None:
            yield Problem(("cluster", key), f"'{key}' needs 'gpus'", "add gpus: 1", at="key")


def _time(spec: Spec) -> Iterator[Problem]:
    if spec.timeout == 0:
        message = "0 s leaves the job no time, and is no limit for several services"
        yield Problem(("timeout",), message, "set timeout: 1m or longer, or remove it for no limit")
    if spec.ttl is not None and spec.ttl < LEAST_TTL_S:
        message = (
            f"{spec.ttl} s leaves nobody the time to fetch the outputs, which are deleted then"
        )
        yield Problem(("ttl",), message, "set ttl: 1h or longer, or remove it to keep the run")


def _check_retry(spec: Spec) -> Iterator[Problem]:
    rules = spec.retry.on
    for number, rule in enumerate(rules):
        where: Path = ("retry", "on", number)
        if rule.exit_codes is None and rule.reason is None and number + 1 < len(rules):
            message = "it matches every failure, so that no entry after it has an effect"
            yield Problem(where, message, "add exit_codes: [1], or make it the last entry")
        if rule.reason is not None and spec.cluster.nodes.elastic:
            message = "the nodes of an elastic job know the exit code of a failure, and no reason"
            hint = "write exit_codes: [137], or for lost nodes retry.spot_attempts"
            yield Problem((*where, "reason"), message, hint)
        if rule.memory is not None:
            yield from _check_growth(spec, (*where, "memory"), rule.memory.most)
        if rule.action == "retry" and rule.reason not in APART and spec.retry.attempts == 1:
            message = "another attempt never follows with attempts: 1, the default"
            yield Problem((*where, "action"), message, "write retry: {attempts: 3, on: [...]}")


def _check_growth(spec: Spec, where: Path, most: int) -> Iterator[Problem]:
    if spec.cluster.nodes.elastic:
        message = "an elastic job has one attempt, whose nodes keep their memory"
        yield Problem(where, message, "remove it, or set nodes: N", at="key")
    elif spec.cluster.memory is None:
        message = "the memory of the first attempt is not known"
        yield Problem(where, message, "add cluster: {memory: 16GiB}", at="key")
    elif most <= spec.cluster.memory:
        message = "the first attempt has as much memory already, by cluster.memory"
        yield Problem((*where, "most"), message, "make it larger than cluster.memory")


def _check_signal(spec: Spec) -> Iterator[Problem]:
    if spec.signal is None:
        return
    if spec.timeout is None:
        yield Problem(("signal",), "'signal' needs 'timeout'", "add timeout: 2h", at="key")
    elif not 0 < spec.signal.before < spec.timeout:
        message = f"{spec.signal.before} s is not between 0 s and timeout, {spec.timeout} s"
        yield Problem(("signal", "before"), message, "write before: 2m, and a longer timeout")


def _check_smoke(spec: Spec) -> Iterator[Problem]:
    if spec.smoke is not None and not compiled(NAME).match(make_smoke_name(spec.name)):
        message = f"'{make_smoke_name(spec.name)}', the name of the smoke test, is longer than 40 characters"
        yield Problem(("name",), message, "make it shorter")
