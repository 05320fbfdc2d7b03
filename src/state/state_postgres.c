/*
 * The state by PostgreSQL, beside a kaged.db that has what is the node's own: its audit log's head,
 * what its operator said of plugins, which of them failed and what scripts were granted.
 */
#include "state/postgres.h"

#include <errno.h>
#include <stdlib.h>

/* -- its life ---------------------------------------------------------------------------------- */

static struct state *handle_new(const char *place, struct state *local, bool readonly)
{
    if (local == NULL)
        return NULL;
    local->backend = &state_sqlite;
    struct postgres_state *state = kg_alloc(sizeof(*state));
    state->local = local;
    state->postgres.target = state_cluster_target(place);
    state->postgres.purpose = readonly ? "reader" : "writer";
    state->postgres.readonly = readonly;
    return &state->base;
}

static struct state *pg_open(const char *place, struct kg_err *err)
{
    return handle_new(place, state_sqlite.open(place, err), false);
}

static struct state *pg_open_readonly(const char *place, struct kg_err *err)
{
    return handle_new(place, state_sqlite.open_readonly(place, err), true);
}

static void pg_close(struct state *base)
{
    struct postgres_state *state = postgres_own(base);
    postgres_disconnect(&state->postgres);
    state_close(state->local);
    free(state);
}

/* -- what is the node's own -------------------------------------------------------------------- */

static struct state *state_postgres_local_of(struct state *state)
{
    return postgres_own(state)->local;
}

static int pg_audit_head_get(struct state *state, struct state_audit_head *ret_head,
                             bool *ret_found, struct kg_err *err)
{
    return state_audit_head_get(state_postgres_local_of(state), ret_head, ret_found, err);
}

static int pg_audit_head_set(struct state *state, const struct state_audit_head *head, bool synced,
                             struct kg_err *err)
{
    return state_sqlite.audit_head_set(state_postgres_local_of(state), head, synced, err);
}

static int pg_plugin_choice_set(struct state *state, const struct state_plugin_choice *choice,
                                struct kg_err *err)
{
    return state_plugin_choice_set(state_postgres_local_of(state), choice, err);
}

static int pg_plugin_choices(struct state *state, state_plugin_choice_fn *visit, void *data,
                             struct kg_err *err)
{
    return state_plugin_choices(state_postgres_local_of(state), visit, data, err);
}

static int pg_failure_set(struct state *state, const struct state_failure *failure,
                          struct kg_err *err)
{
    return state_failure_set(state_postgres_local_of(state), failure, err);
}

static int pg_failures(struct state *state, state_failure_fn *visit, void *data, struct kg_err *err)
{
    return state_failures(state_postgres_local_of(state), visit, data, err);
}

static int pg_script_grant_set(struct state *state, const struct state_script_grant *grant,
                               struct kg_err *err)
{
    return state_script_grant_set(state_postgres_local_of(state), grant, err);
}

static int pg_script_grants(struct state *state, state_script_grant_fn *visit, void *data,
                            struct kg_err *err)
{
    return state_script_grants(state_postgres_local_of(state), visit, data, err);
}

/* -- prompts that a plugin could write --------------------------------------------------------- */

static int pg_prompt_set(struct state *state, const struct state_prompt *prompt, struct kg_err *err)
{
    return postgres_run(state, PG_PROMPT_SET, err, "ttt", prompt->project, prompt->path,
                        prompt->hash);
}

static int pg_prompts(struct state *state, state_prompt_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PROMPTS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_prompt){postgres_text(&row, 0), postgres_text(&row, 1),
                                           postgres_text(&row, 2)});
    return 0;
}

/* -- questions --------------------------------------------------------------------------------- */

static int pg_question_set(struct state *state, const struct state_question *question,
                           struct kg_err *err)
{
    int result =
        postgres_run(state, PG_QUESTION_SET, err, "ttttttttiitti", question->id, question->session,
                     question->agent, question->plugin, question->kind, question->title,
                     question->schema, question->url, question->asked_ms, question->deadline_ms,
                     question->state, question->answered_by, question->ended_ms);
    return result < 0 ? result
                      : postgres_run(state, PG_QUESTIONS_CUT, err, "ti", question->session,
                                     (int64_t)STATE_QUESTIONS_KEPT);
}

static const char *text_or_empty(const struct postgres_row *row, int column)
{
    const char *text = postgres_text(row, column);
    return text ? text : "";
}

static int pg_questions(struct state *state, const char *session, state_question_fn *visit,
                        void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_QUESTIONS, &row, err, "t", session);
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_question){
                        .id = postgres_text(&row, 0),
                        .session = postgres_text(&row, 1),
                        .agent = text_or_empty(&row, 2),
                        .plugin = postgres_text(&row, 3),
                        .kind = postgres_text(&row, 4),
                        .title = postgres_text(&row, 5),
                        .schema = text_or_empty(&row, 6),
                        .url = text_or_empty(&row, 7),
                        .asked_ms = postgres_int(&row, 8),
                        .deadline_ms = postgres_int(&row, 9),
                        .state = postgres_text(&row, 10),
                        .answered_by = text_or_empty(&row, 11),
                        .ended_ms = postgres_int(&row, 12),
                    });
    return 0;
}

/* -- credentials ------------------------------------------------------------------------------- */

static const char *const kind_names[] = {[STATE_TOKEN] = "token", [STATE_SESSION] = "session"};

static int pg_credential_add(struct state *state, const struct state_credential *credential,
                             struct kg_err *err)
{
    return postgres_run(
        state, PG_CREDENTIAL_ADD, err, "ttbtttiitt", credential->id, kind_names[credential->kind],
        (struct kg_str){(const char *)credential->hash, STATE_HASH_BYTES}, credential->name,
        credential->scopes, credential->operator_id, credential->created_ms, credential->expires_ms,
        credential->profile, credential->principal);
}

static int pg_credential_remove(struct state *state, const char *id, struct kg_err *err)
{
    return postgres_run(state, PG_CREDENTIAL_REMOVE, err, "t", id);
}

static bool state_postgres_take_credential(const struct postgres_row *row,
                                           struct state_credential *ret_credential)
{
    struct kg_str hash = postgres_bytes(row, 2);
    *ret_credential = (struct state_credential){
        .id = postgres_text(row, 0),
        .kind = strcmp(postgres_text(row, 1), kind_names[STATE_TOKEN]) == 0 ? STATE_TOKEN
                                                                            : STATE_SESSION,
        .name = postgres_text(row, 3),
        .scopes = postgres_text(row, 4),
        .operator_id = postgres_text(row, 5),
        .created_ms = postgres_int(row, 6),
        .expires_ms = postgres_int(row, 7),
        .profile = postgres_text(row, 8),
        .principal = postgres_text(row, 9),
    };
    if (hash.length != STATE_HASH_BYTES)
        return false;
    memcpy(ret_credential->hash, hash.data, STATE_HASH_BYTES);
    return true;
}

static int pg_credentials(struct state *state, state_credential_fn *visit, void *data,
                          struct kg_err *err)
{
    struct postgres_row row;
    struct state_credential credential;
    int result = postgres_begin(state, PG_CREDENTIALS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        if (state_postgres_take_credential(&row, &credential))
            visit(data, &credential);
    return 0;
}

/* -- what MCP clients may use ------------------------------------------------------------------ */

static int pg_mcp_setting_set(struct state *state, const struct state_mcp_setting *setting,
                              struct kg_err *err)
{
    if (setting->value == NULL)
        return postgres_run(state, PG_MCP_SETTING_REMOVE, err, "tt", setting->kind, setting->name);
    return postgres_run(state, PG_MCP_SETTING_SET, err, "ttt", setting->kind, setting->name,
                        setting->value);
}

static int pg_mcp_settings(struct state *state, state_mcp_setting_fn *visit, void *data,
                           struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_MCP_SETTINGS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_mcp_setting){.kind = postgres_text(&row, 0),
                                                .name = postgres_text(&row, 1),
                                                .value = postgres_text(&row, 2)});
    return 0;
}

static int pg_mcp_calls_add(struct state *state, const struct state_mcp_calls *calls,
                            struct kg_err *err)
{
    int result = postgres_run(state, PG_MCP_CALLS_ADD, err, "t", calls->json);
    if (result == 0)
        result = postgres_run(state, PG_MCP_CALLS_EXPIRE, err, "i", calls->since_ms);
    if (result == 0 && calls->bytes_max > 0)
        result = postgres_run(state, PG_MCP_CALLS_BOUND, err, "i", calls->bytes_max);
    return result;
}

static struct state_mcp_call state_postgres_take_mcp_call(const struct postgres_row *row)
{
    return (struct state_mcp_call){
        .id = postgres_int(row, 0),
        .at_ms = postgres_int(row, 1),
        .client = postgres_text(row, 2),
        .owner = postgres_text(row, 3),
        .operator_id = postgres_text(row, 4),
        .project = postgres_text(row, 5),
        .plugin = postgres_text(row, 6),
        .tool = postgres_text(row, 7),
        .bytes_in = postgres_int(row, 8),
        .bytes_out = postgres_int(row, 9),
        .duration_ms = postgres_int(row, 10),
        .outcome = postgres_text(row, 11),
        .arguments = postgres_text(row, 12),
        .result = postgres_text(row, 13),
    };
}

/* A pattern of SQLite's GLOB (*, ?, [a-z], [^a-z]) as a regular expression of the whole. */
static char *glob_regex(const char *glob)
{
    struct kg_buf regex = {0};
    kg_buf_text(&regex, "^(?:");
    for (; *glob != '\0'; glob++) {
        const char *end = *glob == '[' ? strchr(glob + 1 + (glob[1] == '^'), ']') : NULL;
        if (*glob == '*') {
            kg_buf_text(&regex, ".*");
        } else if (*glob == '?') {
            kg_buf_char(&regex, '.');
        } else if (end != NULL) {
            for (; glob < end; glob++) {
                if (*glob == '\\')
                    kg_buf_char(&regex, '\\');
                kg_buf_char(&regex, *glob);
            }
            kg_buf_char(&regex, ']');
        } else {
            if (strchr("\\.^$|()[]{}+", *glob) != NULL)
                kg_buf_char(&regex, '\\');
            kg_buf_char(&regex, *glob);
        }
    }
    kg_buf_text(&regex, ")$");
    return kg_buf_terminate(&regex);
}

static int pg_mcp_calls(struct state *state, const struct state_mcp_query *query,
                        state_mcp_call_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    kg_auto(kg_free) char *pattern = query->tool ? glob_regex(query->tool) : NULL;
    int result = postgres_begin(state, PG_MCP_CALLS, &row, err, "ttiiit", query->client, pattern,
                                query->since_ms, query->before > 0 ? query->before : INT64_MAX,
                                query->limit, query->tool);
    if (result < 0)
        return result;
    while (postgres_next(&row)) {
        const struct state_mcp_call call = state_postgres_take_mcp_call(&row);
        visit(data, &call);
    }
    return 0;
}

/* -- consents and activations ------------------------------------------------------------------ */

static int pg_consent_set(struct state *state, const struct state_consent *consent,
                          struct kg_err *err)
{
    return postgres_run(state, PG_CONSENT_SET, err, "ttttttttttiit", consent->id, consent->kind,
                        consent->state, consent->project, consent->plugin, consent->source,
                        consent->base, consent->version, consent->reason, consent->answered_by,
                        consent->raised_ms, consent->changed_ms, postgres_node(state));
}

static int pg_consent_remove(struct state *state, const char *id, struct kg_err *err)
{
    return postgres_run(state, PG_CONSENT_REMOVE, err, "t", id);
}

static int pg_consents(struct state *state, state_consent_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_CONSENTS, &row, err, "t", postgres_node(state));
    if (result < 0)
        return result;
    while (postgres_next(&row)) {
        const char *texts[10];
        for (int i = 0; i < (int)KG_COUNT(texts); i++)
            texts[i] = postgres_text(&row, i);
        visit(data, &(struct state_consent){
                        .id = texts[0],
                        .kind = texts[1],
                        .state = texts[2],
                        .project = texts[3],
                        .plugin = texts[4],
                        .source = texts[5],
                        .base = texts[6],
                        .version = texts[7],
                        .reason = texts[8],
                        .answered_by = texts[9],
                        .raised_ms = postgres_int(&row, 10),
                        .changed_ms = postgres_int(&row, 11),
                    });
    }
    return 0;
}

static int pg_activation_set(struct state *state, const struct state_activation *activation,
                             struct kg_err *err)
{
    return postgres_run(state, PG_ACTIVATION_SET, err, "tttti", activation->project,
                        activation->plugin, activation->consent, activation->operator_id,
                        activation->at_ms);
}

static int pg_activation_remove(struct state *state, const char *project_or_null,
                                const char *plugin, struct kg_err *err)
{
    return postgres_run(state, PG_ACTIVATION_REMOVE, err, "tt", project_or_null, plugin);
}

static int pg_activations(struct state *state, state_activation_fn *visit, void *data,
                          struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_ACTIVATIONS, &row, err, "");
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_activation){
                        .project = postgres_text(&row, 0),
                        .plugin = postgres_text(&row, 1),
                        .consent = postgres_text(&row, 2),
                        .operator_id = postgres_text(&row, 3),
                        .at_ms = postgres_int(&row, 4),
                    });
    return 0;
}

/* -- projects ---------------------------------------------------------------------------------- */

/* First the activations: should the second write fail, the operator is only asked once more. */
/* Its folder is on another node's disk. */
static int fail_pinned(struct state *state, const char *id, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PROJECT_NODE, &row, err, "t", id);
    if (result < 0)
        return result;
    bool any = postgres_next(&row);
    kg_fail(err, KG_E_CONFLICT, "project %s is loaded on node %s", id,
            any ? postgres_text(&row, 0) : "?");
    if (any)
        postgres_end(&row);
    return kg_hint(err, "unload it there, or give this one another name");
}

static int pg_project_set(struct state *state, const struct state_project *project,
                          struct kg_err *err)
{
    const char *node = postgres_node(state);
    PGresult *rows;
    int result =
        postgres_run(state, PG_ACTIVATION_MOVED, err, "ttt", project->id, project->root, node);
    if (result == 0)
        result = postgres_query(state, PG_PROJECT_SET, &rows, err, "ttttiit", project->id,
                                project->root, project->file, project->operator_id,
                                (int64_t)project->watched, project->loaded_ms, node);
    if (result < 0)
        return result;
    bool is_set = postgres_own(state)->postgres.pq->PQntuples(rows) > 0;
    postgres_own(state)->postgres.pq->PQclear(rows);
    return is_set ? 0 : fail_pinned(state, project->id, err);
}

static int pg_move_folder(struct state *state, const char *from, const char *to, struct kg_err *err)
{
    static const enum postgres_statement moves[] = {PG_PROJECTS_MOVE, PG_CONSENTS_MOVE,
                                                    PG_SESSIONS_MOVE};
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(moves) && result == 0; i++)
        result = postgres_run(state, moves[i], err, "tt", from, to);
    return result;
}

static int pg_projects(struct state *state, state_project_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_PROJECTS, &row, err, "t", postgres_node(state));
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, &(struct state_project){
                        .id = postgres_text(&row, 0),
                        .root = postgres_text(&row, 1),
                        .file = postgres_text(&row, 2),
                        .operator_id = postgres_text(&row, 3),
                        .watched = postgres_int(&row, 4) != 0,
                        .loaded_ms = postgres_int(&row, 5),
                    });
    return 0;
}

/* -- the backend ------------------------------------------------------------------------------- */

const struct state_backend state_postgres = {
    .catalog = &state_catalog_postgres,
    .sessions = &state_sessions_postgres,
    .open = pg_open,
    .open_readonly = pg_open_readonly,
    .close = pg_close,
    .audit_head_get = pg_audit_head_get,
    .audit_head_set = pg_audit_head_set,
    .plugin_choice_set = pg_plugin_choice_set,
    .plugin_choices = pg_plugin_choices,
    .failure_set = pg_failure_set,
    .failures = pg_failures,
    .script_grant_set = pg_script_grant_set,
    .script_grants = pg_script_grants,
    .prompt_set = pg_prompt_set,
    .prompts = pg_prompts,
    .question_set = pg_question_set,
    .questions = pg_questions,
    .credential_add = pg_credential_add,
    .credential_remove = pg_credential_remove,
    .credentials = pg_credentials,
    .mcp_setting_set = pg_mcp_setting_set,
    .mcp_settings = pg_mcp_settings,
    .mcp_calls_add = pg_mcp_calls_add,
    .mcp_calls = pg_mcp_calls,
    .consent_set = pg_consent_set,
    .consent_remove = pg_consent_remove,
    .consents = pg_consents,
    .activation_set = pg_activation_set,
    .activation_remove = pg_activation_remove,
    .activations = pg_activations,
    .project_set = pg_project_set,
    .projects = pg_projects,
    .move_folder = pg_move_folder,
};
