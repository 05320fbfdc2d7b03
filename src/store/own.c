/*
 * The operator's own lines in an offer: what he granted and closed before, which an upgrade does
 * not change, and what he grants with this very yes. They are shown apart from what the plugin asks
 * for, and get into local.toml by the write that makes the yes count, or not at all.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>

#define LINES_MAX    64
#define SECRET_BEGIN "${secret:"

const char *const store_own_names[] = {
    [STORE_OWN_GRANTED] = "granted",
    [STORE_OWN_CLOSED] = "closed",
    [STORE_OWN_ENV] = "environment",
};

void store_own_free(struct store_own *own)
{
    kg_list_free(own->grants);
    kg_list_free(own->env);
    *own = (struct store_own){0};
}

static char **copy_list(char *const *list_or_null)
{
    return list_or_null ? kg_list_copy((const char *const *)list_or_null) : kg_list_new(0);
}

struct store_own store_own_copy(const struct store_own *own)
{
    return (struct store_own){copy_list(own->grants), copy_list(own->env)};
}

bool store_own_is_empty(const struct store_own *own)
{
    return (own->grants == NULL || own->grants[0] == NULL) &&
           (own->env == NULL || own->env[0] == NULL);
}

/* -- checking them ----------------------------------------------------------------------------- */

static int parse_grants(char *const *texts, struct capability_set *ret_set, struct kg_err *err)
{
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    int result = capability_set_parse(texts, ret_set, &remarks, err);
    if (result < 0) {
        err->code = KG_E_USAGE;
        return result;
    }
    for (size_t i = 0; i < ret_set->count; i++)
        if (ret_set->items[i].kind == CAPABILITY_NET_NONE)
            return kg_fail(err, KG_E_USAGE, "capability \"net:[]\": it grants nothing");
    return ret_set->count == kg_list_count(texts)
               ? 0
               : kg_fail(err, KG_E_USAGE, "a capability is named twice");
}

/* The name of the secret, if the value is one. */
static bool own_is_secret(struct kg_str value, struct kg_str *ret_name)
{
    size_t start = strlen(SECRET_BEGIN);
    if (!kg_str_starts(value, SECRET_BEGIN) || value.data[value.length - 1] != '}')
        return false;
    *ret_name = (struct kg_str){value.data + start, value.length - start - 1};
    return local_is_secret_name(*ret_name);
}

/*
 * What stands in local.toml can name variables and files of the daemon's. Who only may install a
 * plugin names secrets, and nothing else.
 */
static int check_env(const char *entry, struct kg_err *err)
{
    const char *equals = strchr(entry, '=');
    struct kg_str name = {entry, equals ? (size_t)(equals - entry) : strlen(entry)}, secret;
    if (equals == NULL || !local_is_env_name(name)) {
        kg_fail(err, KG_E_USAGE,
                "environment: \"%.*s\" is not the name of a variable, or is kaged's",
                KG_STR_CUT(name, KG_CUT_NAME));
        return kg_hint(err, "NAME=VALUE, of letters, digits and \"_\"");
    }
    if (strstr(equals, "${") == NULL || own_is_secret(kg_str(equals + 1), &secret))
        return 0;
    kg_fail(err, KG_E_USAGE, "environment: %.*s: \"${\" can begin the name of a secret alone",
            KG_STR_CUT(name, KG_CUT_NAME));
    return kg_hint(err, "the whole value is ${secret:NAME}, or write it into local.toml yourself");
}

static bool is_named_before(char *const *env, size_t index)
{
    size_t length = strcspn(env[index], "=") + 1;
    for (size_t i = 0; i < index; i++)
        if (strncmp(env[i], env[index], length) == 0)
            return true;
    return false;
}

int store_own_check(const struct store_own *own, struct kg_err *err)
{
    kg_auto(capability_set_free) struct capability_set set = {0};
    if (kg_list_count(own->grants) > LINES_MAX || kg_list_count(own->env) > LINES_MAX)
        return kg_fail(err, KG_E_USAGE, "more than %d lines of your own", LINES_MAX);
    int result = parse_grants(own->grants, &set, err);
    for (size_t i = 0; result == 0 && own->env[i] != NULL; i++) {
        result = check_env(own->env[i], err);
        if (result == 0 && is_named_before(own->env, i))
            result = kg_fail(err, KG_E_USAGE, "environment: %.*s is named twice",
                             (int)strcspn(own->env[i], "="), own->env[i]);
    }
    return result;
}

/* -- showing them ------------------------------------------------------------------------------ */

static struct store_own_line *own_add(struct store_offer *offer, enum store_own_kind kind,
                                      enum store_difference difference)
{
    offer->own = kg_realloc(offer->own, (offer->own_count + 1) * sizeof(*offer->own));
    struct store_own_line *line = &offer->own[offer->own_count++];
    *line = (struct store_own_line){.kind = kind, .difference = difference};
    return line;
}

static void own_add_capability(struct store_offer *offer, const struct capability *capability,
                               enum store_own_kind kind, enum store_difference difference)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, words = {0};
    struct store_own_line *line = own_add(offer, kind, difference);
    capability_print(capability, &text);
    capability_words(capability, &words);
    line->text = kg_str_dup(kg_buf_view(&text));
    line->words = kg_str_dup(kg_buf_view(&words));
    if (kind != STORE_OWN_GRANTED || !capability_is_dangerous(capability, &line->danger))
        line->danger = NULL;
}

static void add_texts(struct store_offer *offer, char *const *texts, enum store_own_kind kind)
{
    for (; *texts != NULL; texts++) {
        kg_auto(capability_free) struct capability line = {0};
        if (capability_parse(kg_str(*texts), &line, NULL) == 0)
            own_add_capability(offer, &line, kind, STORE_SAME);
    }
}

/* The value of what stood there before is not shown: it may be a secret, as it stands. */
static void own_add_env(struct store_offer *offer, const char *entry,
                        enum store_difference difference)
{
    size_t length = strcspn(entry, "=");
    struct kg_str name = {entry, length}, secret;
    struct store_own_line *line = own_add(offer, STORE_OWN_ENV, difference);
    line->text = kg_format("env:%.*s", KG_STR_ARG(name));
    if (own_is_secret(kg_str(entry + length + 1), &secret))
        line->words = kg_format("gets the secret %.*s in its environment", KG_STR_ARG(secret));
    else if (difference == STORE_SAME)
        line->words = kg_format("gets what local.toml says in its environment");
    else
        line->words = kg_format("gets %s in its environment", entry);
}

static const struct local_grant *grant_of(const struct local *local, const char *plugin)
{
    for (size_t i = 0; i < local->grant_count; i++)
        if (kg_str_is(local->grants[i].plugin, plugin) && local->grants[i].project.length == 0)
            return &local->grants[i];
    return NULL;
}

/* Which of what it asks for he closed, so that this yes does not open it, and which it has. */
static void own_mark(struct store_offer *offer, const struct local_grant *grant)
{
    kg_auto(capability_set_free) struct capability_set allow = {0}, deny = {0};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    if (capability_set_parse(grant->allow, &allow, &remarks, NULL) < 0 ||
        capability_set_parse(grant->deny, &deny, &remarks, NULL) < 0)
        return;
    for (size_t i = 0; i < offer->capability_count; i++) {
        struct store_capability *at = &offer->capabilities[i];
        kg_auto(capability_free) struct capability line = {0};
        if (at->difference == STORE_REMOVED || capability_parse(kg_str(at->text), &line, NULL) < 0)
            continue;
        for (size_t k = 0; k < deny.count; k++)
            if (grants_closes(&deny.items[k], &line))
                at->operator_says = store_own_names[STORE_OWN_CLOSED];
        if (at->operator_says == NULL && line.kind != CAPABILITY_NET_NONE &&
            capability_set_covers(&allow, &line))
            at->operator_says = store_own_names[STORE_OWN_GRANTED];
    }
}

void store_offer_show_own(struct store *store, struct store_offer *offer)
{
    struct local *local = local_load(store->parts.paths->local_file, LOCAL_LEAVE, NULL);
    const struct local_grant *grant = local ? grant_of(local, offer->manifest->name) : NULL;
    if (grant != NULL) {
        add_texts(offer, grant->allow, STORE_OWN_GRANTED);
        add_texts(offer, grant->deny, STORE_OWN_CLOSED);
        for (char **entry = grant->env; *entry != NULL; entry++)
            own_add_env(offer, *entry, STORE_SAME);
        own_mark(offer, grant);
    }
    local_free(local);
}

/* -- adding some ------------------------------------------------------------------------------- */

/* What it may do already, by its manifest or by him, needs no line. */
static int own_add_granted(struct store_offer *offer, const struct grants *before,
                           const struct capability *line, struct kg_err *err)
{
    kg_auto(grants_lines_free) struct grants_lines lines = {kg_list_new(0), kg_list_new(0)};
    if (grants_cover(before, line))
        return 0;
    for (size_t i = 0; i < before->closed.count; i++) {
        struct kg_buf text = {0};
        capability_print(&before->closed.items[i], &text);
        kg_list_add(&lines.deny, kg_buf_terminate(&text));
    }
    int result = grants_allow(before, offer->manifest->name, line, &lines, err);
    if (result == 0)
        own_add_capability(offer, line, STORE_OWN_GRANTED, STORE_NEW);
    return result;
}

int store_offer_add_own(struct store *store, struct store_offer *offer, const struct store_own *own,
                        struct kg_err *err)
{
    kg_auto(capability_set_free) struct capability_set set = {0};
    kg_auto(grants_free) struct grants before = {0};
    int result = store_own_check(own, err);
    if (result == 0)
        result = parse_grants(own->grants, &set, err);
    struct local *local =
        result == 0 ? local_load(store->parts.paths->local_file, LOCAL_LEAVE, err) : NULL;
    if (local == NULL)
        return -EINVAL;
    result = grants_make(&offer->manifest->capability_set, local, offer->manifest->name, NULL,
                         &before, err);
    local_free(local);
    for (size_t i = 0; result == 0 && i < set.count; i++)
        result = own_add_granted(offer, &before, &set.items[i], err);
    for (char **entry = own->env; result == 0 && *entry != NULL; entry++)
        own_add_env(offer, *entry, STORE_NEW);
    if (result == 0)
        offer->added = store_own_copy(own);
    return result;
}

char *store_offer_tree(const struct store_offer *offer)
{
    return offer->quarantine ? kg_path_join(offer->quarantine->path, STORE_TREE_NAME) : NULL;
}

void store_offer_added_json(const struct store_offer *offer, struct kg_json_writer *json)
{
    kg_json_begin(json, '[');
    for (size_t i = 0; i < offer->own_count; i++)
        if (offer->own[i].difference == STORE_NEW)
            kg_json_text(json, offer->own[i].text);
    kg_json_end(json, ']');
}

/* -- writing them ------------------------------------------------------------------------------ */

static int write_env(struct kg_buf *text, const char *plugin, const char *entry, struct kg_err *err)
{
    size_t length = strcspn(entry, "=");
    kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){entry, length});
    const char *const path[] = {"grants", plugin, "env", name};
    const struct kg_node value = {.type = KG_STRING, .text = kg_str(entry + length + 1)};
    return edit_toml_set(text, path, KG_COUNT(path), &value, err);
}

int store_own_write(struct kg_buf *text, const struct store_offer *offer, struct kg_err *err)
{
    kg_auto(capability_set_free) struct capability_set set = {0};
    const char *plugin = offer->manifest->name;
    const struct store_own *own = &offer->added;
    if (store_own_is_empty(own))
        return 0;
    int result = parse_grants(own->grants, &set, err);
    const struct store_grant grant = {.plugin = plugin,
                                      .declared = &offer->manifest->capability_set,
                                      .lines = &set,
                                      .only_missing = true};
    if (result == 0)
        result = store_grant_change(text, (void *)&grant, err);
    for (char **entry = own->env; result == 0 && *entry != NULL; entry++)
        result = write_env(text, plugin, *entry, err);
    return result;
}
