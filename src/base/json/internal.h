/* What the files of json/ share: runs of text that need no care, pieces of it, the builder. */
#ifndef KAGED_JSON_INTERNAL_H
#define KAGED_JSON_INTERNAL_H

#include "base/json/json.h"

#include <endian.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define KG_JSON_EACH(byte) (0x0101010101010101u * (byte)) /* that byte, eight times */

static inline bool kg_json_is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

/*
 * Bit 7 of those bytes among eight. A subtraction lends from the next byte only past a byte that is
 * found already, so the lowest mark is right.
 */
static inline uint64_t kg_json_marks(uint64_t word)
{
    uint64_t marks = (word - KG_JSON_EACH(0x20)) | ((word ^ KG_JSON_EACH('"')) - KG_JSON_EACH(1)) |
                     ((word ^ KG_JSON_EACH('\\')) - KG_JSON_EACH(1));
    return marks & ~word & KG_JSON_EACH(0x80);
}

#ifdef __SSE2__
/* The first of those bytes among sixteen, or 16; *wide tells whether one is not ASCII. */
static inline unsigned kg_json_find_16(const char *at, bool *wide)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)at);
    __m128i controls =
        _mm_cmpeq_epi8(_mm_max_epu8(bytes, _mm_set1_epi8(0x1F)), _mm_set1_epi8(0x1F));
    __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                 _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    *wide = _mm_movemask_epi8(bytes) != 0;
    unsigned found = (unsigned)_mm_movemask_epi8(_mm_or_si128(marks, controls));
    return (unsigned)__builtin_ctz(found | 1u << 16);
}
#endif

/*
 * The first quote, backslash or control character in [at, end), or end. *seen collects the bits of
 * bytes gone over (and a few behind); bit 7 of any tells of bytes that are not ASCII. Sixteen bytes
 * at a time where the machine can, else eight.
 */
static inline const char *kg_json_plain_end(const char *at, const char *end, uint64_t *seen)
{
#ifdef __SSE2__
    while (end - at >= 16) {
        bool wide;
        unsigned plain = kg_json_find_16(at, &wide);
        *seen |= wide ? 0x80 : 0;
        at += plain;
        if (plain < 16)
            return at;
    }
#endif
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        word = le64toh(word);
        *seen |= word;
        uint64_t marks = kg_json_marks(word);
        if (marks != 0)
            return at + __builtin_ctzll(marks) / 8;
        at += 8;
    }
    while (at < end && kg_json_is_plain((unsigned char)*at))
        *seen |= (unsigned char)*at++;
    return at;
}

static inline bool kg_json_seen_wide(uint64_t seen)
{
    return (seen & KG_JSON_EACH(0x80)) != 0;
}

/* A copy of the text with so many NULs behind it. */
const char *kg_arena_padded(struct kg_arena *arena, struct kg_str text, size_t padding);

struct kg_builder_frame {
    enum kg_type type;
    size_t first;           /* child number of its first one */
    uint64_t keys;          /* the bits of its keys, see kg_builder_key_bit */
    struct kg_index *index; /* owned; of an object that has grown large */
};

/* The children of all open containers, those of the innermost last. */
struct kg_builder {
    struct kg_arena *arena;     /* owned; NULL once it is finished */
    struct kg_member *children; /* owned, if they are not few; so are the frames */
    struct kg_member *next;     /* the child to come, whose key may be known */
    struct kg_member *end;      /* of the room for children, always behind the next */
    struct kg_builder_frame *frames;
    size_t depth;
    size_t frame_capacity;
    struct kg_builder_frame few_frames[8];
    struct kg_member few_children[48];
};

/* For a builder on the stack; bytes are those of the document, roughly. */
void kg_builder_begin(struct kg_builder *builder, size_t bytes);
void kg_builder_end(struct kg_builder *builder);
void kg_builder_grow(struct kg_builder *builder); /* the room for children */

/* A key whose bit is not set among those before it is none of them; most are told apart so. */
static inline uint64_t kg_builder_key_bit(struct kg_str key)
{
    if (key.length == 0)
        return 1;
    unsigned first = (unsigned char)key.data[0], last = (unsigned char)key.data[key.length - 1];
    return (uint64_t)1 << (first + last * 5 + key.length * 23) % 64;
}

/* Whether the key of the next is none of those before it, of which one may have the same bit. */
bool kg_builder_next_is_new(struct kg_builder *builder);

/* Gives the next its key; false if another has that. */
static inline bool kg_builder_next_key(struct kg_builder *builder, struct kg_str key, uint32_t line,
                                       uint32_t column)
{
    struct kg_builder_frame *frame = &builder->frames[builder->depth - 1];
    struct kg_member *next = builder->next;
    uint64_t bit = kg_builder_key_bit(key);
    uint64_t before = frame->keys;
    next->key = key;
    next->key_line = line;
    next->key_column = column;
    frame->keys = before | bit;
    return (before & bit) == 0 || kg_builder_next_is_new(builder);
}

/* The next is there now. */
static inline void kg_builder_keep_next(struct kg_builder *builder)
{
    if (++builder->next == builder->end)
        kg_builder_grow(builder);
}

#endif
