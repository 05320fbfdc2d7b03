/* Two clocks that are never mixed: monotonic for deadlines, wall for what people read. */
#include "base/base.h"

#include <stdio.h>
#include <time.h>

static int64_t fixed_wall_ms = -1;
static int64_t fixed_monotonic_ms = -1;

void kg_time_set(int64_t wall_ms_or_negative, int64_t monotonic_ms_or_negative)
{
    fixed_wall_ms = wall_ms_or_negative;
    fixed_monotonic_ms = monotonic_ms_or_negative;
}

uint64_t kg_monotonic_ns(void)
{
    if (fixed_monotonic_ms >= 0)
        return (uint64_t)fixed_monotonic_ms * 1000000;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t kg_monotonic_ms(void)
{
    return kg_monotonic_ns() / 1000000;
}

int64_t kg_wall_ms(void)
{
    if (fixed_wall_ms >= 0)
        return fixed_wall_ms;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define LAST_MS 253402300799999 /* 9999-12-31T23:59:59.999Z; what is outside is put at the edge */

void kg_time_format(int64_t wall_ms, char ret_text[KG_TIME_TEXT])
{
    if (wall_ms < 0)
        wall_ms = 0;
    if (wall_ms > LAST_MS)
        wall_ms = LAST_MS;
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char date[20];
    gmtime_r(&seconds, &utc);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ret_text, KG_TIME_TEXT, "%s.%03dZ", date, (int)(wall_ms % 1000));
}

static bool parse_span(struct kg_str text, int64_t *ret_wall_ms)
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    if (text.length < 2)
        return false;
    int64_t number;
    if (!kg_str_to_int((struct kg_str){text.data, text.length - 1}, &number) || number < 0)
        return false;
    for (size_t i = 0; i < KG_COUNT(units); i++) {
        int64_t span;
        if (units[i].unit == text.data[text.length - 1] &&
            !__builtin_mul_overflow(number, units[i].ms, &span)) {
            *ret_wall_ms = kg_wall_ms() - span;
            return true;
        }
    }
    return false;
}

/*
 * Takes what the pattern says from the front of the text: 9 is a digit, of a number that ends at
 * the next other character; that one stands for itself. Numbers go to ret_numbers in their order.
 */
static bool take_pattern(struct kg_str *text, const char *pattern, int *ret_numbers)
{
    size_t length = strlen(pattern);
    if (text->length < length)
        return false;
    *ret_numbers = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text->data[i];
        if (pattern[i] == '9' && kg_is_digit(c))
            *ret_numbers = *ret_numbers * 10 + (c - '0');
        else if (pattern[i] != '9' && pattern[i] == c)
            *++ret_numbers = 0;
        else
            return false;
    }
    *text = (struct kg_str){text->data + length, text->length - length};
    return true;
}

static bool parse_date(struct kg_str *text, int64_t *ret_ms)
{
    int date[3];
    if (!take_pattern(text, "9999-99-99", date))
        return false;
    struct tm utc = {.tm_year = date[0] - 1900, .tm_mon = date[1] - 1, .tm_mday = date[2]};
    struct tm wanted = utc;
    *ret_ms = (int64_t)timegm(&utc) * 1000;
    /* The 30th of February comes back as the 2nd of March. */
    return utc.tm_mon == wanted.tm_mon && utc.tm_mday == wanted.tm_mday;
}

/* ".123": any number of digits, of which milliseconds are kept. */
static bool parse_fraction(struct kg_str *text, int64_t *ms)
{
    if (text->length == 0 || text->data[0] != '.')
        return true;
    size_t i = 1;
    for (int scale = 100; i < text->length && kg_is_digit(text->data[i]); i++) {
        *ms += (int64_t)(text->data[i] - '0') * scale;
        scale /= 10;
    }
    *text = (struct kg_str){text->data + i, text->length - i};
    return i > 1;
}

/* "Z", "+02:00", or nothing, which is UTC as well. */
static bool parse_zone(struct kg_str text, int64_t *ms)
{
    int offset[2];
    if (text.length == 0 || kg_str_is(text, "Z") || kg_str_is(text, "z"))
        return true;
    int sign = text.data[0] == '-' ? -1 : text.data[0] == '+' ? 1 : 0;
    text = (struct kg_str){text.data + 1, text.length - 1};
    if (sign == 0 || !take_pattern(&text, "99:99", offset) || text.length > 0 || offset[0] > 23 ||
        offset[1] > 59)
        return false;
    *ms -= sign * ((int64_t)offset[0] * 60 + offset[1]) * 60000;
    return true;
}

static bool parse_time(struct kg_str text, int64_t *ms)
{
    int time[3];
    if (text.length == 0)
        return true;
    if (strchr("Tt ", text.data[0]) == NULL || text.data[0] == '\0')
        return false;
    text = (struct kg_str){text.data + 1, text.length - 1};
    if (!take_pattern(&text, "99:99:99", time) || time[0] > 23 || time[1] > 59 || time[2] > 60)
        return false;
    *ms += (((int64_t)time[0] * 60 + time[1]) * 60 + time[2]) * 1000;
    return parse_fraction(&text, ms) && parse_zone(text, ms);
}

bool kg_time_parse(struct kg_str text, int64_t *ret_wall_ms)
{
    int64_t ms;
    if (parse_span(text, ret_wall_ms))
        return true;
    if (!parse_date(&text, &ms) || !parse_time(text, &ms))
        return false;
    *ret_wall_ms = ms;
    return true;
}

bool kg_rate_pass(struct kg_rate *rate, uint32_t per_sec, uint64_t now_ms, uint32_t *ret_dropped)
{
    uint64_t second = now_ms / 1000;
    if (ret_dropped)
        *ret_dropped = 0;
    if (second != rate->second) {
        if (ret_dropped)
            *ret_dropped = rate->dropped;
        *rate = (struct kg_rate){.second = second};
    }
    if (rate->passed >= per_sec) {
        rate->dropped++;
        return false;
    }
    rate->passed++;
    return true;
}
