#!/usr/bin/env bash
# Runs the benches and sums up.
#
#   tests/bench/run.sh BUILD_DIR            smoke: every bench for a moment, to see that it runs and answers rightly
#   tests/bench/run.sh BUILD_DIR --full     figures, from a release build of its own in BUILD_DIR/release (deploy/build-release.sh; an hour)
#
# BUILD_DIR/bench/summary.json holds a row per figure: name, value, unit; baseline and ratio where something stands next to it; spread.
# Below the figures stand the targets and what of them was reached (README.md). A bench passes when it ran and its figures make sense,
# never by their size: the machine is not ours alone. Only instructions.py --gate compares, since it counts. The last line is
# "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] && [ -d "$1" ] || {
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
build=$(cd "$1" && pwd)
full=''
[ "${2:-}" = --full ] && full=--full
out=$build/bench
mkdir -p "$out"
rm -f "$out"/*.json "$out"/*.log
passed=0
failed=0

stacks='connections cores latency socket_loop'
targets='tests/bench/icrc_bench tests/bench/parse_bench tests/bench/recorder_bench tests/bench/rpc_pair_bench'
for name in $stacks; do targets="$targets tests/bench/${name}_bench"; done
has_dpdk=''
[ -e "$build/apps/causewayd" ] && has_dpdk=1
[ -n "$has_dpdk" ] && targets="$targets tests/bench/core_distance tests/bench/handoff_bench tests/bench/tcp_peer apps/causewayd
  apps/causewayctl apps/load/causeway-load tests/peers/causeway-verbs-peer"
if [ -n "$full" ]; then
  release=$build/release
  CXX="${CXX:-ccache g++}" "$here/../../deploy/build-release.sh" "$release" --targets "$targets" >"$out/build.log" 2>&1 ||
    {
      tail -n 20 "$out/build.log"
      echo '0 passed, 1 failed'
      exit 1
    }
  build=$release
else
  # shellcheck disable=SC2086  # one argument per target
  ninja -C "$build" --quiet $targets || {
    echo '0 passed, 1 failed'
    exit 1
  }
fi

bench() { # name, command...
  local name=$1
  shift
  echo "-- $name"
  if "$@" >"$out/$name.log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL: $name"
  fi
  cat "$out/$name.log"
}

google=(--benchmark_min_time=0.002 --benchmark_repetitions=1)
pair=(--repeats 3 --calls 200)
repeats=(--repeats 1)
if [ -n "$full" ]; then
  google=(--benchmark_min_time=0.05 --benchmark_repetitions=9 --benchmark_report_aggregates_only=false --benchmark_enable_random_interleaving=true)
  pair=(--repeats 201 --calls 4000)
  repeats=() # as many as each takes by itself
fi
for name in icrc parse recorder; do
  bench "$name" "$build/tests/bench/${name}_bench" "${google[@]}" --benchmark_out="$out/$name.json" --benchmark_out_format=json
done
bench rpc_pair "$build/tests/bench/rpc_pair_bench" "${pair[@]}" --json "$out/rpc_pair.json"
# The one bench that fails by a figure: it has no noise.
[ -z "$full" ] && bench instructions python3 "$here/instructions.py" "$build" --gate
for name in $stacks; do
  bench "$name" "$build/tests/bench/${name}_bench" "${repeats[@]}" --json "$out/$name.json"
done
if [ -n "$has_dpdk" ]; then
  bench handoff "$build/tests/bench/handoff_bench" "${repeats[@]}" --json "$out/handoff.json"
  for name in link gateway messages scrape iwarp; do
    bench "$name" python3 "$here/${name}_bench.py" "$build" $full --json "$out/$name.json"
  done
fi

if python3 "$here/summary.py" "$out" ${full:+"release build with profile"}; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
