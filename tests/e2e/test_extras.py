"""What an installation without extras says: every verb names the extra to install, and none calls it a bug."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import errors
from tests.support.root import ROOT
from tests.unit.specs import batch_ai, parallel_clusters
from tests.unit.specs.test_plans import AWS, AZURE

pytestmark = pytest.mark.slow

PROVIDERS: dict[str, dict[str, Any]] = {
    "aws-batch": AWS,
    "azure-batch": AZURE,
    "azure-batch-ai": {**batch_ai.PROFILE, "secrets": {"storage-key": "env:STORAGE_KEY"}},
    "slurm": {},
    "parallelcluster": parallel_clusters.PROFILE,
    "local": {"engine": "process"},
}
EXTRAS = {"aws-batch": "aws", "azure-batch": "azure", "azure-batch-ai": "azure"}
HEAD = """\
apiVersion: runspec/v1
name: {name}
provider: {name}
"""
SPEC = f"""{HEAD}\
container: {{{{image: docker.io/library/busybox:1}}}}
metric: {{{{name: loss, goal: min, pattern: 'loss ([0-9.]+)'}}}}
outputs: [{{{{name: out, path: /job/out}}}}]
command: [echo, hi]
"""
# Words of the command line: FILE is the spec, and NAME the provider, which the run has its name of.
CONNECTING = (
    "apply FILE",
    "apply -d FILE",
    "rehearse FILE",
    "status NAME",
    "logs NAME",
    "fetch NAME fetched",
    "report NAME",
    "cancel NAME",
    "destroy NAME",
    "gc NAME",
    "doctor NAME",
    "doctor",
)
OTHERS = (
    "init new-NAME.yaml",
    "validate FILE",
    "plan FILE",
    "policy FILE",
    "list",
    "shell NAME",
    "tunnel NAME 8888",
    "providers",
    "schema",
    "completion bash",
)
# Runs in the installation: puts a run on record as if its apply had ended, and calls each verb, all in one process.
PROGRAM = """\
import contextlib, io, json, os, sys
from pathlib import Path
from runspec_jobs.load import registry, source
from runspec_jobs.plan.model import Plan
from runspec_jobs.spec import validate
from runspec_jobs.state import run_record
from runspec_jobs.cli.app import run
from runspec_jobs.provider import Facts, Request, Scope, Step

def put_on_record(file):
    text = source.read_file(file)
    spec, _ = validate.parse_spec(text.document)
    profile = json.loads(Path(os.environ["RUNSPEC_PROFILE"]).read_text())
    model = registry.load(spec.provider).options_model
    facts = Facts(model.model_validate(profile["providers"][spec.provider]))
    step = Step("job", "start it", Scope.RUN, Request("batch", "submit_job", {}), None)
    made = Plan(spec.provider, spec.name + "-abc123", "sha256:0", (step,))
    with run_record.create(text.data, made, facts, file.parent, spec.name).open_journal() as journal:
        journal.add("begun", step="job")
        journal.add("done", step="job", answer={})

def said(words):
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = run(words)
    return [code, told.getvalue()]

found = {}
for name, verbs in json.load(sys.stdin).items():
    put_on_record(Path(name + ".yaml").absolute())
    for verb in verbs:
        words = verb.replace("FILE", name + ".yaml").replace("NAME", name).split()
        found[name + ": " + verb] = said(words)
json.dump(found, sys.stdout)
"""
Said = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with runspec's wheel and what it requires, without any extra."""
    folder = tmp_path_factory.mktemp("bare")
    uv, python = Path(sys.executable).with_name("uv"), folder / "venv" / "bin" / "python"
    build: list[str | Path] = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        folder,
    ]
    make: list[str | Path] = [uv, "venv", "-q", "--python", sys.executable, folder / "venv"]
    for command in (build, make):
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    install: list[str | Path] = [uv, "pip", "install", "-q", "-c", "constraints.txt"]
    install += ["--python", python, *folder.glob("*.whl")]
    subprocess.run(install, cwd=ROOT, check=True)
    return python


@pytest.fixture(scope="module")
def said(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Return the exit code and all that was printed of each verb with each provider."""
    folder = tmp_path_factory.mktemp("jobs")
    for name in PROVIDERS:
        (folder / f"{name}.yaml").write_text(SPEC.format(name=name))
    text = HEAD.format(name="local") + "container: {requirements: needs.txt}\ncommand: [echo]\n"
    (folder / "needing.yaml").write_text(text)
    (folder / "needs.txt").write_text("six\n")
    (folder / "profile.yaml").write_text(json.dumps({"providers": PROVIDERS}))
    env = {
        "PATH": f"{bare.parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "RUNSPEC_HOME": str(folder / "home"),
        "RUNSPEC_PROFILE": str(folder / "profile.yaml"),
    }
    cases = {name: [*OTHERS, *CONNECTING] for name in EXTRAS}
    cases |= {"slurm": [*OTHERS[:4]], "parallelcluster": [*OTHERS[:4]]}
    cases |= {"local": [*OTHERS[:4], "plan needing.yaml", "apply needing.yaml"]}
    done = subprocess.run(
        [bare, "-c", PROGRAM],
        cwd=folder,
        env=env,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: Said = json.loads(done.stdout)
    return found


def test_no_verb_takes_a_missing_extra_for_a_bug(said: Said) -> None:
    assert {case: text for case, (code, text) in said.items() if code == errors.Bug.exit_code} == {}


@pytest.mark.parametrize("provider,extra", EXTRAS.items())
def test_each_verb_that_connects_names_the_extra(said: Said, provider: str, extra: str) -> None:
    cases = {verb: said[f"{provider}: {verb}"] for verb in CONNECTING}
    if provider == "aws-batch":
        code, text = cases.pop("rehearse FILE")
        assert (code, "pip install 'runspec-jobs[rehearse]'" in text) == (69, True), text

    without = {
        verb: (code, text)
        for verb, (code, text) in cases.items()
        if code != 69 or f"pip install 'runspec-jobs[{extra}]'" not in text
    }
    assert without == {}


@pytest.mark.parametrize("verb", ["init new-NAME.yaml", "validate FILE", "plan FILE", "list"])
def test_commands_without_requests_work_without_the_extras(said: Said, verb: str) -> None:
    codes = {provider: said[f"{provider}: {verb}"][0] for provider in EXTRAS}

    assert codes == dict.fromkeys(EXTRAS, 0)


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_job_with_requirements_names_the_extra_of_local(said: Said, verb: str) -> None:
    code, text = said[f"local: {verb} needing.yaml"]

    assert (code, "pip install 'runspec-jobs[local]'" in text) == (69, True), text
