/* For writers whose room is made already, on ways that every call takes: so they are inline. */
#ifndef KAGED_JSON_SHORT_H
#define KAGED_JSON_SHORT_H

#include "base/json/internal.h"

#define KG_JSON_SHORT_MAX ((size_t)64)

/* Not 0 if one of the eight bytes is below 0x20, a quote, a backslash or past 0x7F. */
static inline uint64_t kg_short_marks(uint64_t word)
{
    uint64_t marks = (word - KG_JSON_EACH(0x20)) | ((word ^ KG_JSON_EACH('"')) - KG_JSON_EACH(1)) |
                     ((word ^ KG_JSON_EACH('\\')) - KG_JSON_EACH(1)) | word;
    return marks & KG_JSON_EACH(0x80);
}

static inline uint64_t kg_short_copy_8(char *to, const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    memcpy(to, &word, sizeof(word));
    return kg_short_marks(word);
}

/* Four to seven bytes: the first four and the last four. */
static inline uint64_t kg_short_copy_4(char *to, const char *from, size_t length)
{
    uint32_t first, last;
    memcpy(&first, from, sizeof(first));
    memcpy(&last, from + length - sizeof(last), sizeof(last));
    memcpy(to, &first, sizeof(first));
    memcpy(to + length - sizeof(last), &last, sizeof(last));
    return kg_short_marks(first | (uint64_t)last << 32);
}

#ifdef __SSE2__
/* Not 0 in the places of such bytes; as signed ones, those past 0x7F are below 0x20 too. */
static inline __m128i kg_short_copy_16(char *to, const char *from)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)from);
    _mm_storeu_si128((__m128i *)to, bytes);
    __m128i quotes = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                  _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    return _mm_or_si128(quotes, _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)));
}

static inline bool kg_short_copy_long(char *to, struct kg_str text)
{
    __m128i marks = kg_short_copy_16(to + text.length - 16, text.data + text.length - 16);
    for (size_t at = 0; at + 16 < text.length; at += 16)
        marks = _mm_or_si128(marks, kg_short_copy_16(to + at, text.data + at));
    return _mm_movemask_epi8(marks) == 0;
}
#endif

/*
 * Names and ids, which most strings are: copied in words that may overlap, and looked at on the
 * way. False if the text is not that simple; what was copied then does not count.
 */
static inline bool kg_short_copy(char *to, struct kg_str text)
{
    uint64_t marks = 0;
#ifdef __SSE2__
    if (text.length >= 16)
        return kg_short_copy_long(to, text);
#endif
    if (text.length >= 8) {
        for (size_t at = 0; at + 8 < text.length; at += 8)
            marks |= kg_short_copy_8(to + at, text.data + at);
        marks |= kg_short_copy_8(to + text.length - 8, text.data + text.length - 8);
    } else if (text.length >= 4) {
        marks = kg_short_copy_4(to, text.data, text.length);
    } else {
        for (size_t i = 0; i < text.length; i++) {
            to[i] = text.data[i];
            marks |= !kg_json_is_plain((unsigned char)to[i]) || (to[i] & 0x80) != 0;
        }
    }
    return marks == 0;
}

/*
 * A text of at most so many bytes that needs no escapes, as a JSON string, to where there is room
 * for it and two quotes; returns the end. NULL for any other text: what was written does not count.
 */
static inline char *kg_json_put_short(char *to, struct kg_str text)
{
    if (text.length > KG_JSON_SHORT_MAX || !kg_short_copy(to + 1, text))
        return NULL;
    to[0] = to[text.length + 1] = '"';
    return to + text.length + 2;
}

#endif
