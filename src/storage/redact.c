/*
 * SQL without its values. It need not be valid: what looks like a string, a blob or a number is
 * left out, and names stay. A name in double quotes or backquotes may as well be a value that was
 * quoted wrongly, so it goes too.
 */
#include "storage/storage.h"

#include <stdlib.h>

#define REDACTED_MAX 1000

struct text {
    const char *at, *end;
};

static bool storage_redact_is_word(char c)
{
    return c == '_' || c == '$' || kg_is_letter_or_digit(c) || (unsigned char)c >= 0x80;
}

/* Past the closing quote; a doubled one is a part of the text. */
static void skip_quoted(struct text *text, char quote)
{
    for (text->at++; text->at < text->end; text->at++) {
        if (*text->at != quote)
            continue;
        if (text->at + 1 == text->end || text->at[1] != quote)
            break;
        text->at++;
    }
    text->at += text->at < text->end;
}

static void skip_line(struct text *text)
{
    while (text->at < text->end && *text->at != '\n')
        text->at++;
}

static void skip_block(struct text *text)
{
    for (text->at += 2; text->at < text->end; text->at++)
        if (text->at[0] == '*' && text->at + 1 < text->end && text->at[1] == '/')
            break;
    text->at = text->end - text->at < 2 ? text->end : text->at + 2;
}

static bool storage_redact_starts(const struct text *text, const char *two)
{
    return text->end - text->at >= 2 && text->at[0] == two[0] && text->at[1] == two[1];
}

static void storage_redact_put_word(struct text *text, struct kg_buf *out)
{
    const char *start = text->at;
    while (text->at < text->end &&
           (storage_redact_is_word(*text->at) || (kg_is_digit(*start) && *text->at == '.')))
        text->at++;
    bool blob = text->at - start == 1 && (*start == 'x' || *start == 'X') && text->at < text->end &&
                *text->at == '\'';
    if (kg_is_digit(*start))
        kg_buf_char(out, '?');
    else if (!blob)
        kg_buf_append(out, start, (size_t)(text->at - start));
}

static void storage_redact_put_next(struct text *text, struct kg_buf *out)
{
    char c = *text->at;
    if (c == '\'' || c == '"' || c == '`') {
        skip_quoted(text, c);
        kg_buf_char(out, '?');
    } else if (storage_redact_starts(text, "--")) {
        skip_line(text);
    } else if (storage_redact_starts(text, "/*")) {
        skip_block(text);
    } else if (storage_redact_is_word(c)) {
        storage_redact_put_word(text, out);
    } else {
        bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        if (!space || (out->length > 0 && out->data[out->length - 1] != ' '))
            kg_buf_char(out, space ? ' ' : c);
        text->at++;
    }
}

static void redact_statement(struct kg_str sql, struct kg_buf *out)
{
    size_t start = out->length;
    struct text text = {sql.data, sql.data + sql.length};
    while (text.at < text.end && out->length - start < REDACTED_MAX)
        storage_redact_put_next(&text, out);
}

/* Each statement of a batch; their values are not even looked at. */
static void redact_batch(struct kg_str batch, struct kg_buf *out)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(batch, NULL);
    for (uint32_t i = 0; doc != NULL && doc->root->type == KG_ARRAY && i < doc->root->count; i++) {
        const struct kg_node *sql = kg_node_get(&doc->root->items[i], "sql");
        if (sql == NULL || sql->type != KG_STRING)
            continue;
        if (out->length > 0)
            kg_buf_str(out, KG_STR("; "));
        redact_statement(sql->text, out);
    }
}

void storage_redact(struct kg_str sql, struct kg_buf *out)
{
    if (sql.length < 2 || sql.data[0] != '"') {
        redact_batch(sql, out);
        return;
    }
    struct kg_str raw = {sql.data + 1, sql.length - 2};
    kg_auto(kg_free) char *plain = kg_alloc(raw.length + 1);
    redact_statement((struct kg_str){plain, kg_json_unescape(raw, plain)}, out);
}
