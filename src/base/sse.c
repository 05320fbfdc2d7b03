/*
 * Cuts a stream of server-sent events into the data of each. Lines may end in any of the three
 * ways; comments and names of events are passed over, since whoever sends such says in the data
 * itself what it is. A line or an event past the bound ends it all.
 */
#include "base/sse.h"

#include <errno.h>
#include <stdlib.h>

struct kg_sse {
    struct kg_buf line; /* whose end has not come yet */
    struct kg_buf data; /* of the event whose end has not come yet */
    struct kg_buf id;   /* of the last event that had one */
    int64_t retry_ms;   /* negative: not said */
    size_t max;
    bool has_data;
    bool after_return; /* a newline now belongs to the line that is over */
    bool began;        /* past the place where a byte order mark may be */
};

struct kg_sse *kg_sse_new(size_t event_max_bytes)
{
    struct kg_sse *sse = kg_alloc(sizeof(*sse));
    sse->max = event_max_bytes;
    sse->retry_ms = -1;
    return sse;
}

void kg_sse_free(struct kg_sse *sse)
{
    if (sse == NULL)
        return;
    kg_buf_free(&sse->line);
    kg_buf_free(&sse->data);
    kg_buf_free(&sse->id);
    free(sse);
}

struct kg_str kg_sse_id(const struct kg_sse *sse)
{
    return kg_buf_view(&sse->id);
}

int64_t kg_sse_retry_ms(const struct kg_sse *sse)
{
    return sse->retry_ms;
}

static int sse_end_event(struct kg_sse *sse, kg_sse_event_fn *on_event, void *user)
{
    if (!sse->has_data)
        return 0;
    sse->has_data = false;
    int result = on_event(user, kg_buf_view(&sse->data));
    sse->data.length = 0;
    return result;
}

static int add_data(struct kg_sse *sse, struct kg_str value)
{
    if (sse->data.length + value.length + 1 > sse->max)
        return -EMSGSIZE;
    if (sse->has_data)
        kg_buf_char(&sse->data, '\n');
    kg_buf_str(&sse->data, value);
    sse->has_data = true;
    return 0;
}

/* It goes back in a header: what could not stand there is as good as none. */
static void sse_keep_id(struct kg_sse *sse, struct kg_str value)
{
    sse->id.length = 0;
    for (size_t i = 0; i < value.length; i++)
        if (value.data[i] < 0x20 || value.data[i] == 0x7F)
            return;
    if (value.length <= KG_SSE_ID_MAX)
        kg_buf_str(&sse->id, value);
}

static int sse_take_field(struct kg_sse *sse, struct kg_str name, struct kg_str value)
{
    if (kg_str_is(name, "data"))
        return add_data(sse, value);
    if (kg_str_is(name, "id"))
        sse_keep_id(sse, value);
    else if (kg_str_is(name, "retry"))
        (void)kg_str_to_int(value, &sse->retry_ms);
    return 0;
}

static int sse_end_line(struct kg_sse *sse, kg_sse_event_fn *on_event, void *user)
{
    struct kg_str line = kg_buf_view(&sse->line);
    sse->line.length = 0;
    if (!sse->began && kg_str_starts(line, "\xEF\xBB\xBF"))
        line = (struct kg_str){line.data + 3, line.length - 3};
    sse->began = true;
    if (line.length == 0)
        return sse_end_event(sse, on_event, user);
    struct kg_str name = kg_str_cut(&line, ':');
    if (line.length > 0 && line.data[0] == ' ')
        line = kg_str_from(line, 1);
    return sse_take_field(sse, name, line.data != NULL ? line : KG_STR(""));
}

/* How many bytes come before the next end of a line. */
static size_t until_end(struct kg_str bytes)
{
    size_t at = 0;
    while (at < bytes.length && bytes.data[at] != '\n' && bytes.data[at] != '\r')
        at++;
    return at;
}

int kg_sse_feed(struct kg_sse *sse, struct kg_str bytes, kg_sse_event_fn *on_event, void *user)
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
        int result = sse_end_line(sse, on_event, user);
        if (result < 0)
            return result;
    }
    return 0;
}

int kg_sse_finish(struct kg_sse *sse, kg_sse_event_fn *on_event, void *user)
{
    int result = sse->line.length > 0 ? sse_end_line(sse, on_event, user) : 0;
    return result < 0 ? result : sse_end_event(sse, on_event, user);
}
