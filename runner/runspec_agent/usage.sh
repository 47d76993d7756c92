# Samples what a job with signed URLs uses, in a POSIX sh without Python: signed.sh runs it in a subshell, beside the
# program with the process id _rs_pid, if the list of files contains it. It adds to the file of _rs_dir that signed.sh
# uploads at the end, and uploads it to the URL _rs_use meanwhile. runspec_agent.usage.series describes the record.
# Names of variables begin with _rs_; those of signed.sh must not change, except in this subshell.

# The children of a process are listed by kernels with CONFIG_PROC_CHILDREN: proc_pid_tid_children(5).
[ -r "/proc/$$/task/$$/children" ] || exit 0
set +f
_rs_nap=
trap '[ -z "$_rs_nap" ] || kill "$_rs_nap"; exit 0' TERM

# _rs_tree PID: adds the ticks, of which a second has 100, and the pages of a process and its descendants.
_rs_tree() {
  _rs_l=
  read -r _rs_l <"/proc/$1/stat" || return 0
  # pid (name) state ppid ...: proc_pid_stat(5). The name may contain any character.
  set -- "$1" ${_rs_l##*) }
  [ $# -ge 23 ] || return 0
  _rs_cpu=$((_rs_cpu + ${13} + ${14} + ${15} + ${16})) _rs_mem=$((_rs_mem + ${23})) _rs_kids=
  for _rs_l in "/proc/$1/task/"*/children; do
    _rs_w=
    read -r _rs_w <"$_rs_l"
    _rs_kids="$_rs_kids $_rs_w"
  done
  for _rs_w in $_rs_kids; do
    _rs_tree "$_rs_w"
  done
}

# _rs_clock: sets _rs_now to the hundredths of a second since the boot.
_rs_clock() {
  read -r _rs_now _rs_w </proc/uptime
  _rs_now=${_rs_now%.*}${_rs_now#*.}
}

# _rs_disk: sets _rs_size and _rs_full to the KiB of the file system with the temporary folder.
_rs_disk() {
  set -- $(df -Pk "$_rs_dir" | tail -n 1)
  _rs_size=${2:-0} _rs_full=${3:-0}
}

# _rs_smi: sets _rs_gpus to the percent and the MiB of each GPU, and _rs_gmem to their sizes in bytes.
_rs_smi() {
  _rs_gpus= _rs_gmem=
  _rs_w=$(nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits) || return 0
  set -- $_rs_w
  while [ $# -ge 3 ]; do
    case $1$2$3 in *[!0-9,]*) return 0 ;; esac
    _rs_gpus=$_rs_gpus,${1%,},${2%,}
    _rs_gmem=$_rs_gmem${_rs_gmem:+,}$(($3 * 1048576))
    shift 3
  done
}

_rs_clock
_rs_zero=$_rs_now _rs_then=$_rs_now _rs_used=0 _rs_n=0 _rs_smis= _rs_gpus= _rs_gmem=
_rs_kib=$(($(getconf PAGESIZE || echo 4096) / 1024))
_rs_cpus=$(nproc || getconf _NPROCESSORS_ONLN || echo 1)
while read -r _rs_w _rs_total _rs_l; do
  case $_rs_w in MemTotal:) break ;; esac
done </proc/meminfo
_rs_total=$((_rs_total * 1024))
for _rs_l in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  _rs_w=
  read -r _rs_w <"$_rs_l"
  case $_rs_w in '' | *[!0-9]*) ;; *) [ "$_rs_w" -gt "$_rs_total" ] || _rs_total=$_rs_w ;; esac
done
_rs_why='there is no nvidia-smi'
if _rs_has nvidia-smi; then
  _rs_why='nvidia-smi printed no figures' _rs_smis=1
  _rs_smi
  [ -z "$_rs_gmem" ] || _rs_why=
fi
_rs_disk
printf '{"format":"runspec.usage/v1","of":"processes","began_s":%s,"every_s":10,"cpus":%s,"memory_bytes":%s,"disk_bytes":%s,"gpus":[%s],"no_gpus":"%s"}\n' \
  "$(date +%s || echo 0)" "$_rs_cpus" "$_rs_total" "$((_rs_size * 1024))" "$_rs_gmem" "$_rs_why" >"$_rs_dir/usage"

while :; do
  case $_rs_n in [0-4]) set -- 1 ;; *) set -- 10 ;; esac
  sleep "$1" &
  _rs_nap=$!
  wait "$_rs_nap"
  _rs_nap= _rs_n=$((_rs_n + 1)) _rs_cpu=0 _rs_mem=0
  _rs_tree "$_rs_pid"
  [ "$_rs_mem" -gt 0 ] || continue
  _rs_clock
  # A minute apart, because each start of nvidia-smi takes processor time; hundredths of processors.
  [ -z "$_rs_smis" ] || [ $((_rs_n % 6)) -gt 0 ] || _rs_smi
  [ $((_rs_n % 6)) -gt 0 ] || _rs_disk
  _rs_w=$(((_rs_cpu - _rs_used) * 100 / (_rs_now > _rs_then ? _rs_now - _rs_then : 1)))
  [ "$_rs_w" -ge 0 ] || _rs_w=0
  printf '[%d.%02d,%d.%02d,%d,%d%s]\n' $(((_rs_now - _rs_zero) / 100)) $(((_rs_now - _rs_zero) % 100)) \
    $((_rs_w / 100)) $((_rs_w % 100)) $(((_rs_mem * _rs_kib + 1023) / 1024)) $((_rs_full / 1024)) "$_rs_gpus" >>"$_rs_dir/usage"
  _rs_then=$_rs_now _rs_used=$_rs_cpu
  # The first time after a minute, and then every five minutes.
  case $((_rs_n % 30)) in 10) _rs_once "$_rs_use" "$_rs_dir/usage" "$_rs_dir/use" ;; esac
done
