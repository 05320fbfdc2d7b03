/*
 * Other ways to write a text: as base64, where only those characters count that nothing around the
 * text can change; as a part of a URL; as a string of JSON.
 */
#include "base/json/json.h"
#include "redact/internal.h"

struct form {
    struct kg_str text;
    void (*take)(void *data, struct kg_str form);
    void *data;
};

static void offer(const struct form *form, const struct kg_buf *written)
{
    if (!kg_str_equal(kg_buf_view(written), form->text))
        form->take(form->data, kg_buf_view(written));
}

/* -- base64 ------------------------------------------------------------------------------------ */

/* `before` bytes stand ahead of the text in its group of three. */
static void put_base64(struct kg_str text, size_t before, const char *digits, struct kg_buf *out)
{
    uint32_t bits = 0;
    unsigned count = (unsigned)before * 8;
    size_t skip = (before * 8 + 5) / 6; /* digits that what is before has a part in */
    for (size_t i = 0; i < text.length; i++) {
        bits = bits << 8 | (unsigned char)text.data[i];
        for (count += 8; count >= 6; count -= 6) {
            if (skip > 0)
                skip--;
            else
                kg_buf_char(out, digits[bits >> (count - 6) & 63]);
        }
    }
}

static void offer_base64(const struct form *form)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    static const char *const ends[] = {"+/", "-_"};
    for (size_t i = 0; i < KG_COUNT(ends); i++) {
        char digits[65];
        memcpy(digits, letters, 62);
        memcpy(digits + 62, ends[i], 3);
        for (size_t before = 0; before < 3; before++) {
            kg_auto(kg_buf_free) struct kg_buf written = {0};
            put_base64(form->text, before, digits, &written);
            offer(form, &written);
        }
    }
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
    offer(form, &written);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void offer_json(const struct form *form)
{
    kg_auto(kg_buf_free) struct kg_buf written = {0};
    kg_json_put_string(&written, form->text);
    struct kg_buf inner = {.data = written.data + 1, .length = written.length - 2};
    offer(form, &inner);
}

void redact_forms(struct kg_str text, void (*take)(void *data, struct kg_str form), void *data)
{
    const struct form form = {text, take, data};
    offer_base64(&form);
    offer_url(&form, "-_.~", "0123456789ABCDEF");
    offer_url(&form, "-_.~", "0123456789abcdef");
    offer_url(&form, "-_.~!*'()", "0123456789ABCDEF"); /* as browsers do */
    offer_json(&form);
}
