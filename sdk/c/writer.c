/* What a plugin says: values, objects and lists become JSON text, of which the commas are ours. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

struct kaged_writer *writer_new(void)
{
    struct kaged_writer *writer = kg_alloc(sizeof(*writer));
    writer->json = kg_json_writer(&writer->buf);
    return writer;
}

void writer_free(struct kaged_writer *writer)
{
    if (writer == NULL)
        return;
    kg_buf_free(&writer->buf);
    free(writer);
}

/* -- values ------------------------------------------------------------------------------------ */

struct kaged_value kaged_null(void)
{
    return (struct kaged_value){.kind = KAGED_V_NULL};
}

struct kaged_value kaged_bool(bool value)
{
    return (struct kaged_value){.kind = KAGED_V_BOOL, .as.boolean = value};
}

struct kaged_value kaged_int(int64_t value)
{
    return (struct kaged_value){.kind = KAGED_V_INT, .as.integer = value};
}

struct kaged_value kaged_double(double value)
{
    return (struct kaged_value){.kind = KAGED_V_DOUBLE, .as.real = value};
}

struct kaged_value kaged_text_n(const char *text, size_t length)
{
    return (struct kaged_value){.kind = KAGED_V_TEXT, .as.bytes = {text, length}};
}

struct kaged_value kaged_text(const char *text)
{
    return text ? kaged_text_n(text, strlen(text)) : kaged_null();
}

struct kaged_value kaged_blob(const void *data, size_t length)
{
    return (struct kaged_value){.kind = KAGED_V_BLOB, .as.bytes = {data, length}};
}

struct kaged_value kaged_json(const struct kaged_json *value)
{
    return (struct kaged_value){.kind = KAGED_V_JSON, .as.json = value};
}

/* -- writing ----------------------------------------------------------------------------------- */

static void put_double(struct kaged_writer *writer, double value)
{
    char text[NUMBER_TEXT];
    if (!isfinite(value)) {
        kg_json_null(&writer->json);
        return;
    }
    number_write(value, text);
    kg_json_raw(&writer->json, kg_str(text));
}

/* {"$blob": BASE64}, as the host's storage has it. */
static void put_blob(struct kaged_writer *writer, const unsigned char *data, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    kg_json_begin(&writer->json, '{');
    kg_json_key(&writer->json, "$blob");
    kg_json_raw(&writer->json, KG_STR("\""));
    for (size_t at = 0; at < length; at += 3) {
        size_t left = length - at;
        uint32_t bits = (uint32_t)data[at] << 16;
        bits |= left > 1 ? (uint32_t)data[at + 1] << 8 : 0;
        bits |= left > 2 ? data[at + 2] : 0;
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63],
                        digits[bits & 63]};
        if (left < 3)
            four[3] = '=';
        if (left < 2)
            four[2] = '=';
        kg_buf_append(&writer->buf, four, sizeof(four));
    }
    kg_buf_char(&writer->buf, '"');
    kg_json_end(&writer->json, '}');
}

void kaged_put(struct kaged_writer *writer, struct kaged_value value)
{
    switch (value.kind) {
    case KAGED_V_NULL:
        kg_json_null(&writer->json);
        break;
    case KAGED_V_BOOL:
        kg_json_bool(&writer->json, value.as.boolean);
        break;
    case KAGED_V_INT:
        kg_json_int(&writer->json, value.as.integer);
        break;
    case KAGED_V_DOUBLE:
        put_double(writer, value.as.real);
        break;
    case KAGED_V_TEXT:
        kg_json_str(&writer->json, (struct kg_str){value.as.bytes.data, value.as.bytes.length});
        break;
    case KAGED_V_BLOB:
        put_blob(writer, value.as.bytes.data, value.as.bytes.length);
        break;
    case KAGED_V_JSON:
        if (value.as.json != NULL)
            kg_json_node(&writer->json, node_of(value.as.json));
        else
            kg_json_null(&writer->json);
        break;
    }
}

void kaged_begin_object(struct kaged_writer *writer)
{
    kg_json_begin(&writer->json, '{');
}

void kaged_end_object(struct kaged_writer *writer)
{
    kg_json_end(&writer->json, '}');
}

void kaged_begin_array(struct kaged_writer *writer)
{
    kg_json_begin(&writer->json, '[');
}

void kaged_end_array(struct kaged_writer *writer)
{
    kg_json_end(&writer->json, ']');
}

void kaged_key(struct kaged_writer *writer, const char *key)
{
    kg_json_key(&writer->json, key);
}

void kaged_put_field(struct kaged_writer *writer, const char *key, struct kaged_value value)
{
    kaged_key(writer, key);
    kaged_put(writer, value);
}

void kaged_put_fields(struct kaged_writer *writer, const struct kaged_field *fields)
{
    kaged_begin_object(writer);
    for (; fields != NULL && fields->key != NULL; fields++)
        kaged_put_field(writer, fields->key, fields->value);
    kaged_end_object(writer);
}
