/*
 * How a node joins. The operator of one that is there has a token made, which says where that is,
 * who it is, and a secret; whoever brings the secret within its time, once, gets a certificate and
 * the keys that the nodes share. Tokens are in memory: they end with the daemon that made them.
 */
#include "http/nodes.h"

#include "http/auth_internal.h"
#include "secret/secret.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#define JOIN_PREFIX    "kgj_"
#define JOIN_KEY_BYTES 4096

static_assert(HTTP_JOIN_HASH == crypto_hash_sha256_BYTES, "SHA-256");

/* -- tokens ------------------------------------------------------------------------------------ */

static void join_hash(struct kg_str secret, unsigned char ret_hash[HTTP_JOIN_HASH])
{
    crypto_hash_sha256(ret_hash, (const unsigned char *)secret.data, secret.length);
}

/* A free place, or that of the one that ends first. */
static struct http_join_token *join_token_place(struct http_nodes *nodes)
{
    struct http_join_token *place = &nodes->tokens[0];
    for (size_t i = 1; i < HTTP_JOIN_TOKENS; i++)
        if (nodes->tokens[i].expires_ms < place->expires_ms)
            place = &nodes->tokens[i];
    return place;
}

/* Whether it is one, and is not too late; it is used up then. */
static int join_token_use(struct http_nodes *nodes, struct kg_str secret, struct kg_err *err)
{
    unsigned char hash[HTTP_JOIN_HASH];
    join_hash(secret, hash);
    for (size_t i = 0; i < HTTP_JOIN_TOKENS; i++) {
        struct http_join_token *token = &nodes->tokens[i];
        if (token->expires_ms == 0 || sodium_memcmp(token->hash, hash, sizeof(hash)) != 0)
            continue;
        bool late = kg_wall_ms() > token->expires_ms;
        *token = (struct http_join_token){0};
        if (!late)
            return 0;
        break;
    }
    kg_fail(err, KG_E_REFUSED,
            "the token was used before, has expired, or is of another run of the daemon");
    return kg_hint(err, "make another on a node that is there: kaged cluster token");
}

static struct http_nodes *join_nodes(struct http_request *request)
{
    struct http_nodes *nodes = http_server_of(request)->nodes;
    struct kg_err err;
    if (nodes != NULL)
        return nodes;
    kg_fail(&err, KG_E_CONFLICT, "this daemon has no other nodes: cluster.listen is not set");
    kg_hint(&err, "kaged config set cluster.listen ADDRESS:PORT, and start the daemon anew");
    http_reply_error(request, &err);
    return NULL;
}

/* kgj_, and in base64 where to go, whom to believe, and the secret. */
static void join_token_print(const struct http_nodes *nodes, const char *secret, struct kg_buf *out)
{
    kg_auto(link_wipe) struct kg_buf text = {0};
    kg_buf_printf(&text, "%s %s %s", nodes->fingerprint, secret, nodes->reached_at);
    size_t room = sodium_base64_ENCODED_LEN(text.length, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    kg_buf_text(out, JOIN_PREFIX);
    kg_buf_reserve(out, room);
    sodium_bin2base64(out->data + out->length, room, (const unsigned char *)text.data, text.length,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    out->length += room - 1;
}

void http_handle_cluster_token(struct http_request *request)
{
    struct http_nodes *nodes = join_nodes(request);
    if (nodes == NULL)
        return;
    char secret[HTTP_SECRET_TEXT], expires[KG_TIME_TEXT];
    kg_auto(link_wipe) struct kg_buf token = {0}, body = {0};
    struct http_join_token *place = join_token_place(nodes);
    int64_t minutes = http_body_int(request, "minutes", 60);
    http_secret_make(secret);
    join_hash(kg_str(secret), place->hash);
    place->expires_ms = kg_wall_ms() + minutes * 60 * 1000;
    kg_time_format(place->expires_ms, expires);
    join_token_print(nodes, secret, &token);
    sodium_memzero(secret, sizeof(secret));
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "token", kg_buf_view(&token));
    kg_json_named_text(&json, "expires_at", expires);
    kg_json_end(&json, '}');
    if (nodes->audit != NULL)
        audit_emit(nodes->audit, AUDIT_CLUSTER_TOKEN_MADE, kg_str(request->request_id),
                   AUDIT_V_TEXT(http_operator(request)), AUDIT_V_TEXT(expires));
    http_reply_text(request, 201, "application/json", kg_buf_view(&body));
}

/* -- joining ----------------------------------------------------------------------------------- */

/* On a worker: files are read there, and kaged-link runs. */
struct join_job {
    struct loop_job job;
    struct http_nodes *nodes;
    struct http_request *request;
    char *keys_file, *catalog_key, *node, *wanted; /* owned */
    struct kg_buf answer;                          /* the part that it knows; overwritten */
    struct kg_json_writer json;
    bool failed;
    struct kg_err err; /* then */
};

static void join_job_free(struct join_job *job)
{
    link_wipe(&job->answer);
    free(job->keys_file);
    free(job->catalog_key);
    free(job->node);
    free(job->wanted);
    free(job);
}

/* The key that opens what the catalog seals is made if nobody has needed it yet. */
static int join_read_catalog_key(const struct join_job *job, struct kg_buf *ret_key,
                                 struct kg_err *err)
{
    kg_auto(kg_free) char *next = kg_format("%s.next", job->catalog_key);
    const struct secret_places places = {
        .store = (char *)"the catalog", .key = job->catalog_key, .next_key = next};
    kg_auto(kg_buf_free) struct kg_buf box = {0};
    int result = secret_seal(&places, KG_STR("join"), KG_STR("-"), &box, err);
    return result < 0 ? result : kg_read_file(job->catalog_key, JOIN_KEY_BYTES, ret_key, err);
}

static int join_answer(struct join_job *job, struct kg_err *err)
{
    kg_auto(link_keys_free) struct link_keys keys = {0};
    kg_auto(link_wipe) struct kg_buf catalog_key = {0}, certificate = {0};
    char digits[2 * LINK_KEY_BYTES + 1];
    int result = link_keys_read(job->keys_file, &keys, err);
    if (result == 0)
        result = join_read_catalog_key(job, &catalog_key, err);
    if (result == 0)
        result = link_keys_sign(&keys, job->node, kg_str(job->wanted), &certificate, err);
    if (result != 0)
        return result < 0 ? result : -EINVAL;
    kg_buf_reserve(&job->answer, (size_t)64 * 1024); /* it does not move */
    job->json = kg_json_writer(&job->answer);
    kg_json_begin(&job->json, '{');
    kg_json_named_str(&job->json, "certificate", kg_buf_view(&certificate));
    kg_json_named_str(&job->json, "authority", kg_buf_view(&keys.authority));
    kg_json_named_str(&job->json, "authority_key", kg_buf_view(&keys.authority_key));
    sodium_bin2hex(digits, sizeof(digits), keys.cluster_key, sizeof(keys.cluster_key));
    kg_json_named_text(&job->json, "cluster_key", digits);
    kg_json_named_str(&job->json, "catalog_key", kg_buf_view(&catalog_key));
    sodium_memzero(digits, sizeof(digits));
    return 0;
}

static void join_run(struct loop_job *at)
{
    struct join_job *job = KG_CONTAINER(at, struct join_job, job);
    job->failed = join_answer(job, &job->err) < 0;
    if (job->failed && job->err.code == KG_OK)
        kg_fail(&job->err, KG_E_INTERNAL, "this node has no keys of its cluster");
}

/* What the other needs to find the shared state. */
static void join_put_settings(struct kg_json_writer *json, const struct host *host)
{
    const struct config *config = host_config(host);
    struct kg_str password = host_local(host)->cluster_password;
    kg_json_named_text(json, "database", config->cluster_database);
    kg_json_named_text(json, "bucket", config->cluster_bucket);
    kg_json_named_text(json, "endpoint", config->cluster_endpoint);
    kg_json_named_text(json, "region", config->cluster_region);
    kg_json_named_text(json, "style", config->cluster_style);
    if (password.length > 0)
        kg_json_named_str(json, "password", password);
}

static void join_done(struct loop_job *at)
{
    struct join_job *job = KG_CONTAINER(at, struct join_job, job);
    struct http_request *request = job->request;
    if (job->failed) {
        http_reply_error(request, &job->err);
    } else {
        join_put_settings(&job->json, http_host(request));
        kg_json_end(&job->json, '}');
        if (job->nodes->audit != NULL)
            audit_emit(job->nodes->audit, AUDIT_CLUSTER_JOINED, kg_str(request->request_id),
                       AUDIT_V_TEXT(job->node));
        /* As it is: what is secret in it is what the other came for. */
        http_reply_text(request, 200, "application/json", kg_buf_view(&job->answer));
    }
    join_job_free(job);
}

static int join_check_name(const struct http_nodes *nodes, const char *node, struct kg_err *err)
{
    const struct http_nodes_place *place = &nodes->place;
    if (strcmp(node, nodes->node) != 0 && place->address(place->data, node) == NULL)
        return 0;
    kg_fail(err, KG_E_EXISTS, "the cluster has a node \"%s\" already", node);
    return kg_hint(err, "give this one another name: kaged config set cluster.node NAME");
}

void http_handle_cluster_join(struct http_request *request)
{
    struct http_nodes *nodes = join_nodes(request);
    struct kg_err err = {0};
    if (nodes == NULL)
        return;
    kg_auto(kg_free) char *node = http_body_text(request, "node");
    struct kg_str secret = kg_node_text(http_body_tree(request), "secret");
    /* A name that is taken does not cost the token. */
    if (join_check_name(nodes, node, &err) < 0 || join_token_use(nodes, secret, &err) < 0) {
        http_nodes_refused(nodes, "", "", err.message);
        http_reply_error(request, &err);
        return;
    }
    struct join_job *job = kg_alloc(sizeof(*job));
    job->nodes = nodes;
    job->request = request;
    job->keys_file = kg_strdup(host_paths(http_host(request))->cluster_keys);
    job->catalog_key = kg_strdup(host_paths(http_host(request))->catalog_key);
    job->node = kg_steal(&node);
    job->wanted = http_body_text(request, "request");
    job->job.run = join_run;
    job->job.done = join_done;
    if (nodes->worker == NULL)
        nodes->worker = loop_worker_new(nodes->server->loop, "kaged-join");
    loop_worker_submit(nodes->worker, &job->job);
}
