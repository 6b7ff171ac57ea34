#!/bin/sh
# The exerciser on a local file system: finds nothing there in two seconds, finds a bit that it flipped itself, and does the same
# again with the same seed.
set -eu
program=$1
directory=$(mktemp -d /tmp/causeway-exerciser.XXXXXX)
trap 'rm -rf "$directory"' EXIT

fail() {
  echo "exerciser_test: $*" >&2
  cat "$directory/out" >&2
  exit 1
}

"$program" --seconds 2 --bytes-max 262144 --other "$directory/clean" "$directory/clean" >"$directory/out" ||
  fail "a fault where none is"
grep -q '^ok: ' "$directory/out" || fail "no ok"
[ ! -e "$directory/clean" ] || fail "files were left"

for seed in 1 2 3; do
  status=0
  "$program" --seed "$seed" --operations 100 --damage 150 --bytes-max 65536 "$directory/damaged$seed" >"$directory/out" ||
    status=$?
  [ "$status" = 1 ] || fail "exit status $status after damage"
  damaged=$(sed -n 's/^damage: flipped a bit of \(.*\) at offset \(.*\)$/FAIL \1: offset \2: expected/p' "$directory/out")
  [ -n "$damaged" ] && grep -qF "$damaged" "$directory/out" || fail "the damaged byte was not named"
  grep -q "^seed $seed, after" "$directory/out" && grep -q '^last operations' "$directory/out" || fail "no seed, no history"
done

# One worker: with several, their order is the scheduler's, and so is the order of what they make.
for time in 1 2; do
  "$program" --seed 7 --workers 1 --operations 300 --keep --manifest "$directory/manifest$time" "$directory/same$time" \
    >"$directory/out" || fail "a fault where none is"
done
cmp "$directory/manifest1" "$directory/manifest2" || fail "the same seed did something else"
[ "$(wc -l <"$directory/manifest1")" -gt 2 ] || fail "hardly any files"
