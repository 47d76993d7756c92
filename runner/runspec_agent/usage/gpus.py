"""What the GPUs of a node do, as nvidia-smi says.

It runs as long as the job, because each start of it takes more processor time than a day of sampling.
"""

import os
import shutil
import subprocess
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from runspec_agent.base.process import die_with_parent

QUERY = "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total"
MIB = 1 << 20
STARTS = 3  # of nvidia-smi, before its failure is the answer
LINE_BYTES = 1 << 16
END_S = 0.5


class Gpu(NamedTuple):
    """One GPU at one moment."""

    percent: int  # of the time in which a kernel ran
    memory_bytes: int
    total_bytes: int


class GpuMeter:
    """Reads the GPUs that *env* shows to the program; *why* says why there are none."""

    def __init__(self, env: Mapping[str, str], every_s: int) -> None:
        self.why = ""
        self._env, self._every_s = dict(env), every_s
        self._visible = visible(env)
        self._program = shutil.which("nvidia-smi", path=env.get("PATH"))
        self._popen: Optional[subprocess.Popen[bytes]] = None
        self._output = -1
        self._rest = b""
        self._last: Dict[str, Gpu] = {}
        self._starts = 0
        if self._program is None:
            self.why = "there is no nvidia-smi"
        elif self._visible == []:
            self.why = "the job has no GPUs"

    def read(self) -> Tuple[Gpu, ...]:
        """Return the newest figures, without waiting."""
        if self.why:
            return ()
        if self._popen is None:
            self._start()
        else:
            self._take()
        return tuple(self._last[name] for name in sorted(self._last, key=_order))

    def _start(self) -> None:
        if self._starts == STARTS:
            self.why = self.why or "nvidia-smi ended, or printed no figures of the job's GPUs"
            return
        self._starts += 1
        # A program that writes to a terminal prints each line at once.
        terminal, its = os.openpty()
        os.set_blocking(terminal, False)
        line = [str(self._program), QUERY, "--format=csv,noheader,nounits"]
        try:
            self._popen = subprocess.Popen(
                [*line, "-l", str(self._every_s)],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=its,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it takes no lock that another thread could hold
            )
            self._output = terminal
        except OSError as error:
            os.close(terminal)
            self.why = "nvidia-smi: {}".format(error.strerror or error)
        finally:
            os.close(its)

    def _take(self) -> None:
        """Read what nvidia-smi has printed; if it has ended, the next call starts it again."""
        data = b""
        ended = False
        while not ended:
            try:
                part = os.read(self._output, LINE_BYTES)
            except BlockingIOError:  # all that was printed so far has been read
                break
            except OSError:  # all other ends are closed: pty(7)
                part = b""
            ended = not part
            data += part
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._parse(line.decode("ascii", "replace"))
        if ended:
            self.finish()

    def _parse(self, line: str) -> None:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 5 or not _is_visible(fields[0], fields[1], self._visible):
            return
        try:
            percent, used, total = (int(field) for field in fields[2:])
        except ValueError:  # a GPU that is divided has no figures: [N/A]
            return
        self._starts = 0
        self._last[fields[0]] = Gpu(percent, used * MIB, total * MIB)

    def finish(self) -> None:
        """End nvidia-smi; one that does not end is left to the end of this process."""
        if self._popen is not None:
            try:
                self._popen.kill()
                self._popen.wait(END_S)
            except subprocess.TimeoutExpired:
                self._popen.returncode = 0
            os.close(self._output)
            self._popen, self._rest = None, b""


def visible(env: Mapping[str, str]) -> Optional[List[str]]:
    """Return the GPUs that CUDA shows to the program, or None if it shows all that nvidia-smi lists.

    Slurm sets the variable for jobs with GPUs, and does not always hide the others.

    >>> visible({"CUDA_VISIBLE_DEVICES": "1,GPU-2"})
    ['1', 'GPU-2']
    >>> visible({"SLURM_JOB_ID": "7"})
    []
    """
    devices = env.get("CUDA_VISIBLE_DEVICES")
    if devices is None:
        return [] if "SLURM_JOB_ID" in env else None
    return [word.strip() for word in devices.split(",") if word.strip() not in ("", "NoDevFiles")]


def _is_visible(index: str, uuid: str, names: Optional[List[str]]) -> bool:
    # A UUID may be shortened.
    return names is None or any(
        name == index or (name[:4] == "GPU-" and uuid.startswith(name)) for name in names
    )


def _order(index: str) -> Tuple[int, str]:
    return (int(index) if index.isdigit() else 0, index)
