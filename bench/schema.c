/*
 * The schema checker as a contender; bench/peers/ajv.js is the same by ajv.
 *
 * usage: schema-bench SCHEMA INSTANCE
 * commands, each for so many MS: check    of a value that is parsed already
 *                                text     from bytes to verdict
 *                                compile  of the schema, from its bytes
 */
#include "schema/schema.h"
#include "contender.h"

struct work {
    struct kg_buf schema_text, instance_text;
    struct kg_doc *schema_doc, *instance_doc;
    struct schema *schema;
};

static void must(bool ok, const char *what)
{
    if (!ok)
        contender_die("schema-bench", what);
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

static void report_rate(struct work *work, void (*call)(struct work *work), long ms, int batch)
{
    uint64_t calls = 0, start_ns = kg_monotonic_ns(), elapsed_ns;
    do {
        for (int i = 0; i < batch; i++)
            call(work);
        calls += (uint64_t)batch;
        elapsed_ns = kg_monotonic_ns() - start_ns;
    } while (elapsed_ns < (uint64_t)ms * 1000000);
    contender_figure("rate", (double)calls * 1e9 / (double)elapsed_ns);
}

static void run_check(void *work, const long numbers[])
{
    report_rate(work, check_parsed, numbers[0], 1000);
}

static void run_text(void *work, const long numbers[])
{
    report_rate(work, check_text, numbers[0], 1000);
}

static void run_compile(void *work, const long numbers[])
{
    report_rate(work, compile_text, numbers[0], 5);
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {
        {"check", run_check}, {"text", run_text}, {"compile", run_compile}, {NULL, NULL}};
    struct work work = {0};
    must(argc == 3, "usage: schema-bench SCHEMA INSTANCE");
    must(kg_read_file(argv[1], 1 << 20, &work.schema_text, NULL) == 0, "cannot read the schema");
    must(kg_read_file(argv[2], 1 << 20, &work.instance_text, NULL) == 0,
         "cannot read the instance");
    work.schema_doc = kg_json_read(kg_buf_view(&work.schema_text), NULL);
    work.instance_doc = kg_json_read(kg_buf_view(&work.instance_text), NULL);
    must(work.schema_doc != NULL && work.instance_doc != NULL, "no JSON");
    work.schema = compile(work.schema_doc->root);
    contender_serve(commands, NULL, &work);
    schema_free(work.schema);
    kg_doc_free(work.schema_doc);
    kg_doc_free(work.instance_doc);
    kg_buf_free(&work.schema_text);
    kg_buf_free(&work.instance_text);
    return 0;
}
