"""`runspec init train.py`: what the text of a program says, and the spec that it gets."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError
from runspec_jobs.first.program import read_program
from tests.e2e.test_slurm_nodes import TORCHRUN
from tests.support.terminal import Terminal

Capture = pytest.CaptureFixture[str]
GPU = "shutil.which"
MAKES_PATHS = """
from pathlib import Path as P

P("data").exists()
P("results").mkdir(exist_ok=True)
(P("results") / "a").mkdir()
P("results/a/x").write_text(P("in").read_text())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project in a machine without a GPU."""
    made = tmp_path / "digits"
    made.mkdir()
    monkeypatch.chdir(made)
    which = shutil.which
    monkeypatch.setattr(GPU, lambda n, *a, **k: None if n == "nvidia-smi" else which(n, *a, **k))
    return made


def make(text: str, name: str = "train.py") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def init(*words: str) -> dict[str, Any]:
    assert run(["init", *words]) == 0
    assert run(["validate", "--quiet", "job.yaml"]) == 0
    spec: dict[str, Any] = yaml.safe_load(Path("job.yaml").read_text())
    return spec


def test_imports_of_a_program_and_of_its_own_modules_are_its_requirements() -> None:
    make("import sys\nfrom net.layers import Net\nimport numpy as np\nfrom . import aside\n")
    make("", "net/__init__.py")
    make("import PIL.Image\nfrom sklearn import svm\n", "net/layers.py")
    make("import unused\n", "other.py")

    assert init("train.py")["container"] == {"requirements": ["numpy", "pillow", "scikit-learn"]}


def test_imports_for_type_checkers_are_no_requirements() -> None:
    make("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas\nimport yaml\n")

    assert init("train.py")["container"] == {"requirements": ["pyyaml"]}


@pytest.mark.parametrize(
    ("files", "requirements"),
    [
        ({"requirements.txt": "numpy==2\n", "pyproject.toml": ""}, "requirements.txt"),
        (
            {"pyproject.toml": '[project]\ndependencies = ["numpy>=2", "scipy"]\n'},
            ["numpy>=2", "scipy"],
        ),
        ({"pyproject.toml": "[tool.black]\n"}, ["torch"]),
        ({"pyproject.toml": "[[[\n"}, ["torch"]),
        ({"pyproject.toml": "project = 3\n"}, ["torch"]),
    ],
)
def test_requirements_of_the_project_come_before_imports(
    files: dict[str, str], requirements: object
) -> None:
    make("import torch\n")
    for name, text in files.items():
        make(text, name)

    assert init("train.py")["container"] == {"requirements": requirements}


@pytest.mark.parametrize(
    ("text", "launch"),
    [
        ("import torch\ntorch.distributed.init_process_group('gloo')\n", "torchrun"),
        ("import os\nrank = os.environ['LOCAL_RANK']\n", "torchrun"),
        ("from mpi4py import MPI\n", "mpi"),
        ("import chainermn\n", "mpi"),
        ("import horovod.tensorflow.keras as hvd\n", "horovod"),
        ("import torch\n", None),
    ],
)
def test_launch_follows_from_what_a_program_uses(text: str, launch: str | None) -> None:
    make(text)

    assert init("train.py").get("launch") == launch


def test_a_gpu_is_asked_for_where_the_machine_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    make("import torch\n")
    without = init("train.py")
    text = Path("job.yaml").read_text()
    monkeypatch.setattr(GPU, lambda *a, **k: "/usr/bin/nvidia-smi")
    Path("job.yaml").unlink()

    assert "gpus" not in without["cluster"] and "# gpus: 1 " in text
    assert init("train.py")["cluster"]["gpus"] == 1


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("p.add_argument('--lr')\np.add_argument('-o', '--output-dir')", "--output-dir"),
        ("p.add_argument('--log-dir')\np.add_argument('--out')", "--out"),
        ("parser = HfArgumentParser(TrainingArguments)", "--output_dir"),
        ("@click.option('--save_dir', default='x')\ndef main(): pass", "--save_dir"),
    ],
)
def test_an_option_for_results_gets_the_output(text: str, command: str) -> None:
    make(text)

    code = ["python3", "${mounts.code}/train.py"]
    assert init("train.py")["command"] == [*code, command, "${outputs.results}"]


@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.makedirs('results/a', exist_ok=True)\nopen('results/a/x', 'w').write('1')",
        MAKES_PATHS,
    ],
)
def test_a_folder_that_a_program_makes_is_saved(text: str, folder: Path, capsys: Capture) -> None:
    make(text)
    make("1", "in")
    make("kept", "results/old")

    init("train.py")

    assert run(["apply", "job.yaml"]) == 0
    assert run(["fetch", "digits", "got"]) == 0
    assert Path("got/results/a/x").read_text() == "1"
    assert Path("results/old").read_text() == "kept"


@pytest.mark.process
@pytest.mark.parametrize("makes", ["os.makedirs('made', exist_ok=True)\nat = 'made/'", "at = ''"])
def test_files_of_every_process_of_a_launcher_are_saved(
    makes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchrun").write_text(TORCHRUN)
    (tmp_path / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    make(
        f"import os\n{makes}\nopen(at + os.environ['RANK'], 'w').write(os.environ['LOCAL_RANK'])\n"
    )

    init("train.py")

    assert run(["apply", "job.yaml", "--set", "processes_per_node=2"]) == 0
    assert run(["fetch", "digits", "got"]) == 0
    assert sorted(path.name for path in Path("got/results").iterdir()) == ["0", "1"]


@pytest.mark.process
def test_files_in_the_current_folder_are_saved() -> None:
    make("open('model.txt', 'w').write('weights')\n")

    init("train.py")

    assert run(["apply", "job.yaml"]) == 0
    assert run(["fetch", "digits", "got"]) == 0
    assert Path("got/results/model.txt").read_text() == "weights"


@pytest.mark.process
@pytest.mark.parametrize("name", ["my prog's $x.py", "src/train.py", "-train.py", "run it.sh"])
def test_a_program_of_any_name_runs(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    make("print('ran')\n" if name.endswith(".py") else "echo ran\n", name)

    init("--to", "job.yaml", f"./{name}")

    assert run(["apply", "job.yaml"]) == 0
    assert capfd.readouterr().out == "ran\n"


@pytest.mark.process
def test_a_program_elsewhere_is_mounted_from_its_folder(tmp_path: Path, capfd: Any) -> None:
    make("import beside\nprint('ran')\n", "../elsewhere/train.py")
    make("", "../elsewhere/beside.py")

    spec = init("../elsewhere/train.py")

    assert spec["mounts"][0]["source"] == "../elsewhere"
    assert run(["apply", "job.yaml"]) == 0
    assert capfd.readouterr().out == "ran\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "train.py:1 is not valid Python"),
        ("a\0b", "is no program"),
        (None, "cannot read train.py: no such file"),
        ("(" * 100_000, "is not valid Python"),
    ],
)
def test_a_program_that_cannot_be_read_is_refused(
    text: str | None, said: str, capsys: Capture
) -> None:
    if text is not None:
        make(text)

    assert run(["init", "train.py"]) == 2
    assert said in capsys.readouterr().err
    assert not Path("job.yaml").exists()


def test_a_spec_that_is_there_is_kept(capsys: Capture) -> None:
    make("print()\n")
    make("mine\n", "job.yaml")

    assert run(["init", "train.py"]) == 4
    assert "runspec init train.py --to" in capsys.readouterr().err
    assert Path("job.yaml").read_text() == "mine\n"
    assert run(["init", "train.py", "--to", "other.yaml"]) == 0


def test_to_without_a_program_is_refused(capsys: Capture) -> None:
    assert run(["init", "one.yaml", "--to", "two.yaml"]) == 2
    assert "--to is for a program" in capsys.readouterr().err


def test_nothing_of_a_program_is_run() -> None:
    make("open('ran', 'w')\n")
    make("open('ran', 'w')\n", "sitecustomize.py")

    read_program(Path("train.py"))

    assert not Path("ran").exists()


def test_modules_that_import_each_other_are_each_read_once() -> None:
    make("import a\n")
    make("import b\n", "a.py")
    make("import a, numpy, broken\n", "b.py")
    make("def (:\n", "broken.py")

    assert read_program(Path("train.py")).imports == ("numpy",)


def test_a_text_that_is_no_program_is_refused() -> None:
    make("x" * 3_000_000)

    with pytest.raises(UsageError):
        read_program(Path("train.py"))


@pytest.mark.process
def test_a_person_is_asked_for_the_folder_of_results() -> None:
    make("open('results/model.txt', 'w').write('1')\n")

    terminal = Terminal("init", "train.py")
    terminal.until("writes its results to")
    terminal.type("results\n")

    assert terminal.code() == 0
    assert 'ln -s "${outputs.results}" results' in Path("job.yaml").read_text()
