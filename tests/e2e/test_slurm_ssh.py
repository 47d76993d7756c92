"""A cluster behind a login node on which each login takes long, and whose user has settings of their own for ssh."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_slurm.session.shared_shell import close_shells
from tests.support.slurm.login_node import Login, login
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
LOGIN_S = 0.5
# For work by hand, from the manual of ssh_config.
CONFIG = """\
Host cluster
  HostName 127.0.0.1
  HostKeyAlias [127.0.0.1]:{port}
  RemoteCommand tmux new -A -s main
  RequestTTY yes
"""


@pytest.fixture
def node(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    (tmp_path / "login").mkdir()
    (tmp_path / "bin").mkdir()
    env = tuple(f"{k}={v}" for k, v in project.cluster.env.items())
    path = f"PATH={os.environ['PATH']}"
    with login(tmp_path / "login", (*env, path), says="Welcome", takes_s=LOGIN_S) as node:
        (tmp_path / "config").write_text(CONFIG.format(port=node.port))
        ssh = tmp_path / "bin" / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/config "$@"\n')
        ssh.chmod(0o700)
        monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
        project.profile(host="cluster", ssh_options=node.options)
        yield node


def test_commands_of_an_apply_share_a_login_shell(
    project: Project, node: Login, tmp_path: Path
) -> None:
    """The uploads of the agent, which is large, and of each folder have one each."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").write_text("hello")
    fields = {
        "mounts": [{"name": "src", "source": "./src", "target": "/job/src"}],
        "outputs": [{"name": "out", "path": "/job/out"}],
    }

    run = project.ended('cat "${mounts.src}/a" >"${outputs.out}/b"', **fields)
    first = node.shells
    close_shells()  # as another process
    again = project.ended('cat "${mounts.src}/a" >"${outputs.out}/b"', "--new", **fields)

    assert (run["state"], again["state"]) == ("succeeded", "succeeded")
    # One more each for a command that did not wait for another one: 21 and 15 without a shared shell.
    assert (first in (3, 4), node.shells - first in (1, 2), node.connections) == (True, True, 1)
    assert project.fetched() == {"out/b": "hello"}
