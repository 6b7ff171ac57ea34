#!/bin/sh
# The same seeds in two processes give the same sweep: two_processes.sh CAUSEWAY_SIM. Addresses differ between processes; nothing
# else may.
set -eu
first=$("$1" --seed 1 --seeds 100 --json | grep '"hash"')
second=$("$1" --seed 1 --seeds 100 --jobs 2 --json | grep '"hash"')
echo "$first and$second"
[ -n "$first" ] && [ "$first" = "$second" ]
