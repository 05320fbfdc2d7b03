/*
 * Any stream, split anywhere: the lines that come out are those that a naive splitter finds. The
 * first byte is the bound, the second how the stream is split, the third where the callback stops.
 */
#include "wire/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCRATCH_BYTES 32

static void must(bool holds)
{
    if (!holds)
        abort();
}

struct run {
    struct frame frame;
    struct kg_buf lines; /* each with its length before it */
    unsigned count, stop_after;
};

static bool on_line(void *data, struct kg_str line)
{
    struct run *run = data;
    kg_buf_printf(&run->lines, "%zu:", line.length);
    kg_buf_str(&run->lines, line);
    return ++run->count != run->stop_after;
}

static enum frame_result give(struct run *run, struct kg_str stream, uint32_t random)
{
    enum frame_result result = FRAME_OK;
    while (stream.length > 0 && result == FRAME_OK) {
        kg_auto(kg_free) char *scratch = malloc(SCRATCH_BYTES);
        size_t room = 0;
        char *space = frame_space(&run->frame, scratch, SCRATCH_BYTES, &room);
        must(room > 0);
        random = random * 1664525 + 1013904223;
        size_t length = random >> 24 & 1 ? 1 + (random >> 26) : room;
        if (length > room)
            length = room;
        if (length > stream.length)
            length = stream.length;
        memcpy(space, stream.data, length);
        result = frame_advance(&run->frame, space, length, on_line, run);
        must(run->frame.partial.length <= run->frame.line_max);
        stream = (struct kg_str){stream.data + length, stream.length - length};
    }
    if (result == FRAME_OK)
        frame_finish(&run->frame, on_line, run);
    return result;
}

/* The same by looking at one byte after the other. */
static enum frame_result split_naively(struct run *run, struct kg_str stream)
{
    const char *start = stream.data, *end = stream.data + stream.length;
    for (const char *at = start; at < end; at++) {
        bool last = at + 1 == end && *at != '\n';
        if (*at != '\n' && !last)
            continue;
        struct kg_str line = {start, (size_t)(at - start) + last};
        start = at + 1;
        bool cut = line.length > run->frame.line_max;
        if (cut && !run->frame.truncates)
            return FRAME_OVERSIZE;
        if (cut)
            line.length = run->frame.line_max;
        /* What frame_finish delivers is the last in any case: it hears no stop. */
        if (!on_line(run, line) && !(last && !cut))
            return FRAME_STOPPED;
    }
    return FRAME_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    struct frame frame = {.line_max = data[0] >> 1, .truncates = data[0] & 1};
    struct run run = {.frame = frame, .stop_after = data[2]};
    struct run naive = {.frame = frame, .stop_after = data[2]};
    struct kg_str stream = {(const char *)data + 3, size - 3};
    must(give(&run, stream, data[1]) == split_naively(&naive, stream));
    must(kg_str_equal(kg_buf_view(&run.lines), kg_buf_view(&naive.lines)));
    frame_free(&run.frame);
    kg_buf_free(&run.lines);
    kg_buf_free(&naive.lines);
    return 0;
}
