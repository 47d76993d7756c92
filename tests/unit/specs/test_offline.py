"""Every example plans for Azure with the network taken away, no credentials, and no SDK opened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.profiles import own_profile
from tests.support.root import ROOT
from tests.unit.specs import batch_ai
from tests.unit.specs.test_plans import AZURE, read

pytestmark = pytest.mark.slow

SPECS = sorted(path.name for path in (ROOT / "specs").glob("*.yaml"))
# Batch AI refuses these: it had no nodes that come and go.
ELASTIC = [name for name in SPECS if read(ROOT / "specs" / name).cluster.nodes.elastic]
# What touches the network fails; what is asked of the environment is noted.
WALLED = """\
import json, os, socket, sys
def refuse(*_, **__):
    raise AssertionError("the network was touched")
socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = refuse
socket.getaddrinfo = socket.create_connection = refuse
asked = set()
class Noted(type(os.environ)):
    def __getitem__(self, key):
        asked.add(key)
        return super().__getitem__(key)
os.environ.__class__ = Noted
from runspec_jobs.cli.app import run
codes = {name: run(["plan", name, "--provider", sys.argv[1], "--json"]) for name in sys.argv[2:]}
opened = sorted(m for m in sys.modules if m.startswith(("azure.core", "azure.identity", "azure.batch",
    "azure.mgmt", "azure.storage", "obstore", "msrest")))
print(json.dumps([codes, opened, sorted(k for k in asked if "AZURE" in k or "KEY" in k)]), file=sys.stderr)
"""
SECRETS = {"hf": "env:HF_KEY", "storage-key": "env:AZURE_STORAGE_KEY"}
PROFILES: dict[str, dict[str, Any]] = {
    "azure-batch": {**AZURE, "secrets": {"hf": "env:HF_KEY"}},
    "azure-batch-ai": {**batch_ai.PROFILE, "secrets": SECRETS},
}


@pytest.mark.parametrize("provider", PROFILES)
def test_every_example_is_planned_without_network_credentials_or_sdk(
    provider: str, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    text = json.dumps({"providers": {provider: PROFILES[provider]}})
    own_profile(tmp_path / ".config").write_text(text)

    done = subprocess.run(
        [sys.executable, "-c", WALLED, provider, *SPECS],
        cwd=tmp_path / "specs",
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    codes, opened, asked = json.loads(done.stderr.splitlines()[-1])
    refused = ELASTIC if provider == "azure-batch-ai" else []
    assert codes == {name: 2 if name in refused else 0 for name in SPECS}, done.stderr
    assert (opened, asked) == ([], [])
    assert done.stdout.count(f'"provider": "{provider}"') == len(SPECS) - len(refused)
