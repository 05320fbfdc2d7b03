/*
 * [providers] and [models] of local.toml. What is taken from here can be used as it is: an address
 * that leads to one host and port, headers that cannot break a request, models whose provider is
 * there.
 */
#include "base/doc.h"
#include "config/local_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#define fail_at LOCAL_FAIL_AT

#define NAME_MAX_BYTES   64       /* of a provider, an alias, a header */
#define HOST_MAX_BYTES   253      /* the longest name that DNS has */
#define HEADERS_MAX      32       /* of one provider */
#define HEADER_MAX_BYTES 8192     /* more is refused by most servers */
#define DAY_MS           86400000 /* no answer is waited for longer */

const char *const local_kind_names[LOCAL_KINDS] = {
    [LOCAL_OPENAI] = "openai",
    [LOCAL_ANTHROPIC] = "anthropic",
    [LOCAL_DEMO] = "demo", /* a few fixed rules, without a model or a network */
};

static const char *const default_urls[LOCAL_KINDS] = {
    [LOCAL_OPENAI] = "https://api.openai.com/v1",
    [LOCAL_ANTHROPIC] = "https://api.anthropic.com",
    [LOCAL_DEMO] = "",
};

/* -- tables of keys ---------------------------------------------------------------------------- */

enum field_type { FIELD_TEXT, FIELD_INT, FIELD_BOOL, FIELD_NUMBER, FIELD_NODE };

struct field {
    const char *key;
    enum field_type type;
    size_t offset; /* in the record that is filled */
    int64_t min, max;
};

#define PROVIDER(kind_of, name, ...)                                                               \
    {                                                                                              \
        .key = #name, .type = kind_of, .offset = offsetof(struct provider_record, name),           \
        __VA_ARGS__                                                                                \
    }
#define MODEL(kind_of, name, ...)                                                                  \
    {                                                                                              \
        .key = #name, .type = kind_of, .offset = offsetof(struct model_record, name), __VA_ARGS__  \
    }

struct provider_record {
    const struct kg_node *kind, *base_url, *headers;
    struct kg_str api_key;
    bool insecure;
    int64_t connect_timeout_ms, idle_timeout_ms, timeout_ms, retries;
    int64_t calls_max, waiting_max;
};

static const struct field provider_fields[] = {
    PROVIDER(FIELD_NODE, kind, 0, 0),
    PROVIDER(FIELD_NODE, base_url, 0, 0),
    PROVIDER(FIELD_NODE, headers, 0, 0),
    PROVIDER(FIELD_TEXT, api_key, 0, HEADER_MAX_BYTES),
    PROVIDER(FIELD_BOOL, insecure, 0, 0),
    PROVIDER(FIELD_INT, connect_timeout_ms, 10, 300000),
    PROVIDER(FIELD_INT, idle_timeout_ms, 10, DAY_MS),
    PROVIDER(FIELD_INT, timeout_ms, 10, DAY_MS),
    PROVIDER(FIELD_INT, retries, 0, 10),
    PROVIDER(FIELD_INT, calls_max, 1, LOCAL_CALLS_MAX),
    PROVIDER(FIELD_INT, waiting_max, 0, 1024),
};

struct model_record {
    const struct kg_node *provider;
    struct kg_str model, temperature;
    int64_t context_window, max_tokens;
    bool reasoning, fast;
};

static const struct field model_fields[] = {
    MODEL(FIELD_NODE, provider, 0, 0),
    MODEL(FIELD_TEXT, model, 1, 256),
    MODEL(FIELD_INT, context_window, 1, INT32_MAX),
    MODEL(FIELD_INT, max_tokens, 1, INT32_MAX),
    MODEL(FIELD_NUMBER, temperature, 0, 0),
    MODEL(FIELD_BOOL, reasoning, 0, 0),
    MODEL(FIELD_BOOL, fast, 0, 0),
};

static int providers_unknown_key(const struct kg_member *member, const struct field *fields,
                                 size_t count, struct kg_err *err)
{
    const char *names[KG_COUNT(provider_fields)];
    for (size_t i = 0; i < count; i++)
        names[i] = fields[i].key;
    kg_fail(err, KG_E_INVALID_CONFIG, "%u:%u: unknown key %.*s", member->key_line,
            member->key_column, KG_STR_CUT(member->key, NAME_MAX_BYTES));
    const char *nearest = kg_str_nearest(member->key, names, count);
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    return -EINVAL;
}

static int providers_take_text(const struct field *field, const struct kg_node *node,
                               struct kg_str *ret_text, struct kg_err *err)
{
    if (node->type != KG_STRING || node->flavor != KG_PLAIN)
        return fail_at(err, node, "%s takes a string", field->key);
    if ((int64_t)node->text.length < field->min || (int64_t)node->text.length > field->max)
        return fail_at(err, node, "%s takes a string of %lld to %lld bytes", field->key,
                       (long long)field->min, (long long)field->max);
    for (size_t i = 0; i < node->text.length; i++)
        if ((unsigned char)node->text.data[i] < 0x20 || node->text.data[i] == 0x7F)
            return fail_at(err, node, "%s contains a control character", field->key);
    *ret_text = node->text;
    return 0;
}

static int providers_take_field(const struct field *field, const struct kg_node *node, char *record,
                                struct kg_err *err)
{
    void *at = record + field->offset;
    int64_t number;
    switch (field->type) {
    case FIELD_NODE:
        *(const struct kg_node **)at = node;
        return 0;
    case FIELD_TEXT:
        return providers_take_text(field, node, at, err);
    case FIELD_BOOL:
        if (node->type != KG_BOOL)
            return fail_at(err, node, "%s takes true or false", field->key);
        *(bool *)at = node->boolean;
        return 0;
    case FIELD_INT:
        if (!kg_node_int(node, &number) || number < field->min || number > field->max)
            return fail_at(err, node, "%s takes a number from %lld to %lld", field->key,
                           (long long)field->min, (long long)field->max);
        *(int64_t *)at = number;
        return 0;
    case FIELD_NUMBER:
        if (node->type != KG_NUMBER || kg_json_check(node->text, NULL) != KG_JSON_OK)
            return fail_at(err, node, "%s takes a number", field->key);
        *(struct kg_str *)at = node->text;
        return 0;
    }
    return 0;
}

static int take_fields(const struct kg_node *table, const struct field *fields, size_t count,
                       void *record, struct kg_err *err)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct kg_member *member = &table->members[i];
        size_t at = 0;
        while (at < count && !kg_str_is(member->key, fields[at].key))
            at++;
        int result = at == count ? providers_unknown_key(member, fields, count, err)
                                 : providers_take_field(&fields[at], &member->value, record, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int local_check_name(const struct kg_member *member, const char *section, struct kg_err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.";
    bool good = member->key.length > 0 && member->key.length <= NAME_MAX_BYTES;
    for (size_t i = 0; good && i < member->key.length; i++)
        good = memchr(allowed, member->key.data[i], sizeof(allowed) - 1) != NULL;
    if (!good) {
        kg_fail(err, KG_E_INVALID_CONFIG,
                "%u:%u: a name in [%s] has 1 to %d letters, digits, \"-\", \"_\" and \".\"",
                member->key_line, member->key_column, section, NAME_MAX_BYTES);
        return -EINVAL;
    }
    if (member->value.type != KG_OBJECT)
        return fail_at(err, &member->value, "%s.%.*s is a table", section, KG_STR_ARG(member->key));
    return 0;
}

/* -- addresses --------------------------------------------------------------------------------- */

struct url {
    bool encrypted;
    char host[HOST_MAX_BYTES + 1];
    uint16_t port;
};

static bool is_v6(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET6, host, &address) == 1;
}

static bool providers_is_host(const char *host)
{
    size_t length = strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.");
    return length > 0 && host[length] == '\0';
}

static bool providers_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(host, "localhost") == 0;
}

/* "host", "host:8080", "[::1]:8080"; what is wrong, or NULL. */
static const char *parse_authority(struct kg_str text, struct url *url)
{
    bool brackets = text.length > 0 && text.data[0] == '[';
    size_t host_length = 0;
    while (host_length < text.length && text.data[host_length] != (brackets ? ']' : ':'))
        host_length++;
    struct kg_str host = {text.data + brackets, host_length - brackets};
    struct kg_str rest = {text.data + host_length, text.length - host_length};
    if ((brackets && host_length == text.length) || host.length > HOST_MAX_BYTES)
        return "it has no host";
    for (size_t i = 0; i < host.length; i++)
        url->host[i] =
            (char)(host.data[i] >= 'A' && host.data[i] <= 'Z' ? host.data[i] + 32 : host.data[i]);
    url->host[host.length] = '\0';
    if (strlen(url->host) != host.length ||
        !(brackets ? is_v6(url->host) : providers_is_host(url->host)))
        return "it has no host";
    if (brackets)
        rest = (struct kg_str){rest.data + 1, rest.length - 1};
    int64_t port = url->encrypted ? 443 : 80;
    if (rest.length > 0) {
        struct kg_str digits = {rest.data + 1, rest.length - 1};
        if (rest.data[0] != ':' || !kg_str_to_int(digits, &port) || port < 1 || port > 65535)
            return "its port is not one from 1 to 65535";
    }
    url->port = (uint16_t)port;
    return NULL;
}

static const char *wrong_character(char c)
{
    if (c <= ' ' || c >= 0x7F || strchr("\"\\<>^`{|}", c) != NULL)
        return "it contains a character that no address may have";
    if (c == '@')
        return "it contains a user name: keys belong in api_key or headers";
    return c == '?' || c == '#' ? "it contains a \"?\" or \"#\"" : NULL;
}

/* What is wrong with it, or NULL. */
static const char *parse_url(struct kg_str text, struct url *url)
{
    const char *problem = NULL;
    *url = (struct url){.encrypted = kg_str_starts(text, "https://")};
    if (!url->encrypted && !kg_str_starts(text, "http://"))
        return "it does not start with https:// or http://";
    for (size_t i = 0; i < text.length && problem == NULL; i++)
        problem = wrong_character(text.data[i]);
    if (problem != NULL)
        return problem;
    size_t start = url->encrypted ? strlen("https://") : strlen("http://"), end = start;
    while (end < text.length && text.data[end] != '/')
        end++;
    return parse_authority((struct kg_str){text.data + start, end - start}, url);
}

/* Names that mean something within one network only. */
static bool is_inside_name(const char *host)
{
    static const char *const endings[] = {".local", ".lan", ".internal", ".home.arpa"};
    if (strchr(host, '.') == NULL && strchr(host, ':') == NULL)
        return true;
    for (size_t i = 0; i < KG_COUNT(endings); i++)
        if (kg_str_ends(kg_str(host), endings[i]))
            return true;
    return false;
}

static bool is_private(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        uint32_t address = ntohl(v4.s_addr);
        return address >> 24 == 10 || address >> 20 == (172 << 4 | 1) ||
               address >> 16 == (192 << 8 | 168) || address >> 16 == (169 << 8 | 254) ||
               address >> 22 == (100 << 2 | 1);
    }
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return (v6.s6_addr[0] & 0xFE) == 0xFC || IN6_IS_ADDR_LINKLOCAL(&v6);
    return is_inside_name(host);
}

/* Whether what is said to it may go in the clear: nobody else's network, and nothing to steal. */
static bool may_be_open(const struct local_provider *provider, const char *host)
{
    bool has_key =
        provider->api_key.length > 0 || (provider->headers != NULL && provider->headers->count > 0);
    return providers_is_loopback(host) || (!has_key && is_private(host));
}

static int providers_take_url(struct local *local, struct local_provider *provider,
                              const struct kg_node *node, struct kg_err *err)
{
    struct url url;
    const char *problem = parse_url(provider->base_url, &url);
    if (problem != NULL)
        return fail_at(err, node, "base_url: %s", problem);
    if (!url.encrypted && !provider->insecure && !may_be_open(provider, url.host)) {
        fail_at(err, node, "base_url: http:// would show %s to the network",
                provider->api_key.length > 0 ? "the key" : "what is said");
        return kg_hint(err, "use https://, or set insecure = true if that is intended");
    }
    while (provider->base_url.data[provider->base_url.length - 1] == '/')
        provider->base_url.length--;
    provider->host =
        kg_arena_str(local->doc->arena, (struct kg_str){url.host, sizeof(url.host)}).data;
    provider->port = url.port;
    return 0;
}

/* -- headers ----------------------------------------------------------------------------------- */

/* They are the request itself. */
static const char *const own_headers[] = {
    "host",         "content-length", "transfer-encoding", "connection",
    "content-type", "accept",         "accept-encoding",   "expect",
    "upgrade"};

static bool providers_is_token(struct kg_str name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789!#$%&'*+-.^_`|~";
    bool good = name.length > 0 && name.length <= NAME_MAX_BYTES;
    for (size_t i = 0; good && i < name.length; i++)
        good = memchr(allowed, name.data[i], sizeof(allowed) - 1) != NULL;
    return good;
}

static int check_header(const struct kg_member *member, struct kg_err *err)
{
    static const struct field value = {.key = "a header", .max = HEADER_MAX_BYTES};
    struct kg_str text;
    if (!providers_is_token(member->key))
        return fail_at(err, &member->value, "headers: that is not a header name");
    for (size_t i = 0; i < KG_COUNT(own_headers); i++)
        if (member->key.length == strlen(own_headers[i]) &&
            strncasecmp(member->key.data, own_headers[i], member->key.length) == 0)
            return fail_at(err, &member->value, "headers: %s cannot be set", own_headers[i]);
    return providers_take_text(&value, &member->value, &text, err);
}

int local_check_headers(const struct kg_node *headers, struct kg_err *err)
{
    if (headers == NULL)
        return 0;
    if (headers->type != KG_OBJECT || headers->count > HEADERS_MAX)
        return fail_at(err, headers, "headers takes a table of at most %d strings", HEADERS_MAX);
    int result = 0;
    for (uint32_t i = 0; i < headers->count && result == 0; i++)
        result = check_header(&headers->members[i], err);
    return result;
}

/* -- providers --------------------------------------------------------------------------------- */

static int providers_take_kind(const struct kg_member *member, const struct kg_node *node,
                               enum local_kind *ret_kind, struct kg_err *err)
{
    if (node == NULL)
        return fail_at(err, &member->value, "providers.%.*s does not say its kind",
                       KG_STR_ARG(member->key));
    for (size_t i = 0; node->type == KG_STRING && i < LOCAL_KINDS; i++) {
        if (!kg_str_is(node->text, local_kind_names[i]))
            continue;
        *ret_kind = (enum local_kind)i;
        return 0;
    }
    return fail_at(err, node, "kind takes \"openai\", \"anthropic\" or \"demo\"");
}

static int take_base_url(struct local *local, struct local_provider *provider,
                         const struct kg_member *member, const struct kg_node *node, bool open,
                         struct kg_err *err)
{
    static const struct field field = {.key = "base_url", .min = 1, .max = 2048};
    provider->base_url = kg_str(default_urls[provider->kind]);
    if (provider->kind == LOCAL_DEMO) {
        provider->host = "";
        return node ? fail_at(err, node, "the demo takes no base_url: it asks nobody") : 0;
    }
    int result = node ? providers_take_text(&field, node, &provider->base_url, err) : 0;
    if (result < 0)
        return result;
    /* Only looked at, or not found, its references in place: it cannot be judged. */
    if (open && memmem(provider->base_url.data, provider->base_url.length, "${", 2) != NULL)
        return 0;
    return providers_take_url(local, provider, node ? node : &member->value, err);
}

static int take_provider(struct local *local, const struct kg_member *member, bool open,
                         struct kg_err *err)
{
    struct provider_record record = {
        .connect_timeout_ms = 10000,
        .idle_timeout_ms = 120000,
        .timeout_ms = 600000,
        .retries = 2,
        .calls_max = 64,
        .waiting_max = 256,
    };
    struct local_provider *provider = &local->providers[local->provider_count];
    enum local_kind kind = LOCAL_OPENAI;
    if (local_check_name(member, "providers", err) < 0 ||
        take_fields(&member->value, provider_fields, KG_COUNT(provider_fields), &record, err) < 0 ||
        providers_take_kind(member, record.kind, &kind, err) < 0 ||
        local_check_headers(record.headers, err) < 0)
        return -EINVAL;
    *provider = (struct local_provider){
        .name = member->key,
        .kind = kind,
        .api_key = record.api_key,
        .headers = record.headers,
        .insecure = record.insecure,
        .connect_timeout_ms = record.connect_timeout_ms,
        .idle_timeout_ms = record.idle_timeout_ms,
        .timeout_ms = record.timeout_ms,
        .retries = record.retries,
        .calls_max = (uint32_t)record.calls_max,
        .waiting_max = (uint32_t)record.waiting_max,
        .problem = local_problem_of(local, "providers", member->key),
    };
    local->provider_count++;
    open |= provider->problem != NULL;
    return take_base_url(local, provider, member, record.base_url, open, err);
}

int local_section_of(const struct local *local, const char *name, const struct kg_node **ret_table,
                     struct kg_err *err)
{
    *ret_table = kg_node_get(local->doc->root, name);
    if (*ret_table != NULL && (*ret_table)->type != KG_OBJECT)
        return fail_at(err, *ret_table, "%s is a table of tables", name);
    return 0;
}

int local_take_providers(struct local *local, const struct local_lookup *lookup, struct kg_err *err)
{
    const struct kg_node *table;
    int result = local_section_of(local, "providers", &table, err);
    if (result < 0 || table == NULL)
        return result;
    local->providers = kg_alloc_array(table->count + 1u, sizeof(*local->providers));
    for (uint32_t i = 0; i < table->count && result == 0; i++)
        result = take_provider(local, &table->members[i], lookup == LOCAL_LEAVE, err);
    return result;
}

const struct local_provider *local_provider_find(const struct local *local, struct kg_str name)
{
    for (size_t i = 0; i < local->provider_count; i++)
        if (kg_str_equal(local->providers[i].name, name))
            return &local->providers[i];
    return NULL;
}

/* -- models ------------------------------------------------------------------------------------ */

static int unknown_provider(const struct local *local, const struct kg_node *node,
                            struct kg_err *err)
{
    const char *names[16];
    char *made[KG_COUNT(names)];
    size_t count = 0;
    for (; count < local->provider_count && count < KG_COUNT(names); count++)
        names[count] = made[count] = kg_str_dup(local->providers[count].name);
    fail_at(err, node, "there is no provider %.*s", KG_STR_CUT(node->text, NAME_MAX_BYTES));
    const char *nearest = kg_str_nearest(node->text, names, count);
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "write a table [providers.%.*s]", KG_STR_CUT(node->text, NAME_MAX_BYTES));
    while (count > 0)
        kg_free(&made[--count]);
    return -EINVAL;
}

static int find_provider(const struct local *local, const struct kg_member *member,
                         const struct kg_node *node, const struct local_provider **ret_provider,
                         struct kg_err *err)
{
    if (node == NULL)
        return fail_at(err, &member->value, "models.%.*s does not say its provider",
                       KG_STR_ARG(member->key));
    if (node->type != KG_STRING)
        return fail_at(err, node, "provider takes a string");
    *ret_provider = local_provider_find(local, node->text);
    return *ret_provider != NULL ? 0 : unknown_provider(local, node, err);
}

static int take_model(struct local *local, const struct kg_member *member, struct kg_err *err)
{
    struct model_record record = {0};
    const struct local_provider *provider = NULL;
    if (local_check_name(member, "models", err) < 0 ||
        take_fields(&member->value, model_fields, KG_COUNT(model_fields), &record, err) < 0 ||
        find_provider(local, member, record.provider, &provider, err) < 0)
        return -EINVAL;
    if (record.model.data == NULL)
        return fail_at(err, &member->value, "models.%.*s does not say its model",
                       KG_STR_ARG(member->key));
    local->models[local->model_count++] = (struct local_model){
        .alias = member->key,
        .provider = provider,
        .model = record.model,
        .context_window = record.context_window,
        .max_tokens = record.max_tokens,
        .temperature = record.temperature,
        .reasoning = record.reasoning,
        .fast = record.fast,
    };
    return 0;
}

int local_take_models(struct local *local, struct kg_err *err)
{
    const struct kg_node *table;
    int result = local_section_of(local, "models", &table, err);
    if (result < 0 || table == NULL)
        return result;
    local->models = kg_alloc_array(table->count + 1u, sizeof(*local->models));
    for (uint32_t i = 0; i < table->count && result == 0; i++)
        result = take_model(local, &table->members[i], err);
    return result;
}

const struct local_model *local_model_find(const struct local *local, struct kg_str alias)
{
    for (size_t i = 0; i < local->model_count; i++)
        if (kg_str_equal(local->models[i].alias, alias))
            return &local->models[i];
    return NULL;
}
