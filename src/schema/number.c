/*
 * Numbers stay the text that they were written as. They are compared and divided as decimals, so
 * 0.0075 is a multiple of 0.0001, 1e308 is an integer, and no integer is too large.
 */
#include "schema/internal.h"

#include <assert.h>

#define EXPONENT_MAX ((int64_t)1 << 40) /* larger ones are all the same */

/* "e+12", "" */
static int64_t number_read_exponent(const char *at, const char *end)
{
    int64_t exponent = 0;
    bool negative = false;
    if (at < end)
        at++;
    if (at < end && (*at == '-' || *at == '+'))
        negative = *at++ == '-';
    for (; at < end && exponent < EXPONENT_MAX; at++)
        exponent = exponent * 10 + (*at - '0');
    return negative ? -exponent : exponent;
}

static struct schema_decimal decimal(struct kg_str text)
{
    struct schema_decimal number = {0};
    const char *at = text.data;
    const char *end = text.data + text.length;
    if (at < end && (*at == '-' || *at == '+'))
        number.negative = *at++ == '-';
    number.infinite = at < end && *at == 'i';
    number.nan = at == end || *at == 'n';
    if (number.infinite || number.nan)
        return number;
    int64_t whole = 0;      /* digits before the point */
    int64_t seen = 0;       /* digits so far */
    int64_t first_seen = 0; /* digits before the first that counts */
    bool fraction = false;
    for (; at < end && (kg_is_digit(*at) || *at == '.'); at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        if (*at != '0' && number.first == NULL) {
            number.first = at;
            first_seen = seen;
        }
        seen++;
        whole += !fraction;
        if (*at != '0')
            number.count = (size_t)(seen - first_seen);
    }
    if (number.count > 0)
        number.point = whole - first_seen + number_read_exponent(at, end);
    return number;
}

/* The next digit; the caller knows that there is one. */
static int next_digit(const char **at)
{
    if (**at == '.')
        (*at)++;
    return *(*at)++ - '0';
}

static int compare_size(const struct schema_decimal *a, const struct schema_decimal *b)
{
    if (a->infinite || b->infinite)
        return a->infinite - b->infinite;
    if (a->count == 0 || b->count == 0)
        return (a->count > 0) - (b->count > 0);
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    const char *digit_a = a->first;
    const char *digit_b = b->first;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        int difference = next_digit(&digit_a) - next_digit(&digit_b);
        if (difference != 0)
            return difference < 0 ? -1 : 1;
    }
    return (a->count > b->count) - (a->count < b->count);
}

static bool is_zero(const struct schema_decimal *number)
{
    return number->count == 0 && !number->infinite && !number->nan;
}

static int number_compare(const struct schema_decimal *a, const struct schema_decimal *b)
{
    bool negative_a = a->negative && !is_zero(a);
    bool negative_b = b->negative && !is_zero(b);
    if (negative_a != negative_b)
        return negative_a ? -1 : 1;
    return negative_a ? compare_size(b, a) : compare_size(a, b);
}

void schema_number_read(struct schema_number *number, struct kg_str text)
{
    number->text = text;
    number->small = 0;
    number->is_small = kg_str_to_int(text, &number->small);
    number->decimal = decimal(text);
}

bool schema_number_compare(const struct schema_number *a, const struct schema_number *b,
                           int *ret_order)
{
    if (a->decimal.nan || b->decimal.nan)
        return false;
    *ret_order = number_compare(&a->decimal, &b->decimal);
    return true;
}

bool schema_number_equal(struct kg_str a, struct kg_str b)
{
    if (kg_str_equal(a, b))
        return true;
    struct schema_decimal decimal_a = decimal(a);
    struct schema_decimal decimal_b = decimal(b);
    return !decimal_a.nan && !decimal_b.nan && number_compare(&decimal_a, &decimal_b) == 0;
}

static bool number_is_whole(const struct schema_decimal *number)
{
    return is_zero(number) || (number->count > 0 && number->point >= (int64_t)number->count);
}

bool schema_number_is_integer(const struct schema_number *number)
{
    return number->is_small || number_is_whole(&number->decimal);
}

bool schema_number_is_positive(struct kg_str text)
{
    struct schema_decimal number = decimal(text);
    return number.count > 0 && !number.negative;
}

size_t schema_number_digits(struct kg_str text)
{
    return decimal(text).count;
}

bool schema_number_count(struct kg_str text, uint64_t *ret_count)
{
    struct schema_decimal number = decimal(text);
    if (!number_is_whole(&number) || (number.negative && number.count > 0))
        return false;
    uint64_t count = 0;
    const char *at = number.first;
    for (int64_t i = 0; i < number.point && count != UINT64_MAX; i++) {
        uint64_t digit = i < (int64_t)number.count ? (uint64_t)next_digit(&at) : 0;
        if (__builtin_mul_overflow(count, 10, &count) ||
            __builtin_add_overflow(count, digit, &count))
            count = UINT64_MAX;
    }
    *ret_count = count;
    return true;
}

uint64_t schema_number_hash(struct kg_str text)
{
    struct schema_decimal number = decimal(text);
    uint64_t hash = (uint64_t)number.point * 0x9E3779B97F4A7C15u;
    const char *at = number.first;
    for (size_t i = 0; i < number.count; i++)
        hash = (hash ^ (uint64_t)next_digit(&at)) * 0x100000001B3u;
    return hash ^ (uint64_t)(number.negative && !is_zero(&number));
}

/* -- multiples --------------------------------------------------------------------------------- */

static uint64_t multiply_mod(uint64_t a, uint64_t b, uint64_t divisor)
{
    return (uint64_t)((unsigned __int128)a * b % divisor);
}

static uint64_t power_of_ten_mod(int64_t power, uint64_t divisor)
{
    uint64_t result = 1 % divisor;
    uint64_t base = 10 % divisor;
    for (; power > 0; power /= 2) {
        if (power % 2)
            result = multiply_mod(result, base, divisor);
        base = multiply_mod(base, base, divisor);
    }
    return result;
}

static uint64_t digits_mod(const struct schema_decimal *number, uint64_t divisor)
{
    uint64_t rest = 0;
    const char *at = number->first;
    for (size_t i = 0; i < number->count; i++)
        rest = (uint64_t)(((unsigned __int128)rest * 10 + (unsigned)next_digit(&at)) % divisor);
    return rest;
}

/*
 * Both are written as whole numbers times a power of ten. The digits of the first do not end in 0,
 * so they cannot be divided by a power of ten that the second has more of.
 */
static bool is_decimal_multiple(const struct schema_decimal *number,
                                const struct schema_decimal *divisor)
{
    if (is_zero(number))
        return true;
    if (number->count == 0)
        return false;
    int64_t power =
        (number->point - (int64_t)number->count) - (divisor->point - (int64_t)divisor->count);
    if (power < 0)
        return false;
    uint64_t whole = digits_mod(divisor, UINT64_MAX);
    assert(whole > 0); /* the compiler takes no other */
    return multiply_mod(digits_mod(number, whole), power_of_ten_mod(power, whole), whole) == 0;
}

bool schema_number_is_multiple(const struct schema_number *number,
                               const struct schema_number *divisor)
{
    if (divisor->is_small && number->is_small)
        return number->small % divisor->small == 0;
    return is_decimal_multiple(&number->decimal, &divisor->decimal);
}
