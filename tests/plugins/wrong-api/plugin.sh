#!/usr/bin/env bash
# Speaks an API version that does not exist.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"name":"wrong-api","version":"1.0.0","api_version":99,"methods":["work.do"],"capabilities_used":[]}}'
while read -r line; do :; done
