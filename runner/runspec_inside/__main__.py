"""The command line of the zipapp.

`job [-- WORD...]`, `job --node`, `batch -- WORD...`, `enter RUN TASK RANK [-- WORD...]`, `launch -- WORD...`,
`relay HOST PORT`, `rsh HOST WORD...`, `sync --every SECONDS|--once FROM TO`.
"""

import sys
from typing import Callable, Dict, List

from . import agent, batch, enter, launcher, relay, rsh, sync
from .words import Failure


def launch(argv: List[str]) -> int:
    return launcher.main(argv[1:] if argv[:1] == ["--"] else argv)


VERBS: Dict[str, Callable[[List[str]], int]] = {
    "job": agent.main,
    "batch": batch.main,
    "enter": enter.main,
    "launch": launch,
    "relay": relay.main,
    "rsh": rsh.main,
    "sync": sync.main,
}


def main() -> int:
    verb, argv = sys.argv[1:2], sys.argv[2:]
    try:
        if not verb or verb[0] not in VERBS:
            raise Failure("usage: runspec_inside {} ...".format("|".join(VERBS)))
        return VERBS[verb[0]](argv)
    except Failure as failure:
        print("runspec: {}".format(failure), file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.exit(main())
