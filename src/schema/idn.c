/*
 * Labels of host names in their ASCII form, "xn--...": the name behind it must be one that IDNA
 * 2008 allows (RFC 5891 to 5893 without the rule for mixed directions, and without normalization).
 */
#include "schema/internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <stdlib.h>

#define LABEL_MAX 63

/* -- Punycode, RFC 3492 ------------------------------------------------------------------------ */

#define BASE         36
#define FIRST_BIAS   72
#define FIRST_BEYOND 128

static uint32_t adapt(uint32_t delta, uint32_t count, bool first)
{
    uint32_t k = 0;
    delta = first ? delta / 700 : delta / 2;
    for (delta += delta / count; delta > 455; k += BASE)
        delta /= 35;
    return k + 36 * delta / (delta + 38);
}

static int idn_digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0' + 26;
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' : -1;
}

/* One number of variable length; false if it is cut or too large. */
static bool idn_take_delta(struct kg_str text, size_t *at, uint32_t bias, uint32_t *ret_delta)
{
    uint32_t delta = 0;
    uint32_t weight = 1;
    for (uint32_t k = BASE;; k += BASE) {
        int digit = *at < text.length ? idn_digit_value(text.data[(*at)++]) : -1;
        uint32_t step;
        if (digit < 0 || __builtin_mul_overflow((uint32_t)digit, weight, &step) ||
            __builtin_add_overflow(delta, step, &delta))
            return false;
        uint32_t threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        if ((uint32_t)digit < threshold)
            break;
        if (__builtin_mul_overflow(weight, BASE - threshold, &weight))
            return false;
    }
    *ret_delta = delta;
    return true;
}

static size_t basic_length(struct kg_str text)
{
    size_t length = text.length;
    while (length > 0 && text.data[length - 1] != '-')
        length--;
    return length;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The code points of the name, or 0 of them if the text is not Punycode of one. */
static uint32_t idn_decode(struct kg_str text, uint32_t points[LABEL_MAX])
{
    uint32_t count = 0;
    size_t at = basic_length(text);
    for (size_t i = 0; i + 1 < at; i++)
        points[count++] = (unsigned char)lower(text.data[i]);
    uint32_t point = FIRST_BEYOND;
    uint32_t position = 0;
    uint32_t bias = FIRST_BIAS;
    while (at < text.length) {
        uint32_t delta, sum;
        if (count == LABEL_MAX || !idn_take_delta(text, &at, bias, &delta) ||
            __builtin_add_overflow(position, delta, &sum))
            return 0;
        bias = adapt(delta, ++count, position == 0 && point == FIRST_BEYOND);
        point += sum / count;
        position = sum % count;
        if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
            return 0;
        memmove(&points[position + 1], &points[position], (count - 1 - position) * sizeof(*points));
        points[position++] = point;
    }
    return point == FIRST_BEYOND && position == 0 ? 0 : count; /* pure ASCII has no such form */
}

/* -- what a name may hold ---------------------------------------------------------------------- */

/* Signs that join the letter before them to the one behind (canonical combining class 9). */
#define VIRAMAS                                                                                    \
    "[\\x{94d}\\x{9cd}\\x{a4d}\\x{acd}\\x{b4d}\\x{bcd}\\x{c4d}\\x{ccd}\\x{d3b}\\x{d3c}\\x{d4d}"    \
    "\\x{dca}\\x{e3a}\\x{eba}\\x{f84}\\x{1039}\\x{103a}\\x{1714}\\x{1734}\\x{17d2}\\x{1a60}"       \
    "\\x{1b44}\\x{1baa}\\x{1bab}\\x{1bf2}\\x{1bf3}\\x{2d7f}\\x{a806}\\x{a82c}\\x{a8c4}\\x{a953}"   \
    "\\x{a9c0}\\x{aaf6}\\x{abed}\\x{10a3f}\\x{11046}\\x{1107f}\\x{110b9}\\x{11133}\\x{11134}"      \
    "\\x{111c0}\\x{11235}\\x{112ea}\\x{1134d}]"
/* Letters that join to one side only; the others of their scripts join to both. */
#define JOINS_RIGHT                                                                                \
    "[\\x{622}-\\x{625}\\x{627}\\x{629}\\x{62f}-\\x{632}\\x{648}\\x{671}-\\x{673}\\x{675}-"        \
    "\\x{677}\\x{688}-\\x{699}\\x{6c0}\\x{6c3}-\\x{6cb}\\x{6cd}\\x{6cf}\\x{6d2}\\x{6d3}\\x{6d5}]"
#define CURSIVE  "[\\p{sc:Arabic}\\p{sc:Syriac}\\p{sc:Nko}\\p{sc:Mongolian}]"
#define JAPANESE "[\\p{sc:Hiragana}\\p{sc:Katakana}\\p{sc:Han}]"

/* RFC 5892: letters, marks and digits, with its exceptions and its rules of context. */
static const char name_pattern[] =
    "^(?!\\p{M})(?!..--)(?!-)(?!.*-$)"
    "(?!.*[\\x{660}-\\x{669}].*[\\x{6f0}-\\x{6f9}])(?!.*[\\x{6f0}-\\x{6f9}].*[\\x{660}-\\x{669}])"
    "(?:(?=.*" JAPANESE ")|(?!.*\\x{30fb}))"
    "(?:[-a-z0-9\\x{df}\\x{3c2}\\x{6fd}\\x{6fe}\\x{f0b}\\x{3007}\\x{30fb}]"
    "|(?![\\x{640}\\x{7fa}\\x{302e}\\x{302f}\\x{3031}-\\x{3035}\\x{303b}])"
    "[^\\x{0}-\\x{7f}\\P{Xan}\\p{Lu}\\p{Lt}\\p{Nl}\\p{No}]"
    "|(?![\\x{302e}\\x{302f}])[\\p{Mn}\\p{Mc}]"
    "|(?<=l)\\x{b7}(?=l)"
    "|\\x{375}(?=\\p{sc:Greek})"
    "|(?<=\\p{sc:Hebrew})[\\x{5f3}\\x{5f4}]"
    "|(?<=" VIRAMAS ")[\\x{200c}\\x{200d}]"
    "|(?<=" CURSIVE ")(?<!" JOINS_RIGHT ")\\x{200c}(?=\\p{Mn}*" CURSIVE ")"
    ")+$";

static pcre2_code *names;
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static void compile_names(void)
{
    int error;
    PCRE2_SIZE offset;
    names = pcre2_compile((PCRE2_SPTR)name_pattern, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL, &error, &offset, NULL);
    if (names == NULL)
        abort();
}

static size_t idn_put_utf8(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(leads[length] | point);
    return length;
}

bool schema_is_idn_label(struct kg_str label)
{
    uint32_t points[LABEL_MAX];
    if (label.length > LABEL_MAX)
        return false;
    uint32_t count = idn_decode(label, points);
    if (count == 0)
        return false;
    char name[LABEL_MAX * 4];
    size_t length = 0;
    for (uint32_t i = 0; i < count; i++)
        length += idn_put_utf8(points[i], name + length);
    pthread_once(&names_once, compile_names);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int result = pcre2_match(names, (PCRE2_SPTR)name, length, 0, 0, data, NULL);
    pcre2_match_data_free(data);
    return result >= 0;
}
