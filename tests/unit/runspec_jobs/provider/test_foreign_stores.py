"""Buckets and containers of other owners in a spec: how they are written, and who can read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.document import reader
from runspec_jobs.load import registry
from runspec_jobs.provider import Facts
from runspec_jobs.spec import validate


def problems(provider: str = "local", **mount: Any) -> list[str]:
    """Return what is wrong with a job that has this mount, with the hints."""
    found = {"name": "a", "target": "/a", **mount}
    return wrong_with(provider, env=found.pop("env", {}), mounts=[found])


def wrong_with(provider: str, **fields: Any) -> list[str]:
    job = {"apiVersion": "runspec/v1", "name": "n", "provider": provider, "run": "x"}
    text = json.dumps({**job, **fields})
    spec, wrong = validate.parse_spec(reader.read(text))
    if spec is not None:
        known = registry.load(provider)
        wrong = [*known.check(spec, Facts(known.options_model(), complete=False))]
    return [f"{p.what}: {p.hint}" for p in wrong if p.severity == "error"]


@pytest.mark.parametrize("provider", ["local", "slurm", "parallelcluster"])
def test_a_foreign_store_is_accepted_with_an_identity(provider: str) -> None:
    az = "az://lab/data/x"
    assert problems(provider, source="s3://lab-data/x y/é") == []
    assert problems(provider, source=az, anonymous=True) == []
    assert problems(provider, source=az, env={"AZURE_STORAGE_SAS_TOKEN": "sv=1"}) == []
    (refused,) = problems(provider, source=az)
    hint = "name AZURE_STORAGE_SAS_TOKEN under secrets, or write anonymous: true if it is public"
    assert refused == f"the job has no identity that may read '{az}': {hint}"


@pytest.mark.parametrize(
    ("mount", "says"),
    [
        (
            {"source": "s3://Lab/x"},
            "'s3://Lab/x' names no place in a store: write s3://BUCKET/PREFIX",
        ),
        ({"source": "az://lab"}, "names no place in a store: write az://ACCOUNT/CONTAINER/PREFIX"),
        ({"source": "s3://lab/a/../b"}, "must not contain '..'"),
        ({"source": "s3://lab//b"}, "must have no empty part, '.' or '..'"),
        ({"source": "s3://lab/b", "mode": "rw"}, "would be lost: remove mode: rw"),
        (
            {"source": "./a", "anonymous": True},
            "'anonymous' is for s3:// and az:// alone: remove it",
        ),
        (
            {"source": "https://lab.example/a.csv"},
            "add sha256: DIGEST, which this prints: curl -sSL 'https:",
        ),
        ({"source": "https://lab.example/a.csv", "sha256": "AB"}, "is not a SHA-256: write its 64"),
        ({"source": "./a", "sha256": "a" * 64}, "'sha256' is for https:// alone: remove it"),
        ({"source": "http://lab.example/a"}, "cannot be mounted"),
        (
            {"source": "https://me:pw@lab.example/a", "sha256": "a" * 64},
            "the address has a password",
        ),
        (
            {"source": "https://lab.example/a?x=1&X-Amz-Signature=ab", "sha256": "a" * 64},
            "the address has a password, a token or a signature: download the file",
        ),
        ({"source": "gs://lab/x"}, "'gs://lab/x' cannot be mounted"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(mount: dict[str, Any], says: str) -> None:
    (found,) = problems(**mount)

    assert says in found


@pytest.mark.parametrize("provider", ["local", "slurm", "parallelcluster"])
def test_an_output_goes_where_the_job_has_an_identity(provider: str) -> None:
    def wrong(target: str, **more: Any) -> list[str]:
        return wrong_with(provider, outputs=[{"name": "o", "path": "/o", "target": target}], **more)

    assert wrong("s3://lab/results/") == []
    assert wrong("az://lab/data") == [
        (
            "the job has no identity that may write to 'az://lab/data': "
            "name AZURE_STORAGE_SAS_TOKEN under secrets"
        )
    ]
    assert "write s3://BUCKET/PREFIX or az://" in wrong("store://a")[0]
    elastic = {"cluster": {"nodes": {"min": 1, "max": 2}}}
    assert any("remove target, or give" in line for line in wrong("s3://lab/a", **elastic))


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        (
            {"include": ["/a"]},
            "'/a' is no pattern of files in the output: write '*.pt' or 'logs/*'",
        ),
        ({"exclude": ["a/../b"]}, "'a/../b' is no pattern of files in the output"),
        ({"exclude": ["a/"]}, "'a/' is no pattern of files in the output"),
        ({"include": ["./a"]}, "'./a' is no pattern of files in the output"),
        ({"include": ["a//b"]}, "'a//b' is no pattern of files in the output"),
    ],
)
def test_a_pattern_stays_in_the_output(patterns: dict[str, list[str]], says: str) -> None:
    (found,) = wrong_with("local", outputs=[{"name": "o", "path": "/o", **patterns}])

    assert found.startswith(says)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("./a", "'mode: lazy' is for store:// alone: use store://"),
        ("shared://a", "'mode: lazy' is for store:// alone: remove it"),
        ("s3://lab-data/a", "'mode: lazy' is for store:// alone: use store://"),
    ],
)
def test_the_store_of_the_profile_alone_is_read_lazily(source: str, says: str) -> None:
    (found,) = problems(source=source, mode="lazy")

    assert found.startswith(says)


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_an_elastic_job_saves_all_files(key: str) -> None:
    elastic = {"nodes": {"min": 1, "max": 2}}
    outputs = [{"name": "o", "path": "/o", "sync": "1m", key: ["*.pt"]}]

    found = wrong_with("local", cluster=elastic, outputs=outputs)

    assert any(f"remove {key}, or give nodes one number" in line for line in found)
