/*
 * Cuts a stream of server-sent events into the data of each. Lines may end in any of the three
 * ways; comments, names and ids of events are passed over, since both APIs say in the data itself
 * what it is. A line or an event past the bound ends it all.
 */
#include "model/worker/internal.h"

#include <errno.h>
#include <stdlib.h>

struct sse {
    struct kg_buf line; /* whose end has not come yet */
    struct kg_buf data; /* of the event whose end has not come yet */
    size_t max;
    bool has_data;
    bool after_return; /* a newline now belongs to the line that is over */
    bool began;        /* past the place where a byte order mark may be */
};

struct sse *sse_new(size_t event_max_bytes)
{
    struct sse *sse = kg_alloc(sizeof(*sse));
    sse->max = event_max_bytes;
    return sse;
}

void sse_free(struct sse *sse)
{
    if (sse == NULL)
        return;
    kg_buf_free(&sse->line);
    kg_buf_free(&sse->data);
    free(sse);
}

static int end_event(struct sse *sse, sse_event_fn *on_event, void *user)
{
    if (!sse->has_data)
        return 0;
    sse->has_data = false;
    int result = on_event(user, kg_buf_view(&sse->data));
    sse->data.length = 0;
    return result;
}

static int add_data(struct sse *sse, struct kg_str value)
{
    if (sse->data.length + value.length + 1 > sse->max)
        return -EMSGSIZE;
    if (sse->has_data)
        kg_buf_char(&sse->data, '\n');
    kg_buf_str(&sse->data, value);
    sse->has_data = true;
    return 0;
}

static int end_line(struct sse *sse, sse_event_fn *on_event, void *user)
{
    struct kg_str line = kg_buf_view(&sse->line);
    sse->line.length = 0;
    if (!sse->began && kg_str_starts(line, "\xEF\xBB\xBF"))
        line = (struct kg_str){line.data + 3, line.length - 3};
    sse->began = true;
    if (line.length == 0)
        return end_event(sse, on_event, user);
    if (kg_str_is(line, "data"))
        return add_data(sse, KG_STR(""));
    if (!kg_str_starts(line, "data:"))
        return 0;
    size_t skip = line.length > 5 && line.data[5] == ' ' ? 6 : 5;
    return add_data(sse, (struct kg_str){line.data + skip, line.length - skip});
}

/* How many bytes come before the next end of a line. */
static size_t until_end(struct kg_str bytes)
{
    size_t at = 0;
    while (at < bytes.length && bytes.data[at] != '\n' && bytes.data[at] != '\r')
        at++;
    return at;
}

int sse_feed(struct sse *sse, struct kg_str bytes, sse_event_fn *on_event, void *user)
{
    while (bytes.length > 0) {
        if (sse->after_return && bytes.data[0] == '\n') {
            bytes = (struct kg_str){bytes.data + 1, bytes.length - 1};
            sse->after_return = false;
            continue;
        }
        sse->after_return = false;
        size_t length = until_end(bytes);
        if (sse->line.length + length > sse->max)
            return -EMSGSIZE;
        kg_buf_append(&sse->line, bytes.data, length);
        if (length == bytes.length)
            return 0;
        sse->after_return = bytes.data[length] == '\r';
        bytes = (struct kg_str){bytes.data + length + 1, bytes.length - length - 1};
        int result = end_line(sse, on_event, user);
        if (result < 0)
            return result;
    }
    return 0;
}

int sse_finish(struct sse *sse, sse_event_fn *on_event, void *user)
{
    int result = sse->line.length > 0 ? end_line(sse, on_event, user) : 0;
    return result < 0 ? result : end_event(sse, on_event, user);
}
