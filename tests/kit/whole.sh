#!/usr/bin/env bash
# Uses all that a plugin can have; prints to stdout, which the SDK has to keep from the wire.
source "${BASH_SOURCE[0]%/*}/kaged.sh"

integer='^-?[0-9]+$'

create_table() {
    [[ $kaged_storage_available != true ]] ||
        kaged_exec 'CREATE TABLE IF NOT EXISTS notes (text TEXT)'
}

add() {
    local a
    if kaged_get "$1" a && [[ $kaged_type == number && $REPLY =~ $integer ]] && a=$REPLY &&
        kaged_get "$1" b && [[ $kaged_type == number && $REPLY =~ $integer ]] &&
        [[ $1 =~ ^[^,]*,[^,]*$ ]]; then
        kaged_result "{\"sum\":$((a + REPLY))}"
    else
        kaged_invalid_params 'a and b are two integers'
    fi
}

note() {
    echo "a note"
    if [[ $kaged_storage_available == true ]]; then
        kaged_exec "INSERT INTO notes VALUES ('x')" || return
    fi
    kaged_progress 1 2
    kaged_notify whole.noted
    kaged_result '{"noted":true}'
}

find_notes() {
    if kaged_get "$1" text && [[ $kaged_type == string && -n $REPLY && $1 != *,* ]]; then
        kaged_result '{"found":[]}'
    else
        kaged_invalid_params 'text is a string'
    fi
}

find_all() { kaged_result '{"found":[]}'; }
on_session_start() { kaged_result '{"inject":"hello"}'; }
on_session_idle() { :; }
post_compact() { kaged_result '{"inject":"after it"}'; }

pre_compact() {
    local messages gone
    kaged_get "$1" role
    if [[ $REPLY != compactor ]]; then
        kaged_result '{"retain":["something"]}'
        return
    fi
    kaged_get "$1" messages_remaining
    messages=$REPLY
    gone=$(jq -c '[.messages_being_compacted[].id]' <<<"$1")
    kaged_compactor "$messages" "$gone" gone
}

on_config() {
    kaged_get "$1" limit && [[ $kaged_type == number ]] || kaged_error 'limit is an integer'
}

kaged_plugin whole 1.0.0
kaged_notifications whole.noted
kaged_method whole.add add
kaged_method whole.note note
kaged_tool find find_notes
kaged_tool all find_all
kaged_hook on_session_start on_session_start
kaged_hook on_session_idle on_session_idle
kaged_hook pre_compact pre_compact
kaged_hook post_compact post_compact
kaged_on start create_table
kaged_on config on_config
kaged_run
