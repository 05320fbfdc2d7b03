/*
 * Any packet to the name responder: what is read of it lies within it, the name is bounded and
 * clean, and the answer is a response to that very query, fits into a packet, and is never itself
 * answered.
 */
#include "cage/gate_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_name(const struct gate_query *query)
{
    size_t length = strlen(query->name);
    must(length <= 253);
    must(query->name[strspn(query->name, "abcdefghijklmnopqrstuvwxyz0123456789-_.?")] == '\0');
    must(length == 0 || (query->name[0] != '.' && query->name[length - 1] != '.'));
    must(!query->is_plain || strchr(query->name, '?') == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gate_query query;
    enum gate_rcode rcode;
    if (!gate_query_read(data, size, &query, &rcode))
        return 0;
    check_name(&query);
    must(12 + query.question_size <= size);
    must(rcode != GATE_RCODE_OK || query.question_size > 0);

    union gate_address addresses[3] = {{.v4 = {.sin_family = AF_INET}},
                                       {.v6 = {.sin6_family = AF_INET6}},
                                       {.v6 = {.sin6_family = AF_INET6}}};
    uint8_t answer[GATE_PACKET_MAX];
    size_t written = gate_answer_write(data, &query, rcode, addresses, 3, answer);
    must(written >= 12 + query.question_size && written <= sizeof(answer));
    must(memcmp(answer, data, 2) == 0 && answer[2] & 0x80 && (answer[3] & 0xF) == rcode);
    must(answer[5] == (query.question_size > 0) && answer[7] <= 3);
    must(memcmp(answer + 12, data + 12, query.question_size) == 0);
    must(!gate_query_read(answer, written, &query, &rcode));
    return 0;
}
