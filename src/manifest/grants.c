/*
 * What the operator's lines make of a manifest's. A line that he closed takes away every line that
 * it is or lies above; of one that it lies below it takes a part. Closing what may be read closes
 * all of it; closing what may be written leaves what another line lets be read.
 */
#include "manifest/grants.h"

#include <errno.h>
#include <stdlib.h>

/* -- what closes what -------------------------------------------------------------------------- */

static bool manifest_grants_is_path(enum capability_kind kind)
{
    return kind == CAPABILITY_READ || kind == CAPABILITY_WRITE;
}

/* A program's folder is read by whoever may run it there. */
static bool closes_path(const struct capability *closed, const struct capability *line)
{
    if (!manifest_grants_is_path(line->kind) && line->kind != CAPABILITY_EXEC)
        return false;
    return (closed->kind == CAPABILITY_READ || line->kind == CAPABILITY_WRITE) &&
           kg_path_within(line->path, closed->path);
}

bool grants_closes(const struct capability *closed, const struct capability *line)
{
    switch (closed->kind) {
    case CAPABILITY_READ:
    case CAPABILITY_WRITE:
        return closes_path(closed, line);
    case CAPABILITY_EXEC:
        return line->kind == CAPABILITY_EXEC && strcmp(closed->program, line->program) == 0 &&
               kg_path_within(line->path, closed->path);
    case CAPABILITY_STORAGE_READ:
        return line->kind == CAPABILITY_STORAGE_READ || line->kind == CAPABILITY_STORAGE_WRITE;
    case CAPABILITY_NET_ANY:
    case CAPABILITY_NET_HOST:
        return line->kind != CAPABILITY_NET_NONE && capability_covers(closed, line);
    default:
        return capability_equal(closed, line);
    }
}

/* Whether closing it would take something of the line away, if not all. */
static bool touches(const struct capability *closed, const struct capability *line)
{
    if (grants_closes(closed, line) || capability_covers(line, closed))
        return true;
    return manifest_grants_is_path(closed->kind) && line->kind == CAPABILITY_EXEC &&
           closed->kind == CAPABILITY_READ && kg_path_within(closed->path, line->path);
}

static const struct capability *closing(const struct capability_set *closed,
                                        const struct capability *line)
{
    for (size_t i = 0; i < closed->count; i++)
        if (grants_closes(&closed->items[i], line))
            return &closed->items[i];
    return NULL;
}

const struct capability *grants_closing(const struct grants *grants,
                                        const struct capability *claimed)
{
    return closing(&grants->closed, claimed);
}

bool grants_cover(const struct grants *grants, const struct capability *claimed)
{
    return claimed->kind == CAPABILITY_NET_NONE ||
           (capability_set_covers(&grants->set, claimed) && !grants_closing(grants, claimed));
}

/* -- making them ------------------------------------------------------------------------------- */

static void manifest_grants_add(struct capability_set *set, const struct capability *line)
{
    set->items = kg_realloc(set->items, (set->count + 1) * sizeof(*set->items));
    set->items[set->count++] = (struct capability){
        .kind = line->kind,
        .path = kg_strdup(line->path),
        .program = kg_strdup(line->program),
        .host = kg_strdup(line->host),
        .port = line->port,
    };
}

static char *manifest_grants_text_of(const struct capability *line)
{
    struct kg_buf text = {0};
    capability_print(line, &text);
    return kg_buf_terminate(&text);
}

static int manifest_grants_parse_line(const char *text, struct capability *ret_line,
                                      struct kg_err *err)
{
    int result = capability_parse(kg_str(text), ret_line, err);
    if (result < 0)
        return result;
    if (ret_line->kind != CAPABILITY_NET_NONE)
        return 0;
    capability_free(ret_line);
    return kg_fail(err, KG_E_INVALID_CONFIG,
                   "capability \"%s\": it means no network, and grants nothing", text);
}

static int manifest_grants_add_lines(char *const *texts, struct capability_set *set,
                                     struct kg_err *err)
{
    for (; *texts != NULL; texts++) {
        kg_auto(capability_free) struct capability line = {0};
        int result = manifest_grants_parse_line(*texts, &line, err);
        if (result < 0)
            return result;
        manifest_grants_add(set, &line);
    }
    return 0;
}

static bool concerns(const struct local_grant *grant, const char *plugin,
                     const char *project_or_null)
{
    return kg_str_is(grant->plugin, plugin) &&
           (grant->project.length == 0 ||
            (project_or_null != NULL && kg_str_is(grant->project, project_or_null)));
}

static int wrap(struct kg_err *err, const struct local_grant *grant, int result)
{
    if (result < 0 && err != NULL)
        err->code = KG_E_INVALID_CONFIG;
    return result < 0 ? kg_wrap(err, result, "[grants.%.*s] in local.toml",
                                KG_STR_CUT(grant->plugin, KG_CUT_NAME))
                      : 0;
}

static int manifest_grants_add_granted(const struct local *local, const char *plugin,
                                       const char *project_or_null, struct capability_set *granted,
                                       struct capability_set *closed, char ***env,
                                       struct kg_err *err)
{
    for (size_t i = 0; i < local->grant_count; i++) {
        const struct local_grant *grant = &local->grants[i];
        if (!concerns(grant, plugin, project_or_null))
            continue;
        int result = manifest_grants_add_lines(grant->allow, granted, err);
        if (result == 0)
            result = manifest_grants_add_lines(grant->deny, closed, err);
        if (result < 0)
            return wrap(err, grant, result);
        for (char **entry = grant->env; *entry != NULL; entry++)
            kg_list_add(env, kg_strdup(*entry));
    }
    return 0;
}

static bool manifest_grants_has(const struct capability_set *set, const struct capability *line)
{
    for (size_t i = 0; i < set->count; i++)
        if (capability_equal(&set->items[i], line))
            return true;
    return false;
}

static void add_open(struct grants *grants, const struct capability_set *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct capability *line = &lines->items[i];
        if (!manifest_grants_has(&grants->set, line))
            manifest_grants_add(closing(&grants->closed, line) ? &grants->taken : &grants->set,
                                line);
    }
}

int grants_make(const struct capability_set *declared, const struct local *local,
                const char *plugin, const char *project_or_null, struct grants *ret_grants,
                struct kg_err *err)
{
    kg_auto(grants_free) struct grants grants = {0};
    kg_auto(capability_set_free) struct capability_set granted = {0};
    grants.env = kg_list_new(0);
    int result = local != NULL
                     ? manifest_grants_add_granted(local, plugin, project_or_null, &granted,
                                                   &grants.closed, &grants.env, err)
                     : 0;
    if (result < 0)
        return result;
    add_open(&grants, declared);
    grants.declared = grants.set.count;
    add_open(&grants, &granted);
    grants.texts = kg_list_new(grants.set.count);
    for (size_t i = 0; i < grants.set.count; i++)
        grants.texts[i] = manifest_grants_text_of(&grants.set.items[i]);
    *ret_grants = grants;
    grants = (struct grants){0};
    return 0;
}

void grants_free(struct grants *grants)
{
    capability_set_free(&grants->set);
    capability_set_free(&grants->closed);
    capability_set_free(&grants->taken);
    kg_list_free(grants->texts);
    kg_list_free(grants->env);
    *grants = (struct grants){0};
}

static bool same_set(const struct capability_set *a, const struct capability_set *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++)
        same = capability_equal(&a->items[i], &b->items[i]);
    return same;
}

/* Grants that could not be made have none. */
static bool manifest_grants_same_texts(char *const *a, char *const *b)
{
    size_t i = 0;
    if (a == NULL || b == NULL)
        return a == b;
    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

bool grants_equal(const struct grants *a, const struct grants *b)
{
    return same_set(&a->set, &b->set) && same_set(&a->closed, &b->closed) &&
           manifest_grants_same_texts(a->env, b->env);
}

int grants_check(const struct local *local, const char *plugin, struct kg_err *err)
{
    kg_auto(capability_set_free) struct capability_set granted = {0}, closed = {0};
    int result = 0;
    for (size_t i = 0; i < local->grant_count && result == 0; i++) {
        const struct local_grant *grant = &local->grants[i];
        if (!kg_str_is(grant->plugin, plugin))
            continue;
        if (grant->problem != NULL) {
            *err = *grant->problem;
            return wrap(err, grant, -EINVAL);
        }
        result = manifest_grants_add_lines(grant->allow, &granted, err);
        if (result == 0)
            result = manifest_grants_add_lines(grant->deny, &closed, err);
        result = wrap(err, grant, result);
    }
    return result;
}

/* -- changing them ----------------------------------------------------------------------------- */

void grants_lines_free(struct grants_lines *lines)
{
    kg_list_free(lines->allow);
    kg_list_free(lines->deny);
    *lines = (struct grants_lines){0};
}

typedef bool relation(const struct capability *one, const struct capability *other);

/* Takes out each text that stands so to the line; whether there was one. */
static bool remove_texts(char **texts, relation *stands, const struct capability *line)
{
    size_t kept = 0, count = kg_list_count(texts);
    for (size_t i = 0; i < count; i++) {
        kg_auto(capability_free) struct capability other = {0};
        if (capability_parse(kg_str(texts[i]), &other, NULL) == 0 && stands(line, &other))
            free(texts[i]);
        else
            texts[kept++] = texts[i];
    }
    texts[kept] = NULL;
    return kept < count;
}

static int manifest_grants_refuse(struct kg_err *err, const char *plugin,
                                  const struct capability *line, const char *why)
{
    kg_auto(kg_free) char *text = manifest_grants_text_of(line);
    return kg_fail(err, KG_E_CONFLICT, "plugin %s: %s: %s", plugin, text, why);
}

/* What stays closed when the grant has opened all that it covers. */
static const struct capability *still_closing(const struct grants *before,
                                              const struct grants_lines *lines,
                                              const struct capability *wanted)
{
    for (size_t i = 0; i < before->closed.count; i++) {
        const struct capability *closed = &before->closed.items[i];
        kg_auto(kg_free) char *text = manifest_grants_text_of(closed);
        bool opens = capability_covers(wanted, closed) && kg_list_has(lines->deny, kg_str(text));
        if (!opens && grants_closes(closed, wanted))
            return closed;
    }
    return NULL;
}

/* Lines that were closed with it, and are more than is granted now, stay closed by name. */
static void keep_closed(const struct grants *before, const struct capability *wanted,
                        struct grants_lines *lines)
{
    for (size_t i = 0; i < before->taken.count; i++) {
        const struct capability *line = &before->taken.items[i];
        char *text = manifest_grants_text_of(line);
        if (capability_covers(wanted, line) || kg_list_has(lines->deny, kg_str(text)))
            free(text);
        else
            kg_list_add(&lines->deny, text);
    }
}

int grants_allow(const struct grants *before, const char *plugin, const struct capability *wanted,
                 struct grants_lines *lines, struct kg_err *err)
{
    const struct capability *closed = still_closing(before, lines, wanted);
    if (closed != NULL) {
        kg_auto(kg_free) char *text = manifest_grants_text_of(closed);
        manifest_grants_refuse(err, plugin, wanted, "it is inside what you closed");
        return kg_hint(err, "open that first: kaged plugin grant %s %s", plugin, text);
    }
    bool opened = remove_texts(lines->deny, capability_covers, wanted);
    if (!opened && capability_set_covers(&before->set, wanted))
        return manifest_grants_refuse(err, plugin, wanted, "it may already do that");
    if (opened)
        keep_closed(before, wanted, lines);
    char *text = manifest_grants_text_of(wanted);
    bool is_declared =
        capability_set_covers(&before->set, wanted) || manifest_grants_has(&before->taken, wanted);
    if (is_declared || kg_list_has(lines->allow, kg_str(text)))
        free(text);
    else
        kg_list_add(&lines->allow, text);
    return 0;
}

/* Whether something is left of what it may do that closing this would take away. */
static bool is_left(const struct grants *before, const struct grants_lines *lines,
                    const struct capability *unwanted)
{
    for (size_t i = 0; i < before->set.count; i++) {
        bool is_his = i >= before->declared && grants_closes(unwanted, &before->set.items[i]);
        bool is_gone = is_his && !kg_list_has(lines->allow, kg_str(before->texts[i]));
        if (!is_gone && before->set.items[i].kind != CAPABILITY_NET_NONE &&
            touches(unwanted, &before->set.items[i]))
            return true;
    }
    return false;
}

int grants_deny(const struct grants *before, const char *plugin, const struct capability *unwanted,
                struct grants_lines *lines, struct kg_err *err)
{
    if (grants_closing(before, unwanted) != NULL)
        return manifest_grants_refuse(err, plugin, unwanted, "it is already closed");
    bool removed = remove_texts(lines->allow, grants_closes, unwanted);
    bool left = is_left(before, lines, unwanted);
    if (!removed && !left) {
        manifest_grants_refuse(err, plugin, unwanted, "it may not do that");
        return kg_hint(err, "kaged plugin status %s shows what it may do", plugin);
    }
    if (left) {
        (void)remove_texts(lines->deny, grants_closes, unwanted); /* what it says already */
        kg_list_add(&lines->deny, manifest_grants_text_of(unwanted));
    }
    return 0;
}
