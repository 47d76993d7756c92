"""Check how the runs have ended that a job needs, before it reads what they have saved.

Their service knows only the exit codes of containers. `runspec_agent.retry.end_record` describes the end records.
"""

import json
import re
from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store.base import Bucket

RECORD = re.compile(r"(\d{1,9})/(\d{1,9})/(\d{1,9})-(\d{1,9})-[a-z]+$", re.ASCII)


def demand_success(bucket: Bucket, needs: Sequence[Mapping[str, Any]], own: int) -> None:
    """Raise Failure if a node of one of the runs in *needs* has not recorded that it has succeeded.

    Of a run that is `paired` with that of the job, only the task of the *own* number counts.
    """
    for need in needs:
        run = need["run"]
        at = "runs/{}/".format(run)
        content = bucket.get(at + "record.json")
        record = {} if content is None else json.loads(content.decode("utf-8"))
        if record.get("ends") is not True:  # it was destroyed, or its jobs write no such records
            continue
        ends = _read_ends(bucket, at + "ends/")
        for task, rank in _list_nodes(record):
            if need.get("paired") and task != own:
                continue
            code = ends.get((task, rank), (0, None))[1]
            if code != 0:
                how = "recorded no end" if code is None else "ended with exit code {}".format(code)
                text = "this job needs {} to have succeeded, whose task {} {} on node {}"
                raise Failure(text.format(run, task, how, rank), USAGE)


def _read_ends(bucket: Bucket, prefix: str) -> Dict[Tuple[int, int], Tuple[int, int]]:
    """Return the number and the exit code of the last attempt of each task and node."""
    ends = {}  # type: Dict[Tuple[int, int], Tuple[int, int]]
    for found in bucket.listing(prefix):
        match = RECORD.match(found.key[len(prefix) :])
        if match is not None:
            task, attempt, rank, code = map(int, match.groups())
            ends[task, rank] = max(ends.get((task, rank), (0, 0)), (attempt, code))
    return ends


def _list_nodes(record: Mapping[str, Any]) -> Iterator[Tuple[int, int]]:
    """Yield the task and the rank of each node that decides how the run ends."""
    # The main node of a gang ends with the exit code of the whole gang.
    ranks = 1 if record["shape"] == "nodes" else record["nodes"]
    tasks = 1
    for _, values in record["sweep"]:
        tasks *= len(values)
    for task in range(tasks):
        for rank in range(ranks):
            yield task, rank
