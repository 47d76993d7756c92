"""`job [--node] [-- WORD...]`: the first process of a job on each node, with providers that have an object store."""

import os
import sys
from typing import List, Optional

from runspec_agent import extensions
from runspec_agent.base import boot_folder, end_causes, process
from runspec_agent.base.job_env import LOST, STOPPED, Failure, NoSpace
from runspec_agent.base.process import Signals
from runspec_agent.base.task_identity import rename, restore_path, resume_node
from runspec_agent.job import agent_watch
from runspec_agent.job.agent import RUN_PREFIX, Agent, print_line
from runspec_agent.job.agent_watch import Watch
from runspec_agent.retry import attempts, multi_instance
from runspec_agent.store import base as store
from runspec_agent.store.base import Bucket
from runspec_agent.transfer import log_times, log_uploader
from runspec_agent.usage import oom_kills


def main(argv: List[str]) -> int:
    with boot_folder.folder(os.environ):
        return _main(argv)


def _main(argv: List[str]) -> int:
    command = argv[1:] if argv[:1] in (["--"], ["--node"]) else argv
    os.environ.setdefault("RUNSPEC_INSIDE", os.path.abspath(sys.argv[0]))
    rename(os.environ)
    restore_path(os.environ)
    bucket = store.connect()
    for variable in extensions.SECRETS:
        if variable in os.environ:
            fill = extensions.load(extensions.SECRETS, variable, "source of secrets for")
            fill(bucket, os.environ)
    for name in bucket.private:  # a program may print its variables to the log
        os.environ.pop(name, None)
    env = dict(os.environ)
    crew = multi_instance.read(bucket, RUN_PREFIX.format(env["RUNSPEC_RUN"]), env)
    if crew is not None and crew.rank > 0:
        crew.announce()
    if argv[:1] == ["--node"] and (crew is None or crew.rank == 0 or not log_uploader.behind(env)):
        return 0
    at = RUN_PREFIX.format(env["RUNSPEC_RUN"])
    with Signals() as signals:  # process 1 of a container gets no signal that it does not handle
        record = attempts.read_record(bucket, at)
        if record.get("elastic") and not resume_node(
            env, record, lambda path: bucket.get(at + path)
        ):
            print_line("no node has this index, leaving")
            return 0
        if not record.get("ends"):  # another process watches over this one
            return _run(Agent(bucket, env, crew, record), command, signals)

        kills = oom_kills.watch(record)

        def work(watch: Watch) -> int:
            with Signals() as signals:
                return _run(Agent(bucket, env, crew, record), command, signals, watch)

        code, begun = agent_watch.run(work, signals)
    shown = agent_watch.exit_code(bucket, at, record, code, begun, kills)
    path = env.get("RUNSPEC_LOG")
    if code < 0 and begun is not None and path:  # the agent was killed, and could not save its log
        _save_log(bucket, path, log_uploader.key_of(at, begun.place))
    return shown


def _save_log(bucket: Bucket, path: str, key: str) -> None:
    try:
        log_uploader.wait_for_copy(path)
        log_uploader.Log(bucket, path, key).finish()
    except (OSError, Failure) as error:
        print_line("the log cannot be saved: {}".format(error))


def _run(agent: Agent, argv: List[str], signals: Signals, watch: Optional[Watch] = None) -> int:
    process.adopt_orphans()
    agent.times, agent.watch = log_times.start(agent.bucket, agent.env), watch
    why: Optional[str] = None
    try:
        code = agent.run(argv, signals)
    except Failure as failure:
        print_line(str(failure))
        ended = agent.in_full_store() if isinstance(failure, NoSpace) else None
        why, code = str(failure), failure.code if ended is None else ended
        if agent.ended_with is None:
            agent.cause = end_causes.AGENT
            if code not in (LOST, STOPPED):
                agent.mark_failed()
    agent.keep()
    code = agent.note(code, why)
    if agent.times is not None:
        agent.times.finish()
    return code
