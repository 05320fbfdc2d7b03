/* A growing buffer: data[0..length) is initialised, capacity is what is allocated. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

void kg_buf_free(struct kg_buf *buf)
{
    free(buf->data);
    *buf = (struct kg_buf){0};
}

void kg_buf_grow(struct kg_buf *buf, size_t more)
{
    size_t capacity = buf->capacity ? buf->capacity : 64;
    while (capacity - buf->length < more)
        capacity *= 2;
    buf->data = kg_realloc(buf->data, capacity);
    buf->capacity = capacity;
}

#define INT_DIGITS 20 /* of any, with its sign */

void kg_buf_int(struct kg_buf *buf, int64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    char digits[2 * INT_DIGITS] = {0}; /* the second half is copied with them */
    size_t i = INT_DIGITS;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; rest > 9; rest /= 100) {
        i -= 2;
        memcpy(digits + i, pairs + rest % 100 * 2, 2);
    }
    if (rest > 0 || i == INT_DIGITS)
        digits[--i] = (char)('0' + rest);
    if (value < 0)
        digits[--i] = '-';
    kg_buf_reserve(buf, INT_DIGITS);
    memcpy(buf->data + buf->length, digits + i, INT_DIGITS);
    buf->length += INT_DIGITS - i;
}

void kg_buf_printf(struct kg_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length > 0) {
        kg_buf_reserve(buf, (size_t)length + 1);
        vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
        buf->length += (size_t)length;
    }
    va_end(again);
}

void kg_buf_consume(struct kg_buf *buf, size_t length)
{
    if (length == 0)
        return;
    memmove(buf->data, buf->data + length, buf->length - length);
    buf->length -= length;
}

char *kg_buf_terminate(struct kg_buf *buf)
{
    kg_buf_reserve(buf, 1);
    buf->data[buf->length] = '\0';
    return buf->data;
}

void kg_buf_percent(struct kg_buf *buf, struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (kg_is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~')
            kg_buf_char(buf, c);
        else
            kg_buf_printf(buf, "%%%02X", (unsigned char)c);
    }
}
