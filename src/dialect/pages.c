/*
 * A list that a child hands out in pages, asked for until it ends. The child chooses how often: so
 * pages and bytes are bounded, and the cursor goes back as it came.
 */
#include "dialect/dialect.h"

#include <stdlib.h>

#define CURSOR_MAX_BYTES 4096

struct listing {
    struct dialect_talk *talk;
    const struct dialect_list *list;
    struct kg_buf items;  /* all so far, without brackets around them */
    struct kg_buf cursor; /* of the next page, a JSON string; empty: the first */
    unsigned pages;
};

static void end(struct listing *listing, const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf whole = {0};
    if (err_or_null == NULL) {
        kg_buf_char(&whole, '[');
        kg_buf_str(&whole, kg_buf_view(&listing->items));
        kg_buf_char(&whole, ']');
    }
    struct dialect_talk *talk = listing->talk;
    const struct dialect_list *list = listing->list;
    kg_buf_free(&listing->items);
    kg_buf_free(&listing->cursor);
    free(listing);
    list->on_list(talk, kg_buf_view(&whole), err_or_null);
}

/* Whether the page was the last one; fails for one that is none. */
static int take_page(struct listing *listing, struct kg_str result, bool *ret_last,
                     struct kg_err *err)
{
    const struct dialect_list *list = listing->list;
    struct kg_str items, cursor = KG_STR_NULL, item;
    if (!kg_json_member(result, list->items, &items) || items.data[0] != '[')
        return kg_fail(err, KG_E_BAD_RESULT, "a page has no list \"%s\"", list->items);
    struct kg_json_cursor at = kg_json_inside(items);
    while (kg_json_next_item(&at, &item)) {
        if (listing->items.length + item.length + 1 > list->bytes_max)
            return kg_fail(err, KG_E_TOO_LARGE, "the list has more than %zu bytes",
                           list->bytes_max);
        if (listing->items.length > 0)
            kg_buf_char(&listing->items, ',');
        kg_buf_str(&listing->items, item);
    }
    *ret_last = !kg_json_member(result, list->next, &cursor) || kg_str_is(cursor, "null");
    if (*ret_last)
        return 0;
    if (cursor.data[0] != '"' || cursor.length > CURSOR_MAX_BYTES)
        return kg_fail(err, KG_E_BAD_RESULT, "\"%s\" is not a short string", list->next);
    if (kg_str_equal(cursor, kg_buf_view(&listing->cursor)))
        return kg_fail(err, KG_E_BAD_RESULT, "a page names itself as the next");
    if (listing->pages >= list->pages_max)
        return kg_fail(err, KG_E_TOO_LARGE, "the list has more than %u pages", list->pages_max);
    listing->cursor.length = 0;
    kg_buf_str(&listing->cursor, cursor);
    return 0;
}

static void ask(struct listing *listing);

static void on_page(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct listing *listing = data;
    const char *method = listing->list->method;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_err err;
    bool last = false;
    switch (outcome) {
    case PEER_RESULT:
        if (take_page(listing, payload, &last, &err) == 0) {
            if (last)
                end(listing, NULL);
            else
                ask(listing);
            return;
        }
        kg_wrap(&err, 0, "%s", method);
        break;
    case PEER_ERROR:
        rpc_error_message(payload, &words);
        kg_fail(&err, kg_code_from_rpc(rpc_error_code(payload)), "%s: %.200s", method,
                kg_buf_terminate(&words));
        break;
    case PEER_TIMEOUT:
    case PEER_EXPIRED:
        kg_fail(&err, KG_E_PLUGIN_TIMEOUT, "%s: no answer in time", method);
        break;
    case PEER_GONE:
        kg_buf_free(&listing->items);
        kg_buf_free(&listing->cursor);
        free(listing);
        return;
    }
    end(listing, &err);
}

static void ask(struct listing *listing)
{
    struct dialect_talk *talk = listing->talk;
    const struct dialect_list *list = listing->list;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    struct kg_err err;
    kg_json_begin(&json, '{');
    if (listing->cursor.length > 0) {
        kg_json_key(&json, list->cursor);
        kg_json_raw(&json, kg_buf_view(&listing->cursor));
    }
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
    listing->pages++;
    if (peer_call(talk->peer, &call, NULL, &err) < 0)
        end(listing, &err);
}

void dialect_list(struct dialect_talk *talk, const struct dialect_list *list)
{
    struct listing *listing = kg_alloc(sizeof(*listing));
    listing->talk = talk;
    listing->list = list;
    ask(listing);
}
