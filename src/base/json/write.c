/* The writer puts out valid JSON only, whatever bytes it is given; nothing is ever parsed back. */
#include "base/json/internal.h"
#include "base/json/short.h"

/* c is a quote, a backslash or a control character. */
static void base_json_write_put_escape(struct kg_buf *buf, unsigned char c)
{
    static const char shorts[0x5D] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                      ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
    static const char digits[] = "0123456789abcdef";
    if (shorts[c] != 0)
        kg_buf_append(buf, (char[]){'\\', shorts[c]}, 2);
    else
        kg_buf_append(buf, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

/* On its own, so that the short way has little to save and restore. */
static __attribute__((noinline)) void put_general(struct kg_buf *buf, struct kg_str text)
{
    kg_buf_char(buf, '"');
    const char *at = text.data;
    const char *end = text.length ? at + text.length : at;
    while (at < end) {
        uint64_t seen = 0;
        const char *stop = kg_json_plain_end(at, end, &seen);
        if (kg_json_seen_wide(seen))
            kg_buf_utf8(buf, (struct kg_str){at, (size_t)(stop - at)});
        else
            kg_buf_append(buf, at, (size_t)(stop - at));
        if (stop == end)
            break;
        base_json_write_put_escape(buf, (unsigned char)*stop);
        at = stop + 1;
    }
    kg_buf_char(buf, '"');
}

void kg_json_put_string(struct kg_buf *buf, struct kg_str text)
{
    kg_buf_reserve(buf, text.length + 2);
    char *end = kg_json_put_short(buf->data + buf->length, text);
    if (end != NULL)
        buf->length = (size_t)(end - buf->data);
    else
        put_general(buf, text);
}

struct kg_json_writer kg_json_writer(struct kg_buf *buf)
{
    return (struct kg_json_writer){.buf = buf};
}

/* Before a key or value; comma_after tells what the next one needs. */
static void separate(struct kg_json_writer *writer, bool comma_after)
{
    if (writer->comma)
        kg_buf_char(writer->buf, ',');
    writer->comma = comma_after;
}

void kg_json_begin(struct kg_json_writer *writer, char open)
{
    separate(writer, false);
    kg_buf_char(writer->buf, open);
}

void kg_json_end(struct kg_json_writer *writer, char close)
{
    kg_buf_char(writer->buf, close);
    writer->comma = true;
}

static void base_json_write_put_key(struct kg_json_writer *writer, struct kg_str key)
{
    separate(writer, false);
    kg_json_put_string(writer->buf, key);
    kg_buf_char(writer->buf, ':');
}

void kg_json_key(struct kg_json_writer *writer, const char *key)
{
    base_json_write_put_key(writer, kg_str(key));
}

void kg_json_str(struct kg_json_writer *writer, struct kg_str text)
{
    if (text.data == NULL) {
        kg_json_null(writer);
        return;
    }
    separate(writer, true);
    kg_json_put_string(writer->buf, text);
}

void kg_json_text(struct kg_json_writer *writer, const char *text)
{
    kg_json_str(writer, kg_str(text));
}

void kg_json_int(struct kg_json_writer *writer, int64_t value)
{
    separate(writer, true);
    kg_buf_int(writer->buf, value);
}

void kg_json_bool(struct kg_json_writer *writer, bool value)
{
    kg_json_raw(writer, value ? KG_STR("true") : KG_STR("false"));
}

void kg_json_null(struct kg_json_writer *writer)
{
    kg_json_raw(writer, KG_STR("null"));
}

void kg_json_raw(struct kg_json_writer *writer, struct kg_str span)
{
    separate(writer, true);
    kg_buf_str(writer->buf, span);
}

/* JSON has no infinities and no NaN; like JavaScript we write null for those of TOML. */
static void base_json_write_put_number(struct kg_json_writer *writer, struct kg_str text)
{
    char last = text.length ? text.data[text.length - 1] : 'n';
    if (kg_is_digit(last))
        kg_json_raw(writer, text);
    else
        kg_json_null(writer);
}

static void base_json_write_put_array(struct kg_json_writer *writer, const struct kg_node *node)
{
    kg_json_begin(writer, '[');
    for (uint32_t i = 0; i < node->count; i++)
        kg_json_node(writer, &node->items[i]);
    kg_json_end(writer, ']');
}

static void base_json_write_put_object(struct kg_json_writer *writer, const struct kg_node *node)
{
    kg_json_begin(writer, '{');
    for (uint32_t i = 0; i < node->count; i++) {
        base_json_write_put_key(writer, node->members[i].key);
        kg_json_node(writer, &node->members[i].value);
    }
    kg_json_end(writer, '}');
}

/* Recursive: every reader bounds the depth of what it builds. */
void kg_json_node(struct kg_json_writer *writer, const struct kg_node *node)
{
    switch ((enum kg_type)node->type) {
    case KG_NULL:
        kg_json_null(writer);
        break;
    case KG_BOOL:
        kg_json_bool(writer, node->boolean);
        break;
    case KG_NUMBER:
        base_json_write_put_number(writer, node->text);
        break;
    case KG_STRING:
        separate(writer, true);
        kg_json_put_string(writer->buf, node->text);
        break;
    case KG_ARRAY:
        base_json_write_put_array(writer, node);
        break;
    case KG_OBJECT:
        base_json_write_put_object(writer, node);
        break;
    }
}

void kg_json_put_node(struct kg_buf *buf, const struct kg_node *node)
{
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_node(&writer, node);
}

void kg_json_list(struct kg_json_writer *writer, char *const *list)
{
    kg_json_begin(writer, '[');
    for (; list != NULL && *list != NULL; list++)
        kg_json_text(writer, *list);
    kg_json_end(writer, ']');
}

/* -- a key and its value ----------------------------------------------------------------------- */

void kg_json_named_text(struct kg_json_writer *writer, const char *key, const char *text)
{
    kg_json_key(writer, key);
    kg_json_text(writer, text);
}

void kg_json_named_str(struct kg_json_writer *writer, const char *key, struct kg_str text)
{
    kg_json_key(writer, key);
    kg_json_str(writer, text);
}

void kg_json_named_int(struct kg_json_writer *writer, const char *key, int64_t value)
{
    kg_json_key(writer, key);
    kg_json_int(writer, value);
}

void kg_json_named_bool(struct kg_json_writer *writer, const char *key, bool value)
{
    kg_json_key(writer, key);
    kg_json_bool(writer, value);
}

void kg_json_named_begin(struct kg_json_writer *writer, const char *key, char open)
{
    kg_json_key(writer, key);
    kg_json_begin(writer, open);
}

void kg_json_named_list(struct kg_json_writer *writer, const char *key, char *const *list)
{
    kg_json_key(writer, key);
    kg_json_list(writer, list);
}

void kg_json_named_time(struct kg_json_writer *writer, const char *key, int64_t wall_ms)
{
    char text[KG_TIME_TEXT];
    if (wall_ms != 0)
        kg_time_format(wall_ms, text);
    kg_json_named_text(writer, key, wall_ms != 0 ? text : NULL);
}

void kg_json_named_node(struct kg_json_writer *writer, const char *key,
                        const struct kg_node *node_or_null)
{
    kg_json_key(writer, key);
    if (node_or_null != NULL)
        kg_json_node(writer, node_or_null);
    else
        kg_json_null(writer);
}

void kg_json_named_raw(struct kg_json_writer *writer, const char *key, struct kg_str span)
{
    kg_json_key(writer, key);
    kg_json_raw(writer, span);
}
