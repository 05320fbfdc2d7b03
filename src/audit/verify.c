/*
 * audit verify: reads everything once, changes nothing, needs no daemon and does not disturb one.
 * The head is read before the files are listed, so that a running daemon is only ever ahead of it.
 */
#include "audit/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define ATTEMPTS 5 /* a daemon may delete old files while they are read */

static void cleanup_state(struct state **state)
{
    state_close(*state);
}

static int read_head(const struct audit_options *options, struct state_audit_head *ret_head,
                     bool *ret_found, struct kg_err *err)
{
    *ret_found = false;
    if (access(options->state_db, F_OK) < 0 && errno == ENOENT)
        return 0;
    kg_auto(cleanup_state) struct state *state = state_open_readonly(options->state_db, err);
    if (state == NULL)
        return err && err->errnum ? -err->errnum : -EIO;
    return state_audit_head_get(state, ret_head, ret_found, err);
}

static int list_files(const char *dir, struct audit_files *ret_files, struct kg_err *err)
{
    if (access(dir, F_OK) < 0 && errno == ENOENT)
        return 0;
    return audit_files_list(dir, ret_files, err);
}

KG_PRINTF(2, 3)
static void verify_problem(struct audit_report *report, const char *format, ...)
{
    if (report->problem[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(report->problem, sizeof(report->problem), format, args);
    va_end(args);
}

/* Whether the head's signature is by the key; a head that is not makes all else worthless. */
static void check_signature(const struct audit_options *options,
                            const struct state_audit_head *head, struct audit_report *report)
{
    struct audit_key key;
    struct kg_err err;
    if (audit_key_load(options->key_file, false, &key, &err) < 0)
        verify_problem(report, "%s", err.message);
    else if (!audit_head_is_signed(&key, head))
        verify_problem(
            report,
            "%s: the signed head of the log does not fit the key %s: one of them was replaced",
            options->state_db, options->key_file);
    explicit_bzero(&key, sizeof(key));
}

static void check_gaps(const struct audit_files *files, struct audit_report *report)
{
    for (size_t i = 1; i < files->count; i++) {
        if (files->numbers[i] == files->numbers[i - 1] + 1)
            continue;
        char name[AUDIT_NAME_MAX];
        audit_file_name(files->numbers[i - 1] + 1, name);
        verify_problem(report, "%s: the file is missing", name);
    }
}

static void verify_check_end(const struct audit_files *files, const struct audit_walk *walk,
                             struct audit_report *report)
{
    const struct state_audit_head *head = walk->head;
    if (head->block < head->first_block || walk->head_seen) /* none is kept, or it was seen */
        return;
    char name[AUDIT_NAME_MAX] = "the log";
    if (files->count > 0)
        audit_file_name(files->numbers[files->count - 1], name);
    verify_problem(report,
                   "%s: it ends with block %" PRIu64 ", but block %" PRIu64
                   " was signed: the end of the log is missing",
                   name, walk->block, head->block);
}

static void walk_all(const struct audit_options *options, const struct audit_files *files,
                     struct audit_walk *walk, struct audit_report *report)
{
    struct kg_err err;
    for (size_t i = 0; i < files->count; i++) {
        bool last = i + 1 == files->count;
        int result = audit_walk_file(walk, options->dir, files->numbers[i], last, &err);
        if (result < 0)
            verify_problem(report, "%s", err.message);
    }
    report->files = walk->files;
    report->blocks = walk->blocks;
    report->events = walk->events;
    report->unsealed = walk->unsealed;
}

static int verify_once(const struct audit_options *options, struct audit_report *report,
                       uint64_t *ret_first_block, struct kg_err *err)
{
    struct state_audit_head head = {0};
    bool found;
    kg_auto(audit_files_free) struct audit_files files = {0};
    int result = read_head(options, &head, &found, err);
    if (result == 0)
        result = list_files(options->dir, &files, err);
    if (result < 0)
        return result;
    *ret_first_block = head.first_block;
    struct audit_walk walk = {.head = found ? &head : NULL, .from_start = true};
    if (found)
        check_signature(options, &head, report);
    else if (files.count > 0)
        verify_problem(report, "%s: there is no signed head of the log in it", options->state_db);
    check_gaps(&files, report);
    walk_all(options, &files, &walk, report);
    if (walk.problem[0] != '\0')
        verify_problem(report, "%s", walk.problem);
    if (walk.broken[0] != '\0')
        verify_problem(report, "%s", walk.broken);
    if (found)
        verify_check_end(&files, &walk, report);
    return 0;
}

/* Whether a daemon deleted old files meanwhile, which looks like a missing start. */
static bool moved_on(const struct audit_options *options, uint64_t first_block)
{
    struct state_audit_head head;
    bool found;
    return read_head(options, &head, &found, NULL) == 0 && found && head.first_block != first_block;
}

void audit_report_write(const struct audit_report *report, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "files", (int64_t)report->files);
    kg_json_named_int(&json, "blocks", (int64_t)report->blocks);
    kg_json_named_int(&json, "events", (int64_t)report->events);
    kg_json_named_int(&json, "unsealed", (int64_t)report->unsealed);
    kg_json_named_text(&json, "problem", report->problem[0] ? report->problem : NULL);
    kg_json_end(&json, '}');
}

int audit_verify(const struct audit_options *options, struct audit_report *ret_report,
                 struct kg_err *err)
{
    struct audit_report report;
    uint64_t first_block;
    int attempt = 0;
    do {
        report = (struct audit_report){0};
        int result = verify_once(options, &report, &first_block, err);
        if (result < 0)
            return kg_wrap(err, result, "audit log %s: verify", options->dir);
    } while (report.problem[0] != '\0' && ++attempt < ATTEMPTS && moved_on(options, first_block));
    *ret_report = report;
    return 0;
}
