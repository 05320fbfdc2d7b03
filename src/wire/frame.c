/*
 * Cuts a stream into lines. A line that arrives whole is delivered from the buffer it was read
 * into, without a copy; only the unfinished end of a read is kept. Bytes once searched for a
 * newline are not searched again, so that one byte a second costs no more than one byte.
 */
#include "wire/wire.h"

#define READ_MORE_BYTES 65536 /* room offered behind a partial line */
#define KEPT_BYTES      16384 /* an empty partial buffer of this size is never given back */
#define SHORT_PART      8     /* what fills less of it does not need it */

char *frame_space(struct frame *frame, char *scratch, size_t scratch_size, size_t *ret_size)
{
    if (frame->partial.length == 0) {
        *ret_size = scratch_size;
        return scratch;
    }
    size_t room = frame->partial.capacity - frame->partial.length;
    if (room < 4096)
        kg_buf_reserve(&frame->partial, READ_MORE_BYTES < frame->partial.length
                                            ? READ_MORE_BYTES
                                            : frame->partial.length + 4096);
    *ret_size = frame->partial.capacity - frame->partial.length;
    return frame->partial.data + frame->partial.length;
}

/* One whole line; the newline that ends it is already found. */
static bool deliver(struct frame *frame, struct kg_str line, frame_line_fn *on_line, void *data,
                    bool *ret_oversize)
{
    if (frame->skipping) {
        frame->skipping = false;
        return true;
    }
    if (line.length > frame->line_max) {
        line.length = frame->line_max;
        if (!frame->truncates) {
            frame->over = line;
            *ret_oversize = true;
            return false;
        }
    }
    return on_line(data, line);
}

/* Lines in data[0..length), the first `searched` bytes of which hold no newline. Returns what is
 * used. */
static size_t deliver_all(struct frame *frame, const char *bytes, size_t length, size_t searched,
                          frame_line_fn *on_line, void *data, enum frame_result *ret_result)
{
    size_t start = 0;
    size_t from = searched;
    const char *newline;
    *ret_result = FRAME_OK;
    while (from < length && (newline = memchr(bytes + from, '\n', length - from)) != NULL) {
        size_t end = (size_t)(newline - bytes);
        bool oversize = false;
        bool go_on =
            deliver(frame, (struct kg_str){bytes + start, end - start}, on_line, data, &oversize);
        start = from = end + 1;
        if (!go_on) {
            *ret_result = oversize ? FRAME_OVERSIZE : FRAME_STOPPED;
            return start;
        }
    }
    return start;
}

/* The unfinished line is over the bound: refuse it, or deliver its start and pass over the rest. */
static enum frame_result bound_partial(struct frame *frame, frame_line_fn *on_line, void *data)
{
    if (frame->skipping) {
        frame->partial.length = 0;
        return FRAME_OK;
    }
    if (frame->partial.length <= frame->line_max)
        return FRAME_OK;
    struct kg_str line = {frame->partial.data, frame->line_max};
    frame->skipping = true;
    frame->partial.length = 0;
    if (!frame->truncates) {
        frame->over = line;
        return FRAME_OVERSIZE;
    }
    return on_line(data, line) ? FRAME_OK : FRAME_STOPPED;
}

/*
 * The memory of a long line is kept for the next: to get it again costs more than the line itself.
 * The first that is short gives it back, be it the answer to a ping.
 */
static void frame_give_back(struct frame *frame, size_t used)
{
    const struct kg_buf *partial = &frame->partial;
    if (partial->length == 0 && partial->capacity > KEPT_BYTES &&
        used < partial->capacity / SHORT_PART)
        kg_buf_free(&frame->partial);
}

enum frame_result frame_advance(struct frame *frame, char *space, size_t length,
                                frame_line_fn *on_line, void *data)
{
    enum frame_result result;
    size_t used;
    if (frame->partial.length == 0) {
        used = deliver_all(frame, space, length, 0, on_line, data, &result);
        if (result != FRAME_OK)
            return result;
        kg_buf_append(&frame->partial, space + used, length - used);
    } else {
        size_t searched = frame->partial.length;
        frame->partial.length += length;
        used = deliver_all(frame, frame->partial.data, frame->partial.length, searched, on_line,
                           data, &result);
        kg_buf_consume(&frame->partial, result == FRAME_OK ? used : frame->partial.length);
        if (result != FRAME_OK)
            return result;
    }
    result = bound_partial(frame, on_line, data);
    if (result != FRAME_OVERSIZE)
        frame_give_back(frame, used);
    return result;
}

void frame_finish(struct frame *frame, frame_line_fn *on_line, void *data)
{
    if (frame->partial.length > 0 && !frame->skipping)
        on_line(data, kg_buf_view(&frame->partial));
    frame->partial.length = 0;
}

void frame_free(struct frame *frame)
{
    kg_buf_free(&frame->partial);
}
