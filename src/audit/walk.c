/*
 * A walk reads sealed files in order and holds each block against its seal, each seal against the
 * one before, and the head's block against the head. It keeps the first problem and goes on with
 * what the seals claim, so that it always reaches the end.
 */
#include "audit/internal.h"

#include <inttypes.h>
#include <stdio.h>

/* Where in which file the walk is. */
struct place {
    struct audit_walk *walk;
    uint32_t file;
    uint64_t line;
    uint64_t events; /* lines since the last seal */
    struct sha256_ctx digest;
};

KG_PRINTF(2, 3)
static void walk_problem(const struct place *place, const char *format, ...)
{
    struct audit_walk *walk = place->walk;
    if (walk->problem[0] != '\0')
        return;
    char name[AUDIT_NAME_MAX];
    audit_file_name(place->file, name);
    int used =
        snprintf(walk->problem, sizeof(walk->problem), "%s: line %" PRIu64 ": ", name, place->line);
    va_list args;
    va_start(args, format);
    vsnprintf(walk->problem + used, sizeof(walk->problem) - (size_t)used, format, args);
    va_end(args);
}

static void check_first(const struct place *place, const struct audit_seal *seal)
{
    const struct audit_walk *walk = place->walk;
    if (walk->from_start && walk->head && seal->block > walk->head->first_block)
        walk_problem(place,
                     "block %" PRIu64 " is the first, but block %" PRIu64 " should be: the start "
                     "of the log is missing",
                     seal->block, walk->head->first_block);
}

static void check_link(const struct place *place, const struct audit_seal *seal)
{
    const struct audit_walk *walk = place->walk;
    if (seal->block != walk->block + 1)
        walk_problem(place, "block %" PRIu64 " follows block %" PRIu64 ": a block is missing",
                     seal->block, walk->block);
    else if (memcmp(seal->prev, walk->hash, sizeof(walk->hash)) != 0)
        walk_problem(place,
                     "block %" PRIu64 " was written after another block %" PRIu64
                     " than the one before it",
                     seal->block, walk->block);
}

static void walk_check_content(const struct place *place, const struct audit_seal *seal,
                               const unsigned char hash[32])
{
    if (seal->events != place->events)
        walk_problem(place, "block %" PRIu64 " was sealed with %" PRIu64 " events and has %" PRIu64,
                     seal->block, seal->events, place->events);
    else if (memcmp(seal->hash, hash, 32) != 0)
        walk_problem(place,
                     "block %" PRIu64 " has been changed after it was sealed: one of the %" PRIu64
                     " lines above is not what was written",
                     seal->block, seal->events + 1);
}

static void check_head(const struct place *place, const struct audit_seal *seal)
{
    struct audit_walk *walk = place->walk;
    const struct state_audit_head *head = walk->head;
    if (head == NULL)
        return;
    if (seal->block == head->first_block && !seal->broken &&
        memcmp(seal->prev, head->first_prev, sizeof(seal->prev)) != 0)
        walk_problem(place, "block %" PRIu64 " does not follow what was deleted before it",
                     seal->block);
    if (seal->block > head->block)
        walk->events_past_head += seal->events;
    if (seal->block != head->block)
        return;
    if (memcmp(seal->hash, head->hash, sizeof(seal->hash)) == 0)
        walk->head_seen = true;
    else
        walk_problem(place,
                     "block %" PRIu64 " is not the one that was signed: the log was rewritten",
                     seal->block);
}

/* A start that found damage has marked it, for good. */
static void note_broken(const struct place *place, const struct audit_seal *seal)
{
    struct audit_walk *walk = place->walk;
    if (walk->broken[0] != '\0')
        return;
    char name[AUDIT_NAME_MAX];
    audit_file_name(place->file, name);
    snprintf(walk->broken, sizeof(walk->broken),
             "%s: line %" PRIu64 ": when the daemon started before block %" PRIu64
             ", the log did not fit its signed head",
             name, place->line, seal->block);
}

static void walk_seal(struct place *place, struct kg_str line)
{
    struct audit_walk *walk = place->walk;
    struct audit_seal seal;
    size_t covered;
    unsigned char hash[32];
    if (!audit_seal_parse(line, &seal, &covered)) {
        walk_problem(place, "this seal is not as kaged writes it");
        return;
    }
    audit_digest_add(&place->digest, (struct kg_str){line.data, covered});
    audit_digest_end(&place->digest, hash);
    if (seal.broken)
        note_broken(place, &seal);
    else if (walk->started)
        check_link(place, &seal);
    else
        check_first(place, &seal);
    walk_check_content(place, &seal, hash);
    check_head(place, &seal);
    walk->started = true;
    walk->block = seal.block;
    memcpy(walk->hash, seal.hash, sizeof(walk->hash));
    walk->blocks++;
    walk->events += seal.events;
    place->events = 0;
}

static void walk_line(struct place *place, struct kg_str line)
{
    place->line++;
    if (audit_is_seal(line)) {
        walk_seal(place, line);
        return;
    }
    audit_digest_add(&place->digest, line);
    place->events++;
    if (audit_is_event(line))
        memcpy(place->walk->last_id, line.data + AUDIT_ID_AT, AUDIT_ID_LENGTH);
}

int audit_walk_file(struct audit_walk *walk, const char *dir, uint32_t number, bool last,
                    struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    int result = audit_reader_open(&reader, dir, number, err);
    if (result < 0)
        return result;
    struct place place = {.walk = walk, .file = number};
    sha256_init(&place.digest);
    struct kg_str line;
    walk->tail = 0;
    while ((result = audit_reader_next(&reader, &line, err)) > 0) {
        walk_line(&place, line);
        if (place.events == 0)
            walk->tail = reader.offset;
    }
    if (result < 0)
        return result;
    walk->files++;
    walk->unsealed = place.events;
    walk->end = reader.offset;
    walk->size = reader.offset + audit_reader_rest(&reader);
    if (!last && walk->size > walk->tail)
        walk_problem(&place, "the file ends without a seal, but another file follows");
    return 0;
}
