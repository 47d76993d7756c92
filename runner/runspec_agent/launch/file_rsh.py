"""A remote shell without a server: requests, outputs and exit codes are files in the rendezvous directory.

Containers and process groups have no sshd, so mpirun starts its daemons through this instead. Like ssh, it joins the
words with spaces, and the remote sh interprets them.
"""

import os
import re
import signal
import subprocess
import sys
from typing import BinaryIO, Dict, List, Mapping, Optional, Tuple

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, Failure, current
from runspec_agent.base.process import Child, Pace, Signals
from runspec_agent.launch import node_hostname
from runspec_agent.launch.mpirun import OWN_HOSTNAME
from runspec_agent.rendezvous.shared_directory import Rendezvous

WITH_VALUE = (
    "-l",
    "-p",
    "-o",
    "-i",
    "-F",
)  # options of ssh with a value, which a user's mpirun may pass
ENVIRONMENT = "VIRTUAL_ENV"  # the folder of the packages of the job, a different one on each node
ENDED_BY_SSH = 255  # the exit code of ssh if the connection is lost


def parse(argv: List[str]) -> Tuple[str, str]:
    """Return the host and the command.

    >>> parse(["-x", "-l", "me", "node-1", "echo", "$HOME;", "ls -l"])
    ('node-1', 'echo $HOME; ls -l')
    """
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in WITH_VALUE else 1]
    if len(rest) < 2:
        raise Failure("usage: rsh HOST WORD...")
    return rest[0], " ".join(rest[1:])


def main(argv: List[str]) -> int:
    host, command = parse(argv)
    unlike = os.uname().nodename if argv[0] == OWN_HOSTNAME else None
    job_env = current()
    meeting = Rendezvous(job_env)
    seats = meeting.seats()
    ranks = {node.host: rank for rank, node in seats.items()}
    if host not in ranks:
        raise Failure(
            "rsh: no node has the name '{}'; the nodes are {}".format(
                host, ", ".join(sorted(ranks))
            ),
            ENDED_BY_SSH,
        )
    if ranks[host] == job_env.rank:
        os.execvp("sh", ["sh", "-c", command])
    with Signals() as signals:
        return _Request(meeting, ranks[host], seats[0].token, command, unlike).relay(signals)


class _Request:
    def __init__(
        self, meeting: Rendezvous, rank: int, token: str, command: str, unlike: Optional[str]
    ) -> None:
        self.meeting = meeting
        self.rank = rank
        self.name = "{}-{}".format(rank, os.urandom(16).hex())
        record: files.Record = {"token": token, "command": os.fsencode(command).decode("latin-1")}
        record["unlike"] = unlike  # a host name that the node must not have
        record["environment"] = os.environ.get(ENVIRONMENT)
        files.write_record(meeting.path("ask-{}.json".format(self.name)), record)

    def relay(self, signals: Signals) -> int:
        streams = [("out", sys.stdout.buffer), ("err", sys.stderr.buffer)]
        offsets = {"out": 0, "err": 0}
        pace = Pace()
        while True:
            if any(number != signal.SIGUSR1 for number in signals.wait(pace.pause_s())):
                pace.start()
                files.write(self.meeting.path("stop-" + self.name), b"")
            done = files.read_record(self.meeting.path("done-{}.json".format(self.name)))
            for kind, stream in streams:
                offsets[kind] += _copy(
                    self.meeting.path("{}-{}".format(kind, self.name)), offsets[kind], stream
                )
            if done is not None:
                return int(done["code"])
            if self.meeting.gone(self.rank) or self.meeting.ended(self.rank) is not None:
                raise Failure("rsh: node {} is lost".format(self.rank), ENDED_BY_SSH)


def _copy(path: str, offset: int, stream: BinaryIO) -> int:
    """Copy the bytes of *path* after *offset* to *stream*; return how many there were."""
    try:
        with open(path, "rb") as source:
            source.seek(offset)
            content = source.read()
    except FileNotFoundError:  # the other node has printed nothing yet
        return 0
    if content:
        stream.write(content)
        stream.flush()
    return len(content)


def _tell(refusal: Optional[str]) -> None:
    if refusal is not None:
        line = (
            "runspec: this node cannot have a host name of its own ({}): a program that asks MPI for the ranks of its "
            "machine, as Horovod does, may wait for ever; with Horovod, use launch: horovod"
        )
        print(line.format(refusal), file=sys.stderr, flush=True)


class Server:
    """Runs the commands that rank 0 requests on this node."""

    def __init__(self, meeting: Rendezvous, token: str, env: Mapping[str, str]) -> None:
        self.meeting = meeting
        self.token = token
        self.env = env
        self.children: Dict[str, Child] = {}
        self._prefix = "ask-{}-".format(meeting.words.rank)

    def accept(self) -> bool:
        """Start the commands that were requested since the last call; return whether there were any."""
        before = len(self.children)
        for entry in sorted(os.listdir(self.meeting.folder)):
            if entry.startswith(self._prefix) and entry.endswith(".json"):
                name = entry[len("ask-") : -len(".json")]
                if name not in self.children:
                    self._start(name, files.read_record(self.meeting.path(entry)))
        return len(self.children) > before

    def _start(self, name: str, record: Optional[files.Record]) -> None:
        if record is None:
            return
        if not self.token or record.get("token") != self.token:
            raise Failure(
                "a request in {} does not have the token of this attempt".format(
                    self.meeting.folder
                ),
                LOST,
            )
        if record.get("unlike") == os.uname().nodename:
            _tell(node_hostname.take(self.meeting.words.host))
        command = os.fsdecode(record["command"].encode("latin-1"))
        theirs, ours = record.get("environment"), self.env.get(ENVIRONMENT)
        if theirs and ours:
            # Open MPI names its daemon, and the folder that it was installed to, by their paths on the first node.
            command = re.sub(re.escape(theirs) + r"(?![\w.-])", lambda _: ours, command)
        with open(self.meeting.path("out-" + name), "ab") as out, open(
            self.meeting.path("err-" + name), "ab"
        ) as err:
            self.children[name] = Child(
                ["sh", "-c", command],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out.fileno(),
                stderr=err.fileno(),
            )

    def running(self) -> List[Child]:
        return [child for child in self.children.values() if child.code is None]

    def answer(self) -> None:
        """Write the exit codes of commands that have ended, and pass on requests to stop."""
        for name, child in self.children.items():
            done = self.meeting.path("done-{}.json".format(name))
            if child.code is not None:
                if not os.path.exists(done):
                    self._flush(name)
                    files.write_record(done, {"code": child.exit_code})
            elif os.path.exists(self.meeting.path("stop-" + name)):
                child.stop(self.meeting.words.grace_s)
            child.tick()

    def _flush(self, name: str) -> None:
        """Sync the output of the command, so that other nodes can read it before the record that it is complete."""
        for kind in ("out", "err"):
            with open(self.meeting.path("{}-{}".format(kind, name)), "ab") as stream:
                os.fsync(stream.fileno())
