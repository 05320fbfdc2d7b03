/*
 * The packets of the name responder. A query is hostile: it has one question whose name stands
 * there in full, or it is refused; nothing behind the question is looked at. An answer repeats the
 * question and fits into one packet.
 */
#include "cage/gate_internal.h"

#define HEADER_BYTES 12
#define NAME_BYTES   255 /* of a name on the wire */
#define LABEL_BYTES  63
#define CLASS_IN     1
#define TTL_SECONDS  5

/* The first two bytes of flags. */
#define FLAG_RESPONSE  0x8000
#define FLAG_OPCODE    0x7800
#define FLAG_AUTHORITY 0x0400
#define FLAG_WANTED    0x0100 /* recursion is wanted */
#define FLAG_AVAILABLE 0x0080 /* and there is some, of a kind: without it some give up */

static uint16_t gate_query_get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void gate_query_put16(uint8_t **at, unsigned value)
{
    *(*at)++ = (uint8_t)(value >> 8);
    *(*at)++ = (uint8_t)value;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* A byte of a name as text: lower case; what no host name has becomes '?'. */
static char plain_char(uint8_t byte, bool *is_plain)
{
    if (byte >= 'A' && byte <= 'Z')
        return (char)(byte - 'A' + 'a');
    if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' || byte == '_')
        return (char)byte;
    *is_plain = false;
    return '?';
}

/* Reads the name at `at`; returns its bytes on the wire, 0 if it is malformed. */
static size_t gate_query_read_name(const uint8_t *at, size_t size, struct gate_query *query)
{
    size_t used = 0, length = 0;
    query->is_plain = true;
    for (;;) {
        if (used >= size)
            return 0;
        size_t label = at[used++];
        if (label == 0)
            break;
        /* Also refuses pointers: their two highest bits are set. */
        if (label > LABEL_BYTES || used + label > size || used + label >= NAME_BYTES)
            return 0;
        if (length > 0)
            query->name[length++] = '.';
        for (size_t i = 0; i < label; i++)
            query->name[length++] = plain_char(at[used + i], &query->is_plain);
        used += label;
    }
    query->name[length] = '\0';
    return used;
}

static enum gate_rcode read_question(const uint8_t *packet, size_t size, struct gate_query *query)
{
    if (gate_query_get16(packet + 4) != 1 || gate_query_get16(packet + 6) != 0 ||
        gate_query_get16(packet + 8) != 0)
        return GATE_RCODE_FORMAT;
    size_t name = gate_query_read_name(packet + HEADER_BYTES, size - HEADER_BYTES, query);
    if (name == 0 || HEADER_BYTES + name + 4 > size)
        return GATE_RCODE_FORMAT;
    const uint8_t *rest = packet + HEADER_BYTES + name;
    query->type = gate_query_get16(rest);
    query->question_size = name + 4;
    return gate_query_get16(rest + 2) == CLASS_IN ? GATE_RCODE_OK : GATE_RCODE_REFUSED;
}

bool gate_query_read(const uint8_t *packet, size_t size, struct gate_query *ret_query,
                     enum gate_rcode *ret_rcode)
{
    if (size < HEADER_BYTES || size > GATE_PACKET_MAX)
        return false;
    uint16_t flags = gate_query_get16(packet + 2);
    if (flags & FLAG_RESPONSE)
        return false; /* answering answers could go on for ever */
    struct gate_query query = {.id = gate_query_get16(packet),
                               .recursion_wanted = flags & FLAG_WANTED};
    *ret_rcode = flags & FLAG_OPCODE ? GATE_RCODE_NOT_DONE : read_question(packet, size, &query);
    *ret_query = query;
    return true;
}

/* -- writing ----------------------------------------------------------------------------------- */

static bool gate_query_is_wanted(const struct gate_query *query, const union gate_address *address)
{
    uint16_t type = address->any.sa_family == AF_INET ? GATE_QUERY_A : GATE_QUERY_AAAA;
    return query->type == type || query->type == GATE_QUERY_ALL;
}

static void gate_query_put_record(uint8_t **at, const union gate_address *address)
{
    bool is_v4 = address->any.sa_family == AF_INET;
    size_t bytes = is_v4 ? 4 : 16;
    gate_query_put16(at, 0xC000 | HEADER_BYTES); /* the name of the question */
    gate_query_put16(at, is_v4 ? GATE_QUERY_A : GATE_QUERY_AAAA);
    gate_query_put16(at, CLASS_IN);
    gate_query_put16(at, 0);
    gate_query_put16(at, TTL_SECONDS);
    gate_query_put16(at, (unsigned)bytes);
    memcpy(*at, is_v4 ? (const void *)&address->v4.sin_addr : (const void *)&address->v6.sin6_addr,
           bytes);
    *at += bytes;
}

size_t gate_answer_write(const uint8_t *packet, const struct gate_query *query,
                         enum gate_rcode rcode, const union gate_address *addresses, size_t count,
                         uint8_t ret_answer[GATE_PACKET_MAX])
{
    const size_t record_max = 12 + 16;
    uint8_t *at = ret_answer + HEADER_BYTES, *end = ret_answer + GATE_PACKET_MAX;
    if (query->question_size > 0)
        memcpy(at, packet + HEADER_BYTES, query->question_size);
    at += query->question_size;
    unsigned records = 0;
    for (size_t i = 0; i < count && (size_t)(end - at) >= record_max; i++) {
        if (rcode != GATE_RCODE_OK || !gate_query_is_wanted(query, &addresses[i]))
            continue;
        gate_query_put_record(&at, &addresses[i]);
        records++;
    }
    uint8_t *head = ret_answer;
    gate_query_put16(&head, query->id);
    gate_query_put16(&head, FLAG_RESPONSE | (gate_query_get16(packet + 2) & FLAG_OPCODE) |
                                FLAG_AUTHORITY | (query->recursion_wanted ? FLAG_WANTED : 0) |
                                FLAG_AVAILABLE | rcode);
    gate_query_put16(&head, query->question_size > 0);
    gate_query_put16(&head, records);
    gate_query_put16(&head, 0);
    gate_query_put16(&head, 0);
    return (size_t)(at - ret_answer);
}
