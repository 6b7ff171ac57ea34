#!/usr/bin/env bash
# Shows the compiler what a gateway does most: the middle of a build that is optimized by a profile (deploy/build-release.sh).
#
#   deploy/lib/train.sh BUILD_DIR
#
# BUILD_DIR was set up with -Db_pgo=generate, and has tests/bench/rpc_pair_bench. To be called where the compiler's prefix map begins
# (the top of a package's sources), if it has one: profiles go to paths relative to it. Each case is a gateway and its client in one
# thread, over a wire in memory and by a clock of their own: no devices, no rights, and the same profile each time, to the byte, where
# addresses may be left unshuffled (some containers forbid it). Some go without the express paths, or the compiler would take what
# these give way to for cold. None of them is measured by a bench: other sizes, windows and MTUs.
set -eu
[ $# -eq 1 ] && [ -x "$1/tests/bench/rpc_pair_bench" ] || {
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
build=$1
same_addresses=''
setarch -R true 2>/dev/null && same_addresses='setarch -R'
find "$build" -name '*.gcda' -delete
while read -r case calls express; do
  $same_addresses "$build/tests/bench/rpc_pair_bench" --steady "$case" --calls "$calls" --express "${express:-yes}" >/dev/null || {
    echo "train.sh: case $case failed" >&2
    exit 1
  }
done <<'CASES'
echo8_w1 20000
echo200_w12 30000
echo200_w3_c5 30000
echo200_w12 10000 no
echo200_w3_c5 10000 no
echo900_w7 10000
tcp_echo200_w12 20000
sink40k_mtu2048 2000
source40k_mtu2048 2000
read96k_mtu2048 2000
write96k_mtu2048 2000
CASES
# Beside the objects, or the compiler will not find them, and not say so.
ls "$build"/rocev2/librocev2.a.p/*.gcda >/dev/null 2>&1 ||
  {
    echo "train.sh: no profile came to $build; was it set up with -Db_pgo=generate?" >&2
    exit 1
  }
