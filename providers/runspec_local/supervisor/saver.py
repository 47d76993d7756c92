"""Save an output of a node while the job runs, and at its end."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from runspec_agent.base.failure import DISK_FULL
from runspec_agent.base.light_typing import Any
from runspec_local.errors import with_way_out
from runspec_local.supervisor.child import Child, start_child
from runspec_local.supervisor.durable import private_log
from runspec_local.supervisor.node import Node

Watch = Callable[[Child], None]
ALSO_TO = "RUNSPEC_ALSO_TO"  # another place for the files: `runspec_agent.transfer.folder_sync`
FILES = "RUNSPEC_SAVED_FILES"  # the patterns of the files that are saved: as in `runspec_agent.transfer.folder_sync`
KNOWN_AS = "RUNSPEC_KNOWN_AS"  # links by this path lead into the output: the same module
ANEW = 10  # restarts of the saving process while the job runs


class Saver:
    """Saves one output of one node; every `sync_s` seconds from now on, if that is set.

    *watch* and *forget* are called with each process that `look` waits for.
    """

    def __init__(
        self,
        node: Node,
        output: Mapping[str, Any],
        watch: Watch,
        forget: Watch,
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.node, self._secrets = node, secrets
        self.output = output
        self.saved: bool | None = None  # whether all was saved; None: not decided yet
        self.why = ""  # why nothing was saved, if that is known
        self._watch = watch
        self._forget = forget
        self._again = True  # whether the save may be tried once more
        self._every = ("--every", str(output["sync_s"])) if output["sync_s"] else ()
        self._anew = ANEW
        self._child = self._start(*self._every) if self._every else None
        if self._child is not None:
            self._watch(self._child)

    def mind(self) -> None:
        """Restart the saving process if it was killed, for example because memory ran out."""
        if self._child is None or not self._child.ended:
            return
        self._forget(self._child)
        self._child.reap()
        self._child = self._start(*self._every) if self._anew else None
        self._anew -= 1
        if self._child is not None:
            self._watch(self._child)

    def begin_last(self) -> None:
        """Start the last save of the output."""
        if self._child is not None:
            self._child.send(signal.SIGTERM)
            return
        self._child = self._start("--once")
        if self._child is not None:
            self._watch(self._child)

    def look(self) -> bool:
        """Return whether saving is over, successful or not; a failed save is tried a second time."""
        if self.saved is None and (self._child is None or self._child.ended):
            if self._succeeded():
                self.saved = True
            else:
                self._child = self._start("--once") if self._again else None
                self._again = False
                if self._child is None:
                    self.saved = False
                else:
                    self._watch(self._child)
        return self.saved is not None

    def _succeeded(self) -> bool:
        if self._child is None:
            return False
        self._forget(self._child)
        code = self._child.reap()
        if code == DISK_FULL:
            self._tell(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        return code == 0

    def _tell(self, exc: OSError) -> None:
        self.why = with_way_out(exc, self.node.saved(self.output))

    def _start(self, *how: str) -> Child | None:
        """Start the process that saves, or return None if that fails, which the second attempt or the end reports."""
        job = Path(self.node.job["folder"])
        places = (self.node.written(self.output), self.node.saved(self.output))
        line = [sys.executable, "-I", str(job / "runspec_inside.pyz"), "sync", *how]
        line += ["--keep", str(self.output.get("keep", 1))]
        try:
            places[1].mkdir(parents=True, exist_ok=True)
            env = {**os.environ, KNOWN_AS: str(self.output["path"])}
            if patterns := {k: self.output[k] for k in ("include", "exclude") if k in self.output}:
                env[FILES] = json.dumps(patterns)
            if target := self.node.target(self.output):
                env |= {**self.node.identity(self._secrets), ALSO_TO: target}
            with private_log(job / "supervisor.log") as log:
                return start_child([*line, *map(str, places)], env, job, log)
        except OSError as exc:
            self._tell(exc)
            return None
