"""ParallelCluster by the real names of AWS: the real `pcluster`, told of the authority as a company would tell it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.realnames import parallelcluster as services
from tests.realnames.world import World
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.fake_pcluster import install
from tests.support.slurm.pcluster_library import interpreter
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.root]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    need("node", *PROGRAMS)
    with World(tmp_path / "world", services.SERVICES, services.NAMES, "variables") as found:
        yield found


@pytest.mark.matrix
def test_a_cluster_is_made_and_deleted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    account = world.tell("account")
    world.tell("head", "demo", account)
    storage = {"data": {"mount": "/data", "size_gib": 1200, "data": f"s3://{services.BUCKET}/d"}}
    settings = {
        **account,
        "region": services.REGION,
        "key_pair": "my-key",
        "cluster": "demo",
        "storage": storage,
        "archive": False,
        "pcluster": str(pcluster()),
        "workspace": str(tmp_path / "workspace"),
        "python": sys.executable,
        "environment": "clean",
    }
    own_profile().write_text(json.dumps({"providers": {"parallelcluster": settings}}))
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "parallelcluster"}
    Path("job.yaml").write_text(json.dumps({**spec, "run": "echo hello"}))
    programs = install(tmp_path / "bin")
    (programs / "pcluster").unlink()  # the real one is asked
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    env = {**path, **world.tell("env")}

    assert "the account answers" in done(world, "doctor parallelcluster", env)
    assert done(world, "apply job.yaml", env) == "hello\n"
    assert world.tell("stacks") == ["demo"]
    done(world, "destroy job", env)
    done(world, "destroy --site", env)

    assert world.tell("stacks") == []
    found = [r for r in world.requests() if not r.host.startswith("169.254.")]
    assert {r.scheme for r in found} == {"https"}
    assert {r.status for r in found} <= {200, 400, 412}  # 412: EC2's answer to a dry run
    assert {r.host for r in found} >= {
        f"{services.BUCKET}.s3.amazonaws.com",
        *(f"{name}.{services.REGION}.amazonaws.com" for name in ("cloudformation", "ec2", "sts")),
    }


def done(world: World, words: str, env: Mapping[str, str]) -> str:
    """Run `runspec` to a good end; return what it said on stdout."""
    found = world.runspec(*words.split(), env=env)
    assert found.code == 0, (words, found)
    return found.out


def pcluster() -> Path:
    return interpreter().with_name("pcluster")
