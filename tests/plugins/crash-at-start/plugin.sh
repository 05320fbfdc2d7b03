#!/usr/bin/env bash
# Leaves with an error before it reads a line.
echo "cannot find my configuration" >&2
exit 3
