"""What the SDKs log is not for users: a login that is not there is one line of runspec's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process
LOGGED = "import logging, {0}; logging.getLogger('azure.identity').warning('14 lines')"


@pytest.mark.parametrize("module", ["runspec_azure.batch.client", "runspec_batchai.client"])
def test_no_log_of_a_library_is_printed(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOGGED.format(module)], capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("", "")
