/*
 * What changes the plugin store, and the consents that stand before it. POST /plugins, upgrade and
 * approve only raise a consent: nothing gets into the store but by an answer to one, which names
 * the hash of what was shown.
 */
#include "http/internal.h"

#include <stdlib.h>
#include <unistd.h>

/* -- consents ---------------------------------------------------------------------------------- */

/* Answers itself if there is none, as while the daemon stops. */
static struct consent_queue *http_install_queue_of(struct http_request *request)
{
    struct kg_err err;
    struct consent_queue *queue = host_consents(http_host(request));
    if (queue == NULL) {
        kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
        http_reply_error(request, &err);
    }
    return queue;
}

static struct consent *find_consent(struct http_request *request)
{
    struct kg_err err;
    struct consent_queue *queue = http_install_queue_of(request);
    if (queue == NULL)
        return NULL;
    struct consent *consent = consent_find(queue, http_path_parameter(request, "id"), &err);
    if (consent == NULL)
        http_reply_error(request, &err);
    return consent;
}

static void reply_consent(struct http_request *request, const struct consent *consent)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    consent_json(consent, true, &json);
    http_on_answer(request, kg_buf_view(&body), NULL);
}

void http_put_consents(struct kg_json_writer *json, const struct consent_queue *queue_or_null,
                       bool only_asking)
{
    kg_json_named_begin(json, "consents", '[');
    for (size_t i = 0; queue_or_null != NULL && i < consent_count(queue_or_null); i++) {
        const struct consent *consent = consent_at(queue_or_null, i);
        enum consent_state state = consent_state(consent);
        if (!only_asking || state == CONSENT_WANTED || state == CONSENT_OFFERED)
            consent_json(consent, false, json);
    }
    kg_json_end(json, ']');
}

void http_handle_consents(struct http_request *request)
{
    struct consent_queue *queue = http_install_queue_of(request);
    if (queue == NULL)
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    http_put_consents(&json, queue, false);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_consent(struct http_request *request)
{
    const struct consent *consent = find_consent(request);
    if (consent != NULL)
        reply_consent(request, consent);
}

/* What was said is kept now. */
static void http_install_on_kept(void *data, const struct kg_err *err_or_null)
{
    (void)err_or_null;
    http_handle_consent(data);
}

void http_handle_consent_approve(struct http_request *request)
{
    kg_auto(kg_free) char *hash = http_body_text(request, "hash");
    kg_auto(kg_free) char *path = http_body_text(request, "path");
    const struct consent_answer answer = {
        .operator_id = http_operator(request),
        .hash = hash,
        .path = path,
        .packages = http_body_flag(request, "packages", false),
        .allow_new_capabilities = http_body_flag(request, "allow_new_capabilities", false),
        .replace_source = http_body_flag(request, "replace_source", false),
    };
    struct kg_err err = {0};
    struct consent *consent = find_consent(request);
    if (consent == NULL)
        return;
    if (consent_approve(consent, &answer, &err) < 0)
        http_reply_error(request, &err);
    else
        consent_when_kept(host_consents(http_host(request)), http_install_on_kept, request);
}

void http_handle_consent_decline(struct http_request *request)
{
    struct kg_err err = {0};
    struct consent *consent = find_consent(request);
    if (consent == NULL)
        return;
    if (consent_decline(consent, http_operator(request), &err) < 0)
        http_reply_error(request, &err);
    else
        consent_when_kept(host_consents(http_host(request)), http_install_on_kept, request);
}

/* -- raising them ------------------------------------------------------------------------------ */

void http_raise_consent(struct http_request *request, const struct consent_wish *wish)
{
    struct kg_err err = {0};
    const struct consent_request wanted = {.wish = *wish, .operator_id = http_operator(request)};
    struct consent_queue *queue = http_install_queue_of(request);
    if (queue == NULL)
        return;
    const struct consent *consent = consent_raise(queue, &wanted, &err);
    if (consent == NULL)
        http_reply_error(request, &err);
    else
        reply_consent(request, consent);
}

/* What the operator adds to what the plugin asks for. */
static struct store_own own_of(const struct kg_node *body)
{
    const struct kg_node *grants = kg_node_list(body, "grants");
    const struct kg_node *env = kg_node_typed(body, "env", KG_OBJECT);
    struct store_own own = {kg_list_new(0), kg_list_new(0)};
    for (uint32_t i = 0; i < grants->count; i++)
        kg_list_add(&own.grants, kg_str_dup(grants->items[i].text));
    for (uint32_t i = 0; env != NULL && i < env->count; i++)
        kg_list_add(&own.env, kg_format("%.*s=%.*s", KG_STR_ARG(env->members[i].key),
                                        KG_STR_ARG(env->members[i].value.text)));
    return own;
}

/* A bare name is that of a plugin that came with this program. Owned. */
static char *source_of(struct http_request *request)
{
    char *source = http_body_text(request, "source");
    if (source == NULL || !manifest_name_is_valid(kg_str(source)))
        return source;
    kg_auto(kg_free) char *share = config_share_dir();
    kg_auto(kg_free) char *shipped = kg_format("%s/plugins/%s", share, source);
    char *found = realpath(shipped, NULL);
    if (found == NULL)
        return source;
    free(source);
    return found;
}

/* Of a source that the body names. */
static void raise_from_source(struct http_request *request, enum consent_kind kind,
                              const char *plugin_or_null)
{
    kg_auto(kg_free) char *source = source_of(request);
    kg_auto(kg_free) char *version = http_body_text(request, "version");
    kg_auto(kg_buf_free) struct kg_buf server = {0};
    const struct kg_node *named = kg_node_typed(http_body_tree(request), "server", KG_OBJECT);
    if (named != NULL)
        kg_json_put_node(&server, named);
    kg_auto(store_own_free) struct store_own own = own_of(http_body_tree(request));
    http_raise_consent(
        request,
        &(struct consent_wish){.kind = kind,
                               .plugin = plugin_or_null,
                               .source = source,
                               .version = version,
                               .own = store_own_is_empty(&own) ? NULL : &own,
                               .packages = kg_node_is_true(http_body_tree(request), "packages"),
                               .server = named ? kg_buf_terminate(&server) : NULL});
}

void http_handle_plugin_install(struct http_request *request)
{
    raise_from_source(request, CONSENT_INSTALL, NULL);
}

void http_handle_plugin_upgrade(struct http_request *request)
{
    struct host_named named;
    if (http_find_plugin(request, &named))
        raise_from_source(request, CONSENT_UPGRADE, host_name(named));
}

/* A folder that somebody copied into the store since the daemon looked is not one of its plugins
 * yet. */
static bool is_in_store(struct http_request *request, struct kg_str name)
{
    if (!manifest_name_is_valid(name))
        return false;
    kg_auto(kg_free) char *path =
        kg_format("%s/%.*s", store_dir(host_store(http_host(request))), KG_STR_ARG(name));
    return access(path, F_OK) == 0;
}

void http_handle_plugin_approve(struct http_request *request)
{
    struct kg_str name = http_path_parameter(request, "name");
    struct host_named named;
    if (!is_in_store(request, name) && !http_find_plugin(request, &named))
        return; /* answered */
    kg_auto(kg_free) char *plugin = kg_str_dup(name);
    http_raise_consent(request, &(struct consent_wish){.kind = CONSENT_APPROVE, .plugin = plugin});
}

/* -- uninstall, promote ------------------------------------------------------------------------ */

static void on_uninstalled(void *data, const struct host_changed *changed,
                           const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", changed->outcome.name);
    kg_json_named_text(&json, "version", changed->outcome.version);
    kg_json_named_bool(&json, "was_running", changed->outcome.was_running);
    kg_json_named_text(&json, "storage", changed->removed->storage);
    kg_json_named_bool(&json, "storage_dropped", changed->removed->storage_dropped);
    kg_json_named_text(&json, "plugin_data", changed->removed->plugin_data);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_plugin_uninstall(struct http_request *request)
{
    const struct store_removal removal = {.keep_storage = http_query_flag(request, "keep_storage")};
    host_uninstall(http_host(request), http_path_parameter(request, "name"), &removal,
                   http_query_flag(request, "force"), http_operator(request), on_uninstalled,
                   request);
}

static void http_install_on_promoted(void *data, const struct host_changed *changed,
                                     const struct kg_err *err_or_null)
{
    (void)changed;
    http_on_acted(data, err_or_null);
}

void http_handle_plugin_promote(struct http_request *request)
{
    host_promote(http_host(request), http_path_parameter(request, "name"), http_operator(request),
                 http_install_on_promoted, request);
}
