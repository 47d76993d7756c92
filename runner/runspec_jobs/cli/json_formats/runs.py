"""The formats of what the commands say that take a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runspec_jobs.api.chains import Condition
from runspec_jobs.api.lifecycle import State
from runspec_jobs.cli.json_formats.base import Code, Document, Part, Reason, Run, RunState, Time
from runspec_jobs.cli.json_formats.usage import Usage


class From(Part):
    """The node that could not reach another."""

    node: int
    host: str


class To(From):
    """The node that was not reached."""

    port: int


class Unreached(Part):
    """A pair of nodes that could not connect."""

    from_: From = Field(alias="from")
    to: To
    why: str


class Result(Document):
    """The result of a run that was followed, or its state when `apply --detach` left it."""

    format: Literal["runspec.result/v1"]
    run: Run
    provider: str
    state: State
    reason: Reason
    exit_code: Code
    unreached: list[Unreached] = Field(
        default=[], description="Of a smoke test that failed: the nodes that could not connect."
    )
    rule: str | None = Field(
        default=None, description="Of a smoke test that failed: the firewall rule to check."
    )


class ChainJob(Part):
    """One job of a chain, with its newest run."""

    job: str
    state: str = Field(
        description="A state of runs; `not-started`; or `skipped`, because a job has not ended as this one needs."
    )
    reason: Reason
    needs: dict[str, Condition] = Field(description="The jobs that must have ended, and how.")
    run: Run | None = Field(description="null if the job has no run.")
    provider: str | None
    exit_code: Code


class Chain(Document):
    """A chain of jobs, in an order in which they can run."""

    format: Literal["runspec.chain/v1"]
    chain: str
    file: str = Field(description="The file or folder of the chain.")
    want: Literal["run", "cancel", "destroy"]
    jobs: list[ChainJob]


class CostPart(Part):
    """What attempts have cost, as far as it is known."""

    attempts: int
    hours: float = Field(description="Of all nodes, as far as the times of attempts are known.")
    least_usd: float | None = Field(
        description="For the hours with a known price, on the cheapest possible machine; null if there are none."
    )
    most_usd: float | None = Field(description="The same with the dearest of the machines.")
    unpriced_hours: float = Field(description="Hours without a price; they are in no amount.")
    untimed: int = Field(description="How many attempts have no known length; they cost more.")
    at_most: bool = Field(
        description="Whether less may have been paid, because machines are spot machines at prices on demand, or the "
        "end of an attempt is not known."
    )


class CostOfOutcome(CostPart):
    """What the attempts have cost that ended in one way."""

    outcome: Literal["succeeded", "failed", "reclaimed", "cancelled", "running"]


class Cost(CostPart):
    """What a run has cost, in all and by how its attempts ended."""

    parts: list[CostOfOutcome]


class Metric(Part):
    """The best value of a metric that was seen while the run was followed."""

    name: str
    task: int
    value: float


class Resumed(Part):
    """The saves that a run began with, since it goes on from another one."""

    run: Run
    save: int | None = Field(
        description="The number of the save; 0 if that run saved once, null if outputs began with different ones."
    )
    content: str | None = Field(
        description="The digest of what the saves contain; null if an earlier version started the run."
    )


class Listed(Part):
    """One run in short."""

    run: Run
    name: str
    provider: str | None = Field(description="null if the record of the run is unreadable.")
    state: RunState
    reason: Reason
    began: Time | None = Field(description="When `apply` began; null if that is not known.")
    cost: CostPart | None = Field(
        description="null if the run has no price, or no attempt is known."
    )
    ran_s: float | None = Field(
        description="Seconds from the first start of a node to the end of the run, or until now."
    )
    node_count: int | None = Field(description="How many nodes each task has, at most.")
    task_count: int | None
    metric: Metric | None
    logs: str | None = Field(description="Where the logs are: a folder, a URL or a log group.")
    outputs: str | None = Field(description="Where the outputs are.")
    file: str | None = Field(description="The path of the spec.")
    commit: str | None = Field(
        description="The commit of git around the spec when the run was started."
    )
    resumed: Resumed | None = Field(description="null if the run began without saves.")


class Listing(Document):
    """The runs of this machine, or with `--remote` those that can be adopted."""

    format: Literal["runspec.list/v1"]
    runs: list[Listed]


class Attempt(Part):
    """One attempt of a node that has ended."""

    number: int = Field(description="Counts from 1.")
    exit_code: Code
    reason: Reason
    reclaimed: bool = Field(description="Whether the service reclaimed the machine.")
    began_s: Time | None
    ended_s: Time | None
    setup_s: float | None = Field(
        description="Seconds that `setup` took; null if there is none, if it did not end, or with `files: signed`."
    )


class Node(Part):
    """The state of one node of one task."""

    task: int
    rank: int
    attempt: int = Field(description="The number of the present attempt, from 1.")
    state: State
    reason: Reason
    exit_code: Code
    attempts: list[Attempt]
    began_s: Time | None = Field(description="When the attempt that runs began.")


class NodeRef(Part):
    """A node that joined, left or was lost."""

    node: int
    host: str
    why: str


class Change(Part):
    """One membership change of an elastic job, and its cost; null means unknown."""

    task: int
    generation: int
    at: Time
    before: int = Field(description="The number of nodes before; 0 at the start of the job.")
    nodes: int
    why: str
    gap_s: float | None = Field(description="Seconds without a training step.")
    lost_steps: int | None = Field(description="How many steps were repeated.")
    first_step: int | None
    since: int | None = Field(description="The generation that did the last step before.")
    exact: bool = Field(
        description="If false, `gap_s` is an upper bound and `lost_steps` a lower one."
    )
    came: list[NodeRef]
    left: list[NodeRef]
    lost: list[NodeRef]


class Total(Part):
    """The cost of all changes but the starts of tasks."""

    changes: int
    gap_s: float | None
    gap_unknown: int = Field(description="For how many changes `gap_s` is not known.")
    lost_steps: int | None
    lost_unknown: int = Field(description="For how many changes `lost_steps` is not known.")
    exact: bool


class WithChanges(Part):
    """The membership changes of an elastic job that was submitted; of other runs, these fields are absent."""

    changes: list[Change] | None = Field(default=None, description="null if they are not known.")
    changes_total: Total | None = None
    changes_unknown: str = Field(default="", description="Why `changes` is null, for people.")


class Released(Part):
    """A node that was released, and not asked for since."""

    task: int
    node: int


class Sizes(Part):
    """How many nodes an elastic run has, of all its tasks."""

    asked: int = Field(description="Nodes that are asked for, whether they run or not.")
    present: int = Field(description="Nodes that run.")
    released: list[Released]


class Status(Document, Listed, WithChanges):
    """The status of one run."""

    format: Literal["runspec.status/v1"]
    cost: Cost | None = Field(description="null if the run has no price, or no attempt is known.")
    usage: Usage | None = Field(description="null if the run has not started or was deleted.")
    exit_code: Code
    nodes: list[Node]
    size: Sizes | None = Field(
        description="null if the run is not elastic, has ended, or has too many nodes to list them."
    )
    want: Literal["run", "cancel", "destroy"] = Field(description="What was asked for last.")
    params: dict[str, str] = Field(
        description="The parameters of the spec, with the values of this run."
    )
    ports: dict[str, int] = Field(
        description="The ports of the spec, by their names: `runspec tunnel RUN PORT` leads to one."
    )
    ttl_s: int | None = Field(
        description="How many seconds after its end this machine destroys the run; null if it does not."
    )
    resume: str | None = Field(
        description="The command that goes on from its last save; null if the run has not ended, has succeeded or has "
        "saved nothing, and if it has more than 50 nodes, whose saves are not looked for."
    )


class Log(Document):
    """One line of a log. Each is a line of output."""

    format: Literal["runspec.log/v1"]
    task: int
    node: int
    at: Time | None = Field(
        default=None,
        description="When it was printed; only with `--timestamps`, and if it is known.",
    )
    line: str


class SavedLog(Part):
    """A copy of the log of one node."""

    path: str
    bytes: int
    node: int
    task: int


class SavedLogs(Document):
    """The files that `logs --save` wrote."""

    format: Literal["runspec.saved-logs/v1"]
    files: list[SavedLog]


class Fetched(Part):
    """A file of an output."""

    output: str
    task: int
    node: int
    path: str
    bytes: int


class Fetch(Document):
    """The files that `fetch` wrote."""

    format: Literal["runspec.fetch/v1"]
    run: Run
    files: list[Fetched]


class SavedFile(Part):
    """A file of a save of an output."""

    output: str
    task: int
    node: int
    save: int = Field(description="The number of the save; 0 if the run saves once, at its end.")
    newest: bool = Field(description="Whether that is the last save.")
    saved_at: Time | None = Field(description="When the save began, by the clock of the node.")
    path: str = Field(description="Relative to the folder of the output.")
    bytes: int
    changed_at: Time | None = Field(description="When the program had last written the file.")
    sha256: str | None
    link: str | None = Field(description="The target, if it is a link to a file of the output.")


class Outputs(Document):
    """The files that a run has saved."""

    format: Literal["runspec.outputs/v1"]
    run: Run
    files: list[SavedFile]


class Tunnel(Document):
    """A tunnel that is open now."""

    format: Literal["runspec.tunnel/v1"]
    run: Run
    task: int
    node: int
    port: int = Field(description="The port on the node.")
    local: int = Field(description="The port on this machine.")
    url: str


class Adopted(Part):
    """A run that this machine now has a record of."""

    run: Run
    provider: str


class Adopt(Document):
    """The runs that were adopted."""

    format: Literal["runspec.adopt/v1"]
    runs: list[Adopted]


class Cancel(Document):
    """The state of a run after `cancel`."""

    format: Literal["runspec.cancel/v1"]
    run: Run
    state: State
    reason: Reason


class Size(Document):
    """The size of an elastic run after `resize` or `release`."""

    format: Literal["runspec.size/v1"]
    run: Run
    state: State
    size: Sizes | None = Field(
        description="null if the run has ended meanwhile, or has too many nodes to list them."
    )


class Destroy(Document):
    """A run that was destroyed, or forgotten with `--forget`."""

    format: Literal["runspec.destroy/v1"]
    run: Run
    state: Literal["destroyed", "forgotten"]
    left: list[str] = Field(
        default=[], description="With `--forget`: what may be left at the service, for people."
    )


class DestroyRuns(Document):
    """The runs that were destroyed because they had ended, or all."""

    format: Literal["runspec.destroy-runs/v1"]
    destroyed: list[Run]
    failed: list[Run] = Field(description="The runs that could not be destroyed.")


class DestroySite(Document):
    """The shared resources that were deleted."""

    format: Literal["runspec.destroy-site/v1"]
    destroyed: list[str] = Field(description="What each was, for people.")
