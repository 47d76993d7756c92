"""Resize clusters, and allocate nodes to jobs: all at once or none (gang scheduling)."""

from __future__ import annotations

import itertools
import shutil
import time

from runspec_emulators.batch_ai.jobs.processes import end_marked
from runspec_emulators.batch_ai.jobs.run import Run
from runspec_emulators.batch_ai.model import OVER, Cluster, Job, Node, Workspace, now
from runspec_emulators.batch_ai.resources import quotas
from runspec_emulators.batch_ai.resources.node_setup import NodeSetup
from runspec_emulators.batch_ai.world import World

FIRST_PORT = 50000  # official examples of remote login information
STAYS = {"idle", "running", "preparing", "unusable"}


def first_target(cluster: Cluster) -> int:
    """Return how many nodes a new cluster gets. "this value is used only during cluster creation"."""
    if "manual" in cluster.scale:
        return int(cluster.scale["manual"]["targetNodeCount"])
    auto = cluster.scale["autoScale"]
    return max(int(auto["minimumNodeCount"]), int(auto.get("initialNodeCount", 0)))


def begin(world: World, cluster: Cluster, target: int) -> None:
    aim(world, cluster, target)
    world.after(world.settings.autoscale_s, lambda: evaluate(world, cluster))


def changed(world: World, cluster: Cluster) -> None:
    """Follow scale settings that were changed."""
    if "manual" in cluster.scale:
        aim(world, cluster, int(cluster.scale["manual"]["targetNodeCount"]))
    else:
        aim(world, cluster, wanted(world, cluster))


def wanted(world: World, cluster: Cluster) -> int:
    """Return what autoScale aims at: "based on the number of queued and running jobs"."""
    auto = cluster.scale["autoScale"]
    jobs = [job for job in world.jobs() if job.cluster is cluster and job.state not in OVER]
    needed = sum(int(job.properties["nodeCount"]) for job in jobs)
    return max(int(auto["minimumNodeCount"]), min(needed, int(auto["maximumNodeCount"])))


def evaluate(world: World, cluster: Cluster) -> None:
    """Scale a cluster as autoScale does at each interval, and replace nodes that were taken away."""
    if cluster.deleted:
        return
    world.after(world.settings.autoscale_s, lambda: evaluate(world, cluster))
    if "manual" in cluster.scale:
        if len(staying(cluster)) < cluster.target:
            aim(world, cluster, cluster.target)
        return
    target = wanted(world, cluster)
    spare = [node for node in staying(cluster) if long_idle(world, node)]
    here = len(staying(cluster))
    if target > here:
        aim(world, cluster, target)
    elif target < here and spare:
        aim(world, cluster, max(target, here - len(spare)))


def long_idle(world: World, node: Node) -> bool:
    idle_s = time.monotonic() - node.idle_since
    return node.state == "idle" and idle_s >= world.settings.idle_s


def staying(cluster: Cluster) -> list[Node]:
    return [node for node in cluster.nodes if node.state in STAYS]


def aim(world: World, cluster: Cluster, target: int) -> None:
    """Have a cluster grow or shrink: resizing, and steady when that is done."""
    cluster.target = target
    if len(staying(cluster)) == target and not leaving(cluster):
        cluster.allocate("steady")
        return
    if cluster.allocation_state == "resizing":
        return  # `resize` reads the target when it runs
    cluster.allocate("resizing")
    world.after(world.settings.resize_s, lambda: resize(world, cluster))


def leaving(cluster: Cluster) -> list[Node]:
    return [node for node in cluster.nodes if node.state == "leaving"]


def resize(world: World, cluster: Cluster) -> None:
    if cluster.deleted:
        return
    missing = cluster.target - len(staying(cluster))
    if missing > 0:
        grow(world, cluster, missing)
    elif missing < 0:
        shrink(world, cluster, -missing)
    if not leaving(cluster):
        cluster.allocate("steady")


def grow(world: World, cluster: Cluster, count: int) -> None:
    """Add nodes, as many as there are: of low priority, there may be none for now."""
    can = quotas.affordable(world, cluster, len(staying(cluster)) + count) - len(staying(cluster))
    if cluster.low_priority and world.settings.capacity is not None:
        taken = sum(len(c.nodes) for c in world.clusters() if c.low_priority)
        can = min(can, world.settings.capacity - taken)
    for number in itertools.islice(numbers(cluster), max(0, min(count, can))):
        add(world, cluster, number)


def numbers(cluster: Cluster) -> itertools.count[int]:
    return itertools.count(1 + max((n.port - FIRST_PORT for n in cluster.nodes), default=-1))


def add(world: World, cluster: Cluster, number: int) -> None:
    """Add a node: preparing until its mounts and its setup task are done, then idle or unusable."""
    unique = world.next_number()
    name = f"tvm-{unique:010d}_{number + 1}"
    folder = world.settings.folder / "nodes" / name
    node = Node(name, world.addresses.take(), FIRST_PORT + number, folder)
    cluster.nodes.append(node)
    setup = NodeSetup(world, cluster, node, idle=lambda: place(world, cluster))
    world.after(world.settings.prepare_s, setup.prepare)


def shrink(world: World, cluster: Cluster, count: int) -> None:
    """Take nodes away, idle ones first; what becomes of jobs, nodeDeallocationOption says."""
    option = cluster.scale.get("manual", {}).get("nodeDeallocationOption", "requeue")
    order = {"unusable": 0, "preparing": 1, "idle": 2, "running": 3}
    for node in sorted(staying(cluster), key=lambda n: order[n.state])[:count]:
        job = node.job
        if job is None:
            take(world, cluster, node)
        elif "autoScale" in cluster.scale or option == "waitforjobcompletion":
            # `released` looks at the target again when the job is over.
            continue
        elif option == "terminate":
            take(world, cluster, node)
            fail(job, "NodesRemoved", "The job was terminated: its nodes were removed.")
        else:
            take(world, cluster, node)
            requeue(job)


def take(world: World, cluster: Cluster, node: Node) -> None:
    node.state = "leaving"
    world.after(world.settings.leave_s, lambda: gone(world, cluster, node))


def gone(world: World, cluster: Cluster, node: Node) -> None:
    if node.job is not None:  # the job holds the node until its processes have ended
        world.after(world.settings.leave_s, lambda: gone(world, cluster, node))
        return
    if node in cluster.nodes:
        cluster.nodes.remove(node)
        world.addresses.give_back(node.address)
        end_marked(node.mark)
        shutil.rmtree(node.folder, ignore_errors=True)
    if not leaving(cluster) and not cluster.deleted:
        aim(world, cluster, cluster.target)
        cluster.allocate("steady" if len(staying(cluster)) == cluster.target else "resizing")
        if cluster.allocation_state == "resizing":
            world.after(world.settings.resize_s, lambda: resize(world, cluster))


def dissolve(world: World, workspace: Workspace, cluster: Cluster) -> None:
    """Take all nodes away, and then the cluster."""
    for node in staying(cluster):
        take(world, cluster, node)
    if cluster.nodes:
        world.after(world.settings.leave_s, lambda: dissolve(world, workspace, cluster))
    else:
        workspace.clusters.pop(cluster.name.lower(), None)


def preempt(world: World, cluster: Cluster, node: Node) -> None:
    """Take a node away without notice; its job is queued again, and the cluster gets another node.

    https://learn.microsoft.com/azure/batch/batch-spot-vms: "the tasks that were running on the
    preempted node VMs are requeued".
    """
    job = node.job
    take(world, cluster, node)
    if job is not None:
        requeue(job)


# Jobs


def place(world: World, cluster: Cluster) -> None:
    """Start what there are idle nodes for: high before normal before low, the older first.

    A job that does not fit is overtaken by one that does.
    """
    if world.closed or cluster.deleted:
        return
    queue = [job for job in world.jobs() if job.cluster is cluster and job.state == "queued"]
    for job in sorted(queue, key=lambda job: job.rank):
        idle = [node for node in cluster.nodes if node.state == "idle"]
        if job.run is None and job.properties["nodeCount"] <= len(idle):
            start(world, cluster, job, idle[: job.properties["nodeCount"]])


def start(world: World, cluster: Cluster, job: Job, nodes: list[Node]) -> None:
    for node in nodes:
        node.state, node.job = "running", job
    job.nodes, job.runs = nodes, job.runs + 1
    job.start_time, job.end_time, job.exit_code, job.errors = now(), None, None, []
    job.move("running")
    run = Run(world, job, nodes, released=lambda: released(world, cluster, nodes))
    job.run = run
    run.start()


def requeue(job: Job) -> None:
    if job.run is not None:
        job.run.stop("requeue", grace_s=0.0)


def fail(job: Job, code: str, message: str) -> None:
    """End a job that has not ended."""
    job.errors = [{"code": code, "message": message}]
    if job.run is not None:
        job.run.stop(code, grace_s=0.0)
    else:
        job.end("failed")


def released(world: World, cluster: Cluster, nodes: list[Node]) -> None:
    """Have nodes back from a job; those that the cluster has too many of leave."""
    for node in nodes:
        node.job = None
        if node.state == "running":
            node.state, node.idle_since = "idle", time.monotonic()
    if "manual" in cluster.scale and len(staying(cluster)) > cluster.target:
        aim(world, cluster, cluster.target)
    place(world, cluster)
