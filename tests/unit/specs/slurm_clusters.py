"""What no example asks of Slurm, and clusters that are nobody's: rows of test_plans."""

from __future__ import annotations

from typing import Any

WORK = {"name": "work", "source": "shared://work/digits", "target": "/job/work"}
IMAGE = {"image": "nvcr.io/nvidia/pytorch:24.05-py3", "shm": "8GiB"}
NGC = {
    "registry": "nvcr.io",
    "registry_user": "$oauthtoken",
    "registry_password": "env:NGC_API_KEY",
}
ACCOUNTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "podman": (
        "hello",
        {
            "cluster": {
                "nodes": 2,
                "gpus": 4,
                "gpu_type": "V100",
                "capacity": "spot-then-on-demand",
            },
            "container": IMAGE,
            "mounts": [WORK],
            "secrets": {"TOKEN": "token"},
            "env": {"NOTE": "it's, $HOME\r\n#BSUB -q x"},
            "sweep": {"seed": "1..3"},
            "max_parallel": 2,
            "timeout": "2h",
        },
        {
            "partition": "gpu",
            "spot_partition": "spot",
            "account": "digits",
            "shared": {"work": "/fsx/work"},
            "secrets": {"token": "env:TOKEN"},
            **NGC,
            "after": ["afterany:123"],
            "sbatch": ["--constraint=ib"],
        },
    ),
    "apptainer": (
        "hello",
        {"container": IMAGE, "mounts": [WORK]},
        {"shared": {"work": "/fsx/work"}, **NGC},
    ),
    "pyxis": (
        "hello",
        {"container": IMAGE, "env": {"NOTE": "a,b"}, "cluster": {"memory": "4GiB"}},
        {"environment": "clean", **NGC},
    ),
    "pool": (
        "hello",
        {"cluster": {"nodes": 2, "capacity": "pool:night"}},
        {
            "partition": "main",
            "pools": {
                "night": {"partition": "gpu", "qos": "night", "sbatch": ["--reservation=night"]},
                "day": {"partition": "small"},
            },
        },
    ),
    "mpi": (
        "mnist-chainer",
        {
            "cluster": {"nodes": 2, "placement": "close"},
            "processes_per_node": 2,
            "outputs": [{"name": "model", "path": "/job/model", "from": "first"}],
        },
        {"mpi": "srun", "scratch": "/local", "partition": "gpu", "host": "me@login"},
    ),
}
PARTITION = {
    "max_time_s": 86_400,
    "nodes": 8,
    "cpus": 32,
    "memory_mb": 240_000,
    "gpus": {"v100": 4},
}
# What a survey finds, by the same names.
CLUSTERS: dict[str, dict[str, Any]] = {
    "podman": {"partitions": {"gpu": PARTITION, "spot": {**PARTITION, "max_time_s": None}}},
    "apptainer": {"containers": ["podman", "apptainer"]},
    # memory that the cluster knows nothing of
    "pyxis": {
        "containers": ["podman", "pyxis"],
        "partitions": {"all": {"default": True, "nodes": 4, "cpus": 4}},
    },
    "mpi": {"containers": [], "mpi": ["pmi2"], "python": "3.11"},
}


def survey(name: str) -> dict[str, Any]:
    """Give what is found out of the cluster; nothing where nobody could ask."""
    return {"slurm": CLUSTERS[name]} if name in CLUSTERS else {}
