"""Find in the body of a batch script what Slurm's `srun` or an `mpirun` starts, and which variables it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    r"tag-output|no-container-mount-home|no-container-remap-root|container-remap-root|mem-bind|threads-per-core|"
    r"distribution|job-name|time|container-mount-home)"
)
# `"${ARGS[@]}"`, whose words the script lists before.
LIST = re.compile(r"\"?\$\{(\w+)\[@\]\}\"?")
LISTED = r"(?m)^[ \t]*(?:declare[ \t]+-a[ \t]+)?{}=\(((?:[^()]|\$\(pwd\))*)\)[ \t]*(?:#.*)?$"
ASSIGNED = (
    r"(?m)^[ \t]*(?:(?:export|declare|readonly)[ \t]+)*{0}=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;#]*)"
    r"|^[ \t]*: \"?\$\{{{0}:=(.*?)\}}\"?[ \t]*(?:#.*)?$"
)
HERE = re.compile(r"\$\(pwd\)|\$\{?PWD\}?|\$\{?SLURM_SUBMIT_DIR\}?")
DEEPEST = 5  # variables that refer to variables
REFERENCE = re.compile(r"\$\{(\w+)(?::-([^${}]*))?\}|\$(\w+)")
# How scripts look for the first node, whose address runspec gives every job.
NODES = r"[ \t]+[\"']?\$\{?(?:SLURM_JOB_NODELIST|SLURM_NODELIST)\}?[\"']?"
FIRST = re.compile(
    rf"\$\([ \t]*scontrol[ \t]+show[ \t]+hostnames?{NODES}[ \t]*\|[ \t]*head[ \t]+-n?[ \t]*1[ \t]*\)"
    r"|\$\([ \t]*srun(?:[ \t]+(?:--nodes=1|--ntasks=1|-N[ \t]*1|-n[ \t]*1|(?:-w|--nodelist)[ \t=]*\S+))+"
    r"[ \t]+hostname[ \t]+(?:--ip-address|-i|-I)[ \t]*(?:\|[^()]*)?\)"
)
HOSTS = re.compile(rf"scontrol[ \t]+show[ \t]+hostnames?{NODES}(?![ \t]*\|[ \t]*head)")
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
    mounts: str = ""
    mpi: str = ""


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
    given: dict[str, str] = {}
    while space := re.compile(BETWEEN).match(body, at):
        word = WORD.match(body, space.end())
        if word is None:
            return None
        if name := LIST.fullmatch(word[0]):
            if not _take_list(body, name[1], given, lost):
                return None
            at = word.end()
            continue
        if not word[0].startswith("-"):
            return _make(body, match["launcher"], lost, (begin, word.start()), given)
        option, equals, value = word[0].partition("=")
        at = word.end()
        if not equals and option in VALUED:
            for _ in range(2 if option in PAIRED else 1):
                space = re.compile(BETWEEN).match(body, at)
                following = WORD.match(body, space.end()) if space else None
                if following is None:
                    return None
                value, at = following[0], following.end()
        _take_option(body, option, value, given, lost)
    return None


def _take_list(body: str, name: str, given: dict[str, str], lost: list[str]) -> bool:
    """Take the options in the list *name* of the script; return whether it says them all."""
    found = re.findall(LISTED.format(name), body)
    if len(found) != 1:
        return False
    words = re.sub(r"(?:^|\s)#.*", "", found[0]).split()
    while words:
        option, equals, value = words.pop(0).partition("=")
        if not option.startswith("-"):
            return False
        if not equals and option in VALUED and words:
            value = words.pop(0)
        _take_option(body, option, value, given, lost)
    return True


def _take_option(
    body: str, option: str, value: str, given: dict[str, str], lost: list[str]
) -> None:
    if option in ("--container-image", "--container-mounts", "--mpi"):
        known = resolve(body, value.strip("\"'"))
        if "$" in known.replace("$(pwd)", "." if option == "--container-mounts" else "$"):
            lost.append(f"{option} with a variable")
        else:
            given[option] = known
    elif not PLAIN.fullmatch(re.sub(r"^(-[nNcW])\d+$", r"\1", option)):
        lost.append(option)


def resolve(body: str, text: str, depth: int = 0) -> str:
    """Return *text* with the variables to which *body* gives one value; `$(pwd)` stands for the folder of the script.

    >>> resolve("export A=/x\\nB=$A/y\\n", "$A:${B},${C:-z}$D")
    '/x:/x/y,z$D'
    """

    def fill(match: re.Match[str]) -> str:
        found = re.findall(ASSIGNED.format(match[1] or match[3]), body)
        values = {(one or other).strip("\"'") for one, other in found}
        if len(values) != 1 or depth == DEEPEST:
            return match[2] or match[0]
        return resolve(body, values.pop(), depth + 1)

    return REFERENCE.sub(fill, HERE.sub("$(pwd)", text))


def _make(
    body: str, launcher: str, lost: list[str], place: tuple[int, int], given: Mapping[str, str]
) -> Launched | None:
    begin, end = place
    rest = body[end:].split("\n", 1)[0].rstrip()
    if rest.endswith("&") and not rest.endswith("&&"):
        return None  # it is one of several, or something waits for it
    options = (given.get(f"--{name}", "") for name in ("container-mounts", "mpi"))
    image = given.get("--container-image", "")
    starts_nodes = bool(TORCHRUN.match(body, end))
    return Launched(launcher, tuple(lost), begin, end, image, starts_nodes, *options)


def use_addresses(body: str) -> str:
    """Return *body* with the addresses that runspec gives a job, where it asks Slurm for them.

    >>> use_addresses('H=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\\n')
    'H=$RUNSPEC_LEADER\\n'
    >>> use_addresses('N=($(scontrol show hostnames $SLURM_JOB_NODELIST))\\n')
    'N=($(cut -d" " -f1 "$RUNSPEC_HOSTFILE"))\\n'
    """
    return HOSTS.sub('cut -d" " -f1 "$RUNSPEC_HOSTFILE"', FIRST.sub("$RUNSPEC_LEADER", body))


def drop_launchers(body: str) -> str | None:
    """Return *body* of a job of one task without its calls of srun, which start that task; None if one says more.

    >>> drop_launchers("if a; then\\n  srun -n 1 b && time srun c\\nfi\\n")
    'if a; then\\n  b && time c\\nfi\\n'
    """
    found = []
    for match in ANYWHERE.finditer(body):
        line = body[body.rfind("\n", 0, match.start()) + 1 : match.start()]
        if re.search(r"(?:^|\s)#", line):
            continue
        if match[1] != "srun":
            return None
        at = match.end()
        while space := re.compile(BETWEEN).match(body, at):
            word = WORD.match(body, space.end())
            if word is None:
                return None
            option, equals, _ = word[0].partition("=")
            if not option.startswith("-"):
                found.append((match.start(), word.start()))
                break
            if not PLAIN.fullmatch(re.sub(r"^(-[nNcW])\d+$", r"\1", option)):
                return None
            at = word.end()
            if not equals and option in VALUED:
                space = re.compile(BETWEEN).match(body, at)
                value = WORD.match(body, space.end()) if space else None
                at = value.end() if value else at
        else:
            return None
    for begin, end in reversed(found):
        body = body[:begin] + body[end:]
    return body


def count_launchers(body: str) -> int:
    """Return how often *body* calls a launcher, outside of comments.

    >>> count_launchers("# srun a\\nsrun a\\nif true; then mpirun b; fi\\n/usr/bin/srun c\\n")
    2
    """
    return len(list_launchers(body))


def list_launchers(body: str) -> list[str]:
    lines = (re.sub(r"(?:^|\s)#.*", "", line) for line in body.splitlines())
    return [name for line in lines for name in ANYWHERE.findall(line)]


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
