/*
 * From what a program tried to the lines of a manifest. What it has stays; of what it was not given
 * paths are gathered into few folders, but never into a home, nor into what no plugin may have:
 * each line is tried on the planner before it is proposed. What is left out says why.
 */
#include "kit/observe.h"

#include "host/host.h"
#include "kit/internal.h"

#include <stdlib.h>
#include <unistd.h>

#define GATHER_AT 3 /* so many of one folder become the folder */
#define CALLS_MAX 80
#define NOT_GIVEN "you were asked, and declined"

/* What it wants of the host; may stand for several attempts. */
struct want {
    enum cage_act act; /* READ, WRITE or RUN */
    char *path, *calls;
    uint64_t count;
    bool gone; /* another one covers it */
};

struct proposing {
    const struct kit_room *room;
    struct want *wants;
    size_t want_count;
    struct kit_proposal *out;
};

/* -- adding ------------------------------------------------------------------------------------ */

static void propose_add_call(char **calls, const char *call)
{
    if (*calls != NULL && (strstr(*calls, call) != NULL || strlen(*calls) > CALLS_MAX))
        return;
    char *both = *calls ? kg_format("%s, %s", *calls, call) : kg_strdup(call);
    free(*calls);
    *calls = both;
}

static void add_left(struct kit_proposal *out, const char *what, const char *why, const char *call,
                     uint64_t count)
{
    for (size_t i = 0; i < out->left_count; i++)
        if (strcmp(out->left[i].what, what) == 0 && strcmp(out->left[i].why, why) == 0) {
            out->left[i].count += count;
            return;
        }
    out->left = kg_realloc(out->left, (out->left_count + 1) * sizeof(*out->left));
    out->left[out->left_count++] =
        (struct kit_left){kg_strdup(what), kg_strdup(why), kg_strdup(call), count};
}

static struct kit_line *propose_add_line(struct kit_proposal *out, const char *text, bool is_new)
{
    out->lines = kg_realloc(out->lines, (out->line_count + 1) * sizeof(*out->lines));
    out->lines[out->line_count] = (struct kit_line){.text = kg_strdup(text), .is_new = is_new};
    return &out->lines[out->line_count++];
}

static void add_want(struct proposing *proposing, enum cage_act act, const char *path,
                     const char *call, uint64_t count)
{
    for (size_t i = 0; i < proposing->want_count; i++) {
        struct want *want = &proposing->wants[i];
        if (want->act != act || strcmp(want->path, path) != 0)
            continue;
        want->count += count;
        propose_add_call(&want->calls, call);
        return;
    }
    proposing->wants =
        kg_realloc(proposing->wants, (proposing->want_count + 1) * sizeof(*proposing->wants));
    proposing->wants[proposing->want_count++] = (struct want){
        .act = act, .path = kg_strdup(path), .calls = kg_strdup(call), .count = count};
}

/* -- gathering --------------------------------------------------------------------------------- */

bool kit_holds_home(const char *path)
{
    const char *home = getenv("HOME");
    kg_auto(kg_free) char *real = home != NULL && home[0] == '/' ? cage_real_path(home) : NULL;
    return real != NULL && kg_path_within(real, path);
}

bool kit_may_gather(const char *folder)
{
    return folder[0] != '\0' && strcmp(folder, "/") != 0 && cage_place_may_be_given(folder) &&
           !kit_holds_home(folder) && cage_noise_of(folder) == NULL;
}

static size_t count_in(const struct proposing *proposing, enum cage_act act, const char *folder)
{
    size_t count = 0;
    for (size_t i = 0; i < proposing->want_count; i++) {
        kg_auto(kg_free) char *above = kg_path_folder(proposing->wants[i].path);
        count += proposing->wants[i].act == act && !proposing->wants[i].gone &&
                 strcmp(above, folder) == 0;
    }
    return count;
}

/* True if it changed something: then folders may have come together, too. */
static bool gather_once(struct proposing *proposing)
{
    for (size_t i = 0; i < proposing->want_count; i++) {
        struct want *want = &proposing->wants[i];
        kg_auto(kg_free) char *folder = kg_path_folder(want->path);
        if (want->gone || want->act == CAGE_ACT_RUN || !kit_may_gather(folder) ||
            count_in(proposing, want->act, folder) < GATHER_AT)
            continue;
        enum cage_act act = want->act;
        for (size_t j = 0, count = proposing->want_count; j < count; j++) {
            struct want *part = &proposing->wants[j];
            if (part->act != act || part->gone || !kg_path_within(part->path, folder) ||
                strcmp(part->path, folder) == 0)
                continue;
            part->gone = true;
            kg_auto(kg_free) char *calls = kg_strdup(part->calls);
            add_want(proposing, act, folder, calls, proposing->wants[j].count);
        }
        for (size_t j = 0; j < proposing->want_count; j++)
            if (proposing->wants[j].act == act && strcmp(proposing->wants[j].path, folder) == 0)
                proposing->wants[j].gone = false;
        return true;
    }
    return false;
}

/* What lies in another one, which gives as much. */
static void drop_covered(struct proposing *proposing)
{
    for (size_t i = 0; i < proposing->want_count; i++)
        for (size_t j = 0; j < proposing->want_count; j++) {
            struct want *want = &proposing->wants[i], *other = &proposing->wants[j];
            if (i == j || want->gone || other->gone || want->act == CAGE_ACT_RUN ||
                other->act == CAGE_ACT_RUN || !kg_path_within(want->path, other->path) ||
                (want->act == CAGE_ACT_WRITE && other->act != CAGE_ACT_WRITE))
                continue;
            want->gone = true;
            other->count += want->count;
            propose_add_call(&other->calls, want->calls);
        }
}

/* -- lines ------------------------------------------------------------------------------------- */

char *kit_line_of_path(enum cage_act act, const char *path)
{
    if (act != CAGE_ACT_RUN)
        return kg_format("%s:fs:%s", act == CAGE_ACT_WRITE ? "write" : "read", path);
    return kg_format("exec:%s:config:/", path);
}

static void propose_line(struct proposing *proposing, const char *text, const char *calls,
                         uint64_t count)
{
    for (size_t i = 0; i < proposing->out->line_count; i++)
        if (strcmp(proposing->out->lines[i].text, text) == 0)
            return;
    struct kit_line *line = propose_add_line(proposing->out, text, true);
    line->calls = kg_strdup(calls);
    line->count = count;
}

/* What cannot be given is left out before it could stand for what can. */
static void refuse_wants(struct proposing *proposing)
{
    for (size_t i = 0; i < proposing->want_count; i++) {
        struct want *want = &proposing->wants[i];
        struct kg_err err = {0};
        if (want->gone)
            continue;
        kg_auto(kg_free) char *line = kit_line_of_path(want->act, want->path);
        if (want->act != CAGE_ACT_RUN && kit_holds_home(want->path))
            kg_fail(&err, KG_E_REFUSED, "no plugin is given a whole home: name a folder in it");
        else if (kit_room_check(proposing->room, line, &err) == 0)
            continue;
        add_left(proposing->out, want->path, err.message, want->calls, want->count);
        want->gone = true;
    }
}

static void propose_wants(struct proposing *proposing)
{
    refuse_wants(proposing); /* before one of them is gathered with others, */
    while (gather_once(proposing))
        ;
    refuse_wants(proposing); /* and what that made */
    drop_covered(proposing);
    for (size_t i = 0; i < proposing->want_count; i++) {
        const struct want *want = &proposing->wants[i];
        kg_auto(kg_free) char *line = kit_line_of_path(want->act, want->path);
        if (!want->gone)
            propose_line(proposing, line, want->calls, want->count);
    }
}

/* Whoever connects to this machine does so by any of its names. */
char *kit_line_of_host(const char *host, uint16_t port)
{
    bool is_own = strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
    const char *name = is_own ? "localhost" : host;
    return kg_format(strchr(name, ':') ? "net:[%s]:%u" : "net:%s:%u", name, port);
}

static void propose_hosts(struct proposing *proposing, const struct kit_observed *observed)
{
    for (size_t i = 0; i < observed->host_count; i++) {
        const struct kit_host *host = &observed->hosts[i];
        if (!host->refused)
            continue;
        if (host->port == 0) {
            add_left(proposing->out, host->host, "it was looked up, and nothing connected to it",
                     "connect", host->count);
            continue;
        }
        kg_auto(kg_free) char *line = kit_line_of_host(host->host, host->port);
        struct kg_err err = {0};
        if (kg_list_has(observed->refused, kg_str(line)))
            add_left(proposing->out, host->host, NOT_GIVEN, "connect", host->count);
        else if (kit_room_check(proposing->room, line, &err) < 0)
            add_left(proposing->out, host->host, err.message, "connect", host->count);
        else
            propose_line(proposing, line, "connect", host->count);
    }
}

/* -- what it has ------------------------------------------------------------------------------- */

static bool is_use(const struct capability *line, const struct cage_attempt *attempt)
{
    if (line->kind == CAPABILITY_EXEC)
        return attempt->act == CAGE_ACT_RUN && attempt->there != CAGE_THERE_NOTHING &&
               strcmp(kg_path_name(attempt->what), kg_path_name(line->program)) == 0;
    if (line->kind != CAPABILITY_READ && line->kind != CAPABILITY_WRITE)
        return false;
    return attempt->act <= CAGE_ACT_WRITE && attempt->there != CAGE_THERE_NOTHING &&
           line->path[0] == '/' && kg_path_within(attempt->what, line->path);
}

static void take_uses(struct kit_line *line, const struct capability *capability,
                      const struct kit_observed *observed)
{
    for (size_t i = 0; i < observed->attempt_count; i++)
        if (is_use(capability, &observed->attempts[i])) {
            line->count += observed->attempts[i].count;
            propose_add_call(&line->calls, observed->attempts[i].call);
        }
    for (size_t i = 0; i < observed->host_count; i++) {
        const struct kit_host *host = &observed->hosts[i];
        if (capability->kind != CAPABILITY_NET_HOST || host->refused ||
            strcmp(capability->host, host->host) != 0 ||
            (capability->port != 0 && capability->port != host->port))
            continue;
        line->count += host->count;
        propose_add_call(&line->calls, "connect");
    }
}

/* One that may be read, and is to be written now, is one line. */
static bool is_replaced(const struct proposing *proposing, const struct capability *line)
{
    for (size_t i = 0; i < proposing->want_count; i++)
        if (line->kind == CAPABILITY_READ && proposing->wants[i].act == CAGE_ACT_WRITE &&
            !proposing->wants[i].gone && strcmp(proposing->wants[i].path, line->path) == 0)
            return true;
    return false;
}

static void take_old(struct proposing *proposing, const struct kit_observed *observed)
{
    const struct manifest *manifest = proposing->room->parts.manifest;
    const struct capability_set *set = &manifest->capability_set;
    for (size_t i = 0; i < set->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        capability_print(&set->items[i], &text);
        if (is_replaced(proposing, &set->items[i]))
            continue;
        take_uses(propose_add_line(proposing->out, kg_buf_terminate(&text), false), &set->items[i],
                  observed);
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

static bool propose_is_refused(const struct kit_observed *observed, const struct cage_need *need)
{
    bool refused = false;
    for (size_t i = 0; observed->refused[i] != NULL && !refused; i++) {
        kg_auto(capability_free) struct capability line = {0};
        refused = capability_parse(kg_str(observed->refused[i]), &line, NULL) == 0 &&
                  kit_line_covers(&line, need);
    }
    return refused;
}

/* One who resolves a path looks at each folder on it. */
static bool is_on_the_way(const struct kit_observed *observed, const struct cage_attempt *attempt)
{
    for (size_t i = 0; attempt->act == CAGE_ACT_LOOK && i < observed->attempt_count; i++) {
        const struct cage_attempt *other = &observed->attempts[i];
        if (other->act <= CAGE_ACT_RUN && strcmp(other->what, attempt->what) != 0 &&
            kg_path_within(other->what, attempt->what))
            return true;
    }
    return false;
}

static void take_attempt(struct proposing *proposing, const struct kit_observed *observed,
                         const struct cage_attempt *attempt)
{
    struct cage_need need;
    if (attempt->act == CAGE_ACT_OTHERS)
        proposing->out->others += attempt->count;
    if (!cage_need_of(attempt, &need))
        return;
    if (need.left_out == NULL && propose_is_refused(observed, &need))
        need.left_out = NOT_GIVEN;
    if (need.left_out == NULL && is_on_the_way(observed, attempt))
        need.left_out = cage_on_the_way;
    if (need.left_out != NULL)
        add_left(proposing->out, attempt->what, need.left_out, attempt->call, attempt->count);
    else
        add_want(proposing, need.act, need.path, attempt->call, attempt->count);
    if (need.left_out == NULL && strcmp(need.path, attempt->what) != 0 &&
        need.act != CAGE_ACT_RUN && !kg_path_within(attempt->what, need.path)) {
        kg_auto(kg_free) char *why =
            kg_format("a link leads from here to %s; name that to the program", need.path);
        add_left(proposing->out, attempt->what, why, attempt->call, attempt->count);
    }
    cage_need_free(&need);
}

void kit_propose(const struct kit_room *room, const struct kit_observed *observed,
                 struct kit_proposal *ret_proposal)
{
    struct proposing proposing = {.room = room, .out = ret_proposal};
    for (size_t i = 0; i < observed->attempt_count; i++)
        take_attempt(&proposing, observed, &observed->attempts[i]);
    take_old(&proposing, observed);
    propose_wants(&proposing);
    propose_hosts(&proposing, observed);
    for (size_t i = 0; i < proposing.want_count; i++) {
        free(proposing.wants[i].path);
        free(proposing.wants[i].calls);
    }
    free(proposing.wants);
}

void kit_proposal_free(struct kit_proposal *proposal)
{
    for (size_t i = 0; i < proposal->line_count; i++) {
        free(proposal->lines[i].text);
        free(proposal->lines[i].calls);
    }
    for (size_t i = 0; i < proposal->left_count; i++) {
        free(proposal->left[i].what);
        free(proposal->left[i].why);
        free(proposal->left[i].call);
    }
    free(proposal->lines);
    free(proposal->left);
}
