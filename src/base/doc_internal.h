/* What the YAML and TOML readers share: one form of error, one check of the text before reading. */
#ifndef KAGED_DOC_INTERNAL_H
#define KAGED_DOC_INTERNAL_H

#include "base/doc.h"

#include <stdio.h>

/* Both 1-based; the column in bytes. */
struct kg_doc_place {
    uint32_t line;
    uint32_t column;
};

static inline int kg_doc_vfail(struct kg_err *err, struct kg_doc_place place, const char *format,
                               va_list args)
{
    char sentence[KG_ERR_MESSAGE_MAX];
    vsnprintf(sentence, sizeof(sentence), format, args);
    return kg_fail(err, KG_E_PARSE, "%u:%u: %s", place.line, place.column, sentence);
}

/* Text for a message: quoted, control characters escaped, cut if long. The caller owns it. */
static inline char *kg_doc_quote(struct kg_str text)
{
    const size_t shown = 64;
    struct kg_str cut = text;
    if (cut.length > shown) {
        cut.length = shown;
        cut.length = kg_utf8_valid(cut);
    }
    struct kg_buf buf = {0};
    kg_json_put_string(&buf, cut);
    if (cut.length < text.length)
        kg_buf_text(&buf, "...");
    return kg_buf_terminate(&buf);
}

static inline struct kg_doc_place kg_doc_place_of(struct kg_str text, size_t offset)
{
    struct kg_doc_place place = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        place.column++;
        if (text.data[i] == '\n')
            place = (struct kg_doc_place){place.line + 1, 1};
    }
    return place;
}

/*
 * Refuses what is too long or not UTF-8; drops the byte order mark that may stand before the text.
 */
static inline int kg_doc_open(struct kg_str text, struct kg_str *ret_text, struct kg_err *err)
{
    if (text.length > KG_DOC_BYTES_MAX)
        return kg_fail(err, KG_E_PARSE, "1:1: the text has %zu bytes; at most %d are read",
                       text.length, KG_DOC_BYTES_MAX);
    if (text.data == NULL)
        text.data = "";
    if (kg_str_starts(text, "\xEF\xBB\xBF"))
        text = (struct kg_str){text.data + 3, text.length - 3};
    size_t valid = kg_utf8_valid(text);
    if (valid < text.length) {
        struct kg_doc_place place = kg_doc_place_of(text, valid);
        return kg_fail(err, KG_E_PARSE, "%u:%u: the byte 0x%02X is not UTF-8", place.line,
                       place.column, (unsigned char)text.data[valid]);
    }
    *ret_text = text;
    return 0;
}

#endif
