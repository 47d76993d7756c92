"""In which order the tests of a whole run are dealt out: first what takes long, and as much of it to each worker.

`--dist worksteal` cuts the list into a stretch for each worker, and gives to who is done from the end of another's. So
each stretch begins with what takes long, and ends with what takes milliseconds, of which any number can be given away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

# Seconds of what takes longest, as `pytest --durations` had it in a whole run; the others are taken for EACH_S a test.
LONG = {
    "e2e/test_hands_on.py": 230.0,
    "e2e/test_aws_saved.py": 200.0,
    "e2e/test_elastic_torch.py": 190.0,
    "realnames/test_aws.py": 200.0,
    "e2e/test_one_field.py": 145.0,
    "faults/test_elastic.py": 130.0,
    "e2e/test_slurm_array.py": 110.0,
    "e2e/test_batchai_logs.py": 110.0,
    "e2e/test_azure.py": 110.0,
    "faults/test_safeguards.py": 100.0,
    "e2e/test_podman.py": 90.0,
    "e2e/test_elastic.py": 90.0,
    "wherever_the_service_fails[aws-batch]": 82.0,
    "parallelcluster/check/test_validators.py": 80.0,
    "realnames/test_parallelcluster.py": 75.0,
    "e2e/test_slurm_cloud.py": 70.0,
    "e2e/test_azure_elastic.py": 60.0,
    "e2e/test_aws_elastic.py": 60.0,
    "e2e/test_main_job.py": 60.0,
    "faults/test_kill.py": 60.0,
    "wherever_the_service_fails[azure-batch]": 45.0,
    "e2e/test_slurm_elastic.py": 40.0,
    "e2e/test_elastic_notice.py": 30.0,
}
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
