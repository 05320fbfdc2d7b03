#!/usr/bin/env bash
# Declares two methods and offers one.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"name":"missing-method","version":"1.0.0","api_version":1,"methods":["work.do"],"capabilities_used":[]}}'
while read -r line; do :; done
