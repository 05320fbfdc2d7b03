/*
 * Texts of MCP in headers of HTTP: as they are, or as base64 where they could not stand in one. One
 * text is written in one way, so that what came is compared with what would have been sent.
 */
#include "wire/wire.h"

#define OPEN  "=?base64?"
#define CLOSE "?="

static void put_base64(struct kg_buf *out, struct kg_str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.length; i += 3) {
        size_t count = bytes.length - i < 3 ? bytes.length - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < count ? (unsigned char)bytes.data[i + k] : 0u);
        for (size_t k = 0; k < 4; k++)
            kg_buf_char(out, k <= count ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

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
    put_base64(out, value);
    kg_buf_text(out, CLOSE);
}

bool header_is(struct kg_str header, struct kg_str value)
{
    kg_auto(kg_buf_free) struct kg_buf wrapped = {0};
    if (!kg_str_starts(header, OPEN) || !kg_str_ends(header, CLOSE))
        return header.data != NULL && kg_str_equal(header, value);
    kg_buf_text(&wrapped, OPEN);
    put_base64(&wrapped, value);
    kg_buf_text(&wrapped, CLOSE);
    return kg_str_equal(header, kg_buf_view(&wrapped));
}
