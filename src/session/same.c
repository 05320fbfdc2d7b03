/*
 * Whether two JSON texts mean the same, though one was read and written again: white space,
 * escapes, the order of members and the form of numbers do not count. Each is walked once and
 * becomes one number under the secret seed of kg_hash, so neither depth nor width nor chosen names
 * make it slow, and no tree is built. That two of different meaning get the same number is a matter
 * of 2^-64.
 */
#include "session/internal.h"

struct walk {
    struct kg_json_cursor cursor;
    struct kg_buf scratch; /* for strings with escapes */
};

static uint64_t hash_words(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t words[] = {a, b, c};
    return kg_hash((struct kg_str){(const char *)words, sizeof(words)});
}

static uint64_t hash_string(struct walk *walk)
{
    struct kg_str raw = KG_STR_NULL;
    bool escaped = false;
    kg_json_skip_string(&walk->cursor, &raw, &escaped);
    if (!escaped)
        return kg_hash(raw);
    walk->scratch.length = 0;
    kg_buf_reserve(&walk->scratch, raw.length);
    walk->scratch.length = kg_json_unescape(raw, walk->scratch.data);
    return kg_hash(kg_buf_view(&walk->scratch));
}

/* -- numbers: their digits without zeros around, where the point is, and the sign -------------- */

struct digits {
    uint64_t value; /* of all digits, under a secret base */
    uint64_t kept;  /* the same up to the last digit that is not 0 */
    int64_t seen, kept_count;
    int64_t point; /* digits before it, less the zeros in front */
};

static void take_digit(struct digits *digits, char c, uint64_t base, bool fraction)
{
    if (digits->seen == 0 && c == '0') {
        digits->point -= fraction;
        return;
    }
    digits->seen++;
    digits->point += !fraction;
    digits->value = digits->value * base + (uint64_t)(c - '0') + 1;
    if (c != '0') {
        digits->kept = digits->value;
        digits->kept_count = digits->seen;
    }
}

static int64_t same_read_exponent(struct kg_json_cursor *cursor)
{
    int64_t exponent = 0;
    bool negative = false;
    for (cursor->at++; cursor->at < cursor->end; cursor->at++) {
        char c = *cursor->at;
        if (c == '-')
            negative = true;
        else if (kg_is_digit(c))
            exponent = exponent < INT64_C(1) << 40 ? exponent * 10 + (c - '0') : exponent;
        else if (c != '+')
            break;
    }
    return negative ? -exponent : exponent;
}

static uint64_t hash_number(struct walk *walk)
{
    struct kg_json_cursor *cursor = &walk->cursor;
    struct digits digits = {0};
    uint64_t base = kg_hash(KG_STR("digits")) | 1;
    bool negative = *cursor->at == '-', fraction = false;
    int64_t exponent = 0;
    cursor->at += negative;
    for (; cursor->at < cursor->end; cursor->at++) {
        if (*cursor->at == '.')
            fraction = true;
        else if (kg_is_digit(*cursor->at))
            take_digit(&digits, *cursor->at, base, fraction);
        else
            break;
    }
    if (cursor->at < cursor->end && (*cursor->at | 0x20) == 'e')
        exponent = same_read_exponent(cursor);
    if (digits.kept_count == 0)
        return hash_words('0', 0, 0);
    return hash_words(negative ? '-' : '+', digits.kept, (uint64_t)(digits.point + exponent));
}

/* -- values ------------------------------------------------------------------------------------ */

static uint64_t hash_value(struct walk *walk);

/* Behind a value: whether another one follows. */
static bool next_in(struct walk *walk)
{
    kg_json_skip_space(&walk->cursor);
    bool more = *walk->cursor.at == ',';
    walk->cursor.at++;
    kg_json_skip_space(&walk->cursor);
    return more;
}

/* At the opening bracket; true if something is inside, else behind the closing one. */
static bool same_enter(struct walk *walk, char close)
{
    walk->cursor.at++;
    kg_json_skip_space(&walk->cursor);
    bool empty = *walk->cursor.at == close;
    walk->cursor.at += empty;
    return !empty;
}

static uint64_t hash_array(struct walk *walk)
{
    uint64_t hash = '[', count = 0;
    if (same_enter(walk, ']'))
        do
            hash = hash_words(hash, ++count, hash_value(walk));
        while (next_in(walk));
    return hash_words('[', hash, count);
}

/* The sum of members: their order means nothing. */
static uint64_t hash_object(struct walk *walk)
{
    uint64_t sum = 0, count = 0;
    if (same_enter(walk, '}')) {
        do {
            uint64_t key = hash_string(walk);
            kg_json_skip_space(&walk->cursor);
            walk->cursor.at++; /* the colon */
            kg_json_skip_space(&walk->cursor);
            sum += hash_words(':', key, hash_value(walk));
            count++;
        } while (next_in(walk));
    }
    return hash_words('{', sum, count);
}

static uint64_t hash_word(struct walk *walk)
{
    char first = *walk->cursor.at;
    walk->cursor.at += first == 'f' ? 5 : 4;
    return hash_words('w', (uint64_t)first, 0);
}

/* Nested at most KG_JSON_DEPTH_MAX deep: the text was checked. */
static uint64_t hash_value(struct walk *walk)
{
    switch (*walk->cursor.at) {
    case '{':
        return hash_object(walk);
    case '[':
        return hash_array(walk);
    case '"':
        return hash_words('"', hash_string(walk), 0);
    case 't':
    case 'f':
    case 'n':
        return hash_word(walk);
    default:
        return hash_number(walk);
    }
}

static uint64_t meaning(struct kg_str json)
{
    struct walk walk = {.cursor = {json.data, json.data + json.length}};
    kg_json_skip_space(&walk.cursor);
    uint64_t hash = hash_value(&walk);
    kg_buf_free(&walk.scratch);
    return hash;
}

bool session_same_json(struct kg_str a, struct kg_str b)
{
    return kg_str_equal(a, b) || meaning(a) == meaning(b);
}
