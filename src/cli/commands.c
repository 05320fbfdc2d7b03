/* Every command of kaged, one row each. Nothing else knows which commands there are. */
#include "cli/cli.h"

#define FOLLOW                                                                                     \
    {                                                                                              \
        "follow", 'f', NULL, "Go on with what comes next, until Ctrl-C."                           \
    }

const struct cli_option cli_globals[] = {
    {"home", 0, "DIR", "Keep everything of this kaged below DIR (or set KAGED_HOME)."},
    {"json", 0, NULL, "Print what the daemon answered, as JSON."},
    {"help", 'h', NULL, "Show help on a command, or on all."},
    {"version", 0, NULL, "Show the version."},
    {0},
};

const struct cli_command cli_commands[] = {
    {
        .words = "start",
        .options = {{"foreground", 'f', NULL, "Stay in the foreground and log to stderr."},
                    {"ready-fd", 0, "N", "Write the line \"ready\" to this descriptor when it is."},
                    {"no-sandbox", 0, NULL, "Accepted; plugins are always caged all the same."}},
        .summary = "start the daemon",
        .help = "Starts the daemon for this home and returns once it answers. The plugins that are "
                "enabled start with it, each in a cage of its own.\n"
                "With --foreground it stays until SIGTERM or Ctrl-C, which is what a service "
                "manager wants.",
        .needs = CLI_PATHS,
        .run = cli_start,
    },
    {
        .words = "stop",
        .summary = "stop the daemon",
        .help = "Asks the daemon to stop and waits, up to a minute, until it is gone. Each plugin "
                "is asked to leave first, and is killed if it does not.",
        .needs = CLI_DAEMON,
        .run = cli_stop,
    },
    {
        .words = "status",
        .summary = "show whether the daemon runs, and how its plugins are",
        .help =
            "Shows version, process, home and uptime of the daemon, and how many plugins are in "
            "which state. Exit code 3 means that no daemon runs for this home.",
        .needs = CLI_DAEMON,
        .run = cli_status,
    },
    {
        .words = "reload",
        .summary = "read config.toml again and look for new plugins",
        .help = "Makes the daemon read config.toml again, whole or not at all, and look for new "
                "plugins. Shows each key that changed and when the change applies.",
        .needs = CLI_DAEMON,
        .run = cli_reload,
    },
    {
        .words = "doctor",
        .summary = "show whether plugins can be caged here, and what to mend",
        .help = "Looks at every layer that a cage is made of, builds a full one and runs a program "
                "in it. For each layer that is lacking it says what that means and how to mend it. "
                "Needs no daemon, and disturbs none.\n"
                "The exit code is 0 if plugins run fully caged, 1 if some layer is degraded, 5 if "
                "plugins refuse to start.",
        .needs = CLI_PATHS,
        .run = cli_doctor,
    },
    {
        .words = "version",
        .summary = "show the version",
        .help = "Shows the version of this program. The daemon's own is in: kaged status.",
        .needs = CLI_NOTHING,
        .run = cli_version,
    },
    {
        .words = "help",
        .arguments = {"[COMMAND...]"},
        .summary = "show help on a command, or on all",
        .help = "Shows what a command does, its arguments and its options. With --json it prints "
                "the table of all commands.\n"
                " kaged help plugin call",
        .needs = CLI_NOTHING,
        .run = cli_help,
    },
    {
        .words = "completion",
        .arguments = {"bash|zsh|fish"},
        .summary = "print a completion script for a shell",
        .help = "Prints a script that lets the shell complete commands, options and names of "
                "plugins.\n"
                " bash: eval \"$(kaged completion bash)\"\n"
                " zsh:  kaged completion zsh > DIR/_kaged, DIR being in fpath\n"
                " fish: kaged completion fish > ~/.config/fish/completions/kaged.fish",
        .needs = CLI_NOTHING,
        .run = cli_completion,
    },
    {
        .words = "plugin list",
        .options = {{"verbose", 0, NULL, "Show capabilities, homepage and folder as well."}},
        .summary = "list the plugins and their states",
        .help = "Lists every plugin that the daemon found, with its state. A plugin that cannot be "
                "used has what is wrong with it in place of its description.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_list,
    },
    {
        .words = "plugin status",
        .arguments = {"NAME"},
        .options = {{"cage", 0, NULL, "Show as well what its cage lets it see and do."}},
        .summary = "show how a plugin is, and why it ended last",
        .help =
            "Shows the state of a plugin, its process, its calls, its methods, and how its last "
            "process ended: why, when, what follows, and what it wrote last on stderr.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_status,
    },
    {
        .words = "plugin why",
        .arguments = {"NAME"},
        .summary = "show what a plugin was refused, and what would allow it",
        .help =
            "Shows each host, port, file or program that the cage refused to the plugin, how often "
            "and when, the capability that would have allowed it, and how kaged knows. Hosts and "
            "ports are known of a plugin that has a network; files and programs only where the "
            "kernel's audit log tells them, which takes a spawner that is root and a kernel that "
            "has it enabled.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_why,
    },
    {
        .words = "plugin logs",
        .arguments = {"NAME"},
        .options = {FOLLOW, {"lines", 'n', "N", "Start with the last N lines (100)."}},
        .summary = "show what a plugin wrote on stderr",
        .help = "Shows the last lines that a plugin wrote on stderr, each with its time. Control "
                "characters are shown escaped, as in \\x1b.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_logs,
    },
    {
        .words = "plugin storage",
        .arguments = {"NAME", "[SQL]"},
        .options = {{"export", 0, "FILE", "Copy the database to FILE, also while it is in use."},
                    {"reset", 0, NULL, "Start with an empty database after one was damaged."}},
        .summary = "show what a plugin has stored",
        .help = "Shows the size of a plugin's database and its tables, each with its rows. A table "
                "is called plugin_NAME_TABLE here; in SQL it has the name that the plugin gave it. "
                "With SQL, one statement that only reads, its rows are shown.\n"
                " kaged plugin storage notes 'SELECT title FROM notes LIMIT 10'",
        .needs = CLI_DAEMON,
        .run = cli_plugin_storage,
    },
    {
        .words = "plugin enable",
        .arguments = {"NAME"},
        .summary = "enable a plugin and start it",
        .help = "Enables a plugin, now and whenever the daemon starts, and waits until it runs. A "
                "plugin that failed starts anew with no failures counted. If it does not come up, "
                "the exit code is 1 and the message says why.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_enable,
    },
    {
        .words = "plugin disable",
        .arguments = {"NAME"},
        .summary = "stop a plugin and keep it from starting",
        .help =
            "Disables a plugin, now and whenever the daemon starts, and waits until its process "
            "is gone.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_disable,
    },
    {
        .words = "plugin restart",
        .arguments = {"NAME"},
        .summary = "stop a plugin and start it again",
        .help = "Restarts a plugin and waits until it runs again. If it does not come up, the exit "
                "code is 1 and the message says why.",
        .needs = CLI_DAEMON,
        .run = cli_plugin_restart,
    },
    {
        .words = "plugin call",
        .arguments = {"NAME", "METHOD", "[JSON]"},
        .options = {{"timeout", 0, "MS", "Wait at most so many milliseconds for the answer."}},
        .summary = "call a method of a plugin",
        .help =
            "Calls a method that the plugin's manifest declares and prints the result, which is "
            "JSON. The parameters are a JSON object; \"-\" reads it from stdin, and without any "
            "it is empty.\n"
            " kaged plugin call echo echo.say '{\"text\":\"hello\"}'",
        .needs = CLI_DAEMON,
        .run = cli_plugin_call,
    },
    {
        .words = "plugin validate",
        .arguments = {"PATH"},
        .options = {{"cage", 0, NULL, "Show as well what its cage would let it see and do here."}},
        .summary = "check a plugin's manifest",
        .help =
            "Checks the manifest in the folder PATH, or the file PATH itself, and lists all that "
            "is wrong with it: line, column, a code, a sentence, and what to do. Warnings do "
            "not make it invalid. The exit code is 6 if it cannot be used. Needs no daemon.\n"
            "With --cage the cage of the plugin is planned for this machine and told in words: "
            "what it may read, write, run and reach. Settings have their default values. If no "
            "cage can be built, the exit code is 5 and the message says why.",
        .needs = CLI_PATHS,
        .run = cli_plugin_validate,
    },
    {
        .words = "audit",
        .options = {FOLLOW,
                    {"plugin", 0, "NAME", "Only events of this plugin."},
                    {"event", 0, "EVENT", "Only this event; plugin.hook.* matches by prefix."},
                    {"since", 0, "TIME",
                     "Only events from then on: RFC 3339, a date, or 90s, "
                     "15m, 2h, 7d back from now."},
                    {"lines", 'n', "N", "Start with the last N events (50)."}},
        .summary = "show the audit log",
        .help = "Shows the last events of the audit log, one a line, with long values cut. With "
                "--json each line is the event as it was written.\n"
                " kaged audit --plugin echo --since 2h --follow",
        .needs = CLI_DAEMON,
        .run = cli_audit,
    },
    {
        .words = "audit verify",
        .summary = "check that the audit log is whole",
        .help =
            "Checks every block of the audit log, the chain between them and the signed head. "
            "Needs no daemon and changes nothing. If something was altered, removed or cut, the "
            "exit code is 1 and the message names the file and the line.",
        .needs = CLI_PATHS,
        .run = cli_audit_verify,
    },
    {
        .words = "config check",
        .summary = "check config.toml and local.toml",
        .help = "Reads both files as the daemon would. The exit code is 6 if one of them cannot be "
                "used; the message has its line, its key and what would be right. Needs no daemon.",
        .needs = CLI_PATHS,
        .run = cli_config_check,
    },
    {
        .words = "config get",
        .arguments = {"[KEY]"},
        .summary = "show a value of the configuration, or all",
        .help = "Shows the value that a key has, from the file or by default. A key of three parts "
                "or more is one of local.toml; secrets are shown as [secret]. Needs no daemon.\n"
                " kaged config get limits.call_timeout_ms",
        .needs = CLI_PATHS,
        .run = cli_config_get,
    },
    {
        .words = "config set",
        .arguments = {"KEY", "VALUE"},
        .summary = "change a value of the configuration",
        .help =
            "Changes one key of config.toml or local.toml and leaves every other byte as it is. "
            "The value is written as in TOML; what is no TOML is taken as a string. A value "
            "that the daemon would not take is refused. Needs no daemon; kaged reload makes "
            "the daemon read it.\n"
            " kaged config set plugins.enabled '[\"echo\"]'\n"
            " kaged config set plugins.weather.api_token '${WEATHER_TOKEN}'",
        .needs = CLI_PATHS,
        .run = cli_config_set,
    },
    {
        .words = "config path",
        .summary = "show where the configuration files are",
        .help = "Shows the paths of config.toml and local.toml, whether they exist or not.",
        .needs = CLI_PATHS,
        .run = cli_config_path,
    },
    {
        .words = "schema check",
        .arguments = {"[SCHEMA]", "[INSTANCE]"},
        .options =
            {{"lines", 0, NULL,
              "Read lines {\"schema\":...,\"instance\":...}; print true or false for each."}},
        .summary = "check a value against a JSON Schema",
        .help =
            "Checks a JSON, YAML or TOML file against a JSON Schema of draft 2020-12 or draft-07 "
            "and lists what does not fit. The exit code is 6 if something does not. Nothing is "
            "fetched. Needs no daemon.",
        .needs = CLI_NOTHING,
        .run = cli_schema_check,
    },
};
const size_t cli_command_count = KG_COUNT(cli_commands);

const struct cli_command *cli_command_find(const char *words)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (strcmp(cli_commands[i].words, words) == 0)
            return &cli_commands[i];
    return NULL;
}

bool cli_command_begins(const struct cli_command *command, const char *words)
{
    size_t length = strlen(words);
    if (length == 0)
        return true;
    if (strncmp(command->words, words, length) != 0)
        return false;
    return command->words[length] == ' ' || command->words[length] == '\0';
}
