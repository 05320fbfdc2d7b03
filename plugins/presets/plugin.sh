#!/usr/bin/env bash
# Shell presets: files of a catalog's folder that can be listed, searched, and copied to where the
# operator's shells find them. What a preset says is only ever text here: read, compared, written.
# kaged.sh is beside this file once the plugin is staged.
source "${BASH_SOURCE[0]%/*}/kaged.sh"
set -o noclobber # no file is written over

declare -r PRESET_BYTES_MAX=32768
declare -r PRESETS_MAX=1000
declare -r DESCRIPTION_BYTES_MAX=200 TAGS_MAX=16
declare -r QUERY_MAX=200  # characters
declare -r RESTLESS_MAX=10 # looks, after which a folder that never rests is told of all the same

preset_dir='' install_dir='' check_seconds=5

# The catalog, by file name: what find said of the file when it was read, and what it is, in JSON:
# {name, description, tags} of a preset, {file, reason} of a file that is skipped.
declare -A stamps=() entries=()
declare -A told=() # stamps of the presets that the daemon knows of: as of the last catalog.updated
changed=0          # the folder is not as it was at the look before
restless=0         # looks in a row that found it changed

# -- one preset -----------------------------------------------------------------------------------

is_name() {
    local LC_ALL=C
    [[ $1 == [a-z0-9]* && $1 != *[!a-z0-9_-]* ]] && ((${#1} <= 64))
}

# load PATH: `text` is what the file holds; fails with the reason in REPLY.
load() {
    local LC_ALL=C
    REPLY=''
    if [[ -L $1 ]]; then
        REPLY='it is a link'
    elif [[ ! -f $1 || ! -r $1 ]]; then
        REPLY='it is no file that can be read'
    elif IFS='' read -r -d '' -n $((PRESET_BYTES_MAX + 1)) text <"$1"; then # before its end
        REPLY='it is binary'
        ((${#text} <= PRESET_BYTES_MAX)) || REPLY="it has more than $PRESET_BYTES_MAX bytes"
    elif ! is_utf8 "$text"; then
        REPLY='it is not UTF-8'
    fi
    [[ -z $REPLY ]]
}

# JSON holds nothing else, so text that comes back from it as it was is UTF-8.
is_utf8() {
    local REPLY
    [[ $1 == *[$'\x80'-$'\xff']* ]] || return 0
    kaged_string "$1"
    kaged_get "$REPLY" && [[ $REPLY == "$1" ]]
}

# read_header NAME TEXT: REPLY is the preset in JSON; fails with the reason in REPLY.
read_header() {
    local rest=$2 line description='' tags=() seen=' '
    [[ $rest != '#!'* ]] || rest=${rest#*$'\n'}
    while line=${rest%%$'\n'*} && [[ $line =~ ^'# '(name|description|tags)': '(.*)$ ]]; do
        [[ $seen != *" ${BASH_REMATCH[1]} "* ]] ||
            { REPLY="its header has ${BASH_REMATCH[1]} twice"; return 1; }
        seen+="${BASH_REMATCH[1]} "
        case ${BASH_REMATCH[1]} in
        name)
            [[ ${BASH_REMATCH[2]} == "$1" ]] ||
                { REPLY='its name is not that of its file'; return 1; }
            ;;
        description) description=${BASH_REMATCH[2]} ;;
        tags) read_tags "${BASH_REMATCH[2]}" || return ;;
        esac
        [[ $rest == *$'\n'* ]] || break
        rest=${rest#*$'\n'}
    done
    [[ $seen == *' name '* && $seen == *' description '* ]] ||
        { REPLY='its header has no name, or no description'; return 1; }
    is_description "$description" ||
        { REPLY="its description is not text of 1 to $DESCRIPTION_BYTES_MAX bytes"; return 1; }
    kaged_array "${tags[@]}"
    kaged_object "name=$1" "description=$description" tags:="$REPLY"
}

is_description() {
    local LC_ALL=C
    [[ -n $1 && $1 != *[[:cntrl:]]* ]] && ((${#1} <= DESCRIPTION_BYTES_MAX))
}

# Adds to `tags`.
read_tags() {
    local tag
    IFS=', ' read -r -a tags <<<"$1"
    ((${#tags[@]} <= TAGS_MAX)) || { REPLY="it has more than $TAGS_MAX tags"; return 1; }
    for tag in "${tags[@]}"; do
        is_name "$tag" || { REPLY='a tag is more than letters, digits, _ and -'; return 1; }
    done
}

# read_entry FILE: REPLY is what the catalog has of it, in JSON.
read_entry() {
    local name=${1%.sh} text
    if ! is_name "$name"; then
        REPLY='its name is more than a-z, 0-9, _ and -, or longer than 64'
    elif load "$preset_dir/$1" && read_header "$name" "$text"; then
        return
    fi
    kaged_log warn 'a file of the catalog is skipped' "file=$1" "reason=$REPLY"
    kaged_object "file=$1" "reason=$REPLY"
}

# -- the catalog ----------------------------------------------------------------------------------

# Looks at the folder; only files that changed are read.
scan() {
    local found line file
    local -A stamps_before=() entries_before=()
    for file in "${!stamps[@]}"; do
        stamps_before[$file]=${stamps[$file]} entries_before[$file]=${entries[$file]}
    done
    stamps=() entries=()
    mapfile -d '' -t -n $((PRESETS_MAX + 1)) found < <(
        find "$preset_dir" -mindepth 1 -maxdepth 1 -name '*.sh' -printf '%y %s %T@ %i/%f\0')
    for line in "${found[@]}"; do
        file=${line#*/} line=${line%%/*}
        if ((${#stamps[@]} == PRESETS_MAX)); then
            kaged_object "file=$file" "reason=the catalog has no more than $PRESETS_MAX files"
        elif [[ ${stamps_before[$file]-} == "$line" ]]; then
            REPLY=${entries_before[$file]}
        else
            changed=1
            read_entry "$file"
        fi
        stamps[$file]=$line entries[$file]=$REPLY
    done
    ((${#stamps[@]} == ${#stamps_before[@]})) || changed=1
}

# What `told` has to be when the daemon is told of the catalog as it is.
remember_told() {
    local file
    told=()
    for file in "${!entries[@]}"; do
        [[ ${entries[$file]} != '{"name":'* ]] || told[$file]=${stamps[$file]}
    done
}

# Runs every check_seconds. Changes that follow each other end in one notification, once the folder
# is as it was at the look before.
watch() {
    scan
    if ((changed)); then
        changed=0
        ((++restless >= RESTLESS_MAX)) || return 0
    fi
    ((restless)) || return 0
    restless=0
    tell_changes
}

tell_changes() {
    local file added=0 altered=0 removed=0
    local -A before=()
    for file in "${!told[@]}"; do
        before[$file]=${told[$file]}
    done
    remember_told
    for file in "${!told[@]}"; do
        if [[ -z ${before[$file]-} ]]; then
            ((added += 1))
        elif [[ ${before[$file]} != "${told[$file]}" ]]; then
            ((altered += 1))
        fi
    done
    removed=$((${#before[@]} + added - ${#told[@]}))
    ((added + altered + removed)) || return 0
    kaged_object source=filesystem_watch entries_added:=$added entries_changed:=$altered \
        entries_removed:=$removed entries:=${#told[@]}
    kaged_notify catalog.updated "$REPLY"
}

# -- list and search ------------------------------------------------------------------------------

declare -r page_program='
($query | ascii_downcase | split(" ") | map(select(. != ""))) as $words
| def text: [.name, .description, .tags[]] | join(" ") | ascii_downcase;
  def fits: text as $text | all($words[]; . as $word | $text | contains($word));
  def is_named: .name as $name | any($words[]; . as $word | $name | contains($word));
  [inputs]
| (map(select(.reason)) | sort_by(.file)) as $skipped
| map(select(.name) | select(fits)) | sort_by((is_named | not), .name) as $found
| {($key): ($found[$offset:$offset + $limit] | map(.installed = (.name | IN($installed[])))),
   total: ($found | length), skipped: $skipped[:100], skipped_total: ($skipped | length)}'

# read_number PARAMS KEY DEFAULT LEAST MOST: REPLY is the number.
read_number() {
    if ! kaged_get "$1" "$2"; then
        REPLY=$3
    elif [[ $kaged_type != number || ! $REPLY =~ ^(0|[1-9][0-9]{0,6})$ ]] ||
        ((REPLY < $4 || REPLY > $5)); then
        kaged_invalid_params "$2 must be a whole number from $4 to $5"
        return 1
    fi
}

# read_words PARAMS KEY: REPLY is the text there; empty if there is none.
read_words() {
    kaged_get "$1" "$2" || { REPLY=''; return 0; }
    [[ $kaged_type == string ]] && ((${#REPLY} <= QUERY_MAX)) && return
    kaged_invalid_params "$2 must be text of at most $QUERY_MAX characters"
    return 1
}

# answer_page PARAMS WORDS KEY: the result is the presets that have all these words.
answer_page() {
    local limit offset installed
    read_number "$1" limit 100 1 500 && limit=$REPLY || return
    read_number "$1" offset 0 0 99999 && offset=$REPLY || return
    kaged_array "$install_dir"
    kaged_query 'SELECT json_group_array(name) AS names FROM installed WHERE folder = ?' "$REPLY" ||
        return
    kaged_get "$REPLY" rows 0 names && installed=$REPLY
    scan
    kaged_result "$(printf '%s\n' "${entries[@]}" | jq -c -n "$page_program" --arg key "$3" \
        --arg query "${2//[[:cntrl:]]/ }" --argjson limit "$limit" --argjson offset "$offset" \
        --argjson installed "$installed")"
}

list() {
    read_words "$1" filter && answer_page "$1" "$REPLY" presets
}

search() {
    read_words "$1" query || return
    [[ $REPLY == *[![:space:]]* ]] || { kaged_invalid_params 'query must have a word'; return; }
    answer_page "$1" "$REPLY" results
}

# -- install and uninstall ------------------------------------------------------------------------

# read_name PARAMS: REPLY is the name.
read_name() {
    kaged_get "$1" name && [[ $kaged_type == string ]] && is_name "$REPLY" && return
    kaged_invalid_params 'name must be 1 to 64 of a-z, 0-9, _ and -, the first no _ or -'
    return 1
}

# check_target NAME: `ours` is the text that was installed under the name, if it was. Says why and
# fails if something else is there now.
check_target() {
    local target=$install_dir/$1.sh text
    kaged_array "$install_dir" "$1"
    kaged_query 'SELECT text FROM installed WHERE folder = ? AND name = ?' "$REPLY" || return
    kaged_get "$REPLY" rows 0 text
    ours=$REPLY
    [[ -e $target || -L $target ]] || return 0
    if [[ -z $ours ]]; then
        kaged_error "$1.sh was not installed from here, and is left alone"
        return 1
    elif ! load "$target" || [[ $text != "$ours" ]]; then
        kaged_error "$1.sh was changed since it was installed, and is left alone"
        return 1
    fi
}

install() {
    local name text ours target new
    read_name "$1" && name=$REPLY || return
    load "$preset_dir/$name.sh" && read_header "$name" "$text" ||
        { kaged_error "the catalog has no preset $name: $REPLY"; return; }
    check_target "$name" || return
    target=$install_dir/$name.sh new=$install_dir/.$name.sh.new
    rm -f -- "$new"
    printf %s "$text" >"$new" || { kaged_error "$name.sh cannot be written"; return; }
    kaged_array "$install_dir" "$name" "$text"
    kaged_exec "INSERT OR REPLACE INTO installed VALUES (?, ?, ?, datetime('now'))" "$REPLY" ||
        return
    mv -f -T -- "$new" "$target" || { kaged_error "$name.sh cannot be put in its place"; return; }
    kaged_object installed:=true "name=$name" "path=$target"
    kaged_result "$REPLY"
}

uninstall() {
    local name ours
    read_name "$1" && name=$REPLY || return
    check_target "$name" || return
    [[ -n $ours ]] || { kaged_error "$name was not installed from here"; return; }
    rm -f -- "$install_dir/$name.sh" || { kaged_error "$name.sh cannot be removed"; return; }
    kaged_array "$install_dir" "$name"
    kaged_exec 'DELETE FROM installed WHERE folder = ? AND name = ?' "$REPLY" || return
    kaged_object uninstalled:=true "name=$name"
    kaged_result "$REPLY"
}

# -- life -----------------------------------------------------------------------------------------

# read_folder CONFIG KEY: REPLY is the folder that the setting means.
read_folder() {
    kaged_get "$1" "$2"
    case $REPLY in
    config:/*) REPLY=${KAGED_CONFIG_ROOT-}/${REPLY#config:/} ;;
    project:/*) REPLY=${KAGED_PROJECT_ROOT-}/${REPLY#project:/} ;;
    *)
        kaged_error "$2 must be below config:/ or project:/"
        return 1
        ;;
    esac
}

take_config() {
    local presets installed seconds
    read_folder "$1" preset_dir && presets=$REPLY || return
    read_folder "$1" install_dir && installed=$REPLY || return
    read_number "$1" check_seconds 5 1 3600 && seconds=$REPLY || return
    [[ $presets != "$installed" ]] ||
        { kaged_error 'preset_dir and install_dir must not be the same'; return; }
    preset_dir=$presets install_dir=$installed
    kaged_every "$seconds" watch
}

start() {
    scan
    remember_told
    changed=0
    kaged_exec 'CREATE TABLE IF NOT EXISTS installed
        (folder TEXT, name TEXT, text TEXT, installed_at TEXT, PRIMARY KEY (folder, name))'
}

kaged_plugin presets 1.0.0
kaged_capabilities kaged:storage:write
kaged_notifications catalog.updated
kaged_method presets.list list
kaged_method presets.search search
kaged_method preset.install install
kaged_method preset.uninstall uninstall
kaged_tool preset_list list
kaged_tool preset_search search
kaged_tool preset_install install
kaged_tool preset_uninstall uninstall
kaged_on config take_config
kaged_on start start
[[ ${BASH_SOURCE[0]} != "$0" ]] || kaged_run
