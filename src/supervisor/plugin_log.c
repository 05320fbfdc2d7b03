/*
 * What a plugin writes on stderr: each line goes to its log file, cut to a bound, and the last
 * lines of a run are kept for its exit report. A plugin that floods is cut to so many lines a
 * second, and the log says how many it lost. Secrets are hidden before anything is kept; for the
 * rest lines are as they came, and who shows them must escape them.
 */
#include "base/json/json.h"
#include "supervisor/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BACK_BYTES 262144 /* the most of a log that one question reads */
#define LAST_READS      64     /* of a pipe whose process is gone; it can hold no more */

struct plugin_log {
    struct supervisor *supervisor;
    const struct redact_set *secrets; /* borrowed */
    char *name;
    char *path;
    int file;           /* -1 until the first line */
    int64_t file_bytes; /* size of the current file */
    int64_t file_start; /* cursor of its first byte */

    struct loop_fd pipe; /* the plugin's stderr */
    struct frame frame;
    struct kg_rate rate;
    struct kg_buf pending; /* lines of this read, written at once */
    struct kg_buf tail;    /* the last lines, each with its newline */
    unsigned tail_lines;

    plugin_log_tap_fn *tap; /* or NULL */
    void *tap_data;
};

struct plugin_log *plugin_log_new(struct supervisor *supervisor, const char *name,
                                  const struct redact_set *secrets)
{
    struct plugin_log *log = kg_alloc(sizeof(*log));
    log->secrets = secrets;
    log->supervisor = supervisor;
    log->name = kg_strdup(name);
    log->path = kg_format("%s/%s.log", supervisor->log_dir, name);
    log->file = log->pipe.fd = -1;
    struct stat there;
    if (stat(log->path, &there) == 0)
        log->file_bytes = there.st_size;
    return log;
}

void plugin_log_free(struct plugin_log *log)
{
    if (log == NULL)
        return;
    plugin_log_detach(log);
    kg_close(&log->file);
    kg_buf_free(&log->pending);
    kg_buf_free(&log->tail);
    free(log->name);
    free(log->path);
    free(log);
}

/* -- the file ---------------------------------------------------------------------------------- */

static void plugin_log_rotate(struct plugin_log *log)
{
    kg_auto(kg_free) char *old = kg_format("%s.1", log->path);
    kg_close(&log->file);
    if (rename(log->path, old) < 0)
        return;
    log->file_start += log->file_bytes;
    log->file_bytes = 0;
}

static void write_pending(struct plugin_log *log)
{
    if (log->pending.length == 0)
        return;
    if ((size_t)log->file_bytes > log->supervisor->limits.log_rotate_bytes)
        plugin_log_rotate(log);
    if (log->file < 0)
        log->file = open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->file >= 0 && kg_write_all(log->file, log->pending.data, log->pending.length) == 0)
        log->file_bytes += (int64_t)log->pending.length;
    log->pending.length = 0;
}

/* -- lines ------------------------------------------------------------------------------------- */

static void plugin_log_drop_oldest(struct plugin_log *log)
{
    const char *newline = memchr(log->tail.data, '\n', log->tail.length);
    kg_buf_consume(&log->tail, (size_t)(newline - log->tail.data) + 1);
    log->tail_lines--;
}

static void keep_in_tail(struct plugin_log *log, struct kg_str line)
{
    if (line.length > STDERR_TAIL_LINE_BYTES)
        line.length = STDERR_TAIL_LINE_BYTES;
    kg_buf_str(&log->tail, line);
    kg_buf_char(&log->tail, '\n');
    log->tail_lines++;
    while (log->tail_lines > STDERR_TAIL_LINES || log->tail.length > STDERR_TAIL_BYTES)
        plugin_log_drop_oldest(log);
}

/* A line that is an object may say its level; any other is for information. */
static enum kg_level level_of(struct kg_str line)
{
    static const struct {
        const char *name;
        enum kg_level level;
    } levels[] = {
        {"debug", KG_DEBUG},       {"trace", KG_DEBUG},  {"info", KG_INFO},
        {"warn", KG_WARN},         {"warning", KG_WARN}, {"error", KG_ERROR_LEVEL},
        {"fatal", KG_ERROR_LEVEL},
    };
    struct kg_str level;
    size_t offset;
    if (line.length == 0 || line.data[0] != '{' || kg_json_check(line, &offset) != KG_JSON_OK ||
        !kg_json_member(line, "level", &level) || level.length < 2)
        return KG_INFO;
    for (size_t i = 0; i < KG_COUNT(levels); i++)
        if (kg_json_raw_is((struct kg_str){level.data + 1, level.length - 2}, true, levels[i].name))
            return levels[i].level;
    return KG_INFO;
}

static void plugin_log_take_line(struct plugin_log *log, struct kg_str line)
{
    char when[KG_TIME_TEXT];
    kg_time_format(kg_wall_ms(), when);
    kg_buf_text(&log->pending, when);
    kg_buf_char(&log->pending, ' ');
    kg_buf_str(&log->pending, line);
    kg_buf_char(&log->pending, '\n');
    kg_log_about(level_of(line), log->name, "stderr: %.*s", KG_STR_CUT(line, KG_CUT_LINE));
}

static void audit_line(const struct plugin_log *log, struct kg_str line)
{
    if (log->supervisor->limits.audit_stderr && audit_ready(log->supervisor->audit, NULL))
        audit_emit(log->supervisor->audit, AUDIT_PLUGIN_STDERR, KG_STR_NULL,
                   AUDIT_V_TEXT(log->name), AUDIT_V_STR(line));
}

static void note_lost(struct plugin_log *log, uint32_t lost)
{
    char note[96];
    if (lost == 0)
        return;
    snprintf(note, sizeof(note), "[kaged: %u lines were dropped: more than %u in a second]", lost,
             log->supervisor->limits.stderr_lines_per_sec);
    plugin_log_take_line(log, kg_str(note));
}

static bool plugin_log_on_line(void *data, struct kg_str line)
{
    struct plugin_log *log = data;
    uint32_t lost;
    bool pass = kg_rate_pass(&log->rate, log->supervisor->limits.stderr_lines_per_sec,
                             loop_now_ms(log->supervisor->loop), &lost);
    if (log->tap != NULL)
        log->tap(log->tap_data, line);
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    redact_put(log->secrets, line, line.length >= log->frame.line_max, &shown);
    keep_in_tail(log, kg_buf_view(&shown)); /* whatever the rate: the last words matter most */
    note_lost(log, lost);
    if (!pass)
        return true;
    plugin_log_take_line(log, kg_buf_view(&shown));
    audit_line(log, kg_buf_view(&shown));
    return true;
}

void plugin_log_say(struct plugin_log *log, struct kg_str text)
{
    while (text.length > 0) {
        const char *newline = memchr(text.data, '\n', text.length);
        size_t length = newline ? (size_t)(newline - text.data) : text.length;
        plugin_log_on_line(log, (struct kg_str){text.data, length});
        text = kg_str_from(text, newline ? length + 1 : length);
    }
    write_pending(log);
}

/* -- the pipe ---------------------------------------------------------------------------------- */

static bool plugin_log_read_some(struct plugin_log *log)
{
    struct loop *loop = log->supervisor->loop;
    size_t size;
    char *space = frame_space(&log->frame, loop_scratch(loop), LOOP_SCRATCH_BYTES, &size);
    ssize_t got = read(log->pipe.fd, space, size);
    if (got < 0)
        return errno == EINTR;
    if (got == 0) {
        frame_finish(&log->frame, plugin_log_on_line, log);
        loop_fd_end(&log->pipe);
    } else {
        frame_advance(&log->frame, space, (size_t)got, plugin_log_on_line, log);
    }
    write_pending(log);
    return got > 0;
}

static void plugin_log_on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status, (void)events;
    plugin_log_read_some(KG_CONTAINER(handle->data, struct plugin_log, pipe));
}

void plugin_log_attach(struct plugin_log *log, int fd)
{
    log->frame = (struct frame){.truncates = true,
                                .line_max = log->supervisor->limits.stderr_line_max_bytes};
    loop_fd_begin(log->supervisor->loop, &log->pipe, fd);
    if (log->pipe.poll != NULL)
        uv_poll_start(log->pipe.poll, UV_READABLE, plugin_log_on_readable);
}

void plugin_log_detach(struct plugin_log *log)
{
    for (int i = 0; i < LAST_READS && log->pipe.fd >= 0 && plugin_log_read_some(log); i++)
        ;
    frame_finish(&log->frame, plugin_log_on_line, log);
    note_lost(log, log->rate.dropped);
    log->rate = (struct kg_rate){0};
    write_pending(log);
    frame_free(&log->frame);
    loop_fd_end(&log->pipe);
}

void plugin_log_tail(const struct plugin_log *log, struct kg_buf *ret_text)
{
    kg_buf_str(ret_text, kg_buf_view(&log->tail));
}

void plugin_log_forget(struct plugin_log *log)
{
    log->tail.length = 0;
    log->tail_lines = 0;
}

void plugin_log_set_tap(struct plugin_log *log, plugin_log_tap_fn *tap_or_null, void *data)
{
    log->tap = tap_or_null;
    log->tap_data = data;
}

/* -- reading back ------------------------------------------------------------------------------ */

static void keep_last_lines(struct kg_buf *text, size_t lines)
{
    size_t at = text->length;
    while (at > 0) {
        if (text->data[at - 1] == '\n' && at != text->length && lines-- == 1)
            break;
        at--;
    }
    kg_buf_consume(text, at);
}

static int plugin_log_read_at(const char *path, int64_t from, struct kg_buf *text,
                              struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "open %s", path);
    kg_buf_reserve(text, READ_BACK_BYTES);
    ssize_t got = pread(fd, text->data, READ_BACK_BYTES, from);
    if (got < 0)
        return kg_fail_errno(err, errno, "read %s", path);
    text->length = (size_t)got;
    return 0;
}

int plugin_log_read(struct plugin_log *log, int64_t after, size_t lines, struct kg_buf *ret_text,
                    int64_t *ret_cursor, struct kg_err *err)
{
    bool follow = after >= 0;
    int64_t from = follow ? after - log->file_start : log->file_bytes - READ_BACK_BYTES;
    if (from < 0)
        from = 0;
    int result = plugin_log_read_at(log->path, from, ret_text, err);
    if (result < 0)
        return result;
    *ret_cursor = log->file_start + from + (int64_t)ret_text->length;
    if (!follow)
        keep_last_lines(ret_text, lines);
    return 0;
}
