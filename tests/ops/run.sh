#!/usr/bin/env bash
# The ops suite: the programs as an operator runs them. The last line is "N passed, N failed".
#
#   tests/ops/run.sh BUILD_DIR [-k PART-OF-NAME] [--soak MINUTES] [--list]
exec python3 "$(dirname "$0")/run.py" "$@"
