/*
 * Other ways to write a text: as base64, where only those characters count that nothing around the
 * text can change; as a part of a URL; as a string of JSON.
 */
#include "base/base64.h"
#include "base/json/json.h"
#include "redact/internal.h"

struct form {
    struct kg_str text;
    void (*take)(void *data, struct kg_str form);
    void *data;
};

static void forms_offer(const struct form *form, const struct kg_buf *written)
{
    if (!kg_str_equal(kg_buf_view(written), form->text))
        form->take(form->data, kg_buf_view(written));
}

/* -- base64 ------------------------------------------------------------------------------------ */

/* `before` bytes stand ahead of the text in its group of three, and any number behind it. */
static void offer_base64(const struct form *form, size_t before)
{
    size_t first = (before * 8 + 5) / 6; /* digits that what is before has a part in */
    size_t end = (before + form->text.length) * 8 / 6;
    kg_auto(kg_buf_free) struct kg_buf bytes = {0}, written = {0};
    kg_buf_append(&bytes, "\0\0", before);
    kg_buf_str(&bytes, form->text);
    kg_base64_put(&written, kg_buf_view(&bytes));
    if (end <= first)
        return;
    struct kg_buf digits = {.data = written.data + first, .length = end - first};
    forms_offer(form, &digits);
    for (size_t i = 0; i < digits.length; i++) /* as it stands in URLs */
        digits.data[i] = digits.data[i] == '+' ? '-' : digits.data[i] == '/' ? '_' : digits.data[i];
    forms_offer(form, &digits);
}

/* -- URLs -------------------------------------------------------------------------------------- */

static void offer_url(const struct form *form, const char *plain, const char *hex)
{
    kg_auto(kg_buf_free) struct kg_buf written = {0};
    for (size_t i = 0; i < form->text.length; i++) {
        unsigned char c = (unsigned char)form->text.data[i];
        if (kg_is_letter_or_digit((char)c) || (c != '\0' && strchr(plain, c) != NULL)) {
            kg_buf_char(&written, (char)c);
        } else {
            kg_buf_char(&written, '%');
            kg_buf_char(&written, hex[c >> 4]);
            kg_buf_char(&written, hex[c & 15]);
        }
    }
    forms_offer(form, &written);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void offer_json(const struct form *form)
{
    kg_auto(kg_buf_free) struct kg_buf written = {0};
    kg_json_put_string(&written, form->text);
    struct kg_buf inner = {.data = written.data + 1, .length = written.length - 2};
    forms_offer(form, &inner);
}

void redact_forms(struct kg_str text, void (*take)(void *data, struct kg_str form), void *data)
{
    const struct form form = {text, take, data};
    for (size_t before = 0; before < 3; before++)
        offer_base64(&form, before);
    offer_url(&form, "-_.~", "0123456789ABCDEF");
    offer_url(&form, "-_.~", "0123456789abcdef");
    offer_url(&form, "-_.~!*'()", "0123456789ABCDEF"); /* as browsers do */
    offer_json(&form);
}
