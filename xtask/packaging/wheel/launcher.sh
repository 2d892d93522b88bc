#!/bin/sh
# Starts the program beside it: `uvx` starts the command that is named as the package.
exec "$(dirname "$(readlink -f "$0")")/@NAME@" "$@"
