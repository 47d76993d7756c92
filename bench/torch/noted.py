"""Run train_digits.py, and note in a file of each process when it has done which step, of how many processes.

python noted.py FOLDER_OF_THE_TRAINING FOLDER_OF_NOTES ARGUMENT...

Lines that begin with a word have the time before the first step: at which the process was started or forked ("born"),
had imported the training, was connected to the others ("met"), and had loaded the checkpoint.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

folder, notes = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, folder)


def born() -> float:
    """Return when this process was started or forked, in Unix time; see proc(5), starttime."""
    with open("/proc/self/stat", encoding="ascii") as stat:
        ticks = int(stat.read().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def note(what: str, at: float | None = None) -> None:
    print(f"{what} {at or time.time():.3f} {time.process_time():.3f}", file=file, flush=True)


def after(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, which notes *what* when it has ended."""

    def noting(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        note(what)
        return found

    return noting


def told(step: int) -> None:
    print(f"{time.time():.3f} {step} {world}", file=file, flush=True)
    tell(step)


with open(os.path.join(notes, str(os.getpid())), "a", encoding="ascii") as file:
    note("born", born())
    training = importlib.import_module("train_digits")
    note("imported")
    tell = training.tell
    world = os.environ["WORLD_SIZE"]
    vars(training).update(tell=told)
    training.dist.init_process_group = after("met", training.dist.init_process_group)
    training.Training.load = after("loaded", training.Training.load)
    code = training.main()
    note("ended")
sys.exit(code)
