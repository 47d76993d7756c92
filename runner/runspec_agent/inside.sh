# The part of runspec that runs in every job, in any image: it needs a POSIX sh, and neither Python nor other programs.
#
#     sh inside.sh WORD...      or      sh -c "$(cat inside.sh)" inside WORD...
#
# The words are the user's argv and reach the program byte for byte. The script is small because requests contain it
# (AWS Batch limits a job's overrides to 8,192 bytes), without its comments and indentation.
# Names of variables begin with _rs_, so that no variable of the user is changed.

_rs_die() {
  printf 'runspec: %s\n' "$2" >&2
  exit "$1"
}

# bash interprets patterns and ranges by the locale and would split invalid characters. The program gets the old value.
_rs_had=${LC_ALL+x} _rs_lc=${LC_ALL-} _rs_ifs=$IFS
LC_ALL=C
set -f

# 1. Renames: RUNSPEC_WORDS="NEW=OLD ..." copies variables of the service to the names of the contract.
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

# 2. The claim: after a lost reply, there may be several jobs of one run; only one of them runs the program.
# A hard link is atomic and has its content at once. On file systems without hard links (SMB), the file is created with
# O_EXCL and then written: a reader may find it empty for a moment, and waits.
if [ "${RUNSPEC_CLAIM-}" ]; then
  [ "${RUNSPEC_JOB-}" ] || _rs_die 2 'RUNSPEC_CLAIM is set without RUNSPEC_JOB, the id of this job'
  { read -r _rs_w </proc/sys/kernel/random/uuid; } 2>/dev/null || _rs_w=$$
  _rs_w=$RUNSPEC_CLAIM.$_rs_w
  { printf '%s\n' "$RUNSPEC_JOB" >"$_rs_w"; } 2>/dev/null || _rs_die 75 "cannot write the claim $RUNSPEC_CLAIM"
  ln "$_rs_w" "$RUNSPEC_CLAIM" 2>/dev/null ||
    (set -C && printf '%s\n' "$RUNSPEC_JOB" >"$RUNSPEC_CLAIM") 2>/dev/null
  rm -f "$_rs_w"
  _rs_w= _rs_n=0
  until { IFS= read -r _rs_w <"$RUNSPEC_CLAIM"; } 2>/dev/null && [ "$_rs_w" ]; do
    _rs_n=$((_rs_n + 1))
    [ "$_rs_n" -lt 30 ] || _rs_die 75 "the claim $RUNSPEC_CLAIM contains no job id"
    sleep 1
  done
  [ "$_rs_w" = "$RUNSPEC_JOB" ] || _rs_die 0 "duplicate of $_rs_w, leaving"
fi

# 3. References: ${mounts.NAME}, ${outputs.NAME} and ${sweep.NAME}. With one more $ before it, a reference is literal.
# That also applies to any other ${WORD.WORD}, which is not changed if it has one $.
# _rs_value KIND NAME: sets _rs_v to the value of RUNSPEC_<KIND>_<NAME>, with the name in capitals and _ for -.
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
  [ "$_rs_c" ] || _rs_die 2 "unknown name '$2': $_rs_u is not set"
}

# _rs_expand WORD: sets _rs_out to WORD with its references replaced. The word is split at each $ (the dot keeps a last
# empty piece), since removing pieces from the front of a long word takes quadratic time in every shell. A piece is
# literal, or begins with a reference.
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

# Nothing is done if no word has a reference, because the loop is slow for thousands of words.
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

# 4. The program replaces this shell, so that it gets SIGTERM itself, and its exit code is that of the job. bash warns
# about a locale that the image lacks, which it already did when it started. dash has no `exec --`, so env starts a
# program whose name begins with -.
set +f
{ [ "$_rs_had" ] && LC_ALL=$_rs_lc || unset LC_ALL; } 2>/dev/null
[ $# -gt 0 ] || _rs_die 2 'no command'
# -IS: neither the user's PYTHONPATH nor installed packages can replace modules of the standard library.
case ${RUNSPEC_LAUNCH:-none} in
  none)
    command -v -- "$1" >/dev/null 2>&1 || _rs_die 127 "'$1': command not found"
    case $1 in -*) set -- env -- "$@" ;; esac
    exec "$@"
    ;;
  mpi | horovod | torchrun | srun)
    [ "${RUNSPEC_INSIDE-}" ] || _rs_die 2 'RUNSPEC_LAUNCH needs RUNSPEC_INSIDE, the path of the zipapp'
    for _rs_w in "${RUNSPEC_PYTHON:-python3}" "${RUNSPEC_PYTHON:-python}"; do
      command -v -- "$_rs_w" >/dev/null 2>&1 && exec "$_rs_w" -IS "$RUNSPEC_INSIDE" launch -- "$@"
    done
    _rs_die 127 "launch: $RUNSPEC_LAUNCH needs ${RUNSPEC_PYTHON:-python3}, which this image does not have"
    ;;
  *) _rs_die 2 "RUNSPEC_LAUNCH: '$RUNSPEC_LAUNCH' is not none, mpi, horovod, torchrun or srun" ;;
esac
