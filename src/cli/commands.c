/* Every command of kaged, one row each. Nothing else knows which commands there are. */
#include "cli/cli.h"

#define FOLLOW                                                                                     \
    {                                                                                              \
        "follow", 'f', NULL, "Go on with what comes next, until Ctrl-C."                           \
    }

#define YES                                                                                        \
    {                                                                                              \
        "yes", 'y', NULL, "Ask nothing: say yes beforehand, for scripts."                          \
    }
#define DRY_RUN                                                                                    \
    {                                                                                              \
        "dry-run", 'n', NULL, "Only show what would change."                                       \
    }
#define CONVERSATION_ONLY                                                                          \
    {                                                                                              \
        "conversation-only", 0, NULL, "Leave files as they are."                                   \
    }
#define GRANT_PROJECT                                                                              \
    {                                                                                              \
        "project", 0, "P", "Only in this project, where it has a process of its own then."         \
    }
#define ALLOW_NEW                                                                                  \
    {                                                                                              \
        "allow-new-capabilities", 0, NULL,                                                         \
            "With --yes: also to capabilities that the installed version does not have."           \
    }

#define REPLACE_SOURCE                                                                             \
    {                                                                                              \
        "replace-source", 0, NULL,                                                                 \
            "With --yes: also in the place of a plugin that came from another source."             \
    }

#define OF_PROJECT                                                                                 \
    {                                                                                              \
        "project", 'p', "PROJECT", "As an agent of this project has it."                           \
    }
#define OF_AGENT                                                                                   \
    {                                                                                              \
        "agent", 'a', "AGENT", "Which agent, by its path (primary)."                               \
    }
#define AGENT(meaning)                                                                             \
    {                                                                                              \
        "agent", 0, "AGENT", meaning                                                               \
    }
#define LAST                                                                                       \
    {                                                                                              \
        "last", 0, NULL, "The newest session, in the place of SESSION."                            \
    }
#define SEAT                                                                                       \
    {                                                                                              \
        "seat", 0, "AGENT", "Which agent is spoken to: primary, primary.subagents.NAME."           \
    }

const struct cli_option cli_globals[] = {
    {"home", 0, "DIR", "Keep everything of this kaged below DIR (or set KAGED_HOME)."},
    {"system", 0, NULL, "Use the folders of the system, /etc/kaged and others, as root does."},
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
                    {"no-sandbox", 0, NULL, "Accepted; plugins are always caged all the same."},
                    {"insecure", 0, NULL,
                     "Let everybody on this machine in over TCP; each answer warns of it."}},
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
        .run = cli_stop,
    },
    {
        .words = "status",
        .summary = "show whether the daemon runs, and how its plugins are",
        .help =
            "Shows version, process, home and uptime of the daemon, how many plugins are in which "
            "state, and its figures: calls and errors, memory, how late its loop is. Exit code 3 "
            "means that no daemon runs for this home.",
        .run = cli_status,
    },
    {
        .words = "reload",
        .summary = "read config.toml again and look for new plugins",
        .help = "Makes the daemon read config.toml again, whole or not at all, and look for new "
                "plugins. Shows each key that changed and when the change applies.",
        .run = cli_reload,
    },
    {
        .words = "doctor",
        .summary = "show whether plugins can be caged here, and what to mend",
        .help = "Looks at every layer that a cage is made of, builds a full one and runs a program "
                "in it. For each layer that is lacking it says what that means and how to mend it. "
                "Needs no daemon, and disturbs none.\n"
                "Then it looks at system plugins: whether each can be loaded, and in a daemon that "
                "runs whether one is slow or was the last thing that was done before a crash.\n"
                "The exit code is 0 if plugins run fully caged, 1 if some layer is degraded or a "
                "system plugin is not well, 5 if plugins refuse to start.",
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
        .help = "Prints a script that lets the shell complete commands, options, names of plugins, "
                "their methods, projects, sessions, keys of the configuration and events. An "
                "installed kaged brings "
                "these scripts along.\n"
                " bash: eval \"$(kaged completion bash)\"\n"
                " zsh:  kaged completion zsh > DIR/_kaged, DIR being in fpath\n"
                " fish: kaged completion fish > ~/.config/fish/completions/kaged.fish",
        .needs = CLI_NOTHING,
        .run = cli_completion,
    },
    {
        .words = "completion words",
        .summary = "print what can be typed next, for these scripts",
        .help = "Reads the words that were typed after kaged from stdin, one a line; the last is "
                "the one being typed, and may be empty. Prints what it can be, with its meaning "
                "behind a tab. A line :files or :folders means that those can follow. What a "
                "daemon would have to say is left out if none answers at once.",
        .needs = CLI_NOTHING,
        .run = cli_completion_words,
    },
    {
        .words = "auth open",
        .options = {{"print", 0, NULL, "Only print the URL."}},
        .summary = "print a URL that lets a browser in, and open it",
        .help = "Prints a URL that gives the browser which opens it first a session. It works "
                "once, and within a day; run auth open again for another. On a terminal with a "
                "screen the browser is opened as well. The daemon has to listen on TCP: see "
                "daemon.bind in kaged.toml(5).",
        .run = cli_auth_open,
    },
    {
        .words = "auth token create",
        .options = {{"name", 0, "NAME", "What it is called in lists and in the audit log."},
                    {"scope", 0, "SCOPES",
                     "What it may do, separated by commas (plugins:read,plugins:call)."},
                    {"expires", 0, "TIME", "When it ends: 12h, 30d, a date, or RFC 3339 (never)."},
                    {"profile", 0, "PROFILE",
                     "For MCP clients: it may use /mcp alone, and there what this profile names."}},
        .summary = "make an API token, for a program to use over TCP",
        .help = "Prints a new token, which a program sends as Authorization: Bearer TOKEN. It is "
                "shown this once; kaged keeps a hash of it. The scopes are in kaged-api(7); admin "
                "has them all.\n"
                " kaged auth token create --name ci --scope audit:read --expires 30d",
        .run = cli_auth_token_create,
    },
    {
        .words = "auth token list",
        .summary = "list the API tokens",
        .help = "Lists every API token with its scopes, and when it was last used since the daemon "
                "started. The tokens themselves are not known any more.",
        .run = cli_auth_token_list,
    },
    {
        .words = "auth token revoke",
        .arguments = {"ID"},
        .summary = "revoke an API token",
        .help = "Revokes the token of this id or name: the next request with it is refused.",
        .run = cli_auth_token_revoke,
    },
    {
        .words = "plugin list",
        .options = {{"verbose", 0, NULL, "Show capabilities, homepage and folder as well."}},
        .summary = "list the plugins and their states",
        .help = "Lists every plugin that the daemon found: its state, how long it has run, its "
                "calls, how long half of them and all but one in a hundred took at most, its "
                "restarts, and the memory of its cage. What is wrong with a plugin that cannot be "
                "used stands below.",
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
        .run = cli_plugin_why,
    },
    {
        .words = "plugin grant",
        .arguments = {"NAME", "CAPABILITY..."},
        .options = {GRANT_PROJECT},
        .summary = "let a plugin do what its manifest does not declare",
        .help =
            "Adds capabilities of your own to those that the plugin's manifest declares, or opens "
            "what you revoked. They are written as a manifest writes them, and have to keep the "
            "same rules. They are kept in local.toml, in [grants.NAME], also when the plugin is "
            "upgraded. A plugin that runs is restarted in its new cage.\n"
            " kaged plugin grant notes read:fs:/srv/notes\n"
            " kaged plugin grant notes net:api.example.org:443 --project site",
        .run = cli_plugin_grant,
    },
    {
        .words = "plugin revoke",
        .arguments = {"NAME", "CAPABILITY..."},
        .options = {GRANT_PROJECT},
        .summary = "take from a plugin what it may do",
        .help =
            "Takes back what you granted, or closes what the plugin's manifest declares, whole or "
            "in part: of a path below one that it may see an empty folder is left. Closing what it "
            "may read closes all of it; closing what it may write leaves what another line lets it "
            "read. A plugin that runs is restarted in its new cage. kaged plugin grant opens it "
            "again.\n"
            " kaged plugin revoke notes write:fs:/srv/notes/archive",
        .run = cli_plugin_revoke,
    },
    {
        .words = "plugin logs",
        .arguments = {"NAME"},
        .options = {FOLLOW, {"lines", 'n', "N", "Start with the last N lines (100)."}},
        .summary = "show what a plugin wrote on stderr",
        .help = "Shows the last lines that a plugin wrote on stderr, each with its time. Control "
                "characters are shown escaped, as in \\x1b.",
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
        .run = cli_plugin_storage,
    },
    {
        .words = "plugin install",
        .arguments = {"SOURCE", "[ARG...]"},
        .options =
            {{"version", 0, "V",
              "Of a git repository: the tag V or vV. Of a package: V, or a range of versions."},
             {"name", 0, "NAME", "Of an MCP server: what it is called here."},
             {"no-args", 0, NULL,
              "Of a package: without the arguments that the version before was given."},
             {"header", 0, "HEADER",
              "Of an MCP server somewhere else: \"Name: value\", with each request; ${env.NAME} in "
              "it is what --secret or --env gives it."},
             YES,
             ALLOW_NEW,
             REPLACE_SOURCE,
             {"grant", 0, "CAPABILITY",
              "Grant it this, too, as kaged plugin grant does; as often as you like."},
             {"env", 0, "NAME=VALUE", "Put this into its environment; as often as you like."},
             {"secret", 0, "NAME",
              "Put the secret NAME into its environment under that name, or NAME=SECRET."}},
        .summary = "install a plugin, or another version of one",
        .help =
            "Fetches a plugin from a folder, a .tar.gz, .zip or .mcpb file, or a git repository "
            "(https://, git+https://, file://), or takes the one of that name that came with "
            "kaged, if nothing here is called so, or an MCP server from npm "
            "(npm:PACKAGE[@VERSION]); checks it, and shows what it is and what it "
            "may do; capabilities that need a second look are marked with an exclamation mark. "
            "It is installed after a yes, and starts only when it is enabled. Nothing of it is "
            "run before that.\n"
            "If the plugin is installed already, the differences are shown; capabilities that "
            "the installed version does not have need a yes of their own, and so does a "
            "plugin of the same name from another source. A running plugin is "
            "restarted, and if the new version does not come up, the old one is put back.\n"
            "--grant, --env and --secret are lines of your own, besides what the plugin asks "
            "for: shown apart, written to [grants.NAME] of local.toml by the same yes, and "
            "kept by upgrades. A secret need not be set yet: kaged secret set NAME.\n"
            "A package of npm is fetched by npm's own client from the registry that it is set "
            "to, in a cage that reaches nothing else, without running a script of any package. "
            "What stands behind -- are the arguments that the server is started with; a path "
            "among them is proposed as a capability. Other MCP servers are program:/PATH, a "
            "program of this machine, which is run where it lies, and mcp+https://HOST/PATH, "
            "one somewhere else.\n"
            "A file NAME.lua is a script: after a yes it is copied to the others, see "
            "kaged-script(7).\n"
            "Where there is no terminal to ask on, --yes must be given; else the exit code is "
            "5 and nothing is done. The exit code is 6 if the plugin cannot be used.\n"
            "Works with and without a daemon.\n"
            " kaged plugin install memory-markdown\n"
            " kaged plugin install ./oh-my-pi\n"
            " kaged plugin install https://example.org/oh-my-pi --version 1.4.2\n"
            " kaged plugin install ./search --grant net:example.org:443\n"
            " kaged plugin install npm:@modelcontextprotocol/server-filesystem -- ./docs\n"
            " kaged plugin install mcp+https://example.org/mcp --name there",
        .needs = CLI_PATHS,
        .run = cli_plugin_install,
    },
    {
        .words = "plugin dev",
        .arguments = {"PATH"},
        .options = {{"full", 0, NULL, "Show messages whole, and not cut to the terminal's width."},
                    YES,
                    {"allow-new-capabilities", 0, NULL,
                     "With --yes: also to capabilities that a change of the manifest adds."}},
        .summary = "run a plugin from its folder while you change it",
        .help =
            "Runs the plugin in the folder PATH under the daemon, in its cage, after a yes to what "
            "it may do. Whenever a file below PATH changes, the plugin is started again; nothing "
            "is built, and nothing gets into the store. A manifest that cannot be used is told, "
            "and the plugin goes on as it was. One that asks for more than was agreed to, "
            "capabilities above all, stops the plugin until the next yes.\n"
            "Each message is shown, with its direction, and behind an answer how long it took; "
            "what the plugin writes on stderr stands between them. Other commands treat the plugin "
            "as any other: kaged plugin call, status, logs.\n"
            "It ends with this command (Ctrl-C). A plugin of the same name that is installed is "
            "stopped meanwhile, and comes back.\n"
            "Where there is no terminal to ask on, --yes must be given. With --json each line is "
            "what the daemon told.\n"
            "A file NAME.lua is a script: it is run from among the others, each change of it as "
            "soon "
            "as it is written, and keeps what config.toml grants it meanwhile.\n"
            " kaged plugin dev ./oh-my-pi",
        .run = cli_plugin_dev,
    },
    {
        .words = "plugin approve",
        .arguments = {"NAME..."},
        .options = {YES, ALLOW_NEW},
        .summary = "approve the files of a plugin as they are",
        .help = "Shows how the files of a plugin differ from those that were approved, or what it "
                "is if it never was, and asks. A plugin whose files changed, or that was copied "
                "into the store by hand, does not start before that. Works with and without a "
                "daemon.\n"
                "Of a script it shows what config.toml grants it, in words: a script whose file "
                "changed runs without that until its new file is approved, by the daemon.",
        .needs = CLI_PATHS,
        .run = cli_plugin_approve,
    },
    {
        .words = "plugin uninstall",
        .arguments = {"NAME"},
        .options = {{"force", 0, NULL, "Also while sessions use it."},
                    {"keep-storage", 0, NULL, "Keep its database, moved aside."}},
        .summary = "stop a plugin and remove it",
        .help = "Stops a plugin and removes its files, its entry in local.toml and its database. "
                "Works with and without a daemon.",
        .needs = CLI_PATHS,
        .run = cli_plugin_uninstall,
    },
    {
        .words = "plugin promote",
        .arguments = {"NAME"},
        .summary = "make a plugin available to every project",
        .help = "A plugin that was installed for a project is for that project only. This makes it "
                "one of the operator's own: local = true in local.toml. Works with and without a "
                "daemon.",
        .needs = CLI_PATHS,
        .run = cli_plugin_promote,
    },
    {
        .words = "plugin enable",
        .arguments = {"NAME"},
        .summary = "enable a plugin and start it",
        .help = "Enables a plugin, now and whenever the daemon starts, and waits until it runs. A "
                "plugin that failed starts anew with no failures counted. If it does not come up, "
                "the exit code is 1 and the message says why.",
        .run = cli_plugin_enable,
    },
    {
        .words = "plugin disable",
        .arguments = {"NAME"},
        .summary = "stop a plugin and keep it from starting",
        .help =
            "Disables a plugin, now and whenever the daemon starts, and waits until its process "
            "is gone.",
        .run = cli_plugin_disable,
    },
    {
        .words = "plugin restart",
        .arguments = {"NAME"},
        .summary = "stop a plugin and start it again",
        .help = "Restarts a plugin and waits until it runs again. If it does not come up, the exit "
                "code is 1 and the message says why.",
        .run = cli_plugin_restart,
    },
    {
        .words = "plugin reload",
        .arguments = {"NAME"},
        .summary = "read a plugin's manifest and configuration again",
        .help =
            "Reads the manifest of a plugin and local.toml again, and says what it did: the "
            "plugin is restarted if its manifest, a path that it may use, its limits or a "
            "setting for its start changed, else only told its new configuration. Its processes "
            "in projects and conversations are, too, unless one of them is named. If one of "
            "the files cannot be used, all stays as it is and the exit code is 6. To run a "
            "changed program, restart the plugin.",
        .run = cli_plugin_reload,
    },
    {
        .words = "plugin tools",
        .arguments = {"NAME"},
        .options = {{"approve", 0, NULL, "Show the tools that wait for a yes, and ask for it."},
                    {"yes", 'y', NULL, "With --approve: say yes without being asked."},
                    {"off", 0, "TOOL", "Offer this tool to nobody any more."},
                    {"on", 0, "TOOL", "Offer it again."}},
        .summary = "show the tools of a plugin, and approve those of a server",
        .help = "Shows each tool of the plugin with its description and the names of its "
                "parameters; with --json their schemas as well. An MCP server tells of its tools "
                "when it runs: none is offered before they were approved, and one whose "
                "description, annotations or schemas changed since is offered as it was approved "
                "until the change is approved, too.",
        .run = cli_plugin_tools,
    },
    {
        .words = "plugin resources",
        .arguments = {"NAME", "[URI]"},
        .options = {{"templates", 0, NULL, "List the templates of URIs instead."}},
        .summary = "list the resources of an MCP server, or print one",
        .help = "Lists what the server offers to be read, or prints the text of the resource with "
                "that URI; bytes are only counted, and --json has them. The server is started if "
                "it does not run. A link is shown and never followed.",
        .run = cli_plugin_resources,
    },
    {
        .words = "plugin prompts",
        .arguments = {"NAME", "[PROMPT]", "[JSON]"},
        .summary = "list the prompts of an MCP server, or fill one in",
        .help = "Lists the prompts with their arguments, or prints the messages of one. JSON is "
                "the object of its arguments, each a string; - reads it from stdin. The server is "
                "started if it does not run.",
        .run = cli_plugin_prompts,
    },
    {
        .words = "plugin knobs",
        .arguments = {"NAME"},
        .options = {OF_PROJECT, OF_AGENT},
        .summary = "show the knobs of a plugin and their values",
        .help = "Shows each knob of the plugin's manifest, its value and its default; with "
                "--project as an agent of that project has it, and where the value comes from. "
                "Secrets are never among them.",
        .run = cli_plugin_knobs,
    },
    {
        .words = "plugin knobs get",
        .arguments = {"NAME", "KNOB"},
        .options = {OF_PROJECT, OF_AGENT},
        .summary = "show the value of a knob",
        .help = "Prints the value of one knob: a text as it is, all else as JSON.",
        .run = cli_plugin_knobs_get,
    },
    {
        .words = "plugin knobs set",
        .arguments = {"NAME", "KNOB", "[VALUE]"},
        .options = {OF_PROJECT,
                    OF_AGENT,
                    {"unset", 0, NULL, "Go back to what holds without the agent's own value."}},
        .summary = "turn a knob for an agent",
        .help = "Writes the value into the project's file, for the agent that is named or the "
                "primary, and leaves every other byte of it as it is; then the project is read "
                "again and the plugin is told. A value that is not within the bounds of the knob, "
                "or does not fit the plugin's configuration, is refused, and the exit code is 6. "
                "A new path restarts the plugin, since its cage is another one.\n"
                " kaged plugin knobs set memory-markdown turns 7 --project music",
        .run = cli_plugin_knobs_set,
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
        .run = cli_plugin_call,
    },
    {
        .words = "plugin new",
        .arguments = {"NEW_NAME"},
        .options = {{"lang", 'l', "ts|python|shell|c",
                     "Which language it is written in; has to be given."},
                    {"mcp", 0, NULL, "An MCP server, in ts or python."},
                    {"dir", 0, "DIR", "Where to write it (a folder of its name, here)."}},
        .summary = "write a plugin that works, to begin with",
        .help = "Writes a folder with a plugin that offers a tool, a method, a hook and a setting: "
                "its manifest, its program, tests, and a copy of the SDK, so that nothing has to "
                "be fetched. For C it runs make once. A folder with something in it is left as it "
                "is. Needs no daemon.\n"
                "With --mcp it is a server of the Model Context Protocol, which other clients can "
                "start, too: its tools, and the protocol in one file, without dependencies.\n"
                "docs/writing-plugins.md goes on from there.\n"
                " kaged plugin new weather --lang python\n"
                " kaged plugin new weather --mcp --lang ts",
        .needs = CLI_NOTHING,
        .run = cli_plugin_new,
    },
    {
        .words = "plugin pack",
        .arguments = {"PATH"},
        .options = {{"output", 'o', "FILE", "What to write (NAME-VERSION.mcpb, here)."}},
        .summary = "make one file of a plugin, for others",
        .help = "Puts the plugin in the folder PATH into a file that kaged plugin install takes. "
                "Of an MCP server it is an .mcpb, with a manifest.json made of its manifest, so "
                "that other clients take it, too; of any other plugin a .zip. The same folder "
                "gives the same bytes. What belongs to its author and not to the plugin (.git, "
                ".env, logs and the like) is left out and named. A file that is there is not "
                "written over. Needs no daemon.\n"
                " kaged plugin pack ./weather",
        .needs = CLI_PATHS,
        .run = cli_plugin_pack,
    },
    {
        .words = "plugin trace",
        .arguments = {"NAME"},
        .options = {{"output", 'o', "FILE", "Write it to FILE, for kaged plugin replay."},
                    {"on", 0, NULL, "Switch the plugin's recorder on."},
                    {"off", 0, NULL, "Switch it off; what it has is forgotten."},
                    {"recorded", 0, NULL, "Show what the recorder has."},
                    {"crash", 0, NULL, "Show what it had when the plugin last died."}},
        .summary = "show what is said with a plugin, as it happens",
        .help =
            "Shows each line to and from the plugin with its time, its stderr and its changes of "
            "state between, until Ctrl-C: --> is said to the plugin, <-- by it, and behind an "
            "answer stands how long it took. Secrets are shown as [redacted]: what local.toml has "
            "for the plugin, and what a schema of its manifest calls sensitive. With --json, and "
            "in FILE, it is one JSON object a line: see kaged-trace(5).\n"
            "A recorder keeps the last records of a plugin, over its restarts. When the plugin "
            "crashes or is killed, they are kept with the report of its exit.\n"
            " kaged plugin trace notes -o notes.trace\n"
            " kaged plugin trace notes --on",
        .run = cli_plugin_trace,
    },
    {
        .words = "plugin replay",
        .arguments = {"FILE", "[PATH]"},
        .options = {{"timed", 0, NULL, "Send as far apart as it was then, not as fast as it goes."},
                    {"ignore", 0, "PATHS",
                     "Do not compare these: /result/at,/result/items/*/id for example."}},
        .summary = "play a trace against a build of the plugin",
        .help =
            "Starts the plugin in the folder PATH, or else the installed one that the trace is of, "
            "in its cage and in temporary folders, and sends it what FILE has been said to it. Its "
            "own requests get the answers that they got then. Each answer is compared with the one "
            "in FILE, and where they differ it is shown: the method, the path in the JSON, what it "
            "was and what it is. The exit code is 1 if something differs, and 6 if FILE is no "
            "trace. Needs no daemon.\n"
            " kaged plugin replay notes.trace ./notes",
        .needs = CLI_PATHS,
        .run = cli_plugin_replay,
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
            "what it may read, write, run and reach. Settings have their default values, and the "
            "folder around you stands for the project. If no cage can be built, the exit code is 5 "
            "and the message says why.",
        .needs = CLI_PATHS,
        .run = cli_plugin_validate,
    },
    {
        .words = "plugin test",
        .arguments = {"PATH"},
        .options = {{"timeout", 't', "SECONDS", "How long an answer may take; 5 if not given."},
                    {"rule", 'r', "NAME,...", "Look at these rules only."}},
        .summary = "run a plugin in its cage against every rule that binds it",
        .help =
            "Runs the plugin in the folder PATH in its real cage and plays the daemon: handshake, "
            "calls of its methods, tools and hooks with what their schemas allow and refuse, "
            "configurations, storage, much at once, and its end. Each rule is a line: kept, "
            "broken, or not applicable. What broke a rule follows, with what was sent, what came, "
            "and how to mend it. Warnings do not count. The exit code is 0 if no rule is broken, "
            "else 1; 6 if the manifest cannot be used. Needs no daemon.\n"
            "An MCP server is greeted in its era and has rules of its own: what it says of itself, "
            "its tools and what they return, resources, prompts, progress, cancelling.\n"
            "What the manifest declares counts as approved for this run. config:/, project:/ and "
            "the database are in a temporary folder, which is removed afterwards.\n"
            " kaged plugin test ./echo\n"
            " kaged plugin test --rule ping.answer,call.answer ./echo",
        .needs = CLI_PATHS,
        .run = cli_plugin_test,
    },
    {
        .words = "project load",
        .arguments = {"[PATH]"},
        .options = {{"watch", 'w', NULL, "Read it again whenever its file changes."}},
        .summary = "load a project, so that sessions can be held in it",
        .help = "Loads the project whose root is the folder PATH, or here without one; it stays "
                "loaded over restarts of the daemon. What is wrong with its file is listed, all of "
                "it, and the exit code is 6. A project that wants plugins which you have not "
                "allowed it is pending: what to do next is said. One that is loaded already is "
                "read again. A folder PATH without a .kaged is a project, too: its agent has every "
                "plugin that is enabled for all projects, and its id ends in a hash of its path, "
                "since two folders can have one name.\n"
                " kaged project load ~/src/music --watch",
        .run = cli_project_load,
    },
    {
        .words = "project init",
        .arguments = {"[PATH]"},
        .summary = "begin a project's file",
        .help = "Writes .kaged/project.yaml into the folder PATH, or here without one: a project "
                "with one agent, and comments on what can follow. A file that is there stays as it "
                "is. Needs no daemon; one that has the folder loaded reads it again.",
        .needs = CLI_PATHS,
        .run = cli_project_init,
    },
    {
        .words = "project add",
        .arguments = {"PLUGIN"},
        .options = {{"agent", 0, "AGENT",
                     "For this agent, by its path or the name of a subagent (the primary)."},
                    {"path", 0, "PATH", "In the project of this folder (the one around here)."}},
        .summary = "add a plugin to an agent of a project",
        .help = "Declares a plugin in the project's file, by its name or its package; comments and "
                "layout stay as they are. A file that is a link or read-only is refused. Needs no "
                "daemon; one that has the project loaded reads it again, and asks for your consent "
                "to what is new.\n"
                " kaged project add memory --agent researcher",
        .needs = CLI_PATHS,
        .run = cli_project_add,
    },
    {
        .words = "project reload",
        .arguments = {"PROJECT"},
        .summary = "read a project's file again",
        .help = "Reads a project's file again and shows what changed for whom; plugins that you "
                "declined are asked for again. If the file cannot be used, all that is wrong is "
                "listed, the project stays as it is, and the exit code is 6.",
        .run = cli_project_reload,
    },
    {
        .words = "project list",
        .summary = "list the projects that are loaded",
        .help = "Lists each project with its state, how many agents, plugins and sessions it has, "
                "and its root; of one that is pending it says why.",
        .run = cli_project_list,
    },
    {
        .words = "project show",
        .arguments = {"PROJECT"},
        .options = {{"agent", 0, "AGENT", "Only this agent, by its path."}},
        .summary = "show what the agents of a project have",
        .help = "Shows each agent of a project with its model, prompt, plugins, hooks, tools and "
                "compaction, and each setting with where it comes from. Secrets and values that "
                "a plugin calls sensitive are not shown.\n"
                " kaged project show music --agent primary.subagents.reader",
        .run = cli_project_show,
    },
    {
        .words = "project unload",
        .arguments = {"PROJECT"},
        .options = {{"force", 0, NULL, "Also while sessions are in it."}},
        .summary = "forget a project",
        .help = "The daemon forgets the project, and plugins that nobody else wants are stopped. "
                "Its files stay as they are.",
        .run = cli_project_unload,
    },
    {
        .words = "project consent",
        .arguments = {"[list]"},
        .summary = "show what projects want of the operator",
        .help = "Shows each plugin that a project wants installed, upgraded or activated, its "
                "state, and where it would come from. Each has to be answered on its own.",
        .run = cli_consent_list,
    },
    {
        .words = "project consent approve",
        .arguments = {"ID", "[PATH]"},
        .options = {YES, ALLOW_NEW, REPLACE_SOURCE},
        .summary = "look at what a project wants, and say yes or no",
        .help = "Fetches the plugin once you allow it, shows what it is and what it may do, and "
                "asks. Where the project does not say where the plugin comes from, or where that "
                "cannot be reached, PATH does. After a yes the plugin is installed for that "
                "project only: see kaged plugin promote.",
        .run = cli_consent_approve,
    },
    {
        .words = "project consent decline",
        .arguments = {"ID"},
        .summary = "say no to what a project wants",
        .help =
            "The project stays pending, and takes no sessions. kaged project reload asks again.",
        .run = cli_consent_decline,
    },
    {
        .words = "project validate",
        .arguments = {"PATH"},
        .options = {{"installed", 0, NULL,
                     "Check as well against the plugins that are installed here."}},
        .summary = "check a project's file",
        .help = "Checks .kaged/project.yaml in the folder PATH, or the file PATH itself, with the "
                "prompts that it names, and lists all that is wrong: line, column, a code, a "
                "sentence, and what to do. Warnings do not make it invalid. The exit code is 6 if "
                "it cannot be used. Needs no daemon.\n"
                "With --installed each agent meets the plugins that are installed here and the "
                "defaults in local.toml, and what it gets is shown: plugins, hooks, tools, and "
                "each setting with where it comes from.",
        .needs = CLI_PATHS,
        .run = cli_project_validate,
    },
    {
        .words = "chat",
        .options = {{"project", 0, "PROJECT", "Of which project (the one around this folder)."},
                    {"resume", 0, "SESSION", "Go on with this session; @last is the newest."},
                    {"last", 0, NULL, "Go on with the newest session."}},
        .summary = "talk with an agent on the terminal",
        .help =
            "Begins a session of a project, or goes on with one, and sends each line that is "
            "typed to its agent, as session send does; a line that ends in a backslash goes on "
            "in the next. Lines that begin with a slash are commands: /help lists them, /undo "
            "and /redo go back and forth; one that is not in the list is a script's. Ctrl-C "
            "cancels a turn, and at an empty prompt leaves; the session stays, and --resume "
            "goes on with it.\n"
            "If local.toml has no model for the agent, what is at hand is offered: an Ollama on "
            "this machine, a key of Anthropic or OpenAI in the environment. After a yes it is "
            "written there; a key is kept as a secret.",
        .run = cli_chat,
    },
    {
        .words = "session new",
        .options = {{"project", 0, "PROJECT", "Of which project (the one around this folder)."},
                    {"workdir", 0, "DIR", "Where it works (the project's root)."},
                    {"title", 0, "TEXT", "What it is called in lists (the first words said)."},
                    SEAT},
        .summary = "begin a session, and print its id",
        .help = "Begins a session of a project that is loaded and active, and prints its id alone, "
                "for scripts to take. No plugin hears of it before the first message.\n"
                " kaged session new --project shop\n"
                " kaged session send $(kaged session new) 'What is in here?'",
        .run = cli_session_new,
    },
    {
        .words = "session list",
        .options = {{"project", 0, "PROJECT", "Only those of this project."},
                    {"state", 0, "active|idle|stopped|closed", "Only those in this state."},
                    {"before", 0, "SESSION", "Only those that are older than this one."},
                    {"lines", 'n', "N", "Show at most N, up to 100 (50)."}},
        .summary = "list the sessions, the newest first",
        .help = "Lists sessions: their state, how long ago something happened in them, how many "
                "entries they have, which agent is spoken to, and their title: the one that was "
                "given, or the first words said. One that is stopped waits for "
                "the operator, after a compaction by checkpoint.",
        .run = cli_session_list,
    },
    {
        .words = "session show",
        .arguments = {"SESSION"},
        .options = {AGENT("Only what concerns this agent."),
                    {"all", 0, NULL, "Show what compactions superseded as well."},
                    LAST},
        .summary = "show what was said in a session",
        .help = "Shows what was said, by whom and when, in the order in which it came, each entry "
                "with its number; long calls and results of tools are cut. SESSION is an id, "
                "the start of one, with or without ses_, or @last, the newest; --last stands for "
                "that, too. With --json each "
                "line is an entry as the "
                "API has it, superseded ones too.\n"
                " kaged session show ses_01k9 --agent primary --all",
        .run = cli_session_show,
    },
    {
        .words = "session send",
        .arguments = {"SESSION", "[TEXT...]"},
        .options = {{"steps", 0, "N", "Ask the model at most N times, as long as it wants tools."},
                    {"reasoning", 0, NULL, "Show what the model thinks, too, on stderr."},
                    {"answer", 0, "TEXT",
                     "What a question of a plugin is answered; again for the next one."},
                    {"yes", 'y', NULL, "Say yes to questions that take yes or no."},
                    LAST},
        .summary = "say something, and show what the model answers",
        .help = "Sends a message to the agent in the session's seat and runs its turn: the model "
                "is asked, the tools that it wants are called, and so on until it is done. What it "
                "says goes to stdout as it comes; calls of tools, retries and compactions are "
                "lines on stderr. Without TEXT, or with \"-\", the message is read from stdin. "
                "Ctrl-C cancels the turn: what was said until then is kept, and the exit code is "
                "1. A line that begins with / and the name of a command that a script has is that "
                "command, and not said to the model.\n"
                "With --json each line is what the API told, as it told it. The exit code is 0 if "
                "the model came to an end of its own; 5 if it refused.\n"
                " kaged session send ses_01k9 Which tests fail\n"
                " git diff | kaged session send ses_01k9 -",
        .run = cli_session_send,
    },
    {
        .words = "session commands",
        .arguments = {"SESSION"},
        .options = {LAST},
        .summary = "list the commands that scripts have for a session",
        .help = "Lists them with their scripts, which are started for that.",
        .run = cli_session_commands,
    },
    {
        .words = "session command",
        .arguments = {"SESSION", "NAME", "[ARGS...]"},
        .options = {{"answer", 0, "TEXT",
                     "What a question of a plugin is answered; again for the next one."},
                    {"yes", 'y', NULL, "Say yes to questions that take yes or no."},
                    LAST},
        .summary = "run a command of a script",
        .help =
            "Runs it with the words behind its name. What it returns goes to stdout, what its "
            "script tells meanwhile to stderr. The exit code is 1 if it failed, and 4 if there "
            "is no such command. What its script asks is asked on the terminal, unless --answer or "
            "--yes have said it. With --json each line is what the API told.\n"
            " kaged session command @last heard",
        .run = cli_session_command,
    },
    {
        .words = "session context",
        .arguments = {"SESSION"},
        .options = {AGENT("Of this agent (the one in the seat)."),
                    {"tools", 0, "openai|anthropic", "Show its tools as this API takes them."},
                    LAST},
        .summary = "show what the model of an agent would be sent",
        .help = "Shows the context of an agent: its prompt, and each message that stands, with "
                "what plugins added between their delimiters, and how many tokens that is by "
                "kaged's estimate. Plugins are told of a session, and add to it, with its first "
                "message or call of a tool.",
        .run = cli_session_context,
    },
    {
        .words = "session tool",
        .arguments = {"SESSION", "TOOL", "[JSON]"},
        .options = {AGENT("As this agent (the one in the seat)."), LAST},
        .summary = "call a tool as an agent would",
        .help = "Calls a tool of the agent's plugins, as if its model had asked for it: call and "
                "result become entries of the session. Prints the result, which is JSON. The "
                "arguments are a JSON object; \"-\" reads it from stdin. The exit code is 1 if the "
                "plugin is down or answered with an error, and 4 if the agent has no such tool.\n"
                " kaged session tool ses_01k9 memory.recall '{\"query\":\"deploy\"}'",
        .run = cli_session_tool,
    },
    {
        .words = "session idle",
        .arguments = {"SESSION"},
        .options = {LAST},
        .summary = "tell the plugins now that a session is idle",
        .help = "Fires on_session_idle, which comes by itself after sessions.idle_after_sec "
                "without anything happening, and shows which plugins heard of it.",
        .run = cli_session_idle,
    },
    {
        .words = "session compact",
        .arguments = {"SESSION"},
        .options = {AGENT("The context of this agent (the one in the seat)."),
                    {"strategy", 0, "drop|summarize|delegate|checkpoint",
                     "Another than the project's own."},
                    {"keep-recent", 0, "N", "Leave the last N turns alone."},
                    LAST},
        .summary = "compact the context of an agent now",
        .help = "Compacts the context of an agent, as it happens by itself once that fills the "
                "project's threshold. Nothing is deleted: what is left out is superseded, and "
                "session undo-compact brings it back. Says what became of it, and why another "
                "strategy than the wanted one was used, if so.",
        .run = cli_session_compact,
    },
    {
        .words = "session undo-compact",
        .arguments = {"SESSION"},
        .options = {AGENT("The context of this agent (the one in the seat)."), LAST},
        .summary = "take the last compaction back",
        .help = "Takes the last compaction of an agent back: what it superseded stands again, and "
                "what it added is gone from the context. Again for the one before.",
        .run = cli_session_undo_compact,
    },
    {
        .words = "session pin",
        .arguments = {"SESSION", "ENTRY"},
        .options = {{"unpin", 0, NULL, "Take it back."}, LAST},
        .summary = "keep an entry through every compaction",
        .help = "Pins an entry: no compaction, nor any plugin that does one, may leave it out. "
                "ENTRY is the number that session show prints, or an id.\n"
                " kaged session pin ses_01k9 12",
        .run = cli_session_pin,
    },
    {
        .words = "session fork",
        .arguments = {"SESSION", "[ENTRY]"},
        .options = {LAST},
        .summary = "begin a session with what was said in another",
        .help = "Begins a new session with all entries of another, up to and with ENTRY (the "
                "last), and prints its id. ENTRY is the number that session show prints, or an id. "
                "The other session stays as it is.",
        .run = cli_session_fork,
    },
    {
        .words = "session undo",
        .arguments = {"SESSION"},
        .options = {DRY_RUN, YES, CONVERSATION_ONLY, LAST},
        .summary = "go back to before what was said last",
        .help = "Goes back to before the last message of the user: the session, whose id stays, "
                "stands on another branch, on which that was not said. Again for the message "
                "before. Nothing is deleted: session redo takes it back, and the branch that was "
                "left is a closed session with an id of its own. Files of the session's folder are "
                "put back as they were before that message, where the project is in "
                "sessions.rewind; those of now are kept first, for the redo. What will change is "
                "shown first, and a yes asked for; the exit code is 5 without one. Not while a "
                "turn runs.\n"
                " kaged session undo @last --dry-run",
        .run = cli_session_undo,
    },
    {
        .words = "session redo",
        .arguments = {"SESSION"},
        .options = {DRY_RUN, YES, CONVERSATION_ONLY, LAST},
        .summary = "take the last undo or rewind back",
        .help = "Goes back to the branch that the last session undo or session rewind left; again "
                "for the one before; files, too, are as they were then. What was said since stays, "
                "on a branch of its own.",
        .run = cli_session_redo,
    },
    {
        .words = "session rewind",
        .arguments = {"SESSION", "ENTRY"},
        .options = {DRY_RUN, YES, CONVERSATION_ONLY, LAST},
        .summary = "go back to an entry",
        .help = "As session undo, to any place: ENTRY, which is the number that session show "
                "prints, or an id, is the last one afterwards.\n"
                " kaged session rewind @last 12 --yes",
        .run = cli_session_rewind,
    },
    {
        .words = "session resume",
        .arguments = {"SESSION"},
        .options = {SEAT, LAST},
        .summary = "make a session active again, or speak to another agent",
        .help = "A session that was closed, idle or stopped is active afterwards. With --seat the "
                "next messages go to another agent of the project; each has a context of its own.",
        .run = cli_session_resume,
    },
    {
        .words = "session cancel",
        .arguments = {"SESSION"},
        .options = {LAST},
        .summary = "end the turn that runs in a session",
        .help = "Ends the turn that runs, whoever started it. What was said until then is kept.",
        .run = cli_session_cancel,
    },
    {
        .words = "session questions",
        .arguments = {"SESSION"},
        .options = {{"all", 0, NULL, "Also those that were answered, or never will be."}, LAST},
        .summary = "show what plugins ask in a session",
        .help = "Lists the questions of plugins that wait for an answer. kaged session send asks "
                "them in place; whoever answers first counts. One that nobody answers is cancelled "
                "after limits.question_ms.",
        .run = cli_session_questions,
    },
    {
        .words = "session answer",
        .arguments = {"SESSION", "QUESTION", "[JSON]"},
        .options = {{"decline", 0, NULL, "Say no."},
                    {"cancel", 0, NULL, "Say nothing: the plugin goes on without an answer."},
                    LAST},
        .summary = "answer a question of a plugin",
        .help = "JSON is the object that the question's schema asks for; - reads it from stdin. An "
                "answer that does not fit is refused, and the question goes on.",
        .run = cli_session_answer,
    },
    {
        .words = "session close",
        .arguments = {"SESSION"},
        .options = {LAST},
        .summary = "close a session",
        .help = "A closed session takes no messages until it is resumed. Nothing of it is deleted.",
        .run = cli_session_close,
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
        .words = "backup",
        .arguments = {"FILE"},
        .summary = "write the whole home into one file",
        .help = "Writes configuration, plugins, their data and storage, sessions and the audit log "
                "into FILE, which must not be there yet and is for you alone to read. The daemon "
                "may go on meanwhile: each database is copied as it is at one moment. Secrets stay "
                "sealed, and their key is not in it: keep a copy of state/secrets.key elsewhere. "
                "Plain values in local.toml are in it as they are.\n"
                " kaged backup ~/kaged-2026-11-17.backup",
        .needs = CLI_PATHS,
        .run = cli_backup,
    },
    {
        .words = "restore",
        .arguments = {"FILE"},
        .options = {{"key", 0, "FILE", "The key that the secrets were sealed with."},
                    {"force", 0, NULL,
                     "Also over a home that is there, which is moved into a folder in it."}},
        .summary = "make a home of a backup",
        .help = "Makes a home of FILE where none is: on another machine, in another folder and for "
                "another user, too. Paths into the old home lead into the new one, and everything "
                "belongs to whoever restores it. Without --key the secrets are left out, and those "
                "that have to be set again are named. A file that is cut off or was changed is "
                "refused before anything is touched, and so is one of a newer kaged. No daemon may "
                "run.\n"
                " kaged --home /srv/kaged restore kaged.backup --key secrets.key",
        .needs = CLI_PATHS,
        .run = cli_restore,
    },
    {
        .words = "mcp import",
        .arguments = {"[FILE...]"},
        .options = {YES, {"only", 0, "NAME", "Only this server; as often as you like."}},
        .summary = "make plugins of the MCP servers of other clients",
        .help =
            "Reads the files in which clients keep their MCP servers: those of Claude Desktop, "
            "Claude Code, Cursor, VS Code, Windsurf, opencode, Codex and Gemini CLI below your "
            "home and in the current folder, or the FILEs that are named. Nothing in them is "
            "changed.\n"
            "Every server is fetched and looked at, and all are shown on one screen with what "
            "each would be granted; then each has a yes of its own, to just what was shown. "
            "npx PACKAGE becomes the source npm:PACKAGE, a URL mcp+https://..., and a program of "
            "this machine program:/PATH. Keys in variables, headers and arguments move to kaged "
            "secret as NAME.KEY. What docker, uvx and pipx fetch is not started; if the same "
            "server is known to be on npm, the package is named.\n"
            "Those that you said yes to are enabled, and their tools are shown for a second "
            "yes; --yes is both.\n"
            " kaged mcp import\n"
            " kaged mcp import ~/.cursor/mcp.json --only github",
        .run = cli_mcp_import,
    },
    {
        .words = "mcp serve",
        .options = {{"plugin", 0, "NAME", "Only the tools of this plugin, by their own names."},
                    {"no-project", 0, NULL, "Do not take the current folder for a project."},
                    {"profile", 0, "PROFILE", "Only the tools that this profile names."},
                    {"read-only", 0, NULL, "Only tools that read."},
                    {"tools", 0, "search",
                     "Offer three tools that find, describe and call the others."}},
        .summary = "be an MCP server on stdio, with the tools of every plugin",
        .help = "What a client of the Model Context Protocol starts: it speaks on stdin and "
                "stdout, and kaged's daemon answers, which is started if it does not run, and "
                "stays. The folder in which it is started is the project: what its file declares "
                "for the primary agent, or without a file all plugins that are enabled and local. "
                "A client that declares roots is asked for them, and the first is the project. "
                "A folder that declares something that was never allowed waits for the "
                "operator's yes, and each call says so.",
        .needs = CLI_PATHS,
        .run = cli_mcp_serve,
    },
    {
        .words = "mcp connect",
        .arguments = {"claude|cursor|vscode|opencode|gemini|codex"},
        .options = {{"write", 'w', NULL, "Put the entry into the client's own file."},
                    {"ssh", 0, "HOST", "Let the client run kaged on that machine, by ssh."},
                    {"profile", 0, "PROFILE", "Only the tools that this profile names."},
                    {"read-only", 0, NULL, "Only tools that read."},
                    {"tools", 0, "search",
                     "Offer three tools that find, describe and call the others."}},
        .summary = "show or write the entry that lets a client use kaged",
        .help = "Prints what a client wants in its file to start kaged mcp serve. With --write it "
                "is put there, every other byte stays, and entries of servers that kaged runs "
                "under the same name leave: a copy of the file is kept beside it, from which "
                "kaged mcp disconnect puts them back.\n"
                " kaged mcp connect claude --write\n"
                " kaged mcp connect cursor --ssh workstation",
        .needs = CLI_PATHS,
        .run = cli_mcp_connect,
    },
    {
        .words = "mcp disconnect",
        .arguments = {"claude|cursor|vscode|opencode|gemini|codex"},
        .summary = "take kaged out of a client's file",
        .help = "Removes the entry that kaged mcp connect --write made, and puts those back that "
                "left the file with it.",
        .needs = CLI_PATHS,
        .run = cli_mcp_disconnect,
    },
    {
        .words = "mcp status",
        .summary = "show which MCP clients are connected, and their last calls",
        .help =
            "A legacy client is shown while its session lasts; a modern one has none, and is "
            "shown with the last that was heard of it since the daemon started. LIST is how many "
            "characters the list of tools took that a client was given; SAVED by how many "
            "that is less than all of them would take (--tools search).",
        .run = cli_mcp_status,
    },
    {
        .words = "mcp log",
        .options = {{"client", 0, "NAME", "Only of clients whose name begins so."},
                    {"tool", 0, "PATTERN",
                     "Only of this plugin, or of tools that fit: PLUGIN.TOOL."},
                    {"since", 0,
                     "TIME", "Only calls from then on: RFC 3339, a date, or 15m, 2h, 7d."},
                    {"lines", 'n', "N", "The last N calls (50)."}},
        .summary = "show what MCP clients called",
        .help =
            "Each call with who made it, how it went, how long it took and how much went in and "
            "out. With mcp.activity = \"full\" in config.toml also its arguments and the "
            "beginning of its result, secrets hidden. It is bounded by mcp.activity_mb and "
            "mcp.activity_days.\n"
            " kaged mcp log --tool 'files.*' --since 2h",
        .run = cli_mcp_log,
    },
    {
        .words = "mcp forget",
        .summary = "forget what MCP clients called",
        .help = "Removes all of what kaged mcp log shows. The audit log has the calls still, "
                "without arguments.",
        .run = cli_mcp_forget,
    },
    {
        .words = "mcp profile list",
        .summary = "list what MCP clients may use",
        .help = "Shows each profile with the patterns of the tools that its clients may use, and "
                "which tools are marked.",
        .run = cli_mcp_profile_list,
    },
    {
        .words = "mcp profile set",
        .arguments = {"PROFILE", "PATTERN", "[PATTERN...]"},
        .options = {{"read-only", 0, NULL, "Of those, only tools that read."},
                    {"tools", 0, "search",
                     "Offer three tools that find, describe and call the others."}},
        .summary = "say which tools the clients of a profile may use",
        .help = "A pattern is a plugin, or PLUGIN.TOOL, with * for anything. What no pattern names "
                "is neither listed nor called. A client has the profile that it was started with "
                "(kaged mcp serve --profile), or that its token is confined to (kaged auth token "
                "create --profile). A change counts at once.\n"
                " kaged mcp profile set review 'github.list_*' 'github.get_*' files --read-only",
        .run = cli_mcp_profile_set,
    },
    {
        .words = "mcp profile rm",
        .arguments = {"PROFILE"},
        .summary = "remove a profile",
        .help = "Clients of a profile that is not there may use nothing.",
        .run = cli_mcp_profile_rm,
    },
    {
        .words = "mcp mark",
        .arguments = {"TOOL", "reads|writes|unmarked"},
        .summary = "say whether a tool only reads",
        .help =
            "Whether a tool, PLUGIN.TOOL, is one that reads counts where clients are read-only. "
            "Without a mark it is what the annotation readOnlyHint of its server says, and a "
            "tool without one writes.\n"
            " kaged mcp mark files.read_text_file reads",
        .run = cli_mcp_mark,
    },
    {
        .words = "system-plugin list",
        .summary = "list what is loaded into the daemon itself",
        .help = "Shows the shared objects that [system_plugins] of local.toml loads into the "
                "daemon: their state, how often their code was called, how many of these calls "
                "took over 50 ms, how many events were dropped since they did not keep up; and "
                "why one was left out. They change when the daemon starts, and at no other time. "
                "kaged-system-plugin(3) tells how to write one.",
        .run = cli_system_plugin_list,
    },
    {
        .words = "system-plugin status",
        .arguments = {"SYSTEM_PLUGIN"},
        .summary = "show one of them: its file, its hooks, what it is doing",
        .help = "Shows the file of a system plugin and its hash, the hooks that it may have and "
                "those that it has, which of its calls was slowest, what it is in now, and what "
                "it was in when the daemon before this one ended without a stop.",
        .run = cli_system_plugin_status,
    },
    {
        .words = "secret set",
        .arguments = {"SECRET"},
        .summary = "store a secret, sealed",
        .help =
            "Asks for the value on the terminal, without showing it, or reads it from stdin; it "
            "is never an argument, which everybody on the machine could read. It is sealed in "
            "the state folder and cannot be read back: ${secret:SECRET} in a table of "
            "local.toml hands it to that plugin or provider alone. Plugins that use it are "
            "told the new value. What kaged shows, logs and records has [redacted] in its "
            "place; a value shorter than 8 bytes is stored, but cannot be redacted. Works "
            "without a daemon, too.\n"
            " kaged secret set weather-token < token.txt",
        .needs = CLI_PATHS,
        .run = cli_secret_set,
    },
    {
        .words = "secret list",
        .summary = "list secrets and who uses them",
        .help = "Shows the names of all secrets that are stored or that local.toml names, since "
                "when, and which tables of local.toml use each. Works without a daemon, too.",
        .needs = CLI_PATHS,
        .run = cli_secret_list,
    },
    {
        .words = "secret rm",
        .arguments = {"SECRET"},
        .options = {{"force", 0, NULL, "Also while something uses it."}},
        .summary = "remove a secret",
        .help = "Removes a secret. One that local.toml names is refused: with --force a plugin "
                "that runs keeps what it was told, and cannot be started again until the secret "
                "is set. Works without a daemon, too.",
        .needs = CLI_PATHS,
        .run = cli_secret_rm,
    },
    {
        .words = "secret rotate",
        .summary = "seal all secrets with a new key",
        .help = "Makes a new key, seals all secrets with it, and puts it in the place of the old "
                "one; wherever that is cut off, the secrets can still be opened. Where the key is "
                "the service manager's credential kaged-key, secrets that an older key sealed are "
                "sealed with it. Works without a daemon, too.",
        .needs = CLI_PATHS,
        .run = cli_secret_rotate,
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
