"""What runs around the program of a job, as shell text: the setup before it, and the signal before its time limit.

The setup runs once on each node in each attempt. It travels in front of the program, in the words that inside.sh
starts: see `wrap`. A launcher of several processes runs it before its rendezvous, and an elastic node before it joins.
The signal is sent so where there may be no Python; `preemption.limit_signal` sends it in agents.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

NAME = "runspec-setup"  # the $0 of the shell that runs the setup
ENDED = "RUNSPEC_SETUP"  # the path of a file for "setup CODE SECONDS", how the setup has ended
FILE = "setup"  # the name of that file in the folder of an agent
FAILED = "setup failed with exit code {}"
# `sh -c SCRIPT NAME COUNT SETUP... [PROGRAM...]`. The setup is a child, which is sent SIGTERM: a shell that waits for a
# child in the foreground would end without it, and as process 1 of a container it would ignore the signal. The program
# then replaces the shell, as inside.sh would have started it.
SCRIPT = """\
_rs_n=$1 _rs_p= _rs_s= _rs_t= _rs_b=$(date +%s 2>/dev/null) _rs_m=${RUNSPEC_SETUP-}
shift
unset RUNSPEC_SETUP
trap '_rs_s=1; [ -z "$_rs_p" ] || kill -TERM "$_rs_p" 2>/dev/null' TERM
echo "runspec: setup begins" >&2
(
trap - TERM
_rs_i=$_rs_n _rs_t=$#
while [ "$_rs_i" -gt 0 ]; do
_rs_a=$1
shift
set -- "$@" "$_rs_a"
_rs_i=$((_rs_i-1))
done
shift $((_rs_t-_rs_n))
exec "$@"
) &
_rs_p=$!
[ -z "$_rs_s" ] || kill -TERM "$_rs_p" 2>/dev/null
wait "$_rs_p"
_rs_c=$?
[ -z "$_rs_s" ] || { wait "$_rs_p"; exit 143; }
trap - TERM
_rs_e=$(date +%s 2>/dev/null) && [ "$_rs_b" ] && _rs_t=$((_rs_e-_rs_b)) _rs_e=" after $_rs_t s" || _rs_e=
[ -z "$_rs_m" ] || { echo "setup $_rs_c $_rs_t" >"$_rs_m"; } 2>/dev/null
if [ $_rs_c != 0 ]; then
echo "runspec: setup failed with exit code $_rs_c$_rs_e" >&2
exit $_rs_c
fi
echo "runspec: setup ended$_rs_e" >&2
shift "$_rs_n"
[ $# -gt 0 ] || exit 0
command -v -- "$1" >/dev/null 2>&1 || { echo "runspec: '$1': command not found" >&2; exit 127; }
case $1 in -*) set -- env -- "$@" ;; esac
exec "$@"
"""


def wrap(setup: Sequence[str], program: Sequence[str]) -> Tuple[str, ...]:
    """Return the words that run *setup* and, if it succeeds, *program* in its place."""
    return ("/bin/sh", "-c", SCRIPT, NAME, str(len(setup)), *setup, *program)


def split(argv: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Return the words that run the setup alone, which are none if *argv* has no setup, and those of the program.

    >>> setup, program = split(wrap(["pip", "install", "a"], ["python", "b.py"]))
    >>> setup[3:], program
    (['runspec-setup', '3', 'pip', 'install', 'a'], ['python', 'b.py'])
    >>> split(["python", "b.py"])
    ([], ['python', 'b.py'])
    """
    words = list(argv)
    if words[:2] != ["/bin/sh", "-c"] or words[3:4] != [NAME]:
        return [], words
    end = 5 + int(words[4])
    return words[:end], words[end:]


class SetupEnd(NamedTuple):
    """The exit code of a setup, and how long it took, in whole seconds, or None if the image has no `date`."""

    code: int
    took_s: Optional[int]


def ended(path: Optional[str]) -> Optional[SetupEnd]:
    """Return how a setup has ended, which wrote that to *path*, or None if it has not."""
    try:
        with open(path or "", "rb") as stream:
            match = re.match(rb"setup (\d{1,3})(?: (\d{1,9}))?\s", stream.read(100))
    except OSError:  # there is no setup, or it has not ended
        return None
    if match is None:
        return None
    return SetupEnd(int(match.group(1)), int(match.group(2)) if match.group(2) else None)


def failed(path: Optional[str]) -> Optional[int]:
    """Return the exit code of a setup that failed, which it wrote to *path*, or None."""
    end = ended(path)
    return end.code or None if end is not None else None


def took_s(path: Optional[str]) -> Optional[int]:
    """Return how many seconds a setup took that has ended, which it wrote to *path*, or None."""
    end = ended(path)
    return end.took_s if end is not None else None


# The signal

# Those of POSIX but KILL and STOP, which no program can handle, with their numbers on Linux: signal(7).
SIGNALS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "USR1": 10, "SEGV": 11,
    "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "CHLD": 17, "CONT": 18, "TSTP": 20, "TTIN": 21, "TTOU": 22,
    "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "SYS": 31,
}  # fmt: skip
OURS = "runspec"  # the name that processes of ours have that pass signals on; the kernel allows 15 characters
LAUNCHERS = frozenset(
    "mpirun mpiexec mpiexec.hydra orterun orted prterun prte prted hydra_pmi_proxy hydra_bstrap_pr srun slurmstepd "
    "torchrun horovodrun".split()
)
# `sh -c SEND signal NUMBER NAME PID`, where there may be no Python: to the processes below PID, and to PID itself.
# The last eight digits of a mask are the signals up to 32.
SEND = """\
_rs_n=$1 _rs_f=" $3 " _rs_t= _rs_c=0 _rs_m=1
for _rs_d in /proc/[0-9]*; do
_rs_p=${_rs_d#/proc/} _rs_r=0 _rs_h= _rs_a=
[ "$_rs_p" != $$ ] || continue
while read -r _rs_k _rs_v; do
case $_rs_k in
Name:) case " NAMES " in *" $_rs_v "*) _rs_a=1 ;; esac ;;
PPid:) _rs_r=$_rs_v ;;
SigBlk: | SigCgt:) [ $((0x${_rs_v#????????} >> (_rs_n-1) & 1)) = 0 ] || _rs_h=1 ;;
esac
done 2>/dev/null <"$_rs_d/status"
[ -z "$_rs_a" ] || _rs_h=
_rs_t="$_rs_t $_rs_p:$_rs_r:$_rs_h"
done 2>/dev/null
while [ "$_rs_m" ]; do
_rs_m=
for _rs_x in $_rs_t; do
_rs_p=${_rs_x%%:*} _rs_r=${_rs_x#*:} _rs_h=${_rs_x##*:}
_rs_r=${_rs_r%:*}
case $_rs_f in *" $_rs_p:"*) continue ;; *" $_rs_p "* | *" $_rs_r "*) ;; *) continue ;; esac
_rs_f="$_rs_f$_rs_p $_rs_p: " _rs_m=1
[ -z "$_rs_h" ] || { kill -s "$2" "$_rs_p" && _rs_c=$((_rs_c+1)); } 2>/dev/null
done
done
[ $_rs_c = 0 ] && echo "runspec: no process of the program has a handler for $2" >&2 ||
echo "runspec: $2 was sent to processes of the program: $_rs_c" >&2
""".replace("NAMES", " ".join((OURS, *sorted(LAUNCHERS))))
# `sh -c LATER signal SECONDS NUMBER NAME PID`: the same after some time, unless it gets SIGTERM before.
LATER = (
    """\
sleep "$1" >/dev/null 2>&1 &
_rs_w=$!
trap 'kill "$_rs_w"; exit' TERM
shift
wait "$_rs_w" || exit
"""
    + SEND
)


def signal_words(name: str, root: int) -> List[str]:
    """Return the command that sends the signal *name* to *root* and the processes below it."""
    return ["/bin/sh", "-c", SEND, "signal", str(SIGNALS[name]), name, str(root)]
