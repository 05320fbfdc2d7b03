/*
 * Names of tools on the wire and back. The encoding of two names is never the same but by a
 * collision of hashes, and no encoding needs a table to be read, except of names that had to be
 * cut.
 *
 *   fs.read_file -> fs__read_file      a._b -> a___b      a_.b -> a_-5f__b
 */
#include "session/model/internal.h"

#define CUT_MARK   "_-h"
#define HASH_CHARS 16
#define CUT_LENGTH (NAME_ON_WIRE_MAX - (sizeof(CUT_MARK) - 1) - HASH_CHARS)

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A "_" stands for itself where neither "_" nor "-" follows it on the wire. */
static bool stands_for_itself(struct kg_str name, size_t at)
{
    if (is_plain(name.data[at]) || name.data[at] == '-')
        return true;
    return name.data[at] == '_' && (at + 1 == name.length || is_plain(name.data[at + 1]));
}

static void encode_whole(struct kg_str name, struct kg_buf *out)
{
    for (size_t i = 0; i < name.length; i++) {
        if (stands_for_itself(name, i))
            kg_buf_char(out, name.data[i]);
        else if (name.data[i] == '.')
            kg_buf_text(out, "__");
        else
            kg_buf_printf(out, "_-%02x", (unsigned char)name.data[i]);
    }
}

/* FNV-1a: the same in every process, unlike kg_hash. */
static uint64_t hash_of(struct kg_str name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < name.length; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void name_encode(struct kg_str name, struct kg_buf *out)
{
    size_t start = out->length;
    encode_whole(name, out);
    if (out->length - start <= NAME_ON_WIRE_MAX)
        return;
    out->length = start + CUT_LENGTH;
    kg_buf_printf(out, CUT_MARK "%016llx", (unsigned long long)hash_of(name));
}

bool name_is_cut(struct kg_str name)
{
    kg_auto(kg_buf_free) struct kg_buf whole = {0};
    encode_whole(name, &whole);
    return whole.length > NAME_ON_WIRE_MAX;
}

static bool decode_cut(struct kg_str wire, char *const *known, struct kg_buf *out)
{
    for (; known != NULL && *known != NULL; known++) {
        kg_auto(kg_buf_free) struct kg_buf encoded = {0};
        name_encode(kg_str(*known), &encoded);
        if (!kg_str_equal(kg_buf_view(&encoded), wire))
            continue;
        kg_buf_text(out, *known);
        return true;
    }
    return false;
}

/* The byte that "_-5f" stands for, or -1. */
static int escaped_byte(struct kg_str rest)
{
    if (rest.length < 4 || rest.data[0] != '_' || rest.data[1] != '-')
        return -1;
    int high = kg_hex_digit(rest.data[2]), low = kg_hex_digit(rest.data[3]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void name_decode(struct kg_str wire, char *const *known, struct kg_buf *out)
{
    if (decode_cut(wire, known, out))
        return;
    for (size_t i = 0; i < wire.length;) {
        struct kg_str rest = {wire.data + i, wire.length - i};
        int byte = escaped_byte(rest);
        if (byte >= 0) {
            kg_buf_char(out, (char)byte);
            i += 4;
        } else if (kg_str_starts(rest, "__")) {
            kg_buf_char(out, '.');
            i += 2;
        } else {
            kg_buf_char(out, wire.data[i++]);
        }
    }
}
