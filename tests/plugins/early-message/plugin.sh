#!/usr/bin/env bash
# Sends a notification before it is asked anything.
echo '{"jsonrpc":"2.0","method":"too.early","params":{}}'
while read -r line; do :; done
