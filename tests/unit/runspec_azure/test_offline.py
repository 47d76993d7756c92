"""Planning for Azure needs no network, no credentials and no SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.azure.specs import PROFILE
from tests.support.profiles import own_profile
from tests.unit.specs import batch_ai

WALLED = """\
import os, socket, sys
def refuse(*_, **__):
    raise AssertionError("the network was touched")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from runspec_jobs.__main__ import main
sys.argv = ["runspec", *sys.argv[1:]]
code = 0
try:
    main()
except SystemExit as exc:
    code = exc.code or 0
sdks = {"azure", "msrest", "msal", "obstore", "requests", "aiohttp"}
print(sorted(sdks & {name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""
JOB = """\
apiVersion: runspec/v1
name: offline
provider: {}
command: [echo]
"""
PROFILES = {
    "azure-batch": PROFILE,
    "azure-batch-ai": {**batch_ai.PROFILE, "secrets": {"storage-key": "env:STORAGE_KEY"}},
}


@pytest.mark.process
@pytest.mark.parametrize("provider", PROFILES)
def test_a_plan_is_made_with_no_sdk_and_the_network_taken_away(
    provider: str, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(provider))
    text = json.dumps({"providers": {provider: PROFILES[provider]}})
    own_profile(tmp_path / ".config").write_text(text)
    env = {"PATH": os.defpath, "HOME": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", WALLED, "plan", "job.yaml", "--json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["provider"] == provider
    assert done.stderr.splitlines()[-1] == "[]"
