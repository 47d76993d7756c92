"""Discovery on one node of the cluster, which takes an allocation: `runspec doctor slurm --node`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping

from runspec_jobs.provider import Finding, RunspecError
from runspec_slurm.discover.cluster import parts_of
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.clean_environment import CLEAN
from runspec_slurm.session.transport import Transport, transport
from runspec_slurm.store.workspace import ENTER, part_name

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
    way, began = transport(options.host, options.ssh_options), time.monotonic()
    token = part_name().removesuffix(".part")
    login = "-l" if options.environment == "login" else ""
    args = [options.workspace, token, options.python, login, PROBE, *words(options)]
    try:
        done = way.run(ENTER + LOOK, args, timeout_s=LONGEST_S)
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint)
        return
    if done.lost or done.code:
        yield _none(way, done.err)
        return
    took = time.monotonic() - began
    yield from read(dict(parts_of(done.out.decode(errors="replace"))), token, took, options)


def words(options: SlurmOptions) -> list[str]:
    """Return the options of srun: one task, in the partition of the profile's jobs."""
    found = ["--nodes=1", "--ntasks=1", f"--time={MINUTES}", "--mpi=none", "--export=NONE"]
    for name in ("partition", "account", "qos"):
        if value := getattr(options, name):
            found.append(f"--{name}={value}")
    return [*found, f"--immediate={WAIT_S}", "--quiet", *options.sbatch]


def _none(way: Transport, err: str) -> Finding:
    said = re.sub(r"^srun: (error: )?", "", (err.strip().splitlines() or [""])[-1])
    what = f"{way.where}: no node could be checked: {said or 'srun printed no reason'}"
    hint = (
        f"perhaps no node was free within {WAIT_S} s; check the partition, and that it allows srun"
    )
    return Finding(what, False, hint)


def read(
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
