/*
 * One node among others. What a request is about is had by one node; the row of its route says how
 * that is found. If it is another one, the request is passed on to it, once. What other nodes pass
 * on comes by kaged-link, from a node that has a certificate, with who asks in a header that is
 * signed for this request: then he is as good as if he had asked here.
 *
 *   client -> node a: who asks? may he? whose is it? --pass--> node b: is it a's word? -> handler
 *                                   +-- ours, or nobody's ---> handler
 */
#include "http/nodes.h"

#include "http/auth_internal.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#define REFUSALS_A_SEC 1
#define PROJECTS_MAX   8192 /* of sessions that are remembered */

/* -- life -------------------------------------------------------------------------------------- */

void http_nodes_refused(struct http_nodes *nodes, const char *node, const char *address,
                        const char *reason)
{
    uint32_t more = 0;
    if (!kg_rate_pass(&nodes->refusals, REFUSALS_A_SEC, loop_now_ms(nodes->server->loop), &more))
        return;
    kg_log(KG_WARN, "cluster: refused %s%s%s: %s", node, node[0] != '\0' ? " " : "", address,
           reason);
    if (nodes->audit != NULL)
        audit_emit(nodes->audit, AUDIT_CLUSTER_REFUSED, KG_STR_NULL, AUDIT_V_TEXT(node),
                   AUDIT_V_TEXT(address), AUDIT_V_TEXT(reason), AUDIT_V_INT(more));
}

static void nodes_on_refused(void *data, const char *address, const char *words)
{
    http_nodes_refused(data, "", address, words);
}

static void nodes_on_came(void *data, int fd, const char *node)
{
    struct http_nodes *nodes = data;
    http_connection_take_node(nodes->server, fd, node);
}

struct http_nodes *http_nodes_new(struct http_server *server,
                                  const struct http_nodes_options *options, struct kg_err *err)
{
    struct http_nodes *nodes = kg_alloc(sizeof(*nodes));
    const struct link_options link = {
        .loop = server->loop,
        .node = options->node,
        .listen = options->listen,
        .keys = options->keys,
        .on_came = nodes_on_came,
        .on_refused = nodes_on_refused,
        .data = nodes,
    };
    nodes->server = server;
    nodes->audit = options->audit;
    nodes->place = options->place;
    nodes->node = kg_strdup(options->node);
    nodes->projects = kg_map_new();
    nodes->identities = identities_new(options->keys->cluster_key, options->node);
    link_fingerprint(kg_buf_view(&options->keys->authority), nodes->fingerprint);
    nodes->link = link_new(&link, err);
    if (nodes->link != NULL) {
        bool is_said = options->address[0] != '\0';
        nodes->reached_at = kg_strdup(is_said ? options->address : link_address(nodes->link));
        server->nodes = nodes;
        return nodes;
    }
    http_nodes_free(nodes);
    return NULL;
}

static void nodes_forget_projects(struct http_nodes *nodes)
{
    size_t at = 0;
    struct kg_str session;
    void *project;
    while (kg_map_next(nodes->projects, &at, &session, &project))
        free(project);
    kg_map_free(nodes->projects);
    nodes->projects = NULL;
}

/* By now no request is passed on: the server has closed its connections. */
void http_nodes_free(struct http_nodes *nodes)
{
    if (nodes == NULL)
        return;
    nodes->server->nodes = NULL;
    while (nodes->tunnels != NULL)
        http_tunnel_close(nodes->tunnels);
    link_free(nodes->link);
    identities_free(nodes->identities);
    nodes_forget_projects(nodes);
    kg_free(&nodes->node);
    kg_free(&nodes->reached_at);
    if (nodes->worker != NULL)
        loop_worker_free(nodes->worker);
    sodium_memzero(nodes->tokens, sizeof(nodes->tokens));
    free(nodes);
}

const char *http_nodes_address(const struct http_nodes *nodes)
{
    return nodes->reached_at;
}

/* -- what others pass on ----------------------------------------------------------------------- */

static enum http_via nodes_via_of(struct kg_str name)
{
    enum http_via via = HTTP_VIA_INSECURE;
    while (via > HTTP_VIA_NONE && !kg_str_is(name, http_via_names[via]))
        via--;
    return via;
}

static int nodes_become(struct http_request *request, const struct identity *identity,
                        struct kg_err *err)
{
    request->passed = true;
    request->via = nodes_via_of(identity->via);
    request->scopes = identity->scopes;
    kg_str_copy(identity->operator_id, request->operator_id, sizeof(request->operator_id));
    kg_str_copy(identity->principal, request->principal, sizeof(request->principal));
    kg_str_copy(identity->profile, request->profile, sizeof(request->profile));
    kg_str_copy(identity->credential_id, request->credential_id.text,
                sizeof(request->credential_id.text));
    const char *permission = request->route ? request->route->permission : NULL;
    if (http_scopes_allow(request->scopes, permission))
        return 0;
    return kg_fail(err, KG_E_REFUSED, "%s %s needs the scope %s", request->route->method,
                   request->route->pattern, permission);
}

static int nodes_check_identity(struct http_nodes *nodes, const struct http_source *source,
                                struct http_request *request, struct kg_err *err)
{
    int64_t body_bytes = 0;
    struct identity identity;
    kg_auto(kg_doc_cleanup) struct kg_doc *text = NULL;
    if (http_header(request, "transfer-encoding").data != NULL)
        body_bytes = -1;
    else
        (void)kg_str_to_int(http_header(request, "content-length"), &body_bytes);
    const struct identity_request asked = {
        .method = kg_str(http_request_method(request)),
        .target = http_request_text(request, request->url),
        .body_bytes = body_bytes,
    };
    if (http_header_count(request, IDENTITY_HEADER) > 1)
        return kg_fail(err, KG_E_REFUSED, IDENTITY_HEADER " is there twice");
    int result = identity_check(nodes->identities, http_header(request, IDENTITY_HEADER),
                                source->node, &asked, &text, &identity, err);
    return result < 0 ? result : nodes_become(request, &identity, err);
}

int http_nodes_check(struct http_server *server, const struct http_source *source,
                     struct http_request *request)
{
    struct kg_err err = {0};
    struct http_nodes *nodes = server->nodes;
    bool joins = request->route != NULL && request->route->handle == http_handle_cluster_join;
    int result = 0;
    if (nodes == NULL)
        result = kg_fail(&err, KG_E_STOPPING, "this node stops");
    else if (source->node[0] != '\0')
        result = nodes_check_identity(nodes, source, request, &err);
    else if (!joins)
        result = kg_fail(&err, KG_E_REFUSED, "who has no certificate can join, and nothing else");
    if (result == 0)
        return 0;
    request->allow[0] = '\0';
    *http_request_refuse(request, 0) = err;
    if (nodes != NULL)
        http_nodes_refused(nodes, source->node, "", err.message);
    return -EACCES;
}

/* -- whose it is ------------------------------------------------------------------------------- */

static void nodes_go_on(struct http_request *request)
{
    if (!http_hold(request))
        http_handle(request);
}

/* One hop: who was asked for another answers, or says who should have been. */
static void nodes_fail(struct http_request *request, const char *node, bool is_away)
{
    struct kg_err err;
    if (is_away)
        kg_fail(&err, KG_E_NODE_AWAY, "the node %s has it, and is away", node);
    else
        kg_fail(&err, KG_E_ELSEWHERE, "the node %s has it by now", node);
    kg_hint(&err, "try again in a moment; kaged cluster status shows which nodes there are");
    http_reply_error(request, &err);
}

/* False: it is this node's, or nobody's yet. */
static bool nodes_pass(struct http_request *request, const char *project)
{
    const struct http_nodes *nodes = http_server_of(request)->nodes;
    const struct http_nodes_place *place = &nodes->place;
    const char *node = place->holder(place->data, project);
    if (node == NULL)
        return false;
    const char *address = request->passed ? NULL : place->address(place->data, node);
    if (address == NULL)
        nodes_fail(request, node, !request->passed);
    else
        http_pass_to(request, node, address);
    return true;
}

/* A session stays in its project; @last, or the beginning of an id, may be another by and by. */
static void nodes_remember(struct http_nodes *nodes, struct kg_str session, struct kg_str project)
{
    if (session.length < KG_ULID_LENGTH || kg_map_get(nodes->projects, session) != NULL)
        return;
    if (kg_map_count(nodes->projects) >= PROJECTS_MAX) {
        nodes_forget_projects(nodes);
        nodes->projects = kg_map_new();
    }
    kg_map_set(nodes->projects, session, kg_str_dup(project));
}

/* There may be no such session: who answers says so. */
static void nodes_on_project(void *data, struct kg_str project, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    const struct http_server *server = http_server_of(request);
    kg_auto(kg_free) char *name = kg_str_dup(project);
    if (server == NULL)
        http_reply(request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
    else if (err_or_null != NULL && err_or_null->code != KG_E_NOT_FOUND)
        http_reply_error(request, err_or_null);
    else if (err_or_null != NULL || server->nodes == NULL)
        nodes_go_on(request);
    else {
        nodes_remember(server->nodes, http_path_parameter(request, "id"), project);
        if (!nodes_pass(request, name))
            nodes_go_on(request);
    }
}

static bool nodes_take_session(struct http_request *request)
{
    const struct http_nodes *nodes = http_server_of(request)->nodes;
    struct kg_str session = http_path_parameter(request, "id");
    const char *project = kg_map_get(nodes->projects, session);
    if (project != NULL)
        return nodes_pass(request, project);
    const struct sessions_request asked = {
        .session = session,
        .asker = http_asker(request),
        .on_done = nodes_on_project,
        .data = request,
    };
    sessions_project(http_sessions(request), &asked);
    return true;
}

static bool nodes_take_project(struct http_request *request)
{
    struct kg_str id = http_path_parameter(request, "id");
    if (id.length == 0)
        id = http_query_parameter(request, "project");
    kg_auto(kg_free) char *project = kg_str_dup(id);
    return project[0] != '\0' && nodes_pass(request, project);
}

static bool nodes_take_orchestrator(struct http_request *request)
{
    struct kg_str instance = http_path_parameter(request, "instance_id");
    if (instance.length == 0)
        instance = http_header(request, "x-instance-id");
    kg_auto(kg_free) char *project = catalog_orchestrator_project(
        http_server_of(request)->catalog, http_request_org(request), instance);
    return project != NULL && nodes_pass(request, project);
}

bool http_nodes_take(struct http_request *request)
{
    static bool (*const takes[])(struct http_request * request) = {
        [HTTP_OF_PROJECT] = nodes_take_project,
        [HTTP_OF_SESSION] = nodes_take_session,
        [HTTP_OF_ORCHESTRATOR] = nodes_take_orchestrator,
    };
    const struct http_server *server = http_server_of(request);
    if (server->nodes == NULL || request->route->of == HTTP_OF_NOBODY)
        return false;
    return takes[request->route->of](request);
}
