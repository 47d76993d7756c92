"""`python -m bench.adopt WORD...`: run a command and wait for all its descendants, whose CPU time counts too."""

from __future__ import annotations

import os
import subprocess
import sys

from runspec_agent.base.process import adopt_orphans

if __name__ == "__main__":
    adopt_orphans()
    code = subprocess.call(sys.argv[1:])
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    sys.exit(code)
