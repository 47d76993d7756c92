"""Planning for AWS needs no network, no credentials, no region in the environment, and no SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.aws.specs import PROFILE
from tests.support.profiles import own_profile

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
print(sorted({"boto3", "botocore", "obstore"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
JOB = """\
apiVersion: runspec/v1
name: offline
provider: aws-batch
command: [echo]
"""


@pytest.mark.process
def test_a_plan_is_made_with_the_network_taken_away(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    text = json.dumps({"providers": {"aws-batch": PROFILE}})
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
    assert json.loads(done.stdout)["provider"] == "aws-batch"
    assert done.stderr.splitlines()[-1] == "[]"
