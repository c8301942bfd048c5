#!/bin/bash
# `exec`, so that the program gets the signals; "$@", so that each argument arrives as it is.
set -eu
echo "entrypoint.sh: preparing" >&2
export PREPARED_BY_ENTRYPOINT=yes
exec "$@"
