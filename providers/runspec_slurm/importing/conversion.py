"""Convert a batch script of Slurm to a spec, and to settings for a profile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from runspec_jobs.provider.importing.draft import CALLER, make_key, make_name
from runspec_jobs.provider.types import ForeignFile, Imported
from runspec_jobs.provider.yaml_writer import write_comments, write_yaml
from runspec_slurm.importing import batch_script, sbatch_header
from runspec_slurm.importing.sbatch_header import BatchScript, Option
from runspec_slurm.options import OWN_WORDS, SlurmOptions

# Options that only the profile may have, as words for sbatch.
OF_PROFILE = frozenset(
    "acctg-freq batch bb bbf clusters contiguous core-spec cpu-freq deadline delay-boot distribution "
    "extra-node-info gpu-bind gpu-freq gres-flags hint hold mcs-label mem-bind network nice nodefile overcommit "
    "oversubscribe power prefer priority profile propagate reboot segment spread-job sockets-per-node thread-spec "
    "threads-per-core use-min-nodes wckey".split()
)
# Options that change nothing for a job of runspec, which keeps the logs of each task and attempt by itself.
NEEDLESS = frozenset(
    "kill-on-invalid-dep no-kill open-mode parsable quiet verbose wait ignore-pbs "
    "ntasks-per-core ntasks-per-socket mincpus wait-all-nodes get-user-env".split()
)
BINDING = re.compile(
    r"--?(?:cpu-bind|mem-bind|gpu-bind|accel-bind|bind-to|map-by|distribution)(?:[ =][^\s\\]+)?"
)
CONSTANTS = ("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_MIN")
SIZES = {"K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB", "": "MiB"}
# Processes of one node share the copy, and a further attempt has what the one before it saved.
COPY = (
    '(flock 9; [ -s "${outputs.work}/.copied" ] || { cp -R "${mounts.code}/." "${outputs.work}" && '
    'chmod -R u+w "${outputs.work}" && echo yes >&9; }) 9>>"${outputs.work}/.copied" && cd "${outputs.work}" || exit 1'
)
MOUNT = "name each folder under `shared` in the profile, and mount shared://NAME"
MOUNTED = re.compile(r"(/[\w./-]+|\$\(pwd\)[\w./-]*):(/[\w./-]+?)(?::(ro|rw))?")
# The steps of the first node find the copy of each node at one path. The other nodes wait until the first has ended.
MEET = """\
here=/tmp/$RUNSPEC_RUN-$RUNSPEC_TASK
ln -sfn "${{outputs.work}}" "$here" || exit 1
if [ "$RUNSPEC_RANK" != 0 ]; then
  until [ -e "$here.over" ]; do sleep 1; done
  rm -f "$here" "$here.over"
  exit 0
fi
on_each() {{ srun -N {nodes} -n {nodes} --ntasks-per-node=1 "$@"; }}
until on_each test -e "$here/.copied"; do sleep 1; done
trap 'code=$?; on_each touch "$here.over"; rm -f "$here"; exit $code' EXIT
export SLURM_WORKING_DIR="$here"
"""
GUARD = '[ "$RUNSPEC_RANK" = 0 ] || exit 0  # sbatch starts a script on the first node only\n'


@dataclass
class Draft:
    """The result of an import so far; *settings* are the spec's settings of `slurm`."""

    name: str  # of the file
    spec: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    values: dict[str, int] = field(
        default_factory=dict
    )  # what the options say of nodes, tasks and processors
    job_name: str = ""  # as the script writes it
    signal: Option | None = None  # sent before the end of the time
    folder: str = ""  # in which the script begins
    mounts: list[dict[str, str]] = field(default_factory=list)
    memory: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # by option: the value, and its line

    def note(self, line: int, text: str) -> None:
        self.notes.append(f"{self.name}:{line}: {text}")

    def lose(self, option: Option, why: str) -> None:
        shown = f"--{option.name}={option.value}" if option.value else f"--{option.name}"
        self.note(option.line, f"not imported: {shown}: {why}")


def convert(file: ForeignFile) -> Imported:
    """Return *file* as a spec. Raise UsageError if it is no batch script."""
    script = sbatch_header.read(file)
    draft = Draft(PurePath(file.name).name)
    for option in script.options:
        _take(draft, option)
    for line in script.late:
        draft.note(line, "sbatch ignores an option after the first command, and so does the import")
    body, secrets = batch_script.take_secrets(batch_script.escape(script.body))
    for name in secrets:
        draft.spec.setdefault("secrets", {})[name] = dict(CALLER)
        draft.notes.append(
            f"{draft.name} contains a secret in plain text, which is not imported: export {name} before you apply, "
            "and consider the secret compromised"
        )
    if draft.signal and "timeout" not in draft.spec:
        del draft.spec["signal"]
        draft.lose(draft.signal, "the script has no --time: write timeout, and signal")
    _size(draft)
    run = _write_run(draft, script, body)
    for number, text in enumerate(file.text.splitlines(), 1):
        for word in [] if text.startswith("#") else BINDING.findall(text):
            if word not in run:
                draft.note(number, f"{word}: Slurm decides which cores the processes use")
    return _write(draft, run)


def _take(draft: Draft, option: Option) -> None:
    take = TAKEN.get(option.name)
    if take is not None:
        take(draft, option)
    elif option.name in OF_PROFILE:
        _pass_on(draft, option)
    elif option.name not in NEEDLESS:
        draft.lose(option, "runspec has no such setting")


def _pass_on(draft: Draft, option: Option) -> None:
    word = f"--{option.name}={option.value}" if option.value else f"--{option.name}"
    draft.profile.setdefault("sbatch", []).append(word)


def _take_own_word(draft: Draft, option: Option) -> None:
    """Take an option that has a setting of its own name, or pass it on if the setting has another form."""
    key = option.name.replace("-", "_")
    value: Any = option.value
    if key == "exclusive":
        value = value or True
    elif key in ("licenses", "mail_type"):
        value = value.split(",")
    try:
        SlurmOptions.model_validate({key: value})
    except ValidationError:
        _pass_on(draft, option)
        return
    is_users = key == "mail_user"
    (draft.profile if is_users else draft.settings)[key] = value


def _take_number(draft: Draft, option: Option) -> None:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", option.value)
    if match is None or (number := int(match[2] or match[1])) == 0:
        draft.lose(option, "it is not a number")
        return
    draft.values[option.name] = number
    if match[2] and match[1] != match[2]:
        draft.note(option.line, f"--{option.name}={option.value}: the job gets {number}")


def _take_name(draft: Draft, option: Option) -> None:
    draft.job_name = option.value
    draft.spec["name"] = make_name(option.value)


def _take_time(draft: Draft, option: Option) -> None:
    value = option.value
    if re.fullmatch(r"\d+", value):
        draft.spec["timeout"] = f"{value}m"
    elif match := re.fullmatch(r"(\d+):(\d+)", value):
        draft.spec["timeout"] = f"{match[1]}m{match[2]}s"
    elif match := re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", value):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
        draft.spec["timeout"] = "".join(f"{count}{unit}" for count, unit in parts if count)
    else:
        draft.lose(option, "it is not a time")


def _take_array(draft: Draft, option: Option) -> None:
    indexes, _, most = option.value.partition("%")
    numbers: list[int] = []
    for part in indexes.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if match is None or int(match[3] or 1) == 0:
            draft.lose(option, "it is not a list of indexes")
            return
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
    plain = re.fullmatch(r"(\d+)-(\d+)", indexes)
    draft.spec["sweep"] = {"task": f"{plain[1]}..{plain[2]}" if plain else numbers}
    draft.values["array"] = len(numbers)
    draft.values["array-min"], draft.values["array-max"] = min(numbers), max(numbers)
    if most.isdecimal():
        draft.spec["max_parallel"] = int(most)


def _take_memory(draft: Draft, option: Option) -> None:
    draft.memory[option.name] = (option.value, option.line)


def _take_gres(draft: Draft, option: Option) -> None:
    others = []
    for part in option.value.split(","):
        kind, *rest = part.split(":")
        if kind in ("gpu", "gres/gpu"):
            _take_gpus(draft, option, ":".join(rest))
        elif part:
            others.append(part)
    if others:
        draft.settings["gres"] = others


def _take_all_gpus(draft: Draft, option: Option) -> None:
    _take_gpus(draft, option, option.value)


def _take_gpus(draft: Draft, option: Option, value: str) -> None:
    kind, _, count = value.rpartition(":")
    if not count.isdecimal():
        kind, count = count, "1"
    draft.values[f"gpus of {option.name}"] = int(count)
    if kind:
        draft.cluster["gpu_type"] = kind


def _take_partition(draft: Draft, option: Option) -> None:
    draft.settings["partition"] = option.value


def _take_setting(draft: Draft, option: Option) -> None:
    first, *others = option.value.split(",")
    draft.settings[option.name] = first
    if others:
        draft.lose(option, f"a job has one {option.name}: {first} is imported")


def _take_account(draft: Draft, option: Option) -> None:
    draft.profile["account"] = option.value


def _take_dependency(draft: Draft, option: Option) -> None:
    if "$" in option.value:
        draft.lose(
            option, "name the jobs in settings `after`, or write a chain: runspec docs chains"
        )
    else:
        draft.settings["after"] = option.value.split(",")


def _take_container(draft: Draft, option: Option) -> None:
    draft.spec["container"] = {"image": option.value}
    draft.settings["container"] = "pyxis"


def _take_mounts(draft: Draft, option: Option) -> None:
    if not _mount(draft, option.value):
        draft.lose(option, MOUNT)


def _mount(draft: Draft, text: str) -> bool:
    """Add mounts that are written as `/folder:/target[:ro],...`; return whether all of them are."""
    found = [MOUNTED.fullmatch(part) for part in text.split(",")]
    if not all(found):
        return False
    for match in filter(None, found):
        if match[2] in (mount["target"] for mount in draft.mounts):
            continue
        mode = {"mode": "ro"} if match[3] == "ro" else {}
        used = {"code", *(mount["name"] for mount in draft.mounts)}
        if match[1].startswith("$(pwd)"):
            key, source = make_key(match[2], used), match[1].replace("$(pwd)", ".")
        else:
            key = make_key(match[1], used)
            draft.profile.setdefault("shared", {})[key] = match[1]
            source = f"shared://{key}"
        draft.mounts.append({"name": key, "source": source, "target": match[2], **mode})
    return True


def _take_retries(draft: Draft, option: Option) -> None:
    if option.name == "no-requeue":
        draft.spec["retry"] = {"spot_attempts": 1}


def _take_disk(draft: Draft, option: Option) -> None:
    if size := _read_size(option.value):
        draft.cluster["disk"] = size


def _take_signal(draft: Draft, option: Option) -> None:
    match = re.fullmatch(r"(?:[BR]+:)?(?:SIG)?([A-Z]+\d?|15)(?:@(\d+))?", option.value)
    if match is None:
        draft.lose(option, "write signal: {name: USR1, before: 2m}")
    elif match[1] in ("TERM", "15") and match[2]:
        draft.settings["grace"] = f"{match[2]}s"
    else:
        draft.signal = option
        draft.spec["signal"] = {"name": match[1], "before": f"{match[2] or 60}s"}


def _take_export(draft: Draft, option: Option) -> None:
    for part in option.value.split(","):
        name, equals, value = part.partition("=")
        if equals:
            draft.spec.setdefault("env", {})[name] = value
        elif name not in ("ALL", "NONE", "NIL", ""):
            draft.spec.setdefault("env", {})[name] = dict(CALLER)


def _take_folder(draft: Draft, option: Option) -> None:
    if "%" in option.value:
        draft.lose(option, "write `cd` into run")
    else:
        draft.folder = option.value


def _take_switches(draft: Draft, option: Option) -> None:
    if option.value.partition("@")[0] == "1":
        draft.cluster["placement"] = "close"
    else:
        draft.lose(option, "cluster: {placement: close} asks for one switch")


def _note_log(draft: Draft, option: Option) -> None:
    draft.note(
        option.line,
        f"--{option.name}={option.value}: the log is kept with the run: see `runspec logs`",
    )


def _take_input(draft: Draft, option: Option) -> None:
    draft.lose(option, "write it into run: exec < FILE")


TAKEN: Mapping[str, Callable[[Draft, Option], None]] = {
    **dict.fromkeys(
        ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "ntasks-per-gpu"),
        _take_number,
    ),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _take_memory),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), _take_all_gpus),
    "partition": _take_partition,
    "qos": _take_setting,
    **dict.fromkeys((*OWN_WORDS, "exclusive", "reservation"), _take_own_word),
    **dict.fromkeys(("requeue", "no-requeue"), _take_retries),
    **dict.fromkeys(("output", "error"), _note_log),
    "input": _take_input,
    "job-name": _take_name,
    "time": _take_time,
    "array": _take_array,
    "gres": _take_gres,
    "account": _take_account,
    "dependency": _take_dependency,
    "container-image": _take_container,
    "container-mounts": _take_mounts,
    "tmp": _take_disk,
    "signal": _take_signal,
    "export": _take_export,
    **dict.fromkeys(("chdir", "workdir"), _take_folder),
    "switches": _take_switches,
}


def _read_size(text: str) -> str:
    """Return a size of Slurm, which counts MiB without a unit, as a spec has it; "" if it is none.

    >>> _read_size("16G"), _read_size("1000"), _read_size("4gb")
    ('16GiB', '1000MiB', '4GiB')
    """
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    return f"{match[1]}{SIZES[match[2]]}" if match else ""


def _size(draft: Draft) -> None:
    """Fill in the machines of a node: Slurm counts some by task, by processor, by GPU or for all nodes."""
    values, cluster = draft.values, draft.cluster
    nodes = values.get("nodes", 1)
    tasks = values.get("ntasks-per-node") or -(-values.get("ntasks", 1) // nodes)
    values["tasks"] = tasks
    if "nodes" not in values and "ntasks-per-node" in values and values.get("ntasks", 0) > tasks:
        nodes = -(-values["ntasks"] // tasks)
    values["nodes"] = nodes
    gpus = values.get("gpus of gres") or values.get("gpus of gpus-per-node") or 0
    gpus = (
        gpus
        or values.get("gpus of gpus-per-task", 0) * tasks
        or -(-values.get("gpus of gpus", 0) // nodes)
    )
    cpus = tasks * values.get("cpus-per-task", 1)
    cpus = max(cpus, gpus * values.get("cpus-per-gpu", 0))
    sized = {"nodes": nodes if nodes > 1 else 0, "cpus": cpus, "gpus": gpus}
    cluster.update({key: count for key, count in sized.items() if count})
    for name, (text, line) in draft.memory.items():
        each = {"mem-per-cpu": cpus, "mem-per-gpu": gpus or 1}.get(name, 1)
        size = _read_size(text)
        if not size:
            draft.note(line, f"not imported: --{name}={text}: it is not a size")
        elif text.strip("KMGTB") == "0":
            draft.settings["memory"] = "all"
        else:
            number, unit = int(size[:-3]), size[-3:]
            cluster["memory"] = f"{number * each}{unit}"


def _write_run(draft: Draft, script: BatchScript, body: str) -> str:
    """Return the script of the spec: the body, in a copy of the folder of the batch script."""
    tasks, nodes = draft.values["tasks"], draft.values["nodes"]
    body = batch_script.use_addresses(body)
    launched = batch_script.find_launched(body)
    alone = batch_script.drop_launchers(body) if tasks * nodes == 1 else None
    guard = ""
    if alone is not None and not (launched and launched.image):
        return f"{_set_up(draft, script, alone)}{alone}"
    if launched is not None and (
        tasks * nodes > 1 or launched.launcher != "srun" or launched.image
    ):
        body = _take_launched(draft, launched, body)
    elif launched is not None:
        body = body[: launched.begin] + body[launched.end :]
    elif nodes > 1:
        guard = GUARD
    steps = ""
    if launched is None and (names := batch_script.list_launchers(body)):
        steps = _keep_steps(draft, names)
    return f"{_set_up(draft, script, body)}{steps}{guard}{body}"


def _keep_steps(draft: Draft, names: list[str]) -> str:
    """Return the lines that tell srun of several steps how many tasks the script has: runspec asks for nodes."""
    tasks, nodes = draft.values["tasks"], draft.values["nodes"]
    others = [name for name in names if name != "srun"]
    if others and nodes > 1:
        why = "the job asks Slurm for nodes, and not for the slots that mpirun looks for"
        draft.notes.append(f"{draft.name}: not imported: {others[0]} beside other steps: {why}")
    draft.notes.append(
        f"{draft.name}: {' and '.join(dict.fromkeys(names))} stay in the script: it needs Slurm"
    )
    words = {"SLURM_NTASKS": tasks * nodes, "SLURM_NTASKS_PER_NODE": tasks}
    if "cpus-per-task" in draft.values:
        words["SRUN_CPUS_PER_TASK"] = draft.values["cpus-per-task"]
    exports = "".join(f"export {name}={number}\n" for name, number in words.items())
    return exports + (MEET.format(nodes=nodes) if nodes > 1 else "")


def _take_launched(draft: Draft, launched: batch_script.Launched, body: str) -> str:
    """Take a launcher out of *body*: runspec starts the body on each node or as each process instead."""
    tasks, nodes = draft.values["tasks"], draft.values["nodes"]
    if launched.image:
        draft.spec["container"] = {"image": launched.image}
        draft.settings["container"] = "pyxis"
    if not (launched.starts_nodes and tasks == 1) and tasks * nodes > 1:
        draft.spec["launch"] = "mpi"
        if tasks > 1:
            draft.spec["processes_per_node"] = tasks
        if launched.image and launched.launcher == "srun":
            draft.spec["launch"] = "srun"
        elif launched.launcher == "srun":
            draft.settings["mpi"] = "srun"
    if launched.mounts and not _mount(draft, launched.mounts):
        draft.notes.append(f"{draft.name}: not imported: --container-mounts of srun: {MOUNT}")
    for option in launched.lost:
        draft.notes.append(f"{draft.name}: not imported: {option} of {launched.launcher}")
    return body[: launched.begin] + body[launched.end :]


def _set_up(draft: Draft, script: BatchScript, body: str) -> str:
    """Return the lines before the body: its folder, and the variables of Slurm that it reads and only sbatch sets."""
    values = draft.values
    lines = [f"#!{script.interpreter}", COPY]
    if draft.folder:
        lines.append(f"cd {shlex.quote(draft.folder)} || exit 1")
    if not re.search(r"\s-\w*e", script.interpreter):
        lines.append("set +e  # sbatch goes on after a command that fails")
    wanted: dict[str, str] = {
        "SLURM_SUBMIT_DIR": '"$PWD"',
        "SLURM_JOB_NAME": shlex.quote(draft.job_name or draft.name),
    }
    if "array" in values:
        lines.append('SLURM_ARRAY_TASK_ID="${sweep.task}"; export SLURM_ARRAY_TASK_ID')
        numbers = (values["array"], values["array-max"], values["array-min"])
        wanted.update(zip(CONSTANTS, map(str, numbers), strict=True))
    if "cpus-per-task" in values:
        wanted["SLURM_CPUS_PER_TASK"] = str(values["cpus-per-task"])
    wanted["SLURM_NTASKS"] = str(values["tasks"] * values["nodes"])
    for name in batch_script.list_read(body, tuple(wanted)):
        lines.append(f"{name}={wanted[name]}; export {name}")
    return "".join(f"{line}\n" for line in lines)


def _write(draft: Draft, run: str) -> Imported:
    head = {
        "apiVersion": "runspec/v1",
        "name": draft.spec.pop("name", make_name(draft.name.split(".")[0])),
        "provider": "slurm",
    }
    if draft.cluster:
        head["cluster"] = draft.cluster
    files = {
        "mounts": [{"name": "code", "source": ".", "target": "/job/code"}, *draft.mounts],
        "outputs": [{"name": "work", "path": "/job/work"}],
    }
    settings = {"providers": {"slurm": draft.settings}} if draft.settings else {}
    spec = {**head, **files, **draft.spec, "run": run, **settings}
    notes = tuple(dict.fromkeys([*draft.notes, *_list_files(draft)]))
    return Imported(
        write_comments((f"Imported from {draft.name}.", *notes)) + write_yaml(spec),
        write_yaml({"providers": {"slurm": draft.profile}})
        if draft.profile
        else "providers: {slurm: {}}\n",
        notes,
    )


def _list_files(draft: Draft) -> Iterator[str]:
    yield (
        f"the job runs in a copy of the folder of {draft.name}, and what it writes there is the output work: "
        "write job.yaml into that folder, name outputs of your own, and list large data in .runspecignore"
    )
