#!/usr/bin/env bash
# Answers initialize with an error.
read -r line
echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"not today"}}'
while read -r line; do :; done
