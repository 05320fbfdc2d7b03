/*
 * ULIDs: 48 bits of wall-clock milliseconds, 80 of randomness, in Crockford's base 32. Within one
 * millisecond the random part counts up, so that ids sort in the order they were made.
 */
#include "base/base.h"

#include <stdlib.h>
#include <sys/random.h>

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

struct kg_id kg_id_new(const char *prefix)
{
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    struct kg_id id = {{0}};
    size_t used = strlen(prefix);
    memcpy(id.text, prefix, used);
    next_ulid();
    for (int i = 0; i < 10; i++)
        id.text[used++] = alphabet[(last.ms >> (45 - 5 * i)) & 31];
    unsigned __int128 random = ((unsigned __int128)last.high << 64) | last.low;
    for (int i = 0; i < 16; i++)
        id.text[used++] = alphabet[(unsigned)(random >> (75 - 5 * i)) & 31];
    return id;
}
