#!/usr/bin/env bash
# my-plugin: greets people by name. kaged.sh is the SDK; the manifest is kaged-plugin.yaml.
source "${BASH_SOURCE[0]%/*}/kaged.sh"

greet() {
    local name
    kaged_get "$1" name && [[ $kaged_type == string ]] ||
        { kaged_invalid_params 'name must be a string'; return; }
    name=$REPLY
    kaged_get "$kaged_config" word || REPLY=Hello
    kaged_object "text=$REPLY, $name!"
    kaged_result "$REPLY"
}

welcome() {
    kaged_object 'inject=The tool my-plugin.greet greets people.'
    kaged_result "$REPLY"
}

kaged_plugin my-plugin 0.1.0
kaged_tool greet greet
kaged_method greeting.say greet
kaged_hook on_session_start welcome
[[ ${BASH_SOURCE[0]} != "$0" ]] || kaged_run
