/*
 * One errand to a bucket: a process of kaged-fetch in a cage, whose only way out is the bucket's
 * host, and whose only file is the one that goes there, or the folder for the one that comes. Keys
 * go in on its stdin alone. What it says is believed as far as it fits.
 */
#include "objects/internal.h"

#include "base/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SCHEME       "s3://"
#define OUTPUT_BYTES ((size_t)16 * 1024)
#define TIMEOUT_MS   ((uint64_t)15 * 60 * 1000) /* it gives up by itself long before */
#define MEMORY_BYTES ((uint64_t)128 << 20)
#define TMP_BYTES    ((size_t)1 << 20)
#define PROCESSES    8
#define CPU_SHARES   256

struct bucket_run {
    struct helper_run *run;
    bucket_done_fn *on_done;
    void *data;
    char *bucket;     /* owned, for messages */
    char reason[200]; /* why the gatekeeper let it not out; "": it did */
};

/* -- where it is ------------------------------------------------------------------------------- */

void bucket_place_free(struct bucket_place *place)
{
    free(place->url);
    free(place->host);
}

static const char *region_of(const struct config *config)
{
    return config->cluster_region[0] != '\0' ? config->cluster_region : "us-east-1";
}

/* The endpoint, without a slash at its end; Amazon's own if none is named. Owned. */
static char *endpoint_of(const struct config *config)
{
    struct kg_str named = kg_str(config->cluster_endpoint);
    while (named.length > 0 && named.data[named.length - 1] == '/')
        named.length--;
    return named.length > 0 ? kg_str_dup(named)
                            : kg_format("https://s3.%s.amazonaws.com", region_of(config));
}

int bucket_place_find(const struct config *config, struct bucket_place *ret_place,
                      struct kg_err *err)
{
    const char *bucket = config->cluster_bucket + strlen(SCHEME);
    struct kg_str name = {bucket, strcspn(bucket, "/")};
    struct kg_str prefix = kg_str(bucket[name.length] == '/' ? bucket + name.length + 1 : "");
    while (prefix.length > 0 && prefix.data[prefix.length - 1] == '/')
        prefix.length--;
    const char *slash = prefix.length > 0 ? "/" : "";
    kg_auto(kg_free) char *endpoint = endpoint_of(config);
    const char *authority = strstr(endpoint, "://");
    kg_auto(bucket_place_free) struct bucket_place place = {0};
    if (authority == NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "cluster.endpoint is not an address");
    int scheme = (int)(authority + strlen("://") - endpoint);
    if (strcmp(config->cluster_style, "host") == 0)
        place.url = kg_format("%.*s%.*s.%s/%.*s%s", scheme, endpoint, KG_STR_ARG(name),
                              endpoint + scheme, KG_STR_ARG(prefix), slash);
    else
        place.url =
            kg_format("%s/%.*s/%.*s%s", endpoint, KG_STR_ARG(name), KG_STR_ARG(prefix), slash);
    if (!kg_url_host(place.url, &place.host, &place.port))
        return kg_fail(err, KG_E_INVALID_CONFIG,
                       "cluster.endpoint and cluster.bucket do not make "
                       "the address of a host");
    *ret_place = place;
    place = (struct bucket_place){0};
    return 0;
}

/* -- what it is told --------------------------------------------------------------------------- */

static int bucket_check_keys(const struct local_services *services, struct kg_err *err)
{
    if (services->bucket_problem != NULL) {
        *err = *services->bucket_problem;
        err->code = KG_E_OBJECTS;
        return -EINVAL;
    }
    if (services->bucket_access_key.length > 0 && services->bucket_secret_key.length > 0)
        return 0;
    kg_fail(err, KG_E_OBJECTS, "there are no keys for the bucket");
    return kg_hint(err, "local.toml: [services.bucket] access_key and secret_key");
}

static void write_order(const struct objects_parts *parts, const struct bucket_errand *errand,
                        const struct bucket_place *place, struct kg_buf *out)
{
    const struct local_services *services = &parts->local(parts->data)->services;
    kg_auto(kg_free) char *url = kg_format("%s%s", place->url, errand->key);
    kg_auto(kg_free) char *into = errand->folder ? kg_path_join(errand->folder, "object") : NULL;
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "act", errand->act);
    kg_json_named_text(&json, "url", url);
    kg_json_named_text(&json, "region", region_of(parts->config(parts->data)));
    kg_json_named_str(&json, "access_key", services->bucket_access_key);
    kg_json_named_str(&json, "secret_key", services->bucket_secret_key);
    if (services->bucket_session_token.length > 0)
        kg_json_named_str(&json, "session_token", services->bucket_session_token);
    if (errand->hash != NULL)
        kg_json_named_text(&json, "sha256", errand->hash);
    if (errand->file != NULL || into != NULL)
        kg_json_named_text(&json, "file", errand->file != NULL ? errand->file : into);
    kg_json_named_int(&json, "bytes_max", (int64_t)errand->bytes_max);
    kg_json_end(&json, '}');
}

static struct cage_plan *bucket_make_plan(const struct objects_parts *parts,
                                          const struct bucket_errand *errand,
                                          const struct bucket_place *place, struct kg_err *err)
{
    kg_auto(kg_free) char *program = helper_program("kaged-fetch", err);
    if (program == NULL)
        return NULL;
    const char *const command[] = {program, "object", NULL};
    const struct cage_reach reach = {.host = place->host, .port = place->port};
    const struct cage_path path = {.path = errand->file ? errand->file : errand->folder,
                                   .write = errand->folder != NULL,
                                   .own = true};
    const struct cage_policy policy = {
        .name = "bucket (http)",
        .command = command,
        .paths = &path,
        .path_count = path.path != NULL ? 1 : 0,
        .reaches = &reach,
        .reach_count = 1,
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    return helper_plan(program, policy, parts->facts, err);
}

/* -- what it says ------------------------------------------------------------------------------ */

/* "SignatureDoesNotMatch", and whatever else a stranger calls it: a word, or nothing. */
static bool is_code(struct kg_str code)
{
    bool good = code.length > 0 && code.length <= 64;
    for (size_t i = 0; good && i < code.length; i++)
        good = kg_is_letter_or_digit(code.data[i]);
    return good;
}

/* A refusal of ours, or of the bucket's, by what can be done about it. */
static void bucket_explain(const struct bucket_run *run, const struct kg_node *said, int status,
                           struct kg_err *err)
{
    struct kg_str words = kg_node_text(said, "words"), code = kg_node_text(said, "code");
    if (!is_code(code))
        code = KG_STR_NULL;
    if (status == 0) {
        kg_fail(err, KG_E_OBJECTS, "the bucket %s cannot be reached: %.*s", run->bucket,
                KG_STR_CUT(run->reason[0] != '\0' ? kg_str(run->reason) : words, KG_CUT_PATH));
        kg_hint(err, "kaged doctor tries it; cluster.endpoint says where it is");
        return;
    }
    kg_fail(err, KG_E_OBJECTS, "the bucket %s answered with status %d%s%.*s", run->bucket, status,
            code.length > 0 ? " " : "", KG_STR_ARG(code));
    if (status == 401 || status == 403)
        kg_hint(err,
                "check the keys in local.toml, [services.bucket], their rights, and the clock");
    else if (status >= 300 && status < 400)
        kg_hint(err, "it is in another region, or somewhere else: check cluster.region and "
                     "cluster.endpoint");
    else
        kg_hint(err, "kaged doctor tries it");
}

static void bucket_tell(const struct bucket_run *run, const struct kg_node *said)
{
    struct kg_err err = {0};
    int64_t status = kg_node_number(said, "status");
    const struct bucket_answer answer = {
        .status = (int)status,
        .bytes = (uint64_t)kg_node_number(said, "bytes"),
        .clock_ms = kg_node_number(said, "clock_ms"),
        .is_missing = status == 404,
        .said = said,
    };
    if (status < 200 || status >= 300)
        bucket_explain(run, said, (int)status, &err);
    else if (kg_node_text(said, "words").length > 0)
        kg_fail(&err, KG_E_OBJECTS, "the bucket %s: %.*s", run->bucket,
                KG_STR_CUT(kg_node_text(said, "words"), KG_CUT_CAUSE));
    run->on_done(run->data, &answer, err.code != KG_OK ? &err : NULL);
}

static void bucket_run_free(struct bucket_run *run)
{
    free(run->bucket);
    free(run);
}

static void bucket_on_run(void *data, struct helper_run_result *result,
                          const struct kg_err *err_or_null)
{
    struct bucket_run *run = data;
    const struct bucket_answer none = {0};
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    bool is_well = err_or_null == NULL && result->how.built && result->how.exit_code == 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        is_well && !result->truncated ? kg_json_read(kg_buf_view(&result->out), NULL) : NULL;
    bool fits = doc != NULL && doc->root->type == KG_OBJECT &&
                kg_node_number(doc->root, "status") >= 0 &&
                kg_node_number(doc->root, "status") <= 999;
    if (fits) {
        bucket_tell(run, doc->root);
    } else {
        if (err_or_null == NULL)
            kg_fail(&err, KG_E_OBJECTS, "the bucket %s: the process that asks %s%.*s", run->bucket,
                    result->timed_out ? "took too long" : "failed: ",
                    KG_STR_CUT(result->timed_out ? KG_STR("") : kg_buf_view(&result->err),
                               KG_CUT_CAUSE));
        run->on_done(run->data, &none, &err);
    }
    bucket_run_free(run);
}

static void bucket_on_network(void *data, const struct gate_event *event)
{
    struct bucket_run *run = data;
    if (event->kind == GATE_DENIED || event->kind == GATE_FAILED)
        snprintf(run->reason, sizeof(run->reason), "%s port %u: %s", event->host, event->port,
                 event->reason);
}

struct bucket_run *bucket_run_start(const struct objects_parts *parts,
                                    const struct bucket_errand *errand, bucket_done_fn *on_done,
                                    void *data, struct kg_err *err)
{
    kg_auto(bucket_place_free) struct bucket_place place = {0};
    kg_auto(kg_buf_free) struct kg_buf order = {0};
    const struct config *config = parts->config(parts->data);
    if (parts->facts == NULL) {
        kg_fail(err, KG_E_OBJECTS, "no cage can be built here, so the bucket cannot be used");
        return NULL;
    }
    if (bucket_check_keys(&parts->local(parts->data)->services, err) < 0 ||
        bucket_place_find(config, &place, err) < 0)
        return NULL;
    struct cage_plan *plan = bucket_make_plan(parts, errand, &place, err);
    if (plan == NULL)
        return NULL;
    write_order(parts, errand, &place, &order);
    struct bucket_run *run = kg_alloc(sizeof(*run));
    *run = (struct bucket_run){
        .on_done = on_done, .data = data, .bucket = kg_strdup(config->cluster_bucket)};
    const struct helper_run_options options = {.input = kg_buf_view(&order),
                                               .output_max = OUTPUT_BYTES,
                                               .timeout_ms = TIMEOUT_MS,
                                               .on_network = bucket_on_network};
    run->run = helper_run_start(&parts->place, plan, &options, bucket_on_run, run, err);
    cage_plan_free(plan);
    explicit_bzero(order.data, order.length);
    if (run->run != NULL)
        return run;
    bucket_run_free(run);
    return NULL;
}

void bucket_run_cancel(struct bucket_run *run)
{
    helper_run_cancel(run->run);
    bucket_run_free(run);
}
