/*
 * config.toml against the table of keys. An unknown section or key, a wrong type or a value out of
 * range is an error that names the file, the line, the key and what would be right.
 */
#include "config/config.h"

#include "base/doc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const struct config_key config_keys[] = {
#define CONFIG_INT(section, key, fallback, min, max, applies, meaning)                             \
    {#section,                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_INT,                                                                              \
     CONFIG_##applies,                                                                             \
     offsetof(struct config, section##_##key),                                                     \
     fallback,                                                                                     \
     min,                                                                                          \
     max,                                                                                          \
     NULL,                                                                                         \
     NULL,                                                                                         \
     meaning},
#define CONFIG_BOOL(section, key, fallback, applies, meaning)                                      \
    {#section,                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_BOOL,                                                                             \
     CONFIG_##applies,                                                                             \
     offsetof(struct config, section##_##key),                                                     \
     fallback,                                                                                     \
     false,                                                                                        \
     true,                                                                                         \
     NULL,                                                                                         \
     NULL,                                                                                         \
     meaning},
#define CONFIG_TEXT(section, key, fallback, choices, applies, meaning)                             \
    {#section,                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_TEXT,                                                                             \
     CONFIG_##applies,                                                                             \
     offsetof(struct config, section##_##key),                                                     \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     fallback,                                                                                     \
     choices,                                                                                      \
     meaning},
#define CONFIG_LIST(section, key, applies, meaning)                                                \
    {#section,                                                                                     \
     #key,                                                                                         \
     CONFIG_TYPE_LIST,                                                                             \
     CONFIG_##applies,                                                                             \
     offsetof(struct config, section##_##key),                                                     \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     NULL,                                                                                         \
     meaning},
#include "config/keys.def"
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TEXT
#undef CONFIG_LIST
};
const size_t config_key_count = KG_COUNT(config_keys);

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

static void set_text(struct config *config, const struct config_key *key, struct kg_str text)
{
    char **place = field(config, key);
    free(*place);
    *place = kg_str_dup(text);
}

static struct config *new_defaults(void)
{
    struct config *config = kg_alloc(sizeof(*config));
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->type == CONFIG_TYPE_INT)
            *(int64_t *)field(config, key) = key->fallback;
        else if (key->type == CONFIG_TYPE_BOOL)
            *(bool *)field(config, key) = key->fallback;
        else if (key->type == CONFIG_TYPE_TEXT)
            set_text(config, key, kg_str(key->text_fallback));
        else
            *(char ***)field(config, key) = kg_list_new(0);
    }
    return config;
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config_key_count; i++) {
        if (config_keys[i].type == CONFIG_TYPE_TEXT)
            kg_free(field(config, &config_keys[i]));
        else if (config_keys[i].type == CONFIG_TYPE_LIST)
            kg_list_free(*(char ***)field(config, &config_keys[i]));
    }
    free(config);
}

/* -- reading ----------------------------------------------------------------------------------- */

#define fail_at(err, node, ...)                                                                    \
    (kg_fail(err, KG_E_INVALID_CONFIG, __VA_ARGS__),                                               \
     kg_wrap(err, -EINVAL, "%u:%u", (node)->line, (node)->column))

static int take_int(struct config *config, const struct config_key *key, const struct kg_node *node,
                    struct kg_err *err)
{
    int64_t value;
    if (node->type != KG_NUMBER || !kg_node_int(node, &value))
        return fail_at(err, node, "%s.%s takes an integer", key->section, key->key);
    if (value < key->min || value > key->max)
        return fail_at(err, node, "%s.%s is %lld; it must be from %lld to %lld", key->section,
                       key->key, (long long)value, (long long)key->min, (long long)key->max);
    *(int64_t *)field(config, key) = value;
    return 0;
}

static int take_bool(struct config *config, const struct config_key *key,
                     const struct kg_node *node, struct kg_err *err)
{
    if (node->type != KG_BOOL)
        return fail_at(err, node, "%s.%s takes true or false", key->section, key->key);
    *(bool *)field(config, key) = node->boolean;
    return 0;
}

static bool is_choice(const char *choices, struct kg_str text)
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

static int take_text(struct config *config, const struct config_key *key,
                     const struct kg_node *node, struct kg_err *err)
{
    if (!is_plain_text(node))
        return fail_at(err, node, "%s.%s takes a string", key->section, key->key);
    if (!is_choice(key->choices, node->text))
        return fail_at(err, node, "%s.%s is \"%.*s\"; it must be one of %s", key->section, key->key,
                       KG_STR_CUT(node->text, 64), key->choices);
    set_text(config, key, node->text);
    return 0;
}

static int take_list(struct config *config, const struct config_key *key,
                     const struct kg_node *node, struct kg_err *err)
{
    if (node->type != KG_ARRAY)
        return fail_at(err, node, "%s.%s takes a list of strings", key->section, key->key);
    for (uint32_t i = 0; i < node->count; i++)
        if (!is_plain_text(&node->items[i]))
            return fail_at(err, &node->items[i], "%s.%s takes a list of strings", key->section,
                           key->key);
    char **list = kg_list_new(node->count);
    for (uint32_t i = 0; i < node->count; i++)
        list[i] = kg_str_dup(node->items[i].text);
    kg_list_free(*(char ***)field(config, key));
    *(char ***)field(config, key) = list;
    return 0;
}

static int take_value(struct config *config, const struct config_key *key,
                      const struct kg_node *node, struct kg_err *err)
{
    switch (key->type) {
    case CONFIG_TYPE_INT:
        return take_int(config, key, node, err);
    case CONFIG_TYPE_BOOL:
        return take_bool(config, key, node, err);
    case CONFIG_TYPE_TEXT:
        return take_text(config, key, node, err);
    case CONFIG_TYPE_LIST:
        return take_list(config, key, node, err);
    }
    return -EINVAL;
}

static const struct config_key *find_key(struct kg_str section, struct kg_str name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (kg_str_is(section, config_keys[i].section) && kg_str_is(name, config_keys[i].key))
            return &config_keys[i];
    return NULL;
}

static bool is_section(struct kg_str name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (kg_str_is(name, config_keys[i].section))
            return true;
    return false;
}

/* Suggests the nearest of the section's keys, or of the sections when section is empty. */
static int unknown(const struct kg_member *member, struct kg_str section, struct kg_err *err)
{
    const char *candidates[KG_COUNT(config_keys)];
    size_t count = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        if (section.length == 0)
            candidates[count++] = config_keys[i].section;
        else if (kg_str_is(section, config_keys[i].section))
            candidates[count++] = config_keys[i].key;
    }
    const char *nearest = kg_str_nearest(member->key, candidates, count);
    const char *dot = section.length ? "." : "";
    kg_fail(err, KG_E_INVALID_CONFIG, "%u:%u: unknown %s %.*s%s%.*s", member->key_line,
            member->key_column, section.length ? "key" : "section", KG_STR_ARG(section), dot,
            KG_STR_CUT(member->key, 64));
    if (nearest != NULL)
        kg_hint(err, "did you mean %.*s%s%s?", KG_STR_ARG(section), dot, nearest);
    else
        kg_hint(err, "kaged.toml(5) lists every key");
    return -EINVAL;
}

static int take_section(struct config *config, const struct kg_member *section, struct kg_err *err)
{
    if (!is_section(section->key))
        return unknown(section, KG_STR_NULL, err);
    if (section->value.type != KG_OBJECT)
        return fail_at(err, &section->value, "%.*s is a section: write it as [%.*s]",
                       KG_STR_ARG(section->key), KG_STR_ARG(section->key));
    for (uint32_t i = 0; i < section->value.count; i++) {
        const struct kg_member *member = &section->value.members[i];
        const struct config_key *key = find_key(section->key, member->key);
        if (key == NULL)
            return unknown(member, section->key, err);
        int result = take_value(config, key, &member->value, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int take_text_of_file(struct config *config, struct kg_str text, struct kg_err *err)
{
    int result = 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(text, err);
    if (doc == NULL)
        result = -EINVAL;
    for (uint32_t i = 0; doc != NULL && i < doc->root->count && result == 0; i++)
        result = take_section(config, &doc->root->members[i], err);
    if (result < 0 && err != NULL) {
        err->code = KG_E_INVALID_CONFIG;
        if (err->hint[0] == '\0')
            kg_hint(err, "mend the file, or move it away to use the defaults");
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
        kg_wrap(err, 0, "%s", path);
    return config;
}

/* -- comparing and printing -------------------------------------------------------------------- */

static bool same_list(char *const *a, char *const *b)
{
    for (; *a != NULL && *b != NULL; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return *a == *b;
}

static bool same(const struct config *a, const struct config *b, const struct config_key *key)
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
    }
    return true;
}

void config_diff(const struct config *before, const struct config *after, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (same(before, after, key))
            continue;
        char name[96];
        snprintf(name, sizeof(name), "%s.%s", key->section, key->key);
        kg_json_begin(&json, '{');
        kg_json_key(&json, "key");
        kg_json_text(&json, name);
        kg_json_key(&json, "applies");
        kg_json_text(&json, config_applies_words(key->applies));
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
}

void config_print_example(struct kg_buf *out)
{
    const char *section = "";
    kg_buf_text(out, "# Every key of kaged's config.toml, at its default.\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (strcmp(section, key->section) != 0)
            kg_buf_printf(out, "\n[%s]\n", key->section);
        section = key->section;
        kg_buf_printf(out, "# %s", key->meaning);
        if (key->type == CONFIG_TYPE_TEXT && key->choices[0] != '\0')
            kg_buf_printf(out, " One of %s.", key->choices);
        kg_buf_printf(out, " Applies %s.\n", config_applies_words(key->applies));
        if (key->type == CONFIG_TYPE_INT)
            kg_buf_printf(out, "#%s = %lld\n", key->key, (long long)key->fallback);
        else if (key->type == CONFIG_TYPE_BOOL)
            kg_buf_printf(out, "#%s = %s\n", key->key, key->fallback ? "true" : "false");
        else if (key->type == CONFIG_TYPE_TEXT)
            kg_buf_printf(out, "#%s = \"%s\"\n", key->key, key->text_fallback);
        else
            kg_buf_printf(out, "#%s = []\n", key->key);
    }
}
