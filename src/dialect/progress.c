/*
 * How far a call is, by the child's own word. Whoever waits for the call gets it in one form,
 * whatever the dialect; it may come often and lie, so it is short, and never falls.
 */
#include "dialect/internal.h"

#include <stdlib.h>

#define PROGRESS_MAX_BYTES 4096

static bool progress_read_number(const struct kg_node *node, double *ret_value)
{
    char text[64];
    if (node == NULL || node->type != KG_NUMBER || node->text.length >= sizeof(text))
        return false;
    kg_str_copy(node->text, text, sizeof(text));
    *ret_value = strtod(text, NULL);
    return true;
}

static void write_progress(const struct kg_node *said, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    const struct kg_node *total = kg_node_typed(said, "total", KG_NUMBER);
    const struct kg_node *message = kg_node_typed(said, "message", KG_STRING);
    kg_json_begin(&json, '{');
    kg_json_named_raw(&json, "progress", kg_node_get(said, "progress")->text);
    if (total != NULL)
        kg_json_named_raw(&json, "total", total->text);
    if (message != NULL)
        kg_json_named_str(&json, "message", message->text);
    kg_json_end(&json, '}');
}

enum dialect_hearing dialect_hear_progress(struct dialect_talk *talk, struct kg_str params,
                                           const char *key)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        params.length <= PROGRESS_MAX_BYTES ? kg_json_read(params, NULL) : NULL;
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    double progress;
    int64_t id;
    if (doc == NULL || !kg_node_int(kg_node_get(doc->root, key), &id) || id <= 0 ||
        !progress_read_number(kg_node_get(doc->root, "progress"), &progress))
        return DIALECT_NOISE;
    write_progress(doc->root, &json);
    return peer_progress(talk->peer, (uint64_t)id, progress, kg_buf_view(&json)) ? DIALECT_TAKEN
                                                                                 : DIALECT_NOISE;
}
