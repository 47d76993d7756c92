"""Job files of other tools are imported and run, and do what they did there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import Capture, calls

pytestmark = pytest.mark.slow
SCRIPT = 'echo "$AWS_BATCH_JOB_ARRAY_INDEX of $SIZE"; [ "$AWS_BATCH_JOB_ARRAY_INDEX" != 1 ]'
DEFINITION = {
    "jobDefinitionName": "count",
    "type": "container",
    "parameters": {"size": "3"},
    "timeout": {"attemptDurationSeconds": 300},
    "containerProperties": {
        "image": "public.ecr.aws/docker/library/python:3.11-slim",
        "command": ["sh", "-c", SCRIPT],
        "environment": [{"name": "SIZE", "value": "three"}],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
    },
}
SUBMISSION = {
    "jobName": "counted",
    "jobDefinition": "count",
    "arrayProperties": {"size": 3},
}


def test_an_imported_definition_runs_on_the_service_as_it_did(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Each task of the array prints its index, and the second fails."""
    (tmp_path / "definition.json").write_text(json.dumps(DEFINITION))
    (tmp_path / "submit.json").write_text(json.dumps(SUBMISSION))
    words = ["import", "definition.json", "--with", "submit.json", "--to", "imported"]
    assert run(words) == 0
    (tmp_path / "imported/runspec-profile.yaml").unlink()  # the test's own is that of the user
    capsys.readouterr()

    assert run(["apply", "imported/job.yaml"]) == 1

    printed = capsys.readouterr().out
    assert all(f"{index} of three" in printed for index in range(3))
    made = calls(region, "RegisterJobDefinition")[-1]["params"]
    assert calls(region, "SubmitJob")[-1]["params"]["arrayProperties"] == {"size": 3}
    needs = {
        need["type"]: need["value"] for need in made["containerProperties"]["resourceRequirements"]
    }
    assert needs == {"VCPU": "1", "MEMORY": "64"}


SKY = """\
name: ranks
num_nodes: 2
workdir: .
envs: {GREETING: two words}
secrets: {WORD: }
file_mounts: {~/extra: ./extra}
setup: |
  echo made > made-$SKYPILOT_SETUP_NODE_RANK
run: |
  false
  cat ~/extra/file made-$SKYPILOT_NODE_RANK
  ips=$(echo "$SKYPILOT_NODE_IPS" | wc -l)
  echo "$GREETING: $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES and $ips, ${#WORD}" | tee -a code.txt
"""


def test_an_imported_task_of_skypilot_runs_on_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Setup has run first, in the folder of the task, which scripts write to while the user's own stays as it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORD", "seven77")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/file").write_text("extra\n")
    (tmp_path / "code.txt").write_text("code\n")
    (tmp_path / "task.txt").write_text(SKY)
    assert run(["import", "task.txt", "--to", "."]) == 0
    capsys.readouterr()

    assert run(["apply", "job.yaml"]) == 0

    printed = capsys.readouterr().out
    for rank in range(2):
        assert f"two words: {rank} of 2 and 2, 7" in printed
    assert printed.count("extra") == printed.count("made") == 2
    assert (tmp_path / "code.txt").read_text() == "code\n"


KUBE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {greeting.txt: hello}
---
apiVersion: batch/v1
kind: Job
metadata: {name: shards}
spec:
  completions: 3
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 3
  podFailurePolicy:
    rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: docker.io/library/python:3.11-slim
          command: [sh, -c]
          args:
            - |
              echo "$(GREETING) $JOB_COMPLETION_INDEX: $(cat "$RUNSPEC_MOUNT_WORDS/greeting.txt")"
              false
              [ "$JOB_COMPLETION_INDEX" != 2 ] || exit 42
          env: [{name: GREETING, value: index}]
          volumeMounts: [{name: words, mountPath: /job/words}]
      volumes: [{name: words, configMap: {name: words}}]
"""


def test_an_imported_job_of_kubernetes_runs_each_index_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The policy of failures ends the third index after its first attempt."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "whatever").write_text(KUBE)
    assert run(["import", "whatever", "--to", "imported", "--provider", "local"]) == 0
    capsys.readouterr()

    words = ["--set", "providers.local.engine=process"]
    assert run(["apply", "imported/job.yaml", *words]) == 1

    printed = capsys.readouterr().out
    assert [printed.count(f"index {index}: hello") for index in range(3)] == [1, 1, 1]
