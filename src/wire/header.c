/*
 * Texts of MCP in headers of HTTP: as they are, or as base64 where they could not stand in one. One
 * text is written in one way, so that what came is compared with what would have been sent.
 */
#include "wire/wire.h"

#include "base/base64.h"

#define OPEN  "=?base64?"
#define CLOSE "?="

void header_put(struct kg_buf *out, struct kg_str value)
{
    bool plain = value.length > 0 && value.data[0] != ' ' && value.data[value.length - 1] != ' ' &&
                 !kg_str_starts(value, OPEN);
    for (size_t i = 0; plain && i < value.length; i++)
        plain = value.data[i] >= 0x20 && value.data[i] < 0x7F;
    if (plain) {
        kg_buf_str(out, value);
        return;
    }
    kg_buf_text(out, OPEN);
    kg_base64_put(out, value);
    kg_buf_text(out, CLOSE);
}

bool header_is(struct kg_str header, struct kg_str value)
{
    kg_auto(kg_buf_free) struct kg_buf wrapped = {0};
    if (!kg_str_starts(header, OPEN) || !kg_str_ends(header, CLOSE))
        return header.data != NULL && kg_str_equal(header, value);
    kg_buf_text(&wrapped, OPEN);
    kg_base64_put(&wrapped, value);
    kg_buf_text(&wrapped, CLOSE);
    return kg_str_equal(header, kg_buf_view(&wrapped));
}
