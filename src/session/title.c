/*
 * What a session is called where many are listed: as it was named, or the first words that a user
 * said in it. One line, short, and never empty.
 */
#include "session/internal.h"

#include "base/json/json.h"

/* Characters. */
#define FIRST_WORDS_MAX 60
#define GIVEN_MAX       200

/* The first text of a message, which is a string or a list of parts. */
static struct kg_str title_first_text(const struct kg_node *content)
{
    if (content->type == KG_STRING)
        return content->text;
    struct kg_str text = KG_STR_NULL;
    for (uint32_t i = 0; content->type == KG_ARRAY && i < content->count && text.length == 0; i++)
        text = kg_node_text(&content->items[i], "text");
    return text;
}

/* Runs of white space and of control characters become one space; what is too long ends in "...".
 */
static char *one_line(struct kg_str text, size_t max)
{
    kg_auto(kg_buf_free) struct kg_buf title = {0};
    size_t characters = 0, length;
    bool is_apart = false;
    for (size_t at = 0; at < text.length && characters <= max; at += length) {
        uint32_t c = kg_utf8_decode(text.data + at, &length);
        if (c <= ' ' || (c >= 0x7f && c <= 0xa0)) {
            is_apart = title.length > 0;
            continue;
        }
        characters += 1 + is_apart;
        if (characters > max) {
            kg_buf_text(&title, "...");
            continue;
        }
        if (is_apart)
            kg_buf_char(&title, ' ');
        kg_buf_str(&title, (struct kg_str){text.data + at, length});
        is_apart = false;
    }
    return title.length > 0 ? kg_str_dup(kg_buf_view(&title)) : NULL;
}

char *session_title_given(const char *title_or_null)
{
    return title_or_null != NULL ? one_line(kg_str(title_or_null), GIVEN_MAX) : NULL;
}

char *session_title_of(struct kg_str content)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(content, &err);
    return doc != NULL ? one_line(title_first_text(doc->root), FIRST_WORDS_MAX) : NULL;
}
