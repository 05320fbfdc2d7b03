/*
 * Every command of kaged, one row each, in a file for each family. Nothing else knows which
 * commands there are.
 */
#include "cli/cli.h"

#define FOLLOW                                                                                     \
    {                                                                                              \
        "follow", 'f', NULL, "Keep showing what is new, until Ctrl-C."                             \
    }

#define YES                                                                                        \
    {                                                                                              \
        "yes", 'y', NULL, "Answer yes to all questions, for scripts."                              \
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
        "project", 0, "P", "Only in this project, where it then has its own process."              \
    }
#define ALLOW_NEW                                                                                  \
    {                                                                                              \
        "allow-new-capabilities", 0, NULL,                                                         \
            "With --yes: also accept capabilities that the installed version does not have."       \
    }

#define REPLACE_SOURCE                                                                             \
    {                                                                                              \
        "replace-source", 0, NULL,                                                                 \
            "With --yes: also replace a plugin that came from another source."                     \
    }

#define OF_PROJECT                                                                                 \
    {                                                                                              \
        "project", 'p', "PROJECT", "For an agent of this project."                                 \
    }
#define OF_AGENT                                                                                   \
    {                                                                                              \
        "agent", 'a', "AGENT", "The agent, by its path (default: primary)."                        \
    }
#define AGENT(meaning)                                                                             \
    {                                                                                              \
        "agent", 0, "AGENT", meaning                                                               \
    }
#define LAST                                                                                       \
    {                                                                                              \
        "last", 0, NULL, "The newest session, instead of SESSION."                                 \
    }
#define SEAT                                                                                       \
    {                                                                                              \
        "seat", 0, "AGENT", "The agent to talk to: primary, primary.subagents.NAME."               \
    }

const struct cli_option cli_globals[] = {
    {"home", 0, "DIR", "Keep all files below DIR (or set KAGED_HOME)."},
    {"system", 0, NULL, "Use the system's folders, /etc/kaged and others, as root does."},
    {"json", 0, NULL, "Print the daemon's answer as JSON."},
    {"help", 'h', NULL, "Show help on a command, or on all."},
    {"version", 0, NULL, "Show the version."},
    {0},
};

const struct cli_command cli_commands[] = {
/* The order in which help and completion show them. */
/* clang-format off */
#include "cli/commands/daemon.def"
#include "cli/commands/auth.def"
#include "cli/commands/plugin.def"
#include "cli/commands/project.def"
#include "cli/commands/session.def"
#include "cli/commands/audit.def"
#include "cli/commands/config.def"
#include "cli/commands/mcp.def"
#include "cli/commands/system_plugin.def"
#include "cli/commands/secret.def"
#include "cli/commands/org.def"
#include "cli/commands/catalog.def"
#include "cli/commands/orchestrator.def"
#include "cli/commands/schema.def"
    /* clang-format on */
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
