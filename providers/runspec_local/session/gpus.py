"""The GPUs of this machine, and their names for CUDA and for container engines. Standard library only.

An instance of a GPU that is divided (MIG) counts as a GPU, because CUDA does not use such a GPU as a whole:
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from runspec_agent.base.light_typing import TYPE_CHECKING, NamedTuple
from runspec_local.naming import VISIBLE

if TYPE_CHECKING:
    import subprocess

HIDDEN = {VISIBLE: ""}  # CUDA finds no GPU
LIST = ("nvidia-smi", "-L")
# https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
MODES = ("nvidia-smi", "--query-gpu=index,mig.mode.current", "--format=csv,noheader")
ANSWER_S = (
    60.0  # without its persistence mode, the driver is first loaded, for seconds for each GPU
)
DEVICES = Path("/dev")
# Where container engines look for CDI specifications:
# https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html
CDI = (Path("/etc/cdi"), Path("/var/run/cdi"))
WHOLE = r"GPU (\d+): .*\(UUID: (GPU-[\w-]+)\)"
INSTANCE = r"\s+MIG .*Device\s+(\d+): \(UUID: (MIG-[\w/-]+)\)"
ENABLED = r"\d+, *Enabled *"
CDI_NAME = r"\bname[\"']?\s*:\s*[\"']?(\d+(?::\d+)?|(?:GPU|MIG)-[\w/-]+)\b"


class Gpu(NamedTuple):
    """A GPU or an instance of one. *index* is `0`, or `0:1` for instance 1 of GPU 0, as nvidia-smi counts them.

    *uuid* is empty if it is unknown.
    """

    index: str  # type: ignore[assignment]  # a GPU is never searched, as tuples are by their `index`
    uuid: str = ""

    @property
    def is_instance(self) -> bool:
        return ":" in self.index

    @property
    def name(self) -> str:
        return self.uuid or self.index

    def cdi(self, names: Iterable[str]) -> str:
        """Return its name for podman; specifications of old versions of the toolkit have indices only."""
        name = self.uuid if self.uuid in names else self.index
        return f"nvidia.com/gpu={name}"


class Found(NamedTuple):
    """The GPUs that a job may use, and how they were found."""

    gpus: tuple[Gpu, ...]
    how: str


def find(env: Mapping[str, str], cdi: Sequence[Path] = CDI, devices: Path = DEVICES) -> Found:
    """Return the GPUs that are here, without those that CUDA_VISIBLE_DEVICES of *env* hides."""
    gpus, how = _all(cdi, devices)
    if VISIBLE not in env:
        return Found(gpus, how)
    return Found(visible(gpus, env[VISIBLE]), f"{how}; {VISIBLE} is '{env[VISIBLE]}'")


def _all(cdi: Sequence[Path], devices: Path) -> Found:
    try:
        done = _said(LIST)
    except TimeoutError:
        return Found((), f"nvidia-smi did not answer in {ANSWER_S:.0f} s")
    except OSError:  # nvidia-smi is not installed; containers may use GPUs all the same
        return _without_driver_tool(cdi, devices)
    gpus = tuple(listed(done.stdout))
    if done.returncode and not gpus:
        said = (done.stdout + done.stderr).strip().partition("\n")[0]
        return Found((), f"nvidia-smi failed: {said or f'exit code {done.returncode}'}")
    unusable = _without_instances(gpus)
    how = "according to nvidia-smi"
    if unusable:
        names = " and ".join(gpu.index for gpu in unusable)
        how += f", without those that are divided (MIG) and have no instance: {names}"
    return Found(tuple(gpu for gpu in gpus if gpu not in unusable), how)


def _said(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Raises TimeoutError if it does not answer, and another OSError if it is not here."""
    import subprocess  # slow to import, and most jobs ask for no GPU

    try:
        return subprocess.run(
            argv, capture_output=True, cwd="/", text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise TimeoutError(str(exc)) from exc


def _without_instances(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the whole GPUs of *gpus* that MIG divides: they have no instance, and CUDA does not use them."""
    whole = [gpu for gpu in gpus if not gpu.is_instance]
    try:
        modes = _said(MODES).stdout if whole else ""
    except OSError:  # nvidia-smi is not installed, and so no GPU was listed by it
        return []
    divided = {line.partition(",")[0] for line in modes.splitlines() if re.fullmatch(ENABLED, line)}
    return [gpu for gpu in whole if gpu.index in divided]


def _without_driver_tool(cdi: Sequence[Path], devices: Path) -> Found:
    """Return the GPUs by CDI specifications, or by device files, whose numbers are the indices of whole GPUs."""
    names = cdi_names(cdi)
    numbered = [name for name in names if name[0].isdecimal()]
    if names:
        gpus = [Gpu(name) for name in numbered] or [Gpu(name, name) for name in names]
        return Found(tuple(gpus), "according to the CDI specification, without nvidia-smi")
    numbers = device_files(devices)
    return Found(tuple(Gpu(str(n)) for n in numbers), f"according to {devices}, without nvidia-smi")


def device_files(devices: Path = DEVICES) -> list[int]:
    """Return the numbers of the device files of GPUs."""
    names = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return sorted(int(name) for name in names if name.isdecimal())


def listed(text: str) -> Iterator[Gpu]:
    """Yield the GPUs in the output of `nvidia-smi -L`.

    >>> list(listed("GPU 0: NVIDIA A100 (UUID: GPU-1)\\n  MIG 1g.5gb  Device  0: (UUID: MIG-2)"))
    [Gpu(index='0:0', uuid='MIG-2')]
    """
    whole: Gpu | None = None
    number = ""
    for line in text.splitlines():
        if match := re.match(WHOLE, line):
            if whole:
                yield whole
            whole, number = Gpu(match[1], match[2]), match[1]
        elif match := re.match(INSTANCE, line):
            yield Gpu(f"{number}:{match[1]}", match[2])
            whole = None
    if whole:
        yield whole


def cdi_names(folders: Sequence[Path] = CDI) -> tuple[str, ...]:
    """Return the names of GPUs in CDI specifications, which are YAML or JSON; both write `name: "0"`."""
    names: dict[str, None] = {}
    for folder in folders:
        for path in sorted(folder.glob("*")):
            try:
                text = path.read_text(errors="replace")
            except OSError:  # a folder, or a file that only root can read
                continue
            if path.suffix in (".yaml", ".json") and "nvidia.com/gpu" in text:
                names |= dict.fromkeys(re.findall(CDI_NAME, text))
    return tuple(names)


def visible(gpus: Sequence[Gpu], value: str) -> tuple[Gpu, ...]:
    """Return the GPUs of *gpus* that *value* of CUDA_VISIBLE_DEVICES names; the list ends at a name that none has.

    An index is read as nvidia-smi counts, and that of a divided GPU means all its instances.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars

    >>> visible([Gpu("0", "GPU-a1"), Gpu("1", "GPU-b2"), Gpu("2", "GPU-c3")], "2,GPU-a,-1,1")
    (Gpu(index='2', uuid='GPU-c3'), Gpu(index='0', uuid='GPU-a1'))
    """
    chosen: dict[Gpu, None] = {}
    for word in map(str.strip, value.split(",")):
        named = [gpu for gpu in gpus if _is_named(gpu, word)]
        if not named:
            break
        chosen |= dict.fromkeys(named)
    return tuple(chosen)


def _is_named(gpu: Gpu, word: str) -> bool:
    if word.isdecimal():
        return gpu.index.partition(":")[0] == word
    return bool(word) and gpu.uuid.startswith(word)


def variables(gpus: Sequence[Gpu], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make CUDA use *gpus* only, unless *env* has them.

    Whole GPUs are named by index, because programs such as vLLM cannot read UUIDs there
    (https://github.com/vllm-project/vllm/issues/13815); CUDA counts as nvidia-smi does with
    CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if "CUDA_DEVICE_ORDER" in env or any(gpu.is_instance for gpu in gpus):
        return {VISIBLE: ",".join(gpu.name for gpu in gpus)}
    return {**order, VISIBLE: ",".join(gpu.index for gpu in gpus)}


def options(gpus: Sequence[Gpu], engine: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the options that give *gpus* to a container. Docker reads the value as CSV, so commas need quotes."""
    if engine == "docker":
        return [("--gpus", f'"device={",".join(gpu.name for gpu in gpus)}"')]
    return [("--device", gpu.cdi(names)) for gpu in gpus]
