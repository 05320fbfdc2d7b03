/*
 * The tools of a server that the operator approved, beside what he approved of its files:
 *
 *   plugins/.store/approved/NAME/tools   {"hash", "variant", "tools", "off"}
 *
 * They count for the files that they were approved with: another hash, and they are none.
 */
#include "store/internal.h"

#include <errno.h>

#define TOOLS_NAME      "tools"
#define TOOLS_BYTES_MAX ((size_t)8 << 20)

void store_tools_free(struct store_tools *tools)
{
    kg_buf_free(&tools->tools);
    kg_list_free(kg_steal(&tools->off));
}

static char **read_names(const struct kg_node *list)
{
    char **names = kg_list_new(list->count);
    size_t count = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].type == KG_STRING)
            names[count++] = kg_str_dup(list->items[i].text);
    return names;
}

bool store_tools_read(const struct store *store, const char *name, const char *hash,
                      struct store_tools *ret_tools)
{
    kg_auto(kg_free) char *path = kg_format("%s/approved/%s/" TOOLS_NAME, store->folder, name);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, TOOLS_BYTES_MAX, &text, NULL) < 0)
        return false;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    const struct kg_node *tools = doc ? kg_node_typed(doc->root, "tools", KG_ARRAY) : NULL;
    if (tools == NULL || !kg_str_is(kg_node_text(doc->root, "hash"), hash))
        return false;
    *ret_tools = (struct store_tools){
        .variant = kg_node_number(doc->root, "variant"),
        .off = read_names(kg_node_list(doc->root, "off")),
    };
    kg_json_put_node(&ret_tools->tools, tools);
    return true;
}

int store_tools_write(struct store *store, const char *name, const char *hash,
                      const struct store_tools *tools, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "hash", hash);
    kg_json_named_int(&json, "variant", tools->variant);
    kg_json_named_raw(&json, "tools", kg_buf_view(&tools->tools));
    kg_json_named_list(&json, "off", tools->off);
    kg_json_end(&json, '}');
    kg_buf_char(&text, '\n');
    int result = store_hold_begin(store, &hold, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int kept = store_approved_open(&hold, name, err);
    return kept < 0 ? kept : store_write_synced(kept, TOOLS_NAME, kg_buf_view(&text), err);
}
