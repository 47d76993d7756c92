"""A cluster: the state, and what works on it."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Self

from runspec_emulators.kubernetes.controllers import (
    garbage,
    jobs,
    kueue,
    node_states,
    quotas,
    scheduler,
)
from runspec_emulators.kubernetes.nodes.kubelet import Kubelet
from runspec_emulators.kubernetes.settings import Settings
from runspec_emulators.kubernetes.world import World

IDLE_S = 1.0


class Cluster(World):
    """A cluster, whose controllers and kubelets run in one thread after `begin`, until it is closed."""

    def __init__(self, settings: Settings, url: str) -> None:
        super().__init__(settings, url)
        with self.lock:
            node_states.begin(self)
        self.kubelet = Kubelet(self)
        self.jobs = jobs.Controller(self)
        self.nodes = node_states.Controller(self, self.kubelet)
        self._steps: Sequence[Callable[[], None]] = (
            # In the order in which a new job passes through them, so that one round starts its
            # pods.
            lambda: kueue.sync(self),
            self.jobs.sync,
            lambda: garbage.sync(self),
            lambda: scheduler.sync(self),
            self.nodes.sync,
            lambda: quotas.sync(self),
            self.kubelet.sync,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> Self:
        self._thread.start()
        self.ends += [self._thread.join, self.kubelet.close]
        return self

    def _run(self) -> None:
        seen = -1
        while True:
            with self.lock:
                while not self.closed and self.version == seen and time.monotonic() < self.soonest:
                    self.changed.wait(min(IDLE_S, max(self.soonest - time.monotonic(), 0.001)))
                if self.closed:
                    return
                seen, self.soonest = self.version, float("inf")
            self.step()
            # Requests and pods get their turn between two rounds.
            time.sleep(0.001)

    def step(self) -> None:
        """Have each controller look once."""
        for step in self._steps:
            try:
                with self.lock:
                    if not self.closed:
                        step()
            except Exception:  # noqa: BLE001 - as controllers do, it says so and tries again
                traceback.print_exc()
                self.wake_in(IDLE_S)
