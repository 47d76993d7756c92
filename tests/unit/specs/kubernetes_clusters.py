"""What no example asks of Kubernetes, and a cluster that is nobody's: rows of test_plans."""

from __future__ import annotations

from typing import Any

PROFILE: dict[str, Any] = {
    "namespace": "jobs",
    "store": "s3://jobs/runspec",
    "region": "eu-central-1",
    "service_account": "runspec-job",
    "cloud": "eks",
}
WORK = {"name": "work", "source": "shared://work/digits", "target": "/job/work"}
ACCOUNTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gpus": (
        "hello",
        {
            "cluster": {"nodes": 2, "gpus": 8, "gpu_type": "A100", "memory": "900GiB"},
            "container": {"image": "example.org/train:1", "shm": "64GiB"},
            "mounts": [WORK],
            "sweep": {"seed": "1..3"},
            "max_parallel": 2,
            "timeout": "2h",
            "ttl": "7d",
        },
        {
            "queue": "team-a",
            "priority_class": "low",
            "gpu_types": {"A100": {"node.kubernetes.io/instance-type": "p4d.24xlarge"}},
            "shared": {"work": "pvc:work"},
            "pull_secrets": ["registry"],
            "labels": {"team": "digits"},
        },
    ),
    "keys": (
        "secrets",
        {"cluster": {"capacity": "spot"}},
        {
            "service_account": None,
            "store_keys": {
                "AWS_ACCESS_KEY_ID": "env:AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY": "env:AWS_SECRET_ACCESS_KEY",
            },
            "store_url": "https://storage.googleapis.com",
            "cloud": "gke",
        },
    ),
    "azure": (
        "spot",
        {},
        {
            "store": "az://jobstore/jobs/runspec",
            "store_keys": {"AZURE_STORAGE_KEY": "env:AZURE_STORAGE_KEY"},
            "region": None,
            "cloud": "aks",
        },
    ),
    "claim": (
        "fit",
        {"cluster": {"nodes": {"min": 1, "max": 3}}, "retry": {"attempts": 1}},
        {"store": "pvc:runs", "region": None, "security": "none", "host_network": True},
    ),
    "alone": (
        "hello",
        {"retry": {"attempts": 3, "on": [{"reason": "lost", "action": "stop"}]}},
        {"store": None, "region": None, "service_account": None, "cloud": None},
    ),
    "pool": (
        "hello",
        {"cluster": {"capacity": "pool:night"}},
        {
            "pools": {
                "night": {"node_selector": {"pool": "night"}, "tolerations": [{"key": "night"}]}
            }
        },
    ),
}
