/*
 * One row of the table is the whole truth about a route. A request reaches its handler only if
 * path, method, query and length of the body fit the row; every refusal says what would have
 * fitted.
 */
#include "http/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN_MAX 200 /* bytes of a client's text that an error repeats */

bool http_pattern_next(const char *pattern, size_t *at, struct kg_str *ret_part)
{
    const char *start = pattern + *at;
    if (*start != '/')
        return false;
    start++;
    size_t length = (size_t)(strchrnul(start, '/') - start);
    *ret_part = (struct kg_str){start, length};
    *at += 1 + length;
    return true;
}

static bool is_parameter(struct kg_str part)
{
    return part.length > 0 && part.data[0] == '{';
}

/* -- the index --------------------------------------------------------------------------------- */

/* One byte of each of the first parts: with another, it is another path. */
#define MARKED_PARTS 8

static uint64_t mark_of(struct kg_str part, size_t index)
{
    if (index >= MARKED_PARTS || part.length == 0)
        return 0;
    uint8_t mark = (uint8_t)(part.data[0] + 7 * part.data[part.length - 1] + 29 * part.length);
    return (uint64_t)mark << 8 * index;
}

struct http_index_row {
    const struct http_route *route;
    uint64_t mark, mask; /* the mask leaves out what is a parameter */
    size_t parts;
};

static struct http_index_row index_row(const struct http_route *route)
{
    struct http_index_row row = {.route = route};
    struct kg_str part;
    for (size_t at = 0; http_pattern_next(route->pattern, &at, &part); row.parts++) {
        if (is_parameter(part) || row.parts >= MARKED_PARTS)
            continue;
        row.mark |= mark_of(part, row.parts);
        row.mask |= UINT64_C(0xFF) << 8 * row.parts;
    }
    return row;
}

void http_index_make(struct http_index *index, const struct http_route *routes, size_t count)
{
    kg_auto(kg_free) struct http_index_row *rows = kg_alloc_array(count + 1, sizeof(*rows));
    for (size_t i = 0; i < count; i++)
        rows[i] = index_row(&routes[i]);
    index->rows = kg_alloc_array(count + 1, sizeof(*rows));
    size_t used = 0;
    for (size_t parts = 0; parts <= HTTP_SEGMENTS_MAX; parts++) {
        index->first[parts] = used;
        for (size_t i = 0; i < count; i++)
            if (rows[i].parts == parts)
                index->rows[used++] = rows[i];
    }
    index->first[HTTP_SEGMENTS_MAX + 1] = used;
}

void http_index_free(struct http_index *index)
{
    free(index->rows);
}

/* -- patterns ---------------------------------------------------------------------------------- */

static bool part_fits(struct kg_str part, struct kg_str segment)
{
    return is_parameter(part) ? segment.length > 0 : kg_str_equal(part, segment);
}

/* Of as many parts as the request has. */
static bool pattern_fits(const char *pattern, const struct http_request *request)
{
    struct kg_str part;
    size_t at = 0, index = 0;
    for (; http_pattern_next(pattern, &at, &part); index++)
        if (!part_fits(part, request->segments[index]))
            return false;
    return true;
}

/* -- methods ----------------------------------------------------------------------------------- */

static void router_allow(struct http_request *request, const char *method)
{
    if (strstr(request->allow, method) != NULL)
        return; /* two patterns fit the path */
    size_t used = strlen(request->allow);
    snprintf(request->allow + used, sizeof(request->allow) - used, "%s%s", used ? ", " : "",
             method);
}

static void answer_options(struct http_request *request)
{
    http_reply_text(request, 204, NULL, KG_STR_NULL);
}

static const struct http_route options_route = {
    .method = "OPTIONS",
    .pattern = "*",
    .handle = answer_options,
};

/* The routes that have as many parts as the request, in the order of their table. */
struct candidates {
    const struct http_index_row *at, *end;
    uint64_t mark; /* of the request */
};

static struct candidates candidates_of(const struct http_server *server,
                                       const struct http_request *request)
{
    const struct http_index *index = &server->index;
    struct candidates candidates = {
        .at = index->rows + index->first[request->segment_count],
        .end = index->rows + index->first[request->segment_count + 1],
    };
    for (size_t i = 0; i < request->segment_count; i++)
        candidates.mark |= mark_of(request->segments[i], i);
    return candidates;
}

/* The next one whose pattern fits, or NULL. */
static const struct http_route *next_fitting(struct candidates *candidates,
                                             const struct http_request *request)
{
    for (; candidates->at < candidates->end; candidates->at++) {
        const struct http_index_row *row = candidates->at;
        if (((row->mark ^ candidates->mark) & row->mask) != 0 ||
            !pattern_fits(row->route->pattern, request))
            continue;
        candidates->at++;
        return row->route;
    }
    return NULL;
}

/* The methods that the path does take, if not this one. */
static void collect_allowed(const struct http_server *server, struct http_request *request)
{
    struct candidates candidates = candidates_of(server, request);
    const struct http_route *route;
    while ((route = next_fitting(&candidates, request)) != NULL) {
        router_allow(request, route->method);
        if (strcmp(route->method, "GET") == 0)
            router_allow(request, "HEAD");
    }
    if (request->allow[0] != '\0')
        router_allow(request, "OPTIONS");
}

/* Sets the route, or what the path does take. */
static void router_match(const struct http_server *server, struct http_request *request)
{
    const char *method = request->method == HTTP_HEAD ? "GET" : http_request_method(request);
    struct candidates candidates = candidates_of(server, request);
    do
        request->route = next_fitting(&candidates, request);
    while (request->route != NULL && strcmp(request->route->method, method) != 0);
    if (request->route != NULL)
        return;
    collect_allowed(server, request);
    if (request->method == HTTP_OPTIONS && request->allow[0] != '\0')
        request->route = &options_route;
}

static int refuse_unmatched(struct http_request *request)
{
    struct kg_str path = http_request_path(request);
    struct kg_err *err = http_request_refuse(request, 0);
    if (request->allow[0] == '\0')
        return kg_fail(err, KG_E_NOT_FOUND, "no route %.*s", KG_STR_CUT(path, SHOWN_MAX));
    kg_fail(err, KG_E_METHOD_NOT_ALLOWED, "%.*s does not take %s", KG_STR_CUT(path, SHOWN_MAX),
            http_request_method(request));
    return kg_hint(err, "it takes %s", request->allow);
}

/* -- query ------------------------------------------------------------------------------------- */

static const struct http_parameter *find_parameter(const struct http_route *route,
                                                   struct kg_str name)
{
    for (const struct http_parameter *known = route->query; known && known->name; known++)
        if (kg_str_is(name, known->name))
            return known;
    return NULL;
}

static size_t list_parameters(const struct http_route *route, const char **names, size_t max,
                              struct kg_buf *ret_text)
{
    size_t count = 0;
    for (const struct http_parameter *known = route->query; known && known->name && count < max;
         known++) {
        kg_buf_printf(ret_text, "%s%s", count ? ", " : "", known->name);
        names[count++] = known->name;
    }
    return count;
}

static int refuse_parameter(struct http_request *request, struct kg_str name)
{
    const struct http_route *route = request->route;
    const char *names[32];
    kg_auto(kg_buf_free) struct kg_buf known = {0};
    size_t count = list_parameters(route, names, KG_COUNT(names), &known);
    struct kg_err *err = http_request_refuse(request, 0);
    if (count == 0)
        return kg_fail(err, KG_E_USAGE, "unknown query parameter %.*s: %s %s takes none",
                       KG_STR_CUT(name, SHOWN_MAX), route->method, route->pattern);
    kg_fail(err, KG_E_USAGE, "unknown query parameter %.*s: %s %s takes %s",
            KG_STR_CUT(name, SHOWN_MAX), route->method, route->pattern, kg_buf_terminate(&known));
    const char *nearest = kg_str_nearest(name, names, count);
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    return -EINVAL;
}

/* -- types ------------------------------------------------------------------------------------- */

static bool router_is_text(struct kg_str text)
{
    (void)text;
    return true;
}

static bool is_boolean(struct kg_str text)
{
    return kg_str_is(text, "true") || kg_str_is(text, "false");
}

static bool router_is_integer(struct kg_str text)
{
    int64_t number;
    return kg_str_to_int(text, &number);
}

static bool is_count(struct kg_str text)
{
    int64_t number;
    return kg_str_to_int(text, &number) && number >= 0;
}

static bool is_positive(struct kg_str text)
{
    int64_t number;
    return kg_str_to_int(text, &number) && number > 0;
}

static bool is_time(struct kg_str text)
{
    int64_t wall_ms;
    return kg_time_parse(text, &wall_ms);
}

static bool router_is_one_of(struct kg_str text, const char *const *words)
{
    while (*words != NULL && !kg_str_is(text, *words))
        words++;
    return *words != NULL;
}

static bool is_tools_dialect(struct kg_str text)
{
    return router_is_one_of(text, (const char *const[]){"openai", "anthropic", NULL});
}

static bool is_trace(struct kg_str text)
{
    return router_is_one_of(text, (const char *const[]){"live", "recorded", "crash", NULL});
}

static bool is_event_type(struct kg_str text)
{
    for (size_t i = 0; i < HOST_EVENT_TYPE_COUNT; i++)
        if (kg_str_is(text, host_event_type_names[i]))
            return true;
    return false;
}

static bool is_session_state(struct kg_str text)
{
    return router_is_one_of(text,
                            (const char *const[]){"active", "idle", "stopped", "closed", NULL});
}

static bool is_package_source(struct kg_str text)
{
    return router_is_one_of(text, (const char *const[]){"org", "system", NULL});
}

const struct http_type http_types[] = {
    {"string", "{\"type\":\"string\"}", router_is_text, "a string", NULL},
    {"boolean", "{\"type\":\"boolean\"}", is_boolean, "true or false", NULL},
    {"integer", "{\"type\":\"integer\"}", router_is_integer, "an integer", NULL},
    {"count", "{\"type\":\"integer\",\"minimum\":0}", is_count, "an integer of at least 0", NULL},
    {"positive", "{\"type\":\"integer\",\"minimum\":1}", is_positive, "an integer of at least 1",
     NULL},
    {"time", "{\"type\":\"string\"}", is_time, "a time",
     "write 2026-11-15T22:00:00Z, 2026-11-15, or a span like 15m or 2h"},
    {"tools_dialect", "{\"enum\":[\"openai\",\"anthropic\"]}", is_tools_dialect,
     "openai or anthropic", NULL},
    {"trace", "{\"enum\":[\"live\",\"recorded\",\"crash\"]}", is_trace, "a kind of trace",
     "there are live, recorded and crash"},
    {"event_type", "{\"enum\":[\"notification\",\"state\",\"audit\"]}", is_event_type,
     "a type of event", "the types are notification, state and audit"},
    {"package_source", "{\"enum\":[\"org\",\"system\"]}", is_package_source, "org or system", NULL},
    {"session_state", "{\"enum\":[\"active\",\"idle\",\"stopped\",\"closed\"]}", is_session_state,
     "a state of a session", "the states are active, idle, stopped and closed"},
    {0},
};

const struct http_type *http_type_find(const char *name)
{
    const struct http_type *type = http_types;
    while (strcmp(type->name, name) != 0)
        type++;
    return type;
}

static int router_check_type(struct http_request *request, const char *where,
                             const struct http_parameter *known, struct kg_str value)
{
    const struct http_type *type = http_type_find(known->type);
    if (type->fits(value))
        return 0;
    struct kg_err *err = http_request_refuse(request, 0);
    kg_fail(err, KG_E_USAGE, "%s %s: \"%.*s\" is not %s", where, known->name,
            KG_STR_CUT(value, SHOWN_MAX), type->what);
    if (type->hint != NULL)
        kg_hint(err, "%s", type->hint);
    return -EINVAL;
}

static int check_headers(struct http_request *request)
{
    for (const struct http_parameter *known = request->route->headers; known && known->name;
         known++) {
        struct kg_str value = http_header(request, known->name);
        int result = value.data ? router_check_type(request, "header", known, value) : 0;
        if (result < 0)
            return result;
    }
    return 0;
}

static int check_parameter(struct http_request *request, const struct http_pair *given)
{
    if (request->route->any_query)
        return 0;
    const struct http_parameter *known = find_parameter(request->route, given->name);
    if (known == NULL)
        return refuse_parameter(request, given->name);
    return router_check_type(request, "query parameter", known, given->value);
}

/* One value a name: of two, each reader would take another. */
static int check_query(struct http_request *request)
{
    for (size_t i = 0; i < request->query_count; i++) {
        const struct http_pair *given = &request->query[i];
        int result = check_parameter(request, given);
        if (result < 0)
            return result;
        for (size_t j = 0; j < i; j++)
            if (kg_str_equal(given->name, request->query[j].name))
                return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                               "query parameter %.*s is given twice",
                               KG_STR_CUT(given->name, SHOWN_MAX));
    }
    return 0;
}

int http_router_find(const struct http_server *server, struct http_request *request)
{
    if (request->segment_count == 0)
        request->route = &options_route; /* OPTIONS *, which is about no path */
    else
        router_match(server, request);
    if (request->route == NULL)
        return refuse_unmatched(request);
    size_t body_max = request->route->body_max;
    request->body_max = body_max == SIZE_MAX ? server->limits.body_bytes : body_max;
    if (request->route == &options_route)
        return 0;
    int result = check_headers(request);
    return result < 0 ? result : check_query(request);
}
