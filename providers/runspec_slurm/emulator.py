"""A Slurm cluster on this machine for `runspec rehearse`, and a profile for it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_images.image_plan import REHEARSED
from runspec_jobs.provider import Unavailable, UsageError, did_you_mean
from runspec_jobs.provider.types import Emulation
from runspec_slurm.options import split_partitions
from runspec_slurm.session.shared_shell import close_shells

NODES = 32  # nodes cost little; a job that needs more can be rehearsed with fewer
# The resources that a node reports, whatever this machine has, so that large jobs can be rehearsed.
CPUS, MEMORY_MB, DISK_MB, GPUS = 128, 2_000_000, 10_000_000, 8
GPU_TYPES = "a10g a100 b200 h100 h200 k80 l4 l40s m60 p100 p40 t4 v100".split()
# Options that concern the real cluster alone.
OWN = (
    "host ssh_options workspace python after scratch shared sbatch gres constraint nodelist exclude reservation "
    "licenses begin mail_type mail_user"
).split()
# Options of sbatch whose values name something of the real cluster.
NAMING = (
    "--constraint --prefer --reservation --licenses --clusters --cluster-constraint --wckey --bb "
    "--nodelist --exclude --nodefile --topology --mcs-label"
).split()
SHORT = "-C -L -M -w -x -F".split()
APT = (
    "apt-get install slurmctld slurmd slurm-client munge (Debian, Ubuntu), or tools/setup --test in a "
    "checkout"
)


@contextlib.contextmanager
def stage(options: Mapping[str, Any], folder: Path, engine: str | None) -> Iterator[Emulation]:
    """Start munge and Slurm's daemons; yield how to reach them."""
    from runspec_emulators.frame.containers import confinement_notes
    from runspec_emulators.slurm import Cluster, Failed, NoSlurm, Partition, Shape

    listed = [options.get(key) for key in ("partition", "spot_partition")]
    named = [name for setting in listed for name in split_partitions(setting)]
    kinds = {*GPU_TYPES, *map(str, dict(options.get("gpu_types", {})).values())}
    shape = Shape(CPUS, MEMORY_MB, GPUS, tuple(sorted(kinds)), DISK_MB)
    partitions = [Partition(name) for name in dict.fromkeys(["main", *named])]
    arguments: dict[str, Any] = {
        "prolog": True,
        "address_in": "RUNSPEC_HOST",
    }  # nodes are one machine
    confined, notes = confinement_notes(folder)
    if confined:
        arguments["confined_to"] = [folder, *podman_folders(engine)]
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(
                Cluster(folder / "slurm", NODES, shape, partitions, **arguments)
            )
        except NoSlurm as exc:
            raise Unavailable(f"runspec rehearse needs Slurm on this machine: {exc}", APT) from exc
        except Failed as exc:
            raise Unavailable(f"Slurm does not start on this machine: {exc}") from exc
        stack.callback(close_shells)  # a login shell on the cluster would outlive it
        yield Emulation(cluster.env, settings(options, folder, engine), tuple(notes))


def podman_folders(engine: str | None) -> list[Path]:
    """Return the folders of this machine that podman writes to, if it is the *engine*."""
    if engine != "podman":
        return []
    line = ["podman", "info", "--format", "{{.Store.GraphRoot}}\n{{.Store.RunRoot}}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    folders = [*map(Path, done.stdout.splitlines()), Path("/run"), Path("/sys/fs/cgroup")]
    return [folder for folder in folders if folder.is_dir()]


def settings(options: Mapping[str, Any], folder: Path, engine: str | None) -> dict[str, Any]:
    """Return the options for a cluster below *folder*, and make the folders that its jobs share."""
    chosen = {key: value for key, value in options.items() if key not in OWN}
    chosen["workspace"] = str(folder / "workspace")
    chosen["python"] = sys.executable
    chosen["images"] = REHEARSED
    chosen["container"] = "podman" if engine == "podman" else "none"
    chosen["sbatch"] = list(kept(map(str, options.get("sbatch", ()))))
    chosen["shared"] = {name: shared(folder, name) for name in dict(options.get("shared", {}))}
    return chosen


def fill(stage: Emulation, name: str, folder: Path) -> None:
    """Copy the files of *folder* into the folder that a spec mounts as `shared://name`."""
    known: Mapping[str, str] = stage.options["shared"]
    if name not in known:
        what = f"the profile shares no folder '{name}'"
        raise UsageError(
            what, did_you_mean(name, known) or f"there are: {', '.join(known) or 'none'}"
        )
    shutil.copytree(folder, known[name], symlinks=True, dirs_exist_ok=True)


def kept(arguments: Iterable[str]) -> Iterator[str]:
    """Yield options of sbatch without those that name something of the real cluster.

    >>> list(kept(["--constraint=ib", "-C", "ib", "-Cib", "--exclusive", "--prefer", "ib", "-v"]))
    ['--exclusive', '-v']
    """
    rest = iter(arguments)
    for word in rest:
        name, equals, _ = word.partition("=")
        short = word[:2] in SHORT
        if name not in NAMING and not short:
            yield word
        elif word in SHORT or (name in NAMING and not equals):
            next(rest, None)  # the value of that option


def shared(folder: Path, name: str) -> str:
    """Make and return a folder that replaces one which the nodes of the real cluster share."""
    place = folder / "shared" / name
    place.mkdir(parents=True, exist_ok=True)
    return str(place)
