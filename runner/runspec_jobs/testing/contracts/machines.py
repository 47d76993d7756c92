"""The contract for several machines that apply at once, as tests: all of them use the same shared resources."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from runspec_jobs.plan import model
from runspec_jobs.provider import Request, Response, Scope, Spec, State
from runspec_jobs.testing.contracts.client import Trials
from runspec_jobs.testing.contracts.stopping import StoppingContract
from runspec_jobs.testing.faults import Recorder, Send
from runspec_jobs.testing.trial import Trial, persist
from runspec_jobs.testing.world import World

MACHINES = 3
LIMIT_S = 60.0  # for all machines to arrive at the same request


@dataclass
class Together:
    """Holds each request for a shared resource until all machines send it, so that none finds the resource before."""

    machines: int = MACHINES
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _barriers: dict[str, threading.Barrier] = field(default_factory=dict)
    over: bool = False  # if true, requests are no longer held

    def wait(self, request: str) -> None:
        with self._lock:
            barrier = self._barriers.setdefault(request, threading.Barrier(self.machines))
            if self.over:
                return
        barrier.wait(LIMIT_S)

    def make(self, machine: Trial) -> None:
        """Make the run of *machine*; if that fails, stop holding the requests of other machines."""
        try:
            machine.make()
        except BaseException:
            with self._lock:
                self.over = True
                for barrier in self._barriers.values():
                    barrier.abort()
            raise

    @property
    def met(self) -> int:
        """The number of requests that all machines have sent at once."""
        return len(self._barriers)


@dataclass
class Machine(Recorder):
    """The client of one of several machines; requests that do not contain its *run* are sent by all at once."""

    run: str = ""
    together: Together = field(default_factory=Together)
    begun: set[str] = field(default_factory=set)

    def _send(self, request: Request, send: Send) -> Response:
        text = model.format_canonical([request.service, request.operation, request.params])
        if self.run not in text and text not in self.begun:
            self.begun.add(text)
            self.together.wait(text)
        return super()._send(request, send)


class MachinesContract(StoppingContract):
    """The tests of clients on several machines that start with an empty account."""

    def test_machines_that_make_a_shared_resource_at_once_share_it(
        self, trials: Trials, world: World
    ) -> None:
        together, spec = Together(), world.sharing()
        machines = [make_machine(trials, spec, number, together) for number in range(MACHINES)]

        with ThreadPoolExecutor(MACHINES) as pool:
            made = [pool.submit(together.make, trial) for trial in machines]
        together.over = True
        problems = [future.exception() for future in made]
        assert problems == [None] * MACHINES

        site = [
            step.id for step in machines[0].plan.steps if step.scope is Scope.SITE and step.undo
        ]
        assert together.met >= len(site)
        for trial in machines:
            assert None not in trial.find_all().values()
            assert trial.wait().state is State.SUCCEEDED
        for trial in machines:
            persist(trial.destroy_run)


def make_machine(trials: Trials, spec: Spec, number: int, together: Together) -> Trial:
    """Return a run of *spec* on a machine of its own, with its own journal and client."""
    trial = trials(spec, number + 1, lambda client: Machine(client, together=together))
    assert isinstance(trial.hands.client, Machine)
    trial.hands.client.run = trial.run
    return trial
