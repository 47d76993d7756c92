"""The contract for access to running jobs, as tests: a shell in the job, and a tunnel to its ports."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping

import pytest

from runspec_jobs.access.port_forward import Tunnel
from runspec_jobs.provider import (
    Spec,
    State,
    SupportsAccessHints,
    SupportsExec,
    SupportsLogs,
    SupportsPortForward,
    Unavailable,
)
from runspec_jobs.provider.types import ExecSpec
from runspec_jobs.testing.contracts.client import NOBODY, Trials
from runspec_jobs.testing.contracts.outputs import OutputsContract
from runspec_jobs.testing.trial import Trial
from runspec_jobs.testing.world import AWKWARD, World

ENTERED: Mapping[str, type] = {"shell": SupportsExec, "tunnel": SupportsPortForward}


class EnteringContract(OutputsContract):
    """The tests of clients with a shell or a tunnel; other clients must not claim to have them."""

    def test_the_client_supports_the_verbs_that_its_provider_names(
        self, trials: Trials, world: World
    ) -> None:
        client = trials(world.example("single")).client
        said = (
            set(world.provider.enters) if isinstance(world.provider, SupportsAccessHints) else set()
        )

        assert said == {word for word, kind in ENTERED.items() if isinstance(client, kind)}, (
            "messages of runspec list providers by what `enters` says"
        )

    def test_a_shell_finds_what_the_job_finds_and_its_exit_code_is_its_own(
        self, trials: Trials, world: World, canary: str
    ) -> None:
        trial = enter_trial(trials, world, world.entered())
        assert isinstance(trial.client, SupportsExec)
        line = "$RUNSPEC_RUN $RUNSPEC_TASK $RUNSPEC_RANK ${TOKEN:+secret} $GREETING $1"
        text = f"cat mark; printf '%s\\n' \"{line}\"; exit 7"

        exec_spec = trial.client.shell(
            trial.run, 0, 0, ["sh", "-c", text, "sh", AWKWARD], terminal=False
        )
        done = start_program(exec_spec)

        assert canary not in f"{exec_spec} {exec_spec.argv} {exec_spec.notes}"
        secret = "" if any("TOKEN" in note for note in exec_spec.notes) else "secret"
        expected = f"here\n{trial.run} 0 0 {secret} {AWKWARD} {AWKWARD}\n"
        assert (done.stdout.decode(), done.returncode) == (expected, 7), done.stderr

    def test_a_shell_reads_what_is_typed(self, trials: Trials, world: World) -> None:
        trial = enter_trial(trials, world, world.entered())
        assert isinstance(trial.client, SupportsExec)

        exec_spec = trial.client.shell(trial.run, 0, 0, [], terminal=False)
        done = start_program(exec_spec, b"cat mark\nexit 3\n")

        assert (done.stdout, done.returncode) == (b"here\n", 3), done.stderr

    def test_a_node_that_does_not_run_cannot_be_entered(self, trials: Trials, world: World) -> None:
        trial = enter_trial(trials, world, world.printing(["done"]), State.SUCCEEDED)
        client = trial.client

        # A run that has ended, and one that never was.
        for run in (trial.run, NOBODY):
            if isinstance(client, SupportsExec):
                with pytest.raises(Unavailable):
                    client.shell(run, 0, 0, ["true"], terminal=False)
            if isinstance(client, SupportsPortForward):
                with pytest.raises(Unavailable):
                    client.tunnel(run, 0, 0, 8888)

    def test_a_tunnel_leads_to_what_the_job_listens_at(self, trials: Trials, world: World) -> None:
        # The kernel chooses a free port, and another process is unlikely to get it before the job does.
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        trial = enter_trial(trials, world, world.serving(port))
        client, body = trial.client, bytes(range(256)) * 8192
        if not isinstance(client, SupportsPortForward):
            pytest.skip("it cannot connect to ports of a job")

        messages: list[str] = []
        tunnel = Tunnel(port, 0, lambda: client.tunnel(trial.run, 0, 0, port), messages.append)
        try:
            answer = post(f"http://127.0.0.1:{tunnel.port}", body, world.limit_s)
        finally:
            tunnel.close()

        assert answer == body, messages


def enter_trial(trials: Trials, world: World, spec: Spec, wanted: State = State.RUNNING) -> Trial:
    """Return a run of *spec* in the state *wanted*; skip the test if the provider gives no access to jobs."""
    if not isinstance(world.provider, SupportsAccessHints):
        pytest.skip("it has no way into a job")
    trial = trials(spec)
    trial.make()
    trial.until(lambda status: status.state is wanted)
    if wanted is State.RUNNING and isinstance(trial.client, SupportsLogs):
        trial.until(lambda status: b"begun" in trial.log())
    return trial


def start_program(exec_spec: ExecSpec, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: PLW1510 - callers check the exit code
        exec_spec.argv,
        env=exec_spec.env,
        cwd=exec_spec.folder,
        input=text,
        capture_output=True,
        timeout=60,
    )


def post(url: str, body: bytes, limit_s: float) -> bytes:
    """Send *body* to *url*, and retry until a program listens there; return the answer."""
    end = time.monotonic() + limit_s
    while True:
        try:
            with urllib.request.urlopen(url, body, timeout=limit_s) as answer:  # noqa: S310 - our own
                data: bytes = answer.read()
                return data
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
