"""Settings of the emulator: delays, lags, log models, what the machines give to jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runspec_emulators.frame.settings import EmulatorSettings

LogModel = Literal["serial", "jitter", "late"]
Capacity = Literal["all", "none"]
InstanceChoice = Literal["smallest", "largest"]


@dataclass(frozen=True)
class Settings(EmulatorSettings):
    """Times are in seconds. Those of the real service stand in comments, where documented."""

    FIXED = frozenset({"folder", "engine", "region", "account", "podman", "seed", "secrets_url"})

    region: str = "us-east-1"
    account: str = "123456789012"
    seed: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The secrets in Secrets Manager and the Parameter Store: valueFrom -> value."""
    secrets_url: str | None = None
    """Where Secrets Manager has the secrets that are not among *secrets*."""

    valid_s: float = 0.02  # CREATING -> VALID, of environments and queues
    delete_s: float = 0.02  # DELETING -> gone
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Compute environments that become INVALID: name -> statusReason."""
    submitted_s: float = 0.02
    runnable_s: float = 0.02
    starting_s: float = 0.02
    terminate_grace_s: float = 30.0  # SIGTERM -> SIGKILL: user guide, "Job timeouts"
    limit_second_s: float = 1.0
    """The duration of a second of jobStateTimeLimitActions, whose minimum is 600 seconds."""
    min_timeout_s: int = 60  # SubmitJob timeout.attemptDurationSeconds
    capacity: Capacity = "all"
    """With "none", jobs stay RUNNABLE and say CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY."""
    runnable_reason: str | None = None
    """When given, jobs stay RUNNABLE with this statusReason."""
    instance_choice: InstanceChoice = "smallest"
    """Which instance type starts, of those that hold a job: "largest" is where the most jobs share one."""
    memory_share: float = 0.97
    """The share of an instance's nominal memory that jobs can use.

    The example in the user guide, "Memory management": of 8192 MiB, 7985 - 32.
    """
    link_local: bool = False
    """Whether containers look for metadata at 169.254.170.2 and 169.254.169.254, as at AWS.

    Whoever sets it has to hand on what comes there; else they are told addresses of the emulator.
    """
    credentials_uri: str | None = None
    """AWS_CONTAINER_CREDENTIALS_FULL_URI of every container."""

    list_lag_s: float = 0.0
    describe_lag_s: float = 0.0
    forget_after_s: float | None = None
    """The time for which DescribeJobs and ListJobs return an ended job. User guide, "Job states"."""

    log_model: LogModel = "serial"
    late_s: float = 20.0
    """In the model "late", the most that a batch of lines may be late."""
    late_share: float = 0.005
    """In the model "late", the share of batches that are."""
    partial_pages: float = 0.0
    """Share of log pages that are partly full or empty, though more is to come."""
    throttle_logs: float = 0.0
    """Share of GetLogEvents calls that are answered with ThrottlingException."""

    def arn(self, resource: str, service: str) -> str:
        """Return the ARN of a resource."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"
