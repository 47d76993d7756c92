"""The emulator as a program, as tests in other languages would use it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from azure.batch import BatchClient
from azure.core.credentials import AzureNamedKeyCredential

from tests.emulators.azure_batch.stand import MACHINE, until
from tests.support.process_table import marked
from tests.support.wait import LIMIT_S


@pytest.mark.slow
@pytest.mark.parametrize("way", ["SIGTERM", "stdin"])
def test_the_program_ends_with_all_its_tasks(tmp_path: Path, way: str) -> None:
    command = [sys.executable, "-m", "runspec_emulators.azure_batch", "--folder", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        env = json.loads(process.stdout.readline())
        key = AzureNamedKeyCredential(env["AZURE_BATCH_ACCOUNT"], env["AZURE_BATCH_ACCESS_KEY"])
        client: Any = BatchClient(endpoint=env["AZURE_BATCH_ENDPOINT"], credential=key)
        body = {"id": "p", "vmSize": "x", "virtualMachineConfiguration": MACHINE}
        client.create_pool({**body, "targetDedicatedNodes": 1})
        client.create_job({"id": "j", "poolInfo": {"poolId": "p"}})
        client.create_task("j", {"id": "t", "commandLine": "/bin/sleep 600"})
        until(lambda: marked(f"AZ_BATCH_NODE_ROOT_DIR={tmp_path}"))

        process.send_signal(signal.SIGTERM) if way == "SIGTERM" else process.stdin.close()

        assert process.wait(LIMIT_S) == 0
    assert not marked(f"AZ_BATCH_NODE_ROOT_DIR={tmp_path}")
