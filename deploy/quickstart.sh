#!/usr/bin/env bash
# Shows Causeway at work, in one command.
#
#   deploy/quickstart.sh                 a gateway and a load over a virtual link; ends with a table. No root, no hugepages
#   deploy/quickstart.sh --seconds N     measure each load for N seconds (default 3)
#   deploy/quickstart.sh --keep          leave the gateway running until Ctrl-C
#   deploy/quickstart.sh --nfs           a Linux guest mounts NFS-Ganesha through the gateway instead (root)
#   deploy/quickstart.sh --no-build      use the programs that are there
#   deploy/quickstart.sh --build-dir D   another build directory than build/
#
# Installs the Debian packages that are missing (this alone needs root or sudo), builds, runs. Everything it writes while it
# runs lies in one private directory; everything it starts is stopped in order when it ends, however it ends.
set -u
cd "$(dirname "$0")/.." || exit 1
. deploy/lib/packages.sh

seconds=3
keep=''
nfs=''
build='build'
must_build=1
run_dir=''
gateway_pid=''
load_pid=''
keeping=''
failed='' # then the files stay

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
indent() { sed 's/^/   /'; }

# fail WHAT [LOG [NEXT]]: what went wrong, the end of its log, what to do.
fail() {
  failed=1
  printf '\nquickstart: %s\n' "$1" >&2
  if [ -n "${2:-}" ] && [ -s "$2" ]; then
    tail -n 12 "$2" | indent >&2
    printf 'The whole log: %s\n' "$2" >&2
  fi
  [ -n "${3:-}" ] && printf 'Next: %s\n' "$3" >&2
  exit 1
}

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }

while [ $# -gt 0 ]; do
  case "$1" in
  --nfs) nfs=1 ;;
  --keep) keep=1 ;;
  --no-build) must_build='' ;;
  --seconds | --build-dir)
    [ $# -ge 2 ] || {
      echo "quickstart: $1 needs a value; see --help" >&2
      exit 2
    }
    if [ "$1" = --seconds ]; then seconds=$2; else build=$2; fi
    shift
    ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    echo "quickstart: unknown option '$1'; see --help" >&2
    exit 2
    ;;
  esac
  shift
done
[[ "$seconds" =~ ^[1-9][0-9]{0,3}$ ]] || {
  echo "quickstart: --seconds $seconds: write a number from 1 to 9999" >&2
  exit 2
}

# Ends one process that this script started: TERM, a time limit, KILL.
stop_process() { # pid, seconds
  local tries
  kill -TERM "$1" 2>/dev/null || return 0
  for ((tries = 0; tries < $2 * 10; ++tries)); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}

# Clients first, so that the gateway sees them leave.
clean_up() {
  trap '' INT TERM HUP
  [ -n "$load_pid" ] && stop_process "$load_pid" 5
  [ -n "$gateway_pid" ] && stop_process "$gateway_pid" 15
  [ -n "$run_dir" ] && [ -z "$failed" ] && rm -rf "$run_dir"
}
interrupted() {
  [ -n "$keeping" ] && exit 0
  exit 130
}
trap clean_up EXIT
trap interrupted INT TERM HUP

build_programs() {
  [ -n "$must_build" ] || return 0
  step "Building in $build/ (the first time takes some minutes)"
  local compiler='g++'
  # ccache keeps its files in the home directory, which system users do not have.
  [ -w "${CCACHE_DIR:-${HOME:-/nonexistent}}" ] && command -v ccache >/dev/null && compiler='ccache g++'
  if [ ! -f "$build/build.ninja" ]; then
    local log
    log=$(mktemp) || exit 1
    CXX="${CXX:-$compiler}" meson setup "$build" >"$log" 2>&1 ||
      fail "meson cannot set up $build/" "$log" "is the directory writable for $(id -un), and are all packages there?"
    rm -f "$log"
  fi
  ninja -C "$build" -j "$(nproc)" --quiet apps/causewayd apps/causewayctl apps/load/causeway-load ||
    fail "the build failed; the compiler's words are above" '' "ninja -C $build shows them again; rm -r $build starts afresh"
}

find_programs() {
  causewayd="$build/apps/causewayd"
  causewayctl="$build/apps/causewayctl"
  causeway_load="$build/apps/load/causeway-load"
  local program
  for program in "$causewayd" "$causewayctl" "$causeway_load"; do
    [ -x "$program" ] || fail "there is no $program" '' "run without --no-build, or name the directory with --build-dir"
  done
}

# CPUs that this process may use: gateway and load get one each when there are two.
choose_cpus() {
  local list range cpus=()
  list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  for range in ${list//,/ }; do
    # DPDK names CPUs 0 to 127.
    mapfile -t -O ${#cpus[@]} cpus < <(seq "${range%-*}" "${range#*-}" | awk '$1 < 128')
  done
  [ ${#cpus[@]} -gt 0 ] || fail "no CPU below 128 is allowed for this process (allowed: $list)" '' "taskset -c 0 $0"
  load_cpu=${cpus[0]}
  poll_cpu=${cpus[1]:-${cpus[0]}}
  main_cpu=${cpus[2]:-$poll_cpu}
  if [ "$load_cpu" = "$poll_cpu" ]; then
    say "One CPU: gateway and load share it, so the figures are of both together."
  fi
}

# A private directory, short enough for UNIX sockets (107 characters).
make_run_dir() {
  local parent=/tmp
  [ -n "${XDG_RUNTIME_DIR:-}" ] && [ -w "$XDG_RUNTIME_DIR" ] && [ ${#XDG_RUNTIME_DIR} -lt 60 ] && parent=$XDG_RUNTIME_DIR
  run_dir=$(mktemp -d "$parent/causeway.XXXXXX") || fail "cannot make a directory in $parent"
  # DPDK's own files go here too, root's as well.
  export RUNTIME_DIRECTORY=$run_dir XDG_RUNTIME_DIR=$run_dir
  device="socket=$run_dir/link.sock,socket-abstract=no,bsize=8192"
  admin="$run_dir/admin.sock"
}

# 9464 when nobody has it, else any.
choose_metrics_port() {
  metrics=$(
    python3 - <<'PYTHON'
import socket
for port in (9464, 0):
    try:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            print("127.0.0.1:%d" % s.getsockname()[1])
            break
    except OSError:
        pass
PYTHON
  )
  [ -n "$metrics" ] || fail "no TCP port of 127.0.0.1 is free for the metrics"
}

write_config() {
  cat >"$run_dir/causeway.toml" <<TOML
# Written by deploy/quickstart.sh; deploy/config/causeway.toml explains every key.
[gateway]
instance = "quickstart-$$"
[dataplane]
main_lcore = $main_cpu
poll_lcores = [$poll_cpu]
hugepages = false
[[port]]
device = "net_memif0,role=server,$device"
mtu = 4500
addresses = ["10.9.0.1/24"]
[[listener]]
backend = "bench"
[[backend]]
name = "bench"
type = "builtin"
programs = ["bench"]
[admin]
socket = "$admin"
[metrics]
listen = "$metrics"
TOML
}

start_gateway() {
  local log="$run_dir/causewayd.log" tries
  : >"$log" # there before it is looked into
  "$causewayd" --config "$run_dir/causeway.toml" >"$log" 2>&1 &
  gateway_pid=$!
  for ((tries = 0; tries < 300; ++tries)); do
    if grep -q 'causewayd: ready' "$log"; then
      say "ready: process $gateway_pid, metrics http://$metrics/metrics"
      return
    fi
    if ! kill -0 "$gateway_pid" 2>/dev/null; then
      gateway_pid=''
      fail "causewayd ended at its start" "$log" "its last line says why; $causewayd --verbose shows DPDK's messages"
    fi
    sleep 0.1
  done
  fail "causewayd was not ready within 30 s" "$log" "is the machine very busy?"
}

load_arguments() {
  printf '%s\n' --device "net_memif0,role=client,$device" --address 10.9.0.2/24 --server 10.9.0.1 --mtu 4500 --lcore "$load_cpu"
}

# A look at the running gateway, while a load is under way.
look() {
  sleep 0.5
  case "$1" in
  metrics)
    say "   \$ curl http://$metrics/metrics"
    python3 -c 'import sys, urllib.request
text = urllib.request.urlopen(sys.argv[1], timeout=5).read().decode()
shown = ("causeway_connections ", "causeway_rpcrdma_credits_granted ", "causeway_backend_calls_total", "causeway_port_packets_total")
print("\n".join(line for line in text.splitlines() if line.startswith(shown)))
print("... %d series in all" % sum(1 for line in text.splitlines() if not line.startswith("#")))' "http://$metrics/metrics" |
      indent
    ;;
  *)
    say "   \$ causewayctl $1"
    # shellcheck disable=SC2086  # a command and its argument
    "$causewayctl" --socket "$admin" $1 2>&1 | indent
    ;;
  esac
}

# run_load NAME WHAT-TO-LOOK-AT options...: one load with its progress; the result goes to NAME.json.
run_load() {
  local name=$1 view=$2 log line arguments looked='' ended='' status
  shift 2
  mapfile -t arguments < <(load_arguments)
  log="$run_dir/$name.log"
  : >"$log"
  # By lines, so that progress is seen while it is made.
  stdbuf -oL "$causeway_load" "${arguments[@]}" --seconds "$seconds" --json "$run_dir/$name.json" "$@" >"$log" 2>&1 &
  load_pid=$!
  exec 3<"$log"
  while :; do
    kill -0 "$load_pid" 2>/dev/null || ended=1
    while IFS= read -r line <&3; do
      case "$line" in
      *'connections up over '*) say "   $line" && [ -z "$looked" ] && looked=1 && look "$view" ;;
      *RPC/s*p50*) say " $line" ;;
      esac
    done
    [ -n "$ended" ] && break
    sleep 0.2
  done
  exec 3<&-
  wait "$load_pid"
  status=$?
  load_pid=''
  kill -0 "$gateway_pid" 2>/dev/null || {
    gateway_pid=''
    fail "causewayd ended during this load" "$run_dir/causewayd.log"
  }
  [ "$status" -eq 0 ] || fail "causeway-load found something wrong (exit status $status)" "$log" "the gateway's log is $run_dir/causewayd.log"
}

run_loads() {
  step "1/5 latency: echo of 64 bytes, one call at a time"
  run_load '1 echo 64 B, one at a time' status --op echo --bytes 64 --connections 1 --window 1
  step "2/5 rate: echo of 64 bytes, 32 calls in flight"
  run_load '2 echo 64 B, 32 in flight' connections --op echo --bytes 64 --connections 1 --window 32
  step "3/5 reading: the client asks for 256 KiB, which the gateway places by RDMA Write"
  run_load '3 source 256 KiB, 8 in flight' 'stats causeway_rpcrdma_chunk' --op source --bytes 262144 --connections 1 --window 8
  step "4/5 writing: the client sends 256 KiB, which the gateway fetches by RDMA Read"
  run_load '4 sink 256 KiB, 8 in flight' 'stats causeway_rpcrdma_chunk' --op sink --bytes 262144 --connections 1 --window 8
  step "5/5 many connections: echo of 64 bytes over 48 of them"
  run_load '5 echo 64 B, 48 connections x 4' metrics --op echo --bytes 64 --connections 48 --window 4
}

print_table() {
  local share='one CPU for the gateway, one for the load'
  [ "$load_cpu" = "$poll_cpu" ] && share='gateway and load on one CPU'
  step "Results: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $share, memif link"
  python3 - "$run_dir" <<'PYTHON'
import json, pathlib, sys
print("   %-34s %10s %8s %12s %12s" % ("operation", "RPC/s", "GB/s", "p50 us", "p99 us"))
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    r = json.loads(path.read_text())
    print("   %-34s %10.0f %8.2f %12.1f %12.1f" % (path.stem[2:], r["calls_per_second"], r["data_bytes_per_second"] / 1e9,
                                                r["latency_us"]["p50"], r["latency_us"]["p99"]))
PYTHON
  say "   Every answer was checked; echo counts its data both ways."
}

print_next() {
  step "What next"
  local while_it_runs=', while the gateway runs (--keep)'
  [ -n "$keep" ] && while_it_runs=''
  say "   live page     http://$metrics/$while_it_runs"
  say "   metrics       http://$metrics/metrics$while_it_runs"
  say "   more load     $causeway_load --help"
  say "   configure     deploy/config/causeway.toml, every key explained; $causewayd --check-config FILE"
  say "   NFS           sudo deploy/quickstart.sh --nfs    (a Linux guest mounts NFS-Ganesha through the gateway)"
  say "   test          tests/run.sh"
  say "   read          README.md"
}

keep_running() {
  step "The gateway runs until Ctrl-C"
  say "   $causewayctl --socket $admin status"
  say "   $causeway_load $(load_arguments | tr '\n' ' ')--op echo --bytes 64"
  say "   log: $run_dir/causewayd.log"
  keeping=1
  wait "$gateway_pid"
  local status=$?
  gateway_pid=''
  keeping=''
  fail "causewayd ended by itself (exit status $status)" "$run_dir/causewayd.log"
}

run_nfs() {
  [ "$(id -u)" -eq 0 ] || fail "the NFS demonstration needs root, for network namespaces and the servers in them" '' "sudo $0 --nfs"
  ensure_packages build interop || exit 1
  offer_npm
  build_programs
  find_programs
  CAUSEWAYD="$causewayd" python3 tests/interop/demo.py ||
    fail "the demonstration did not reach its end; what happened is above" '' "tests/interop/README.md, section \"Run\": its two modes without causewayd tell whose fault it is"
  step "What next"
  say "   mount your own        docs/nfs.md; deploy/ganesha/ganesha.conf"
  say "   a shell in the guest  tests/interop/run.py --shell"
}

if [ -n "$nfs" ]; then
  run_nfs
  exit 0
fi
[ -z "$must_build" ] || ensure_packages build || exit 1
[ -z "$must_build" ] || offer_npm
build_programs
find_programs
choose_cpus
make_run_dir
choose_metrics_port
write_config
step "Starting the gateway"
start_gateway
run_loads
print_table
print_next
[ -z "$keep" ] || keep_running
exit 0
