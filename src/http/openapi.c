/*
 * The API as an OpenAPI 3.1 document, out of the tables that the daemon itself runs on: a route, a
 * parameter, an error that is not in a table does not exist, and what is in one is in the document.
 * Only the shapes of bodies are written by hand, in schema/api-v1.json.
 */
#include "http/internal.h"

#include <ctype.h>
#include <stdio.h>

static void openapi_put_raw(struct kg_json_writer *json, const char *key, const char *text)
{
    kg_json_key(json, key);
    kg_json_raw(json, kg_str(text));
}

static void openapi_begin(struct kg_json_writer *json, const char *key, char open)
{
    kg_json_key(json, key);
    kg_json_begin(json, open);
}

static void openapi_put_reference(struct kg_json_writer *json, const char *group, const char *name)
{
    kg_auto(kg_free) char *path = kg_format("#/components/%s/%s", group, name);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "$ref", path);
    kg_json_end(json, '}');
}

/* -- parameters -------------------------------------------------------------------------------- */

static const struct {
    const char *name, *meaning;
} path_parameters[] = {
    {"name", "the name of the plugin"},
    {"method", "a method that the plugin's manifest declares"},
    {"id", "an id, or where it has one a name; of a session a prefix is enough"},
    {"tool", "a tool that is on for the agent, by its full name or as models write it"},
    {"knob", "a knob that the plugin's manifest declares"},
    {"path", "the path of an agent: primary.subagents.reader"},
    {"file", "a file that the page names"},
    {"org_id", "the id of an org, or its name"},
    {"pid", "what a package is called: com.example.search"},
    {"plugin_id", "the id of one version of a package"},
    {"user_id", "the id of a user, or his name"},
};

static void put_parameter(struct kg_json_writer *json, const char *where,
                          const struct http_parameter *parameter)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", parameter->name);
    kg_json_named_text(json, "in", where);
    kg_json_named_text(json, "description", parameter->meaning);
    if (strcmp(where, "path") == 0) {
        kg_json_key(json, "required");
        kg_json_bool(json, true);
    }
    openapi_put_raw(json, "schema", http_type_find(parameter->type)->schema);
    kg_json_end(json, '}');
}

static void put_path_parameter(struct kg_json_writer *json, struct kg_str part)
{
    kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){part.data + 1, part.length - 2});
    struct http_parameter parameter = {name, "string", name};
    for (size_t i = 0; i < KG_COUNT(path_parameters); i++)
        if (strcmp(path_parameters[i].name, name) == 0)
            parameter.meaning = path_parameters[i].meaning;
    put_parameter(json, "path", &parameter);
}

/* The query of a call is free: one object stands for all that may come. */
static void put_free_query(struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", "params");
    kg_json_named_text(json, "in", "query");
    kg_json_named_text(json, "description", "the parameters of the method");
    kg_json_named_text(json, "style", "form");
    kg_json_key(json, "explode");
    kg_json_bool(json, true);
    openapi_put_raw(json, "schema",
                    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}");
    kg_json_end(json, '}');
}

static void openapi_put_parameters(struct kg_json_writer *json, const struct http_route *route)
{
    struct kg_str part;
    size_t at = 0;
    openapi_begin(json, "parameters", '[');
    while (http_pattern_next(route->pattern, &at, &part))
        if (part.length > 0 && part.data[0] == '{')
            put_path_parameter(json, part);
    for (const struct http_parameter *query = route->query; query && query->name; query++)
        put_parameter(json, "query", query);
    if (route->any_query)
        put_free_query(json);
    for (const struct http_parameter *header = route->headers; header && header->name; header++)
        put_parameter(json, "header", header);
    openapi_put_reference(json, "parameters", "RequestId");
    kg_json_end(json, ']');
}

/* -- answers ----------------------------------------------------------------------------------- */

/* The row that is the first with its status: it stands for all of them. */
static bool is_first_of_status(int code)
{
    int status = kg_error_row((enum kg_code)code)->http_status;
    for (int other = 1; other < code; other++)
        if (kg_error_row((enum kg_code)other)->http_status == status)
            return false;
    return true;
}

static void openapi_put_content(struct kg_json_writer *json, const char *schema_or_type)
{
    bool is_type = strchr(schema_or_type, '/') != NULL;
    openapi_begin(json, "content", '{');
    openapi_begin(json, is_type ? schema_or_type : "application/json", '{');
    if (strcmp(schema_or_type, "multipart/form-data") == 0) {
        openapi_put_raw(json, "schema",
                        "{\"type\":\"object\",\"required\":[\"file\"],\"properties\":"
                        "{\"file\":{\"type\":\"string\",\"format\":\"binary\"}}}");
    } else if (is_type) {
        openapi_put_raw(json, "schema", "{\"type\":\"string\"}");
    } else {
        kg_json_key(json, "schema");
        openapi_put_reference(json, "schemas", schema_or_type);
    }
    kg_json_end(json, '}');
    kg_json_end(json, '}');
}

static void put_answers(struct kg_json_writer *json, const struct http_route *route)
{
    char text[16];
    const char *flat = http_pattern_is_flat(kg_str(route->pattern)) ? "Flat" : "";
    openapi_begin(json, "responses", '{');
    snprintf(text, sizeof(text), "%d", route->status ? route->status : 200);
    openapi_begin(json, text, '{');
    kg_json_named_text(json, "description", route->summary);
    if (route->answer != NULL)
        openapi_put_content(json, route->answer);
    kg_json_end(json, '}');
    for (int code = 1; code < KG_CODE_COUNT; code++) {
        if (!is_first_of_status(code))
            continue;
        snprintf(text, sizeof(text), "%d", kg_error_row((enum kg_code)code)->http_status);
        kg_json_key(json, text);
        kg_auto(kg_free) char *name = kg_format("%sError%s", flat, text);
        openapi_put_reference(json, "responses", name);
    }
    kg_json_key(json, "default");
    openapi_put_reference(json, "responses", flat[0] != '\0' ? "FlatError" : "Error");
    kg_json_end(json, '}');
}

/* -- routes ------------------------------------------------------------------------------------ */

/* Over the unix socket the user of the process is enough. */
static void put_security(struct kg_json_writer *json, const struct http_route *route)
{
    openapi_begin(json, "security", '[');
    if (route->permission[0] != '\0') {
        static const char *const schemes[] = {"token", "session"};
        for (size_t i = 0; i < KG_COUNT(schemes); i++) {
            kg_json_begin(json, '{');
            openapi_begin(json, schemes[i], '[');
            if (strcmp(route->permission, "any") != 0)
                kg_json_text(json, route->permission);
            kg_json_end(json, ']');
            kg_json_end(json, '}');
        }
    }
    kg_json_end(json, ']');
}

static void put_operation(struct kg_json_writer *json, const struct http_route *route)
{
    char method[16];
    snprintf(method, sizeof(method), "%s", route->method);
    for (char *c = method; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    openapi_begin(json, method, '{');
    kg_json_named_text(json, "operationId", route->operation);
    kg_json_named_text(json, "summary", route->summary);
    put_security(json, route);
    openapi_put_parameters(json, route);
    if (route->body_max > 0) {
        openapi_begin(json, "requestBody", '{');
        openapi_put_content(json, route->body ? route->body : "application/octet-stream");
        kg_json_end(json, '}');
    }
    put_answers(json, route);
    kg_json_end(json, '}');
}

/* All methods of a path stand together, where the first of them is. */
static void openapi_put_path(struct kg_json_writer *json, const struct http_route *routes,
                             size_t count, size_t index)
{
    const char *pattern = routes[index].pattern;
    for (size_t i = 0; i < index; i++)
        if (strcmp(routes[i].pattern, pattern) == 0)
            return;
    openapi_begin(json, pattern, '{');
    for (size_t i = index; i < count; i++)
        if (strcmp(routes[i].pattern, pattern) == 0)
            put_operation(json, &routes[i]);
    kg_json_end(json, '}');
}

/* -- components -------------------------------------------------------------------------------- */

static void put_error_response(struct kg_json_writer *json, int status, bool flat)
{
    kg_auto(kg_free) char *name = kg_format("%sError%d", flat ? "Flat" : "", status);
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    for (int code = 1; code < KG_CODE_COUNT; code++) {
        const struct kg_error_row *row = kg_error_row((enum kg_code)code);
        if (row->http_status == status)
            kg_buf_printf(&words, "%s%s: %s", words.length ? " " : "",
                          flat ? row->catalog_code : row->name, row->meaning);
    }
    openapi_begin(json, name, '{');
    kg_json_named_text(json, "description", kg_buf_terminate(&words));
    openapi_put_content(json, flat ? "FlatError" : "Error");
    kg_json_end(json, '}');
}

static void put_error_responses(struct kg_json_writer *json)
{
    openapi_begin(json, "responses", '{');
    for (int code = 1; code < KG_CODE_COUNT; code++)
        for (int flat = 0; flat < 2 && is_first_of_status(code); flat++)
            put_error_response(json, kg_error_row((enum kg_code)code)->http_status, flat);
    for (int flat = 0; flat < 2; flat++) {
        openapi_begin(json, flat ? "FlatError" : "Error", '{');
        kg_json_named_text(json, "description", "Refused before the route was looked at.");
        openapi_put_content(json, flat ? "FlatError" : "Error");
        kg_json_end(json, '}');
    }
    kg_json_end(json, '}');
}

static void put_error_codes(struct kg_json_writer *json)
{
    openapi_begin(json, "ErrorCode", '{');
    kg_json_named_text(json, "type", "string");
    openapi_begin(json, "enum", '[');
    for (int code = 1; code < KG_CODE_COUNT; code++)
        kg_json_text(json, kg_error_row((enum kg_code)code)->name);
    kg_json_end(json, ']');
    kg_json_end(json, '}');
}

/* The embedded file is an object: what stands in its braces is put beside the generated schemas. */
static void put_schemas(struct kg_json_writer *json)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(http_schemas(), NULL);
    openapi_begin(json, "schemas", '{');
    put_error_codes(json);
    for (uint32_t i = 0; doc != NULL && i < doc->root->count; i++) {
        kg_auto(kg_free) char *name = kg_str_dup(doc->root->members[i].key);
        kg_json_key(json, name);
        kg_json_node(json, &doc->root->members[i].value);
    }
    kg_json_end(json, '}');
}

static void put_components(struct kg_json_writer *json)
{
    openapi_begin(json, "components", '{');
    put_schemas(json);
    put_error_responses(json);
    openapi_put_raw(json, "parameters",
                    "{\"RequestId\":{\"name\":\"X-Request-Id\",\"in\":\"header\",\"description\":"
                    "\"names the request in answers, logs and events; any other is replaced\","
                    "\"schema\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9_.-]{1,64}$\"}}}");
    openapi_put_raw(
        json, "securitySchemes",
        "{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"an API token; "
        "the roles are its scopes\"},\"session\":{\"type\":\"apiKey\",\"in\":\"cookie\","
        "\"name\":\"kaged_session\",\"description\":\"set by the launch URL\"}}");
    kg_json_end(json, '}');
}

void http_openapi_put(struct kg_buf *out, const struct http_route *routes, size_t route_count)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "openapi", "3.1.0");
    openapi_begin(&json, "info", '{');
    kg_json_named_text(&json, "title", "kaged");
    kg_json_named_text(&json, "version", KAGED_VERSION);
    kg_json_named_text(
        &json, "description",
        "The daemon that runs plugins in cages. Over its unix socket no token is needed: the "
        "caller is the user of the process.");
    openapi_put_raw(&json, "license", "{\"name\":\"MIT\",\"identifier\":\"MIT\"}");
    kg_json_end(&json, '}');
    openapi_put_raw(&json, "servers", "[{\"url\":\"/\"}]");
    openapi_begin(&json, "paths", '{');
    for (size_t i = 0; i < route_count; i++)
        openapi_put_path(&json, routes, route_count, i);
    kg_json_end(&json, '}');
    put_components(&json);
    kg_json_end(&json, '}');
}

void http_handle_openapi(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    http_openapi_put(&body, http_routes, http_route_count);
    http_reply(request, 200, kg_buf_view(&body));
}
