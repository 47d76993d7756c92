"""Import the scripts of a task of SkyPilot, whose variables become runspec's."""

from __future__ import annotations

import re

from runspec_jobs.provider.importing.draft import Draft

# https://docs.skypilot.co/en/latest/running-jobs/environment-variables.html
SAME = {
    "SKYPILOT_NODE_RANK": "RUNSPEC_RANK",
    "SKYPILOT_SETUP_NODE_RANK": "RUNSPEC_RANK",
    "SKYPILOT_NUM_NODES": "RUNSPEC_NODES",
    "SKYPILOT_TASK_ID": "RUNSPEC_RUN",
}
IPS = ("SKYPILOT_NODE_IPS", "SKYPILOT_SETUP_NODE_IPS")
GPUS = ("SKYPILOT_NUM_GPUS_PER_NODE", "SKYPILOT_SETUP_NUM_GPUS_PER_NODE")
# The first address, as scripts find it.
LEADER = re.compile(
    r"\$\(\s*echo\s+\"?\$\{?SKYPILOT(?:_SETUP)?_NODE_IPS\}?\"?\s*\|\s*(?:head\s+-n\s*1|head\s+-1|sed\s+-n\s+1p)\s*\)"
)
ANY = re.compile(r"\bSKYPILOT_\w+")
HEAD = "#!/bin/bash\nset +e  # SkyPilot goes on after a command that fails\n"
# Setup and run share a folder that they can write to, which has a copy of workdir.
FOLDER = 'work=${TMPDIR:-/tmp}/$RUNSPEC_RUN-$RUNSPEC_TASK-$RUNSPEC_RANK\nmkdir -p "$work" && cd "$work" || exit 1\n'
COPY = '[ -e .copied ] || { cp -R "${mounts.workdir}/." . && chmod -R u+w . && : > .copied; } || exit 1\n'


def write_script(text: str, draft: Draft, copy: str, at: object) -> str:
    """Return *text*, a script for bash, with runspec's variables, in a folder that *copy* fills."""
    text = LEADER.sub("$RUNSPEC_LEADER", draft.take_script(text, at))
    for theirs, ours in SAME.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    lines = ""
    for name in dict.fromkeys(ANY.findall(text)):
        if name in IPS:
            lines += f'export {name}="$(cut -d" " -f1 "$RUNSPEC_HOSTFILE")"\n'
        elif name in GPUS:
            lines += f"export {name}={draft.cluster.get('gpus', 0)}\n"
        else:
            draft.notes.lose(f"variable {name}", "a job of runspec has no such variable", at)
    return f"{HEAD}{lines}{copy}{text.rstrip()}\n"
