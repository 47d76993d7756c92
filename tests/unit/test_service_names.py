"""The core knows no service: none is named in its code, outside of comments, docstrings and the listed exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.support.root import ROOT

CORE = ROOT / "runner/runspec_jobs"
NAMES = (
    "amazon arn aws az azure batchai batch.ai boto boto3 cloudwatch ebs ec2 ecs fargate fsx gcloud gcp iam microsoft "
    "moto parallelcluster pcluster s3 sagemaker sbatch scontrol slurm squeue srun"
)
NAME = re.compile(rf"(?i)(?<![a-z])(?:{'|'.join(NAMES.split())})(?![a-z])")
# By file: the names that it may have, and why.
EXCEPTIONS = {
    "diagnostics/secret_values.py": (
        "arn aws azure",
        "a key of any service is secret, whoever runs the job",
    ),
    "state/downloads.py": ("ec2", "an address from which no file may be downloaded"),
    "load/ignore.py": ("aws azure boto gcloud", "so are the files in which tools keep such keys"),
    "spec/model.py": ("slurm srun", "descriptions of fields in the reference of specs"),
    "spec/models/container.py": ("parallelcluster slurm", "descriptions of fields"),
    "spec/models/files.py": ("aws az azure s3", "stores of other owners as sources"),
    "spec/models/retry.py": ("aws parallelcluster slurm", "descriptions of fields"),
    "spec/rules.py": ("srun", "a value of the field launch"),
    "spec/metric_rules.py": ("srun", "a value of the field launch"),
    "api/profiles.py": ("aws", "an example in a hint"),
    "cli/commands/verbs.py": ("sbatch squeue", "commands that people type by habit"),
    "cli/doctor.py": ("aws", "an example in a hint"),
    "cli/json_formats/accounts.py": ("ec2", "an example in the description of a field"),
}


def read_code(source: str) -> Iterator[str]:
    """Yield the identifiers of *source*, with spaces between their words, and its strings that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield node.value
            continue
        for field in ("id", "attr", "name", "arg", "asname", "module"):
            identifier = getattr(node, field, None)
            if isinstance(identifier, str):
                yield split_words(identifier)


def split_words(identifier: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", identifier).replace("_", " ")


def find_names(texts: Iterable[str]) -> set[str]:
    return {name.lower() for text in texts for name in NAME.findall(text)}


def test_the_core_names_no_service_outside_of_the_exceptions() -> None:
    """The contract tests in `testing` are for providers, and name whatever they need."""
    found = {}
    for file in CORE.rglob("*.py"):
        path, source = file.relative_to(CORE), file.read_text()
        if not NAME.search(split_words(f"{path}\n{source}")):
            continue  # without the time that parsing takes
        texts = [split_words(str(path)), *read_code(source)]
        names = find_names(texts)
        if names and path.parts[0] != "testing":
            found[str(path)] = names

    assert found == {path: set(names.split()) for path, (names, _) in EXCEPTIONS.items()}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def lost_from_batch_ai(): ...", {"batch ai"}),
        ("from a import ec2_catalogue", {"ec2"}),
        ("import a as AwsPrices", {"aws"}),
        ("x.queue_on_slurm(cpus=2)", {"slurm"}),
        ("f(fargate=True)", {"fargate"}),
        ("x = f'{y} on Azure'", {"azure"}),
        ("x = 'AZ_BATCHAI_TASK_INDEX'", {"az", "batchai"}),
        ("draws, flaws, dazed = 'laws'", set()),
        ('"""As on AWS."""\n# as on AWS', set()),
    ],
)
def test_names_of_services_are_found_in_code_and_not_in_prose(source: str, names: set[str]) -> None:
    assert find_names(read_code(source)) == names
