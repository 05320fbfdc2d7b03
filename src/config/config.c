/*
 * config.toml against the table of keys. An unknown section or key, a wrong type or a value out of
 * range is an error that names the file, the line, the key and what would be right.
 */
#include "config/config.h"

#include "base/doc.h"
#include "base/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* -- forms --------------------------------------------------------------------------------------
 */

#define FOLDER_BYTES_MAX 4095
#define PART_BYTES_MAX   255
#define PLUGIN_BYTES_MAX 192
#define URL_BYTES_MAX    4096

static bool config_is_folder(struct kg_str text)
{
    size_t part = 0;
    for (size_t i = 0; i < text.length; i++) {
        part = text.data[i] == '/' ? 0 : part + 1;
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F || part > PART_BYTES_MAX)
            return false;
    }
    return kg_str_starts(text, "/") && text.length <= FOLDER_BYTES_MAX;
}

static bool has_only(struct kg_str text, const char *signs)
{
    for (size_t i = 0; i < text.length; i++)
        if (!kg_is_letter_or_digit(text.data[i]) &&
            memchr(signs, text.data[i], strlen(signs)) == NULL)
            return false;
    return text.length > 0;
}

static bool config_is_host(struct kg_str text)
{
    return has_only(text, ".-_:[]");
}

/* Of one that serves a project alone, "NAME@PROJECT". */
static bool config_is_plugin(struct kg_str text)
{
    return has_only(text, "-_.@") && text.data[0] >= 'a' && text.data[0] <= 'z' &&
           text.length <= PLUGIN_BYTES_MAX;
}

static bool is_script(struct kg_str text)
{
    return has_only(text, "-_") && text.length <= PLUGIN_BYTES_MAX;
}

static bool config_is_project(struct kg_str text)
{
    return kg_str_is(text, "*") || (has_only(text, "-_") && text.length <= PLUGIN_BYTES_MAX);
}

static bool is_url(struct kg_str text)
{
    kg_auto(kg_free) char *url = kg_str_dup(text);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    return text.length <= URL_BYTES_MAX && strlen(url) == text.length &&
           strpbrk(url, " \t\r\n") == NULL && kg_url_host(url, &host, &port);
}

/* What libcurl signs as it stands: nothing in it has to be escaped. */
static bool has_only_plain(struct kg_str text, const char *signs)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] >= 'A' && text.data[i] <= 'Z')
            return false;
    return has_only(text, signs);
}

static bool is_bucket(struct kg_str text)
{
    static const char scheme[] = "s3://";
    if (!kg_str_starts(text, scheme))
        return false;
    struct kg_str rest = kg_str_from(text, strlen(scheme));
    const char *slash = memchr(rest.data, '/', rest.length);
    struct kg_str name = {rest.data, slash ? (size_t)(slash - rest.data) : rest.length};
    struct kg_str prefix = kg_str_from(rest, name.length + (slash != NULL));
    return name.length >= 3 && name.length <= 63 && has_only_plain(name, ".-") &&
           kg_is_letter_or_digit(name.data[0]) && prefix.length <= PART_BYTES_MAX &&
           (prefix.length == 0 || has_only_plain(prefix, "._-/")) &&
           memmem(prefix.data, prefix.length, "//", 2) == NULL &&
           memmem(rest.data, rest.length, "..", 2) == NULL && !kg_str_starts(prefix, "/");
}

static bool is_region(struct kg_str text)
{
    return has_only_plain(text, "-") && text.length <= 64;
}

static bool is_forward(struct kg_str text)
{
    static const char *const sockets[] = {"journal", "syslog"};
    for (size_t i = 0; i < KG_COUNT(sockets); i++) {
        struct kg_str rest = text;
        if (!kg_str_starts(text, sockets[i]))
            continue;
        rest = kg_str_from(text, strlen(sockets[i]));
        return rest.length == 0 || (rest.data[0] == ':' && config_is_folder(kg_str_from(rest, 1)));
    }
    return is_url(text);
}

/* "net:HOST:PORT", "net:HOST:*" or "net:*", as manifests write them. */
static bool is_reach(struct kg_str text)
{
    int64_t port;
    if (kg_str_is(text, "net:*"))
        return true;
    const char *colon = text.length > 0 ? memrchr(text.data, ':', text.length) : NULL;
    if (!kg_str_starts(text, "net:") || colon == NULL || colon < text.data + 4)
        return false;
    struct kg_str last = kg_str_from(text, (size_t)(colon - text.data) + 1);
    struct kg_str host = kg_str_from(kg_str_first(text, (size_t)(colon - text.data)), 4);
    return config_is_host(host) &&
           (kg_str_is(last, "*") || (kg_str_to_int(last, &port) && port > 0 && port < 65536));
}

static const struct config_form
    form_FOLDER = {"an absolute folder", "absolute folders", config_is_folder},
    form_HOST = {"the name of a host", "names of hosts", config_is_host},
    form_PLUGIN = {"the name of a plugin", "names of plugins", config_is_plugin},
    form_PROJECT = {"the id of a project, or *", "ids of projects, or *", config_is_project},
    form_REACH = {"net:HOST:PORT, net:HOST:* or net:*", "net:HOST:PORT, net:HOST:* or net:*",
                  is_reach},
    form_SCRIPT = {"the name of a script", "names of scripts", is_script},
    form_FORWARD = {"journal, syslog, one of them with \":\" and the "
                    "path of a socket, or an http:// or https:// "
                    "address",
                    "such targets", is_forward},
    form_BUCKET = {"s3://BUCKET or s3://BUCKET/PREFIX, in small "
                   "letters, digits, \"-\", \".\" and \"_\"",
                   "such buckets", is_bucket},
    form_URL = {"an http:// or https:// address", "such addresses", is_url},
    form_REGION = {"a name of small letters, digits and \"-\"", "such names", is_region},
    form_GRANT = {"a capability of scripts", "capabilities of scripts", config_grant_fits,
                  config_grant_explain};

/* -- the table ----------------------------------------------------------------------------------
 */

#define ROW(section, key, type, applies, field, ...)                                               \
    {section,    key, CONFIG_TYPE_##type, CONFIG_##applies, offsetof(struct config, field),        \
     __VA_ARGS__},
const struct config_key config_keys[] = {
#define CONFIG_INT(section, key, fallback, min, max, applies, meaning)                             \
    ROW(#section, #key, INT, applies, section##_##key, fallback, min, max, NULL, NULL, NULL,       \
        meaning)
#define CONFIG_BOOL(section, key, fallback, applies, meaning)                                      \
    ROW(#section, #key, BOOL, applies, section##_##key, fallback, false, true, NULL, NULL, NULL,   \
        meaning)
#define CONFIG_TEXT(section, key, fallback, choices, applies, meaning)                             \
    ROW(#section, #key, TEXT, applies, section##_##key, 0, 0, 0, fallback, choices, NULL, meaning)
#define CONFIG_FORM(section, key, form, applies, meaning)                                          \
    ROW(#section, #key, TEXT, applies, section##_##key, 0, 0, 0, "", "", &form_##form, meaning)
#define CONFIG_DEEP(section, group, name, key, form, applies, meaning)                             \
    ROW(#section "." #group "." #name, #key, TEXT, applies, section##_##group##_##name##_##key, 0, \
        0, 0, "", "", &form_##form, meaning)
#define CONFIG_LIST(section, key, form, applies, meaning)                                          \
    ROW(#section, #key, LIST, applies, section##_##key, 0, 0, 0, NULL, NULL, &form_##form, meaning)
#define CONFIG_INTS(section, group, key, min, max, applies, meaning)                               \
    ROW(#section "." #group ".*", #key, INTS, applies, section##_##group##_##key, 0, min, max,     \
        NULL, NULL, NULL, meaning)
#define CONFIG_LISTS(section, group, form, applies, meaning)                                       \
    ROW(#section "." #group, "*", LISTS, applies, section##_##group, 0, 0, 0, NULL, NULL,          \
        &form_##form, meaning)
#define CONFIG_TABLES(section, group, applies, meaning)                                            \
    ROW(#section "." #group, "*", TABLES, applies, section##_##group, 0, 0, 0, NULL, NULL, NULL,   \
        meaning)
#include "config/keys.def"
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TEXT
#undef CONFIG_LIST
#undef CONFIG_FORM
#undef CONFIG_DEEP
#undef CONFIG_INTS
#undef CONFIG_LISTS
#undef CONFIG_TABLES
};
const size_t config_key_count = KG_COUNT(config_keys);

bool config_key_is_named(const struct config_key *key)
{
    return key->type >= CONFIG_TYPE_INTS;
}

const char *config_applies_words(enum config_applies applies)
{
    static const char *const words[] = {
        [CONFIG_LIVE] = "at once",
        [CONFIG_START] = "at the plugin's next start",
        [CONFIG_DAEMON] = "at the daemon's next start",
    };
    return words[applies];
}

static void *field(const struct config *config, const struct config_key *key)
{
    return (char *)config + key->offset;
}

static void config_set_text(struct config *config, const struct config_key *key, struct kg_str text)
{
    char **place = field(config, key);
    free(*place);
    *place = kg_str_dup(text);
}

static struct config *new_defaults(void)
{
    struct config *config = kg_alloc(sizeof(*config));
    config->places = kg_alloc_array(config_key_count, sizeof(*config->places));
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->type == CONFIG_TYPE_INT)
            *(int64_t *)field(config, key) = key->fallback;
        else if (key->type == CONFIG_TYPE_BOOL)
            *(bool *)field(config, key) = key->fallback;
        else if (key->type == CONFIG_TYPE_TEXT)
            config_set_text(config, key, kg_str(key->text_fallback));
        else if (key->type == CONFIG_TYPE_LIST)
            *(char ***)field(config, key) = kg_list_new(0);
    }
    return config;
}

static void free_names(struct config_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->items[i].name);
        kg_list_free(names->items[i].list);
    }
    free(names->items);
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config_key_count; i++) {
        void *place = field(config, &config_keys[i]);
        switch (config_keys[i].type) {
        case CONFIG_TYPE_INT:
        case CONFIG_TYPE_BOOL:
            break;
        case CONFIG_TYPE_TEXT:
            kg_free(place);
            break;
        case CONFIG_TYPE_LIST:
            kg_list_free(*(char ***)place);
            break;
        case CONFIG_TYPE_INTS:
        case CONFIG_TYPE_LISTS:
        case CONFIG_TYPE_TABLES:
            free_names(place);
            break;
        }
    }
    free(config->places);
    free(config);
}

const char *config_plugins_dir(const struct config *config, const struct config_paths *paths)
{
    return config->plugins_dir[0] != '\0' ? config->plugins_dir : paths->plugins_dir;
}

static struct config_place config_place_of(const struct config *config, const char *section,
                                           const char *key)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].key, key) == 0)
            return config->places[i];
    return (struct config_place){0};
}

bool config_says(const struct config *config, const char *section, const char *key)
{
    return config_place_of(config, section, key).line > 0;
}

void config_wrap_place(const struct config *config, const char *path, const char *section,
                       const char *key, struct kg_err *err)
{
    struct config_place place = config_place_of(config, section, key);
    if (place.line > 0)
        kg_wrap(err, 0, "%s:%u:%u", path, place.line, place.column);
    else
        kg_wrap(err, 0, "%s", path);
}

const struct config_named *config_named_get(const struct config_names *names, struct kg_str name)
{
    for (size_t i = 0; i < names->count; i++)
        if (kg_str_is(name, names->items[i].name))
            return &names->items[i];
    return NULL;
}

int64_t config_int_for(const struct config_names *names, const char *name, int64_t fallback)
{
    const struct config_named *found = config_named_get(names, kg_str(name));
    return found ? found->number : fallback;
}

/* -- paths: where in the file a key is --------------------------------------------------------- */

#define PARTS_MAX  4 /* of a key, with its section */
#define NAME_SHOWN 64

struct path {
    struct kg_str parts[PARTS_MAX];
    size_t count;
};

/* The key's own path, with "*" for a name. */
static struct path config_path_of(const struct config_key *key)
{
    struct path path = {0};
    for (const char *at = key->section; path.count < PARTS_MAX - 1;) {
        size_t length = strcspn(at, ".");
        path.parts[path.count++] = (struct kg_str){at, length};
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    path.parts[path.count++] = kg_str(key->key);
    return path;
}

/* True if what is given is the key's path, or its beginning. */
static bool leads_to(const struct kg_str *given, size_t count, const struct path *path,
                     struct kg_str *ret_name)
{
    struct kg_str name = KG_STR_NULL;
    if (count > path->count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (kg_str_is(path->parts[i], "*"))
            name = given[i];
        else if (!kg_str_equal(given[i], path->parts[i]))
            return false;
    }
    *ret_name = name;
    return true;
}

const struct config_key *config_key_find(const struct kg_str *path, size_t path_count,
                                         struct kg_str *ret_name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        struct path wanted = config_path_of(&config_keys[i]);
        if (wanted.count == path_count && leads_to(path, path_count, &wanted, ret_name))
            return &config_keys[i];
    }
    return NULL;
}

/* A name with a dot or a blank in it has to be quoted, as in the file. */
static void print_part(struct kg_buf *out, struct kg_str part)
{
    bool bare = part.length > 0;
    for (size_t i = 0; i < part.length; i++) {
        char c = part.data[i];
        bare = bare && (kg_is_letter_or_digit(c) || c == '-' || c == '_');
    }
    if (part.length > NAME_SHOWN)
        part.length = NAME_SHOWN;
    kg_buf_text(out, bare ? "" : "\"");
    kg_buf_escaped(out, part);
    kg_buf_text(out, bare ? "" : "\"");
}

static void print_path(struct kg_buf *out, const struct kg_str *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kg_buf_text(out, i > 0 ? "." : "");
        print_part(out, parts[i]);
    }
}

void config_key_print(const struct config_key *key, struct kg_str name, struct kg_buf *out)
{
    struct path path = config_path_of(key);
    for (size_t i = 0; i < path.count; i++)
        if (kg_str_is(path.parts[i], "*"))
            path.parts[i] = name;
    print_path(out, path.parts, path.count);
}

/* -- reading ----------------------------------------------------------------------------------- */

#define fail_at(err, node, ...)                                                                    \
    (kg_fail(err, KG_E_INVALID_CONFIG, __VA_ARGS__),                                               \
     kg_wrap(err, -EINVAL, "%u:%u", (node)->line, (node)->column))

/* A key on its way from the file into the configuration. */
struct setting {
    struct config *config;
    const struct config_key *key;
    struct kg_str name; /* where the key is one for each name */
    const char *text;   /* the whole key, for messages */
};

/* The place for the value of a name. The file cannot say it twice. */
static struct config_named *config_add_name(const struct setting *setting)
{
    struct config_names *names = field(setting->config, setting->key);
    names->items = kg_realloc(names->items, (names->count + 1) * sizeof(*names->items));
    struct config_named *named = &names->items[names->count++];
    *named = (struct config_named){.name = kg_str_dup(setting->name)};
    return named;
}

static int take_int(const struct setting *setting, const struct kg_node *node, struct kg_err *err)
{
    const struct config_key *key = setting->key;
    int64_t value;
    if (node->type != KG_NUMBER || !kg_node_int(node, &value))
        return fail_at(err, node, "%s takes an integer", setting->text);
    if (value < key->min || value > key->max)
        return fail_at(err, node, "%s is %lld; it must be from %lld to %lld", setting->text,
                       (long long)value, (long long)key->min, (long long)key->max);
    if (key->type == CONFIG_TYPE_INTS)
        config_add_name(setting)->number = value;
    else
        *(int64_t *)field(setting->config, key) = value;
    return 0;
}

static int take_bool(const struct setting *setting, const struct kg_node *node, struct kg_err *err)
{
    if (node->type != KG_BOOL)
        return fail_at(err, node, "%s takes true or false", setting->text);
    *(bool *)field(setting->config, setting->key) = node->boolean;
    return 0;
}

static bool config_is_choice(const char *choices, struct kg_str text)
{
    if (choices[0] == '\0')
        return true;
    for (const char *at = choices; at != NULL;) {
        const char *bar = strchr(at, '|');
        struct kg_str choice = {at, bar ? (size_t)(bar - at) : strlen(at)};
        if (kg_str_equal(choice, text))
            return true;
        at = bar ? bar + 1 : NULL;
    }
    return false;
}

/* Not a date, which TOML writes without quotes; and it must survive as a C string. */
static bool is_plain_text(const struct kg_node *node)
{
    return node->type == KG_STRING && node->flavor == KG_PLAIN &&
           (node->text.length == 0 || memchr(node->text.data, '\0', node->text.length) == NULL);
}

static int config_take_text(const struct setting *setting, const struct kg_node *node,
                            struct kg_err *err)
{
    const struct config_key *key = setting->key;
    if (!is_plain_text(node))
        return fail_at(err, node, "%s takes a string", setting->text);
    if (!config_is_choice(key->choices, node->text))
        return fail_at(err, node, "%s is \"%.*s\"; it must be one of %s", setting->text,
                       KG_STR_CUT(node->text, KG_CUT_NAME), key->choices);
    if (key->form != NULL && node->text.length > 0 && !key->form->fits(node->text))
        return fail_at(err, node, "%s is \"%.*s\"; it must be %s", setting->text,
                       KG_STR_CUT(node->text, KG_CUT_NAME), key->form->one);
    config_set_text(setting->config, key, node->text);
    return 0;
}

static int take_list(const struct setting *setting, const struct kg_node *node, struct kg_err *err)
{
    const struct config_key *key = setting->key;
    const char *items = key->form->many;
    if (node->type != KG_ARRAY)
        return fail_at(err, node, "%s takes a list of %s", setting->text, items);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_node *item = &node->items[i];
        if (is_plain_text(item) && key->form->fits(item->text))
            continue;
        if (!is_plain_text(item) || key->form->explain == NULL)
            return fail_at(err, item, "%s takes a list of %s", setting->text, items);
        key->form->explain(item->text, err);
        return kg_wrap(err, -EINVAL, "%u:%u: %s", item->line, item->column, setting->text);
    }
    char **list = kg_list_new(node->count);
    for (uint32_t i = 0; i < node->count; i++)
        list[i] = kg_str_dup(node->items[i].text);
    if (key->type == CONFIG_TYPE_LISTS) {
        config_add_name(setting)->list = list;
        return 0;
    }
    kg_list_free(*(char ***)field(setting->config, key));
    *(char ***)field(setting->config, key) = list;
    return 0;
}

static int config_take_table(const struct setting *setting, const struct kg_node *node,
                             struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    if (node->type != KG_OBJECT)
        return fail_at(err, node, "%s is a section: write it as [%s]", setting->text,
                       setting->text);
    kg_json_put_node(&json, node);
    struct config_named *named = config_add_name(setting);
    named->list = kg_list_new(0);
    kg_list_add(&named->list, kg_strdup(kg_buf_terminate(&json)));
    return 0;
}

/* It must survive as a C string, and be somebody's. */
static bool config_is_name(struct kg_str name)
{
    return name.length > 0 && memchr(name.data, '\0', name.length) == NULL;
}

static int config_take_value(const struct setting *setting, const struct kg_node *node,
                             struct kg_err *err)
{
    if (config_key_is_named(setting->key) && !config_is_name(setting->name))
        return fail_at(err, node, "%s: this is not a name", setting->text);
    setting->config->places[setting->key - config_keys] =
        (struct config_place){node->line, node->column};
    switch (setting->key->type) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INTS:
        return take_int(setting, node, err);
    case CONFIG_TYPE_BOOL:
        return take_bool(setting, node, err);
    case CONFIG_TYPE_TEXT:
        return config_take_text(setting, node, err);
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_LISTS:
        return take_list(setting, node, err);
    case CONFIG_TYPE_TABLES:
        return config_take_table(setting, node, err);
    }
    return -EINVAL;
}

/* Suggests the nearest of what could stand at the end of the path. */
static int unknown(const struct path *path, const struct kg_member *member, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, above = {0};
    char *candidates[KG_COUNT(config_keys)];
    size_t count = 0, last = path->count - 1;
    print_path(&text, path->parts, path->count);
    print_path(&above, path->parts, last);
    for (size_t i = 0; i < config_key_count; i++) {
        struct path wanted = config_path_of(&config_keys[i]);
        struct kg_str name;
        if (wanted.count > last && leads_to(path->parts, last, &wanted, &name))
            candidates[count++] = kg_str_dup(wanted.parts[last]);
    }
    const char *nearest = kg_str_nearest(member->key, (const char *const *)candidates, count);
    kg_fail(err, KG_E_INVALID_CONFIG, "%u:%u: unknown %s %s", member->key_line, member->key_column,
            last > 0 ? "key" : "section", kg_buf_terminate(&text));
    if (nearest != NULL)
        kg_hint(err, "did you mean %s%s%s?", kg_buf_terminate(&above), last > 0 ? "." : "",
                nearest);
    else
        kg_hint(err, "kaged.toml(5) lists every key");
    while (count > 0)
        free(candidates[--count]);
    return -EINVAL;
}

static bool is_section(const struct path *path)
{
    struct kg_str name;
    for (size_t i = 0; i < config_key_count; i++) {
        struct path wanted = config_path_of(&config_keys[i]);
        if (wanted.count > path->count && leads_to(path->parts, path->count, &wanted, &name))
            return true;
    }
    return false;
}

/* One key of the file, or a section with all that is in it; `above` leads to where it stands. */
static int config_take_member(struct config *config, const struct path *above,
                              const struct kg_member *member, struct kg_err *err)
{
    struct path path = *above;
    path.parts[path.count++] = member->key;
    struct setting setting = {.config = config};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    print_path(&text, path.parts, path.count);
    setting.text = kg_buf_terminate(&text);
    setting.key = config_key_find(path.parts, path.count, &setting.name);
    if (setting.key != NULL)
        return config_take_value(&setting, &member->value, err);
    if (!is_section(&path))
        return unknown(&path, member, err);
    if (member->value.type != KG_OBJECT)
        return fail_at(err, &member->value, "%s is a section: write it as [%s]", setting.text,
                       setting.text);
    int result = 0;
    for (uint32_t i = 0; i < member->value.count && result == 0; i++)
        result = config_take_member(config, &path, &member->value.members[i], err);
    return result;
}

static int take_text_of_file(struct config *config, struct kg_str text, struct kg_err *err)
{
    int result = 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(text, err);
    if (doc == NULL)
        result = -EINVAL;
    for (uint32_t i = 0; doc != NULL && i < doc->root->count && result == 0; i++)
        result = config_take_member(config, &(struct path){0}, &doc->root->members[i], err);
    if (result < 0 && err != NULL) {
        err->code = KG_E_INVALID_CONFIG;
        if (err->hint[0] == '\0')
            kg_hint(err, "fix the file, or move it away to use the defaults");
    }
    return result;
}

struct config *config_read(struct kg_str text, struct kg_err *err)
{
    struct config *config = new_defaults();
    if (take_text_of_file(config, text, err) == 0)
        return config;
    config_free(config);
    return NULL;
}

struct config *config_load(const char *path, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = kg_read_file(path, KG_DOC_BYTES_MAX, &text, err);
    if (result < 0 && result != -ENOENT) {
        if (err != NULL)
            err->code = KG_E_INVALID_CONFIG;
        return NULL;
    }
    struct config *config = config_read(kg_buf_view(&text), err);
    if (config == NULL)
        kg_wrap_file(err, path);
    return config;
}

void config_apply_logging(const struct config *config)
{
    enum kg_level level = KG_INFO;
    for (enum kg_level at = KG_DEBUG; at <= KG_ERROR_LEVEL; at++)
        if (strcmp(config->logging_level, kg_level_names[at]) == 0)
            level = at;
    kg_log_set(level, strcmp(config->logging_format, "json") == 0 ? KG_LOG_JSON : KG_LOG_TEXT);
}

/* -- comparing and printing -------------------------------------------------------------------- */

static bool same_list(char *const *a, char *const *b)
{
    for (; *a != NULL && *b != NULL; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return *a == *b;
}

static bool config_same(const struct config *a, const struct config *b,
                        const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_TYPE_INT:
        return *(int64_t *)field(a, key) == *(int64_t *)field(b, key);
    case CONFIG_TYPE_BOOL:
        return *(bool *)field(a, key) == *(bool *)field(b, key);
    case CONFIG_TYPE_TEXT:
        return strcmp(*(char **)field(a, key), *(char **)field(b, key)) == 0;
    case CONFIG_TYPE_LIST:
        return same_list(*(char ***)field(a, key), *(char ***)field(b, key));
    case CONFIG_TYPE_INTS:
    case CONFIG_TYPE_LISTS:
    case CONFIG_TYPE_TABLES:
        break; /* name by name: see put_changed_names */
    }
    return true;
}

static void config_put_change(struct kg_json_writer *json, const struct config_key *key,
                              struct kg_str name)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    config_key_print(key, name, &text);
    kg_json_begin(json, '{');
    kg_json_named_str(json, "key", kg_buf_view(&text));
    kg_json_named_text(json, "applies", config_applies_words(key->applies));
    kg_json_end(json, '}');
}

/* What is in one and missing in the other, and, with `both`, what differs. */
static void put_changed_names(struct kg_json_writer *json, const struct config_key *key,
                              const struct config_names *one, const struct config_names *other,
                              bool both)
{
    for (size_t i = 0; i < one->count; i++) {
        const struct config_named *a = &one->items[i];
        const struct config_named *b = config_named_get(other, kg_str(a->name));
        bool differ = b == NULL;
        if (b != NULL && both)
            differ = a->number != b->number || (a->list != NULL && !same_list(a->list, b->list));
        if (differ)
            config_put_change(json, key, kg_str(a->name));
    }
}

void config_diff(const struct config *before, const struct config *after, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (!config_same(before, after, key))
            config_put_change(&json, key, KG_STR_NULL);
        if (config_key_is_named(key)) {
            put_changed_names(&json, key, field(before, key), field(after, key), true);
            put_changed_names(&json, key, field(after, key), field(before, key), false);
        }
    }
    kg_json_end(&json, ']');
}

bool config_start_differs(const struct config *before, const struct config *after)
{
    kg_auto(kg_buf_free) struct kg_buf lists = {0};
    struct kg_json_writer json = kg_json_writer(&lists);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->applies != CONFIG_START)
            continue;
        if (!config_same(before, after, key))
            return true;
        if (key->type != CONFIG_TYPE_LISTS)
            continue;
        put_changed_names(&json, key, field(before, key), field(after, key), true);
        put_changed_names(&json, key, field(after, key), field(before, key), false);
    }
    return lists.length > 0;
}

static void print_example_value(const struct config_key *key, struct kg_buf *out)
{
    switch (key->type) {
    case CONFIG_TYPE_INT:
        kg_buf_printf(out, "#%s = %lld\n", key->key, (long long)key->fallback);
        break;
    case CONFIG_TYPE_BOOL:
        kg_buf_printf(out, "#%s = %s\n", key->key, key->fallback ? "true" : "false");
        break;
    case CONFIG_TYPE_TEXT:
        kg_buf_printf(out, "#%s = \"%s\"\n", key->key, key->text_fallback);
        break;
    case CONFIG_TYPE_LIST:
        kg_buf_printf(out, "#%s = []\n", key->key);
        break;
    case CONFIG_TYPE_INTS: /* these have no default to show, only a form */
        kg_buf_printf(out, "# %s = INTEGER\n", key->key);
        break;
    case CONFIG_TYPE_LISTS:
        kg_buf_printf(out, "# NAME = [\"%s\"]\n",
                      key->form == &form_FOLDER ? "/FOLDER" : "CAPABILITY");
        break;
    case CONFIG_TYPE_TABLES:
        kg_buf_text(out, "# NAME = { KEY = VALUE }\n");
        break;
    }
}

static void print_example_section(const struct config_key *key, struct kg_buf *out)
{
    const char *star = strchr(key->section, '*');
    if (star != NULL)
        kg_buf_printf(out, "\n# [%.*sNAME]\n", (int)(star - key->section), key->section);
    else
        kg_buf_printf(out, "\n[%s]\n", key->section);
}

void config_print_example(struct kg_buf *out)
{
    const char *section = "";
    kg_buf_text(out, "# Every key of kaged's config.toml, at its default.\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (strcmp(section, key->section) != 0)
            print_example_section(key, out);
        section = key->section;
        kg_buf_printf(out, "# %s", key->meaning);
        if (key->type == CONFIG_TYPE_TEXT && key->choices[0] != '\0')
            kg_buf_printf(out, " One of %s.", key->choices);
        kg_buf_printf(out, " Applies %s.\n", config_applies_words(key->applies));
        print_example_value(key, out);
    }
}
