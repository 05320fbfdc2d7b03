/*
 * Scripts that let a shell complete. They hand over the words that were typed and show what
 * complete.c answers: words with their meaning behind a tab, or that files or folders may follow.
 */
#include "cli/cli.h"

#define TYPED "kaged completion words 2>/dev/null"

static const char bash[] =
    "# Completion of kaged for bash, printed by: kaged completion bash\n"
    "_kaged() {\n"
    "    local line current=${COMP_WORDS[COMP_CWORD]}\n"
    "    [[ $current == = ]] && current=\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\") "
    ";;\n"
    "        :folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\") "
    ";;\n"
    "        *) line=${line%%$'\\t'*}; [[ $line == \"$current\"* ]] && COMPREPLY+=(\"$line\") ;;\n"
    "        esac\n"
    "    done < <(printf '%s\\n' \"${COMP_WORDS[@]:1:COMP_CWORD}\" | " TYPED ")\n"
    "}\n"
    "complete -F _kaged kaged\n";

static const char zsh[] =
    "#compdef kaged\n"
    "# Completion of kaged for zsh, printed by: kaged completion zsh\n"
    "_kaged() {\n"
    "    local line\n"
    "    local -a entries\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :files) _files; return ;;\n"
    "        :folders) _files -/; return ;;\n"
    "        *) entries+=(\"${${line//:/\\\\:}/$'\\t'/:}\") ;;\n"
    "        esac\n"
    "    done < <(printf '%s\\n' \"${(@)words[2,CURRENT-1]}\" \"$PREFIX\" | " TYPED ")\n"
    "    _describe kaged entries\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _kaged ]; then\n"
    "    _kaged \"$@\"\n"
    "else\n"
    "    compdef _kaged kaged\n"
    "fi\n";

static const char fish[] = "# Completion of kaged for fish, printed by: kaged completion fish\n"
                           "function __kaged_complete\n"
                           "    set -l words (commandline -opc)[2..-1]\n"
                           "    set -l current (commandline -ct)\n"
                           "    for line in (printf '%s\\n' $words \"$current\" | " TYPED ")\n"
                           "        switch $line\n"
                           "            case :files\n"
                           "                __fish_complete_path \"$current\"\n"
                           "            case :folders\n"
                           "                __fish_complete_directories \"$current\"\n"
                           "            case '*'\n"
                           "                printf '%s\\n' $line\n"
                           "        end\n"
                           "    end\n"
                           "end\n"
                           "complete -c kaged -f -a '(__kaged_complete)'\n";

int cli_completion(struct cli *cli)
{
    static const struct {
        const char *shell, *script;
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < KG_COUNT(shells); i++)
        if (strcmp(cli_argument(cli, 0), shells[i].shell) == 0) {
            fputs(shells[i].script, stdout);
            return CLI_DONE;
        }
    struct kg_err err;
    kg_fail(&err, KG_E_USAGE, "completion: %" KG_S_WORD " is not a shell that kaged knows",
            cli_argument(cli, 0));
    kg_hint(&err, "usage: kaged completion %s", cli->command->arguments[0]);
    return print_error(&err);
}
