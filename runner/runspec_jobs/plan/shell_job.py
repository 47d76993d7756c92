"""Makes the spec of a job that only holds a node for a shell, and ends when that shell does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runspec_jobs.document.nodes import Value, format_flow
from runspec_jobs.plan.smoke import KEPT, drop_entrypoint
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import tasks

SUFFIX = "-shell"
NAME_LENGTH = 40
ARRIVE_S = 600  # how long a node waits for its shell: the command that asked for the node may have been killed
TOOLS = ("cat", "mkdir", "mkfifo", "rm", "sleep")  # beside sh, what both sides call
NOBODY = 69  # the exit code of a job whose shell never came
READY = "runspec: the node waits for its shell"
# Both sides know of each other by named pipes, because the shell may be in another PID namespace than the job. `shell`
# is open for writing in the process around the shell alone, and `job` in the job: however one of them ends, even by
# SIGKILL, the other reads the end of its pipe.
FOLDER = 'runspec_at="${TMPDIR:-/tmp}/runspec-shell-$RUNSPEC_RUN"'
HOLD = f"""\
for tool in {" ".join(TOOLS)}; do
  command -v $tool >/dev/null || {{
    echo "runspec: a shell on a new node needs '$tool', which is not on PATH in the job's container or on its node"
    exit 127
  }}
done
{FOLDER}
mkdir -m 700 "$runspec_at" && mkfifo "$runspec_at/shell" "$runspec_at/job" && exec 8<>"$runspec_at/job" || exit 73
{{ read -r _ <"$runspec_at/shell"; : >"$runspec_at/over"; }} 8>&- & reader=$!
trap 'kill $reader 2>/dev/null; rm -rf "$runspec_at"' EXIT
trap 'exit 143' HUP INT TERM
echo '{READY}'
waited=0
until [ -e "$runspec_at/over" ]; do
  sleep 1 8>&-
  waited=$((waited + 1))
  [ -e "$runspec_at/open" ] || [ $waited -lt {ARRIVE_S} ] || {{
    echo 'runspec: no shell was opened within {ARRIVE_S} s: the job ends'
    exit {NOBODY}
  }}
done
"""
# A watcher ends the shell with the job where the service does not: on this machine, where its user has started it. The
# watcher is no child of the shell, which might wait for all of its children.
OPEN = f"""\
{FOLDER}
exec 8<"$runspec_at/job" 9>"$runspec_at/shell" && : >"$runspec_at/open" || exit {NOBODY}
if [ $# -eq 0 ]; then
  [ -x "${{SHELL:-}}" ] || SHELL=$(command -v bash || command -v sh)
  set -- "$SHELL"
fi
sh -c '
  (
    {{ read -r _ <&8; kill -HUP $$; sleep 1; kill -KILL $$; }} >/dev/null 2>&1 &
    echo $! >"$1"
  )
  shift
  exec "$@" 8<&-
' sh "$runspec_at/watcher" "$@" 9>&-
code=$?
{{ kill "$(cat "$runspec_at/watcher")"; }} 2>/dev/null
exit $code
"""


def make_text(spec: Spec, value: Mapping[str, Value]) -> str:
    """Return the text of the spec of the job that holds a node of *spec*, whose parsed text is *value*.

    It has one node with the same files, packages, variables and timeout, and the first task of a sweep. It makes one
    attempt, because the shell is lost with the node.
    """
    assert spec.timeout is not None, "BUG: a job without a timeout may hold its node for ever"
    cluster = value.get("cluster", {})
    assert isinstance(cluster, dict), "BUG: the spec was not validated"
    copied = (*KEPT, "env", "timeout")
    content = drop_entrypoint({name: value[name] for name in copied if name in value})
    if spec.sweep:
        content["sweep"] = {name: [value] for name, value in tasks(spec)[0].items()}
    content |= {
        # A name may have 40 characters, and must not end in a hyphen.
        "name": spec.name[: NAME_LENGTH - len(SUFFIX)].rstrip("-") + SUFFIX,
        "cluster": {**cluster, "nodes": 1},
        "launch": "none",
        "processes_per_node": 1,
        "command": ["/bin/sh", "-c", HOLD],
        "retry": {"attempts": 1, "spot_attempts": 1},
    }
    return format_flow(content)


def make_command(asked: Sequence[str]) -> list[str]:
    """Return the command that is the shell of the job, or the command *asked* in its place."""
    return ["/bin/sh", "-c", OPEN, "sh", *asked]
