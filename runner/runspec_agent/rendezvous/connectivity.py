"""`reach -- WORD...`: test the connections between all nodes of a job before its program starts.

Each node listens on a port that the system picks, as it does for MPI, and tries to connect to all others. The nodes
exchange addresses through the store of the run, which they reach in any case. The first node collects the results,
prints the pairs that cannot connect, and writes the verdict for all nodes. All requests are lists, so their number
grows no faster than the number of nodes.
"""

import errno
import hmac
import json
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, List, NamedTuple, Optional, TypeVar

from runspec_agent.base.job_env import LOST, STOPPED, Failure, current
from runspec_agent.base.process import STOPS, Pace, Signals
from runspec_agent.rendezvous import host_exchange
from runspec_agent.rendezvous.shared_directory import Node
from runspec_agent.store.base import Bucket
from runspec_agent.store.folder import FolderBucket

UNREACHED = 68  # EX_NOHOST of sysexits.h
CONNECT_S = 10.0  # timeout of a connection, and of each answer on it
AT_ONCE = 32  # connections that a node tries at the same time
HEAR_S = 300.0  # from when all nodes are known until all results are there
SHOWN = 100  # pairs in the log; a closed network of 100 nodes has 9900
TOKEN_BYTES = 32  # a client sends the first half, and the server answers with the second
FOUND = "found/"  # object names RANK,COUNT: how many nodes this one could not reach
VERDICT = "verdict"
ANOTHER = "somebody else answers"
NO_NAME = "its name is not known there"
Found = TypeVar("Found")
WORDS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.ETIMEDOUT: "timed out",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.EACCES: "unreachable: prohibited",
    errno.EPERM: "unreachable: prohibited",
}


def main(argv: List[str]) -> int:
    """Test the connections through the rendezvous folder, and then replace this process by WORD..."""
    job_env = current()
    bucket = FolderBucket({"RUNSPEC_STORE": "file://{}".format(job_env.meet)})
    with Signals() as signals:
        node = Node(job_env.rank, job_env.host, "", "", 0)
        Reach(bucket, "reach/", node, job_env.nodes).check(signals, "")
    program = argv[1:] if argv[:1] == ["--"] else argv
    os.execvp(program[0], program)


class Seat(NamedTuple):
    """The address at which a node listens, and the token of its answers."""

    host: str
    port: int
    token: str

    def text(self) -> str:
        return "{},{},{}".format(self.port, self.token, self.host)

    @classmethod
    def of(cls, text: str) -> "Seat":
        port, token, host = text.split(",", 2)
        return cls(host, int(port), token)


class Door(threading.Thread):
    """The listening side of a node. A client that sends the first half of the token gets the second half."""

    def __init__(self, host: str) -> None:
        super().__init__(daemon=True)
        self._token = os.urandom(TOKEN_BYTES).hex()
        self._socket = _listening(host)
        self.seat = Seat(host, self._socket.getsockname()[1], self._token)

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        question, answer = _halves(self._token)
        with connection:
            connection.settimeout(CONNECT_S)
            try:
                if hmac.compare_digest(_received(connection, len(question)), question):
                    connection.sendall(answer)
            except OSError:  # the client has disconnected
                pass

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes up accept()
        except OSError:
            pass
        self._socket.close()


def _listening(host: str) -> socket.socket:
    """Listen at this node's address; on all addresses if the network does not have that one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        try:
            listener.bind((host, 0))
        except (OSError, UnicodeError):
            listener.bind(("", 0))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise Failure("this node cannot listen: {}".format(error), UNREACHED) from error
    return listener


def _halves(token: str) -> List[bytes]:
    middle = len(token) // 2
    return [token[:middle].encode("ascii"), token[middle:].encode("ascii")]


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            break
        data += block
    return data


def tried(seat: Seat, timeout_s: float = CONNECT_S) -> Optional[str]:
    """Return why *seat* cannot be reached from here, or None if the right node answers."""
    question, answer = _halves(seat.token)
    try:
        with socket.create_connection((seat.host, seat.port), timeout_s) as connection:
            connection.sendall(question)
            return None if _received(connection, len(answer)) == answer else ANOTHER
    except (socket.gaierror, UnicodeError):
        return NO_NAME
    except socket.timeout:
        return "timed out"
    except OSError as error:
        return WORDS.get(error.errno or 0) or str(error.strerror or error)


class Reach:
    """One node's part in the connectivity test of a job.

    *failed* returns the exit code of a node that has failed meanwhile.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        node: Node,
        nodes: int,
        failed: Callable[[], Optional[int]] = lambda: None,
    ) -> None:
        self.bucket, self.prefix = bucket, prefix
        self.rank, self.host, self.nodes = node.rank, node.host, nodes
        self.failed = failed

    def check(self, signals: Signals, rule: str) -> None:
        """Raise Failure UNREACHED on every node if any two cannot connect; *rule* names the setting to check."""
        door = Door(self.host)
        door.start()
        try:
            node = Node(self.rank, door.seat.text(), "", "", 0)
            prefix = self.prefix + "seats/"
            nodes = host_exchange.call(self.bucket, prefix, node, self.nodes, signals, self.failed)
            seats = [Seat.of(other.host) for other in nodes]
            failed = self.try_all(seats)
            self._tell("{}{},{}".format(FOUND, self.rank, len(failed)), failed)
            if self.rank == 0:
                counts = self._counts(signals)
                broken = sum(counts.values())
                say(seats, self._pairs(counts), broken, rule)
                self._tell(VERDICT, broken)
            else:  # until then, other nodes may try to reach this one
                broken = self._verdict(signals)
        finally:
            door.close()
        if broken:
            text = "{} of {} connections between nodes do not work"
            raise Failure(text.format(broken, self.nodes * (self.nodes - 1)), UNREACHED)

    def try_all(self, seats: List[Seat]) -> Dict[int, str]:
        others = [rank for rank in range(self.nodes) if rank != self.rank]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            attempts = zip(others, threads.map(lambda rank: tried(seats[rank]), others))
            return {rank: why for rank, why in attempts if why is not None}

    def _tell(self, name: str, value: object) -> None:
        self.bucket.put(self.prefix + name, json.dumps(value).encode("ascii"))

    def _counts(self, signals: Signals) -> Dict[int, int]:
        """Wait for all nodes; return how many others each could not reach, which the object names contain."""
        prefix = self.prefix + FOUND

        def looked() -> Optional[Dict[int, int]]:
            names = (entry.key[len(prefix) :].split(",") for entry in self.bucket.listing(prefix))
            counts = {int(rank): int(count) for rank, count in names}
            return counts if len(counts) == self.nodes else None

        return self._waited(looked, signals)

    def _pairs(self, counts: Dict[int, int]) -> Dict[int, Dict[int, str]]:
        """Return which nodes could not reach which others, and why; only as many are read as are printed."""
        pairs: Dict[int, Dict[int, str]] = {}
        left = SHOWN
        for rank, count in sorted(counts.items()):
            if count and left > 0:
                left -= count
                content = self.bucket.get("{}{}{},{}".format(self.prefix, FOUND, rank, count))
                why = json.loads((content or b"{}").decode("ascii"))
                pairs[rank] = {int(other): text for other, text in why.items()}
        return pairs

    def _verdict(self, signals: Signals) -> int:
        def looked() -> Optional[int]:
            content = self.bucket.get(self.prefix + VERDICT)
            return None if content is None else int(content)

        return self._waited(looked, signals)

    def _waited(self, look: Callable[[], Optional[Found]], signals: Signals) -> Found:
        """Wait until *look* returns a result."""
        began, pace = (
            time.monotonic(),
            Pace(host_exchange.looks_s(0.1, self.nodes), host_exchange.LOOK_S),
        )
        while True:
            code = self.failed()  # read first: a node that has written its result may end at once
            result = look()
            if result is not None:
                return result
            if any(number in STOPS for number in signals.wait(pace.pause_s())):
                raise Failure("asked to stop while nodes tried to reach each other", STOPPED)
            if code is not None:
                raise Failure("a node failed while nodes tried to reach each other", code)
            if time.monotonic() - began > HEAR_S:
                raise Failure("not all nodes have reported which nodes they reach", LOST)


def say(seats: List[Seat], failed: Dict[int, Dict[int, str]], broken: int, rule: str) -> None:
    """Print the pairs that cannot connect, of *broken* in all, and the setting to check."""
    lines = [
        "node {} ({}) -> node {} ({}) port {}: {}".format(
            rank, seats[rank].host, other, seats[other].host, seats[other].port, why
        )
        for rank, pairs in sorted(failed.items())
        for other, why in sorted(pairs.items())
    ]
    for line in lines[:SHOWN]:
        _print(line)
    if broken > SHOWN:
        _print("and {} more".format(broken - SHOWN))
    if lines and rule:
        _print("check: {}".format(rule))


def _print(text: str) -> None:
    print("runspec: {}".format(text), file=sys.stderr)
    sys.stderr.flush()
