/* Text is a pointer and a length; nothing here reads past it or expects a NUL. */
#include "base/base.h"

#include <stdlib.h>

struct kg_str kg_str_cut(struct kg_str *rest, char separator)
{
    const char *end = rest->length ? memchr(rest->data, separator, rest->length) : NULL;
    struct kg_str part = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
    *rest = kg_str_from(*rest, part.length + (end != NULL));
    return part;
}

bool kg_str_starts(struct kg_str text, const char *prefix)
{
    struct kg_str start = kg_str(prefix);
    return text.length >= start.length &&
           kg_str_equal((struct kg_str){text.data, start.length}, start);
}

bool kg_str_ends(struct kg_str text, const char *suffix)
{
    struct kg_str end = kg_str(suffix);
    return text.length >= end.length &&
           kg_str_equal((struct kg_str){text.data + text.length - end.length, end.length}, end);
}

bool kg_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int kg_str_compare(struct kg_str a, struct kg_str b)
{
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    if (order != 0)
        return order;
    return (a.length > b.length) - (a.length < b.length);
}

char *kg_str_dup(struct kg_str text)
{
    char *copy = kg_alloc(text.length + 1);
    if (text.length)
        memcpy(copy, text.data, text.length);
    return copy;
}

void kg_str_copy(struct kg_str text, char *to, size_t size)
{
    size_t length = text.length < size ? text.length : size - 1;
    if (length > 0)
        memcpy(to, text.data, length);
    to[length] = '\0';
}

bool kg_str_to_int(struct kg_str text, int64_t *ret_value)
{
    size_t i = 0;
    bool negative = text.length > 0 && text.data[0] == '-';
    if (negative)
        i++;
    if (i == text.length)
        return false;
    int64_t value = 0; /* kept negative: the range is one wider there */
    for (; i < text.length; i++) {
        char c = text.data[i];
        if (!kg_is_digit(c))
            return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, c - '0', &value))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
        return false;
    *ret_value = value;
    return true;
}

int kg_hex_digit(char c)
{
    if (kg_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static size_t edit_distance(struct kg_str a, struct kg_str b)
{
    size_t row[65];
    for (size_t j = 0; j <= b.length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.length; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a.data[i - 1] != b.data[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b.length];
}

const char *kg_str_nearest(struct kg_str text, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    if (text.length > 64)
        return NULL;
    size_t best = text.length / 2 + 1; /* past half of it, a suggestion only confuses */
    for (size_t i = 0; i < count; i++) {
        struct kg_str candidate = kg_str(candidates[i]);
        if (candidate.length > 64)
            continue;
        size_t distance = edit_distance(text, candidate);
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}

/* Bytes that follow a lead byte, and the range of the first of them (RFC 3629). */
static size_t sequence_length(unsigned char lead, unsigned char *ret_low, unsigned char *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *ret_low = 0xA0; /* overlong below */
        if (lead == 0xED)
            *ret_high = 0x9F; /* surrogates above */
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *ret_low = 0x90;
        if (lead == 0xF4)
            *ret_high = 0x8F; /* past U+10FFFF above */
        return 4;
    }
    return 0;
}

size_t kg_utf8_valid(struct kg_str text)
{
    size_t i = 0;
    while (i < text.length) {
        uint64_t word;
        while (text.length - i >= sizeof(word)) {
            memcpy(&word, text.data + i, sizeof(word));
            if (word & 0x8080808080808080u)
                break;
            i += sizeof(word);
        }
        if (i == text.length)
            break;
        unsigned char lead = (unsigned char)text.data[i];
        if (lead < 0x80) {
            i++;
            continue;
        }
        unsigned char low, high;
        size_t length = sequence_length(lead, &low, &high);
        if (length == 0 || length > text.length - i)
            return i;
        unsigned char second = (unsigned char)text.data[i + 1];
        if (second < low || second > high)
            return i;
        for (size_t k = 2; k < length; k++)
            if (((unsigned char)text.data[i + k] & 0xC0) != 0x80)
                return i;
        i += length;
    }
    return i;
}
