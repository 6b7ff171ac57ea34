#!/usr/bin/env bash
# Builds Causeway as it is meant to run: all optimizations, and a profile of its own that tells the compiler which paths are hot. A
# small call costs the gateway less than in a build without the profile (tests/bench/README.md).
#
#   deploy/build-release.sh BUILD_DIR [--targets "TARGET..."] [MESON_OPTION...]
#
#   BUILD_DIR        made when it is not there; may be one of an earlier run: the profile is kept until the directory is removed
#   --targets        what to build (default: causewayd, causewayctl, causeway-load)
#   MESON_OPTION...  for the setup, as -Dlive_page=disabled
#
# Everything is compiled twice, a quarter of an hour on two cores: first to be trained (deploy/lib/train.sh), then for good.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }
case "${1:-}" in '' | -h | --help)
  usage
  [ -n "${1:-}" ]
  exit
  ;;
esac
build=$1
shift
targets='apps/causewayd apps/causewayctl apps/load/causeway-load'
if [ "${1:-}" = --targets ]; then
  targets=$2
  shift 2
fi
if [ ! -f "$build/trained" ]; then
  [ -f "$build/build.ninja" ] || meson setup "$build" "$here/.." --buildtype=release -Db_ndebug=true -Db_lto=true -Db_pgo=generate "$@"
  ninja -C "$build" tests/bench/rpc_pair_bench
  "$here/lib/train.sh" "$build"
  meson configure "$build" -Db_pgo=use
  touch "$build/trained"
fi
# shellcheck disable=SC2086  # one argument per target
ninja -C "$build" $targets
