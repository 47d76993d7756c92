"""Start a program with one torchrun on each node, for a fixed group of nodes."""

from typing import Dict, List, Mapping

from runspec_agent.base import process
from runspec_agent.base.job_env import JobEnv
from runspec_agent.base.process import Child
from runspec_agent.env import address, sockets
from runspec_agent.rendezvous.participant import Participant
from runspec_agent.rendezvous.shared_directory import one_stack


def run(participant: Participant, argv: List[str]) -> int:
    participant.meet(port=address.free_port() if participant.words.rank == 0 else 0)
    loopback = one_stack(participant.nodes)
    leader = "127.0.0.1" if loopback else participant.words.leader or participant.nodes[0].host
    command = argv_for(participant.words, leader, participant.nodes[0].port) + argv
    return process.run(
        Child(command, env_for(participant.env(), participant.words.host, loopback)),
        participant.signals,
        participant.words.grace_s,
        participant.watch,
    )


def argv_for(job_env: JobEnv, leader: str, port: int) -> List[str]:
    return [
        "torchrun",
        "--no-python",
        "--nnodes={}".format(job_env.nodes),
        "--nproc-per-node={}".format(job_env.slots),
        "--node-rank={}".format(job_env.rank),
        "--master-addr={}".format(leader),
        "--master-port={}".format(port),
    ]


def env_for(env: Mapping[str, str], host: str, loopback: bool) -> Dict[str, str]:
    # With a shared store, the agent's server is also that of the workers, and a lost member is never noticed (torch
    # 2.13).
    defaults = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    defaults.update(sockets.variables(host, loopback))
    return dict(defaults, **env)
