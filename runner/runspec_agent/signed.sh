# The agent of jobs that access the store with signed URLs, without a role and without the Python agent: it needs a
# POSIX sh, and curl, python3 or wget.
#
#     RUNSPEC_FILES=URL sh -c "$(cat signed.sh)" "$(cat inside.sh)" WORD...
#
# Like runspec_agent.job.agent in other jobs, it claims the run, downloads inputs, lets inside.sh run the words, and
# uploads outputs. RUNSPEC_FILES is the signed URL of a list of NAME=VALUE lines, which describe the job. Anyone who has
# a signed URL can use it, so URLs are neither printed nor passed to the program.
# Requests contain this script, like inside.sh, without comments and indentation, so the Python below has no blocks.
# Names of variables begin with _rs_.

_rs_tell() {
  printf 'runspec: %s\n' "$1" >&2
}

_rs_die() {
  _rs_tell "$2"
  exit "$1"
}

_rs_has() {
  command -v "$1" >/dev/null 2>&1
}

trap 'exit 143' TERM
_rs_had=${LC_ALL+x} _rs_lc=${LC_ALL-}
LC_ALL=C
set -f

# 1. The variables of the contract. The children of an array job share the run, and so the job id before the colon.
for _rs_w in ${RUNSPEC_WORDS-}; do
  eval "[ -z \"\${${_rs_w#*=}+x}\" ] || export ${_rs_w%%=*}=\"\$${_rs_w#*=}\""
done
_rs_list=${RUNSPEC_FILES-} _rs_job=${RUNSPEC_JOB-}
_rs_job=${_rs_job%%[:#]*}
unset RUNSPEC_FILES RUNSPEC_WORDS
_rs_nth=${RUNSPEC_ATTEMPT-}
[ "$_rs_list" ] && [ "$_rs_job" ] || _rs_die 2 'RUNSPEC_FILES and RUNSPEC_JOB must be set'
export RUNSPEC_TASK="${RUNSPEC_INDEX:-0}" RUNSPEC_RANK=0 RUNSPEC_ATTEMPT="${RUNSPEC_ATTEMPT:-1}"
export RUNSPEC_NODES=1 RUNSPEC_LAUNCH=none

# 2. The tool for requests to the store. Only GNU wget can PUT; it is recognized by its --version.
_rs_tool= _rs_puts=1 _rs_own= _rs_taken= _rs_most=5368709120 _rs_ca=${SSL_CERT_FILE-}
for _rs_w in curl python3 wget; do
  [ "$_rs_tool" ] || ! _rs_has "$_rs_w" || _rs_tool=$_rs_w
done
[ "$_rs_tool" ] || _rs_die 69 'this image has no curl, wget or python3: add one of them'
if [ "$_rs_tool" = wget ]; then
  case $(wget --version 2>/dev/null) in
    'GNU Wget'*) ;;
    *) _rs_tool=plain _rs_puts= ;;
  esac
fi
# The wget of busybox does not check certificates, and nothing else proves that the list is genuine.
case $_rs_tool$_rs_list in
  plainhttps:*) _rs_die 69 'this wget does not check certificates: add curl, python3 or GNU wget' ;;
esac
_rs_top=${RUNSPEC_BELOW-}
[ -z "$_rs_top" ] || _rs_top=$(cd -- "$_rs_top" && pwd) || _rs_die 2 "RUNSPEC_BELOW: no folder '$RUNSPEC_BELOW'"
_rs_top=${_rs_top%/}
{ read -r _rs_w </proc/sys/kernel/random/uuid; } 2>/dev/null || _rs_w=$$
_rs_dir=${TMPDIR:-/tmp}/runspec-$_rs_w
trap 'rm -rf "$_rs_dir"' EXIT
mkdir -p "${TMPDIR:-/tmp}" && mkdir -m 700 "$_rs_dir" || _rs_die 73 "cannot write to ${TMPDIR:-/tmp}"

_rs_py='import os,shutil,sys,urllib.request as u
class P(u.HTTPErrorProcessor): http_response=https_response=lambda s,q,r:r
c,b,g,*h=sys.argv[1:]
if c: os.environ["SSL_CERT_FILE"]=c
h=dict(x.split(": ") for x in h)
if b: h.update({"Content-Length":str(os.path.getsize(b)),"Content-Type":"application/octet-stream"})
q=u.Request(sys.stdin.readline().strip(),open(b,"rb") if b else None,h,method="PUT" if b else "GET")
r=u.build_opener(P).open(q,timeout=60)
with open(g,"wb") as o: shutil.copyfileobj(r,o)
print(r.status if r.headers["Content-Length"] in (None,str(os.path.getsize(g))) else "000")'

# _rs_own: a header for every PUT, if the store requires one.
# _rs_once URL SENT GOT [HEADER]: sends one request, and sets _rs_code to the status of the reply, to 000 if there was
# no complete reply, and to tls if the certificate is not trusted. _rs_ca is the file of trusted CA certificates, or
# empty for the tool's own. SENT is the file to PUT, or empty for a GET; GOT is the file for the body of the reply. URLs
# are passed on stdin if possible, since other users can see argv.
_rs_once() {
  _rs_u=$1 _rs_b=$2 _rs_g=$3
  shift 3
  [ -z "$_rs_b" ] || set -- "$@" ${_rs_own:+"$_rs_own"}
  case $_rs_tool in
    curl)
      set -- ${_rs_ca:+--cacert "$_rs_ca"} ${_rs_b:+-T "$_rs_b"} ${1:+-H "$1"} ${2:+-H "$2"}
      _rs_code=$(printf 'url = "%s"\n' "$_rs_u" | curl -q -K - -g -s -o "$_rs_g" -w '%{http_code}' \
        --connect-timeout 20 --speed-limit 1 --speed-time 60 "$@" 2>/dev/null) ||
        case $? in 60 | 77) _rs_code=tls ;; *) _rs_code=000 ;; esac
      ;;
    python3)
      _rs_code=$(printf '%s\n' "$_rs_u" | python3 -IS -c "$_rs_py" "$_rs_ca" "$_rs_b" "$_rs_g" "$@" 2>&1) ||
        case $_rs_code in *VERIFY_FAILED*) _rs_code=tls ;; *) _rs_code=000 ;; esac
      ;;
    wget)
      set -- ${_rs_ca:+--ca-certificate="$_rs_ca"} ${_rs_b:+--method=PUT --body-file="$_rs_b" --header=Content-Type:application/octet-stream} ${1:+--header="$1"} ${2:+--header="$2"}
      _rs_w=$(printf '%s\n' "$_rs_u" | wget --no-config -i - -S -T 60 -t 1 --max-redirect=0 -O "$_rs_g" "$@" 2>&1)
      _rs_status $? "$_rs_w"
      ;;
    plain)
      # No -T: busybox 1.35 of Debian rejects this option, and crashes.
      _rs_w=$(wget -S -O "$_rs_g" "$_rs_u" 2>&1)
      _rs_status $? "$_rs_w"
      ;;
  esac
}

# _rs_status ENDED SAID: sets _rs_code from the exit code and the messages of wget. A 2xx status counts only if wget
# exited with 0. GNU wget exits with 5 for an untrusted certificate:
# https://www.gnu.org/software/wget/manual/html_node/Exit-Status.html
_rs_status() {
  _rs_code=000 _rs_p=
  for _rs_w in $2; do
    case $_rs_p in HTTP/*) _rs_code=$_rs_w ;; esac
    _rs_p=$_rs_w
  done
  case $1:$_rs_code in 5:*) _rs_code=tls ;; 0:000) _rs_code=200 ;; 0:*) ;; *:2*) _rs_code=000 ;; esac
}

# _rs_cas: sets _rs_ca to the CA bundle at one of the usual paths; fails if none exists, or if _rs_ca is already set.
_rs_cas() {
  [ -z "$_rs_ca" ] || return 1
  for _rs_w in ssl/certs/ca-certificates.crt pki/tls/certs/ca-bundle.crt ssl/ca-bundle.pem ssl/cert.pem; do
    [ "$_rs_ca" ] || [ ! -s /etc/$_rs_w ] || _rs_ca=/etc/$_rs_w
  done
  [ "$_rs_ca" ]
}

# _rs_ask URL SENT GOT [HEADER]: like _rs_once, but repeats the request while the store is busy or cannot be reached.
_rs_ask() {
  for _rs_s in 1 2 4 8; do
    _rs_once "$@"
    case $_rs_code$_rs_taken in
      tls*) _rs_cas || return 0 ;;
      507*) return 0 ;;
      000* | 409 | 429* | 5*) sleep $_rs_s ;;
      *) return ;;
    esac
  done
  _rs_once "$@"
}

# _rs_why: sets _rs_w to a message for _rs_code.
_rs_why() {
  case $_rs_code in
    000) _rs_w='the store cannot be reached, or its reply was cut off' ;;
    tls) _rs_w="the store's certificate is not trusted: install ca-certificates, or set SSL_CERT_FILE or the clock" ;;
    403) _rs_w='the store refused the request (403): the signed URL has expired, or its signer has no permission' ;;
    404) _rs_w='the object does not exist (404): the run may have been destroyed' ;;
    507) _rs_w='the store is full' _rs_lost=full ;;
    *) _rs_w="the store answered with status $_rs_code" ;;
  esac
}

_rs_fail() {
  _rs_why
  case $_rs_code in
    403) _rs_die 77 "$1: $_rs_w" ;;
    tls) _rs_die 69 "$1: $_rs_w" ;;
    4* | 501) _rs_die 2 "$1: $_rs_w" ;;
    507) _rs_die 1 "$1: $_rs_w" ;;
    *) _rs_die 75 "$1: $_rs_w" ;;
  esac
}

_rs_get() {
  _rs_ask "$2" '' "$3"
  [ "$_rs_code" = 200 ] || _rs_fail "cannot download $1"
}

_rs_unpack() {
  # Unless the user is root, GNU tar applies the umask without -p, and busybox always does. Both make missing folders.
  (umask 022 && tar -xpf "$_rs_dir/tar" -C "$_rs_at") || _rs_die 75 "cannot unpack the files for $_rs_at"
  rm -f "$_rs_dir/tar"
}

# _rs_digest FILE BYTES: prints the digest of a file. If _rs_parts is set, that of a larger file is the digest of the
# list of the digests of its parts of 8 MiB. dd finds a part without reading those before it.
_rs_digest() {
  if [ -z "$_rs_parts" ] || [ "$2" -le 8388608 ]; then
    sha256sum <"$1"
    return
  fi
  _rs_i=0
  while [ $((_rs_i * 8388608)) -lt "$2" ]; do
    _rs_w=$(dd bs=8388608 skip=$_rs_i count=1 <"$1" 2>/dev/null | sha256sum)
    printf '%s\n' "${_rs_w%% *}"
    _rs_i=$((_rs_i + 1))
  done | sha256sum
}

# _rs_compare DIGEST: exits if the folder at _rs_at has another digest, which is that of the list of its files, as
# runspec_jobs.load.bundle makes it. Some short programs run for each file.
_rs_compare() {
  _rs_w=
  for _rs_p in find ls sha256sum sort ${_rs_parts:+dd}; do
    _rs_has "$_rs_p" || _rs_w="this image has no $_rs_p"
  done
  case $(find "$_rs_at" -name '*
*') in ?*) _rs_w='a file name contains a line break' ;; esac
  [ -z "$_rs_w" ] || {
    _rs_tell "the files in $_rs_at were not compared with the upload: $_rs_w"
    return 0
  }
  _rs_w=$(
    cd -- "$_rs_at" || exit
    {
      printf 'runspec.bundle/v%s\n' "${_rs_parts:-1}"
      find . -type f | sort | while IFS= read -r _rs_p; do
        # mode links owner group bytes ...
        set -- $(ls -ln "$_rs_p")
        case $1 in -??x*) _rs_k=x ;; *) _rs_k=- ;; esac
        set -- $(_rs_digest "$_rs_p" "$5") $5
        printf '%s %s %s %s\0' "$1" $_rs_k "$3" "${_rs_p#./}"
      done
    } | sha256sum
  )
  [ "${_rs_w%% *}" = "$1" ] ||
    _rs_die 2 "the files in $_rs_at differ from the upload: run runspec destroy --shared, and apply again"
}

_rs_needs_tar() {
  _rs_has tar || _rs_die 69 'this image has no tar, which mounts and outputs need'
}

# 3. The claim: after a lost reply, there may be several jobs of one run; only one of them runs the program.
# _rs_claim PUT-URL GET-URL: exits unless this job has the claim.
_rs_claim() {
  if [ "$_rs_puts" ]; then
    printf '%s' "$_rs_job" >"$_rs_dir/claim"
    # If the claim exists, S3 answers 412, and Azure 409; a 409 of S3 is transient. Only Azure requires a header.
    _rs_taken=${_rs_own:+ taken}
    _rs_ask "$1" "$_rs_dir/claim" "$_rs_dir/holder" 'If-None-Match: *'
    _rs_taken=
    case $_rs_code in
      2*) return ;;
      412 | 409) _rs_get 'the claim' "$2" "$_rs_dir/holder" ;;
      *) _rs_fail 'cannot claim the run' ;;
    esac
  else
    _rs_tell 'this wget cannot claim the run: a duplicate job would also run'
    _rs_ask "$2" '' "$_rs_dir/holder"
    [ "$_rs_code" = 200 ] || return 0
  fi
  _rs_w=
  IFS= read -r _rs_w <"$_rs_dir/holder" || :
  case $_rs_w in
    "$_rs_job") ;;
    cancelled) _rs_die 143 'cancelled, leaving' ;;
    *) _rs_die 0 "duplicate of $_rs_w, leaving" ;;
  esac
}

# _rs_bad: exits since the folder at _rs_at cannot be created.
_rs_bad() {
  _rs_die 73 "cannot create $_rs_at"
}

# 4. _rs_before carries out a line of the list before the program runs, and _rs_after afterwards.
_rs_before() {
  case $_rs_k in
    header) _rs_own=$_rs_v ;;
    most) _rs_most=$_rs_v ;;
    claim) _rs_put=$_rs_v ;;
    holder) _rs_claim "$_rs_put" "$_rs_v" ;;
    slots) export RUNSPEC_SLOTS="$_rs_v" ;;
    batch) export RUNSPEC_GLOBAL_BATCH="$_rs_v" ;;
    mount | output) _rs_var=$_rs_v ;;
    at)
      _rs_at=$_rs_top$_rs_v
      export "$_rs_var=$_rs_at"
      ;;
    link)
      mkdir -p "$_rs_top$_rs_v" "${_rs_at%/*}" || _rs_bad
      [ -L "$_rs_at" ] || ln -s "$_rs_top$_rs_v" "$_rs_at" || _rs_bad
      ;;
    get)
      _rs_needs_tar
      mkdir -p "$_rs_at" || _rs_bad
      # Files of the image or of an earlier attempt cannot be told apart from those of the upload.
      [ -z "$(find "$_rs_at" -type f 2>/dev/null)" ] || _rs_sum=
      _rs_get "the files for $_rs_at" "$_rs_v" "$_rs_dir/tar"
      _rs_unpack
      [ -z "$_rs_sum" ] || _rs_compare "$_rs_sum"
      _rs_sum=
      ;;
    sum) _rs_sum=$_rs_v _rs_parts= ;;
    parts) _rs_sum=$_rs_v _rs_parts=2 ;;
    put)
      [ "${_rs_v%% *}" = "$RUNSPEC_TASK" ] || return 0
      _rs_needs_tar
      [ "$_rs_puts" ] || _rs_die 69 'outputs need curl, python3 or GNU wget in the image'
      mkdir -p "$_rs_at" || _rs_bad
      ;;
    back | again)
      # The outputs that an earlier attempt saved, perhaps on another machine. `again`: attempts have no numbers.
      [ "${_rs_v%% *}" = "$RUNSPEC_TASK" ] || return 0
      [ "$_rs_k" = again ] || [ "$RUNSPEC_ATTEMPT" -gt 1 ] || return 0
      _rs_ask "${_rs_v#* }" '' "$_rs_dir/tar"
      case $_rs_code in
        200) _rs_unpack ;;
        403 | 404) ;;
        *) _rs_fail "cannot download the save of $_rs_at" ;;
      esac
      ;;
    usage) [ "${_rs_v%% *}" != "$RUNSPEC_TASK" ] || _rs_use=${_rs_v#* } ;;
    end)
      [ "${_rs_v%% *}" = "$RUNSPEC_TASK" ] || return 0
      _rs_note=${_rs_v#* }
      [ "$_rs_puts" ] || _rs_die 69 'this wget cannot record how the job ends: add curl, python3 or GNU wget'
      # Without a number, the record of an earlier attempt would count for this one.
      [ "$_rs_nth" ] || _rs_write begun || { [ "$_rs_lost" ] && exit 1 || exit 75; }
      ;;
    limit) _rs_limit=$_rs_v ;;
    signal) _rs_signal=$_rs_v ;;
    sender) _rs_sender=$(printf %b "$_rs_v") ;;
    hidden) _rs_hide=$_rs_v ;;
    sample) _rs_sampler=$(printf %b "$_rs_v") ;;
    sweep)
      # "VARIABLE COUNT", for the parameter that varies fastest first; its values follow, with \n for a newline.
      _rs_var=${_rs_v% *} _rs_w=${_rs_v#* } _rs_i=0
      _rs_pick=$((_rs_left % _rs_w)) _rs_left=$((_rs_left / _rs_w))
      ;;
    with)
      # Another variable of the same factor of the sweep.
      _rs_var=$_rs_v _rs_i=0
      ;;
    value)
      if [ "$_rs_i" -eq "$_rs_pick" ]; then
        _rs_w=$(printf '%b.' "$_rs_v")
        export "$_rs_var=${_rs_w%.}"
      fi
      _rs_i=$((_rs_i + 1))
      ;;
  esac
}

# _rs_write LINE: writes the end record; fails if the store refuses.
_rs_write() {
  echo "$1" >"$_rs_dir/end"
  _rs_ask "$_rs_note" "$_rs_dir/end" "$_rs_dir/said"
  case $_rs_code in 2*) return ;; esac
  _rs_why
  _rs_tell "the exit code cannot be recorded: $_rs_w"
  false
}

_rs_after() {
  case $_rs_k in
    at) _rs_at=$_rs_top$_rs_v ;;
    put) [ "${_rs_v%% *}" != "$RUNSPEC_TASK" ] || _rs_send "${_rs_v#* }" ;;
  esac
}

# The limit of one PUT is 5 GiB: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
_rs_send() {
  mkdir -p "$_rs_at"
  tar -cf "$_rs_dir/tar" -C "$_rs_at" . || _rs_lose 'tar could not read all files'
  [ "$(wc -c <"$_rs_dir/tar")" -le "$_rs_most" ] ||
    _rs_lose "larger than $((_rs_most / 1048576)) MiB, the limit of a signed URL"
  _rs_ask "$1" "$_rs_dir/tar" "$_rs_dir/said"
  rm -f "$_rs_dir/tar"
  case $_rs_code in 2*) return ;; esac
  _rs_why
  _rs_lose "$_rs_w"
}

_rs_lose() {
  _rs_lost=${_rs_lost:-unsaved}
  _rs_tell "not saved: $_rs_at: $1"
}

_rs_walk() {
  while IFS= read -r _rs_v <&3; do
    _rs_k=${_rs_v%%=*} _rs_v=${_rs_v#*=}
    "$1"
  done 3<"$_rs_dir/list"
}

_rs_get 'the list of files' "$_rs_list" "$_rs_dir/list"
_rs_left=$RUNSPEC_TASK _rs_lost= _rs_told= _rs_sum= _rs_use= _rs_side= _rs_note= _rs_limit= _rs_hide= _rs_late= _rs_clock= _rs_signal= _rs_mind=
_rs_walk _rs_before

# 5. The program runs as a child, because outputs are uploaded after it. SIGTERM is forwarded to it, and the exit code
# is then 143. A timeout is a SIGUSR1, after which the exit code is 124.
_rs_stop() {
  [ -z "$_rs_told" ] || return 0
  _rs_told=1
  [ "$_rs_pid" ] || return 0
  kill -TERM "$_rs_pid" 2>/dev/null
  (
    sleep "${RUNSPEC_GRACE_S:-20}"
    kill -KILL "$_rs_pid"
  ) >/dev/null 2>&1 &
  _rs_timer=$!
}

set +f
{ [ "$_rs_had" ] && LC_ALL=$_rs_lc || unset LC_ALL; } 2>/dev/null
_rs_pid= _rs_again=1
trap '_rs_stop; _rs_again=1' TERM
trap '[ "$_rs_told" ] || _rs_late=1; _rs_stop; _rs_again=1' USR1
# A setup writes to a file how it has ended: see runspec_agent/base/program_hooks.py.
[ "${4-}" != runspec-setup ] || export RUNSPEC_SETUP="$_rs_dir/setup"
RUNSPEC_SCRIPTS=$_rs_dir /bin/sh -c "$0" inside "$@" &
_rs_pid=$!
if [ "$_rs_limit" ]; then
  (
    trap 'kill "$_rs_w"; exit 0' TERM
    sleep "$_rs_limit" &
    _rs_w=$!
    wait "$_rs_w" && kill -USR1 $$
  ) >/dev/null 2>&1 &
  _rs_clock=$!
fi
# A script of the list, of runspec_agent/base/program_hooks.py, sends the signal of the spec: "SECONDS NUMBER NAME".
[ -z "$_rs_signal" ] || {
  /bin/sh -c "$_rs_sender" signal $_rs_signal "$_rs_pid" &
  _rs_mind=$!
}
# The signal may have come before the program.
[ -z "$_rs_told" ] || { _rs_told= && _rs_stop; }
# usage.sh, which the list contains, samples what the program uses, if a URL takes the result.
if [ "$_rs_use" ] && [ "$_rs_puts" ]; then
  (eval "$_rs_sampler") >/dev/null 2>&1 &
  _rs_side=$!
fi
while [ "$_rs_again" ]; do
  _rs_again=
  wait "$_rs_pid" 2>/dev/null
  _rs_code=$?
done
trap '' TERM USR1
LC_ALL=C
set -f
_rs_end=$_rs_code _rs_cause=program
[ ! -s "$_rs_dir/setup" ] || {
  read -r _rs_w _rs_own _rs_rest <"$_rs_dir/setup"
  [ "$_rs_own" = 0 ] || _rs_cause=setup
}
for _rs_w in $_rs_clock $_rs_mind; do kill "$_rs_w" 2>/dev/null; done
[ -z "$_rs_side" ] || kill "$_rs_side" 2>/dev/null
[ ! -s "$_rs_dir/usage" ] || _rs_once "$_rs_use" "$_rs_dir/usage" "$_rs_dir/said"
[ -z "$_rs_told" ] || { kill "$_rs_timer" 2>/dev/null; _rs_end=143 _rs_cause=stopped; }
[ -z "$_rs_late" ] || {
  _rs_tell "the attempt took longer than its timeout of $_rs_limit s"
  _rs_end=124 _rs_cause=timeout
}

# 6. Outputs are uploaded also if the program has failed.
_rs_walk _rs_after
[ -z "$_rs_lost" ] || [ "$_rs_end" -ne 0 ] || _rs_end=1 _rs_cause=$_rs_lost

# 7. The end record proves to runspec that the program ran: see runspec_agent/retry/end_record.py. `hidden` is an exit
# code after which the service would start the program again, as after a reclaimed machine.
if [ "$_rs_note" ]; then
  _rs_write "$RUNSPEC_ATTEMPT $_rs_end $_rs_cause" || [ "$_rs_end" -ne 0 ] || _rs_end=1
fi
case $_rs_cause$_rs_end in "program$_rs_hide" | "setup$_rs_hide") _rs_end=1 ;; esac
exit "$_rs_end"
