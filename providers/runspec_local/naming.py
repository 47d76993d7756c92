"""Names and characters that have a meaning on this machine. Standard library only."""

from __future__ import annotations

VISIBLE = "CUDA_VISIBLE_DEVICES"
UNMOUNTABLE = ',"\r\n'  # characters that no path for a container engine may contain
