/* What may become an entry: everything that a draft says is checked here, before it is written. */
#include "session/internal.h"

#include <errno.h>

/* -- content ----------------------------------------------------------------------------------- */

/* How deep valid JSON is nested. */
static unsigned depth_of(struct kg_str json)
{
    unsigned depth = 0, deepest = 0;
    struct kg_json_cursor cursor = {json.data, json.data + json.length};
    while (cursor.at < cursor.end) {
        char c = *cursor.at;
        struct kg_str raw;
        bool escaped;
        if (c == '"') {
            if (kg_json_skip_string(&cursor, &raw, &escaped) != KG_JSON_OK)
                break;
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth > deepest)
            deepest = depth;
        cursor.at++;
    }
    return deepest;
}

static int check_json(struct kg_str content, struct kg_err *err)
{
    if (content.length > SESSION_CONTENT_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "content: it has %zu bytes, and the maximum is %d",
                       content.length, SESSION_CONTENT_MAX);
    size_t offset = 0;
    enum kg_json_fault fault = kg_json_check(content, &offset);
    if (fault != KG_JSON_OK)
        return kg_fail(err, KG_E_PARSE, "content: not JSON: %s (byte %zu)",
                       kg_json_fault_text(fault), offset);
    if (depth_of(content) > SESSION_DEPTH_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS, "content: nested deeper than %d",
                       SESSION_DEPTH_MAX);
    return 0;
}

static char first_byte(struct kg_str json)
{
    struct kg_json_cursor cursor = {json.data, json.data + json.length};
    kg_json_skip_space(&cursor);
    return *cursor.at;
}

static int session_check_content(const struct session_draft *draft, struct kg_err *err)
{
    int result = check_json(draft->content, err);
    if (result < 0)
        return result;
    struct kg_str name;
    if (draft->kind == SESSION_INJECTION && first_byte(draft->content) != '"')
        return kg_fail(err, KG_E_INVALID_PARAMS, "content: that of an injection must be a string");
    if (draft->kind == SESSION_TOOL_CALL &&
        (!kg_json_member(draft->content, "name", &name) || name.data[0] != '"'))
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "content: that of a tool call must be an object with the tool's \"name\"");
    return 0;
}

/* -- the rest ---------------------------------------------------------------------------------- */

int session_check_agent(const char *agent, struct kg_err *err)
{
    if (agent != NULL && session_agent_is_valid(kg_str(agent)))
        return 0;
    kg_fail(err, KG_E_INVALID_PARAMS, "\"%.*s\" is not the path of an agent",
            KG_STR_CUT(kg_str(agent ? agent : ""), KG_CUT_NAME));
    return kg_hint(err, "\"primary\", or \"primary.subagents.NAME\" and so on");
}

/* ^[a-z][a-z0-9-]*$: it becomes part of a delimiter. */
static bool is_plugin_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return name[0] >= 'a' && name[0] <= 'z' && name[length] == '\0' && length <= SESSION_SOURCE_MAX;
}

static int session_check_source(const struct session_draft *draft, struct kg_err *err)
{
    if (draft->source != NULL && !is_plugin_name(draft->source))
        return kg_fail(err, KG_E_INVALID_PARAMS, "source: it is not the name of a plugin");
    if (draft->source == NULL && draft->kind == SESSION_INJECTION)
        return kg_fail(err, KG_E_INVALID_PARAMS, "source: an injection names its plugin");
    return 0;
}

int session_check_draft(const struct session_draft *draft, struct kg_err *err)
{
    const struct session_kind_row *row = session_kind_row(draft->kind);
    if (!row->appendable)
        return kg_fail(err, KG_E_INVALID_PARAMS, "kind %s: only a compaction makes it", row->name);
    if (!(row->roles & 1u << draft->role))
        return kg_fail(err, KG_E_INVALID_PARAMS, "kind %s: its role cannot be %s", row->name,
                       session_role_names[draft->role]);
    if (draft->parent == NULL && draft->kind == SESSION_TOOL_RESULT)
        return kg_fail(err, KG_E_INVALID_PARAMS, "parent: a tool result names its call");
    bool is_task = draft->kind == SESSION_MESSAGE && draft->role == SESSION_USER;
    if (draft->parent != NULL && draft->kind != SESSION_TOOL_RESULT &&
        draft->kind != SESSION_INJECTION && !is_task)
        return kg_fail(err, KG_E_INVALID_PARAMS, "kind %s: it has no parent", row->name);
    if (draft->first && draft->parent != NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "first: an entry with a parent comes after it");
    int result = session_check_agent(draft->agent, err);
    if (result == 0)
        result = session_check_source(draft, err);
    return result < 0 ? result : session_check_content(draft, err);
}

static int check_word(const char *what, const char *word, size_t max, struct kg_err *err)
{
    if (word == NULL || word[0] == '\0')
        return kg_fail(err, KG_E_INVALID_PARAMS, "%s: it is missing", what);
    if (strlen(word) > max)
        return kg_fail(err, KG_E_TOO_LARGE, "%s: the maximum is %zu bytes", what, max);
    if (kg_utf8_valid(kg_str(word)) != strlen(word))
        return kg_fail(err, KG_E_INVALID_PARAMS, "%s: not UTF-8", what);
    return 0;
}

int session_check_new(const struct session_new *new, struct kg_err *err)
{
    int result = check_word("project_id", new->project_id, SESSION_WORD_MAX, err);
    if (result == 0)
        result = check_word("operator_id", new->operator_id, SESSION_WORD_MAX, err);
    if (result == 0)
        result = check_word("workdir", new->workdir, SESSION_WORKDIR_MAX, err);
    if (result == 0 && new->workdir[0] != '/')
        result = kg_fail(err, KG_E_INVALID_PARAMS, "workdir %s: it must be absolute", new->workdir);
    if (result == 0 && new->title != NULL)
        result = check_word("title", new->title, SESSION_TITLE_MAX, err);
    if (result == 0 && new->seat != NULL)
        result = session_check_agent(new->seat, err);
    return result;
}
