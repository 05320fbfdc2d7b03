/*
 * The start of a chain: goes on where the last one stopped. What a crash leaves is sealed; what no
 * crash leaves is kept as it is, and marked. chain.c tells the whole scheme.
 */
#include "audit/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static int start_log(struct audit_chain *chain, struct kg_err *err)
{
    chain->head = (struct state_audit_head){.first_block = 1};
    audit_head_sign(&chain->key, &chain->head);
    int result = state_audit_head_set_synced(chain->state, &chain->head, err);
    return result < 0 ? result : audit_chain_begin_file(chain, 1, err);
}

/* The newest file that begins at or before the head's block: the walk has to pass that block. */
static int audit_recover_find_start(const struct audit_chain *chain,
                                    const struct audit_files *files, size_t *ret_from,
                                    struct kg_err *err)
{
    size_t from = files->count;
    bool reached = false;
    while (from > 0 && !reached) {
        struct audit_seal first;
        bool found;
        int result = audit_first_seal(chain->dir, files->numbers[--from], &first, &found, err);
        if (result < 0)
            return result;
        reached = found && first.block <= chain->head.block;
    }
    *ret_from = from;
    return 0;
}

static int walk_end(const struct audit_chain *chain, const struct audit_files *files,
                    struct audit_walk *walk, struct kg_err *err)
{
    size_t from;
    int result = audit_recover_find_start(chain, files, &from, err);
    if (result < 0)
        return result;
    walk->from_start = from == 0;
    for (size_t i = from; i < files->count; i++) {
        bool last = i + 1 == files->count;
        result = audit_walk_file(walk, chain->dir, files->numbers[i], last, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* False, with words in ret_why, if the files and the head are not what a crash can leave. */
static bool audit_recover_fits(const struct audit_chain *chain, bool found,
                               const struct audit_walk *walk, char ret_why[AUDIT_PROBLEM_MAX])
{
    const struct state_audit_head *head = &chain->head;
    ret_why[0] = '\0';
    if (!found)
        snprintf(ret_why, AUDIT_PROBLEM_MAX, "the state database has no signed head of it");
    else if (!audit_head_is_signed(&chain->key, head))
        snprintf(ret_why, AUDIT_PROBLEM_MAX, "its head was not signed with this key");
    else if (walk->problem[0] != '\0')
        memcpy(ret_why, walk->problem, AUDIT_PROBLEM_MAX);
    else if (head->block >= head->first_block && !walk->head_seen)
        snprintf(ret_why, AUDIT_PROBLEM_MAX,
                 "it ends at block %" PRIu64 ", but its signed head is block %" PRIu64, walk->block,
                 head->block);
    return ret_why[0] == '\0';
}

/* Takes the hash of the unsealed lines up again, and cuts off half a line behind them. */
static int resume_tail(struct audit_chain *chain, const struct audit_walk *walk, struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    if (walk->size > walk->end && ftruncate(chain->fd, (off_t)walk->end) < 0)
        return kg_fail_errno(err, errno, "cut off half a line");
    int result = audit_reader_open(&reader, chain->dir, chain->file, err);
    if (result < 0)
        return result;
    if (lseek(reader.fd, (off_t)walk->tail, SEEK_SET) < 0)
        return kg_fail_errno(err, errno, "seek");
    struct kg_str line;
    while ((result = audit_reader_next(&reader, &line, err)) > 0) {
        audit_digest_add(&chain->digest, line);
        chain->block_bytes += line.length;
        chain->block_events++;
    }
    return result;
}

static int audit_recover_resume(struct audit_chain *chain, uint32_t file,
                                const struct audit_walk *walk, struct kg_err *err)
{
    kg_auto(kg_free) char *path = audit_file_path(chain->dir, file);
    chain->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (chain->fd < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    chain->file = file;
    chain->file_bytes = walk->end;
    if (walk->started && walk->block > chain->head.block) {
        chain->head.block = walk->block;
        chain->head.events += walk->events_past_head;
        memcpy(chain->head.hash, walk->hash, sizeof(chain->head.hash));
        chain->dirty = true;
    }
    int result = resume_tail(chain, walk, err);
    if (result == 0 && chain->block_events > 0)
        result = audit_chain_seal(chain, AUDIT_SEAL_RECOVERED, err);
    return result;
}

/* Keeps the evidence: a new file, and in its first seal a mark that `verify` reports ever after. */
static int go_on_broken(struct audit_chain *chain, const struct audit_files *files, bool found,
                        const struct audit_walk *walk, struct kg_err *err)
{
    struct state_audit_head *head = &chain->head;
    if (!found)
        *head = (struct state_audit_head){.first_block = 1, .events = walk->events};
    if (walk->started && walk->block > head->block)
        head->block = walk->block;
    memcpy(head->hash, walk->hash, sizeof(head->hash));
    uint32_t next = files->count ? files->numbers[files->count - 1] + 1 : 1;
    int result = audit_chain_begin_file(chain, next, err);
    return result < 0 ? result : audit_chain_seal(chain, AUDIT_SEAL_BROKEN, err);
}

static int continue_log(struct audit_chain *chain, const struct audit_files *files, bool found,
                        struct kg_err *err)
{
    const struct state_audit_head old = chain->head;
    struct audit_walk walk = {.head = found ? &old : NULL};
    int result = walk_end(chain, files, &walk, err);
    if (result < 0)
        return result;
    memcpy(chain->last_id, walk.last_id, sizeof(chain->last_id));
    char why[AUDIT_PROBLEM_MAX];
    if (!audit_recover_fits(chain, found, &walk, why)) {
        kg_log(KG_WARN, "audit log %s: %s; it goes on in a new file, and audit verify reports this",
               chain->dir, why);
        return go_on_broken(chain, files, found, &walk, err);
    }
    if (files->count == 0)
        return audit_chain_begin_file(chain, 1, err);
    return audit_recover_resume(chain, files->numbers[files->count - 1], &walk, err);
}

static int open_parts(struct audit_chain *chain, const struct audit_options *options,
                      struct kg_err *err)
{
    int result = kg_make_dirs(options->dir, 0700, err);
    if (result == 0)
        result = audit_key_load(options->key_file, true, &chain->key, err);
    if (result < 0)
        return result;
    chain->state = state_open(options->state_db, err);
    if (chain->state == NULL)
        return err && err->errnum ? -err->errnum : -EIO;
    return 0;
}

static int open_log(struct audit_chain *chain, struct kg_err *err)
{
    bool found;
    kg_auto(audit_files_free) struct audit_files files = {0};
    int result = state_audit_head_get(chain->state, &chain->head, &found, err);
    if (result == 0)
        result = audit_files_list(chain->dir, &files, err);
    if (result < 0)
        return result;
    result =
        found || files.count > 0 ? continue_log(chain, &files, found, err) : start_log(chain, err);
    return result < 0 ? result : audit_chain_commit(chain, err);
}

int audit_chain_open(struct audit_chain *chain, const struct audit_options *options,
                     struct kg_err *err)
{
    *chain = (struct audit_chain){
        .dir = kg_strdup(options->dir),
        .rotate_bytes = options->rotate_bytes,
        .keep = options->keep,
        .fd = -1,
    };
    sha256_init(&chain->digest);
    int result = open_parts(chain, options, err);
    if (result == 0)
        result = open_log(chain, err);
    if (result == 0)
        audit_chain_trim(chain);
    else
        audit_chain_close(chain);
    return result < 0 ? kg_wrap(err, result, "audit log %s", options->dir) : 0;
}
