#!/usr/bin/env bash
# Gives another name than its manifest.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"name":"somebody-else","version":"1.0.0","api_version":1,"methods":["work.do"],"capabilities_used":[]}}'
while read -r line; do :; done
