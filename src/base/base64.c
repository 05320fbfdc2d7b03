#include "base/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (kg_is_digit(c))
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool kg_base64_read(struct kg_str text, unsigned char *out, size_t *ret_length)
{
    if (text.length % 4 != 0)
        return false;
    size_t padding = 0;
    while (padding < 2 && padding < text.length && text.data[text.length - 1 - padding] == '=')
        padding++;
    size_t count = text.length - padding;
    size_t length = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        int value = base64_digit_value(text.data[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            out[length++] = (unsigned char)(bits >> (6 - i % 4 * 2));
    }
    if ((padding == 1 && (bits & 0x03) != 0) || (padding == 2 && (bits & 0x0F) != 0))
        return false;
    *ret_length = length;
    return true;
}

void kg_base64_put(struct kg_buf *out, struct kg_str text)
{
    const unsigned char *bytes = (const unsigned char *)text.data;
    kg_buf_reserve(out, text.length / 3 * 4 + 4);
    char *to = out->data + out->length;
    for (size_t i = 0; i < text.length; i += 3) {
        size_t left = text.length - i;
        uint32_t bits = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (left > 2 ? bytes[i + 2] : 0);
        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[bits & 63] : '=';
    }
    out->length = (size_t)(to - out->data);
}

/* -- in JSON ----------------------------------------------------------------------------------- */

void kg_json_named_bytes(struct kg_json_writer *json, const char *key, struct kg_str bytes)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    bool is_text = kg_utf8_valid(bytes) == bytes.length;
    if (is_text)
        kg_json_put_string(&text, bytes);
    if (is_text && text.length <= bytes.length / 3 * 4 + 64) {
        kg_json_named_raw(json, key, kg_buf_view(&text));
        return;
    }
    kg_auto(kg_free) char *name = kg_format("%s_base64", key);
    text.length = 0;
    kg_base64_put(&text, bytes);
    kg_json_named_str(json, name, kg_buf_view(&text));
}

int kg_node_bytes(const struct kg_node *node, const char *key, size_t max, struct kg_buf *ret_bytes,
                  struct kg_err *err)
{
    kg_auto(kg_free) char *coded_key = kg_format("%s_base64", key);
    struct kg_str plain = kg_node_text(node, key), coded = kg_node_text(node, coded_key);
    size_t length = 0;
    if (plain.length > max || coded.length / 4 * 3 > max + 2)
        return kg_fail(err, KG_E_TOO_LARGE, "%s has more than %zu bytes", key, max);
    kg_buf_str(ret_bytes, plain);
    kg_buf_reserve(ret_bytes, coded.length);
    if (!kg_base64_read(coded, (unsigned char *)ret_bytes->data + ret_bytes->length, &length))
        return kg_fail(err, KG_E_INVALID_PARAMS, "%s is not base64", coded_key);
    ret_bytes->length += length;
    return 0;
}
