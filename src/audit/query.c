/*
 * Questions to the log, answered by reading its files. The answer is bounded whatever is asked;
 * lines that are no events, or no JSON, never reach it. The last ones are read from the end of the
 * newest file, and only as far back as needed.
 */
#include "audit/internal.h"

#include <errno.h>
#include <sys/stat.h>

#define LINES_MAX ((size_t)10000)
#define BYTES_MAX ((size_t)8 * 1024 * 1024)

#define SKIP_LEAST ((uint64_t)256 * 1024) /* fewer bytes are rather read than looked through */

struct question {
    const struct audit_filter *filter;
    char since[KG_TIME_TEXT];    /* text sorts as time does */
    char since_id[KG_ULID_TIME]; /* what ids begin with since then */
    struct kg_buf plugin, event; /* owned; the values' beginnings as they stand in a line */
    size_t limit;
};

static void free_question(struct question *question)
{
    kg_buf_free(&question->plugin);
    kg_buf_free(&question->event);
}

/* A value that is all of the text has a quote behind it; of any that begins with it, none. */
static void audit_query_put_wanted(struct kg_buf *wanted, struct kg_str text, bool prefix)
{
    if (text.length == 0)
        return;
    kg_json_put_string(wanted, (struct kg_str){text.data, text.length - prefix});
    wanted->length -= prefix;
}

static void make_question(struct question *question)
{
    const struct audit_filter *filter = question->filter;
    struct kg_str event = filter->event;
    question->limit = filter->limit;
    if (filter->limit == 0 || filter->limit > LINES_MAX)
        question->limit = LINES_MAX;
    kg_time_format(filter->since_ms, question->since);
    kg_ulid_time(filter->since_ms > 0 ? filter->since_ms : 0, question->since_id);
    audit_query_put_wanted(&question->plugin, filter->plugin, false);
    audit_query_put_wanted(&question->event, event,
                           event.length > 0 && event.data[event.length - 1] == '*');
}

/* -- one line ---------------------------------------------------------------------------------- */

static struct kg_str audit_query_id_of(struct kg_str line)
{
    return (struct kg_str){line.data + AUDIT_ID_AT, AUDIT_ID_LENGTH};
}

static bool is_older(const struct question *question, struct kg_str line)
{
    return question->filter->since_ms != 0 &&
           memcmp(line.data + AUDIT_TS_AT, question->since, AUDIT_TS_LENGTH) < 0;
}

/*
 * Whether nothing before this event can be new enough. Its own time does not tell, since a clock
 * may have been set back; but ids never go back, and the time in them is that of the latest so far.
 */
static bool all_before_are_older(const struct question *question, struct kg_str line)
{
    return question->filter->since_ms != 0 &&
           memcmp(audit_query_id_of(line).data + 4, question->since_id, KG_ULID_TIME) < 0;
}

/* Most lines can be told not to match by this, and need not be read as JSON. */
static bool contains(struct kg_str line, const struct kg_buf *wanted)
{
    return wanted->length == 0 ||
           memmem(line.data, line.length, wanted->data, wanted->length) != NULL;
}

static bool member_begins(struct kg_str line, const char *key, const struct kg_buf *wanted)
{
    struct kg_str value;
    return wanted->length == 0 ||
           (kg_json_member(line, key, &value) && value.length >= wanted->length &&
            memcmp(value.data, wanted->data, wanted->length) == 0);
}

static bool audit_query_matches(const struct question *question, struct kg_str line)
{
    const struct audit_filter *filter = question->filter;
    size_t offset;
    if (!audit_is_event(line) || is_older(question, line))
        return false;
    if (filter->after_id.length > 0 &&
        kg_str_compare(audit_query_id_of(line), filter->after_id) <= 0)
        return false;
    return contains(line, &question->event) && contains(line, &question->plugin) &&
           kg_json_check(line, &offset) == KG_JSON_OK &&
           member_begins(line, "event", &question->event) &&
           member_begins(line, "name", &question->plugin);
}

/* -- the last ones ----------------------------------------------------------------------------- */

struct last {
    struct audit_front lines;
    size_t count;
    bool complete; /* there is no room for more, or all that is left is too old */
};

static void free_last(struct last *last)
{
    audit_front_free(&last->lines);
}

static void audit_query_put_last(const struct question *question, struct last *last,
                                 struct kg_str line)
{
    if (audit_front_view(&last->lines).length + line.length > BYTES_MAX) {
        last->complete = true;
        return;
    }
    audit_front_put(&last->lines, line);
    last->complete = ++last->count == question->limit;
}

static int last_of_file(const struct question *question, const char *dir, uint32_t number,
                        struct last *last, struct kg_err *err)
{
    kg_auto(audit_backward_close) struct audit_backward reader = {.fd = -1};
    int result = audit_backward_open(&reader, dir, number, err);
    if (result < 0)
        return result;
    struct kg_str line;
    bool older = false; /* the oldest event so far */
    while (!last->complete && (result = audit_backward_next(&reader, &line, err)) > 0) {
        if (!audit_is_event(line))
            continue;
        older = is_older(question, line);
        if (audit_query_matches(question, line))
            audit_query_put_last(question, last, line);
        last->complete = last->complete || all_before_are_older(question, line);
    }
    /* A file that begins before the time asked for: older ones have nothing. */
    last->complete = last->complete || older;
    return result < 0 ? result : 0;
}

static int audit_query_find_last(const struct question *question, const char *dir,
                                 const struct audit_files *files, struct kg_buf *answer,
                                 struct kg_err *err)
{
    kg_auto(free_last) struct last last = {0};
    for (size_t i = files->count; i > 0 && !last.complete; i--) {
        int result = last_of_file(question, dir, files->numbers[i - 1], &last, err);
        if (result == -ENOENT) /* deleted meanwhile, and all older ones with it */
            break;
        if (result < 0)
            return result;
    }
    kg_buf_str(answer, audit_front_view(&last.lines));
    return 0;
}

/* -- the first ones after an id ---------------------------------------------------------------- */

/* The first event that begins behind an offset; *ret_offset says where. 0 if there is none. */
static int event_behind(struct audit_reader *reader, uint64_t offset, struct kg_str *ret_event,
                        uint64_t *ret_offset, struct kg_err *err)
{
    int result = audit_reader_seek(reader, offset, err);
    if (result == 0)
        result = audit_reader_next(reader, ret_event, err); /* the rest of a line */
    while (result > 0 && (result = audit_reader_next(reader, ret_event, err)) > 0 &&
           !audit_is_event(*ret_event))
        ;
    *ret_offset = result > 0 ? reader->offset - ret_event->length : 0;
    return result;
}

/*
 * Goes to where only lines follow that may be asked for, and a few others. Ids grow, so each look
 * halves what is left; otherwise who asks for page after page would have all read each time.
 */
static int skip_before(const struct question *question, struct audit_reader *reader,
                       struct kg_err *err)
{
    struct stat file;
    if (fstat(reader->fd, &file) < 0)
        return kg_fail_errno(err, errno, "audit log: look at the file");
    uint64_t low = 0, high = (uint64_t)file.st_size; /* low: an event that was had, or the start */
    while (high - low > SKIP_LEAST) {
        uint64_t middle = low + (high - low) / 2, offset;
        struct kg_str event;
        int result = event_behind(reader, middle, &event, &offset, err);
        if (result < 0)
            return result;
        if (result > 0 && offset < high &&
            kg_str_compare(audit_query_id_of(event), question->filter->after_id) <= 0)
            low = offset;
        else
            high = middle;
    }
    return audit_reader_seek(reader, low, err);
}

struct first {
    struct kg_buf *lines; /* borrowed */
    size_t count;
    bool full;
};

static int first_of_file(const struct question *question, const char *dir, uint32_t number,
                         struct first *first, struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    int result = audit_reader_open(&reader, dir, number, err);
    if (result < 0)
        return result;
    result = skip_before(question, &reader, err);
    if (result < 0)
        return result;
    struct kg_str line;
    while (!first->full && (result = audit_reader_next(&reader, &line, err)) > 0) {
        if (!audit_query_matches(question, line))
            continue;
        first->full = first->lines->length + line.length > BYTES_MAX;
        if (first->full)
            break;
        kg_buf_str(first->lines, line);
        first->full = ++first->count == question->limit;
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
            return kg_str_compare(audit_query_id_of(line), question->filter->after_id) <= 0;
    return false;
}

static int find_after(const struct question *question, const char *dir,
                      const struct audit_files *files, struct kg_buf *answer, struct kg_err *err)
{
    struct first first = {.lines = answer};
    size_t from = files->count;
    while (from > 0 && !begins_before(question, dir, files->numbers[from - 1]))
        from--;
    for (size_t i = from > 0 ? from - 1 : 0; i < files->count && !first.full; i++) {
        int result = first_of_file(question, dir, files->numbers[i], &first, err);
        if (result < 0 && result != -ENOENT)
            return result;
    }
    return 0;
}

int audit_query(const char *dir, const struct audit_filter *filter, struct kg_buf *ret_lines,
                struct kg_err *err)
{
    kg_auto(free_question) struct question question = {.filter = filter};
    kg_auto(audit_files_free) struct audit_files files = {0};
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    make_question(&question);
    int result = audit_files_list(dir, &files, err);
    if (result == 0)
        result = filter->after_id.length > 0
                     ? find_after(&question, dir, &files, &answer, err)
                     : audit_query_find_last(&question, dir, &files, &answer, err);
    if (result < 0)
        return kg_wrap(err, result, "audit log %s: query", dir);
    kg_buf_str(ret_lines, kg_buf_view(&answer));
    return 0;
}
