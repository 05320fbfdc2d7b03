/*
 * A first line as a schema, the rest as an instance. The schema is refused with its place or taken;
 * checks end, agree with and without a report, and a report says something if and only if they
 * fail. An instance with defaults put in has all that it had, and can be written and read.
 */
#include "schema/schema.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_errors(const struct schema_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct schema_error *error = &report->errors[i];
        bool rooted = error->instance_path.length == 0 || error->instance_path.data[0] == '/';
        if (!rooted || error->message.length == 0 ||
            memchr(error->schema_path.data, '#', error->schema_path.length) == NULL)
            abort();
    }
}

static void check_instance(const struct schema *schema, const struct kg_node *instance)
{
    kg_auto(schema_report_free) struct schema_report report = {0};
    bool fits = schema_check(schema, instance, NULL);
    if (schema_check(schema, instance, &report) != fits || (report.count == 0) != fits)
        abort();
    check_errors(&report);
}

static struct kg_buf written(const struct kg_node *node)
{
    struct kg_buf text = {0};
    kg_json_put_node(&text, node);
    return text;
}

static void check_defaults(const struct schema *schema, const struct kg_node *instance)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *filled = schema_with_defaults(schema, instance);
    if (filled->root->type != instance->type || filled->root->count < instance->count)
        abort();
    kg_auto(kg_buf_free) struct kg_buf text = written(filled->root);
    kg_auto(kg_doc_cleanup) struct kg_doc *again = kg_json_read(kg_buf_view(&text), NULL);
    if (again == NULL)
        abort();
}

static void check_schema(const struct kg_node *document, struct kg_str rest,
                         const struct schema_options *options)
{
    struct kg_err err = {0};
    unsigned line, column;
    struct schema *schema = schema_compile(document, options, &err);
    if (schema == NULL && sscanf(err.message, "%u:%u: ", &line, &column) != 2)
        abort();
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = schema ? kg_json_read(rest, NULL) : NULL;
    if (instance != NULL) {
        check_instance(schema, instance->root);
        check_defaults(schema, instance->root);
    }
    schema_free(schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t first = end ? (size_t)(end - data) : size;
    struct kg_str rest = {(const char *)data + first, size - first};
    kg_auto(kg_doc_cleanup) struct kg_doc *document =
        kg_json_read((struct kg_str){(const char *)data, first}, NULL);
    if (document == NULL)
        return 0;
    struct schema_options new_draft = {SCHEMA_DRAFT_2020_12, true, NULL};
    struct schema_options old_draft = {SCHEMA_DRAFT_7, true, NULL};
    check_schema(document->root, rest, &new_draft);
    check_schema(document->root, rest, &old_draft);
    return 0;
}
