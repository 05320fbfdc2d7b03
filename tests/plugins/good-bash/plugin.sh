#!/usr/bin/env bash
# Does all as it should, in bash without any helper.
answer() {
    printf '{"jsonrpc":"2.0","id":%s,"%s":%s}\n' "$id" "${2:-result}" "$1"
}

while IFS= read -r line; do
    [[ ${line:0:200} =~ \"method\":\"([a-z._]+)\" ]] && method=${BASH_REMATCH[1]}
    id=
    [[ ${line%%\"method\"*} =~ \"id\":([0-9]+|\"[^\"]*\") ]] && id=${BASH_REMATCH[1]}
    case "$method" in
    initialize)
        answer '{"name":"'"$KAGED_PLUGIN_NAME"'","version":"1.0.0","api_version":1,"methods":["good.echo"],"capabilities_used":[]}'
        ;;
    ping) answer '{"status":"ok"}' ;;
    shutdown) exit 0 ;;
    good.echo)
        params=${line#*\"params\":}
        answer "${params%\}}"
        ;;
    *) [[ -z $id ]] || answer '{"code":-32601,"message":"no such method"}' error ;;
    esac
done
