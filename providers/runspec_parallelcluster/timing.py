"""Intervals and limits of a client of ParallelCluster; those of the cluster's Slurm are in `runspec_slurm.timing`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long a client waits, in seconds."""

    logs_s: float = 1.0
    """Between two reads of a log without new lines: about as long as a command over SSH takes."""
    poll_s: float = 15.0
    """Between two queries of a cluster: making one takes ten minutes, and a query four seconds of processor time."""
    made_s: float = 3600.0
    """The longest wait for a cluster to be made or updated."""
    stopped_s: float = 1800.0
    """The longest wait for the machines of a cluster to stop."""
    call_s: float = 600.0
    """The longest time for one call of `pcluster`; creating and deleting continue after it."""
    address_s: float = 60.0
    """Between two queries for a new address of a head node; a query takes seconds of processor time."""
    archive_pause_s: float = 10.0
    """Between two queries for the files that are not in S3 yet."""
    archive_look_s: float = 1800.0
    """For one such query of all files, each of which takes milliseconds."""
    archive_s: float = 4 * 3600.0
    """The longest wait for all files to be in S3."""


DEFAULT = Timing()  # what `connect` uses
