/* JSON as editors write it. Positions stay what they are: nothing is removed, only blanked. */
#include "import/internal.h"

static bool jsonc_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Behind the string that begins there. */
static size_t jsonc_skip_string(const struct kg_buf *text, size_t at)
{
    for (at++; at < text->length && text->data[at] != '"'; at++)
        at += text->data[at] == '\\';
    return at + 1;
}

/* Blanks the comment that begins there; behind it. */
static size_t blank_comment(struct kg_buf *text, size_t at)
{
    bool is_line = text->data[at + 1] == '/';
    for (size_t start = at; at < text->length; at++) {
        bool ends = is_line ? text->data[at] == '\n'
                            : at >= start + 3 && text->data[at] == '/' && text->data[at - 1] == '*';
        if (ends && is_line)
            return at;
        if (ends) {
            memset(text->data + start, ' ', at + 1 - start);
            return at + 1;
        }
        if (is_line)
            text->data[at] = ' ';
    }
    return at;
}

void jsonc_plain(struct kg_buf *text)
{
    size_t comma = SIZE_MAX; /* the last one, if nothing but space came since */
    for (size_t at = 0; at < text->length;) {
        char c = text->data[at];
        if (c == '/' && at + 1 < text->length &&
            (text->data[at + 1] == '/' || text->data[at + 1] == '*')) {
            at = blank_comment(text, at);
            continue;
        }
        if ((c == ']' || c == '}') && comma != SIZE_MAX)
            text->data[comma] = ' ';
        if (!jsonc_is_space(c))
            comma = c == ',' ? at : SIZE_MAX;
        at = c == '"' ? jsonc_skip_string(text, at) : at + 1;
    }
}
