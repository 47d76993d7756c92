"""Find in the body of a batch script what Slurm's `srun` or an `mpirun` starts, and which variables it reads."""

from __future__ import annotations

import re
from typing import NamedTuple

# A command at the beginning of a line, perhaps with variables or `time` before it.
START = re.compile(
    r"^(?P<before>(?:(?:time|exec|[A-Za-z_]\w*=\S*)[ \t]+)*)(?P<launcher>srun|mpirun|mpiexec)(?=[\s\\])",
    re.MULTILINE,
)
ANYWHERE = re.compile(r"(?<![\w./$-])(srun|mpirun|mpiexec)(?=[ \t\\])")
BETWEEN = r"(?:[ \t]|\\\n)+"
WORD = re.compile(
    r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\$\{[^}]*\}|\$\([^)]*\)|\\.|[^\s\\"';&|])+""", re.DOTALL
)
# Options of srun and mpirun that take the next word as their value.
VALUED = frozenset(
    "-A -c -C -D -d -e -G -i -J -m -M -N -n -np -o -p -q -r -S -t -w -x -f -ppn -hosts -H -hostfile -machinefile "
    "-genv -env -x -mca --mca --hostfile --host --map-by --bind-to --np --ntasks --nodes --cpus-per-task "
    "--ntasks-per-node --gpus-per-task --gres --mem --mpi --cpu-bind --container-image --container-mounts --label "
    "--distribution --time --job-name --nodelist --jobid --output --error".split()
) - {"--label"}
PAIRED = frozenset("-genv -env -mca --mca".split())  # take two
# Options that say no more than the job does, or how output is shown.
PLAIN = re.compile(
    r"-l|-u|-K\d?|-Q|-n|-np|-N|-c|-W|-ppn|-hosts|-H|-f|-hostfile|-machinefile|--(?:label|unbuffered|kill-on-bad-exit|wait|"
    r"quiet|mpi|ntasks|nodes|ntasks-per-node|cpus-per-task|np|hostfile|host|exact|overlap|allow-run-as-root|"
    r"oversubscribe|mem|export|jobid|cpu-bind|bind-to|map-by|exclusive|accel-bind|gpu-bind|gpus-per-task|gres|"
    r"tag-output)"
)
TORCHRUN = re.compile(
    r"(?:\S*/)?(?:torchrun\b|python\S*\s+-m\s+torch\.distributed\.(?:run|launch)\b)"
)
LITERAL = re.compile(
    r"^(?P<export>[ \t]*export[ \t]+)(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"$`\n]*\"|'[^'\n]*'|[^\s\"'$`;]+)[ \t]*$",
    re.MULTILINE,
)
SECRET = re.compile(
    r"(?i)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|CREDENTIALS?)(?:_|$)"
)


class Launched(NamedTuple):
    """The command that starts all tasks of a job: its launcher, its options that are lost, and its place in the body.

    *starts_nodes* is whether it starts torchrun, which needs one process on each node.
    """

    launcher: str
    lost: tuple[str, ...]
    begin: int
    end: int
    image: str
    starts_nodes: bool


def find_launched(body: str) -> Launched | None:
    """Return the only launcher in *body*, if nothing but its own line depends on it; otherwise None.

    >>> body = "module load x\\nsrun -n 4 --label python a.py\\n"
    >>> launched = find_launched(body)
    >>> body[: launched.begin] + body[launched.end :]
    'module load x\\npython a.py\\n'
    """
    found = list(START.finditer(body))
    if len(found) != 1 or count_launchers(body) != 1:
        return None
    match = found[0]
    begin, at = match.start("launcher"), match.end()
    lost: list[str] = []
    image = ""
    while space := re.compile(BETWEEN).match(body, at):
        word = WORD.match(body, space.end())
        if word is None:
            return None
        if not word[0].startswith("-"):
            return _make(body, match["launcher"], lost, begin, word.start(), image)
        option, equals, value = word[0].partition("=")
        at = word.end()
        if not equals and option in VALUED:
            for _ in range(2 if option in PAIRED else 1):
                space = re.compile(BETWEEN).match(body, at)
                following = WORD.match(body, space.end()) if space else None
                if following is None:
                    return None
                value, at = following[0], following.end()
        if option == "--container-image":
            image = value.strip("\"'")
        elif not PLAIN.fullmatch(re.sub(r"^(-[nNcW])\d+$", r"\1", option)):
            lost.append(option)
    return None


def _make(
    body: str, launcher: str, lost: list[str], begin: int, end: int, image: str
) -> Launched | None:
    rest = body[end:].split("\n", 1)[0].rstrip()
    if rest.endswith("&") and not rest.endswith("&&"):
        return None  # it is one of several, or something waits for it
    return Launched(launcher, tuple(lost), begin, end, image, bool(TORCHRUN.match(body, end)))


def count_launchers(body: str) -> int:
    """Return how often *body* calls a launcher, outside of comments.

    >>> count_launchers("# srun a\\nsrun a\\nif true; then mpirun b; fi\\n/usr/bin/srun c\\n")
    2
    """
    lines = (re.sub(r"(?:^|\s)#.*", "", line) for line in body.splitlines())
    return sum(len(ANYWHERE.findall(line)) for line in lines)


def list_read(body: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the variables *names* that *body* mentions.

    >>> list_read("echo ${SLURM_NTASKS} $SLURM_NTASKS_PER_NODE", ("SLURM_NTASKS", "SLURM_NNODES"))
    ('SLURM_NTASKS',)
    """
    return tuple(name for name in names if re.search(rf"\b{name}\b", body))


def take_secrets(body: str) -> tuple[str, tuple[str, ...]]:
    """Return *body* without the lines that set a variable to what is probably a secret, and the names of these.

    >>> take_secrets("export HF_TOKEN=hf_abc123def\\nexport A=1\\n")
    ('export A=1\\n', ('HF_TOKEN',))
    """
    secrets = [
        match
        for match in LITERAL.finditer(body)
        if SECRET.search(match["name"]) and len(match["value"].strip("\"'")) >= 8
    ]
    for match in reversed(secrets):
        body = body[: match.start()] + body[match.end() + 1 :]
    return body, tuple(match["name"] for match in secrets)


def escape(body: str) -> str:
    """Return *body* with one more `$` before what a spec would read as a placeholder.

    >>> escape("echo ${a.b} ${HOME} ${x:-a.b}")
    'echo $${a.b} ${HOME} ${x:-a.b}'
    """
    return re.sub(r"\$\{(?=[A-Za-z_][\w-]*\.[\w-]+\})", "$${", body)
