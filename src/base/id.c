/*
 * ULIDs: 48 bits of wall-clock milliseconds, 80 of randomness, in Crockford's base 32. Within one
 * millisecond the random part counts up, so that ids sort in the order they were made.
 */
#include "base/base.h"

#include <stdlib.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static __thread struct {
    int64_t ms;
    uint16_t high;
    uint64_t low;
} last;

static void next_ulid(void)
{
    int64_t now = kg_wall_ms();
    if (now > last.ms) {
        unsigned char random[10];
        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
            abort();
        last.ms = now;
        memcpy(&last.high, random, 2);
        memcpy(&last.low, random + 2, 8);
        last.high &= 0x7FFF; /* room to count up */
        return;
    }
    if (++last.low == 0)
        last.high++;
}

void kg_ulid_time(int64_t wall_ms, char ret_text[KG_ULID_TIME])
{
    for (int i = 0; i < KG_ULID_TIME; i++)
        ret_text[i] = alphabet[(wall_ms >> (45 - 5 * i)) & 31];
}

struct kg_id kg_id_new(const char *prefix)
{
    struct kg_id id = {{0}};
    size_t used = strlen(prefix);
    memcpy(id.text, prefix, used);
    next_ulid();
    kg_ulid_time(last.ms, id.text + used);
    used += KG_ULID_TIME;
    unsigned __int128 random = ((unsigned __int128)last.high << 64) | last.low;
    for (int i = 0; i < 16; i++)
        id.text[used++] = alphabet[(unsigned)(random >> (75 - 5 * i)) & 31];
    return id;
}
