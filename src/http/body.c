/* The body of a request: a JSON object with members that a table names, and no others. */
#include "http/internal.h"

#include <errno.h>
#include <stdlib.h>

static const struct http_member *find_member(const struct http_member *members, struct kg_str key)
{
    while (members->name != NULL && !kg_str_is(key, members->name))
        members++;
    return members->name != NULL ? members : NULL;
}

static int refuse_key(const struct http_member *members, struct kg_str key, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf known = {0};
    for (; members->name != NULL; members++)
        kg_buf_printf(&known, "%s%s", known.length > 0 ? ", " : "", members->name);
    return kg_fail(err, KG_E_USAGE, "unknown key \"%.*s\": the body may have %s",
                   KG_STR_CUT(key, 64), kg_buf_terminate(&known));
}

static int take_text(const struct http_member *member, const struct kg_node *node,
                     struct kg_err *err)
{
    if (node->type == KG_NULL)
        return 0;
    if (node->type != KG_STRING || node->text.length == 0 ||
        memchr(node->text.data, '\0', node->text.length) != NULL)
        return kg_fail(err, KG_E_USAGE, "\"%s\" must be a text that is not empty", member->name);
    free(*member->ret_text);
    *member->ret_text = kg_str_dup(node->text);
    return 0;
}

static int take_member(const struct http_member *member, const struct kg_node *node,
                       struct kg_err *err)
{
    if (member->ret_text != NULL)
        return take_text(member, node, err);
    if (node->type != KG_BOOL)
        return kg_fail(err, KG_E_USAGE, "\"%s\" must be true or false", member->name);
    *member->ret_flag = node->boolean;
    return 0;
}

int http_body_members(const struct http_request *request, const struct http_member *members,
                      struct kg_err *err)
{
    struct kg_str text = http_body(request);
    int result = 0;
    if (text.length == 0)
        return 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, err);
    if (doc == NULL)
        return -EINVAL;
    if (doc->root->type != KG_OBJECT)
        return kg_fail(err, KG_E_USAGE, "the body is not a JSON object");
    for (uint32_t i = 0; i < doc->root->count && result == 0; i++) {
        const struct kg_member *given = &doc->root->members[i];
        const struct http_member *member = find_member(members, given->key);
        result = member != NULL ? take_member(member, &given->value, err)
                                : refuse_key(members, given->key, err);
    }
    return result;
}
