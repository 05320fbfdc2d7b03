/*
 * The one hash of texts: SipHash-1-3 under a seed that is drawn at the first use. Nobody outside
 * can choose keys that collide, so tables of hostile keys stay fast.
 */
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

static uint64_t seed[2];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        abort();
}

static inline uint64_t hash_rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = hash_rotate(v[1], 13) ^ v[0];
    v[0] = hash_rotate(v[0], 32);
    v[2] += v[3];
    v[3] = hash_rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = hash_rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = hash_rotate(v[1], 17) ^ v[2];
    v[2] = hash_rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t kg_hash(struct kg_str key)
{
    pthread_once(&seeded, make_seed);
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    uint64_t word;
    size_t i = 0;
    for (; key.length - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, key.data + i, sizeof(word));
        sip_word(v, word);
    }
    word = 0;
    if (i < key.length)
        memcpy(&word, key.data + i, key.length - i);
    sip_word(v, word ^ (uint64_t)key.length << 56);
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
