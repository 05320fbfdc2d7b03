/*
 * Text that came from outside must not move the cursor, end the line or turn the writing around
 * where people read it: such characters, and bytes that are not UTF-8, are written as escapes.
 */
#include "base/base.h"

enum form { AS_TEXT, AS_JSON };

/*
 * Controls of the terminal, those that reorder, hide or break what is written, and what nobody
 * sees: two names must not look the same. U+FE0F stays: it only chooses the coloured form of a
 * sign.
 */
static bool is_unsafe(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x034F, 0x034F},
        {0x061C, 0x061C},   {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
        {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
        {0xFE00, 0xFE0E},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},
        {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
    };
    if (point >= 0x20 && point < 0x7F)
        return false;
    for (size_t i = 0; i < KG_COUNT(ranges); i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return true;
    return false;
}

uint32_t kg_utf8_decode(const char *text, size_t *ret_length)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) {
        *ret_length = 1;
        return at[0];
    }
    size_t length = at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : 2;
    uint32_t point = at[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        point = point << 6 | (at[i] & 0x3Fu);
    *ret_length = length;
    return point;
}

static void put_unsafe(struct kg_buf *out, uint32_t point, enum form form)
{
    if (point > 0xFFFF && form == AS_JSON)
        kg_buf_printf(out, "\\u%04x\\u%04x", 0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF));
    else if (point > 0xFFFF)
        kg_buf_printf(out, "\\U%08x", point);
    else if (point >= 0x7F && (form == AS_JSON || point >= 0x80))
        kg_buf_printf(out, "\\u%04x", point);
    else if (form == AS_JSON)
        kg_buf_char(out, ' '); /* it can only be the white space between tokens */
    else
        kg_buf_printf(out, "\\x%02x", point);
}

static void put_valid(struct kg_buf *out, struct kg_str text, enum form form)
{
    size_t length, run = 0; /* what is safe since then was not put yet */
    for (size_t at = 0; at < text.length; at += length) {
        uint32_t point = kg_utf8_decode(text.data + at, &length);
        if (!is_unsafe(point))
            continue;
        kg_buf_append(out, text.data + run, at - run);
        put_unsafe(out, point, form);
        run = at + length;
    }
    kg_buf_append(out, text.data + run, text.length - run);
}

static void escape_put_escaped(struct kg_buf *out, struct kg_str text, enum form form)
{
    while (text.length > 0) {
        size_t valid = kg_utf8_valid(text);
        put_valid(out, (struct kg_str){text.data, valid}, form);
        if (valid < text.length)
            kg_buf_printf(out, form == AS_TEXT ? "\\x%02x" : "\\ufffd",
                          (unsigned char)text.data[valid++]);
        text.data += valid;
        text.length -= valid;
    }
}

void kg_buf_utf8(struct kg_buf *buf, struct kg_str text)
{
    for (;;) {
        size_t valid = kg_utf8_valid(text);
        kg_buf_append(buf, text.data, valid);
        if (valid == text.length)
            return;
        kg_buf_text(buf, "\xEF\xBF\xBD");
        text.data += valid + 1;
        text.length -= valid + 1;
    }
}

bool kg_str_is_plain(struct kg_str text)
{
    size_t length;
    if (kg_utf8_valid(text) != text.length)
        return false;
    for (size_t at = 0; at < text.length; at += length)
        if (is_unsafe(kg_utf8_decode(text.data + at, &length)))
            return false;
    return true;
}

void kg_buf_escaped(struct kg_buf *buf, struct kg_str text)
{
    escape_put_escaped(buf, text, AS_TEXT);
}

void kg_buf_shell(struct kg_buf *buf, struct kg_str text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/@:+,";
    size_t count = 0;
    while (count < text.length && memchr(plain, text.data[count], sizeof(plain) - 1) != NULL)
        count++;
    if (text.length > 0 && count == text.length) {
        kg_buf_str(buf, text);
        return;
    }
    kg_buf_char(buf, '\'');
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\'')
            kg_buf_text(buf, "'\\''");
        else
            kg_buf_char(buf, text.data[i]);
    kg_buf_char(buf, '\'');
}

void kg_buf_json_escaped(struct kg_buf *buf, struct kg_str json)
{
    escape_put_escaped(buf, json, AS_JSON);
}
