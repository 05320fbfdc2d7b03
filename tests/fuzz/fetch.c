/*
 * What a taken-over kaged-unpack can say to the daemon, and listings of files: bounded, never
 * believed, and a listing that is read prints as the same text.
 */
#include "store/fetch.h"
#include "store/tree_rules.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void on_progress(void *data, const struct store_progress *progress)
{
    (void)data;
    must(progress->phase != NULL && progress->bytes <= INT64_MAX);
}

/* In pieces of any length it means the same. */
static void check_words(struct kg_str input)
{
    struct fetch_words whole = {.on_progress = on_progress}, pieces = {0};
    bool taken = fetch_words_take(&whole, input), taken_again = true;
    for (size_t at = 0; at < input.length && taken_again; at += 3) {
        size_t length = input.length - at < 3 ? input.length - at : 3;
        taken_again = fetch_words_take(&pieces, (struct kg_str){input.data + at, length});
    }
    must(taken == taken_again && whole.done == pieces.done &&
         whole.error.code == pieces.error.code);
    must(!whole.done || whole.error.code == KG_OK);
    const char *message = whole.error.message;
    must(kg_utf8_valid(kg_str(message)) == strlen(message) && strpbrk(message, "\n\033") == NULL);
    fetch_words_free(&whole);
    fetch_words_free(&pieces);
}

static void check_listing(struct kg_str input)
{
    struct store_tree tree;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (store_tree_parse(input, &tree, NULL) < 0)
        return;
    for (size_t i = 0; i < tree.count; i++)
        must(tree_path_problem(kg_str(tree.entries[i].path), UINT32_MAX) == NULL);
    store_tree_print(&tree, &text);
    store_tree_free(&tree);
    must(store_tree_parse(kg_buf_view(&text), &tree, NULL) == 0);
    store_tree_free(&tree);
}

/* The input is what every link says. */
static const char *link_of(void *data, struct kg_str path)
{
    return path.length % 3 == 0 ? data : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str input = {(const char *)data, size};
    kg_auto(kg_free) char *text = kg_str_dup(input);
    check_words(input);
    check_listing(input);
    (void)tree_path_problem(input, 8);
    (void)tree_link_problem(KG_STR("a/b/c"), text, link_of, text);
    return 0;
}
