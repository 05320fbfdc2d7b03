/* What the scanner and the writer share: finding the end of a run that needs no care. */
#ifndef KAGED_JSON_INTERNAL_H
#define KAGED_JSON_INTERNAL_H

#include "base/json/json.h"

#include <endian.h>

#define KG_JSON_EACH(byte) (0x0101010101010101u * (byte)) /* that byte, eight times */

static inline bool kg_json_is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

/*
 * The first quote, backslash or control character in [at, end), or end. Eight bytes at a time: a
 * subtraction lends from the next byte only past a byte that is found already, so the lowest mark
 * is right. *seen collects the bits of bytes gone over (and a few behind); bit 7 of any tells of
 * bytes that are not ASCII.
 */
static inline const char *kg_json_plain_end(const char *at, const char *end, uint64_t *seen)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        word = le64toh(word);
        *seen |= word;
        uint64_t marks = (word - KG_JSON_EACH(0x20)) |
                         ((word ^ KG_JSON_EACH('"')) - KG_JSON_EACH(1)) |
                         ((word ^ KG_JSON_EACH('\\')) - KG_JSON_EACH(1));
        marks &= ~word & KG_JSON_EACH(0x80);
        if (marks != 0)
            return at + __builtin_ctzll(marks) / 8;
        at += 8;
    }
    while (at < end && kg_json_is_plain((unsigned char)*at))
        *seen |= (unsigned char)*at++;
    return at;
}

static inline bool kg_json_seen_wide(uint64_t seen)
{
    return (seen & KG_JSON_EACH(0x80)) != 0;
}

#endif
