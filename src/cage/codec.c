/*
 * A plan on its way to the spawner: fields ended by NUL, in one order. The reader believes nothing:
 * a field that is missing, too many, out of range or not a plain path refuses the whole plan.
 */
#include "cage/internal.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define MAGIC "kaged-plan-4"

static void codec_put(struct kg_buf *out, const char *text)
{
    kg_buf_append(out, text, strlen(text) + 1);
}

static void codec_put_number(struct kg_buf *out, uint64_t number)
{
    kg_buf_printf(out, "%llu", (unsigned long long)number);
    kg_buf_char(out, '\0');
}

static void codec_put_words(struct kg_buf *out, const struct cage_words *words)
{
    codec_put_number(out, words->count);
    for (size_t i = 0; i < words->count; i++)
        codec_put(out, words->items[i]);
}

static void put_network(struct kg_buf *out, const struct cage_network *network)
{
    codec_put(out, network->nft);
    codec_put_number(out, network->any);
    codec_put_number(out, network->count);
    for (size_t i = 0; i < network->count; i++) {
        codec_put(out, network->items[i].host);
        codec_put(out, network->items[i].address);
        codec_put_number(out, network->items[i].port);
    }
}

void cage_plan_encode(const struct cage_plan *plan, struct kg_buf *out)
{
    codec_put(out, MAGIC);
    codec_put(out, plan->name);
    codec_put(out, plan->bwrap);
    codec_put(out, plan->folder);
    codec_put_number(out, plan->processes_max);
    codec_put_number(out, plan->cpu_shares);
    codec_put_number(out, plan->memory_bytes);
    codec_put_number(out, plan->landlock);
    codec_put_number(out, plan->watched);
    codec_put_words(out, &plan->executables);
    codec_put_words(out, &plan->writables);
    put_network(out, &plan->network);
    codec_put_number(out, plan->steps.count);
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct cage_step *step = &plan->steps.items[i];
        codec_put_number(out, step->kind);
        codec_put(out, step->path);
        codec_put(out, step->source);
        codec_put_number(out, step->bytes);
        codec_put_number(out, step->roots);
        codec_put_number(out, step->part);
    }
    codec_put_words(out, &plan->command);
    codec_put_words(out, &plan->env);
}

/* What is left to read; text NULL after the first fault, and then every read gives nothing. */
struct reader {
    const char *at;
    const char *end;
    bool bad;
};

static const char *get(struct reader *reader)
{
    const char *nul =
        reader->bad ? NULL : memchr(reader->at, 0, (size_t)(reader->end - reader->at));
    if (nul == NULL) {
        reader->bad = true;
        return "";
    }
    const char *text = reader->at;
    reader->at = nul + 1;
    return text;
}

static uint64_t codec_get_number(struct reader *reader, uint64_t max)
{
    int64_t number = 0;
    if (!kg_str_to_int(kg_str(get(reader)), &number) || number < 0 || (uint64_t)number > max)
        reader->bad = true;
    return reader->bad ? 0 : (uint64_t)number;
}

static const char *get_path(struct reader *reader)
{
    const char *path = get(reader);
    if (!cage_path_plain(path))
        reader->bad = true;
    return path;
}

static void get_step(struct reader *reader, struct cage_steps *steps)
{
    enum cage_step_kind kind = codec_get_number(reader, CAGE_STEP_KINDS - 1);
    const char *path = get(reader);
    const char *source = get(reader);
    uint64_t bytes = codec_get_number(reader, INT64_MAX);
    bool roots = codec_get_number(reader, 1) != 0;
    bool part = codec_get_number(reader, 1) != 0;
    bool root = kind == CAGE_STEP_READ_ONLY && strcmp(path, "/") == 0;
    bool bind = kind == CAGE_STEP_SYSTEM || kind == CAGE_STEP_BIND || kind == CAGE_STEP_WRITE ||
                kind == CAGE_STEP_COPY || kind == CAGE_STEP_DEVICE;
    bool says = kind == CAGE_STEP_LINK || kind == CAGE_STEP_TEXT;
    /* bwrap takes an empty word or a size of zero as something else than is meant. */
    if ((!root && !cage_path_plain(path)) || (bind && !cage_path_plain(source)) ||
        says != (!bind && source[0] != '\0') || (kind == CAGE_STEP_TMPFS) != (bytes != 0) ||
        (roots && kind != CAGE_STEP_WRITE) ||
        (part && (roots || (kind != CAGE_STEP_WRITE && kind != CAGE_STEP_BIND))))
        reader->bad = true;
    if (reader->bad)
        return;
    cage_steps_add(steps, kind, path, source, bytes);
    steps->items[steps->count - 1].roots = roots;
    steps->items[steps->count - 1].part = part;
}

static void get_words(struct reader *reader, struct cage_words *words)
{
    uint64_t count = codec_get_number(reader, CAGE_WORDS_MAX);
    for (uint64_t i = 0; i < count && !reader->bad; i++)
        cage_words_add(words, get(reader));
}

static void get_paths(struct reader *reader, struct cage_words *words)
{
    get_words(reader, words);
    for (size_t i = 0; i < words->count; i++)
        if (!cage_path_plain(words->items[i]))
            reader->bad = true;
}

static bool is_address(const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static void get_network(struct reader *reader, struct cage_network *network)
{
    network->nft = kg_strdup(get(reader));
    network->any = codec_get_number(reader, 1) != 0;
    uint64_t count = codec_get_number(reader, CAGE_LISTENERS_MAX);
    if (network->nft[0] != '\0' && !cage_path_plain(network->nft))
        reader->bad = true;
    for (uint64_t i = 0; i < count && !reader->bad; i++) {
        const char *host = get(reader);
        const char *address = get(reader);
        uint16_t port = (uint16_t)codec_get_number(reader, UINT16_MAX);
        if (host[0] == '\0' || !is_address(address))
            reader->bad = true;
        if (!reader->bad)
            cage_network_add(network, host, address, port);
    }
}

static void get_plan(struct reader *reader, struct cage_plan *plan)
{
    if (strcmp(get(reader), MAGIC) != 0)
        reader->bad = true;
    plan->name = kg_strdup(get(reader));
    plan->bwrap = kg_strdup(get_path(reader));
    plan->folder = kg_strdup(get_path(reader));
    plan->processes_max = (unsigned)codec_get_number(reader, INT32_MAX);
    plan->cpu_shares = (unsigned)codec_get_number(reader, INT32_MAX);
    plan->memory_bytes = codec_get_number(reader, INT64_MAX);
    plan->landlock = codec_get_number(reader, 1) != 0;
    plan->watched = codec_get_number(reader, 1) != 0;
    get_paths(reader, &plan->executables);
    get_paths(reader, &plan->writables);
    get_network(reader, &plan->network);
    uint64_t steps = codec_get_number(reader, CAGE_STEPS_MAX);
    for (uint64_t i = 0; i < steps && !reader->bad; i++)
        get_step(reader, &plan->steps);
    get_words(reader, &plan->command);
    get_words(reader, &plan->env);
    if (reader->at != reader->end || plan->command.count == 0 || plan->processes_max == 0)
        reader->bad = true;
    for (size_t i = 0; i < plan->env.count; i++)
        if (strchr(plan->env.items[i], '=') == NULL || plan->env.items[i][0] == '=')
            reader->bad = true;
}

struct cage_plan *cage_plan_decode(struct kg_str bytes, struct kg_err *err)
{
    struct reader reader = {bytes.data, bytes.data + bytes.length,
                            bytes.length == 0 || bytes.length > CAGE_PLAN_MAX_BYTES};
    struct cage_plan *plan = kg_alloc(sizeof(*plan));
    get_plan(&reader, plan);
    if (!reader.bad)
        return plan;
    cage_plan_free(plan);
    kg_fail(err, KG_E_CAGE, "read cage plan: its bytes are not a plan");
    return NULL;
}
