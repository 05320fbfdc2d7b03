# Write kaged plugins in bash: source this file, name handlers, call kaged_run. README.md tells how.
#
# Two jq processes live as long as the plugin, so that no message costs a process:
#
#   daemon --line--> bash --pieces--> jq "reader" --lengths, fields--> bash
#   daemon <--line-- jq "writer" <--pieces-- bash
#
# The writer alone has the daemon's stdout, and it writes nothing but JSON-RPC that the daemon
# takes. Handlers are functions of the plugin's own shell, one at a time, so their variables stay.
# Names with two underscores are this file's own. Works with bash 4.4 or later and jq 1.6 or later.

declare -r KAGED_API_VERSION=1
declare -r KAGED_LINE_MAX=4194304 # bytes, without the newline

# What a handler knows of its call; strings are empty where the daemon told nothing.
kaged_params='{}' kaged_context='{}' kaged_config='{}'
kaged_operator_id='' kaged_project_id='' kaged_agent_path='' kaged_session_id=''
kaged_request_id='' kaged_project_root=''
declare -A kaged_projects=() # the active ones: name, and what the daemon told of its configuration
kaged_storage_available=false

# What the last request to the host came to, if it failed.
kaged_error_code='' kaged_error_message='' kaged_error_data=''

kaged__name='' kaged__version='' kaged__introduction=''
kaged__methods=() kaged__capabilities=() kaged__notifications=()
declare -A kaged__handlers=()
kaged__on_config='' kaged__on_activated='' kaged__on_deactivated=''
kaged__on_start='' kaged__on_shutdown=''
kaged__on_time='' kaged__interval=0 kaged__due=0 # of kaged_every; seconds, due by bash's SECONDS
kaged__ahead=''     # the first byte of the next line, if it was read already
kaged__told='{}'    # the configuration of the last config.update
kaged__state=new    # new, waiting (for initialized), open
kaged__ending=0     # nothing more is read
kaged__busy=0       # a handler runs
kaged__next_id=1
kaged__default_code=-32000 # of an error to which the author gives none
kaged__queue=()     # requests that came while a handler waited for the host
kaged__fields=()    # of the message that was read last

# Of a request that waits: this many fields each. See kaged__reader_program.
declare -r KAGED__REQUEST_FIELDS=13
declare -r KAGED__FRAME=50 # bytes around id, method and params of a request, or a few more
declare -r KAGED__PIECE=4000 # bytes; jq 1.6 harms a character that its buffer of 4 KiB cuts in two

# -- the two jq programs --------------------------------------------------------------------------

# Takes lines whose first character says what to do: "+" a piece of a text, "=" the last piece of a
# message, "?" a path into the text so far, "!" is the text so far JSON. Answers with the lengths of
# the fields on one line, then the fields.
declare -r kaged__reader_program='
def fields: (map(utf8bytelength | tostring) | join(" ")) + "\n" + add;

def is_json: test("\\A(?>[ \\t\\r{}\\[\\],:]+|\"(?>[^\"\\\\\\x00-\\x1f]+|\\\\[^u]|\\\\u(?>" +
    "[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|" +
    "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))*+\"|" +
    "-?(?>0|[1-9][0-9]*)(?>\\.[0-9]+)?(?>[eE][+-]?[0-9]+)?(?![0-9.])|true|false|null)*+\\z");

def without_nul: explode | map(select(. != 0)) | implode;

def plain: if type == "string" then without_nul elif . == null then "" else tojson end;

def is_id: type == "string" or (type == "number" and floor == .);

def refusal($code; $id; $detail): ["E", ($code | tostring), ($id | tojson), $detail];

def is_error: type == "object" and (.message | type) == "string" and
    (.code | type == "number" and floor == .);

def response($id): ["R", ($id | tojson)] +
    if has("result") and has("error") then ["malformed", "", "", "", ""]
    elif has("result") then ["result", (.result | tojson), "", "", ""]
    elif (.error | is_error) then
        ["error", "", (.error.code | tostring), (.error.message | plain),
         (.error | if has("data") and .data != null then .data | tojson else "" end)]
    else ["malformed", "", "", "", ""] end;

def members:
    ["operator_id", "project_id", "agent_path", "session_id", "request_id", "project_root"];

def problem:
    if type != "object" then "params is not an object"
    elif has("_context") and (._context | type) != "object" then "_context is not an object"
    elif has("_config") and (._config | type) != "object" then "_config is not an object"
    else (._context // {}) as $context
        | first(members[] | select($context[.] | . != null and type != "string")
                | "_context.\(.) is neither a string nor null") // "" end;

def method_name: if test("\\A[A-Za-z0-9_.-]{1,256}\\z") then . else "?" end;

def request:
    (if has("params") then .params else {} end) as $params | ($params | problem) as $problem
    | (if $problem == "" then $params else {} end) as $good
    | ["Q", (if has("id") then .id | tojson else "" end), (.method | method_name), $problem,
       ($good | del(._context, ._config) | tojson),
       ($good | if has("_config") then ._config | tojson else "" end),
       ($good | (._context // {}) | tojson)]
      + [members[] as $name | $good._context[$name] | plain];

def envelope:
    if type != "object" then
        refusal(-32600; null; if type == "array" then "a batch" else "not an object" end)
    else (if .id | is_id then .id else null end) as $id
        | if .jsonrpc != "2.0" then refusal(-32600; $id; "jsonrpc is not \"2.0\"")
        elif (has("method") | not) and (has("result") or has("error")) then response($id)
        elif has("id") and $id == null then
            refusal(-32600; null; "id is neither a string nor an integer")
        elif (.method | type) != "string" then refusal(-32600; $id; "method is not a string")
        elif has("result") or has("error") then
            refusal(-32600; $id; "a request has a result or an error")
        elif has("params") and (.params | type != "object" and type != "array") then
            refusal(-32600; $id; "params is neither an object nor an array")
        else request end
    end;

def message:
    . as $line
    | if test("\\A[ \\t\\r]*\\z") then ["B"]
    elif is_json | not then refusal(-32700; null; "")
    else (try [fromjson] catch null) as $value
        | if $value == null then refusal(-32700; null; "") else $value[0] | envelope end
    end
    | if $line | test("\ufffd") then . + [$line] else . + [""] end;

def lookup($path):
    (try (fromjson | getpath($path)) catch null)
    | [(if . == null then "none" else type end), plain];

def check: (try [fromjson | tojson | utf8bytelength | tostring] catch ["bad"]);

foreach inputs as $line ({pieces: []};
    $line[0:1] as $op | (.pieces + [$line[1:]]) as $pieces
    | if $op == "+" then {pieces: $pieces}
      else {pieces: [], out: (
          if $op == "=" then $pieces | add | message
          elif $op == "!" then $pieces | add | check
          else $pieces[-1] as $path | $pieces[:-1] | add | lookup($path | fromjson) end)}
      end;
    .out // empty | fields)'

# "+" a piece of a field, "," the last piece of one; then, with the fields so far: "R" a result (id,
# result), "E" an error (id, code, message, data), "N" a notification (method, params), "Q" a
# request (id, method, params). Each field is JSON text. An answer that the daemon would not take becomes an
# internal error.
declare -r kaged__writer_program='
def value: ("[" + . + "]" | fromjson) | if length == 1 then .[0] else error("not one value") end;

def line: tojson | if utf8bytelength <= 4194304 then . else error("longer than a line may be") end;

def result: {jsonrpc: "2.0", id: (.[0] | value), result: (.[1] | value)} | line;

def error_object: {code: (.[1] | value), message: (.[2] | value)}
    + if .[3] == "" then {} else {data: (.[3] | value)} end;

def failure: {jsonrpc: "2.0", id: (.[0] | value), error: error_object} | line;

def internal($detail):
    [.[0], "-32603", ("internal error: " + ($detail | tostring)[0:200] | tojson), ""] | failure;

def notification: {jsonrpc: "2.0", method: (.[0] | value), params: (.[1] | value)} | line;

def request:
    {jsonrpc: "2.0", id: (.[0] | value), method: (.[1] | value), params: (.[2] | value)} | line;

def written($op):
    . as $fields
    | if $op == "R" then try result catch (tostring as $why | $fields | internal($why))
      elif $op == "E" then try failure catch (tostring as $why | $fields | internal($why))
      elif $op == "N" then notification
      else request end;

foreach inputs as $line ({fields: [], pieces: []};
    $line[0:1] as $op | (.pieces + [$line[1:]]) as $pieces
    | if $op == "+" then {fields, pieces: $pieces}
      elif $op == "," then {fields: (.fields + [$pieces | add]), pieces: []}
      else {fields: [], pieces: [], out: (.fields | written($op))} end;
    .out // empty)'

# -- JSON -----------------------------------------------------------------------------------------

# kaged_string TEXT: REPLY is the text as a JSON string.
kaged_string() {
    local text=$1 code
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    if [[ $text == *[[:cntrl:]]* ]]; then
        text=${text//$'\n'/\\n} text=${text//$'\r'/\\r} text=${text//$'\t'/\\t}
        for code in {1..31}; do
            [[ $text == *[[:cntrl:]]* ]] || break
            printf -v code '%02x' "$code"
            printf -v REPLY "\\x$code"
            text=${text//"$REPLY"/\\u00$code}
        done
    fi
    REPLY="\"$text\""
}

# kaged_object KEY=TEXT KEY:=JSON ...: REPLY is the object.
kaged_object() {
    local pair members='' key
    for pair in "$@"; do
        key=${pair%%=*}
        if [[ $key == *: ]]; then
            kaged_string "${key%:}"
            REPLY+=":${pair#*=}"
        else
            kaged_string "$key"
            key=$REPLY
            kaged_string "${pair#*=}"
            REPLY="$key:$REPLY"
        fi
        members+=${members:+,}$REPLY
    done
    REPLY="{$members}"
}

# kaged_array TEXT...: REPLY is the array of these strings.
kaged_array() {
    local text items=''
    for text in "$@"; do
        kaged_string "$text"
        items+=${items:+,}$REPLY
    done
    REPLY="[$items]"
}

# kaged_get JSON KEY...: REPLY is what stands there, a string as plain text, all else as JSON, and
# kaged_type its type. Fails if there is nothing, or null. A key that is a number is an index.
kaged_get() {
    local json=$1 path='' key
    shift
    for key in "$@"; do
        REPLY=$key
        [[ $key =~ ^(0|[1-9][0-9]{0,8})$ ]] || kaged_string "$key"
        path+=${path:+,}$REPLY
    done
    kaged__pieces "$kaged__reader_in" + "${json//$'\n'/ }"
    kaged__pieces "$kaged__reader_in" '?' "[$path]"
    kaged__take
    kaged_type=${kaged__taken[0]} REPLY=${kaged__taken[1]}
    [[ $kaged_type != none ]]
}

# Is it JSON, and as how many bytes does it go out? REPLY tells.
kaged__check() {
    kaged__pieces "$kaged__reader_in" '!' "${1//$'\n'/ }"
    kaged__take
    REPLY=${kaged__taken[0]}
    [[ $REPLY != bad ]]
}

# -- speaking with the two jq ---------------------------------------------------------------------

# kaged__pieces FD OP TEXT: all pieces but the last are marked "+"; none ends inside a character.
kaged__pieces() {
    local LC_ALL=C fd=$1 op=$2 text=$3 at=0 size
    if [[ $text == *[$'\x80'-$'\xff']* ]]; then
        # Large blocks first: bash looks for the end of the text each time it cuts a piece off.
        while ((${#text} - at > 64 * KAGED__PIECE)); do
            kaged__cut "$((64 * KAGED__PIECE))"
            kaged__pieces "$fd" + "${text:at:size}"
            ((at += size))
        done
        text=${text:at} at=0
        while ((${#text} - at > KAGED__PIECE)); do
            kaged__cut "$KAGED__PIECE"
            printf '+%s\n' "${text:at:size}" >&"$fd"
            ((at += size))
        done
    fi
    printf '%s%s\n' "$op" "${text:at}" >&"$fd"
}

# Sets `size` to at most SIZE, so that no character is cut.
kaged__cut() {
    size=$1
    while [[ ${text:at+size:1} == [$'\x80'-$'\xbf'] ]] && ((size > $1 - 4)); do
        ((size -= 1))
    done
}

# kaged__write OP FIELD...: one message to the daemon.
kaged__write() {
    local op=$1 field
    shift
    for field in "$@"; do
        kaged__pieces "$kaged__writer_in" , "${field//$'\n'/ }"
    done
    printf '%s\n' "$op" >&"$kaged__writer_in"
}

# The reader's answer: kaged__taken are its fields.
kaged__take() {
    local LC_ALL=C text='' lengths length at=0 total=0
    IFS=' ' read -r -a lengths <&"$kaged__reader_out"
    for length in "${lengths[@]}"; do
        ((total += length))
    done
    ((total == 0)) || IFS='' read -r -N "$total" text <&"$kaged__reader_out"
    kaged__taken=()
    for length in "${lengths[@]}"; do
        kaged__taken+=("${text:at:length}")
        ((at += length))
    done
}

kaged__open_jq() {
    exec {kaged__in}<&0 {kaged__wire}>&1 </dev/null 1>&2
    coproc kaged__reader { exec jq -n -R -j --unbuffered "$kaged__reader_program" \
        {kaged__in}<&- {kaged__wire}>&-; }
    exec {kaged__reader_out}<&"${kaged__reader[0]}" {kaged__reader_in}>&"${kaged__reader[1]}"
    exec {kaged__writer_in}> >(exec jq -n -R -r --unbuffered "$kaged__writer_program" \
        >&"$kaged__wire" {kaged__in}<&- {kaged__reader_in}>&- {kaged__reader_out}<&-)
    kaged__writer_pid=$!
    exec {kaged__wire}>&-
}

# Returns when the daemon has all that was written.
kaged__close_jq() {
    exec {kaged__writer_in}>&- {kaged__reader_in}>&-
    wait "$kaged__writer_pid"
}

# -- answers --------------------------------------------------------------------------------------

# kaged_result JSON: what the handler returns.
kaged_result() {
    kaged__result=$1
}

# kaged_error MESSAGE [CODE [DATA]]: the handler fails in these words; DATA is JSON.
kaged_error() {
    kaged_string "$1"
    kaged__error=("${2:-$kaged__default_code}" "$REPLY" "${3:-}")
}

# kaged_invalid_params DETAIL: the params do not fit the method.
kaged_invalid_params() {
    kaged_error "invalid params: $1" -32602
}

# kaged_compactor MESSAGES SUPERSEDED [SUMMARY]: a compactor's result; two lists in JSON, and text.
kaged_compactor() {
    kaged_object role=compactor messages:="$1" superseded:="$2" ${3+"summary=$3"}
    kaged_result "$REPLY"
}

# kaged__refuse ID CODE WORDS [DETAIL]: an error in the SDK's own words; none to a notification.
kaged__refuse() {
    [[ -n $1 ]] || return 0
    kaged_string "$3${4:+: $4}"
    kaged__write E "$1" "$2" "$REPLY" ''
}

# kaged__run ID FUNCTION ARGUMENT...: runs a handler, and answers. Fails if the handler did.
kaged__run() {
    local id=$1 status kaged__result=null kaged__error=() kaged__host_error=()
    shift
    kaged__busy=1
    "$@"
    status=$?
    kaged__busy=0
    if ((status != 0 && ${#kaged__error[@]} == 0)); then
        kaged__error=("${kaged__host_error[@]}")
        ((${#kaged__error[@]})) ||
            kaged_error "internal error: the handler failed with $status" -32603
    fi
    if [[ -n $id ]] && ((${#kaged__error[@]})); then
        kaged__write E "$id" "${kaged__error[@]}"
    elif [[ -n $id ]]; then
        kaged__write R "$id" "$kaged__result"
    fi
    ((${#kaged__error[@]} == 0))
}

# -- what handlers use ----------------------------------------------------------------------------

# kaged_notify NAME [PARAMS]: a notification of the manifest; PARAMS is a JSON object.
kaged_notify() {
    [[ $kaged__state == open ]] && kaged__check "${2:-"{}"}" || return 1
    kaged_string "$1"
    kaged__write N "$REPLY" "${2:-"{}"}"
}

# kaged_progress PROGRESS [TOTAL [MESSAGE]]: tells who called how far it is; the figure does not fall.
kaged_progress() {
    [[ $kaged__state == open && -n ${kaged__call_id-} ]] || return 1
    kaged_object "id:=$kaged__call_id" "progress:=$1" ${2:+"total:=$2"} ${3:+"message=$3"} || return 1
    kaged__write N '"kaged.progress"' "$REPLY"
}

# kaged_log LEVEL MESSAGE [KEY=TEXT | KEY:=JSON]...: a line of JSON on stderr.
kaged_log() {
    local -A rank=([debug]=0 [info]=1 [warn]=2 [error]=3)
    ((${rank[$1]:-1} >= ${rank[${KAGED_LOG_LEVEL:-info}]:-1})) || return 0
    local REPLY now TZ=UTC0
    printf -v now '%(%Y-%m-%dT%H:%M:%S)TZ' -1
    kaged_object "time=$now" "${@:3}" "level=$1" "message=$2"
    printf '%s\n' "$REPLY" >&2
}

# kaged_exec SQL [PARAMS], kaged_query SQL [PARAMS], kaged_batch STATEMENTS, kaged_schema: REPLY is
# the daemon's result. PARAMS is a JSON array, or an object for names; STATEMENTS an array of what
# kaged_statement gives. They fail if the daemon refuses, and set kaged_error_*; a handler that then
# fails, too ("|| return"), passes the daemon's error on.
kaged_exec() {
    kaged_statement "$@" && kaged__ask kaged.storage.exec "$REPLY"
}

kaged_query() {
    kaged_statement "$@" && kaged__ask kaged.storage.query "$REPLY"
}

kaged_batch() {
    kaged__ask kaged.storage.batch "{\"statements\":$1}"
}

kaged_schema() {
    kaged__ask kaged.storage.schema '{}'
}

# kaged_ask TITLE [SCHEMA], kaged_ask_url TITLE URL: asks the person of the session; needs kaged:ask.
# REPLY is {"action", "content"}: accept, decline or cancel, and what was filled in.
kaged_ask() {
    kaged_object "title=$1" ${2:+"schema:=$2"} && kaged__ask kaged.ask "$REPLY"
}

kaged_ask_url() {
    kaged_object "title=$1" "url=$2" && kaged__ask kaged.ask "$REPLY"
}

# kaged_sample PARAMS: asks the model of the session; needs kaged:sample. PARAMS and REPLY are those of
# MCP's sampling/createMessage: messages, systemPrompt, maxTokens.
kaged_sample() {
    kaged__ask kaged.sample "$1"
}

# kaged_cancelled: whether who called has left; the work may end, and the call is answered all the same.
kaged_cancelled() {
    local REPLY at wanted
    [[ $kaged__state == open && -n ${kaged__call_id-} ]] || return 1
    while ((!kaged__ending)) && { [[ -n $kaged__ahead ]] || read -r -t 0 -u "$kaged__in"; }; do
        kaged__read_message || kaged__ending=1
        [[ $kaged__ending == 1 || ${kaged__fields[0]} != Q ]] || kaged__set_aside
    done
    for ((at = 0; at < ${#kaged__queue[@]}; at += KAGED__REQUEST_FIELDS)); do
        [[ -z ${kaged__queue[at + 1]} && ${kaged__queue[at + 2]} == kaged.cancel ]] || continue
        kaged_get "${kaged__queue[at + 4]}" id || continue
        wanted=$REPLY
        [[ $kaged_type != string ]] || { kaged_string "$REPLY" && wanted=$REPLY; }
        [[ $wanted != "$kaged__call_id" ]] || return 0
    done
    return 1
}

# kaged_statement SQL [PARAMS]: REPLY is the statement, for kaged_batch.
kaged_statement() {
    kaged_object "sql=$1" params:="${2:-[]}"
}

# kaged__ask METHOD PARAMS: one request to the host; what comes meanwhile waits, or is answered.
kaged__ask() {
    local id=$kaged__next_id method
    kaged_error_code='' kaged_error_message='' kaged_error_data=''
    kaged_string "$1"
    method=$REPLY
    if [[ $kaged__state != open ]]; then
        kaged__host_failed -32002 'not initialized'
    elif ((kaged__ending)); then
        kaged__host_failed -32603 'internal error: the host is gone'
    elif ! kaged__check "$2"; then
        kaged__host_failed -32603 'internal error: the params are not JSON'
    elif ((REPLY + ${#method} + ${#id} + KAGED__FRAME > KAGED_LINE_MAX)); then
        kaged__host_failed -32603 'internal error: longer than a line may be'
    else
        kaged__next_id=$((id + 1))
        kaged__write Q "$id" "$method" "$2"
        kaged__await "$id"
    fi
}

# kaged__host_failed CODE MESSAGE [DATA]: always fails.
kaged__host_failed() {
    kaged_error_code=$1 kaged_error_message=$2 kaged_error_data=${3:-}
    kaged_string "$2"
    kaged__host_error=("$1" "$REPLY" "${3:-}")
    return 1
}

kaged__await() {
    local id=$1
    while kaged__read_message; do
        case ${kaged__fields[0]} in
        R)
            [[ ${kaged__fields[1]} == "$id" ]] || continue
            kaged__settle "${kaged__fields[@]:2}"
            return
            ;;
        Q) kaged__set_aside ;;
        esac
    done
    kaged__ending=1
    kaged__host_failed -32603 'internal error: the host is gone'
}

# kaged__settle KIND RESULT CODE MESSAGE DATA
kaged__settle() {
    case $1 in
    result)
        kaged__host_error=()
        REPLY=$2
        ;;
    error) kaged__host_failed "$3" "$4" "$5" ;;
    *) kaged__host_failed -32603 "internal error: the host's answer is malformed" ;;
    esac
}

# A request that came while a handler waits: a ping is answered, the others get their turn later.
kaged__set_aside() {
    case ${kaged__fields[2]} in
    ping) kaged__on_request "${kaged__fields[@]:1}" ;;
    *) kaged__queue+=("${kaged__fields[@]:0:KAGED__REQUEST_FIELDS}") ;;
    esac
    [[ ${kaged__fields[2]} != shutdown ]] || kaged__ending=1
}

# -- lines in -------------------------------------------------------------------------------------

# Returns when a line begins, at the end, or when a request waits; kaged_every's function runs in time.
kaged__wait_for_line() {
    local left
    while [[ $kaged__state == open && -n $kaged__on_time && -z $kaged__ahead ]]; do
        left=$((kaged__due - SECONDS))
        if ((left > 0 && left <= kaged__interval)); then # else it is due, or the clock was set back
            IFS='' read -r -N 1 -t "$left" kaged__ahead <&"$kaged__in"
            (($? > 128)) || return 0
            continue
        fi
        kaged__due=$((SECONDS + kaged__interval))
        kaged__run '' "$kaged__on_time" || kaged_log error 'the timed handler failed'
        ((!kaged__ending && ${#kaged__queue[@]} == 0)) || return 0
    done
}

# kaged__line is the next line of the daemon; `too_long` stands for one that is. Fails at the end.
kaged__read_line() {
    local LC_ALL=C rest ahead=$kaged__ahead
    kaged__line='' kaged__ahead=''
    [[ $ahead != $'\n' ]] || return 0
    IFS='' read -r -n $((KAGED_LINE_MAX + 1 - ${#ahead})) kaged__line <&"$kaged__in" || return 1
    kaged__line=$ahead$kaged__line
    ((${#kaged__line} > KAGED_LINE_MAX)) || return 0
    kaged__line=too_long
    while IFS='' read -r -n 65536 rest <&"$kaged__in"; do
        ((${#rest} == 65536)) || return 0
    done
    return 1
}

# The next request or response, in kaged__fields; anything else is answered here.
kaged__read_message() {
    local REPLY seen
    while ((!kaged__ending)) && kaged__read_line; do
        if [[ $kaged__line == too_long ]]; then
            kaged__refuse null -32700 'parse error' 'the line is too long'
            continue
        fi
        kaged__pieces "$kaged__reader_in" = "$kaged__line"
        kaged__take
        kaged__fields=("${kaged__taken[@]}")
        seen=${kaged__fields[-1]}
        if [[ -n $seen ]] && ! kaged__is_same "$kaged__line" "$seen"; then
            kaged__refuse null -32700 'parse error' 'not UTF-8'
            continue
        fi
        case ${kaged__fields[0]} in
        E) kaged__refuse_line "${kaged__fields[@]:1:3}" ;;
        Q | R) return 0 ;;
        esac
    done
    return 1
}

# jq puts U+FFFD in the place of bytes that are not UTF-8.
kaged__is_same() {
    local LC_ALL=C
    [[ $1 == "$2" ]]
}

kaged__refuse_line() {
    local words='invalid request'
    [[ $1 == -32700 ]] && words='parse error'
    kaged__refuse "$2" "$1" "$words" "$3"
}

# -- requests -------------------------------------------------------------------------------------

# kaged__on_request ID METHOD PROBLEM PARAMS CONFIG CONTEXT OPERATOR_ID PROJECT_ID AGENT_PATH
# SESSION_ID REQUEST_ID PROJECT_ROOT; ID is empty for a notification, CONFIG where the call has none
# of its own.
kaged__on_request() {
    local id=$1 method=$2 problem=$3
    if [[ $method == shutdown ]]; then
        [[ -z $id ]] || kaged__write R "$id" null
        kaged__ending=1
    elif kaged__is_early "$method"; then
        kaged__refuse "$id" -32002 'not initialized'
    elif ! kaged__is_known "$method"; then
        kaged__refuse "$id" -32601 'method not found'
    elif [[ -n $problem ]]; then
        kaged__refuse "$id" -32602 'invalid params' "$problem"
    else
        kaged__dispatch "$@"
    fi
}

kaged__is_system() {
    case $1 in
    initialize | initialized | ping | config.update | projects.activated | projects.deactivated) ;;
    *) return 1 ;;
    esac
}

kaged__is_early() {
    case $kaged__state in
    new) [[ $1 != initialize ]] ;;
    waiting) ! kaged__is_system "$1" ;;
    *) return 1 ;;
    esac
}

kaged__is_known() {
    kaged__is_system "$1" || [[ -n ${kaged__handlers[$1]-} ]]
}

kaged__dispatch() {
    local id=$1 method=$2 params=$4
    case $method in
    initialize) kaged__initialize "$id" "$params" ;;
    initialized) kaged__initialized "$id" ;;
    ping) [[ -z $id ]] || kaged__write R "$id" '{"status":"ok"}' ;;
    config.update) kaged__update_config "$id" "$params" ;;
    projects.*) kaged__change_projects "$id" "$method" "$params" ;;
    *) kaged__call "$@" ;;
    esac
}

kaged__call() {
    kaged_params=$4 kaged_config=${5:-$kaged__told} kaged_context=$6
    kaged_operator_id=$7 kaged_project_id=$8 kaged_agent_path=$9
    kaged_session_id=${10} kaged_request_id=${11} kaged_project_root=${12}
    kaged__call_id=$1
    kaged__run "$1" "${kaged__handlers[$2]}" "$kaged_params"
}

# -- the handshake --------------------------------------------------------------------------------

kaged__initialize() {
    local id=$1 params=$2
    [[ -n $id ]] || return 0
    if [[ $kaged__state != new ]]; then
        kaged__refuse "$id" -32600 'invalid request' 'initialize came before'
        return
    fi
    kaged_get "$params" api_version
    if [[ $kaged_type:$REPLY != "number:$KAGED_API_VERSION" ]]; then
        kaged__refuse "$id" -32602 'invalid params' "api_version must be $KAGED_API_VERSION"
        return
    fi
    if kaged_get "$params" plugin_name && [[ $kaged_type:$REPLY != "string:$kaged__name" ]]; then
        kaged__refuse "$id" -32602 'invalid params' "plugin_name must be $kaged__name"
        return
    fi
    kaged_get "$params" storage_available && kaged_storage_available=$REPLY
    kaged__first_projects "$params"
    kaged__state=waiting
    kaged__introduce "$id"
}

kaged__first_projects() {
    local index
    for ((index = 0; ; index++)); do
        kaged_get "$1" projects "$index" || return 0
        [[ $kaged_type != string || -z $REPLY ]] || kaged_projects[$REPLY]='{}'
    done
}

kaged__introduce() {
    local methods notifications capabilities
    kaged_array "${kaged__methods[@]}" && methods=$REPLY
    kaged_array "${kaged__notifications[@]}" && notifications=$REPLY
    kaged_array "${kaged__capabilities[@]}" && capabilities=$REPLY
    kaged_object "name=$kaged__name" "version=$kaged__version" api_version:=$KAGED_API_VERSION \
        methods:="$methods" notifications:="$notifications" capabilities_used:="$capabilities"
    kaged__write R "$1" "$REPLY"
}

kaged__initialized() {
    if [[ $kaged__state == waiting ]]; then
        kaged__state=open
        [[ -z $kaged__on_start ]] || kaged__run '' "$kaged__on_start" ||
            kaged_log error 'the start handler failed'
    fi
    [[ -z $1 ]] || kaged__write R "$1" null
}

# -- configuration and projects -------------------------------------------------------------------

kaged__update_config() {
    local id=$1 config kaged__default_code=-32004
    kaged_get "$2" config
    if [[ $kaged_type != object ]]; then
        kaged__refuse "$id" -32602 'invalid params' 'config is not an object'
        return
    fi
    config=$REPLY
    if kaged__run "$id" "${kaged__on_config:-:}" "$config"; then
        kaged__told=$config
    fi
}

kaged__change_projects() {
    local id=$1 params=$3 project config='{}'
    kaged_get "$params" project
    if [[ $kaged_type != string ]]; then
        kaged__refuse "$id" -32602 'invalid params' 'project is not a string'
        return
    fi
    project=$REPLY
    if kaged_get "$params" config; then
        if [[ $kaged_type != object ]]; then
            kaged__refuse "$id" -32602 'invalid params' 'config is not an object'
            return
        fi
        config=$REPLY
    fi
    if [[ $2 == projects.activated ]]; then
        [[ -z $project ]] || kaged_projects[$project]=$config
        kaged__run "$id" "${kaged__on_activated:-:}" "$project" "$config"
    else
        kaged__forget_project "$project"
        kaged__run "$id" "${kaged__on_deactivated:-:}" "$project"
    fi
}

# `unset` would evaluate the name.
kaged__forget_project() {
    local name
    local -A kept=()
    for name in "${!kaged_projects[@]}"; do
        [[ $name == "$1" ]] || kept[$name]=${kaged_projects[$name]}
    done
    kaged_projects=()
    for name in "${!kept[@]}"; do
        kaged_projects[$name]=${kept[$name]}
    done
}

# -- what an author says first --------------------------------------------------------------------

# kaged_plugin NAME VERSION: those of the manifest.
kaged_plugin() {
    kaged__name=$1 kaged__version=$2
}

# kaged_capabilities CAPABILITY...: those in use, among the manifest's.
kaged_capabilities() {
    kaged__capabilities=("$@")
}

# kaged_notifications NAME...: those that the plugin may send.
kaged_notifications() {
    kaged__notifications=("$@")
}

# kaged_method NAME FUNCTION: the function gets the params, and says kaged_result or kaged_error.
kaged_method() {
    local segment='[a-z][a-z0-9_]*'
    if [[ ! $1 =~ ^$segment(\.$segment){1,3}$ || $1 == kaged.* || $1 == system.* ]]; then
        kaged__mistake "$1 cannot be the name of a method"
    fi
    kaged__methods+=("$1")
    kaged__register "$1" "$2"
}

# kaged_tool NAME FUNCTION: a tool by its short name; after kaged_plugin.
kaged_tool() {
    [[ $1 =~ ^[a-z][a-z0-9_]*$ ]] || kaged__mistake "$1 cannot be the name of a tool"
    kaged__register "$kaged__name.$1" "$2"
}

# kaged_hook NAME FUNCTION: on_session_start, on_session_idle, pre_compact or post_compact.
kaged_hook() {
    case $1 in
    on_session_start | on_session_idle | pre_compact | post_compact) ;;
    *) kaged__mistake "$1 is no hook" ;;
    esac
    kaged__register "kaged.hook.$1" "$2"
}

# kaged_on config|activated|deactivated|start|shutdown FUNCTION: config gets the new configuration
# and may refuse it with kaged_error; activated a project and its configuration; deactivated a project.
kaged_on() {
    case $1 in
    config | activated | deactivated | start | shutdown) printf -v "kaged__on_$1" %s "$2" ;;
    *) kaged__mistake "there is no handler for $1" ;;
    esac
}

# kaged_every SECONDS FUNCTION: the function runs each time that so many have passed, between calls; a
# later kaged_every takes its place, and one of 0 seconds ends it.
kaged_every() {
    [[ $1 =~ ^(0|[1-9][0-9]{0,7})$ ]] || kaged__mistake "kaged_every takes whole seconds, not $1"
    kaged__interval=$1 kaged__on_time=${2-}
    ((kaged__interval)) || kaged__on_time=''
    kaged__due=$((SECONDS + kaged__interval))
}

kaged__register() {
    [[ -z ${kaged__handlers[$1]-} ]] || kaged__mistake "$1 has a handler already"
    kaged__handlers[$1]=$2
}

kaged__mistake() {
    kaged_log error "$1"
    exit 1
}

# -- life -----------------------------------------------------------------------------------------

kaged__on_term() {
    kaged__ending=1
    ((kaged__busy)) || kaged__end
}

kaged__end() {
    trap '' TERM
    [[ -z $kaged__on_shutdown ]] || kaged__run '' "$kaged__on_shutdown" ||
        kaged_log error 'the shutdown handler failed'
    kaged__close_jq
    exit 0
}

# One message, a waiting one first. Fails when there are no more.
kaged__turn() {
    local message
    ((${#kaged__queue[@]})) || kaged__wait_for_line
    if ((${#kaged__queue[@]})); then
        message=("${kaged__queue[@]:0:KAGED__REQUEST_FIELDS}")
        kaged__queue=("${kaged__queue[@]:KAGED__REQUEST_FIELDS}")
    else
        kaged__read_message || return 1
        message=("${kaged__fields[@]}")
    fi
    [[ ${message[0]} != Q ]] || kaged__on_request "${message[@]:1}"
    return 0
}

# Speaks with the daemon until it says shutdown or goes away; then the plugin ends. A handler fails
# by its status: `set -e` would end the plugin instead.
kaged_run() {
    set +e
    kaged__open_jq
    trap kaged__on_term TERM
    while kaged__turn; do
        :
    done
    kaged__end
}
