/*
 * Somebody is asked about what a program is not given, while it runs: about each folder, program
 * and host once. What is given becomes a line of the manifest. Hosts are given to the cage that is
 * there, where the gate holds the connection; the rest, and what is on this machine itself, takes a
 * new one.
 */
#include "kit/internal.h"

#include <stdlib.h>

#define ASKED_MAX 500

struct asking_wish {
    struct asking_wish *next;
    char *line; /* owned */
    char *path; /* owned; of a look */
    char *host; /* owned; NULL: nothing waits for it at the gate */
    uint16_t port;
    bool is_known; /* it was asked about before, and what waits for it at a new gate is not given it
                    */
};

struct kit_asking {
    struct kit_room *room;
    kit_ask_fn *ask;
    void *data;
    char **asked; /* owned lines: asked, or about to be */
    struct asking_wish *first, **end;
    struct asking_wish *looks; /* what was only looked at: maybe on the way to something in it */
};

struct kit_asking *kit_asking_new(struct kit_room *room, kit_ask_fn *ask, void *data)
{
    struct kit_asking *asking = kg_alloc(sizeof(*asking));
    asking->room = room;
    asking->ask = ask;
    asking->data = data;
    asking->asked = kg_list_new(0);
    asking->end = &asking->first;
    return asking;
}

static struct asking_wish *asking_take(struct kit_asking *asking)
{
    struct asking_wish *wish = asking->first;
    asking->first = wish->next;
    if (asking->first == NULL)
        asking->end = &asking->first;
    return wish;
}

static void wish_free(struct asking_wish *wish)
{
    free(wish->line);
    free(wish->path);
    free(wish->host);
    free(wish);
}

/* Those that a path lies in; "": all of them. */
static void drop_looks(struct kit_asking *asking, const char *path)
{
    for (struct asking_wish **at = &asking->looks; *at != NULL;) {
        struct asking_wish *wish = *at;
        if (path[0] != '\0' && !kg_path_within(path, wish->path)) {
            at = &wish->next;
            continue;
        }
        *at = wish->next;
        wish_free(wish);
    }
}

void kit_asking_free(struct kit_asking *asking)
{
    if (asking == NULL)
        return;
    while (asking->first != NULL)
        wish_free(asking_take(asking));
    drop_looks(asking, "");
    kg_list_free(asking->asked);
    free(asking);
}

bool kit_asking_waits(const struct kit_asking *asking)
{
    return asking != NULL && asking->first != NULL;
}

static struct asking_wish *wish_new(const char *line)
{
    struct asking_wish *wish = kg_alloc(sizeof(*wish));
    wish->line = kg_strdup(line);
    return wish;
}

/* Takes the wish. */
static void asking_add(struct kit_asking *asking, struct asking_wish *wish)
{
    if (!wish->is_known)
        kg_list_add(&asking->asked, kg_strdup(wish->line));
    wish->next = NULL;
    *asking->end = wish;
    asking->end = &wish->next;
}

static bool asking_knows(const struct kit_asking *asking, const char *line)
{
    return kg_list_count(asking->asked) == ASKED_MAX || kg_list_has(asking->asked, kg_str(line));
}

/* -- what it wants ----------------------------------------------------------------------------- */

bool kit_line_covers(const struct capability *line, const struct cage_need *need)
{
    if (need->act == CAGE_ACT_RUN)
        return line->kind == CAPABILITY_EXEC && strcmp(line->program, need->path) == 0;
    return (line->kind == CAPABILITY_WRITE ||
            (line->kind == CAPABILITY_READ && need->act == CAGE_ACT_READ)) &&
           line->path[0] == '/' && kg_path_within(need->path, line->path);
}

static bool is_given(const struct kit_asking *asking, const struct cage_need *need)
{
    const struct capability_set *set = &asking->room->parts.manifest->capability_set;
    for (size_t i = 0; i < set->count; i++)
        if (kit_line_covers(&set->items[i], need))
            return true;
    return false;
}

/* Owned; NULL: no cage could have it. */
static char *line_that_fits(const struct kit_room *room, enum cage_act act, const char *path)
{
    kg_auto(kg_free) char *line = kit_line_of_path(act, path);
    struct kg_err err;
    bool fits =
        (act == CAGE_ACT_RUN || !kit_holds_home(path)) && kit_room_check(room, line, &err) == 0;
    return fits ? kg_steal(&line) : NULL;
}

/* The folder that a file is in, where that may be given; else what it is itself. */
static char *line_of_need(const struct kit_room *room, const struct cage_need *need)
{
    kg_auto(kg_free) char *folder = kg_path_folder(need->path);
    char *line = NULL;
    if (need->act != CAGE_ACT_RUN && !need->is_folder && kit_may_gather(folder))
        line = line_that_fits(room, need->act, folder);
    return line != NULL ? line : line_that_fits(room, need->act, need->path);
}

void kit_asking_attempt(void *data, const struct cage_attempt *attempt)
{
    struct kit_asking *asking = data;
    struct cage_need need;
    if (asking == NULL || !cage_need_of(attempt, &need))
        return;
    drop_looks(asking, need.path);
    kg_auto(kg_free) char *line = need.left_out == NULL && !is_given(asking, &need)
                                      ? line_of_need(asking->room, &need)
                                      : NULL;
    if (line != NULL && !asking_knows(asking, line)) {
        struct asking_wish *wish = wish_new(line);
        if (attempt->act == CAGE_ACT_LOOK) {
            wish->path = kg_strdup(need.path);
            wish->next = asking->looks;
            asking->looks = wish;
        } else {
            asking_add(asking, wish);
        }
    }
    cage_need_free(&need);
}

void kit_asking_settle(struct kit_asking *asking)
{
    while (asking != NULL && asking->looks != NULL) {
        struct asking_wish *wish = asking->looks;
        asking->looks = wish->next;
        if (asking_knows(asking, wish->line))
            wish_free(wish);
        else
            asking_add(asking, wish);
    }
}

void kit_asking_host(struct kit_asking *asking, const char *host, uint16_t port, bool waits)
{
    if (asking == NULL || port == 0)
        return;
    kg_auto(kg_free) char *line = kit_line_of_host(host, port);
    struct kg_err err;
    bool is_known = asking_knows(asking, line);
    if (!waits && (is_known || kit_room_check(asking->room, line, &err) < 0))
        return;
    struct asking_wish *wish = wish_new(line);
    wish->is_known = is_known;
    wish->host = waits ? kg_strdup(host) : NULL;
    wish->port = port;
    asking_add(asking, wish);
}

/* -- what is said to it ------------------------------------------------------------------------ */

/* Whether it takes a new cage. */
static bool asking_ask(struct kit_asking *asking, const struct asking_wish *wish,
                       struct gate_cage *network_or_null, char ***refused)
{
    struct kg_err err = {0};
    bool asks = !wish->is_known && kit_room_check(asking->room, wish->line, &err) == 0;
    const struct manifest *manifest = asks ? asking->ask(asking->data, wish->line) : NULL;
    if (asks && manifest == NULL)
        kg_list_add(refused, kg_strdup(wish->line));
    else if (manifest != NULL && kit_room_declare(asking->room, manifest, &err) < 0)
        kg_log(KG_WARN, "%s", err.message);
    if (wish->host != NULL && network_or_null != NULL)
        gate_cage_decide(network_or_null, wish->host, wish->port, manifest != NULL);
    return manifest != NULL && (wish->host == NULL || network_or_null == NULL);
}

static bool is_never(void *data)
{
    (void)data;
    return false;
}

/* Between two questions it is looked whether Ctrl-C was the answer to the first. */
bool kit_asking_ask_all(struct kit_asking *asking, struct gate_cage *network_or_null,
                        char ***refused)
{
    bool anew = false;
    while (asking->first != NULL && !asking->room->interrupted) {
        struct asking_wish *wish = asking_take(asking);
        anew |= asking_ask(asking, wish, network_or_null, refused);
        wish_free(wish);
        kit_room_wait(asking->room, is_never, NULL, 0);
    }
    return anew;
}
