"""The variables, folders and host file of a job.

Variables: the list in the service's repository, documentation/using-batchai-environment-variables.md of
github.com/Azure/BatchAI.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_emulators.batch_ai.model import Job, Node
from runspec_emulators.batch_ai.settings import Settings
from runspec_emulators.batch_ai.storage.volumes import expanded, referenced
from runspec_emulators.frame.processes import inherited

STDOUTERR = "stdouterr"
PYTHON = "python"  # folder of a node's own Python, in the temporary folder of the job
AGENT = """#!/bin/sh
# Stands for ssh from one node of the job to another. It gives each node a host name of its own, if this user may:
# otherwise, MPI_Comm_split_type of Open MPI has groups that do not fit together, and Horovod waits for ever.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
. "$(dirname "$0")/node-$host"
for unshare in "unshare --uts" "unshare --map-root-user --uts"; do
    ! $unshare true 2>/dev/null ||
        exec $unshare /bin/sh -c 'hostname "$1"; exec /bin/sh -c "$2"' sh "$host" "$*"
done
exec /bin/sh -c "$*"
"""


def temp(node: Node, job: Job) -> Path:
    return node.folder / "jobs" / job.name


def machine(settings: Settings, node: Node) -> dict[str, str]:
    """Return the variables of every process of a node: AZ_BATCHAI_MOUNT_ROOT is the cluster's mounts."""
    return {
        "PATH": os.defpath,
        **inherited(),
        "HOME": str(node.folder),
        **settings.machine_env,
        "AZ_BATCHAI_MOUNT_ROOT": str(node.mounts),
        "AZ_BATCHAI_NUM_GPUS": "0",
    }


def local(node: Node, job: Job) -> dict[str, str]:
    """Return the variables that differ between nodes here; in the service, paths are the same everywhere."""
    folder = temp(node, job)
    python = folder / PYTHON
    path = os.pathsep.join([str(python / "bin"), inherited().get("PATH", os.defpath)])
    own = {"PATH": path, "VIRTUAL_ENV": str(python)} if python.exists() else {}
    return {
        **own,
        "HOME": str(node.folder),
        "AZ_BATCHAI_MOUNT_ROOT": str(node.mounts),
        "AZ_BATCHAI_JOB_MOUNT_ROOT": str(folder / "mounts"),
        "AZ_BATCHAI_JOB_TEMP": str(folder),
        "AZ_BATCHAI_JOB_TEMP_DIR": str(folder.parent),
    }


def variables(settings: Settings, job: Job, node: Node, nodes: Sequence[Node]) -> dict[str, str]:
    """Return the environment of a job's processes on one node."""
    asked, folder = job.properties, temp(node, job)
    env = {
        **machine(settings, node),
        **local(node, job),
        "AZ_BATCHAI_SHARED_JOB_TEMP": str(settings.folder / "shared" / job.guid),
        "AZ_BATCHAI_MPI_HOST_FILE": str(folder / "hostfile"),
        "AZ_BATCH_HOST_LIST": ",".join(node.address for node in nodes),
        **mpi(folder),
    }
    env["AZ_BATCHAI_STDOUTERR_DIR"] = str(stdouterr(job, env))
    for given in asked.get("inputDirectories", ()):
        env[f"AZ_BATCHAI_INPUT_{given['id']}"] = expanded(given["path"], env)
    for given in asked.get("outputDirectories", ()):
        env[f"AZ_BATCHAI_OUTPUT_{given['id']}"] = str(output(job, given, env))
    for given in asked.get("environmentVariables", ()):
        env[given["name"]] = referenced(given["value"], env)
    for given in asked.get("secrets", ()):
        env[given["name"]] = given.get("value", "")
    return env


def mpi(folder: Path) -> dict[str, str]:
    """Return the variables that any mpirun needs where nodes share a machine, and `agent` of *folder* stands for ssh.

    Open MPI 5: https://docs.open-mpi.org/en/v5.0.x/launching-apps/ssh.html, mca(1); before: mpirun(1).
    MPICH: https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
    """
    agent = folder / "agent"
    return {
        "OMPI_MCA_plm_rsh_agent": str(agent),
        "PRTE_MCA_plm_ssh_agent": str(agent),
        "HYDRA_LAUNCHER_EXEC": str(agent),
        # Nodes are known by their addresses, and each is called by mpirun itself.
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "1",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        # PRRTE names its files by its pid alone, and does not start if a killed one has left such files.
        "PRTE_MCA_prte_tmpdir_base": str(folder),
        "PRTE_MCA_prte_silence_shared_fs": "1",
        # By default, MPI does not use the loopback interface.
        "OMPI_MCA_oob_tcp_if_include": "lo",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "OMPI_MCA_btl_tcp_disable_family": "6",
        "HYDRA_IFACE": "lo",
        # A segment of shared memory is named after the rank on its node, so two emulated nodes would share it.
        # With Open MPI 5.0.11, a collective of "han" then waits for ever. "ofi" searches for networks for a second.
        "OMPI_MCA_btl": "^ofi,sm,vader",
        "OMPI_MCA_coll": "^han",
        # Emulated nodes share the cores of this machine, so ranks must neither spin nor be bound to cores.
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        # Jobs of the service ran as root in their containers.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def stdouterr(job: Job, env: Mapping[str, str]) -> Path:
    return Path(expanded(job.properties["stdOutErrPathPrefix"], env)) / job.segment / STDOUTERR


def output(job: Job, given: Mapping[str, Any], env: Mapping[str, str]) -> Path:
    """Return an output directory: prefix, segment, `outputs` as recipes show it, suffix."""
    root = Path(expanded(given["pathPrefix"], env)) / job.segment / "outputs"
    suffix: str = given.get("pathSuffix", "")
    return root / suffix.strip("/")


def furnish(settings: Settings, job: Job, nodes: Sequence[Node]) -> None:
    """Write the host file, and the way from node to node."""
    (settings.folder / "shared" / job.guid).mkdir(parents=True, exist_ok=True)
    for node in nodes:
        folder = temp(node, job)
        own = settings.engine != "podman" and "PATH" not in settings.machine_env
        if own and "jobPreparation" in job.properties:
            make_python(folder / PYTHON)
        (folder / "hostfile").write_text(host_file(job, nodes))
        for other in nodes:
            lines = [f"export {k}='{v}'\n" for k, v in local(other, job).items()]
            (folder / f"node-{other.address}").write_text("".join(lines))
        agent = folder / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)


def make_python(folder: Path) -> None:
    """Make an environment in *folder* that has the packages of this machine's Python and takes more.

    In the service, a preparation installs into the Python of its node or image, which no other node sees.
    """
    python = shutil.which("python3")
    if python is None:
        return
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = "import sys; print(*(p for p in sys.path if p.endswith('-packages')), sep='\\n')"
    seen = subprocess.run([python, "-c", packages], check=True, capture_output=True, text=True)
    for site in folder.glob("lib/python3*/site-packages"):
        (site / "machine.pth").write_text(seen.stdout)
    for name in ("pip", "pip3"):
        script = folder / "bin" / name
        script.write_text('#!/bin/sh\nexec "$(dirname "$0")/python3" -m pip "$@"\n')
        script.chmod(0o755)


def host_file(job: Job, nodes: Sequence[Node]) -> str:
    """Return a host file of Open MPI."""
    counts = [v.get("processCount") for v in job.properties.values() if isinstance(v, dict)]
    count = next((c for c in counts if c), len(nodes))
    slots = math.ceil(count / len(nodes))
    return "".join(f"{node.address} slots={slots} max-slots={slots}\n" for node in nodes)
