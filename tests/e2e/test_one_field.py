"""One file, one changed field: the same job on this machine, on AWS Batch and on Azure Batch, rehearsed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from runspec.cli.main import run
from tests.needs import need

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CLOUDS = ("aws-batch", "azure-batch")
# The names that docs/inside.md promises; those of a mount and an output as in the spec below.
TABLE = (ROOT / "docs" / "inside.md").read_text().partition("Names are in capitals")[0]
CONTRACT = {
    *re.findall(r"`(RUNSPEC_[A-Z_]+)`", TABLE),
    "RUNSPEC_MOUNT_CODE",
    "RUNSPEC_OUTPUT_FOUND",
}
# What a program sees of its job, on every node; addresses, folders and the run's id are the machine's own.
LOOK = """
import json, os
own = {k: v for k, v in os.environ.items() if k.startswith("RUNSPEC_")}
hosts = [line.split()[0] for line in open(own["RUNSPEC_HOSTFILE"])]
found = {
    "names": sorted(set(own) & set(os.environ["CONTRACT"].split())),
    "counted": {k: own[k] for k in ("RUNSPEC_RANK", "RUNSPEC_NODES", "RUNSPEC_SLOTS", "RUNSPEC_ATTEMPT")},
    "hosts": len(hosts),
    "leader first": hosts[0] == own["RUNSPEC_LEADER"],
    "mount": os.listdir(own["RUNSPEC_MOUNT_CODE"]),
    "output": os.path.isdir(own["RUNSPEC_OUTPUT_FOUND"]),
    "env": os.environ["GREETING"],
}
path = os.path.join(own["RUNSPEC_OUTPUT_FOUND"], own["RUNSPEC_RANK"] + ".json")
open(path, "w").write(json.dumps(found))
"""


def spec(provider: str, **more: Any) -> str:
    found = {
        "apiVersion": "runspec/v1",
        "name": "look",
        "provider": provider,
        "cluster": {"nodes": 2},
        "env": {"GREETING": "it's 3.10", "CONTRACT": " ".join(sorted(CONTRACT))},
        "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
        "outputs": [{"name": "found", "path": "/job/found"}],
        "command": ["python3", "${mounts.code}/look.py"],
        **more,
    }
    path = Path(f"{provider}.yaml")
    path.write_text(json.dumps(found))
    return str(path)


def seen(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give what the program of each node saw, by the name of its file."""
    (tmp_path / "code").mkdir(exist_ok=True)
    (tmp_path / "code" / "look.py").write_text(LOOK)
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / provider
    if provider == "local":
        monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
        options = {"local": {"engine": "process"}}
        assert run(["apply", spec("local", providers=options)]) == 0
        assert run(["fetch", "look", str(kept / "outputs")]) == 0
    else:
        assert run(["rehearse", spec(provider), "--folder", str(kept)]) == 0
        monkeypatch.delenv("RUNSPEC_PROFILE", raising=False)
    files = (kept / "outputs").rglob("*.json")
    return {path.name: json.loads(path.read_text()) for path in files}


def test_a_program_sees_the_same_wherever_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same names, and what is counted is equal: no program has to know where it is."""
    need("azurite")
    found = {name: seen(name, tmp_path, monkeypatch) for name in ("local", *CLOUDS)}

    assert set(found["local"]) == {"0.json", "1.json"}
    assert set(found["local"]["0.json"]["names"]) == CONTRACT
    assert found["aws-batch"] == found["local"]
    assert found["azure-batch"] == found["local"]


def test_the_chainer_job_of_the_hands_on_runs_on_azure_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nodes of low priority, MPI between them, the table of the log, the model; then nothing is left."""
    need("azurite")
    shutil.copytree(ROOT / "specs" / "mnist", tmp_path / "mnist")
    text = (ROOT / "specs" / "mnist-chainer.yaml").read_text()
    changed = re.sub(r"^provider: local\b", "provider: azure-batch", text, flags=re.MULTILINE)
    changed = re.sub(r"^cluster:\n", "cluster:\n  capacity: spot\n", changed, flags=re.MULTILINE)
    assert "capacity: spot" in changed
    (tmp_path / "mnist-chainer.yaml").write_text(changed)
    monkeypatch.chdir(tmp_path)

    assert run(["rehearse", "mnist-chainer.yaml", "--folder", "kept"]) == 0, capsys.readouterr()

    log = capsys.readouterr()
    assert "Num process (COMM_WORLD): 2" in log.out
    rows = [line.split() for line in log.out.splitlines() if re.match(r"\[node 0\] \d+ ", line)]
    assert len(rows) == 20
    assert float(rows[-1][6]) > 0.9, rows[-1]
    kept = tmp_path / "kept" / "outputs"
    found = sorted(str(p.relative_to(kept)) for p in kept.rglob("*") if p.is_file())
    assert found == ["model/log.json", "model/model_epoch_20.npz"]
    assert "shared things destroyed" in log.err
