/*
 * ULIDs: 48 bits of wall-clock milliseconds, 80 of randomness, in Crockford's base 32. Within one
 * millisecond the random part counts up, so that ids sort in the order they were made.
 */
#include "base/base.h"

#include <stdlib.h>
#include <sys/random.h>

const char kg_ulid_digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* The newest one of this thread. */
static __thread struct {
    int64_t ms;
    char text[KG_ULID_LENGTH];
} last = {.ms = -1};

void kg_ulid_time(int64_t wall_ms, char ret_text[KG_ULID_TIME])
{
    for (int i = 0; i < KG_ULID_TIME; i++)
        ret_text[i] = kg_ulid_digits[(wall_ms >> (45 - 5 * i)) & 31];
}

static void make_anew(int64_t now_ms)
{
    unsigned char random[KG_ULID_LENGTH - KG_ULID_TIME];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        abort();
    random[0] &= 15; /* room to count up */
    kg_ulid_time(now_ms, last.text);
    for (size_t i = 0; i < sizeof(random); i++)
        last.text[KG_ULID_TIME + i] = kg_ulid_digits[random[i] & 31];
    last.ms = now_ms;
}

static char digit_after(char digit)
{
    char next = digit == '9' ? 'A' : (char)(digit + 1);
    return next == 'I' || next == 'L' || next == 'O' || next == 'U' ? (char)(next + 1) : next;
}

void kg_ulid_count_up(char text[KG_ULID_LENGTH])
{
    for (size_t i = KG_ULID_LENGTH; i-- > 0;) {
        if (text[i] != 'Z') {
            text[i] = digit_after(text[i]);
            return;
        }
        text[i] = '0';
    }
}

struct kg_id kg_id_new(const char *prefix)
{
    struct kg_id id = {{0}};
    size_t used = strlen(prefix);
    int64_t now_ms = kg_wall_ms();
    if (now_ms > last.ms)
        make_anew(now_ms);
    else
        kg_ulid_count_up(last.text);
    memcpy(id.text, prefix, used);
    memcpy(id.text + used, last.text, sizeof(last.text));
    return id;
}
