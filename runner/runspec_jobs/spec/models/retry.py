"""How the attempts of a job end and begin again in a spec: `retry` and `signal`."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    model_validator,
)

from runspec_agent.base.program_hooks import SIGNALS
from runspec_agent.base.retry_rules import LOST, OOM, RULES, STOP, find_action
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.spec.types import (
    Bytes,
    ExitCodes,
    Model,
    Positive,
    Seconds,
    Tries,
    make_error,
    parse_whole,
)


def _check_codes(codes: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    if not codes:
        raise make_error("no exit code is listed", "write exit_codes: [42], or remove exit_codes")
    return codes


class Growth(Model):
    """More memory for the next attempt, on nodes of the same partition.

    If Slurm refuses the amount, the log says so, and the next attempt has as much memory as before.
    """

    grow: Annotated[int, Field(ge=2, le=16), BeforeValidator(parse_whole)] = Field(
        description="How many times the memory of the attempt that failed the next one has."
    )
    most: Bytes = Field(description="The most memory that an attempt may have, such as `64GiB`.")


class RetryRule(Model):
    """What follows an attempt that has ended in some way.

    `oom` is what the control group of the job counts: a program that exits with 137 by itself is none, nor is Python's
    MemoryError. `local` and Azure Batch AI, where no agent counts, refuse it: write `exit_codes: [137]`. Without
    control groups for memory, or with Linux before 4.13, no attempt has this reason. After `image`, no other attempt
    follows without an entry; `retry` is refused but on Slurm, ParallelCluster and AWS Batch, which makes at most
    `attempts + spot_attempts - 1`. `lost` is no failure, so only an entry with this reason matches it; `stop` is
    refused on Azure Batch AI, and for several nodes on AWS Batch. Azure Batch AI also refuses `retry` after `timeout`.

    Azure Batch does not look at exit codes: it starts the attempts that are left, which run nothing and end with the
    same code. An elastic job ends with the first failure whose exit code says `stop`, and refuses reasons. Jobs without
    an agent (`files: signed`) refuse all entries.
    """

    exit_codes: Annotated[tuple[ExitCodes, ...], AfterValidator(_check_codes)] | None = Field(
        default=None,
        json_schema_extra={"minItems": 1},
        description="Exit codes of the attempt, as `status` shows them: `[42, 43]`, or `[130..145]` for a range. "
        "An entry without `exit_codes` and `reason` is the last one, and matches every other failure.",
    )
    reason: Literal["oom", "timeout", "image", "lost"] | None = Field(
        default=None,
        description="Instead of exit codes. `oom`: the kernel killed a process of the job for its memory. `timeout`: "
        "it took longer than `timeout`. `image`: its image could not be pulled. `lost`: its machine was reclaimed or "
        "failed. A job ends where its image cannot be pulled, and is retried after all others, unless an entry says "
        "otherwise.",
    )
    action: Literal["retry", "stop"] = Field(
        description="`retry`: another attempt follows if `attempts` (after `lost`, `spot_attempts`) has one left. "
        "`stop`: none follows."
    )
    memory: Growth | None = Field(
        default=None,
        description="After `oom` or `exit_codes`, the memory of the next attempt: `{grow: 2, most: 64GiB}` doubles "
        "`cluster.memory` up to that bound. Only Slurm and ParallelCluster change the request of a job.",
    )

    @property
    def recorded(self) -> dict[str, Any]:
        """The rule as `runspec_agent.base.retry_rules` reads it."""
        codes = {} if self.exit_codes is None else {"codes": [list(c) for c in self.exit_codes]}
        reason = {"reason": self.reason} if self.reason else {}
        growth = (
            {"memory": {"grow": self.memory.grow, "most": self.memory.most}} if self.memory else {}
        )
        return {**codes, **reason, **growth, "action": self.action}

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.exit_codes is not None and self.reason is not None:
            raise make_error("an entry has exit_codes or reason", "write two entries, one for each")
        named = self.exit_codes is not None or self.reason == OOM
        if self.memory is not None and not (named and self.action == "retry"):
            hint = "write {reason: oom, action: retry, memory: {grow: 2, most: 64GiB}}"
            raise make_error("more memory is for another attempt after oom or exit_codes", hint)
        return self


class Retry(Model):
    """How many attempts the job may make."""

    attempts: Tries = Field(
        default=1, description="Largest number of attempts, the first included, if the job fails."
    )
    spot_attempts: Positive = Field(
        default=5,
        description="Largest number of attempts, the first included, that may be lost because a machine "
        "was reclaimed or failed. A lost attempt is not a failure and does not count against "
        "`attempts`. AWS Batch makes ten attempts in all.",
    )
    on: tuple[RetryRule, ...] = Field(
        default=(),
        description="What follows a failure: `[{exit_codes: [42, 43], action: stop}, {reason: oom, action: retry}]`. "
        "The first entry that matches an attempt decides, and a failure that matches none is retried.",
    )

    @property
    def rules(self) -> dict[str, Any]:
        """The field `retry_on` of records, for runs whose spec has rules."""
        return {RULES: [rule.recorded for rule in self.on]} if self.on else {}

    def action_of(self, reason: str) -> str | None:
        """Return what follows an attempt that ended for *reason*, if an entry says so."""
        return find_action(self.rules, reason=reason)

    @property
    def lost_attempts(self) -> int:
        """`spot_attempts`, or 1 if no attempt follows one whose machine was lost."""
        return 1 if self.action_of(LOST) == STOP else self.spot_attempts


def _check_signal(value: Any) -> Any:
    name = str(value).upper().removeprefix("SIG")
    if name in SIGNALS:
        return name
    if name in ("KILL", "STOP"):
        raise make_error(f"no program can handle {name}", "write USR1, which a program may handle")
    raise make_error(f"'{value}' is no signal", did_you_mean(name, SIGNALS) or "write USR1")


class Signal(Model):
    """The signal that the program gets some time before `timeout`, so that it can save.

    Each process of the program that has a handler for it gets it, on all nodes: a rank of MPI, a worker of torchrun, a
    shell with a `trap`. Launchers such as `mpirun` get none, nor does a process without a handler, which would end. The
    log says to how many it was sent. Python handles no signal while a call into a library does not return. Azure Batch
    AI, where jobs have no agent, refuses it.
    """

    name: Annotated[str, BeforeValidator(_check_signal)] = Field(
        description="Name of a signal of POSIX, such as `USR1`, without `KILL` and `STOP`."
    )
    before: Seconds = Field(description="How long before `timeout` it is sent, such as `2m`.")

    @property
    def number(self) -> int:
        """The number of the signal on Linux."""
        return SIGNALS[self.name]
