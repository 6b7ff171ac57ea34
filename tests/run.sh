#!/usr/bin/env bash
# Runs the tests of Causeway.
#
#   tests/run.sh                 what every change has to pass: all suites below
#   tests/run.sh SUITE...        only these
#   tests/run.sh --only NAME     whatever is called so: a GoogleTest case (Suite.Name), a program of `meson test`, a case of ops or
#                                interop; without an exact match, what has NAME in its name. Builds no more than that takes
#   tests/run.sh interop --full  the whole interoperability matrix (hours)
#   tests/run.sh fuzz --full     besides the replay, each target for FUZZ_SECONDS (60) with clang's libFuzzer
#   tests/run.sh containers      the container image, built and run by podman (root; minutes, some 100 MB of packages the first time)
#
# Suites: unit golden sim fuzz tidy (one build), asan (the same under sanitizers, without DPDK), tsan (whatever has threads, under
# ThreadSanitizer), ops (programs as a user runs them), interop (a Linux guest mounts NFS through the gateway; root), bench
# (figures; a smoke run unless --full), clang-tidy. Without suites clang-tidy looks at what has changed since the merge base with main, ten
# seconds of CPU time a file, for five minutes at most (CLANG_TIDY_SECONDS), and at nothing when more than 100 have changed; asked for by
# name, at everything (half an hour on two CPUs). In the same way tidy compiles headers by themselves: those that have changed, or all.
# The replay of the fuzz corpora runs in one build: under the sanitizers where asan is among the suites.
# MAIN_BUILD_OPTIONS: of meson, for the first build when it is not there yet.
# Ends with the seconds that each stage took, the tests that failed and that were skipped, and, as the last line, "N passed, N failed" over
# everything; exit status 1 when something failed. A skipped test counts as failed unless tests/skips.tsv allows its reason here. Without
# suites, every test that proves a statement of an RFC has to have run. build/outcomes.tsv has a line per test.
set -u
cd "$(dirname "$0")/.." || exit 1
. deploy/lib/packages.sh

full=''
only=''
suites=()
while [ $# -gt 0 ]; do
  case "$1" in
  --full) full='--full' ;;
  --only)
    only=${2:?'--only: the name of a test or case is missing'}
    shift
    ;;
  -h | --help)
    sed -n '2,24s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  unit | golden | sim | fuzz | tidy | clang-tidy | asan | tsan | ops | interop | bench | containers) suites+=("$1") ;;
  *)
    echo "tests/run.sh: unknown suite '$1'; see --help" >&2
    exit 2
    ;;
  esac
  shift
done
whole=''
[ ${#suites[@]} -eq 0 ] && [ -z "$only" ] && whole=1 && suites=(unit golden sim fuzz tidy clang-tidy asan tsan ops interop bench)
[ -n "$whole" ] && export HEADERS_CHANGED=1

main_build=build
outcomes=$PWD/$main_build/${only:+only-}outcomes.tsv
wants() {
  local suite
  for suite in ${suites[@]+"${suites[@]}"}; do [ "$suite" = "$1" ] && return 0; done
  return 1
}
record() { python3 tests/tidy/outcomes.py "$outcomes" add "$@"; } # suite, what came of it

# What follows is a new stage, until the next one.
stage_title=''
stage_start=0
stage_seconds=()
stage() {
  end_stage
  stage_title=$1
  stage_start=$SECONDS
  echo "== $stage_title"
}
end_stage() {
  [ -n "$stage_title" ] && stage_seconds+=("$(printf '%5d  %s' $((SECONDS - stage_start)) "$stage_title")")
  stage_title=''
}
finish() {
  end_stage
  echo
  echo "Seconds of each stage ($SECONDS in all):"
  printf '%s\n' "${stage_seconds[@]}"
  echo
  python3 tests/tidy/outcomes.py "$outcomes" report
  exit
}
must() { "$@" || {
  record "$stage_title" --failed "$*" 'needed for everything behind it'
  finish
}; }

# A runner that ends with "N passed, N failed" and says of each test what came of it.
run_recorded() { # suite, command...
  local suite=$1 log status
  shift
  log=$(mktemp)
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  record "$suite" --log "$log" --status "$status"
  rm -f "$log"
}

build() { configure "$@" && compile "$1"; }
configure() { # directory, meson options...
  local directory=$1
  shift
  if [ ! -f "$directory/build.ninja" ]; then
    stage "configuring $directory"
    CXX="${CXX:-ccache g++}" must meson setup "$directory" "$@" >/dev/null
  fi
}
compile() { # directory, targets (default: all)...
  stage "building $1"
  must ninja -C "$1" --quiet "${@:2}"
}

meson_tests() { # directory, suite, what meson test shall run
  local directory=$1 suite=$2 status=0
  stage "$suite ($directory)"
  shift 2
  rm -f "$directory/meson-logs/testlog.junit.xml"
  meson test -C "$directory" --no-rebuild --quiet --print-errorlogs --timeout-multiplier 3 "$@" || status=1
  record "$suite" --junit "$directory/meson-logs/testlog.junit.xml" --status "$status"
}

mkdir -p "$main_build"
: >"$outcomes"
stage packages
must ensure_packages build
# Before the first test: some unit tests ask programs of this group, and without them they are skipped.
{ [ -n "$whole" ] || wants tidy || wants clang-tidy || wants ops || wants interop; } && must ensure_packages checks
wants containers && [ "$(id -u)" -eq 0 ] && must ensure_packages container
offer_npm
if [ -n "$only" ]; then
  # shellcheck disable=SC2086  # one argument per option
  configure "$main_build" ${MAIN_BUILD_OPTIONS:-}
  stage "what is called '$only'"
  run_recorded only python3 tests/tidy/only.py "$main_build" "$only"
  finish
fi
if wants unit || wants golden || wants sim || wants fuzz || wants tidy || wants clang-tidy || wants ops || wants interop || wants bench || wants containers; then
  # shellcheck disable=SC2086  # one argument per option
  build "$main_build" ${MAIN_BUILD_OPTIONS:-}
  wants fuzz && ! wants asan && compile "$main_build" fuzz_replay
fi
for suite in unit golden sim fuzz-replay tidy; do
  # Under sanitizers a replay tells more: once is enough.
  [ "$suite" = fuzz-replay ] && wants asan && continue
  if wants "${suite%-replay}"; then
    meson_tests "$main_build" "$suite" --suite "$suite"
    [ "$suite" = tidy ] && python3 tests/tidy/spec_coverage.py .
  fi
done
if wants fuzz && [ -n "$full" ]; then
  must ensure_packages checks
  CXX='ccache clang++-14' configure build-fuzz -Dfuzz=true -Ddpdk=disabled -Db_sanitize=address,undefined -Db_lundef=false
  compile build-fuzz fuzz
  stage "fuzz, ${FUZZ_SECONDS:-60} s each"
  run_recorded fuzz python3 tests/fuzz/run.py build-fuzz --seconds "${FUZZ_SECONDS:-60}"
fi

# Sanitizers' reports want function, file and line, which is what -g1 has. Several sources are compiled as one, which is half of the work;
# that each of them stands alone is what the first build shows.
sanitized=(-Dbuildtype=debug -Doptimization=1 -Ddebug=false -Dcpp_args=-g1 -Dunity=on -Dunity_size=8)

configure_asan() { configure build-asan -Ddpdk=disabled -Db_sanitize=address,undefined -Db_ndebug=false "${sanitized[@]}"; }
configure_tsan() { configure build-tsan -Db_sanitize=thread -Db_lundef=false "${sanitized[@]}"; }
tsan_targets=(tests/unit/{base/base,dataplane/dataplane,dataplane/eal,telemetry/telemetry,control/control,capture/capture}_test
  apps/causewayctl)

# Much of ops and interop is waiting. Beside them the sanitizers' builds take the CPU time that nobody else wants (SCHED_IDLE). What they
# leave undone, or fail at, is done where it is needed, with all CPUs.
stop_building_beside() {
  local jobs
  jobs=$(jobs -p)
  # ninja ends its compilers and removes what they have half written.
  # shellcheck disable=SC2086  # one argument per process
  [ -n "$jobs" ] && kill $jobs 2>/dev/null && wait 2>/dev/null
}
if wants ops || wants interop; then
  trap stop_building_beside EXIT
  wants asan && configure_asan && { chrt --idle 0 ninja -C build-asan -j1 --quiet >/dev/null 2>&1 & }
  wants tsan && configure_tsan && { chrt --idle 0 ninja -C build-tsan -j1 --quiet "${tsan_targets[@]}" >/dev/null 2>&1 & }
fi
if wants ops; then
  stage ops
  run_recorded ops tests/ops/run.sh "$main_build" ${full:---second-tries 3}
fi
if wants containers; then
  stage containers
  CAUSEWAY_CONTAINERS=1 run_recorded ops tests/ops/run.sh "$main_build" -k container
fi
if wants interop; then
  if [ "$(id -u)" -ne 0 ]; then
    record interop --skipped '(interop)' 'takes root' # network namespaces, guests
  else
    must ensure_packages interop
    stage interop
    run_recorded interop python3 tests/interop/run.py ${full:---second-tries 1}
  fi
fi
if wants clang-tidy; then
  stage clang-tidy
  changed=()
  [ -n "$whole" ] && changed=(--changed --most 100 --seconds "${CLANG_TIDY_SECONDS:-300}")
  run_recorded clang-tidy nice python3 tests/tidy/clang_tidy.py "$main_build" ${changed[@]+"${changed[@]}"}
fi
stop_building_beside
if wants asan; then
  configure_asan
  compile build-asan
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  meson_tests build-asan fuzz-replay --suite fuzz-replay
  # All at once: the end of a suite often is one long test and an idle CPU.
  meson_tests build-asan asan --suite unit --suite golden --suite sim
fi
if wants tsan; then
  configure_tsan
  compile build-tsan "${tsan_targets[@]}"
  export TSAN_OPTIONS="suppressions=$PWD/tests/support/tsan.supp"
  meson_tests build-tsan tsan base dataplane dataplane_eal telemetry control capture
fi
if wants bench; then
  ensure_packages bench || echo "what these programs are measured for stays absent"
  stage bench
  run_recorded bench tests/bench/run.sh "$main_build" $full
fi
if [ -n "$whole" ]; then
  stage 'proofs that ran'
  python3 tests/tidy/spec_coverage.py . --ran "$outcomes"
  record proofs --program spec_coverage --status $?
fi
finish
