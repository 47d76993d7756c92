"""`gpus COUNT -- WORD...`: check that this node's GPUs answer before a smoke test starts its program."""

import os
import re
import subprocess
import sys
from typing import List, Mapping, Optional, Set

from runspec_agent.base.job_env import Failure, current

SILENT = 69  # EX_UNAVAILABLE of sysexits.h
ANSWER_S = 120.0  # without its persistence mode, the driver first starts each GPU
LIST = ["nvidia-smi", "-L"]
QUERY = [
    "nvidia-smi",
    "--query-gpu=index,name,memory.total,temperature.gpu",
    "--format=csv,noheader",
]
WHOLE = re.compile(r"GPU (\d+): (.*) \(UUID: ([\w-]+)\)")
INSTANCE = re.compile(r"\s+MIG .*\(UUID: ([\w/-]+)\)")
# What a field may say without a fault of the GPU; a lost one says "[GPU is lost]" or "[Unknown Error]".
FINE = ("[N/A]", "[Not Supported]", "[Insufficient Permissions]")


def main(argv: List[str]) -> int:
    """Check the GPUs, and then replace this process by WORD..."""
    check(int(argv[0]), os.environ, current().rank)
    program = argv[2:] if argv[1:2] == ["--"] else argv[1:]
    os.execvp(program[0], program)


def check(count: int, env: Mapping[str, str], rank: int) -> None:
    """Raise Failure SILENT unless *count* GPUs answer that the program can see; print what was found."""
    listed = _answer(LIST)
    if listed is None:
        _print(rank, "GPUs were not checked: there is no nvidia-smi")
        return
    bad = [line for line in (_answer(QUERY) or "").splitlines() if _is_bad(line)]
    if bad:
        raise Failure("node {}: a GPU does not work: {}".format(rank, bad[0]), SILENT)
    there = visible(gpus(listed), env.get("CUDA_VISIBLE_DEVICES"))
    if len(there) < count:
        text = "node {}: {} of {} GPUs answer"
        raise Failure(text.format(rank, len(there), count), SILENT)
    kinds = ", ".join(
        sorted({match.group(2) for match in map(WHOLE.match, listed.splitlines()) if match})
    )
    _print(rank, "{} GPUs answer ({})".format(len(there), kinds))


def gpus(listed: str) -> List[Set[str]]:
    """Return the names of each GPU in the output of `nvidia-smi -L`; an instance of a divided one counts as a GPU.

    >>> listed = "GPU 0: A (UUID: GPU-1)\\n  MIG 1g Device 0: (UUID: MIG-2)\\nGPU 1: A (UUID: GPU-3)"
    >>> [sorted(names) for names in gpus(listed)]
    [['0', 'MIG-2'], ['1', 'GPU-3']]
    """
    devices: List[Set[str]] = []
    whole: Set[str] = set()
    index = ""
    for line in listed.splitlines():
        match = WHOLE.match(line)
        if match:
            index = match.group(1)
            whole = {index, match.group(3)}
            devices.append(whole)
        instance = INSTANCE.match(line)
        if instance:
            if devices and devices[-1] is whole:
                devices.pop()
            devices.append({index, instance.group(1)})
    return devices


def visible(there: List[Set[str]], value: Optional[str]) -> List[Set[str]]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, or all of them without that variable."""
    if value is None:
        return there
    words = [word.strip() for word in value.split(",")]
    return [names for names in there if any(_is_named(names, word) for word in words)]


def _is_named(names: Set[str], word: str) -> bool:
    # A UUID may be shortened.
    return word in names or any(word[3:4] == "-" and name.startswith(word) for name in names)


def _is_bad(line: str) -> bool:
    fields = [field.strip() for field in line.split(",")]
    return any((f.startswith("[") and f not in FINE) or f == "ERR!" for f in fields)


def _answer(command: List[str]) -> Optional[str]:
    """Return the output of *command*, or None if there is no such program. Raise Failure if it fails."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_S,
            check=False,
        )
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure("{} does not answer: {}".format(command[0], error), SILENT) from error
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        said = text.strip().split("\n")[-1]
        what = "{} exited with code {}: {}"
        raise Failure(what.format(" ".join(command[:2]), done.returncode, said), SILENT)
    return text


def _print(rank: int, text: str) -> None:
    print("runspec: node {}: {}".format(rank, text), file=sys.stderr)
    sys.stderr.flush()
