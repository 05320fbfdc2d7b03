/*
 * A list that a child hands out in pages, asked for until it ends. The child chooses how often: so
 * pages and bytes are bounded, and the cursor goes back as it came.
 */
#include "dialect/internal.h"

#include <errno.h>
#include <stdlib.h>

#define CURSOR_MAX_BYTES 4096

struct listing {
    struct dialect_talk *talk;
    const struct dialect_list *list;
    struct dialect_pages pages;
};

void dialect_pages_free(struct dialect_pages *pages)
{
    kg_buf_free(&pages->items);
    kg_buf_free(&pages->cursor);
}

static void pages_end(struct listing *listing, const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf whole = {0};
    if (err_or_null == NULL) {
        kg_buf_char(&whole, '[');
        kg_buf_str(&whole, kg_buf_view(&listing->pages.items));
        kg_buf_char(&whole, ']');
    }
    struct dialect_talk *talk = listing->talk;
    const struct dialect_list *list = listing->list;
    dialect_pages_free(&listing->pages);
    free(listing);
    list->on_list(talk, kg_buf_view(&whole), err_or_null);
}

static int add_items(struct dialect_pages *pages, const struct dialect_list *list,
                     struct kg_str items, struct kg_err *err)
{
    struct kg_json_cursor at = kg_json_inside(items);
    struct kg_str item;
    while (kg_json_next_item(&at, &item)) {
        if (pages->items.length + item.length + 1 > list->bytes_max)
            return kg_fail(err, KG_E_TOO_LARGE, "the list has more than %zu bytes",
                           list->bytes_max);
        if (pages->items.length > 0)
            kg_buf_char(&pages->items, ',');
        kg_buf_str(&pages->items, item);
    }
    return 0;
}

int dialect_pages_take(struct dialect_pages *pages, const struct dialect_list *list,
                       struct kg_str result, bool *ret_last, struct kg_err *err)
{
    struct kg_str items, cursor = KG_STR_NULL;
    if (!kg_json_member(result, list->items, &items) || items.data[0] != '[')
        return kg_fail(err, KG_E_BAD_RESULT, "a page has no list \"%s\"", list->items);
    if (add_items(pages, list, items, err) < 0)
        return -EINVAL;
    pages->count++;
    *ret_last = !kg_json_member(result, list->next, &cursor) || kg_str_is(cursor, "null");
    if (*ret_last)
        return 0;
    if (cursor.data[0] != '"' || cursor.length > CURSOR_MAX_BYTES)
        return kg_fail(err, KG_E_BAD_RESULT, "\"%s\" is not a short string", list->next);
    if (kg_str_equal(cursor, kg_buf_view(&pages->cursor)))
        return kg_fail(err, KG_E_BAD_RESULT, "a page names itself as the next");
    if (pages->count >= list->pages_max)
        return kg_fail(err, KG_E_TOO_LARGE, "the list has more than %u pages", list->pages_max);
    pages->cursor.length = 0;
    kg_buf_str(&pages->cursor, cursor);
    return 0;
}

static void pages_ask(struct listing *listing);

static void on_page(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct listing *listing = data;
    const char *method = listing->list->method;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_err err;
    bool last = false;
    switch (outcome) {
    case PEER_RESULT:
        if (dialect_pages_take(&listing->pages, listing->list, payload, &last, &err) == 0) {
            if (last)
                pages_end(listing, NULL);
            else
                pages_ask(listing);
            return;
        }
        kg_wrap(&err, 0, "%s", method);
        break;
    case PEER_ERROR:
        rpc_error_message(payload, &words);
        kg_fail(&err, kg_code_from_rpc(rpc_error_code(payload)), "%s: %" KG_S_PATH, method,
                kg_buf_terminate(&words));
        break;
    case PEER_TIMEOUT:
    case PEER_EXPIRED:
        kg_fail(&err, KG_E_PLUGIN_TIMEOUT, "%s: no answer in time", method);
        break;
    case PEER_GONE:
        dialect_pages_free(&listing->pages);
        free(listing);
        return;
    }
    pages_end(listing, &err);
}

static void pages_ask(struct listing *listing)
{
    struct dialect_talk *talk = listing->talk;
    const struct dialect_list *list = listing->list;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    struct kg_err err;
    kg_json_begin(&json, '{');
    if (listing->pages.cursor.length > 0)
        kg_json_named_raw(&json, list->cursor, kg_buf_view(&listing->pages.cursor));
    if (list->put_more != NULL)
        list->put_more(talk, &json);
    kg_json_end(&json, '}');
    struct kg_str view = kg_buf_view(&params);
    const struct peer_call call = {
        .method = kg_str(list->method),
        .params = &view,
        .params_count = 1,
        .caller_timeout_ms = talk->timeout_ms,
        .on_done = on_page,
        .data = listing,
    };
    if (peer_call(talk->peer, &call, NULL, &err) < 0)
        pages_end(listing, &err);
}

void dialect_list(struct dialect_talk *talk, const struct dialect_list *list)
{
    struct listing *listing = kg_alloc(sizeof(*listing));
    listing->talk = talk;
    listing->list = list;
    pages_ask(listing);
}
