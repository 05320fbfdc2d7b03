#!/usr/bin/env bash
# A whole plugin in bash: it greets, and remembers whom in its storage. kaged.sh is copied beside
# this file.
source "${BASH_SOURCE[0]%/*}/kaged.sh"

create_table() {
    kaged_exec 'CREATE TABLE IF NOT EXISTS greeted (name TEXT PRIMARY KEY, times INT)'
}

say() {
    local name
    kaged_get "$1" name && [[ $kaged_type == string ]] ||
        { kaged_invalid_params 'name must be a string'; return; }
    name=$REPLY
    kaged_array "$name"
    kaged_exec 'INSERT INTO greeted VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1' \
        "$REPLY" || return # the host's error is the answer
    kaged_get "$kaged_config" word || REPLY=Hello
    kaged_object "text=$REPLY, $name!"
    kaged_result "$REPLY"
}

known() {
    kaged_query 'SELECT name, times FROM greeted ORDER BY name' || return
    kaged_get "$REPLY" rows
    kaged_result "{\"people\":$REPLY}"
}

welcome() {
    kaged_object "inject=This is the project $kaged_project_id."
    kaged_result "$REPLY"
}

check_config() {
    ! kaged_get "$1" word || [[ -n $REPLY ]] ||
        kaged_error 'word must not be empty' '' '{"field":"word"}'
}

kaged_plugin greeter 1.0.0
kaged_capabilities kaged:storage:write
kaged_method greeting.say say
kaged_tool known known
kaged_hook on_session_start welcome
kaged_on start create_table
kaged_on config check_config
[[ ${BASH_SOURCE[0]} != "$0" ]] || kaged_run
