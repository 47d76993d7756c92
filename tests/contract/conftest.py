"""Which tests of the contract take their time, and which of those another one stands for, except with --matrix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {
    "aws-batch",
    "aws-batch-signed",
    "azure-batch",
    "azure-batch-ai",
    "parallelcluster",
    "slurm",
}  # each test of a client has servers of its own

# A test without marks tries all of these on this machine. What is left says at each service that a request is found
# again whether it was carried out or not, and both ends of a job.
VARIANTS = (
    r"ends_well_and_leaves_nothing\[.*-(single|script|name|secrets|outputs|limits)\]",  # the others ask for them
    r"wherever_a_call_goes_wrong\[.*-(it never arrives|it is refused for now|we are killed after it)\]",
    r"the_time_that_it_ran\[(aws-batch|azure-batch|slurm|parallelcluster)-1\]",
    r"byte_for_byte\[.*-7\]",
    r"copied_twice\[.*-0\]",
    r"kept_of_a_run_goes_with_it\[.*-single\]",
)
# ParallelCluster has Slurm's client answer these, and another test has it ask for a status, a stream or an output.
OF_SLURM = (
    "interpreter_that_its_first_line_names",
    "node_that_failed_by_itself",
    "told_with_its_own_exit_code",
    "the_time_that_it_ran",
    "every_line_is_in_the_log",
    "a_log_read_twice",
    "the_last_lines_that_match",
    "the_log_of_a_job_that_failed",
    "each_node_prints",
    "kept_of_all_nodes",
    "shell_reads_what_is_typed",
    "stopped_is_cancelled",
    "stopped_end_and_the_run_succeeds",
    "usage_of_as_many_nodes",
)
# What the program around a job does is the same on Azure Batch.
OF_AGENT = (
    "interpreter_that_its_first_line_names",
    "told_with_its_own_exit_code",
    "the_time_that_it_ran",
    "kept_of_all_nodes",
    "usage_of_as_many_nodes",
)
# Jobs with signed URLs have a program of their own around them. These ask only what AWS Batch and its logs answer.
OF_AWS = (
    "another_client_finds_it_too",
    "taking_away_twice",
    "changes_nothing",
    "never_was",
    "every_line_is_in_the_log",
    "a_log_read_twice",
    "the_last_lines_that_match",
    "the_log_of_a_job_that_failed",
    "has_the_time_at_which",
    "prints_into_a_stream",
    "does_not_sleep",
    "wherever_a_call_goes_wrong",
)
ELSEWHERE = {
    "parallelcluster": re.compile("|".join(OF_SLURM)),
    "aws-batch-signed": re.compile("|".join(OF_AWS)),
    "azure-batch-ai": re.compile("|".join(OF_AGENT)),
}
MORE = re.compile("|".join(VARIANTS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == HERE:
            params = item.callspec.params.values() if hasattr(item, "callspec") else ()
            world = SLOW & {p for p in params if isinstance(p, str)}
            if "trials" in item.fixturenames and world:
                item.add_marker(pytest.mark.slow)
                elsewhere = [ELSEWHERE[name] for name in world & ELSEWHERE.keys()]
                if any(names.search(item.name) for names in (MORE, *elsewhere)):
                    item.add_marker(pytest.mark.matrix)
