/*
 * What a result of an MCP server means. It is looked at on the way of every call, in a stranger's
 * words of any length: each object is gone through once, whatever is wanted of it.
 */
#include "dialect/mcp.h"

#include <strings.h>

#define WORDS_MAX_BYTES 200 /* of an answer that may say that there is no such tool */

/* -- words ------------------------------------------------------------------------------------- */

/* At the start of the words: a long answer is about something else. */
static bool has_phrase(struct kg_str words, const char *phrase)
{
    size_t length = strlen(phrase);
    for (size_t i = 0; i + length <= words.length && i < WORDS_MAX_BYTES; i++)
        if (strncasecmp(words.data + i, phrase, length) == 0)
            return true;
    return false;
}

/* Servers say it with six codes, or as a result; the words are nearly the same in all of them. */
bool mcp_says_unknown_tool(struct kg_str words)
{
    static const char *const phrases[] = {"unknown tool", "tool not found", "no such tool",
                                          "not found: tool", "invalid tool name"};
    for (size_t i = 0; i < KG_COUNT(phrases); i++)
        if (has_phrase(words, phrases[i]))
            return true;
    return has_phrase(words, "tool ") && has_phrase(words, " not found");
}

/* -- bytes, which are base64 ------------------------------------------------------------------- */

static bool is_base64_character(char c)
{
    return kg_is_letter_or_digit(c) || c == '+' || c == '/';
}

/* A string of JSON, with its quotes; a slash may be escaped there. */
static bool is_base64(struct kg_str json)
{
    size_t count = 0, at = 1, end = json.length - 1;
    if (json.length < 2 || json.data[0] != '"')
        return false;
    for (; at < end && json.data[at] != '='; at++) {
        if (json.data[at] == '\\' && at + 1 < end && json.data[at + 1] == '/')
            at++;
        if (!is_base64_character(json.data[at]))
            return false;
        count++;
    }
    size_t padding = end - at;
    for (; at < end && json.data[at] == '='; at++)
        count++;
    return at == end && padding <= 2 && count % 4 == 0;
}

/* -- one walk over all of it; it was found to be JSON when it came ----------------------------- */

/* At the value of the next member; false, and behind the object, after the last. */
static bool next_key(struct kg_json_cursor *cursor, struct kg_str *ret_raw, bool *ret_escaped)
{
    kg_json_skip_space(cursor);
    if (cursor->at < cursor->end && *cursor->at == ',') {
        cursor->at++;
        kg_json_skip_space(cursor);
    }
    bool is_key = cursor->at < cursor->end && *cursor->at == '"' &&
                  kg_json_skip_string(cursor, ret_raw, ret_escaped) == KG_JSON_OK;
    if (is_key)
        kg_json_skip_space(cursor);
    if (cursor->at < cursor->end)
        cursor->at++; /* the colon, or the bracket */
    kg_json_skip_space(cursor);
    return is_key;
}

/* Which of the keys it is; `count`: none of them. */
static size_t find_key(struct kg_str raw, bool escaped, const struct kg_str *keys, size_t count)
{
    size_t i = 0;
    while (i < count &&
           (escaped ? !kg_json_raw_is(raw, true, keys[i].data) : !kg_str_equal(raw, keys[i])))
        i++;
    return i;
}

enum { TYPE, DATA, BLOB, RESOURCE, CONTENT, BLOCK_KEYS };

/* At the opening bracket of a block; leaves the cursor behind it. */
static void walk_block(struct kg_json_cursor *cursor, struct kg_str ret_values[BLOCK_KEYS])
{
    const struct kg_str keys[] = {KG_STR("type"), KG_STR("data"), KG_STR("blob"),
                                  KG_STR("resource"), KG_STR("content")};
    struct kg_str key, value;
    bool escaped;
    memset(ret_values, 0, BLOCK_KEYS * sizeof(*ret_values));
    cursor->at++;
    while (next_key(cursor, &key, &escaped) && kg_json_skip_value(cursor, &value) == KG_JSON_OK) {
        size_t which = find_key(key, escaped, keys, BLOCK_KEYS);
        if (which < BLOCK_KEYS)
            ret_values[which] = value;
    }
}

/* Bytes that are there are base64; those of an image or a sound are there. */
static bool has_good_bytes(const struct kg_str values[BLOCK_KEYS])
{
    struct kg_str blob;
    bool is_media = kg_str_is(values[TYPE], "\"image\"") || kg_str_is(values[TYPE], "\"audio\"");
    if ((is_media && !is_base64(values[DATA])) ||
        (values[BLOB].length > 0 && !is_base64(values[BLOB])))
        return false;
    return values[RESOURCE].length == 0 || !kg_json_member(values[RESOURCE], "blob", &blob) ||
           is_base64(blob);
}

/* At the opening bracket of a block. A prompt's message has one more as its content. */
static bool is_good_block(struct kg_json_cursor *cursor)
{
    struct kg_str values[BLOCK_KEYS], inner[BLOCK_KEYS];
    walk_block(cursor, values);
    if (values[CONTENT].length == 0 || values[CONTENT].data[0] != '{')
        return has_good_bytes(values);
    struct kg_json_cursor inside = kg_json_inside(values[CONTENT]);
    inside.at--;
    walk_block(&inside, inner);
    return has_good_bytes(values) && has_good_bytes(inner);
}

/* At a value: a list of blocks is looked into, and anything else passed over. */
static bool is_good_list(struct kg_json_cursor *cursor)
{
    bool is_good = true;
    struct kg_str item;
    if (*cursor->at != '[')
        return kg_json_skip_value(cursor, &item) == KG_JSON_OK;
    cursor->at++;
    kg_json_skip_space(cursor);
    while (cursor->at < cursor->end && *cursor->at != ']') {
        if (*cursor->at == '{')
            is_good = is_good_block(cursor) && is_good;
        else if (*cursor->at == ',')
            cursor->at++;
        else if (kg_json_skip_value(cursor, &item) != KG_JSON_OK)
            return false;
        kg_json_skip_space(cursor);
    }
    cursor->at++;
    return is_good;
}

/* The text of the first block, which says what went wrong in a result that is an error. */
static struct kg_str first_text(struct kg_str content)
{
    struct kg_str block, text;
    if (content.length == 0 || content.data[0] != '[')
        return KG_STR_NULL;
    struct kg_json_cursor cursor = kg_json_inside(content);
    return kg_json_next_item(&cursor, &block) && kg_json_member(block, "text", &text) ? text
                                                                                      : KG_STR_NULL;
}

enum mcp_verdict mcp_judge(struct kg_str result)
{
    enum { OF_TOOL, OF_RESOURCE, OF_PROMPT, LISTS, IS_ERROR = LISTS, RESULT_TYPE, KEYS };
    const struct kg_str keys[] = {KG_STR("content"), KG_STR("contents"), KG_STR("messages"),
                                  KG_STR("isError"), KG_STR("resultType")};
    struct kg_str found[KEYS + 1] = {{0}}, key, value;
    bool escaped, is_good = true;
    if (result.length == 0 || result.data[0] != '{')
        return MCP_NO_OBJECT;
    struct kg_json_cursor cursor = kg_json_inside(result);
    while (next_key(&cursor, &key, &escaped)) {
        size_t which = find_key(key, escaped, keys, KEYS);
        const char *start = cursor.at;
        if (which < LISTS)
            is_good = is_good_list(&cursor) && is_good;
        else if (kg_json_skip_value(&cursor, &value) != KG_JSON_OK)
            break;
        found[which] = (struct kg_str){start, (size_t)(cursor.at - start)};
    }
    if (kg_str_is(found[RESULT_TYPE], "\"input_required\""))
        return MCP_ASKS;
    if (kg_str_is(found[IS_ERROR], "true") && mcp_says_unknown_tool(first_text(found[OF_TOOL])))
        return MCP_NO_SUCH_TOOL;
    if (!is_good)
        return MCP_BAD_BYTES;
    return kg_str_is(found[IS_ERROR], "true") ? MCP_FAILED : MCP_COMPLETE;
}
