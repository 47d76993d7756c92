"""What copies an output of a node to where it is kept, while the job runs and at its end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runspec_local.supervisor.child import Child, start_child
from runspec_local.supervisor.durable import private_log
from runspec_local.supervisor.node import Node

Watch = Callable[[Child], None]
ANEW = 10  # times that what saves meanwhile is started anew


class Saver:
    """Saves one output of one node; every `sync_s` seconds from now on, if it has that.

    *watch* and *forget* are told of each process that `look` waits for.
    """

    def __init__(self, node: Node, output: Mapping[str, Any], watch: Watch, forget: Watch) -> None:
        self.node = node
        self.output = output
        self.saved: bool | None = None  # all of it, or not; None: it is not over yet
        self._watch = watch
        self._forget = forget
        self._again = True  # whether it may still be tried once more
        self._every = ("--every", str(output["sync_s"])) if output["sync_s"] else ()
        self._anew = ANEW
        self._child = self._start(*self._every) if self._every else None
        if self._child is not None:
            self._watch(self._child)

    def mind(self) -> None:
        """Start anew what saves meanwhile, where it was killed: for want of memory, or by hand."""
        if self._child is None or not self._child.ended:
            return
        self._forget(self._child)
        self._child.reap()
        self._child = self._start(*self._every) if self._anew else None
        self._anew -= 1
        if self._child is not None:
            self._watch(self._child)

    def begin_last(self) -> None:
        """Begin to save what is there now, and nothing after that."""
        if self._child is not None:
            self._child.send(signal.SIGTERM)
            return
        self._child = self._start("--once")
        if self._child is not None:
            self._watch(self._child)

    def look(self) -> bool:
        """Say whether it is over, for better or worse; what failed is tried a second time."""
        if self.saved is None and (self._child is None or self._child.ended):
            if self._succeeded():
                self.saved = True
            else:
                self._try_again()
        return self.saved is not None

    def _succeeded(self) -> bool:
        if self._child is None:
            return False
        self._forget(self._child)
        return self._child.reap() == 0

    def _try_again(self) -> None:
        self._child = self._start("--once") if self._again else None
        self._again = False
        if self._child is None:
            self.saved = False
        else:
            self._watch(self._child)

    def _start(self, *how: str) -> Child | None:
        """Start the process that saves, or give None: the second try, or its end, tells of it."""
        job = Path(self.node.job["folder"])
        places = (self.node.written(self.output), self.node.saved(self.output))
        line = [sys.executable, "-I", str(job / "runspec_inside.pyz"), "sync", *how]
        line += ["--keep", str(self.output.get("keep", 1))]
        try:
            places[1].mkdir(parents=True, exist_ok=True)
            with private_log(job / "supervisor.log") as log:
                return start_child([*line, *map(str, places)], dict(os.environ), job, log)
        except OSError:
            return None
