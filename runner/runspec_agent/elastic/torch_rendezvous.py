"""A rendezvous backend for torchrun, which gets each generation from the agent of its node.

It runs in torchrun's own Python, from a copy in a folder on its path, so it imports no other module of runspec. Agent
and torchrun communicate by two files in a private folder, each written atomically: `view.json` has the current
generation and whether this node runs in it, `stopped.json` the generation that the workers have left.

https://docs.pytorch.org/docs/stable/elastic/rendezvous.html
"""

import importlib
import json
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

BACKEND = "runspec"
FOLDER = "RUNSPEC_TORCHRUN"  # the variable with the folder of the two files
VIEW, STOPPED = "view.json", "stopped.json"
LOOK_S = 0.02
RUNNING = "running"
RANKS = "torchelastic/assigned_ranks/"

Record = Dict[str, Any]
Serve = Callable[[str, int], Any]


def read(path: str) -> Optional[Record]:
    try:
        with open(path, encoding="utf-8") as stream:
            found: Record = json.load(stream)
            return found
    except FileNotFoundError:
        return None


def write(path: str, record: Record) -> None:
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as stream:
        json.dump(record, stream)
    os.rename(part, path)


class Leader(NamedTuple):
    """Where the workers of a generation meet."""

    master_addr: str
    master_port: int


class Ranks:
    """The store that torchrun's agents would share, without other agents: every node has the same data.

    All nodes have as many workers as this one. No method waits for other nodes, which may have been lost; runspec's
    agent does that.
    """

    timeout = None

    def __init__(self, nodes: int, slots: int) -> None:
        self.nodes, self.slots = nodes, slots
        self._kept: Dict[str, Any] = {}

    def set_timeout(self, _: Any) -> None: ...

    def wait(self, *_: Any) -> None: ...

    def add(self, key: str, amount: int) -> int:
        return amount

    def set(self, key: str, value: Any) -> None:
        self._kept[key] = value

    def multi_set(self, keys: List[str], values: List[Any]) -> None:
        self._kept.update(zip(keys, values))

    def multi_get(self, keys: List[str]) -> List[Any]:
        """Return what each node has written: the same as this one."""
        own = next(iter(self._kept.values()))
        return [own for _ in keys]

    def get(self, key: str) -> Any:
        if key in self._kept:
            return self._kept[key]
        first, all_of_them = int(key[len(RANKS) :]) * self.slots, self.nodes * self.slots
        return json.dumps([first, all_of_them, first, all_of_them])


class Rendezvous(NamedTuple):
    """The type that torch calls RendezvousInfo."""

    store: Ranks
    rank: int
    world_size: int
    bootstrap_store_info: Leader


class Handler:
    """The methods of torch's RendezvousHandler. torchrun calls them from one thread.

    *serve* starts the store where the workers of a generation meet, which ends with the generation. Without it, the
    worker of rank 0 starts the store once it has imported torch, and workers that connect earlier wait for seconds
    before they try again.
    """

    def __init__(self, folder: str, run: str, serve: Optional[Serve] = None) -> None:
        self.folder, self.run, self._serve = folder, run, serve
        self.generation = 0
        self._served: Any = None

    @property
    def use_agent_store(self) -> bool:
        return self._serve is not None

    def get_backend(self) -> str:
        return BACKEND

    def get_run_id(self) -> str:
        return self.run

    def next_rendezvous(self) -> Rendezvous:
        """Report that no worker runs here, and wait for the next generation that includes this node."""
        self._served = None
        self._say(met=True)
        view = self._next()
        while not self._serves(view):
            self._say(met=False)
            view = self._next()
        for name, value in view["env"].items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        store = Ranks(view["nodes"], view["slots"])
        return Rendezvous(store, view["rank"], view["nodes"], Leader(view["leader"], view["port"]))

    def _say(self, met: bool) -> None:
        write(os.path.join(self.folder, STOPPED), {"generation": self.generation, "met": met})

    def _next(self) -> Record:
        """Wait for the next generation; of one that is over before its workers start, report that they have stopped."""
        while True:
            view = read(os.path.join(self.folder, VIEW))
            if view is not None and view["generation"] > self.generation:
                self.generation = view["generation"]
                if view["phase"] == RUNNING:
                    return view
                self._say(met=True)
            time.sleep(LOOK_S)

    def _serves(self, view: Record) -> bool:
        """Start the store if that is this node's task; return False if another program uses the port."""
        if self._serve is not None and view["rank"] == 0:
            try:
                self._served = self._serve(view["leader"], view["port"])
            except RuntimeError:  # torch's error for a port in use
                return False
        return True

    def num_nodes_waiting(self) -> int:
        """Return 1 as soon as the workers have to stop: torchrun then asks for the next rendezvous."""
        view = read(os.path.join(self.folder, VIEW))
        changed = view is not None and (
            view["phase"] != RUNNING or view["generation"] != self.generation
        )
        return 1 if changed else 0

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None: ...

    def shutdown(self) -> bool:
        return True


def serve(host: str, port: int) -> Any:
    """Start a TCPStore at *port*. Raise RuntimeError if the port is in use.

    https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.TCPStore
    """
    dist = importlib.import_module("torch.distributed")
    return dist.TCPStore(host, port, is_master=True, wait_for_workers=False)


def creator() -> Callable[[Any], Any]:
    """Return a function that makes a handler from torchrun's parameters; torchrun finds it as an entry point."""
    base = importlib.import_module("torch.distributed.elastic.rendezvous.api").RendezvousHandler
    kind = type("RunspecHandler", (Handler, base), {})
    return lambda parameters: kind(os.environ[FOLDER], parameters.run_id, serve)
