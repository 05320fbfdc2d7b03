/*
 * Questions to the log, answered by reading its files. The answer is bounded whatever is asked;
 * lines that are no events, or no JSON, never reach it. Newer files are read first and older ones
 * only as far as needed.
 */
#include "audit/internal.h"

#include <errno.h>

#define LINES_MAX ((size_t)10000)
#define BYTES_MAX ((size_t)8 * 1024 * 1024)

struct question {
    const struct audit_filter *filter;
    char since[KG_TIME_TEXT]; /* text sorts as time does */
    size_t limit;
};

/* -- one line ---------------------------------------------------------------------------------- */

/* What stands between the quotes of a string member; ids and event names have no escapes. */
static bool member_text(struct kg_str line, const char *key, struct kg_str *ret_text)
{
    struct kg_str value;
    if (!kg_json_member(line, key, &value) || value.length < 2 || value.data[0] != '"')
        return false;
    *ret_text = (struct kg_str){value.data + 1, value.length - 2};
    return true;
}

static bool event_matches(struct kg_str line, struct kg_str pattern)
{
    struct kg_str event;
    if (pattern.length == 0)
        return true;
    if (!member_text(line, "event", &event))
        return false;
    if (pattern.data[pattern.length - 1] != '*')
        return kg_str_equal(event, pattern);
    size_t prefix = pattern.length - 1;
    return event.length >= prefix && memcmp(event.data, pattern.data, prefix) == 0;
}

static bool plugin_matches(struct kg_str line, struct kg_str plugin)
{
    struct kg_str name;
    if (plugin.length == 0)
        return true;
    if (!member_text(line, "name", &name))
        return false;
    kg_auto(kg_buf_free) struct kg_buf wanted = {0};
    kg_json_put_string(&wanted, plugin);
    return kg_str_equal(name, (struct kg_str){wanted.data + 1, wanted.length - 2});
}

static struct kg_str id_of(struct kg_str line)
{
    return (struct kg_str){line.data + AUDIT_ID_AT, AUDIT_ID_LENGTH};
}

static bool is_older(const struct question *question, struct kg_str line)
{
    return memcmp(line.data + AUDIT_TS_AT, question->since, AUDIT_TS_LENGTH) < 0;
}

static bool matches(const struct question *question, struct kg_str line)
{
    const struct audit_filter *filter = question->filter;
    if (!audit_is_event(line) || (filter->since_ms != 0 && is_older(question, line)))
        return false;
    if (filter->after_id.length > 0 && kg_str_compare(id_of(line), filter->after_id) <= 0)
        return false;
    size_t offset;
    return kg_json_check(line, &offset) == KG_JSON_OK && event_matches(line, filter->event) &&
           plugin_matches(line, filter->plugin);
}

/* -- lines gathered, the oldest of them dropped when there are too many ------------------------ */

struct gathered {
    struct kg_buf buf;
    size_t start; /* in buf; what is before it was dropped */
    size_t count;
    size_t limit, bytes_max;
    bool dropped; /* so older ones need not be looked for */
};

static void free_gathered(struct gathered *lines)
{
    kg_buf_free(&lines->buf);
}

static size_t gathered_bytes(const struct gathered *lines)
{
    return lines->buf.length - lines->start;
}

static void drop_oldest(struct gathered *lines)
{
    const char *from = lines->buf.data + lines->start;
    const char *newline = memchr(from, '\n', gathered_bytes(lines));
    lines->start += (size_t)(newline - from) + 1;
    lines->count--;
    lines->dropped = true;
    if (lines->start > BYTES_MAX) {
        kg_buf_consume(&lines->buf, lines->start);
        lines->start = 0;
    }
}

static bool has_room(const struct gathered *lines, size_t length)
{
    return lines->count < lines->limit && gathered_bytes(lines) + length <= lines->bytes_max;
}

static void gather_last(struct gathered *lines, struct kg_str line)
{
    kg_buf_str(&lines->buf, line);
    lines->count++;
    while (lines->count > lines->limit || gathered_bytes(lines) > lines->bytes_max)
        drop_oldest(lines);
}

/* -- the last ones ----------------------------------------------------------------------------- */

/* *ret_reached: the file begins before the time asked for, so older files have nothing. */
static int last_of_file(const struct question *question, const char *dir, uint32_t number,
                        struct gathered *lines, bool *ret_reached, struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    int result = audit_reader_open(&reader, dir, number, err);
    if (result < 0)
        return result;
    struct kg_str line;
    bool first = true;
    while ((result = audit_reader_next(&reader, &line, err)) > 0) {
        if (first && audit_is_event(line)) {
            *ret_reached = question->filter->since_ms != 0 && is_older(question, line);
            first = false;
        }
        if (matches(question, line))
            gather_last(lines, line);
    }
    return result;
}

static void put_before(struct kg_buf *answer, const struct gathered *older)
{
    kg_auto(kg_buf_free) struct kg_buf newer = *answer;
    *answer = (struct kg_buf){0};
    kg_buf_reserve(answer, gathered_bytes(older) + newer.length);
    if (gathered_bytes(older) > 0)
        kg_buf_append(answer, older->buf.data + older->start, gathered_bytes(older));
    kg_buf_str(answer, kg_buf_view(&newer));
}

static int find_last(const struct question *question, const char *dir,
                     const struct audit_files *files, struct kg_buf *answer, struct kg_err *err)
{
    size_t count = 0;
    bool reached = false;
    for (size_t i = files->count; i > 0 && !reached && count < question->limit; i--) {
        kg_auto(free_gathered) struct gathered lines = {.limit = question->limit - count,
                                                        .bytes_max = BYTES_MAX - answer->length};
        int result = last_of_file(question, dir, files->numbers[i - 1], &lines, &reached, err);
        if (result == -ENOENT) /* deleted meanwhile, and all older ones with it */
            break;
        if (result < 0)
            return result;
        count += lines.count;
        put_before(answer, &lines);
        reached = reached || lines.dropped;
    }
    return 0;
}

/* -- the first ones after an id ---------------------------------------------------------------- */

static int first_of_file(const struct question *question, const char *dir, uint32_t number,
                         struct gathered *lines, bool *ret_full, struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    int result = audit_reader_open(&reader, dir, number, err);
    if (result < 0)
        return result;
    struct kg_str line;
    while (!*ret_full && (result = audit_reader_next(&reader, &line, err)) > 0) {
        if (!matches(question, line))
            continue;
        *ret_full = !has_room(lines, line.length);
        if (!*ret_full)
            gather_last(lines, line);
    }
    return result < 0 ? result : 0;
}

/* Whether every event that is asked for is in this file or in newer ones. */
static bool begins_before(const struct question *question, const char *dir, uint32_t number)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    struct kg_str line;
    if (audit_reader_open(&reader, dir, number, NULL) < 0)
        return false;
    while (audit_reader_next(&reader, &line, NULL) > 0)
        if (audit_is_event(line))
            return kg_str_compare(id_of(line), question->filter->after_id) <= 0;
    return false;
}

static int find_after(const struct question *question, const char *dir,
                      const struct audit_files *files, struct kg_buf *answer, struct kg_err *err)
{
    kg_auto(free_gathered) struct gathered lines = {.limit = question->limit,
                                                    .bytes_max = BYTES_MAX};
    size_t from = files->count;
    while (from > 0 && !begins_before(question, dir, files->numbers[from - 1]))
        from--;
    bool full = false;
    for (size_t i = from > 0 ? from - 1 : 0; i < files->count && !full; i++) {
        int result = first_of_file(question, dir, files->numbers[i], &lines, &full, err);
        if (result < 0 && result != -ENOENT)
            return result;
    }
    put_before(answer, &lines);
    return 0;
}

int audit_query(const char *dir, const struct audit_filter *filter, struct kg_buf *ret_lines,
                struct kg_err *err)
{
    struct question question = {.filter = filter, .limit = filter->limit};
    if (question.limit == 0 || question.limit > LINES_MAX)
        question.limit = LINES_MAX;
    kg_time_format(filter->since_ms, question.since);
    kg_auto(audit_files_free) struct audit_files files = {0};
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    int result = audit_files_list(dir, &files, err);
    if (result == 0)
        result = filter->after_id.length > 0 ? find_after(&question, dir, &files, &answer, err)
                                             : find_last(&question, dir, &files, &answer, err);
    if (result < 0)
        return kg_wrap(err, result, "audit log %s: query", dir);
    kg_buf_str(ret_lines, kg_buf_view(&answer));
    return 0;
}
