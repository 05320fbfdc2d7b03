/*
 * Any bytes as what a plugin returns to a session: a compactor's result, a hook's result, a text to
 * wrap; or as what is in an entry. A result that is taken agrees with a slow look at its tree:
 * nothing that has to stay is missing, nothing is changed, moved or torn apart. No text keeps a
 * delimiter. Whatever entries say, models can be asked with the conversation.
 */
#include "session/session.h"
#include "host/hooks.h"

#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* -- a small context, with short names for its messages ---------------------------------------- */

static const struct {
    const char *id, *parent, *source;
    enum session_kind kind;
    enum session_role role;
    const char *content;
    bool pinned;
} rows[] = {
    {"A", "", NULL, SESSION_MESSAGE, SESSION_SYSTEM, "\"s\"", false},
    {"B", "", NULL, SESSION_MESSAGE, SESSION_USER, "{\"a\":[1,2.5,null],\"b\":\"\\u00e9\"}", false},
    {"C", "", NULL, SESSION_TOOL_CALL, SESSION_ASSISTANT, "{\"name\":\"x\"}", false},
    {"D", "C", NULL, SESSION_TOOL_RESULT, SESSION_TOOL, "\"<plugin:x>\"", false},
    {"E", "M", "p", SESSION_INJECTION, SESSION_SYSTEM, "\"note\"", false},
    {"F", "", NULL, SESSION_MESSAGE, SESSION_ASSISTANT, "\"pinned\"", true},
    {"G", "", NULL, SESSION_MESSAGE, SESSION_ASSISTANT,
     "\"long enough for others to take its place and still have saved some of the tokens\"", false},
};

static struct session_compaction *some_compaction(void)
{
    struct session_entries entries = {0};
    struct session_compaction *compaction = NULL;
    const struct session_compaction_options options = {.strategy = SESSION_BY_DELEGATE,
                                                       .trigger = "fuzz"};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct session_entry entry = {.seq = i + 1,
                                      .kind = rows[i].kind,
                                      .role = rows[i].role,
                                      .agent = "primary",
                                      .source = rows[i].source,
                                      .pinned = rows[i].pinned,
                                      .tokens = session_tokens(kg_str(rows[i].content), NULL),
                                      .content = kg_str(rows[i].content)};
        strcpy(entry.id.text, rows[i].id);
        strcpy(entry.parent.text, rows[i].parent);
        session_entries_add(&entries, &entry);
    }
    must(session_compaction_new(&entries, &options, &compaction, NULL) == 0);
    return compaction;
}

/* -- the slow look ----------------------------------------------------------------------------- */

static bool same(const struct kg_node *a, const struct kg_node *b);

static bool same_members(const struct kg_node *a, const struct kg_node *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const struct kg_member *other = kg_node_member(b, a->members[i].key);
        if (other == NULL || !same(&a->members[i].value, &other->value))
            return false;
    }
    return true;
}

static double number_of(const struct kg_node *node)
{
    kg_auto(kg_free) char *text = kg_str_dup(node->text);
    return strtod(text, NULL);
}

static bool same(const struct kg_node *a, const struct kg_node *b)
{
    if (a->type != b->type || (a->type == KG_BOOL && a->boolean != b->boolean))
        return false;
    if (a->type == KG_STRING)
        return kg_str_equal(a->text, b->text);
    if (a->type == KG_NUMBER)
        return number_of(a) == number_of(b);
    if (a->type != KG_ARRAY && a->type != KG_OBJECT)
        return true;
    if (a->count != b->count)
        return false;
    if (a->type == KG_OBJECT)
        return same_members(a, b);
    for (uint32_t i = 0; i < a->count; i++)
        if (!same(&a->items[i], &b->items[i]))
            return false;
    return true;
}

static const struct kg_node *given(const struct kg_node *message, const char *key)
{
    const struct kg_node *node = kg_node_get(message, key);
    return node != NULL && node->type != KG_NULL ? node : NULL;
}

/* An old message is as it was told. */
static void agrees(const struct kg_node *message, const struct session_entry *entry)
{
    kg_auto(kg_buf_free) struct kg_buf told = {0};
    struct kg_json_writer writer = kg_json_writer(&told);
    session_message_write(entry, &writer);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&told), NULL);
    must(doc != NULL);
    static const char *const keys[] = {"role", "content"};
    for (size_t i = 0; i < KG_COUNT(keys); i++)
        if (given(message, keys[i]) != NULL)
            must(same(given(message, keys[i]), kg_node_get(doc->root, keys[i])));
}

static void check_taken(const struct session_compaction *compaction, const struct kg_node *root)
{
    const struct kg_node *messages = kg_node_get(root, "messages");
    size_t next = 0, added = 0, kept = 0;
    bool stays, goes, kept_rows[KG_COUNT(rows)] = {false};
    must(kg_str_is(kg_node_get(root, "role")->text, "compactor"));
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct kg_node *id = given(&messages->items[i], "id");
        if (id == NULL) {
            must(given(&messages->items[i], "content")->type == KG_STRING);
            added++;
            continue;
        }
        while (!kg_str_is(id->text, rows[next].id))
            must(++next < KG_COUNT(rows)); /* in order, and each once */
        agrees(&messages->items[i], session_compaction_entry(compaction, next, &stays, &goes));
        must(!goes);
        kept_rows[next++] = true;
        kept++;
    }
    must(kept_rows[0] && kept_rows[1] && kept_rows[5] && kept_rows[2] == kept_rows[3]);
    struct session_compaction_sums sums = session_compaction_sums(compaction);
    must(sums.added == added && sums.kept == kept && sums.tokens_after < sums.tokens_before);
}

static void fuzz_compactor(struct kg_str text)
{
    struct kg_err err = {0};
    enum session_fault fault;
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction = some_compaction();
    kg_auto(kg_buf_free) struct kg_buf payload = {0};
    int result = session_compaction_take_result(compaction, "c", text, &fault, &err);
    must((result == 0) == (fault == SESSION_FAULT_NONE));
    if (result == 0) {
        /* The tree refuses a key given twice; here that is refused only where it matters. */
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, &err);
        if (doc != NULL)
            check_taken(compaction, doc->root);
        else
            must(strstr(err.message, "is given twice") != NULL);
    } else {
        must(err.message[0] != '\0');
        session_compaction_fall_back(compaction, session_fault_names[fault]);
        must(session_compaction_sums(compaction).added == 0);
    }
    session_compaction_payload(compaction, "observer", 700, &payload, NULL);
    must(kg_json_check(kg_buf_view(&payload), NULL) == KG_JSON_OK);
    must(memchr(payload.data, '\n', payload.length) == NULL);
}

/* -- hooks and texts --------------------------------------------------------------------------- */

static void fuzz_hooks(struct kg_str text)
{
    for (int hook = 0; hook < MANIFEST_HOOK_COUNT; hook++) {
        kg_auto(host_hook_result_free) struct host_hook_result result = {0};
        kg_auto(kg_buf_free) struct kg_buf said = {0};
        struct kg_err err = {0};
        if (host_hook_result_read((enum manifest_hook)hook, text, &result, &err) < 0) {
            must(err.message[0] != '\0');
            continue;
        }
        host_hook_result_text(&result, &said);
        must(kg_utf8_valid(kg_buf_view(&said)) == said.length);
        must(said.length == 0 || host_hook_row((enum manifest_hook)hook)->powers != 0);
    }
}

static size_t delimiters(struct kg_buf *buf)
{
    size_t count = 0;
    kg_buf_terminate(buf);
    for (size_t i = 0; i + 8 <= buf->length; i++)
        count += strncasecmp(buf->data + i, "<plugin", 7) == 0 ||
                 strncasecmp(buf->data + i, "</plugin", 8) == 0;
    return count;
}

/* All delimiters are the plugin's own, and the first is closed by the last and by no other. */
static void check_wrapped(struct kg_buf *wrapped, const char *open, const char *close)
{
    size_t own = 0, depth = 0;
    kg_buf_terminate(wrapped);
    for (size_t i = 0; i < wrapped->length; i++) {
        bool opens = strncmp(wrapped->data + i, open, strlen(open)) == 0;
        bool closes = strncmp(wrapped->data + i, close, strlen(close)) == 0;
        must(!closes || depth > 0);
        depth += opens;
        depth -= closes;
        own += opens || closes;
        must(depth > 0 || i + strlen(close) == wrapped->length ||
             i > wrapped->length - strlen(close));
    }
    must(depth == 0 && own == delimiters(wrapped));
}

static void fuzz_texts(struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf wrapped = {0}, json = {0};
    text.length = kg_utf8_valid(text);
    session_wrap("memory", text, &wrapped);
    check_wrapped(&wrapped, "<plugin:memory>", "</plugin:memory>");
    if (kg_json_check(text, NULL) != KG_JSON_OK)
        return;
    session_defuse_json(text, &json);
    must(kg_json_check(kg_buf_view(&json), NULL) == KG_JSON_OK && delimiters(&json) == 0);
}

/* -- conversations ----------------------------------------------------------------------------- */

static void add_entry(struct session_entries *entries, enum session_kind kind,
                      enum session_role role, const char *id, const char *parent,
                      struct kg_str content)
{
    struct session_entry entry = {.kind = kind,
                                  .role = role,
                                  .agent = "primary",
                                  .source = kind == SESSION_INJECTION ? "p" : NULL,
                                  .content = content};
    strcpy(entry.id.text, id);
    strcpy(entry.parent.text, parent);
    session_entries_add(entries, &entry);
}

/* Each call is followed by its result before anybody else speaks. */
static void check_calls(const struct kg_node *messages)
{
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct kg_node *calls = kg_node_get(&messages->items[i], "tool_calls");
        for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
            must(kg_node_get(&calls->items[k], "arguments")->type == KG_OBJECT);
            must(kg_str_equal(kg_node_get(&calls->items[k], "id")->text,
                              kg_node_get(&messages->items[++i], "tool_call_id")->text));
        }
    }
}

static void fuzz_conversation(struct kg_str text)
{
    struct kg_err err = {0};
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    kg_auto(session_conversation_clear) struct session_conversation conversation = {0};
    if (kg_json_check(text, NULL) != KG_JSON_OK)
        return;
    add_entry(&entries, SESSION_INJECTION, SESSION_SYSTEM, "A", "", KG_STR("\"a\""));
    add_entry(&entries, SESSION_MESSAGE, SESSION_USER, "B", "", text);
    add_entry(&entries, SESSION_TOOL_CALL, SESSION_ASSISTANT, "C", "", text);
    add_entry(&entries, SESSION_TOOL_CALL, SESSION_ASSISTANT, "D", "", text);
    add_entry(&entries, SESSION_TOOL_RESULT, SESSION_TOOL, "E", "C", text);
    add_entry(&entries, SESSION_MESSAGE, SESSION_SYSTEM, "F", "", text);
    session_conversation_write("prompt", &entries, &conversation);
    must(memchr(conversation.messages.data, '\n', conversation.messages.length) == NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_buf_view(&conversation.messages), &err);
    if (doc == NULL)
        must(strstr(err.message, "deeper") != NULL); /* no entry is nested so deep */
    else
        check_calls(doc->root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str text = {(const char *)data, size};
    fuzz_compactor(text);
    fuzz_hooks(text);
    fuzz_texts(text);
    fuzz_conversation(text);
    return 0;
}
