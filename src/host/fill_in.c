/*
 * Settings and places in the words that a server is started with, since a protocol other than ours
 * has no message for a configuration: ${config.KEY}, ${plugin_dir} and ${data_dir} in its
 * arguments, headers and environment, and in the first two ${env.NAME}, a variable of that
 * environment, by which a secret gets there. What they hold is not looked through again. The
 * program itself is what the operator approved, and takes none.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

#define PREFIX   "config."
#define VARIABLE "env."

static const struct kg_node *find_setting(const struct kg_node *settings, struct kg_str key,
                                          struct kg_err *err)
{
    const struct kg_member *member = settings != NULL ? kg_node_member(settings, key) : NULL;
    if (member != NULL && member->value.type != KG_NULL)
        return &member->value;
    kg_fail(err, KG_E_INVALID_CONFIG, "there is no setting \"%.*s\"", KG_STR_CUT(key, KG_CUT_NAME));
    kg_hint(err, "set it in local.toml, or in the project's file");
    return NULL;
}

static int fill_in_put_value(const struct kg_node *value, struct kg_str key, struct kg_buf *out,
                             struct kg_err *err)
{
    if (value->type == KG_ARRAY || value->type == KG_OBJECT)
        return kg_fail(err, KG_E_INVALID_CONFIG, "the setting \"%.*s\" is not a single value",
                       KG_STR_CUT(key, KG_CUT_NAME));
    if (value->type == KG_STRING && memchr(value->text.data, '\0', value->text.length) != NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "the setting \"%.*s\" contains a NUL",
                       KG_STR_CUT(key, KG_CUT_NAME));
    if (value->type == KG_STRING)
        kg_buf_str(out, value->text);
    else
        kg_json_put_node(out, value);
    return 0;
}

static int fill_in_put_variable(char *const *env, struct kg_str name, struct kg_buf *out,
                                struct kg_err *err)
{
    const char *value = NULL;
    for (; *env != NULL; env++)
        if (strncmp(*env, name.data, name.length) == 0 && (*env)[name.length] == '=')
            value = *env + name.length + 1;
    if (value == NULL) {
        kg_fail(err, KG_E_INVALID_CONFIG, "there is no variable \"%.*s\" in its environment",
                KG_STR_CUT(name, KG_CUT_NAME));
        return kg_hint(err, "set it in [grants.NAME.env] of local.toml, best as ${secret:NAME}");
    }
    kg_buf_text(out, value);
    return 0;
}

/* inside: what stands between the braces. What is not ours stays as it is. */
static int fill_in_put_place(const struct host_filling *by, const struct kg_node *settings,
                             struct kg_str inside, struct kg_buf *out, struct kg_err *err)
{
    if (kg_str_is(inside, "plugin_dir") || kg_str_is(inside, "data_dir")) {
        kg_buf_text(out, kg_str_is(inside, "data_dir") ? by->data_dir : by->plugin_dir);
        return 0;
    }
    if (kg_str_starts(inside, VARIABLE) && by->env != NULL)
        return fill_in_put_variable(by->env, kg_str_from(inside, strlen(VARIABLE)), out, err);
    if (!kg_str_starts(inside, PREFIX)) {
        kg_buf_printf(out, "${%.*s}", KG_STR_ARG(inside));
        return 0;
    }
    struct kg_str key = kg_str_from(inside, strlen(PREFIX));
    const struct kg_node *value = find_setting(settings, key, err);
    return value == NULL ? -EINVAL : fill_in_put_value(value, key, out, err);
}

static int fill_in_fill_in(const char *text, const struct host_filling *by,
                           const struct kg_node *settings, char ***list, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    for (const char *at = text, *begin; *at != '\0';) {
        begin = strstr(at, "${");
        const char *end = begin ? strchr(begin, '}') : NULL;
        if (end == NULL) {
            kg_buf_text(&out, at);
            break;
        }
        kg_buf_append(&out, at, (size_t)(begin - at));
        struct kg_str inside = {begin + 2, (size_t)(end - begin - 2)};
        int result = fill_in_put_place(by, settings, inside, &out, err);
        if (result < 0)
            return result;
        at = end + 1;
    }
    kg_list_add(list, kg_str_dup(kg_buf_view(&out)));
    return 0;
}

/* An argument that is one setting, and that setting a list; NULL: it is not. */
static const struct kg_node *fill_in_list_of(const char *text, const struct kg_node *settings)
{
    static const char prefix[] = "${" PREFIX;
    struct kg_str word = kg_str(text);
    if (!kg_str_starts(word, prefix) || strchr(text, '}') != text + word.length - 1)
        return NULL;
    kg_auto(kg_free) char *key =
        kg_str_dup((struct kg_str){text + strlen(prefix), word.length - strlen(prefix) - 1});
    return settings != NULL ? kg_node_typed(settings, key, KG_ARRAY) : NULL;
}

/* One argument for each of its values. */
static int spread(const struct kg_node *list, char ***words, struct kg_err *err)
{
    int result = 0;
    for (uint32_t i = 0; i < list->count && result == 0; i++) {
        kg_auto(kg_buf_free) struct kg_buf word = {0};
        result = fill_in_put_value(&list->items[i], KG_STR("[]"), &word, err);
        if (result == 0)
            kg_list_add(words, kg_str_dup(kg_buf_view(&word)));
    }
    return result;
}

int host_fill_in(const char *const *words, enum host_words kind, const struct host_filling *by,
                 char ***ret_words, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        by->settings.length > 0 ? kg_json_read(by->settings, NULL) : NULL;
    const struct kg_node *settings = doc ? doc->root : NULL;
    bool is_command = kind == HOST_COMMAND;
    char **filled = kg_list_new(0);
    int result = 0;
    if (is_command && words[0] != NULL)
        kg_list_add(&filled, kg_strdup(*words++));
    for (; *words != NULL && result == 0; words++) {
        const struct kg_node *list = is_command ? fill_in_list_of(*words, settings) : NULL;
        result = list != NULL ? spread(list, &filled, err)
                              : fill_in_fill_in(*words, by, settings, &filled, err);
    }
    if (result < 0) {
        kg_list_free(filled);
        return result;
    }
    *ret_words = filled;
    return 0;
}
