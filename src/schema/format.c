/*
 * The formats that are asserted, one function each; a format that is not in the table is ignored.
 * Each looks at the whole text and takes nothing around it.
 */
#include "schema/internal.h"

static bool schema_format_is_hex(char c)
{
    return kg_hex_digit(c) >= 0;
}

/* Takes exactly so many digits from the front. */
static bool schema_format_take_number(struct kg_str *text, size_t digits, unsigned *ret_value)
{
    unsigned value = 0;
    if (text->length < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (!kg_is_digit(text->data[i]))
            return false;
        value = value * 10 + (unsigned)(text->data[i] - '0');
    }
    *text = kg_str_from(*text, digits);
    *ret_value = value;
    return true;
}

static bool take_char(struct kg_str *text, char c)
{
    if (text->length == 0 || text->data[0] != c)
        return false;
    *text = kg_str_from(*text, 1);
    return true;
}

/* -- dates and times, RFC 3339 ----------------------------------------------------------------- */

static unsigned schema_format_days_in_month(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool schema_format_take_date(struct kg_str *text)
{
    unsigned year, month, day;
    return schema_format_take_number(text, 4, &year) && take_char(text, '-') &&
           schema_format_take_number(text, 2, &month) && take_char(text, '-') &&
           schema_format_take_number(text, 2, &day) && month >= 1 && month <= 12 && day >= 1 &&
           day <= schema_format_days_in_month(year, month);
}

/* "Z" or "+01:00"; *ret_minutes is how far local time is ahead. */
static bool schema_format_take_offset(struct kg_str *text, int *ret_minutes)
{
    unsigned hours, minutes;
    *ret_minutes = 0;
    if (take_char(text, 'Z') || take_char(text, 'z'))
        return true;
    bool behind = take_char(text, '-');
    if ((!behind && !take_char(text, '+')) || !schema_format_take_number(text, 2, &hours) ||
        !take_char(text, ':') || !schema_format_take_number(text, 2, &minutes) || hours > 23 ||
        minutes > 59)
        return false;
    *ret_minutes = (int)(hours * 60 + minutes) * (behind ? -1 : 1);
    return true;
}

/* A leap second is the last one of a day in UTC. */
static bool schema_format_take_time(struct kg_str *text)
{
    unsigned hour, minute, second;
    int ahead;
    if (!schema_format_take_number(text, 2, &hour) || !take_char(text, ':') ||
        !schema_format_take_number(text, 2, &minute) || !take_char(text, ':') ||
        !schema_format_take_number(text, 2, &second) || hour > 23 || minute > 59 || second > 60)
        return false;
    if (take_char(text, '.')) {
        size_t digits = 0;
        while (digits < text->length && kg_is_digit(text->data[digits]))
            digits++;
        if (digits == 0)
            return false;
        *text = kg_str_from(*text, digits);
    }
    if (!schema_format_take_offset(text, &ahead))
        return false;
    int utc = ((int)(hour * 60 + minute) - ahead + 2 * 1440) % 1440;
    return second < 60 || utc == 1439;
}

static bool date(struct kg_str text)
{
    return schema_format_take_date(&text) && text.length == 0;
}

static bool time_of_day(struct kg_str text)
{
    return schema_format_take_time(&text) && text.length == 0;
}

static bool date_time(struct kg_str text)
{
    return schema_format_take_date(&text) && (take_char(&text, 'T') || take_char(&text, 't')) &&
           schema_format_take_time(&text) && text.length == 0;
}

/*
 * "4D", "12H30M": numbers with units in the order given, none left out between two. Returns how
 * many there were, or -1.
 */
static int take_units(struct kg_str *text, const char *units)
{
    int count = 0;
    while (text->length > 0 && kg_is_digit(text->data[0])) {
        size_t digits = 0;
        while (digits < text->length && kg_is_digit(text->data[digits]))
            digits++;
        char unit = digits < text->length ? text->data[digits] : '\0';
        const char *found = unit != '\0' ? strchr(units, unit) : NULL;
        if (found == NULL || (count > 0 && found != units))
            return -1;
        units = found + 1;
        count++;
        *text = kg_str_from(*text, digits + 1);
    }
    return count;
}

static bool duration(struct kg_str text)
{
    if (!take_char(&text, 'P'))
        return false;
    struct kg_str weeks = text;
    if (take_units(&weeks, "W") == 1 && weeks.length == 0)
        return true;
    int days = take_units(&text, "YMD");
    if (days < 0)
        return false;
    if (text.length == 0)
        return days > 0;
    return take_char(&text, 'T') && take_units(&text, "HMS") > 0 && text.length == 0;
}

/* -- hosts and addresses ----------------------------------------------------------------------- */

static bool schema_format_is_label(struct kg_str label)
{
    if (label.length == 0 || label.length > 63 || label.data[0] == '-' ||
        label.data[label.length - 1] == '-')
        return false;
    for (size_t i = 0; i < label.length; i++)
        if (!kg_is_letter(label.data[i]) && !kg_is_digit(label.data[i]) && label.data[i] != '-')
            return false;
    bool coded = label.length >= 4 && (label.data[0] | 0x20) == 'x' &&
                 (label.data[1] | 0x20) == 'n' && label.data[2] == '-' && label.data[3] == '-';
    return !coded || schema_is_idn_label(kg_str_from(label, 4));
}

static bool hostname(struct kg_str text)
{
    if (text.length == 0 || text.length > 253)
        return false;
    for (;;) {
        const char *dot = memchr(text.data, '.', text.length);
        size_t length = dot ? (size_t)(dot - text.data) : text.length;
        if (!schema_format_is_label((struct kg_str){text.data, length}))
            return false;
        if (dot == NULL)
            return true;
        text = kg_str_from(text, length + 1);
        if (text.length == 0)
            return false;
    }
}

static bool is_ipv4(struct kg_str text)
{
    for (int part = 0; part < 4; part++) {
        size_t digits = 0;
        unsigned value;
        if (part > 0 && !take_char(&text, '.'))
            return false;
        while (digits < text.length && digits < 4 && kg_is_digit(text.data[digits]))
            digits++;
        if (digits == 0 || digits > 3 || (digits > 1 && text.data[0] == '0') ||
            !schema_format_take_number(&text, digits, &value) || value > 255)
            return false;
    }
    return text.length == 0;
}

static size_t hex_length(struct kg_str text)
{
    size_t length = 0;
    while (length < text.length && schema_format_is_hex(text.data[length]))
        length++;
    return length;
}

/* Groups of 16 bits; "::" may stand for a run of them once, and IPv4 for the last two. */
bool schema_is_ipv6(struct kg_str text)
{
    int groups = 0;
    bool gap = false;
    bool after_gap = false; /* a group may follow without a colon of its own */
    while (text.length > 0) {
        if (kg_str_starts(text, "::")) {
            if (gap)
                return false;
            gap = after_gap = true;
            text = kg_str_from(text, 2);
            continue;
        }
        if (groups > 0 && !after_gap && !take_char(&text, ':'))
            return false;
        after_gap = false;
        size_t length = hex_length(text);
        if (length < text.length && text.data[length] == '.')
            return is_ipv4(text) && (gap ? groups + 2 < 8 : groups + 2 == 8);
        if (length == 0 || length > 4)
            return false;
        groups++;
        text = kg_str_from(text, length);
    }
    return gap ? groups < 8 : groups == 8;
}

static bool is_atom_char(char c)
{
    return kg_is_letter(c) || kg_is_digit(c) ||
           (c != '\0' && strchr("!#$%&'*+-/=?^_`{|}~", c) != NULL);
}

/* Atoms with single dots between them. */
static bool is_dot_atom(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++) {
        bool dot = text.data[i] == '.' && i > 0 && i + 1 < text.length && text.data[i - 1] != '.';
        if (!dot && !is_atom_char(text.data[i]))
            return false;
    }
    return text.length > 0;
}

static bool is_quoted(struct kg_str text)
{
    if (text.length < 2 || text.data[0] != '"' || text.data[text.length - 1] != '"')
        return false;
    for (size_t i = 1; i + 1 < text.length; i++) {
        if (text.data[i] == '\\')
            i++;
        else if (text.data[i] == '"')
            return false;
        if (i + 1 >= text.length || text.data[i] < ' ' || text.data[i] > '~')
            return false;
    }
    return true;
}

static bool is_mail_domain(struct kg_str text)
{
    if (text.length < 2 || text.data[0] != '[' || text.data[text.length - 1] != ']')
        return hostname(text);
    struct kg_str address = {text.data + 1, text.length - 2};
    if (kg_str_starts(address, "IPv6:"))
        return schema_is_ipv6(kg_str_from(address, 5));
    return is_ipv4(address);
}

static bool email(struct kg_str text)
{
    size_t at = text.length;
    while (at > 0 && text.data[at - 1] != '@')
        at--;
    if (at == 0 || text.length > 320)
        return false;
    struct kg_str local = {text.data, at - 1};
    return (is_dot_atom(local) || is_quoted(local)) && is_mail_domain(kg_str_from(text, at));
}

/* -- references -------------------------------------------------------------------------------- */

static bool uri(struct kg_str text)
{
    return schema_uri_is_valid(text, false);
}

static bool uri_reference(struct kg_str text)
{
    return schema_uri_is_valid(text, true);
}

static bool uuid(struct kg_str text)
{
    if (text.length != 36)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text.data[i] != '-' : !schema_format_is_hex(text.data[i]))
            return false;
    }
    return true;
}

static bool json_pointer(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '~' &&
            (i + 1 == text.length || (text.data[i + 1] != '0' && text.data[i + 1] != '1')))
            return false;
    return text.length == 0 || text.data[0] == '/';
}

static bool relative_json_pointer(struct kg_str text)
{
    size_t digits = 0;
    while (digits < text.length && kg_is_digit(text.data[digits]))
        digits++;
    if (digits == 0 || (digits > 1 && text.data[0] == '0'))
        return false;
    text = kg_str_from(text, digits);
    return kg_str_is(text, "#") || json_pointer(text);
}

static const struct schema_format formats[] = {
    {"date-time", date_time, 1},
    {"date", date, 1},
    {"time", time_of_day, 1},
    {"duration", duration, 1},
    {"email", email, 8},
    {"hostname", hostname, 8},
    {"ipv4", is_ipv4, 1},
    {"ipv6", schema_is_ipv6, 1},
    {"uri", uri, 1},
    {"uri-reference", uri_reference, 1},
    {"uuid", uuid, 1},
    {"regex", schema_pattern_is_valid, 200},
    {"json-pointer", json_pointer, 1},
    {"relative-json-pointer", relative_json_pointer, 1},
};

const struct schema_format *schema_format_find(struct kg_str name)
{
    for (size_t i = 0; i < KG_COUNT(formats); i++)
        if (kg_str_is(name, formats[i].name))
            return &formats[i];
    return NULL;
}
