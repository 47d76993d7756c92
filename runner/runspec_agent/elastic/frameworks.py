"""Which frameworks the program of an elastic job imports: learnt by the nodes that run it, read by those that join."""

import contextlib
import time
from typing import Callable, Mapping

from runspec_agent.base.job_env import Failure
from runspec_agent.elastic.runtime import Program
from runspec_agent.store.base import Bucket

KEY = "frameworks"
# At most, for the imports of a node that joins: workers that are forks would not wait for a worker that has to import.
IMPORT_S = 600.0

Env = Mapping[str, str]


def import_before_joining(
    engine: Program, bucket: Bucket, prefix: str, env: Env, leaves: Callable[[float], bool]
) -> None:
    """Import what the program imports before this node joins, so that the other nodes need not wait for that.

    *leaves* waits for so many seconds, and returns whether the node has to leave.
    """
    found = None if engine.warm is None else bucket.get(prefix + KEY)
    if found is None:
        return
    engine.warm_up(found.decode("utf-8").split(), env)
    engine.prepare(env)
    until = time.monotonic() + IMPORT_S
    while not engine.is_ready() and time.monotonic() < until and not leaves(0.05):
        pass


def learn(engine: Program, bucket: Bucket, prefix: str, env: Callable[[], Env]) -> None:
    """Prepare later workers of this node, and nodes that join, once it is known what the program imports."""
    names = [] if engine.warm is None else engine.warm.observed()
    if names:
        engine.warm_up(names, env())
        with contextlib.suppress(Failure):  # nodes that join then import it when they start
            bucket.put(prefix + KEY, "\n".join(names).encode("utf-8"))
