"""The emulator as a program, over https, and with containers of podman."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from tests.emulators.kubernetes.bench import pod
from tests.emulators.kubernetes.stand import Stand, until
from tests.support import certificates
from tests.support.process_table import marked
from tests.support.wait import LIMIT_S


@pytest.mark.slow
@pytest.mark.parametrize("way", ["SIGTERM", "stdin"])
def test_the_program_ends_with_all_its_pods(tmp_path: Path, way: str) -> None:
    command = [sys.executable, "-m", "runspec_emulators.kubernetes", "--folder", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        env = json.loads(process.stdout.readline())
        untyped: Any = config
        api = untyped.new_client_from_config(env["KUBECONFIG"])
        core: Any = client.CoreV1Api(api)
        body = pod(command=["sleep", "600"], env=[{"name": "MARK", "value": str(tmp_path)}])
        core.create_namespaced_pod("default", body)
        until(lambda: marked(f"MARK={tmp_path}"))
        api.rest_client.pool_manager.clear()

        process.send_signal(signal.SIGTERM) if way == "SIGTERM" else process.stdin.close()

        assert process.wait(LIMIT_S) == 0
    assert not marked(f"MARK={tmp_path}")


@pytest.mark.process
def test_a_client_comes_by_https(make: Callable[..., Stand], tmp_path: Path) -> None:
    stand = make(certificate=certificates.made(tmp_path))
    stand.run("echo $HOSTNAME")

    stand.ended()

    assert stand.server.url.startswith("https://")
    assert stand.log() == "p\n"
