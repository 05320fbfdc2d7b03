/*
 * Any bytes as a trace file, or as a line that a plugin wrote. A file is read or refused with its
 * line, and what was read can be paired. Of a line no secret is left, valid JSON stays valid JSON,
 * and what both sides of a comparison are made of is found to be the same as itself.
 */
#include "kit/replay_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char manifest_text[] =
    "name: keeper\nversion: 1.0.0\nkaged_api: 1\ndescription: x\ncommand: [./run]\n"
    "capabilities: []\nmethods: [a.b]\n"
    "schemas:\n  a.b:\n    params: {type: object, properties: {p: {sensitive: true}}}\n"
    "    result: {type: object, properties: {r: {sensitive: true}}}\n";
#define SECRET "s3cr3t-t0ken"

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void read_file(struct kg_str text)
{
    struct kg_err err = {0};
    struct kit_events events;
    struct trace *trace = trace_read(text, &err);
    must(trace != NULL || err.message[0] != '\0');
    if (trace == NULL)
        return;
    kit_events_read(trace, &events);
    must(events.count <= trace->count);
    for (size_t i = 0; i < events.count; i++)
        must(events.items[i].pair == NULL || events.items[i].pair->pair == &events.items[i]);
    kit_events_free(&events);
    trace_free(trace);
}

static struct trace_redactor *new_redactor(struct redact_set *secrets)
{
    static const struct kg_str system = KG_STR("{\"token\":\"" SECRET "\",\"pin\":271828}");
    static struct manifest *manifest;
    struct kg_problems problems = {0};
    if (manifest == NULL)
        manifest = manifest_read(kg_str(manifest_text), &problems);
    kg_problems_free(&problems);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(system, NULL);
    must(manifest != NULL);
    const struct trace_secret_parts parts = {.manifest = manifest, .system = doc->root};
    return trace_redactor_new(&parts, secrets);
}

static void redact(struct kg_str line, enum trace_kind kind)
{
    struct redact_set *secrets = redact_set_new(NULL);
    struct trace_redactor *redactor = new_redactor(secrets);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    bool hidden = trace_redact(redactor, kind, line, &out);
    struct kg_str shown = kg_buf_view(&out);
    must(shown.length == 0 || memmem(shown.data, shown.length, SECRET, sizeof(SECRET) - 1) == NULL);
    must(hidden || kg_str_equal(line, shown));
    if (kg_json_check(line, NULL) == KG_JSON_OK && !kg_str_is(shown, TRACE_REDACTED))
        must(kg_json_check(shown, NULL) == KG_JSON_OK);
    trace_redactor_free(redactor);
    redact_set_free(secrets);
}

static void compare(struct kg_str text)
{
    static const char *const none[] = {NULL};
    static const struct kit_place nowhere[] = {{{0}, {0}}};
    struct kit_comparison comparison = {.ignored = none, .places = nowhere};
    kit_compare(&comparison, text, text);
    must(comparison.count == 0);
    kit_comparison_clear(&comparison);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str text = {(const char *)data + 1, size - 1};
    if (size == 0)
        return 0;
    if (data[0] % 4 == 0) {
        redact(text, TRACE_TO);
        redact(text, TRACE_FROM);
    } else if (data[0] % 4 == 1) {
        compare(text);
    } else {
        read_file((struct kg_str){(const char *)data, size});
    }
    return 0;
}
