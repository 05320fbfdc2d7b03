#!/usr/bin/env bash
# A plugin that the tests source; started, it speaks with a daemon.
source "${BASH_SOURCE[0]%/*}/../kaged.sh"

calls=0

add() {
    kaged_get "$1" text && [[ $kaged_type == string ]] ||
        { kaged_invalid_params 'text must be a string'; return; }
    kaged_array "$REPLY"
    kaged_exec 'INSERT INTO notes VALUES (?)' "$REPLY" || return
    kaged_notify notes.changed '{"by":"add"}'
    kaged_result '{"added":true}'
}

count() {
    ((calls += 1))
    kaged_result "$calls"
}

who() { kaged_array "$kaged_operator_id" "$kaged_project_id" && kaged_result "$REPLY"; }
config() { kaged_result "$kaged_config"; }
text() { kaged_get "$1" text && kaged_string "$REPLY" && kaged_result "$REPLY"; }
bad_json() { kaged_result '{"open":'; }
two_values() { kaged_result '1, "error": 2'; }
pretty() { kaged_result $'{\n  "a": [\n    1\n  ]\n}\n'; }
number() { kaged_result "$(jq -c .n <<<"$1")"; }

check() { ! kaged_get "$1" bad || kaged_error 'it is bad' '' '{"field":"bad"}'; }

kaged_plugin notes 1.0.0
kaged_capabilities kaged:storage:write
for name in add count who config text bad_json two_values pretty number; do
    kaged_method "notes.$name" "$name"
done
kaged_on config check

[[ ${BASH_SOURCE[0]} != "$0" ]] || kaged_run
