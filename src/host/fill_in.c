/*
 * Settings in the words that a server is started with: ${config.KEY} in its arguments and its
 * environment, since a protocol other than ours has no message for a configuration. The program
 * itself is what the operator approved, and takes none.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

#define PREFIX "${config."

static int put_setting(const struct kg_node *settings, struct kg_str key, struct kg_buf *out,
                       struct kg_err *err)
{
    const struct kg_member *member = settings != NULL ? kg_node_member(settings, key) : NULL;
    const struct kg_node *value = member != NULL ? &member->value : NULL;
    if (value == NULL || value->type == KG_NULL) {
        kg_fail(err, KG_E_INVALID_CONFIG, "there is no setting \"%.*s\"", KG_STR_CUT(key, 64));
        return kg_hint(err, "set it in local.toml, or in the project's file");
    }
    if (value->type == KG_ARRAY || value->type == KG_OBJECT)
        return kg_fail(err, KG_E_INVALID_CONFIG, "the setting \"%.*s\" is not a single value",
                       KG_STR_CUT(key, 64));
    if (value->type == KG_STRING && memchr(value->text.data, '\0', value->text.length) != NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "the setting \"%.*s\" has a NUL in it",
                       KG_STR_CUT(key, 64));
    if (value->type == KG_STRING)
        kg_buf_str(out, value->text);
    else
        kg_json_put_node(out, value);
    return 0;
}

static int fill_in(const char *text, const struct kg_node *settings, char **ret_text,
                   struct kg_err *err)
{
    struct kg_buf out = {0};
    for (const char *at = text, *begin; *at != '\0';) {
        begin = strstr(at, PREFIX);
        const char *key = begin ? begin + strlen(PREFIX) : NULL;
        const char *end = key ? strchr(key, '}') : NULL;
        if (end == NULL) {
            kg_buf_text(&out, at);
            break;
        }
        kg_buf_append(&out, at, (size_t)(begin - at));
        int result = put_setting(settings, (struct kg_str){key, (size_t)(end - key)}, &out, err);
        if (result < 0) {
            kg_buf_free(&out);
            return result;
        }
        at = end + 1;
    }
    *ret_text = kg_buf_terminate(&out);
    return 0;
}

int host_fill_in(const char *const *words, struct kg_str settings, size_t from, char ***ret_words,
                 struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        settings.length > 0 ? kg_json_read(settings, NULL) : NULL;
    char **filled = kg_list_copy(words);
    for (size_t i = from; filled[i] != NULL; i++) {
        char *text = NULL;
        int result = fill_in(filled[i], doc ? doc->root : NULL, &text, err);
        if (result < 0) {
            kg_list_free(filled);
            return result;
        }
        free(filled[i]);
        filled[i] = text;
    }
    *ret_words = filled;
    return 0;
}
