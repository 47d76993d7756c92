"""What no example asks of ParallelCluster: rows of test_plans."""

from __future__ import annotations

from typing import Any

PROFILE = {
    "region": "eu-central-1",
    "subnets": ["subnet-0123456789abcdef0"],
    "key_pair": "my-key",
}
WORK = {"name": "work", "source": "shared://work/digits", "target": "/job/work"}
ACCOUNTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "named": (
        "mnist-chainer",
        {
            "cluster": {"nodes": 2, "gpus": 4, "capacity": "spot-then-on-demand"},
            "mounts": [WORK],
            "outputs": [{"name": "model", "path": "/job/model", "from": "first"}],
        },
        {
            "cluster": "training",
            "os": "ubuntu2404",
            "queues": {
                "spot": {"capacity": "spot", "instance_types": ["g5.12xlarge"], "spot_price": 4.5},
                "gpu": {
                    "instance_types": ["g5.12xlarge"],
                    "reservation": "cr-0123456789abcdef0",
                    "placement_group": "near",
                    "efa": True,
                },
            },
            "storage": {
                "work": {
                    "mount": "/work",
                    "kind": "persistent",
                    "throughput": 250,
                    "data": "s3://jobs/work",
                },
                "common": {"mount": "/common", "file_system": "fs-0123456789abcdef0"},
            },
            "memory_scheduling": True,
            "slurm_settings": {"MinJobAge": "3600"},
            "update": "stop",
            "tags": {"team": "digits"},
        },
    ),
    "there": ("hello", {}, {"cluster": "theirs", "manage": False, "partition": "gpu"}),
    "pool": (
        "hello",
        {"cluster": {"nodes": 2, "capacity": "pool:night"}},
        {
            "queues": {
                "day": {"instance_types": ["c7i.large"], "max_count": 4},
                "night": {
                    "instance_types": ["c7i.large"],
                    "reservation": "cr-0123456789abcdef0",
                    "max_count": 2,
                },
            },
            "pools": {"night": {"queue": "night"}},
        },
    ),
}
