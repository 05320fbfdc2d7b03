/*
 * Names towards models and MCP clients, which take fewer characters than we do. The same name in
 * every process and release, since conversations keep it; different names stay different, so that a
 * caller with the list of the real ones finds which was meant.
 */
#include "manifest/manifest.h"

#include <inttypes.h>

#define HASH_DIGITS 10

static const char taken[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

/* FNV-1a. */
static uint64_t stable_hash(struct kg_str text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < text.length; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return hash;
}

static bool names_is_taken(char c)
{
    return memchr(taken, c, sizeof(taken) - 1) != NULL;
}

/* Whether only this name becomes what it becomes, dots being "__". */
static bool is_clear(struct kg_str name)
{
    bool has_dot = name.length > 0 && memchr(name.data, '.', name.length) != NULL;
    for (size_t i = 0; i < name.length; i++) {
        bool pair = i > 0 && (name.data[i] == '_' || name.data[i] == '.') &&
                    (name.data[i - 1] == '_' || name.data[i - 1] == '.');
        if ((pair && has_dot) || (!names_is_taken(name.data[i]) && name.data[i] != '.'))
            return false;
    }
    return name.length > 0;
}

void manifest_model_name_put(struct kg_str name, struct kg_buf *out)
{
    size_t start = out->length;
    for (size_t i = 0; i < name.length; i++) {
        if (name.data[i] == '.')
            kg_buf_text(out, "__");
        else
            kg_buf_char(out, names_is_taken(name.data[i]) ? name.data[i] : '_');
    }
    if (is_clear(name) && out->length - start <= MANIFEST_MODEL_NAME_MAX)
        return;
    size_t kept = MANIFEST_MODEL_NAME_MAX - HASH_DIGITS - 1;
    if (out->length - start > kept)
        out->length = start + kept;
    kg_buf_printf(out, "_%0*" PRIx64, HASH_DIGITS,
                  stable_hash(name) & ((UINT64_C(1) << (4 * HASH_DIGITS)) - 1));
}
