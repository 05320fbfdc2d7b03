/*
 * The lines of kaged-unpack, which may be in a stranger's hands by now: short, few, of known shape,
 * texts cut and escaped. Their worst can only be a wrong progress, or a wrong reason for a failure.
 */
#include "store/fetch.h"

#include <stdio.h>

#define LINE_BYTES_MAX    4096
#define LINES_MAX         50000
#define MESSAGE_BYTES_MAX 500
#define HINT_BYTES_MAX    200

/* What a cage may call itself to have failed with. */
static const enum kg_code codes[] = {KG_E_REFUSED,   KG_E_TOO_LARGE, KG_E_INVALID_SOURCE,
                                     KG_E_NOT_FOUND, KG_E_IO,        KG_E_INTERNAL};

static const char *const phases[] = {"fetching", "unpacking", "copying"};

static uint64_t fetch_words_number_of(const struct kg_node *line, const char *key)
{
    int64_t value;
    const struct kg_node *node = kg_node_get(line, key);
    return node != NULL && kg_node_int(node, &value) && value > 0 ? (uint64_t)value : 0;
}

static bool take_progress(struct fetch_words *words, const struct kg_node *line)
{
    struct store_progress progress = {
        .files = fetch_words_number_of(line, "files"),
        .bytes = fetch_words_number_of(line, "bytes"),
        .bytes_expected = fetch_words_number_of(line, "bytes_expected"),
    };
    for (size_t i = 0; i < KG_COUNT(phases); i++)
        if (kg_str_is(kg_node_text(line, "phase"), phases[i]))
            progress.phase = phases[i];
    if (progress.phase != NULL && words->on_progress != NULL)
        words->on_progress(words->data, &progress);
    return progress.phase != NULL;
}

static void fetch_words_copy_text(struct kg_str text, size_t max, char *ret_text, size_t size)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, (struct kg_str){text.data, text.length < max ? text.length : max});
    snprintf(ret_text, size, "%s", kg_buf_terminate(&shown));
}

static bool take_failure(struct fetch_words *words, const struct kg_node *line)
{
    char message[MESSAGE_BYTES_MAX + 1], hint[HINT_BYTES_MAX + 1];
    fetch_words_copy_text(kg_node_text(line, "message"), MESSAGE_BYTES_MAX, message,
                          sizeof(message));
    fetch_words_copy_text(kg_node_text(line, "hint"), HINT_BYTES_MAX, hint, sizeof(hint));
    enum kg_code code = KG_E_INVALID_SOURCE, said = kg_code_from_name(kg_node_text(line, "code"));
    for (size_t i = 0; i < KG_COUNT(codes); i++)
        if (codes[i] == said)
            code = said;
    kg_fail(&words->error, code, "%s", message);
    if (hint[0] != '\0')
        kg_hint(&words->error, "%s", hint);
    return message[0] != '\0';
}

static bool fetch_words_take_line(struct fetch_words *words, struct kg_str text)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, NULL);
    if (doc == NULL || words->done || words->error.code != KG_OK || ++words->lines > LINES_MAX)
        return false;
    struct kg_str type = kg_node_text(doc->root, "type");
    if (kg_str_is(type, "progress"))
        return take_progress(words, doc->root);
    if (kg_str_is(type, "failed"))
        return take_failure(words, doc->root);
    words->done = kg_str_is(type, "done");
    return words->done;
}

bool fetch_words_take(struct fetch_words *words, struct kg_str bytes)
{
    while (bytes.length > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.length);
        size_t length = end ? (size_t)(end - bytes.data) : bytes.length;
        if (words->line.length + length > LINE_BYTES_MAX)
            return false;
        kg_buf_append(&words->line, bytes.data, length);
        if (end == NULL)
            return true;
        if (!fetch_words_take_line(words, kg_buf_view(&words->line)))
            return false;
        words->line.length = 0;
        bytes.data += length + 1;
        bytes.length -= length + 1;
    }
    return true;
}

void fetch_words_free(struct fetch_words *words)
{
    kg_buf_free(&words->line);
}
