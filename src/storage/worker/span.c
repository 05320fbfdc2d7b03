/* Walks over JSON that the scanner has accepted: nothing here can fail, and nothing is copied. */
#include "storage/worker/internal.h"

struct span_walk span_walk(struct kg_str container)
{
    return (struct span_walk){{container.data + 1, container.data + container.length}};
}

/* At the next key or item; false at the closing bracket. */
static bool next(struct span_walk *walk)
{
    kg_json_skip_space(&walk->cursor);
    if (walk->cursor.at == walk->cursor.end || *walk->cursor.at == ']' || *walk->cursor.at == '}')
        return false;
    if (*walk->cursor.at == ',') {
        walk->cursor.at++;
        kg_json_skip_space(&walk->cursor);
    }
    return true;
}

bool span_next_item(struct span_walk *walk, struct kg_str *ret_value)
{
    return next(walk) && kg_json_skip_value(&walk->cursor, ret_value) == KG_JSON_OK;
}

bool span_next_member(struct span_walk *walk, struct kg_str *ret_raw_key, bool *ret_escaped,
                      struct kg_str *ret_value)
{
    if (!next(walk) || kg_json_skip_string(&walk->cursor, ret_raw_key, ret_escaped) != KG_JSON_OK)
        return false;
    kg_json_skip_space(&walk->cursor);
    walk->cursor.at++;
    kg_json_skip_space(&walk->cursor);
    return kg_json_skip_value(&walk->cursor, ret_value) == KG_JSON_OK;
}

struct kg_str span_text(struct kg_str string, struct kg_buf *scratch)
{
    struct kg_str raw = {string.data + 1, string.length - 2};
    if (memchr(raw.data, '\\', raw.length) == NULL)
        return raw;
    char *text = scratch->data + scratch->length;
    size_t length = kg_json_unescape(raw, text);
    scratch->length += length;
    return (struct kg_str){text, length};
}
