/*
 * JSON from anyone: the scanner and the reader agree, what was read is written and read again as it
 * was, and the writer makes valid JSON of any bytes.
 */
#include "base/json/json.h"
#include "same_tree.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void writes_and_reads_the_same(const struct kg_node *root)
{
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_node(&buf, root);
    kg_auto(kg_doc_cleanup) struct kg_doc *again = kg_json_read(kg_buf_view(&buf), NULL);
    must(again != NULL && same_tree(root, again->root));
}

/* The first member of each name, found in the bytes, is the one in the tree. */
static void members_agree(struct kg_str text, const struct kg_node *root)
{
    for (uint32_t i = 0; root->type == KG_OBJECT && i < root->count && i < 64; i++) {
        const struct kg_member *member = &root->members[i];
        must(kg_node_member(root, member->key) == member);
        if (member->key.length && memchr(member->key.data, '\0', member->key.length) != NULL)
            continue;
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        struct kg_str span;
        must(kg_json_member(text, key, &span));
        kg_auto(kg_doc_cleanup) struct kg_doc *part = kg_json_read(span, NULL);
        must(part != NULL && same_tree(part->root, &member->value));
    }
}

static void check_agrees_with_read(struct kg_str text)
{
    size_t offset = SIZE_MAX;
    enum kg_json_fault fault = kg_json_check(text, &offset);
    must(fault == KG_JSON_OK ? offset == SIZE_MAX : offset <= text.length);
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, &err);
    if (doc == NULL) {
        must(err.code == KG_E_PARSE);
        must(fault != KG_JSON_OK || strstr(err.message, "is given twice") != NULL);
        return;
    }
    must(fault == KG_JSON_OK);
    writes_and_reads_the_same(doc->root);
    members_agree(text, doc->root);
}

static void any_bytes_make_a_string(struct kg_str bytes)
{
    kg_auto(kg_buf_free) struct kg_buf buf = {0};
    kg_json_put_string(&buf, bytes);
    must(kg_json_check(kg_buf_view(&buf), NULL) == KG_JSON_OK);
    if (kg_utf8_valid(bytes) != bytes.length)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&buf), NULL);
    must(doc != NULL && kg_str_equal(doc->root->text, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str text = {(const char *)data, size};
    struct kg_str value = KG_STR_NULL;
    kg_json_member(text, "id", &value); /* of anything, valid or not */
    check_agrees_with_read(text);
    any_bytes_make_a_string(text);
    return 0;
}
