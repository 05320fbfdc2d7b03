#!/usr/bin/env bash
# Claims a capability that its manifest does not declare.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"name":"overreach","version":"1.0.0","api_version":1,"methods":["work.do"],"capabilities_used":["read:fs:/etc"]}}'
while read -r line; do :; done
