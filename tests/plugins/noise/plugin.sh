#!/usr/bin/env bash
# Prints a log line, a banner and a progress line on stdout.
echo '{"level":50,"error":"a log line in JSON"}'
echo

answer() {
    printf '{"jsonrpc":"2.0","id":%d,"result":%s}\n' "$id" "$1"
}

while IFS= read -r line; do
    [[ $line =~ \"method\":\"([a-z._]+)\" ]] && method=${BASH_REMATCH[1]}
    [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
    case "$method" in
    initialize)
        answer '{"name":"'"$KAGED_PLUGIN_NAME"'","version":"1.0.0","api_version":1,"methods":["work.do"]}'
        echo "noise 1.0.0 (c) 2026"
        ;;
    ping) answer '{"status":"ok"}' ;;
    shutdown) exit 0 ;;
    work.do)
        echo "working: 100%"
        answer '"done"'
        ;;
    esac
done
