"""The command line of the zipapp.

`job [-- WORD...]`, `job --node`, `batch -- WORD...`, `enter RUN TASK RANK [-- WORD...]`, `launch -- WORD...`,
`relay HOST PORT`, `rsh HOST WORD...`, `sync --every SECONDS|--once FROM TO`.
"""

import sys
from importlib import import_module
from typing import Dict

from .words import Failure

# The module of each verb; one alone is imported, for a zipapp compiles what it imports at every start of a job.
VERBS: Dict[str, str] = {
    "job": "agent",
    "batch": "batch",
    "enter": "enter",
    "launch": "launcher",
    "relay": "relay",
    "rsh": "rsh",
    "sync": "sync",
}


def main() -> int:
    verb, argv = "".join(sys.argv[1:2]), sys.argv[2:]
    try:
        if verb not in VERBS:
            raise Failure("usage: runspec_inside {} ...".format("|".join(VERBS)))
        if verb == "launch" and argv[:1] == ["--"]:
            del argv[0]
        code: int = import_module("runspec_inside." + VERBS[verb]).main(argv)
    except Failure as failure:
        print("runspec: {}".format(failure), file=sys.stderr)
        return failure.code
    return code


if __name__ == "__main__":
    sys.exit(main())
