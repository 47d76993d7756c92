"""The setup of a job: a command that runs once on each node in each attempt, before the program or its launcher starts.

It travels in front of the program, in the words that inside.sh starts: see `wrap`. A launcher of several processes runs
it before its rendezvous, and an elastic node before it joins.
"""

import re
from typing import List, Optional, Sequence, Tuple

NAME = "runspec-setup"  # the $0 of the shell that runs the setup
ENDED = "RUNSPEC_SETUP"  # the path of a file for the exit code of a setup that failed
FAILED = "setup failed with exit code {}"
# `sh -c SCRIPT NAME COUNT SETUP... [PROGRAM...]`. The setup is a child, which is sent SIGTERM: a shell that waits for a
# child in the foreground would end without it, and as process 1 of a container it would ignore the signal. The program
# then replaces the shell, as inside.sh would have started it.
SCRIPT = """\
_rs_n=$1 _rs_p= _rs_s= _rs_b=$(date +%s 2>/dev/null) _rs_m=${RUNSPEC_SETUP-}
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
_rs_e=$(date +%s 2>/dev/null) && [ "$_rs_b" ] && _rs_e=" after $((_rs_e-_rs_b)) s" || _rs_e=
if [ $_rs_c != 0 ]; then
echo "runspec: setup failed with exit code $_rs_c$_rs_e" >&2
[ -z "$_rs_m" ] || echo "setup $_rs_c" >"$_rs_m"
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


def failed(path: Optional[str]) -> Optional[int]:
    """Return the exit code of a setup that failed, which it wrote to *path*, or None."""
    try:
        with open(path or "", "rb") as stream:
            match = re.match(rb"setup (\d{1,3})\s", stream.read(100))
    except OSError:
        return None
    return int(match.group(1)) if match else None
