"""The command line of the zipapp.

`job [-- WORD...]`, `job --node`, `batch -- WORD...`, `copy-log VERB [WORD...]`,
`enter RUN TASK RANK [-- WORD...]`, `foreign RECORD TARGET`, `gpus COUNT -- WORD...`, `launch -- WORD...`,
`login FILE`, `output STORE RECORD TARGET`, `reach -- WORD...`, `relay HOST PORT`,
`resume STORE RECORD OUTPUT TASK/NODE TARGET`, `rsh HOST WORD...`, `serve-store [--wait]`,
`sync --every SECONDS|--once FROM TO`,
`usage FOLDER`.
"""

import gc
import importlib
import sys

from runspec_agent.base.job_env import Failure

# Each verb's module is imported when it is asked for: a zipapp compiles every module anew, and tasks may be many.
VERBS = {
    "job": "job.entry_point",
    "batch": "job.slurm_batch",
    "copy-log": "job.log_copy",
    "enter": "job.exec_into",
    "foreign": "transfer.other_stores",
    "gpus": "job.gpu_check",
    "launch": "launch.node_program",
    "login": "env.login_environment",
    "output": "transfer.run_output",
    "reach": "rendezvous.connectivity",
    "relay": "job.port_relay",
    "resume": "transfer.resume",
    "rsh": "launch.file_rsh",
    "serve-store": "transfer.store_server",
    "sync": "transfer.folder_sync",
    "usage": "usage.of_run",
}


def main() -> int:
    verb, argv = sys.argv[1:2], sys.argv[2:]
    try:
        if not verb or verb[0] not in VERBS:
            raise Failure("usage: runspec_agent {} ...".format("|".join(VERBS)))
        module = importlib.import_module("{}.{}".format(__package__, VERBS[verb[0]]))
        getattr(
            gc, "freeze", gc.enable
        )()  # Python 3.7: modules are never garbage, also not in a fork
        gc.enable()
        code: int = module.main(argv)
        return code
    except Failure as failure:
        print("runspec: {}".format(failure), file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.exit(main())
