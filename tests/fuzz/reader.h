/*
 * Any bytes for a reader of documents: read or refused with a place. What reads can be written as
 * JSON and read again, unless it holds a number that JSON does not have.
 */
#ifndef KAGED_FUZZ_READER_H
#define KAGED_FUZZ_READER_H

#include "base/doc.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_json_number(struct kg_str text)
{
    return !kg_str_is(text, "inf") && !kg_str_is(text, "-inf") && !kg_str_is(text, "nan");
}

static bool fits_json(const struct kg_node *node)
{
    if (node->type == KG_NUMBER)
        return is_json_number(node->text);
    bool container = node->type == KG_ARRAY || node->type == KG_OBJECT;
    for (uint32_t i = 0; container && i < node->count; i++)
        if (!fits_json(node->type == KG_ARRAY ? &node->items[i] : &node->members[i].value))
            return false;
    return true;
}

static void check_round_trip(const struct kg_node *root)
{
    kg_auto(kg_buf_free) struct kg_buf once = {0};
    kg_auto(kg_buf_free) struct kg_buf twice = {0};
    struct kg_json_writer writer = kg_json_writer(&once);
    kg_json_node(&writer, root);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&once), NULL);
    if (doc == NULL)
        abort();
    writer = kg_json_writer(&twice);
    kg_json_node(&writer, doc->root);
    if (!kg_str_equal(kg_buf_view(&once), kg_buf_view(&twice)))
        abort();
}

static int fuzz_reader(struct kg_doc *(*read)(struct kg_str text, struct kg_err *err),
                       const uint8_t *data, size_t size)
{
    struct kg_err err = {0};
    unsigned line, column;
    struct kg_str text = {(const char *)data, size};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read(text, &err);
    if (doc == NULL && sscanf(err.message, "%u:%u: ", &line, &column) != 2)
        abort();
    if (doc != NULL && fits_json(doc->root))
        check_round_trip(doc->root);
    return 0;
}

#endif
