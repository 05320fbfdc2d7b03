#!/usr/bin/env bash
# Offers a method that its manifest does not declare.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"name":"extra-method","version":"1.0.0","api_version":1,"methods":["work.do","work.secretly"],"capabilities_used":[]}}'
while read -r line; do :; done
