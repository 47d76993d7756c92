"""A stranger's checkout is data: what only the user may set counts in no job file, and in no profile not trusted."""

from __future__ import annotations

import json
import os
import shlex
import stat
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import Untrusted, UsageError
from runspec_jobs.provider import paths
from runspec_jobs.state import run_record

HEAD = "apiVersion: runspec/v1\nname: job\n"
LOCAL = HEAD + "provider: local\n"
SLURM = HEAD + "provider: slurm\ncommand: [echo]\n"
REFUSED = UsageError.exit_code
NOT_TRUSTED = Untrusted.exit_code


class Checkout:
    """A folder that a stranger wrote, and the file that shows whether something of it was run."""

    def __init__(self, folder: Path, mark: Path) -> None:
        self.folder, self.mark = folder, mark
        self.profile = folder / paths.PROFILE

    def spec(self, text: str) -> str:
        (self.folder / "job.yaml").write_text(text)
        return str(self.folder / "job.yaml")

    def program(self, name: str) -> Path:
        """Write a program that leaves the mark."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(self.mark))}\nexit 1\n")
        path.chmod(0o755)
        return path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return Checkout(folder, tmp_path / "was-run")


# A job file sets nothing that is the user's.


def test_no_ssh_option_of_a_job_file_runs_a_command(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    trap = checkout.program("trap")
    own = f"providers: {{slurm: {{host: nowhere.invalid, ssh_options: ['ProxyCommand={trap}']}}}}\n"

    assert run(["plan", checkout.spec(SLURM + own)]) == REFUSED

    assert not checkout.mark.exists()
    said = capsys.readouterr().err
    assert "job.yaml:5:44: providers.slurm.ssh_options: 'ssh_options' belongs to a profile" in said
    assert f"move it to {paths.PROFILE} or ~/.config/runspec/profile.yaml" in said


def test_no_interpreter_of_a_job_file_is_run(checkout: Checkout) -> None:
    text = LOCAL + "container: {requirements: [six]}\ncommand: [echo]\n"
    own = f"providers: {{local: {{python: {checkout.program('python3')}}}}}\n"

    assert run(["plan", checkout.spec(text + own)]) == REFUSED

    assert not checkout.mark.exists()


@pytest.mark.parametrize("verb", ["validate", "plan", "apply"])
@pytest.mark.parametrize(
    "provider,setting",
    [
        ("azure-batch", "arm_url: 'https://stranger.example'"),
        ("azure-batch", "batch_url: 'https://stranger.example'"),
        ("azure-batch-ai", "arm_url: 'https://stranger.example'"),
        ("aws-batch", "account_profile: stranger"),
        ("local", "secrets: {x: 'file:~/.ssh/id_rsa'}"),
        ("slurm", "sbatch: [--container-mounts=/]"),
    ],
)
def test_no_verb_takes_settings_of_the_user_from_a_job_file(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], verb: str, provider: str, setting: str
) -> None:
    text = (
        f"{HEAD}provider: {provider}\ncommand: [echo]\nproviders:\n  {provider}:\n    {setting}\n"
    )

    assert run([verb, checkout.spec(text)]) == REFUSED

    name = setting.partition(":")[0]
    said = capsys.readouterr().err
    assert f"job.yaml:7:5: providers.{provider}.{name}: '{name}' belongs to a profile" in said


@pytest.mark.parametrize(
    "setting,where",
    [
        ("queues: {main: {ami: ami-12345678, efa: true}}", "queues.main.ami"),
        ("pools: {night: {queue: main, ssh_key: /k}}", "pools.night.ssh_key"),
    ],
)
def test_such_a_setting_is_found_within_others(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], setting: str, where: str
) -> None:
    text = f"{HEAD}provider: parallelcluster\ncommand: [echo]\nproviders: {{parallelcluster: {{{setting}}}}}\n"

    assert run(["validate", checkout.spec(text)]) == REFUSED

    said = capsys.readouterr().err
    assert f"providers.parallelcluster.{where}: '{where.rpartition('.')[2]}' belongs to" in said


# A profile of a checkout sets it once it is trusted.


@pytest.fixture
def ssh(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever starts `ssh` leave the mark."""
    folder = checkout.program("programs/ssh").parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_no_host_of_a_profile_beside_a_job_is_asked(
    checkout: Checkout, ssh: None, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "{host: stranger.example, ssh_options: [IdentityFile=~/.ssh/id_rsa]}"
    checkout.profile.write_text(f"providers: {{slurm: {own}}}\n")

    assert run(["plan", checkout.spec(SLURM)]) == NOT_TRUSTED

    assert not checkout.mark.exists()
    said = capsys.readouterr().err
    assert f"{checkout.profile}:1:21: providers.slurm.host: 'host' and 'ssh_options' count" in said
    assert f"runspec trust {checkout.profile}" in said


def test_no_file_of_the_user_becomes_a_secret_of_a_job(checkout: Checkout) -> None:
    key = Path.home() / ".ssh" / "id_rsa"
    key.parent.mkdir()
    key.write_text("the key of the user")
    checkout.profile.write_text("providers: {local: {secrets: {x: 'file:~/.ssh/id_rsa'}}}\n")
    spec = checkout.spec(LOCAL + f"secrets: {{X: x}}\nrun: printf %s $X >{checkout.mark}\n")

    assert run(["apply", spec]) == NOT_TRUSTED

    assert not checkout.mark.exists()
    assert run_record.list_all() == []


@pytest.mark.parametrize(
    "words", [["plan"], ["apply"], ["rehearse"], ["policy"], ["plan", "--json"]]
)
def test_every_verb_with_a_job_asks_for_trust(checkout: Checkout, words: list[str]) -> None:
    checkout.profile.write_text("providers: {aws-batch: {bucket: strangers-bucket}}\n")
    spec = checkout.spec(HEAD + "provider: aws-batch\ncommand: [echo]\n")

    assert run([*words, spec]) == NOT_TRUSTED


def test_an_option_of_ssh_that_runs_a_command_is_refused_in_a_trusted_profile_before_ssh_is_started(
    checkout: Checkout, ssh: None, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "{host: stranger.example, ssh_options: [Port=22, 'ProxyCommand=touch /x']}"
    checkout.profile.write_text(f"providers: {{slurm: {own}}}\n")
    run(["trust"])

    assert run(["plan", checkout.spec(SLURM)]) == REFUSED

    assert not checkout.mark.exists()
    assert "ssh_options[1]: ProxyCommand cannot be set in a profile" in capsys.readouterr().err


def test_a_job_that_cannot_be_is_refused_before_a_survey(checkout: Checkout, ssh: None) -> None:
    checkout.profile.write_text("providers: {slurm: {host: stranger.example}}\n")
    run(["trust"])

    assert run(["plan", checkout.spec(SLURM + "env: {SLURM_JOB_ID: '1'}\n")]) == REFUSED

    assert not checkout.mark.exists()


@pytest.mark.parametrize("words", [["doctor", "slurm"], ["gc", "slurm"], ["list", "--remote"]])
def test_verbs_without_a_job_ask_for_trust(
    checkout: Checkout, ssh: None, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    checkout.profile.write_text("providers: {slurm: {host: stranger.example}}\n")

    assert run(words) == NOT_TRUSTED

    assert not checkout.mark.exists()
    said = capsys.readouterr()
    assert f"runspec trust {checkout.profile}" in said.err + said.out


def test_a_profile_that_only_chooses_needs_no_trust(checkout: Checkout) -> None:
    checkout.profile.write_text("providers: {local: {grace: 3s}, slurm: {host: nowhere.invalid}}\n")

    assert run(["plan", checkout.spec(LOCAL + "command: [echo]\n")]) == 0


def test_settings_in_a_pool_need_trust_as_well(checkout: Checkout) -> None:
    checkout.profile.write_text("providers: {slurm: {pools: {night: {host: nowhere.invalid}}}}\n")

    assert run(["plan", checkout.spec(SLURM)]) == NOT_TRUSTED


def test_a_trusted_profile_counts_until_a_byte_of_it_changes(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.profile.write_text("providers: {local: {root: ~/elsewhere}}\n")
    spec = checkout.spec(LOCAL + "command: [echo]\n")

    assert run(["trust", str(checkout.profile)]) == 0
    assert run(["plan", spec]) == 0
    with checkout.profile.open("a") as file:
        file.write("#\n")
    capsys.readouterr()

    assert run(["plan", spec]) == NOT_TRUSTED
    assert "it has changed since" in capsys.readouterr().err


def test_trust_is_of_one_place(checkout: Checkout, tmp_path: Path) -> None:
    """Equal bytes elsewhere, and a link to the file that is trusted, are not."""
    text = "providers: {local: {root: ~/elsewhere}}\n"
    mine = tmp_path / "mine" / paths.PROFILE
    mine.parent.mkdir()
    mine.write_text(text)
    spec = checkout.spec(LOCAL + "command: [echo]\n")
    assert run(["trust", str(mine)]) == 0

    checkout.profile.write_text(text)
    assert run(["plan", spec]) == NOT_TRUSTED
    checkout.profile.unlink()
    checkout.profile.symlink_to(mine)
    assert run(["plan", spec]) == NOT_TRUSTED


def test_the_file_that_the_user_names_and_that_of_the_own_folder_are_trusted(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = checkout.spec(LOCAL + "command: [echo]\n")
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "runspec" / "profile.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("providers: {local: {root: ~/elsewhere}}\n")

    assert run(["plan", spec]) == 0
    checkout.profile.write_text(own.read_text())
    assert run(["plan", spec]) == NOT_TRUSTED
    monkeypatch.setenv("RUNSPEC_PROFILE", str(checkout.profile))
    assert run(["plan", spec]) == 0


def test_validate_needs_no_trust_and_does_not_read_the_profile(checkout: Checkout) -> None:
    os.mkfifo(checkout.profile)  # whoever opens it waits for ever

    assert run(["validate", checkout.spec(LOCAL + "command: [echo]\n")]) == 0


def test_trusted_profiles_are_listed_and_revoked(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.profile.write_text("providers: {local: {root: ~/elsewhere}}\n")
    spec = checkout.spec(LOCAL + "command: [echo]\n")

    assert run(["trust"]) == 0  # the one that counts here
    capsys.readouterr()
    assert run(["trust", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["files"]
    assert run(["trust", "--remove", paths.PROFILE]) == 0
    assert run(["plan", spec]) == NOT_TRUSTED

    assert listed == [{"file": str(checkout.profile), "trusted": True}]
    assert run(["trust", "--remove", paths.PROFILE]) == REFUSED


def test_trust_says_what_it_lets_the_file_set(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.profile.write_text("providers: {local: {root: ~/elsewhere, grace: 3s}, other: {}}\n")

    assert run(["trust"]) == 0

    said = capsys.readouterr().err
    assert "local: root" in said and "grace" not in said


def test_the_list_of_trusted_profiles_is_private(checkout: Checkout) -> None:
    checkout.profile.write_text("providers: {local: {root: ~/elsewhere}}\n")
    run(["trust"])

    path = paths.find_home() / "trusted.json"

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "elsewhere" not in path.read_text()


def test_a_damaged_list_trusts_nothing(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.profile.write_text("providers: {local: {root: ~/elsewhere}}\n")
    run(["trust"])
    path = paths.find_home() / "trusted.json"
    path.write_text("{")

    assert run(["plan", checkout.spec(LOCAL + "command: [echo]\n")]) == REFUSED
    assert str(path) in capsys.readouterr().err


def test_an_invalid_profile_cannot_be_trusted(checkout: Checkout) -> None:
    checkout.profile.write_text("providers: [\n")

    assert run(["trust"]) == REFUSED
    assert not (paths.find_home() / "trusted.json").exists()


def test_trust_without_a_file_to_trust_says_so(checkout: Checkout) -> None:
    assert run(["trust"]) == REFUSED


def test_init_trusts_what_it_writes(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--provider", "slurm"]) == 0
    capsys.readouterr()

    assert run(["trust", "--list", "--json"]) == 0

    listed = json.loads(capsys.readouterr().out)["files"]
    assert listed == [{"file": str(checkout.profile), "trusted": True}]


def test_import_does_not_trust_what_it_writes(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its settings are those of a file that may be a stranger's."""
    (checkout.folder / "their.json").write_text(
        '{"properties": {"nodeCount": 1, "customToolkitSettings": {"commandLine": "echo"}}}'
    )
    assert run(["import", "their.json", "--to", "taken"]) == 0
    capsys.readouterr()

    run(["trust", "--list", "--json"])

    assert json.loads(capsys.readouterr().out)["files"] == []


@pytest.mark.process
def test_apply_names_the_profile_that_it_used(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.profile.write_text("providers: {local: {engine: process}}\n")

    assert run(["apply", checkout.spec(LOCAL + "run: echo\n")]) == 0

    assert f"profile {checkout.profile}" in capsys.readouterr().err
    facts = json.loads((run_record.list_all()[0].folder / "facts.json").read_bytes())
    assert facts["profile"] == str(checkout.profile)
