/*
 * The scheme. A file is lines of events in blocks; each block ends with one line, its seal:
 *
 *   {"ts":...}                                                             \
 *   {"ts":...}                                                              > block 7
 *   {"seal":{"block":7,"events":2,"prev":"HASH OF 6","hash":"HASH OF 7"}}  /
 *
 * A block's hash is SHA-256 of its bytes, from its first line up to the `,"hash":` of its seal. So
 * it covers the number, the count, the hash before it and the marks of the seal too, and no byte of
 * an older block can change without changing every later hash. Blocks do not span files.
 *
 * The head, in kaged.db, is the number and hash of the newest block, the number of the oldest block
 * that is kept and the hash before it, signed with the key. It is written after the block is on the
 * disk, and a file is begun after the head is written. Therefore after a crash:
 *   - the files may be ahead of the head, by blocks that chain on from it, never behind it;
 *   - only the newest file may end in lines without a seal, or in half a line.
 * Both are what `verify` accepts; anything else was done by someone else. The first head, of block
 * 0, is written before the first file: files without a head are never a crash.
 *
 * What is found: a change in a block (its hash), a lost block or file (number and prev of the
 * next), a lost end (the head is ahead), a rewritten log (the head's hash), another key or an
 * edited head (the signature). What cannot be found: a change to lines that are not sealed yet, and
 * a log that was put back together with a matching older kaged.db.
 *
 * A start (recover.c) cuts off half a line, and seals what a crash left with the mark "recovered".
 * If it finds what no crash leaves, it touches nothing of it: it begins a new file with an empty
 * block that bears the mark "broken", and goes on from there. The mark is chained and signed like
 * any other, so every later `verify` reports it as long as that file is kept.
 *
 * Deleting old files moves first_block in a signed head first, synced, and deletes then. A crash in
 * between leaves files older than first_block, which are checked among themselves and deleted
 * later.
 */
#include "audit/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t count_lines(struct kg_str bytes)
{
    uint64_t lines = 0;
    const char *end = bytes.data + bytes.length;
    for (const char *at = bytes.data; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    return lines;
}

/* Writes what the disk takes; *ret_wrote is right also on failure. */
static int chain_put(struct audit_chain *chain, struct kg_str bytes, size_t *ret_wrote,
                     struct kg_err *err)
{
    *ret_wrote = 0;
    while (*ret_wrote < bytes.length) {
        ssize_t wrote = write(chain->fd, bytes.data + *ret_wrote, bytes.length - *ret_wrote);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0) {
            char name[AUDIT_NAME_MAX];
            int errnum = errno;
            audit_file_name(chain->file, name);
            return kg_fail_errno(err, errnum, "write %s", name);
        }
        *ret_wrote += (size_t)wrote;
        chain->file_bytes += (uint64_t)wrote;
    }
    return 0;
}

/* -- files ------------------------------------------------------------------------------------- */

int audit_chain_begin_file(struct audit_chain *chain, uint32_t number, struct kg_err *err)
{
    kg_auto(kg_free) char *path = audit_file_path(chain->dir, number);
    kg_auto(kg_close) int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "make %s", path);
    int result = audit_sync_dir(chain->dir, err);
    if (result < 0) {
        unlink(path);
        return result;
    }
    kg_close(&chain->fd);
    chain->fd = kg_steal_fd(&fd);
    chain->file = number;
    chain->file_bytes = 0;
    chain->rotating = false;
    return 0;
}

/* Lets go of all before the given file, in the signed head; only then may they be deleted. */
static int release_before(struct audit_chain *chain, uint32_t file, struct kg_err *err)
{
    struct state_audit_head head = chain->head;
    struct audit_seal first;
    bool found;
    int result = audit_first_seal(chain->dir, file, &first, &found, err);
    if (result < 0)
        return result;
    head.first_block = found ? first.block : head.block + 1;
    memcpy(head.first_prev, found ? first.prev : head.hash, sizeof(head.first_prev));
    if (head.first_block <= chain->head.first_block)
        return 0;
    audit_head_sign(&chain->key, &head);
    result = state_audit_head_set_synced(chain->state, &head, err);
    if (result == 0)
        chain->head = head;
    return result;
}

static int delete_oldest(struct audit_chain *chain, const struct audit_files *files, size_t count,
                         struct kg_err *err)
{
    int result = release_before(chain, files->numbers[count], err);
    for (size_t i = 0; i < count && result == 0; i++) {
        kg_auto(kg_free) char *path = audit_file_path(chain->dir, files->numbers[i]);
        if (unlink(path) < 0 && errno != ENOENT)
            result = kg_fail_errno(err, errno, "delete %s", path);
    }
    return result;
}

void audit_chain_trim(struct audit_chain *chain)
{
    if (chain->keep == 0)
        return;
    kg_auto(audit_files_free) struct audit_files files = {0};
    struct kg_err err;
    int result = audit_files_list(chain->dir, &files, &err);
    if (result == 0 && files.count > chain->keep)
        result = delete_oldest(chain, &files, files.count - chain->keep, &err);
    if (result < 0)
        kg_log(KG_WARN, "audit log %s: old files stay: %s", chain->dir, err.message);
}

static int chain_rotate(struct audit_chain *chain, struct kg_err *err)
{
    int result = audit_chain_commit(chain, err);
    if (result == 0)
        result = audit_chain_begin_file(chain, chain->file + 1, err);
    if (result == 0)
        audit_chain_trim(chain);
    return result;
}

/* -- blocks ------------------------------------------------------------------------------------ */

static void begin_seal(struct audit_chain *chain, enum audit_seal_kind kind)
{
    struct audit_seal *seal = &chain->seal;
    *seal = (struct audit_seal){
        .block = chain->head.block + 1,
        .events = chain->block_events,
        .recovered = kind == AUDIT_SEAL_RECOVERED,
        .broken = kind == AUDIT_SEAL_BROKEN,
    };
    memcpy(seal->prev, chain->head.hash, sizeof(seal->prev));
    audit_seal_put(&chain->seal_line, seal);
    audit_digest_add(&chain->digest, kg_buf_view(&chain->seal_line));
    audit_digest_end(&chain->digest, seal->hash);
    audit_seal_put_hash(&chain->seal_line, seal);
    chain->seal_written = 0;
}

static void end_seal(struct audit_chain *chain)
{
    chain->head.block = chain->seal.block;
    chain->head.events += chain->seal.events;
    memcpy(chain->head.hash, chain->seal.hash, sizeof(chain->head.hash));
    chain->seal_line.length = 0;
    chain->block_bytes = chain->block_events = 0;
    chain->dirty = true;
    chain->rotating = chain->file_bytes >= chain->rotate_bytes;
}

/*
 * Does the rest of what was begun: nothing may be written behind half a seal or into a full file.
 */
static int chain_settle(struct audit_chain *chain, struct kg_err *err)
{
    if (chain->seal_line.length > 0) {
        size_t wrote;
        struct kg_str rest = {chain->seal_line.data + chain->seal_written,
                              chain->seal_line.length - chain->seal_written};
        int result = chain_put(chain, rest, &wrote, err);
        chain->seal_written += wrote;
        if (result < 0)
            return result;
        end_seal(chain);
    }
    return chain->rotating ? chain_rotate(chain, err) : 0;
}

int audit_chain_seal(struct audit_chain *chain, enum audit_seal_kind kind, struct kg_err *err)
{
    if (chain->seal_line.length == 0)
        begin_seal(chain, kind);
    return chain_settle(chain, err);
}

int audit_chain_commit(struct audit_chain *chain, struct kg_err *err)
{
    if (!chain->dirty)
        return 0;
    char name[AUDIT_NAME_MAX];
    audit_file_name(chain->file, name);
    if (fdatasync(chain->fd) < 0)
        return kg_fail_errno(err, errno, "sync %s", name);
    audit_head_sign(&chain->key, &chain->head);
    int result = state_audit_head_set(chain->state, &chain->head, err);
    if (result == 0)
        chain->dirty = false;
    return result;
}

static bool chain_is_full(const struct audit_chain *chain)
{
    return chain->block_bytes >= AUDIT_BLOCK_BYTES || chain->file_bytes >= chain->rotate_bytes;
}

static uint64_t room_below(uint64_t limit, uint64_t used)
{
    return used < limit ? limit - used : 0;
}

/* Whole lines, as many as fill the block or the file; at least one. */
static struct kg_str next_slice(const struct audit_chain *chain, struct kg_str lines, size_t at)
{
    struct kg_str rest = {lines.data + at, lines.length - at};
    uint64_t room = room_below(AUDIT_BLOCK_BYTES, chain->block_bytes);
    uint64_t file_room = room_below(chain->rotate_bytes, chain->file_bytes);
    if (file_room < room)
        room = file_room;
    if (room >= rest.length)
        return rest;
    const char *from = rest.data + (room ? room - 1 : 0);
    const char *newline = memchr(from, '\n', (size_t)(rest.data + rest.length - from));
    return (struct kg_str){rest.data, (size_t)(newline - rest.data) + 1};
}

int audit_chain_append(struct audit_chain *chain, struct kg_str lines, size_t *at,
                       struct kg_err *err)
{
    int result = chain_settle(chain, err);
    while (result == 0 && *at < lines.length) {
        struct kg_str slice = next_slice(chain, lines, *at);
        if (chain->block_bytes == 0)
            chain->block_since_ns = uv_hrtime();
        size_t wrote;
        result = chain_put(chain, slice, &wrote, err);
        slice.length = wrote;
        audit_digest_add(&chain->digest, slice);
        chain->block_bytes += wrote;
        chain->block_events += count_lines(slice);
        *at += wrote;
        if (result == 0 && chain_is_full(chain))
            result = audit_chain_seal(chain, AUDIT_SEAL_PLAIN, err);
    }
    return result;
}

void audit_chain_close(struct audit_chain *chain)
{
    kg_close(&chain->fd);
    state_close(chain->state);
    kg_buf_free(&chain->seal_line);
    free(chain->dir);
    explicit_bzero(&chain->key, sizeof(chain->key));
    *chain = (struct audit_chain){.fd = -1};
}
