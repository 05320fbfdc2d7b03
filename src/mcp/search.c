/*
 * Fewer tools in a model's context: a client that wants it so is offered three tools in place of
 * all: one finds tools by words, one describes a tool, one calls it. What can be found and called
 * is what the client would have been listed, no more. Words are looked for by FTS5, in an index in
 * memory that is made when it is first needed and made again when the list is another one.
 */
#include "mcp/internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#define WORDS_MAX       16
#define QUERY_MAX_BYTES 512
#define SUMMARY_BYTES   200 /* of a description among those that were found */
#define FOUND_DEFAULT   10
#define FOUND_MAX       50

/* Of one list of tools; the newest first. */
struct mcp_index {
    struct mcp_index *next;
    uint64_t digest;
    sqlite3 *db;
};
#define INDEXES_MAX 4

/* -- the three --------------------------------------------------------------------------------- */

static const struct {
    const char *name, *definition; /* the members of the tool behind its name */
} offered[] = {
    {"find_tools",
     "\"description\":\"Finds tools by words over their names, descriptions and parameters, the "
     "best first. Many more tools are there than are listed: look here before you say that "
     "something cannot be done.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"words\":{"
     "\"type\":\"string\",\"description\":\"What the tool should do, in a few words; empty: all.\"}"
     ",\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":50}},\"required\":[\"words\"]},"
     "\"annotations\":{\"readOnlyHint\":true}"},
    {"describe_tool",
     "\"description\":\"Says what a tool does and which arguments it takes.\",\"inputSchema\":{"
     "\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]},"
     "\"annotations\":{\"readOnlyHint\":true}"},
    {"call_tool",
     "\"description\":\"Calls a tool by its name, with its arguments.\",\"inputSchema\":{\"type\":"
     "\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"arguments\":{\"type\":\"object\"}"
     "},\"required\":[\"name\"]}"},
};

void mcp_search_put(struct kg_json_writer *json)
{
    kg_json_begin(json, '[');
    for (size_t i = 0; i < KG_COUNT(offered); i++) {
        kg_auto(kg_free) char *tool =
            kg_format("{\"name\":\"%s\",%s}", offered[i].name, offered[i].definition);
        kg_json_raw(json, kg_str(tool));
    }
    kg_json_end(json, ']');
}

/* -- the index --------------------------------------------------------------------------------- */

static void index_free(struct mcp_index *index)
{
    sqlite3_close(index->db);
    free(index);
}

void mcp_search_close(struct mcp *mcp)
{
    while (mcp->indexes != NULL) {
        struct mcp_index *index = mcp->indexes;
        mcp->indexes = index->next;
        index_free(index);
    }
}

/* "listOpenIssues" has the words of "list Open Issues", too. */
static void put_parted(struct kg_buf *out, struct kg_str name)
{
    kg_buf_str(out, name);
    kg_buf_char(out, ' ');
    for (size_t i = 0; i < name.length; i++) {
        bool begins =
            i > 0 && kg_is_lower(name.data[i - 1]) && name.data[i] >= 'A' && name.data[i] <= 'Z';
        if (begins)
            kg_buf_char(out, ' ');
        kg_buf_char(out, name.data[i]);
    }
}

/* Names and descriptions of parameters, as deep as one looks at them. */
static void mcp_search_put_parameters(struct kg_buf *out, const struct kg_node *schema)
{
    const struct kg_node *properties = kg_node_typed(schema, "properties", KG_OBJECT);
    for (uint32_t i = 0; properties != NULL && i < properties->count; i++) {
        const struct kg_member *member = &properties->members[i];
        put_parted(out, member->key);
        kg_buf_char(out, ' ');
        kg_buf_str(out, kg_node_text(&member->value, "description"));
        kg_buf_char(out, ' ');
    }
}

struct filling {
    const struct mcp_scope *scope;
    sqlite3_stmt *insert;
};

static void bind_text(sqlite3_stmt *statement, int at, struct kg_str text)
{
    sqlite3_bind_text(statement, at, text.length > 0 ? text.data : "", (int)text.length,
                      SQLITE_TRANSIENT);
}

static bool add_tool(void *data, const struct mcp_tool *tool)
{
    struct filling *filling = data;
    kg_auto(kg_buf_free) struct kg_buf name = {0}, words = {0}, parameters = {0};
    const char *description = tool->declared->description;
    mcp_tool_put_name(filling->scope, tool, &name);
    put_parted(&words, kg_buf_view(&name));
    mcp_search_put_parameters(&parameters, tool->declared->parameters_node);
    bind_text(filling->insert, 1, kg_buf_view(&name));
    bind_text(filling->insert, 2, kg_buf_view(&words));
    bind_text(filling->insert, 3, kg_str(description != NULL ? description : ""));
    bind_text(filling->insert, 4, kg_buf_view(&parameters));
    bool is_added = sqlite3_step(filling->insert) == SQLITE_DONE;
    sqlite3_reset(filling->insert);
    return is_added;
}

static sqlite3 *mcp_search_make(const struct mcp_scope *scope)
{
    static const char schema[] =
        "CREATE VIRTUAL TABLE tools USING fts5(tool UNINDEXED, name, description, parameters, "
        "tokenize='porter unicode61'); BEGIN;";
    struct filling filling = {.scope = scope};
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
            SQLITE_OK &&
        sqlite3_exec(db, schema, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "INSERT INTO tools VALUES (?,?,?,?)", -1, &filling.insert, NULL) ==
            SQLITE_OK) {
        mcp_tools_walk(scope, add_tool, &filling);
        sqlite3_finalize(filling.insert);
        if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
            return db;
    }
    kg_log(KG_ERROR_LEVEL, "the index of tools: %s", sqlite3_errmsg(db));
    sqlite3_close(db);
    return NULL;
}

/* NULL: it cannot be made. */
static sqlite3 *mcp_search_index_of(const struct mcp_scope *scope)
{
    struct mcp *mcp = scope->mcp;
    uint64_t digest = mcp_tools_all_digest(scope);
    struct mcp_index **at = &mcp->indexes;
    for (size_t i = 0; *at != NULL; at = &(*at)->next, i++) {
        if ((*at)->digest == digest)
            return (*at)->db;
        if (i + 1 < INDEXES_MAX)
            continue;
        index_free(*at);
        *at = NULL;
        break;
    }
    sqlite3 *db = mcp_search_make(scope);
    if (db == NULL)
        return NULL;
    struct mcp_index *index = kg_alloc(sizeof(*index));
    *index = (struct mcp_index){mcp->indexes, digest, db};
    mcp->indexes = index;
    return db;
}

/* -- finding ----------------------------------------------------------------------------------- */

/* Each word by its beginning, any of them; whatever FTS5 would read as more is not part of a word.
 */
static void put_match(struct kg_buf *out, struct kg_str words)
{
    size_t count = 0, at = 0;
    while (at < words.length && count < WORDS_MAX) {
        size_t begin = at;
        while (at < words.length &&
               ((unsigned char)words.data[at] >= 0x80 || kg_is_letter_or_digit(words.data[at])))
            at++;
        if (at > begin) {
            kg_buf_printf(out, "%s\"%.*s\"*", count > 0 ? " OR " : "", (int)(at - begin),
                          words.data + begin);
            count++;
        }
        at += at < words.length;
    }
}

static void mcp_search_put_found(struct kg_json_writer *json, sqlite3_stmt *found)
{
    const char *description = (const char *)sqlite3_column_text(found, 1);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", (const char *)sqlite3_column_text(found, 0));
    struct kg_str summary = kg_str(description != NULL ? description : "");
    if (summary.length > SUMMARY_BYTES)
        summary = kg_str_first(summary, SUMMARY_BYTES);
    summary.length = kg_utf8_valid(summary);
    if (summary.length > 0)
        kg_json_named_str(json, "description", summary);
    kg_json_end(json, '}');
}

/* A list of names with the beginnings of their descriptions; the best first, by bm25. */
static int mcp_search_find(const struct mcp_scope *scope, struct kg_str words, int64_t limit,
                           struct kg_buf *ret_json)
{
    kg_auto(kg_buf_free) struct kg_buf match = {0};
    struct kg_json_writer json = kg_json_writer(ret_json);
    sqlite3 *db = mcp_search_index_of(scope);
    sqlite3_stmt *found = NULL;
    put_match(&match, words);
    const char *sql = match.length > 0
                          ? "SELECT tool, description FROM tools WHERE tools MATCH ?1 "
                            "ORDER BY bm25(tools, 0, 10, 5, 2), tool LIMIT ?2"
                          : "SELECT tool, description FROM tools ORDER BY tool LIMIT ?2";
    if (db == NULL || sqlite3_prepare_v2(db, sql, -1, &found, NULL) != SQLITE_OK)
        return -EIO;
    if (match.length > 0)
        bind_text(found, 1, kg_buf_view(&match));
    sqlite3_bind_int64(found, 2, limit);
    kg_json_begin(&json, '[');
    while (sqlite3_step(found) == SQLITE_ROW)
        mcp_search_put_found(&json, found);
    kg_json_end(&json, ']');
    sqlite3_finalize(found);
    return 0;
}

/* -- answers ----------------------------------------------------------------------------------- */

static void answer_find(struct mcp_exchange *exchange, const struct kg_node *arguments)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    struct kg_str words = kg_node_text(arguments, "words");
    const struct kg_node *limit = kg_node_get(arguments, "limit");
    int64_t most = limit != NULL ? kg_node_number(arguments, "limit") : FOUND_DEFAULT;
    if (kg_node_typed(arguments, "words", KG_STRING) == NULL || words.length > QUERY_MAX_BYTES)
        mcp_reply_text(exchange, KG_STR("words must be a text of at most 512 bytes"), true);
    else if (most < 1 || most > FOUND_MAX)
        mcp_reply_text(exchange, KG_STR("limit must be a number from 1 to 50"), true);
    else if (mcp_search_find(&exchange->scope, words, most, &json) < 0)
        mcp_reply_text(exchange, KG_STR("tools cannot be searched now"), true);
    else
        mcp_reply_text(exchange, kg_buf_view(&json), false);
}

static void answer_describe(struct mcp_exchange *exchange, const struct kg_node *arguments)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    struct mcp_tool tool;
    struct kg_err err;
    if (mcp_tool_find(&exchange->scope, kg_node_text(arguments, "name"), &tool, &err) < 0) {
        kg_buf_printf(&text, "%s\nfind_tools finds tools by words", err.message);
        mcp_reply_text(exchange, kg_buf_view(&text), true);
        return;
    }
    mcp_tool_put(&exchange->scope, &tool, &json);
    mcp_reply_text(exchange, kg_buf_view(&text), false);
}

enum mcp_searching mcp_search_call(struct mcp_exchange *exchange, const char *name,
                                   struct kg_str arguments)
{
    if (!mcp_searches(&exchange->scope))
        return MCP_SEARCH_NONE;
    if (strcmp(name, "call_tool") == 0)
        return MCP_SEARCH_CALL;
    bool finds = strcmp(name, "find_tools") == 0;
    if (!finds && strcmp(name, "describe_tool") != 0)
        return MCP_SEARCH_NONE;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(arguments, NULL);
    if (doc == NULL)
        mcp_reply_text(exchange, KG_STR("a key of the arguments is given twice"), true);
    else
        (finds ? answer_find : answer_describe)(exchange, doc->root);
    return MCP_SEARCH_ANSWERED;
}

/* -- what it saves ----------------------------------------------------------------------------- */

static int64_t mcp_search_count_characters(struct kg_str text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return count;
}

void mcp_search_note(const struct mcp_scope *scope, struct kg_str list, struct mcp_last *last)
{
    kg_auto(kg_buf_free) struct kg_buf all = {0};
    struct kg_json_writer json = kg_json_writer(&all);
    last->characters = mcp_search_count_characters(list);
    last->saved = 0;
    if (!mcp_searches(scope))
        return;
    mcp_tools_put_all(scope, &json);
    last->saved = mcp_search_count_characters(kg_buf_view(&all)) - last->characters;
}
