/* Every exit is explained: the cause we know of, how the kernel saw it, and what follows. */
#include "supervisor/internal.h"

#include <signal.h>
#include <stdio.h>

static const struct {
    const char *name, *words;
} causes[EXIT_CAUSE_COUNT] = {
    [EXIT_NONE] = {"none", "has not ended"},
    [EXIT_LEFT] = {"exited", ""},
    [EXIT_REFUSED] = {"not_approved", "it was not started"},
    [EXIT_CAGE] = {"cage", "its cage could not be built"},
    [EXIT_HANDSHAKE] = {"handshake", "kaged ended it: the handshake failed"},
    [EXIT_VIOLATION] = {"protocol_violation", "kaged ended it: it broke the rules of the wire"},
    [EXIT_HUNG] = {"timeout", "kaged ended it: it did not answer a call in time"},
    [EXIT_HEALTH] = {"health", "kaged ended it: it failed its health checks"},
    [EXIT_STREAM] = {"stream_closed", "kaged ended it: it closed its stdin or stdout"},
    [EXIT_MEMORY] = {"out_of_memory", "it ran out of memory"},
    [EXIT_SECCOMP] = {"seccomp", "it made a system call that no cage allows"},
    [EXIT_OPERATOR] = {"operator", "the operator ended it"},
    [EXIT_DAEMON] = {"daemon_stop", "the daemon stopped"},
    [EXIT_EARLIER] = {"earlier", "it failed before the daemon was started"},
    [EXIT_IDLE] = {"idle", "kaged ended it, since nobody used it"},
};

const char *exit_cause_name(enum exit_cause cause)
{
    return causes[cause].name;
}

static void how_it_ended(const struct exit_report *report, struct kg_buf *text)
{
    if (report->signal != 0)
        kg_buf_printf(text, "killed by signal %d (SIG%s)", report->signal,
                      sigabbrev_np(report->signal) ? sigabbrev_np(report->signal) : "?");
    else if (report->exit_code >= 0)
        kg_buf_printf(text, "exited with code %d", report->exit_code);
}

static void cause_and_end(const struct exit_report *report, struct kg_buf *ret_text)
{
    if (report->cause == EXIT_LEFT) {
        how_it_ended(report, ret_text);
        if (report->detail[0] != '\0')
            kg_buf_printf(ret_text, ": %s", report->detail);
        return;
    }
    kg_buf_text(ret_text, causes[report->cause].words);
    if (report->detail[0] != '\0')
        kg_buf_printf(ret_text, ": %s", report->detail);
    if (report->signal != 0 || report->exit_code >= 0) {
        kg_buf_text(ret_text, " (");
        how_it_ended(report, ret_text);
        kg_buf_char(ret_text, ')');
    }
}

void exit_report_words(const struct exit_report *report, struct kg_buf *ret_text)
{
    uint32_t killed = report->hits[CAGE_LIMIT_MEMORY];
    uint32_t refused = report->hits[CAGE_LIMIT_PROCESSES];
    cause_and_end(report, ret_text);
    if (killed > 0)
        kg_buf_printf(ret_text, "; at its limit of %llu MiB the kernel killed %u of its processes",
                      (unsigned long long)(report->limits.memory_bytes >> 20), killed);
    if (refused > 0)
        kg_buf_printf(ret_text, "; at its limit of %u processes it was refused %u more",
                      report->limits.processes_max, refused);
}

void exit_report_clear(struct exit_report *report)
{
    kg_buf_free(&report->last_stderr);
    *report = (struct exit_report){.exit_code = -1};
}
