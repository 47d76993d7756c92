"""In which order the tests of a whole run are dealt out: first what takes long, and as much of it to each worker.

`--dist worksteal` cuts the list into a stretch for each worker, and gives to who is done from the end of another's. So
each stretch begins with what takes long, and ends with what takes milliseconds, of which any number can be given away.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pytest

# Seconds of what takes longest, as a whole run had it; the others are taken for EACH_S a test.
# `python -m tests.support.dealing_order FILE` writes this table from what `--junitxml FILE` of a whole run says.
# What came later has a guess from its processor time: 2.5 s for each second, as five workers share two cores.
LONG = {
    "e2e/test_elastic_torch.py": 160.0,
    "e2e/test_aws_spot.py": 160.0,
    "realnames/test_aws.py": 150.0,
    "faults/test_aws.py": 140.0,
    "faults/test_azure.py": 140.0,
    "e2e/test_article_parallelcluster.py": 150.0,
    "e2e/test_one_field.py": 130.0,
    "faults/test_elastic.py": 130.0,
    "realnames/test_azure.py": 110.0,
    "e2e/test_azure.py": 110.0,
    "e2e/test_batchai_logs.py": 100.0,
    "faults/test_kill.py": 100.0,
    "e2e/test_hands_on.py": 100.0,  # with the main job, which `test_main_job.py` finds done
    "e2e/test_elastic.py": 90.0,
    "e2e/test_podman.py": 90.0,
    "wherever_the_service_fails[aws-batch]": 90.0,
    "runspec_parallelcluster/check/test_validators.py": 80.0,
    "e2e/test_azure_podman.py": 75.0,
    "e2e/test_slurm_cloud.py": 70.0,
    "e2e/test_aws_saved.py": 70.0,
    "e2e/test_aws_both.py": 65.0,
    "e2e/test_azure_elastic.py": 60.0,
    "e2e/test_aws_elastic.py": 60.0,
    "e2e/test_aws_following.py": 60.0,
    "e2e/test_article_aws_batch.py": 60.0,
    "e2e/test_aws_logs.py": 60.0,
    "e2e/test_two_installs.py": 60.0,
    "e2e/test_slurm_logs.py": 55.0,
    "e2e/test_slurm_machines.py": 55.0,
    "wherever_the_service_fails[azure-batch]": 45.0,
    "e2e/test_slurm_torn.py": 45.0,
    "e2e/test_elastic_pool.py": 45.0,
    "e2e/test_slurm_elastic.py": 40.0,
    "e2e/test_elastic_notice.py": 30.0,
}
LEAST_S = 40.0  # what takes less is no exception
EACH_S = 3.0
CONTRACT = "contract/test_contract.py"


def dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Give *items* in another order: the stretch of each of *workers* begins with its share of the slow ones."""
    pieces: dict[str, list[pytest.Item]] = {}
    quick: list[pytest.Item] = []
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        (pieces.setdefault(piece(item.nodeid), []) if slow else quick).append(item)
    takes_s = {name: seconds(name, len(those)) for name, those in pieces.items()}
    stretches: list[list[pytest.Item]] = [[] for _ in range(workers)]
    whole_s = [0.0] * workers
    for name in sorted(pieces, key=lambda name: -takes_s[name]):
        least = whole_s.index(min(whole_s))
        stretches[least] += pieces[name]
        whole_s[least] += takes_s[name]
    return [item for stretch in filled(stretches, quick) for item in stretch]


def piece(nodeid: str) -> str:
    """Give what is dealt out as one: a file, whose tests may share what is dear; those of the contract do not."""
    return nodeid if CONTRACT in nodeid else nodeid.partition("::")[0]


def seconds(name: str, count: int) -> float:
    return next((long_s for part, long_s in LONG.items() if part in name), EACH_S * count)


def filled(
    stretches: Sequence[list[pytest.Item]], quick: Sequence[pytest.Item]
) -> Iterator[list[pytest.Item]]:
    """Give each stretch some of *quick* as well, so that it is as long as worksteal cuts it."""
    left, at = sum(map(len, stretches)) + len(quick), 0
    for n, stretch in enumerate(stretches):
        share = left // (len(stretches) - n)
        more = max(0, share - len(stretch))
        yield [*stretch, *quick[at : at + more]]
        at, left = at + more, left - share


def measured(junit: str) -> Mapping[str, float]:
    """Return the seconds of each piece that took long, longest first, by the file that `--junitxml` wrote."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(junit).iter("testcase"):
        module = case.attrib["classname"].replace(".", "/").partition("/Test")[0]
        name = piece(f"{module.removeprefix('tests/')}.py::{case.attrib['name']}")
        found[name.rpartition("::")[2]] += float(case.attrib["time"])
    longest = sorted(found.items(), key=lambda one: -one[1])
    return {name: round(s) for name, s in longest if s >= LEAST_S}


if __name__ == "__main__":
    for name, long_s in measured(sys.argv[1]).items():
        print(f'    "{name}": {long_s:.1f},')  # noqa: T201
