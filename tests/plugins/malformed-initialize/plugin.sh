#!/usr/bin/env bash
# Answers initialize with a result that is not an object.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":[]}'
while read -r line; do :; done
