"""Another user of this machine gets nothing from a rehearsal: no answer, no key, no file, and no job."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_emulators import privacy
from runspec_jobs.api.emulation import emulated
from tests.support.process_table import descendants
from tests.support.profiles import own_profile
from tests.support.requirements import need, need_root
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.root]
PROVIDERS = ["aws-batch", "azure-batch", "azure-batch-ai"]
# What a user without any key asks at each port: operations, control paths, metadata, tables of moto's.
ASKS = """
import http.client, json, sys
def ask(port, method, path, body=None):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        link.request(method, path, body, {"Content-Type": "application/json", "Metadata": "true"})
        return link.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
found = []
for port in map(int, sys.argv[1:]):
    for path in ("/", "/_rehearsal/calls", "/_rehearsal/jobs", "/moto-api/data.json", "/rehearsal/?comp=list",
                 "/_machine/x/metadata/instance?api-version=2020-07-01", "/pools?api-version=2025-06-01",
                 "/_identity/token?resource=x", "/subscriptions/0/resourceGroups/x?api-version=2018-05-01"):
        found.append([port, path, ask(port, "GET", path)])
    for path in ("/v1/describejobqueues", "/v1/registerjobdefinition", "/_rehearsal/token", "/moto-api/reset"):
        found.append([port, path, ask(port, "POST", path, b"{}")])
print(json.dumps(found))
"""


def as_nobody(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command as another user of the machine."""
    line = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    own = {"PATH": os.defpath + ":/usr/sbin", **env}
    return subprocess.run(line, capture_output=True, text=True, env=own, cwd="/", timeout=120)


def ports(pids: list[int]) -> list[str]:
    """Return the TCP ports at which these processes listen. proc(5)"""
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if found := re.match(r"socket:\[(\d+)\]", os.path.realpath(link).rpartition("/")[2]):
                sockets.add(found[1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [str(int(r[1].partition(":")[2], 16)) for r in rows if r[3] == "0A" and r[9] in sockets]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_root()
    need("setpriv")
    monkeypatch.chdir(tmp_path)
    own_profile().write_text("{}")
    path = tmp_path / "job.yaml"
    path.write_text("apiVersion: runspec/v1\nname: mine\nprovider: local\nrun: echo a\n")
    return path


@pytest.mark.parametrize("provider", PROVIDERS)
def test_another_user_is_refused_at_every_port_and_finds_no_key(job: Path, provider: str) -> None:
    need("azurite")
    usual = shutil.which("python3", path="/usr/bin")  # others may not enter the folder of ours
    python = usual or os.path.realpath(sys.executable)
    job.write_text(job.read_text().replace("provider: local", f"provider: {provider}"))

    with emulated(job) as folder:
        pids = [os.getpid(), *descendants(os.getpid())]
        asked = as_nobody(python, "-IS", "-c", ASKS, *ports(pids))
        environs = as_nobody("cat", *(f"/proc/{pid}/environ" for pid in pids))
        lines = as_nobody("cat", *(f"/proc/{pid}/cmdline" for pid in pids))
        files = as_nobody("ls", str(folder))
        keys = [privacy.KEY, *(v for k, v in os.environ.items() if "KEY" in k and len(v) > 20)]

    answers = json.loads(asked.stdout)
    assert {port for port, _, _ in answers} and len(answers) >= 2 * 13
    assert [one for one in answers if 200 <= one[2] < 400] == []
    assert (environs.stdout, files.stdout) == ("", "")
    assert lines.stdout != ""
    assert [key for key in keys if key in lines.stdout + environs.stdout] == []


def test_another_user_cannot_submit_to_the_slurm_of_a_rehearsal(job: Path, tmp_path: Path) -> None:
    """Neither with its configuration, which he cannot read, nor with a munge of his own."""
    need(*PROGRAMS)
    job.write_text(job.read_text().replace("provider: local", "provider: slurm"))

    with emulated(job):
        conf = Path(os.environ["SLURM_CONF"])
        own = Path("/tmp", f"{tmp_path.name}-other")
        own.mkdir(mode=0o755)
        try:
            (own / "slurm.conf").write_text(conf.read_text())
            sbatch = ["sbatch", "--wrap", f"id > {own}/ran", "--output=/dev/null"]
            theirs = as_nobody(*sbatch, SLURM_CONF=str(conf))
            copied = as_nobody(*sbatch, SLURM_CONF=str(own / "slurm.conf"))
        finally:
            shutil.rmtree(own)
        mine = subprocess.run(["squeue", "--noheader"], capture_output=True, text=True, check=True)

    assert "Permission denied" in theirs.stderr + copied.stderr
    assert (theirs.returncode != 0, copied.returncode != 0, mine.stdout) == (True, True, "")
