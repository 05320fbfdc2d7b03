/*
 * A manifest is read into a checked struct or not at all. Each row of `fields` is one key: its
 * type, whether it must be there, and what takes its value.
 */
#include "manifest/manifest.h"

#include "base/doc.h"

#include <errno.h>
#include <stdlib.h>

#define API_VERSION     1
#define NAME_MAX_BYTES  64
#define DESCRIPTION_MAX 200 /* characters */
#define LIST_MAX        1024
#define TEXT_MAX        4096

#define fail_at(err, node, ...)                                                                    \
    (kg_fail(err, KG_E_INVALID_MANIFEST, __VA_ARGS__),                                             \
     kg_wrap(err, -EINVAL, "%u:%u", (node)->line, (node)->column))

/* -- rules for names --------------------------------------------------------------------------- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool manifest_name_is_valid(struct kg_str name)
{
    if (name.length == 0 || name.length > NAME_MAX_BYTES || !is_lower(name.data[0]))
        return false;
    for (size_t i = 1; i < name.length; i++)
        if (!is_lower(name.data[i]) && !is_digit(name.data[i]) && name.data[i] != '-')
            return false;
    return true;
}

bool manifest_method_is_valid(struct kg_str method)
{
    unsigned segments = 1;
    bool start = true; /* of a segment */
    if (method.length > 128 || kg_str_starts(method, "kaged.") || kg_str_starts(method, "system."))
        return false;
    for (size_t i = 0; i < method.length; i++) {
        char c = method.data[i];
        if (c == '.' && !start) {
            segments++;
            start = true;
        } else if (is_lower(c) || (!start && (is_digit(c) || c == '_'))) {
            start = false;
        } else {
            return false;
        }
    }
    return !start && segments >= 2 && segments <= 4;
}

/* Digits without a leading zero, or with `loose` any of [0-9A-Za-z-]; moves *at behind them. */
static bool skip_identifier(struct kg_str text, size_t *at, bool loose)
{
    size_t start = *at;
    bool numeric = true;
    while (*at < text.length) {
        char c = text.data[*at];
        bool letter = is_lower(c) || (c >= 'A' && c <= 'Z') || c == '-';
        if (!is_digit(c) && !(loose && letter))
            break;
        numeric &= is_digit(c);
        (*at)++;
    }
    size_t length = *at - start;
    return length > 0 && !(numeric && length > 1 && text.data[start] == '0');
}

/* MAJOR.MINOR.PATCH with an optional -pre.release and +build. */
static bool version_is_valid(struct kg_str text)
{
    size_t at = 0;
    for (int part = 0; part < 3; part++) {
        if (part > 0 && (at >= text.length || text.data[at++] != '.'))
            return false;
        if (!skip_identifier(text, &at, false))
            return false;
    }
    for (const char *mark = "-+"; *mark != '\0'; mark++) {
        if (at >= text.length || text.data[at] != *mark)
            continue;
        do {
            at++;
            size_t start = at;
            bool ok = skip_identifier(text, &at, true);
            if (!ok && (*mark == '-' || at == start)) /* a build number may start with 0 */
                return false;
        } while (at < text.length && text.data[at] == '.');
    }
    return at == text.length && text.length <= 128;
}

/* -- values ------------------------------------------------------------------------------------ */

static int want_text(const struct kg_node *node, const char *what, size_t max, struct kg_err *err)
{
    if (node->type != KG_STRING)
        return fail_at(err, node, "%s must be a string, not %s", what, kg_type_names[node->type]);
    if (node->text.length > max)
        return fail_at(err, node, "%s is longer than %zu bytes", what, max);
    if (node->text.length > 0 && memchr(node->text.data, '\0', node->text.length) != NULL)
        return fail_at(err, node, "%s has a NUL in it", what);
    return 0;
}

static int take_text(const struct kg_node *node, const char *what, size_t max, char **ret_text,
                     struct kg_err *err)
{
    int result = want_text(node, what, max, err);
    if (result == 0)
        *ret_text = kg_str_dup(node->text);
    return result;
}

static int want_list(const struct kg_node *node, const char *what, struct kg_err *err)
{
    if (node->type != KG_ARRAY)
        return fail_at(err, node, "%s must be a list, not %s", what, kg_type_names[node->type]);
    if (node->count > LIST_MAX)
        return fail_at(err, node, "%s has %u entries; at most %d are taken", what, node->count,
                       LIST_MAX);
    return 0;
}

static int take_list(const struct kg_node *node, const char *what,
                     bool (*is_valid)(struct kg_str text), const char *rule, char ***list,
                     struct kg_err *err)
{
    int result = want_list(node, what, err);
    if (result < 0)
        return result;
    kg_list_free(*list);
    *list = kg_list_new(node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_node *item = &node->items[i];
        result = want_text(item, what, TEXT_MAX, err);
        if (result < 0)
            return result;
        if (is_valid != NULL && !is_valid(item->text))
            return fail_at(err, item, "%s: \"%.*s\" is not valid: %s", what,
                           KG_STR_CUT(item->text, 80), rule);
        (*list)[i] = kg_str_dup(item->text);
    }
    return 0;
}

static int take_int(const struct kg_node *node, const char *what, int64_t min, int64_t max,
                    int64_t *ret_value, struct kg_err *err)
{
    int64_t value;
    if (node->type != KG_NUMBER || !kg_node_int(node, &value))
        return fail_at(err, node, "%s must be an integer", what);
    if (value < min || value > max)
        return fail_at(err, node, "%s is %lld; it must be from %lld to %lld", what,
                       (long long)value, (long long)min, (long long)max);
    *ret_value = value;
    return 0;
}

/* -- fields ------------------------------------------------------------------------------------ */

static int take_name(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    int result = take_text(node, "name", NAME_MAX_BYTES, &manifest->name, err);
    if (result == 0 && !manifest_name_is_valid(node->text))
        return fail_at(err, node,
                       "name: \"%.*s\" is not valid: lower-case letters, digits and dashes, a "
                       "letter first",
                       KG_STR_CUT(node->text, 80));
    return result;
}

static int take_version(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    int result = take_text(node, "version", 128, &manifest->version, err);
    if (result < 0 && node->type == KG_NUMBER)
        kg_hint(err, "put quotes around it: version: \"1.0.0\"");
    if (result == 0 && !version_is_valid(node->text))
        return fail_at(err, node, "version: \"%.*s\" is not a semantic version like 1.4.2",
                       KG_STR_CUT(node->text, 80));
    return result;
}

static int take_api(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    int result = take_int(node, "kaged_api", 1, INT32_MAX, &manifest->kaged_api, err);
    if (result == 0 && manifest->kaged_api > API_VERSION)
        return fail_at(err, node,
                       "kaged_api is %lld; this daemon speaks %d: a newer kaged is needed",
                       (long long)manifest->kaged_api, API_VERSION);
    return result;
}

static int take_description(struct manifest *manifest, const struct kg_node *node,
                            struct kg_err *err)
{
    int result = take_text(node, "description", TEXT_MAX, &manifest->description, err);
    if (result < 0)
        return result;
    size_t characters = 0;
    for (size_t i = 0; i < node->text.length; i++) {
        if ((unsigned char)node->text.data[i] < 0x20)
            return fail_at(err, node, "description must be one line");
        characters += ((unsigned char)node->text.data[i] & 0xC0) != 0x80;
    }
    if (characters > DESCRIPTION_MAX)
        return fail_at(err, node, "description has %zu characters; at most %d are taken",
                       characters, DESCRIPTION_MAX);
    return 0;
}

static int take_author(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    return take_text(node, "author", TEXT_MAX, &manifest->author, err);
}

static int take_license(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    return take_text(node, "license", TEXT_MAX, &manifest->license, err);
}

static int take_homepage(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    return take_text(node, "homepage", TEXT_MAX, &manifest->homepage, err);
}

static int take_command(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    int result = take_list(node, "command", NULL, NULL, &manifest->command, err);
    if (result == 0 && (node->count == 0 || node->items[0].text.length == 0))
        return fail_at(err, node, "command must name a program");
    return result;
}

static bool variable_is_valid(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = name.data[i];
        bool letter = is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && is_digit(c)))
            return false;
    }
    return name.length > 0;
}

static int take_env(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    if (node->type != KG_OBJECT || node->count > LIST_MAX)
        return fail_at(err, node, "env must be a map of variable names to strings");
    kg_list_free(manifest->env);
    manifest->env = kg_list_new(node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_member *member = &node->members[i];
        if (!variable_is_valid(member->key))
            return fail_at(err, &member->value, "env: \"%.*s\" is not a variable name",
                           KG_STR_CUT(member->key, 80));
        int result = want_text(&member->value, "a value of env", TEXT_MAX, err);
        if (result < 0) {
            kg_hint(err, "put quotes around numbers and booleans");
            return result;
        }
        manifest->env[i] =
            kg_format("%.*s=%.*s", KG_STR_ARG(member->key), KG_STR_ARG(member->value.text));
    }
    return 0;
}

/* Takes the text. The bound is on the sum: each net: map may name many. */
static int add_capability(struct manifest *manifest, char *text, const struct kg_node *node,
                          struct kg_err *err)
{
    kg_list_add(&manifest->capabilities, text);
    if (kg_list_count(manifest->capabilities) > LIST_MAX)
        return fail_at(err, node, "there are more than %d capabilities", LIST_MAX);
    return 0;
}

/* `- net: []` and `- net: ["host:443"]` are other ways to write "net:[]" and "net:host:443". */
static int take_net_map(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    const struct kg_node *targets = kg_node_get(node, "net");
    if (node->count != 1 || targets == NULL || targets->type != KG_ARRAY)
        return fail_at(err, node, "a capability is a string, or net: with a list");
    int result = want_list(targets, "net", err);
    if (targets->count == 0)
        result = add_capability(manifest, kg_strdup("net:[]"), node, err);
    for (uint32_t i = 0; i < targets->count && result == 0; i++) {
        result = want_text(&targets->items[i], "a target of net", TEXT_MAX, err);
        if (result == 0)
            result = add_capability(
                manifest, kg_format("net:%.*s", KG_STR_ARG(targets->items[i].text)), node, err);
    }
    return result;
}

static int take_capabilities(struct manifest *manifest, const struct kg_node *node,
                             struct kg_err *err)
{
    int result = want_list(node, "capabilities", err);
    for (uint32_t i = 0; i < node->count && result == 0; i++) {
        const struct kg_node *item = &node->items[i];
        if (item->type == KG_OBJECT) {
            result = take_net_map(manifest, item, err);
            continue;
        }
        result = want_text(item, "a capability", TEXT_MAX, err);
        if (result == 0)
            result = add_capability(manifest, kg_str_dup(item->text), item, err);
    }
    return result;
}

#define METHOD_RULE                                                                                \
    "two to four lower-case segments with dots between them, not kaged. or system. (presets.list)"

static int take_methods(struct manifest *manifest, const struct kg_node *node, struct kg_err *err)
{
    return take_list(node, "methods", manifest_method_is_valid, METHOD_RULE, &manifest->methods,
                     err);
}

static int take_notifications(struct manifest *manifest, const struct kg_node *node,
                              struct kg_err *err)
{
    return take_list(node, "notifications", manifest_method_is_valid, METHOD_RULE,
                     &manifest->notifications, err);
}

static int take_shutdown_timeout(struct manifest *manifest, const struct kg_node *node,
                                 struct kg_err *err)
{
    return take_int(node, "shutdown_timeout_sec", 1, 30, &manifest->shutdown_timeout_sec, err);
}

static int take_health_interval(struct manifest *manifest, const struct kg_node *node,
                                struct kg_err *err)
{
    return take_int(node, "health_interval_sec", 5, 300, &manifest->health_interval_sec, err);
}

static int take_hook_timeout(struct manifest *manifest, const struct kg_node *node,
                             struct kg_err *err)
{
    return take_int(node, "hook_timeout_sec", 1, 60, &manifest->hook_timeout_sec, err);
}

static const struct {
    const char *key;
    bool required;
    int (*take)(struct manifest *manifest, const struct kg_node *node, struct kg_err *err);
} fields[] = {
    {"name", true, take_name},
    {"version", true, take_version},
    {"kaged_api", true, take_api},
    {"description", true, take_description},
    {"command", true, take_command},
    {"capabilities", true, take_capabilities},
    {"author", false, take_author},
    {"license", false, take_license},
    {"homepage", false, take_homepage},
    {"env", false, take_env},
    {"methods", false, take_methods},
    {"notifications", false, take_notifications},
    {"shutdown_timeout_sec", false, take_shutdown_timeout},
    {"health_interval_sec", false, take_health_interval},
    {"hook_timeout_sec", false, take_hook_timeout},
};

/* -- the whole --------------------------------------------------------------------------------- */

static bool is_filled(const struct kg_node *root, const char *key)
{
    const struct kg_node *node = kg_node_get(root, key);
    return node != NULL && node->count > 0;
}

static int take_all(struct manifest *manifest, const struct kg_node *root, struct kg_err *err)
{
    if (root->type != KG_OBJECT)
        return kg_fail(err, KG_E_INVALID_MANIFEST, "1:1: the manifest is not a map of keys");
    for (size_t i = 0; i < KG_COUNT(fields); i++) {
        const struct kg_node *node = kg_node_get(root, fields[i].key);
        if (node == NULL && fields[i].required)
            return fail_at(err, root, "the key \"%s\" is missing", fields[i].key);
        int result = node ? fields[i].take(manifest, node, err) : 0;
        if (result < 0)
            return result;
    }
    if (!is_filled(root, "methods") && !is_filled(root, "hooks") && !is_filled(root, "tools") &&
        !is_filled(root, "notifications"))
        return fail_at(err, root,
                       "the plugin offers nothing: methods, hooks, tools and notifications are all "
                       "empty");
    return 0;
}

struct manifest *manifest_read(struct kg_str text, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_yaml_read(text, err);
    if (doc == NULL) {
        if (err != NULL)
            err->code = KG_E_INVALID_MANIFEST;
        return NULL;
    }
    struct manifest *manifest = kg_alloc(sizeof(*manifest));
    manifest->command = kg_list_new(0);
    manifest->env = kg_list_new(0);
    manifest->capabilities = kg_list_new(0);
    manifest->methods = kg_list_new(0);
    manifest->notifications = kg_list_new(0);
    if (take_all(manifest, doc->root, err) == 0)
        return manifest;
    manifest_free(manifest);
    return NULL;
}

struct manifest *manifest_load(const char *dir, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", dir, MANIFEST_FILE);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, MANIFEST_BYTES_MAX, &text, err) < 0) {
        if (err != NULL)
            err->code = KG_E_INVALID_MANIFEST;
        return NULL;
    }
    struct manifest *manifest = manifest_read(kg_buf_view(&text), err);
    if (manifest == NULL)
        kg_wrap(err, 0, "%s", path);
    return manifest;
}

void manifest_free(struct manifest *manifest)
{
    if (manifest == NULL)
        return;
    free(manifest->name);
    free(manifest->version);
    free(manifest->description);
    free(manifest->author);
    free(manifest->license);
    free(manifest->homepage);
    kg_list_free(manifest->command);
    kg_list_free(manifest->env);
    kg_list_free(manifest->capabilities);
    kg_list_free(manifest->methods);
    kg_list_free(manifest->notifications);
    free(manifest);
}
