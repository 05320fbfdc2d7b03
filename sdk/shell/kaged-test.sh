# A host in the same shell, for unit tests of bash plugins: no daemon, and the real lines of JSON.
#
#   source ./plugin.sh            # which calls kaged_run only if it was started itself
#   source kaged-test.sh
#   kaged_test_begin '{"budget":"low"}'
#   kaged_test_call hello.greet '{"name":"you"}' && [[ $REPLY == '{"text":"hello you"}' ]]
#   kaged_test_end

kaged_test_notifications=() # lines that the plugin sent unasked, in order
kaged_test_context='{"operator_id":"tester","request_id":"req_test"}' # of each call

# Answers kaged.storage.* for the plugin: METHOD PARAMS. REPLY is a result, or, where it fails, an
# error object. A test defines its own.
kaged_test_storage() {
    REPLY='{"code":-32003,"message":"the test has no storage"}'
    return 1
}

# kaged_test_begin [CONFIG]: starts jq and does the handshake; CONFIG is a JSON object.
kaged_test_begin() {
    kaged__test_file=$(mktemp) || return 1
    exec {kaged__test_stdout}>&1 {kaged__test_stdin}<&0
    exec >>"$kaged__test_file"
    kaged__open_jq
    exec 1>&"$kaged__test_stdout" 0<&"$kaged__test_stdin"
    exec {kaged__test_lines}<"$kaged__test_file"
    rm -f "$kaged__test_file"
    kaged__test_input=() kaged__test_id=0
    kaged_object api_version:=$KAGED_API_VERSION storage_available:=true
    kaged_test_request initialize "$REPLY" || return 1
    [[ -z ${1:-} ]] || kaged_test_request config.update "{\"config\":$1}" || return 1
    kaged_test_feed '{"jsonrpc":"2.0","method":"initialized","params":{}}'
}

# Ends the two jq; the plugin's shutdown handler runs before.
kaged_test_end() {
    [[ -z $kaged__on_shutdown ]] || kaged__run '' "$kaged__on_shutdown"
    kaged__close_jq
}

# kaged_test_feed LINE: the plugin gets one line, and is done with it on return.
kaged_test_feed() {
    kaged__test_input+=("$1")
    while kaged__turn; do
        :
    done
    kaged__ending=0
}

# kaged_test_request METHOD PARAMS: REPLY is the result; fails with the error object in REPLY.
kaged_test_request() {
    local id line answer
    ((kaged__test_id += 1))
    id=$kaged__test_id
    kaged_string "$1"
    kaged_test_feed "{\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":$REPLY,\"params\":$2}"
    while kaged__test_line; do
        line=$REPLY
        kaged_get "$line" id || { kaged__test_keep "$line"; continue; }
        [[ $REPLY == "$id" ]] || continue
        answer=error
        [[ $line == '{"jsonrpc":"2.0","id":'"$id"',"result":'* ]] && answer=result
        kaged_get "$line" "$answer" || REPLY=null
        [[ $kaged_type != string ]] || kaged_string "$REPLY"
        [[ $answer == result ]]
        return
    done
}

# kaged_test_call METHOD [PARAMS [CONFIG]]: as the daemon calls, with a context; CONFIG is the
# call's own.
kaged_test_call() {
    local params=${2:-"{}"} own="\"_context\":$kaged_test_context"
    [[ -z ${3:-} ]] || own+=",\"_config\":$3"
    [[ $params =~ ^[[:space:]]*\{[[:space:]]*\}[[:space:]]*$ ]] || own+=','
    kaged_test_request "$1" "{$own${params#*\{}"
}

# The time of kaged_every has come; fails if its function does.
kaged_test_tick() {
    local status
    kaged__run '' "$kaged__on_time"
    status=$?
    kaged_test_request ping '{}' # what it said before is read
    return "$status"
}

# What the plugin wrote next; the writer may need a moment.
kaged__test_line() {
    local tries piece line=''
    for ((tries = 0; tries < 3000; tries++)); do
        IFS='' read -r piece <&"$kaged__test_lines" && { REPLY=$line$piece; return 0; }
        line+=$piece # all that is written so far of a line
        sleep 0.01
    done
    kaged_log error 'the plugin wrote nothing within 30 s'
    return 1
}

kaged__test_keep() {
    kaged_test_notifications+=("$1")
}

# Time passes only by kaged_test_tick.
kaged__wait_for_line() {
    :
}

# Takes the place of the daemon's pipe: lines that were fed, then answers to the plugin's requests.
kaged__read_line() {
    if ((${#kaged__test_input[@]})); then
        kaged__line=${kaged__test_input[0]}
        kaged__test_input=("${kaged__test_input[@]:1}")
        return 0
    fi
    ((kaged__busy)) || return 1
    kaged__test_answer
}

# A handler waits for the host: the plugin's last request is in what it wrote.
kaged__test_answer() {
    local line id method params
    while kaged__test_line; do
        line=$REPLY
        kaged_get "$line" id || { kaged__test_keep "$line"; continue; }
        id=$REPLY
        kaged_get "$line" method && method=$REPLY
        kaged_get "$line" params && params=$REPLY
        if kaged_test_storage "$method" "$params"; then
            kaged__line="{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$REPLY}"
        else
            kaged__line="{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":$REPLY}"
        fi
        return 0
    done
    return 1
}
