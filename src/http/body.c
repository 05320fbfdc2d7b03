/*
 * The body of a request fits the schema that its row names before a handler has it, and the handler
 * only picks what it wants from the tree. It is the schema that OpenAPI shows. A refusal says where
 * it does not fit, what has to stand there, and what the schema has to say about it.
 */
#include "http/internal.h"
#include "schema/schema.h"

#include <errno.h>
#include <stdlib.h>

#define SHOWN_MAX 100 /* bytes of a place or a name that an error repeats */

struct kg_str http_schemas(void)
{
    static const char text[] =
#include "api-schemas.h"
        ;
    return (struct kg_str){text, sizeof(text) - 1};
}

static bool is_checked(const struct http_route *route)
{
    return route->body != NULL && !route->passes_body;
}

/* -- compiling --------------------------------------------------------------------------------- */

static struct schema *body_compile(const struct kg_node *components, const char *name)
{
    struct kg_err err;
    kg_auto(kg_free) char *place = kg_format("#/components/schemas/%s", name);
    struct kg_member members[] = {
        {.key = KG_STR("$ref"), .value = {.type = KG_STRING, .text = kg_str(place)}},
        {.key = KG_STR("components"), .value = *components},
    };
    const struct kg_node root = {.type = KG_OBJECT, .count = KG_COUNT(members), .members = members};
    struct schema *schema = schema_compile(&root, NULL, &err);
    if (schema == NULL) {
        kg_log(KG_ERROR_LEVEL, "the schema of the body %s: %s", name, err.message);
        abort(); /* it is ours, and every build tests it */
    }
    return schema;
}

static struct kg_doc *read_components(void)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_printf(&text, "{\"schemas\":%.*s}", KG_STR_ARG(http_schemas()));
    return kg_json_read(kg_buf_view(&text), NULL);
}

struct schema **http_bodies_new(const struct http_route *routes, size_t count)
{
    struct schema **bodies = kg_alloc_array(count + 1, sizeof(struct schema *));
    kg_auto(kg_doc_cleanup) struct kg_doc *components = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!is_checked(&routes[i]))
            continue;
        if (components == NULL)
            components = read_components();
        bodies[i] = body_compile(components->root, routes[i].body);
    }
    return bodies;
}

void http_bodies_free(struct schema **bodies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        schema_free(bodies[i]);
    free(bodies);
}

/* -- refusing ---------------------------------------------------------------------------------- */

/* The first segment of a place: "/messages/2/role" is in "messages". */
static struct kg_str body_member_of(struct kg_str place)
{
    struct kg_str rest = kg_str_from(place, 1);
    return kg_str_cut(&rest, '/');
}

static void hint_members(const struct kg_node *properties, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf known = {0};
    for (uint32_t i = 0; i < properties->count; i++)
        kg_buf_printf(&known, "%s%.*s", i > 0 ? ", " : "", KG_STR_ARG(properties->members[i].key));
    kg_hint(err, "it may have %s", kg_buf_terminate(&known));
}

/* What the schema says of the member that does not fit; of the whole, which members there are. */
static void hint(const char *schema, struct kg_str place, struct kg_err *err)
{
    struct kg_str text = KG_STR_NULL;
    kg_json_member(http_schemas(), schema, &text);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, NULL);
    const struct kg_node *properties = doc ? kg_node_get(doc->root, "properties") : NULL;
    if (properties == NULL)
        return;
    if (place.length == 0) {
        hint_members(properties, err);
        return;
    }
    const struct kg_member *member = kg_node_member(properties, body_member_of(place));
    struct kg_str words = member ? kg_node_text(&member->value, "description") : KG_STR_NULL;
    if (words.data != NULL)
        kg_hint(err, "%.*s: %.*s", KG_STR_CUT(member->key, SHOWN_MAX), KG_STR_ARG(words));
}

/* A key that is not known comes first: it may be the misspelt one that is missing. */
static const struct schema_error *pick(const struct schema_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (kg_str_ends(report->errors[i].schema_path, "/additionalProperties"))
            return &report->errors[i];
    return &report->errors[0];
}

static int body_refuse(struct http_request *request, const struct schema_error *error)
{
    const struct http_route *route = request->route;
    struct kg_str place = error->instance_path;
    struct kg_err *err = http_request_refuse(request, 0);
    enum kg_code code =
        http_pattern_is_flat(kg_str(route->pattern)) ? KG_E_INVALID_PARAMS : KG_E_USAGE;
    if (place.length == 0)
        kg_fail(err, code, "%s %s: the body %.*s", route->method, route->pattern,
                KG_STR_ARG(error->message));
    else
        kg_fail(err, code, "%s %s: the body: %.*s %.*s", route->method, route->pattern,
                KG_STR_CUT(((struct kg_str){place.data + 1, place.length - 1}), SHOWN_MAX),
                KG_STR_ARG(error->message));
    hint(route->body, place, err);
    return -EINVAL;
}

/* -- checking ---------------------------------------------------------------------------------- */

static int body_check(const struct schema *schema, struct http_request *request)
{
    const struct http_route *route = request->route;
    kg_auto(schema_report_free) struct schema_report report = {0};
    struct kg_err err = {0};
    struct kg_str text = http_body(request);
    request->tree = kg_json_read(text.length > 0 ? text : KG_STR("{}"), &err);
    if (request->tree == NULL) {
        *http_request_refuse(request, 0) = err;
        return kg_wrap(&request->refusal->err, -EINVAL, "%s %s: the body", route->method,
                       route->pattern);
    }
    if (schema_check(schema, request->tree->root, &report))
        return 0;
    if (report.count > 0)
        return body_refuse(request, pick(&report));
    return kg_fail(http_request_refuse(request, 0), KG_E_TOO_LARGE,
                   "%s %s: the body takes too long to check", route->method, route->pattern);
}

int http_body_check(const struct http_server *server, struct http_request *request)
{
    const struct http_route *route = request->route;
    return is_checked(route) ? body_check(server->bodies[route - server->routes], request) : 0;
}

const struct kg_node *http_body_tree(const struct http_request *request)
{
    return request->tree->root;
}

char *http_body_text(const struct http_request *request, const char *key)
{
    struct kg_str text = kg_node_text(request->tree->root, key);
    return text.data ? kg_str_dup(text) : NULL;
}

bool http_body_flag(const struct http_request *request, const char *key, bool fallback)
{
    const struct kg_node *value = kg_node_get(request->tree->root, key);
    return value != NULL && value->type == KG_BOOL ? value->boolean : fallback;
}

int64_t http_body_int(const struct http_request *request, const char *key, int64_t fallback)
{
    const struct kg_node *value = kg_node_get(request->tree->root, key);
    if (value == NULL || value->type != KG_NUMBER || kg_node_int(value, &fallback))
        return fallback;
    kg_auto(kg_free) char *text = kg_str_dup(value->text);
    return (int64_t)strtod(text, NULL); /* 2.0 is an integer, too, and the schema bounds it */
}
