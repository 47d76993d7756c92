"""Discovery of a cluster: partitions, limits, and the programs of its login node that run jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider import Finding, Launch, RunspecError, Spec
from runspec_jobs.provider.elastic_tasks import tasks_in_all
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.process import CLEAN
from runspec_slurm.session.transport import Transport, transport
from runspec_slurm.store.workspace import ENTER, part_name

PATIENCE_S = 30.0
# Arguments: the name of Python, and the parts that are wanted. Prints each part whose command succeeds. `-V` does not
# start Python, and an old version prints it on stderr.
ASK = f"""\
{CLEAN}
part() {{
name=$1; shift
said=$("$@" 2>/dev/null) && printf '\\n== %s\\n%s\\n' "$name" "$said"
}}
version() {{ "$python" -V 2>&1; }}
plugins() {{ srun --mpi=list 2>&1; }}
pyxis() {{ srun --help 2>&1 | grep -e --container-image; }}
part partitions scontrol --all --oneliner show partition
part nodes sinfo --all --noheader --exact --format='%R|%D|%c|%m|%d|%G'
python=$1; shift
for wanted; do
case $wanted in
config) part config scontrol show config ;;
mpi) part mpi plugins ;;
containers)
printf '\\n== containers\\n'
part pyxis pyxis
for engine in apptainer podman; do part "$engine" command -v "$engine"; done ;;
machine) part machine uname -m ;;
esac
done
part python version || printf '\\n== no python\\n'
exit 0
"""
WANTED = ("config", "mpi", "containers", "machine")
ENGINES = ("pyxis", "apptainer", "podman")
UNSET_MB = 1  # the default of RealMemory: https://slurm.schedmd.com/slurm.conf.html#OPT_RealMemory


def survey(spec: Spec, options: SlurmOptions) -> dict[str, Any]:
    """Return the facts that `runspec_slurm.resources` reads; an empty mapping if the cluster cannot be reached.

    Parts on which nothing in the spec depends are left out, because each takes a command of Slurm.
    """
    depends = {
        "config": tasks_in_all(spec) > 1 or spec.cluster.gpus,
        "mpi": spec.launch is Launch.MPI and options.mpi != "mpirun",
        "containers": bool(spec.container.image or spec.container.build),
        "machine": spec.container.build is not None,
    }
    wanted = [name for name in WANTED if depends[name]]
    facts = query(transport(options.host, options.ssh_options), options, wanted)
    return {"slurm": facts} if "partitions" in facts else {}


def query(
    connection: Transport, options: SlurmOptions, wanted: Sequence[str] = WANTED
) -> dict[str, Any]:
    """Query the cluster by one command. Return an empty mapping if it cannot be reached."""
    try:
        done = connection.run(ASK, [options.python, *wanted], timeout_s=PATIENCE_S)
    except RunspecError:
        return {}
    return {} if done.lost or done.code else read(done.out.decode(errors="replace"))


def read(text: str) -> dict[str, Any]:
    """Return the facts in the output of ASK."""
    parts = dict(parts_of(text))
    facts: dict[str, Any] = {}
    if "config" in parts:
        facts |= _config(parts["config"])
    if "partitions" in parts:
        facts["partitions"] = _partitions(parts["partitions"], parts.get("nodes", ""))
    if "partitions" in parts and "containers" in parts:
        facts["containers"] = [name for name in ENGINES if name in parts]
    if "machine" in parts:
        facts["machine"] = parts["machine"].strip()
    if "mpi" in parts:
        facts["mpi"] = mpi_plugins(parts["mpi"])
    if "python" in parts or "no python" in parts:
        version = re.search(r"^Python (\d+\.\d+\.\d+)", parts.get("python", ""), re.MULTILINE)
        facts["python"] = version[1] if version else None
    return facts


def parts_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield each part of the output: its name, and the output of its command."""
    for part in f"\n{text}".split("\n== ")[1:]:
        name, _, said = part.partition("\n")
        yield name, said


def _config(text: str) -> dict[str, Any]:
    """Return the facts in a configuration: https://slurm.schedmd.com/slurm.conf.html"""
    said = {k.strip(): v.strip() for k, _, v in (x.partition("=") for x in text.splitlines())}
    settings: dict[str, Any] = {
        "version": said.get("SLURM_VERSION", ""),
        "select": said.get("SelectType", "").removeprefix("select/") or None,
        "accounting": said.get("AccountingStorageType", "").removeprefix("accounting_storage/"),
    }
    for name, key in (
        ("max_array", "MaxArraySize"),
        ("max_jobs", "MaxJobCount"),
        ("remembers_s", "MinJobAge"),
    ):
        number = re.match(r"\d+", said.get(key, ""))
        settings[name] = int(number[0]) if number else None
    return settings


def _partitions(text: str, nodes: str) -> dict[str, Any]:
    partitions = {}
    for line in text.splitlines():
        said = dict(word.partition("=")[::2] for word in line.split())
        if "PartitionName" in said:
            partitions[said["PartitionName"]] = {
                "default": said.get("Default") == "YES",
                "state": said.get("State", "UP").lower(),
                "max_time_s": seconds(said.get("MaxTime", "")),
                "default_time_s": seconds(said.get("DefaultTime", "")),
                "max_nodes": _number(said.get("MaxNodes")),
                "min_nodes": _number(said.get("MinNodes")),
                "nodes": _number(said.get("TotalNodes")),
                **_largest(nodes, said["PartitionName"]),
            }
    return partitions


def _largest(text: str, partition: str) -> dict[str, Any]:
    """Return the most that one node of *partition* has; None of what the cluster knows nothing of."""
    most: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.strip().split("|", 5)
        if len(fields) != 6 or fields[0] != partition:
            continue
        for name, word in zip(("cpus", "memory_mb", "disk_mb"), fields[2:5], strict=True):
            most[name] = max(most.get(name, 0), _number(word.rstrip("+")) or 0)
        for kind, count in gpus_of(fields[5]).items():
            gpus[kind] = max(gpus.get(kind, 0), count)
    memory = most.get("memory_mb", 0)
    return {
        "cpus": most.get("cpus") or None,
        "memory_mb": memory if memory > UNSET_MB else None,
        "disk_mb": most.get("disk_mb") or None,
        "gpus": gpus,
    }


def gpus_of(text: str) -> dict[str, int]:
    """Return the GPUs of a node by type, from its generic resources.

    A last number is a count; the word before it is a type, even if it begins with a digit.

    >>> gpus_of("gpu:3090:4(S:0-1),gpu:2,nic:1"), gpus_of("(null)")
    ({'3090': 4, '': 2}, {})
    """
    counts: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *counted = entry.split(":")
        if name == "gpu":
            count = int(counted.pop()) if counted and counted[-1].isdigit() else 1
            kind = ":".join(counted)
            counts[kind] = counts.get(kind, 0) + count
    return counts


def seconds(text: str) -> int | None:
    """Return a time limit in seconds; None if it is unlimited or missing.

    >>> seconds("1-02:00:00"), seconds("00:30:00"), seconds("UNLIMITED")
    (93600, 1800, None)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, rest = (int(word or 0) for word in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def mpi_plugins(text: str) -> list[str]:
    """Return the plugins that `srun --mpi=list` prints; since 22.05, versions of a plugin have a line of their own."""
    before = re.split(r"specific \w+ plugin versions", text)[0]
    names = before.partition("...")[2] or before.rpartition(":")[2]
    return sorted({word for word in re.findall(r"[a-z]\w*", names) if word not in ("srun", "are")})


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


# Discovery on one node of the cluster, which takes an allocation: `runspec doctor slurm --node`.


WAIT_S, MINUTES = 120, 5
LONGEST_S = 900.0  # a node that is powered down takes minutes to start, after it was allocated
# Runs on the node. Arguments: python, a file of the workspace to read, and one to write.
PROBE = """\
part() { name=$1; shift; said=$("$@" 2>/dev/null) && printf '\\n== %s\\n%s\\n' "$name" "$said"; }
part node hostname
part seen cat -- "$2"
[ ! -e "$2" ] || cat -- "$2" >"$3"
for engine in apptainer podman; do part "$engine" command -v "$engine"; done
part mpirun command -v mpirun
part python "$1" -IS -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'
exit 0
"""
# Arguments: a name for the job and the files, python, the shell's option for a login, the probe, and then the options
# of srun. The job is cancelled when this script ends.
LOOK = f"""\
{CLEAN}
t=$1 python=$2 login=$3 probe=$4; shift 4
end() {{ rm -f -- "$t.part" "$t.back.part"; scancel --quiet --name="$t" 2>/dev/null; }}
trap end EXIT
trap 'exit 1' HUP INT TERM
printf '%s\\n' "$t" >"$t.part" || exit 1
srun --job-name="$t" --chdir="$PWD" "$@" /bin/sh $login -c "$probe" sh "$python" "$t.part" "$t.back.part" </dev/null
code=$?
[ "$code" != 0 ] || {{ ls >/dev/null; printf '\\n== back\\n%s\\n' "$(cat -- "$t.back.part" 2>/dev/null)"; }}
exit "$code"
"""
PYTHON = (3, 6)


def examine(options: SlurmOptions) -> Iterator[Finding]:
    """Yield the findings on the first node that Slurm allocates."""
    connection, began = transport(options.host, options.ssh_options), time.monotonic()
    token = part_name().removesuffix(".part")
    login = "-l" if options.environment == "login" else ""
    args = [options.workspace, token, options.python, login, PROBE, *write_probe(options)]
    try:
        done = connection.run(ENTER + LOOK, args, timeout_s=LONGEST_S)
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint)
        return
    if done.lost or done.code:
        said = re.sub(r"^srun: (error: )?", "", (done.err.strip().splitlines() or [""])[-1])
        what = f"{connection.where}: no node could be checked: {said or 'srun printed no reason'}"
        hint = f"perhaps no node was free within {WAIT_S} s; check the partition, and that it allows srun"
        yield Finding(what, False, hint)
        return
    took = time.monotonic() - began
    yield from read_node(dict(parts_of(done.out.decode(errors="replace"))), token, took, options)


def write_probe(options: SlurmOptions) -> list[str]:
    """Return the options of srun: one task, in the partition of the profile's jobs."""
    arguments = ["--nodes=1", "--ntasks=1", f"--time={MINUTES}", "--mpi=none", "--export=NONE"]
    for name in ("partition", "account", "qos", "constraint", "exclude", *options.reserved):
        if value := getattr(options, name):
            arguments.append(f"--{name}={value}")
    return [*arguments, f"--immediate={WAIT_S}", "--quiet", *options.sbatch]


def read_node(
    parts: Mapping[str, str], token: str, took_s: float, options: SlurmOptions
) -> Iterator[Finding]:
    """Yield the findings in the output of PROBE and LOOK."""
    name = parts.get("node", "").strip()
    node = f"the node {name}" if name else "the node"
    yield Finding(f"{node} was allocated and checked in {took_s:.0f} s", True)
    yield _workspace(parts, token, node, options)
    yield _python(parts, node, options)
    there = [name for name in ("apptainer", "podman") if name in parts]
    wanted = options.container if options.container in ("apptainer", "podman") else None
    what = f"{node} has {' and '.join(there) or 'neither apptainer nor podman'}"
    hint = (
        f"the profile has container: {wanted}: set another one, or ask for {wanted} to be installed"
    )
    yield Finding(what, wanted is None or wanted in there, hint)
    mpi = parts.get("mpirun", "").strip()
    own = "launch: mpi uses that of the image or of the requirements"
    yield Finding(f"{node} has {f'mpirun: {mpi}' if mpi else f'no mpirun of its own: {own}'}", True)


def _workspace(parts: Mapping[str, str], token: str, node: str, options: SlurmOptions) -> Finding:
    name = f"the workspace {options.workspace}"
    hint = "set option workspace to a folder that the login node and all nodes share"
    if parts.get("seen", "").strip() != token:
        return Finding(f"{node} does not see the files in {name}", False, hint)
    if parts.get("back", "").strip() != token:
        return Finding(
            f"files that {node} writes to {name} are not visible on the login node", False, hint
        )
    return Finding(f"{name} is the same folder on the login node and on {node}", True)


def _python(parts: Mapping[str, str], node: str, options: SlurmOptions) -> Finding:
    version = parts.get("python", "").strip()
    if not version:
        hint = "set option python to the path of the nodes' Python"
        return Finding(f"{node} has no {options.python}, which starts every job", False, hint)
    new = tuple(int(word) for word in version.split(".")[:2]) >= PYTHON
    hint = "set option python to the path of a Python 3.6 or newer"
    return Finding(f"{options.python} of {node} is Python {version}", new, hint)
