/*
 * Three figures of the schema checker, each a line "name calls-a-second": a parsed value, from
 * bytes to verdict, and compiling. bench/peers/ajv.js prints the same three; bench/compare runs
 * both. usage: schema-bench SCHEMA INSTANCE
 */
#include "schema/schema.h"

#include <stdio.h>
#include <stdlib.h>

struct work {
    struct kg_buf schema_text, instance_text;
    struct kg_doc *schema_doc, *instance_doc;
    struct schema *schema;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "schema-bench: %s\n", what);
    exit(1);
}

static struct schema *compile(const struct kg_node *node)
{
    struct kg_err err;
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12};
    struct schema *schema = schema_compile(node, &options, &err);
    must(schema != NULL, "the schema does not compile");
    return schema;
}

static void check_parsed(struct work *work)
{
    must(schema_check(work->schema, work->instance_doc->root, NULL), "the instance does not fit");
}

static void check_text(struct work *work)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_buf_view(&work->instance_text), NULL);
    must(doc != NULL && schema_check(work->schema, doc->root, NULL), "the instance does not fit");
}

static void compile_text(struct work *work)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_buf_view(&work->schema_text), NULL);
    schema_free(compile(doc->root));
}

/* Calls a second, over about a fifth of a second, after a warm-up. */
static double rate(void (*call)(struct work *work), struct work *work, int batch)
{
    uint64_t calls = 0, elapsed_ns = 0;
    for (int i = 0; i < batch; i++)
        call(work);
    uint64_t start_ns = kg_monotonic_ns();
    while (elapsed_ns < 200000000) {
        for (int i = 0; i < batch; i++)
            call(work);
        calls += (uint64_t)batch;
        elapsed_ns = kg_monotonic_ns() - start_ns;
    }
    return (double)calls * 1e9 / (double)elapsed_ns;
}

int main(int argc, char **argv)
{
    struct work work = {0};
    must(argc == 3, "usage: schema-bench SCHEMA INSTANCE");
    must(kg_read_file(argv[1], 1 << 20, &work.schema_text, NULL) == 0, "cannot read the schema");
    must(kg_read_file(argv[2], 1 << 20, &work.instance_text, NULL) == 0,
         "cannot read the instance");
    work.schema_doc = kg_json_read(kg_buf_view(&work.schema_text), NULL);
    work.instance_doc = kg_json_read(kg_buf_view(&work.instance_text), NULL);
    must(work.schema_doc != NULL && work.instance_doc != NULL, "no JSON");
    work.schema = compile(work.schema_doc->root);
    printf("check %f\n", rate(check_parsed, &work, 1000));
    printf("text %f\n", rate(check_text, &work, 1000));
    printf("compile %f\n", rate(compile_text, &work, 5));
    schema_free(work.schema);
    kg_doc_free(work.schema_doc);
    kg_doc_free(work.instance_doc);
    kg_buf_free(&work.schema_text);
    kg_buf_free(&work.instance_text);
    return 0;
}
