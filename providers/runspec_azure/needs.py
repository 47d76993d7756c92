"""Which machine a node of a job needs."""

from __future__ import annotations

from typing import Any

from runspec.provider import Spec


def size(spec: Spec, options: Any) -> str:
    """Give the VM size for a node of *spec*."""
    return options.vm_size or ("Standard_NC4as_T4_v3" if spec.cluster.gpus else "Standard_D2s_v5")
