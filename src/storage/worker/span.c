/* Texts of JSON that the scanner has accepted: nothing here can fail, or copies without need. */
#include "storage/worker/internal.h"

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
