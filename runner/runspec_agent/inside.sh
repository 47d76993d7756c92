# The part of runspec that runs in every job, whatever the image: any POSIX sh, no Python, no other program needed.
#
#     sh inside.sh WORD...      or      sh -c "$(cat inside.sh)" inside WORD...
#
# The words are the user's argv and reach the program byte for byte. It is kept small because it travels inside
# requests (AWS Batch limits a job's overrides to 8,192 bytes); comments and indents are taken off before that.
# Names begin with _rs_ so that no exported variable of the user is changed.

_rs_die() {
  printf 'runspec: %s\n' "$2" >&2
  exit "$1"
}

# bash reads patterns and ranges by the locale and would split odd bytes; the program gets the old value back.
_rs_had=${LC_ALL+x} _rs_lc=${LC_ALL-} _rs_ifs=$IFS
LC_ALL=C
set -f

# 1. Renames: RUNSPEC_WORDS="NEW=OLD ..." gives a service's variables the names of the contract.
for _rs_w in ${RUNSPEC_WORDS-}; do
  case $_rs_w in
    *=*=* | [!A-Z_]* | *=[!A-Z_]* | *= | *[!A-Z0-9_=]*) ;;
    *=*)
      _rs_n=${_rs_w%=*} _rs_o=${_rs_w#*=}
      eval "[ -z \"\${$_rs_o+x}\" ] || export $_rs_n=\"\$$_rs_o\""
      continue
      ;;
  esac
  _rs_die 2 "RUNSPEC_WORDS: '$_rs_w' is not NEW=OLD, each of A-Z, 0-9 and _"
done

# 2. The claim: of all the jobs that a lost reply may have made, one runs.
# A hard link is atomic and comes with its content. Where there are none (SMB), O_EXCL and then the content: a reader
# may find the file empty for a moment, and waits.
if [ "${RUNSPEC_CLAIM-}" ]; then
  [ "${RUNSPEC_JOB-}" ] || _rs_die 2 'RUNSPEC_CLAIM needs RUNSPEC_JOB, the id of this job'
  { read -r _rs_w </proc/sys/kernel/random/uuid; } 2>/dev/null || _rs_w=$$
  _rs_w=$RUNSPEC_CLAIM.$_rs_w
  { printf '%s\n' "$RUNSPEC_JOB" >"$_rs_w"; } 2>/dev/null || _rs_die 75 "cannot write the claim $RUNSPEC_CLAIM"
  ln "$_rs_w" "$RUNSPEC_CLAIM" 2>/dev/null ||
    (set -C && printf '%s\n' "$RUNSPEC_JOB" >"$RUNSPEC_CLAIM") 2>/dev/null
  rm -f "$_rs_w"
  _rs_w= _rs_n=0
  until { IFS= read -r _rs_w <"$RUNSPEC_CLAIM"; } 2>/dev/null && [ "$_rs_w" ]; do
    _rs_n=$((_rs_n + 1))
    [ "$_rs_n" -lt 30 ] || _rs_die 75 "no id in the claim $RUNSPEC_CLAIM"
    sleep 1
  done
  [ "$_rs_w" = "$RUNSPEC_JOB" ] || _rs_die 0 "duplicate of $_rs_w, leaving"
fi

# 3. References: ${mounts.NAME}, ${outputs.NAME}, ${sweep.NAME}; one more $ before it makes it literal, and any other
# ${WORD.WORD} as well, which is left alone without it.
# _rs_value KIND NAME: sets _rs_v from RUNSPEC_<KIND>_<NAME>, the name in capitals and _ for -.
_rs_value() {
  _rs_u=RUNSPEC_$1_ _rs_n=$2
  while [ "$_rs_n" ]; do
    _rs_c=${_rs_n%"${_rs_n#?}"} _rs_n=${_rs_n#?}
    case $_rs_c in
      [a-z-])
        _rs_v=aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ-_
        _rs_v=${_rs_v#*"$_rs_c"} _rs_c=${_rs_v%"${_rs_v#?}"}
        ;;
    esac
    _rs_u=$_rs_u$_rs_c
  done
  eval "_rs_c=\${$_rs_u+x} _rs_v=\${$_rs_u-}"
  [ "$_rs_c" ] || _rs_die 2 "nothing here is called '$2' ($_rs_u is not set)"
}

# _rs_expand WORD: sets _rs_out. The word is split at each $ (the dot keeps a last empty piece), since cutting pieces
# off the front of a long word takes quadratic time in every shell. A piece is literal, or begins with a reference.
_rs_expand() {
  IFS='$'
  set -- $1.
  IFS=$_rs_ifs
  _rs_out=$1 _rs_p=
  while shift && [ $# -gt 0 ]; do
    case $1 in
      '{mounts.'*\}*) _rs_k=MOUNT ;;
      '{outputs.'*\}*) _rs_k=OUTPUT ;;
      '{sweep.'*\}*) _rs_k=SWEEP ;;
      '{'[A-Za-z_]*.*\}*) _rs_k=$_rs_p ;;
      *) _rs_k= ;;
    esac
    _rs_n=${_rs_k:+${1%%\}*}}
    _rs_n=${_rs_n#*.}
    case $_rs_n in
      '' | *[!A-Za-z0-9_-]*) _rs_out=$_rs_out'$'$1 ;;
      *)
        if [ "$_rs_p" ]; then
          _rs_out=$_rs_out$1
        else
          _rs_value "$_rs_k" "$_rs_n"
          _rs_out=$_rs_out$_rs_v${1#*\}}
        fi
        ;;
    esac
    _rs_p=
    [ "$1" ] || _rs_p=1
  done
  _rs_out=${_rs_out%.}
}

# Words without a reference are left alone: taking them round one by one is slow for thousands of them.
case $* in
  *'${mounts.'* | *'${outputs.'* | *'${sweep.'* | *'$${'*.*)
    _rs_i=$#
    while [ "$_rs_i" -gt 0 ]; do
      _rs_expand "$1"
      shift
      set -- "$@" "$_rs_out"
      _rs_i=$((_rs_i - 1))
    done
    ;;
esac

# 4. The program takes the place of this shell, so that SIGTERM and the exit code are its own. bash warns about a
# locale that the image does not have; it has said so once already. dash has no `exec --`, so env finds a -program.
set +f
{ [ "$_rs_had" ] && LC_ALL=$_rs_lc || unset LC_ALL; } 2>/dev/null
[ $# -gt 0 ] || _rs_die 2 'no command'
# -IS: nothing on the user's PYTHONPATH, and nothing installed, gets between us and the standard library.
case ${RUNSPEC_LAUNCH:-none} in
  none)
    command -v -- "$1" >/dev/null 2>&1 || _rs_die 127 "'$1': command not found"
    case $1 in -*) set -- env -- "$@" ;; esac
    exec "$@"
    ;;
  mpi | torchrun)
    [ "${RUNSPEC_INSIDE-}" ] || _rs_die 2 'RUNSPEC_LAUNCH needs RUNSPEC_INSIDE, the path of the zipapp'
    for _rs_w in "${RUNSPEC_PYTHON:-python3}" "${RUNSPEC_PYTHON:-python}"; do
      command -v -- "$_rs_w" >/dev/null 2>&1 && exec "$_rs_w" -IS "$RUNSPEC_INSIDE" launch -- "$@"
    done
    _rs_die 127 "launch: $RUNSPEC_LAUNCH needs ${RUNSPEC_PYTHON:-python3}, which this image does not have"
    ;;
  *) _rs_die 2 "RUNSPEC_LAUNCH: '$RUNSPEC_LAUNCH' is not none, mpi or torchrun" ;;
esac
