/*
 * A name is a plain relative path of readable text, and a link leads to a place below the top of
 * the tree. Pure: nothing here looks at a disk, so that both sides of the cage decide alike.
 */
#include "store/tree_rules.h"

#include <sys/stat.h>

#define QUOTED_BYTES_MAX 200

/* -- names ------------------------------------------------------------------------------------- */

static bool tree_rules_has_control(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F)
            return true;
    return false;
}

/* The next part of a path, up to a slash or its end; false when there is none. */
static bool next_part(struct kg_str *rest, struct kg_str *ret_part)
{
    if (rest->data == NULL)
        return false;
    const char *slash = rest->length > 0 ? memchr(rest->data, '/', rest->length) : NULL;
    if (slash == NULL) {
        *ret_part = *rest;
        *rest = KG_STR_NULL;
        return true;
    }
    *ret_part = (struct kg_str){rest->data, (size_t)(slash - rest->data)};
    rest->length -= ret_part->length + 1;
    rest->data = slash + 1;
    return true;
}

static const char *part_problem(struct kg_str part)
{
    if (part.length == 0)
        return "a part of its name is empty";
    if (kg_str_is(part, ".") || kg_str_is(part, ".."))
        return "its name contains . or ..";
    return part.length > TREE_NAME_BYTES_MAX ? "a part of its name is too long" : NULL;
}

const char *tree_path_problem(struct kg_str path, uint32_t depth_max)
{
    if (path.length == 0)
        return "its name is empty";
    if (path.data[0] == '/')
        return "its name is absolute";
    if (path.length > TREE_PATH_BYTES_MAX)
        return "its name is too long";
    if (kg_utf8_valid(path) != path.length)
        return "its name is not UTF-8";
    if (tree_rules_has_control(path))
        return "its name contains a control character";
    if (!kg_str_is_plain(path))
        return "its name contains a character that is invisible or changes the direction of "
               "writing";
    if (memchr(path.data, '\\', path.length) != NULL)
        return "its name contains a backslash, which other systems take for a slash";
    if (path.length > 1 && path.data[1] == ':' && kg_is_letter(path.data[0]))
        return "its name begins with a drive letter";
    struct kg_str rest = path, part;
    for (uint32_t depth = 1; next_part(&rest, &part); depth++) {
        const char *problem = part_problem(part);
        if (problem != NULL)
            return problem;
        if (depth > depth_max)
            return "it is nested too deep";
    }
    return NULL;
}

const char *tree_mode_problem(mode_t mode)
{
    static const struct {
        mode_t type;
        const char *problem;
    } types[] = {
        {S_IFREG, NULL},
        {S_IFDIR, NULL},
        {S_IFLNK, NULL},
        {S_IFCHR, "it is a device"},
        {S_IFBLK, "it is a device"},
        {S_IFIFO, "it is a pipe"},
        {S_IFSOCK, "it is a socket"},
    };
    for (size_t i = 0; i < KG_COUNT(types); i++) {
        if ((mode & S_IFMT) != types[i].type)
            continue;
        if (types[i].problem != NULL)
            return types[i].problem;
        if ((mode & (S_ISUID | S_ISGID)) != 0)
            return "it would run as its owner or group (set-id bit)";
        return (mode & S_ISVTX) != 0 ? "its sticky bit is set" : NULL;
    }
    return "it is neither a file nor a folder nor a link";
}

/* -- links ------------------------------------------------------------------------------------- */

/* Where a walk over links is: `at` is below the top, `rest` is still to go. */
struct walk {
    struct kg_buf at, rest;
    unsigned links;
    tree_link_fn *link_of;
    void *data;
};

static void tree_rules_walk_free(struct walk *walk)
{
    kg_buf_free(&walk->at);
    kg_buf_free(&walk->rest);
}

/* False at the top: there is nothing above it. */
static bool go_up(struct walk *walk)
{
    if (walk->at.length == 0)
        return false;
    const char *slash = memrchr(walk->at.data, '/', walk->at.length);
    walk->at.length = slash ? (size_t)(slash - walk->at.data) : 0;
    return true;
}

static void go_into(struct walk *walk, struct kg_str part)
{
    if (walk->at.length > 0)
        kg_buf_char(&walk->at, '/');
    kg_buf_str(&walk->at, part);
}

/* What a link says comes before the rest of the way. */
static void take_link(struct walk *walk, const char *target, struct kg_str rest)
{
    struct kg_buf way = {0};
    go_up(walk);
    kg_buf_text(&way, target);
    if (rest.data != NULL) {
        kg_buf_char(&way, '/');
        kg_buf_str(&way, rest);
    }
    kg_buf_free(&walk->rest);
    walk->rest = way;
}

static const char *tree_rules_follow(struct walk *walk)
{
    struct kg_str rest = kg_buf_view(&walk->rest), part;
    while (next_part(&rest, &part)) {
        if (part.length == 0 || kg_str_is(part, "."))
            continue;
        if (kg_str_is(part, "..")) {
            if (!go_up(walk))
                return "the link leads out of the plugin's folder";
            continue;
        }
        go_into(walk, part);
        const char *target = walk->link_of(walk->data, kg_buf_view(&walk->at));
        if (target == NULL)
            continue;
        if (target[0] == '/')
            return "the link leads through an absolute link";
        if (++walk->links > TREE_LINKS_MAX)
            return "the link is circular";
        take_link(walk, target, rest);
        rest = kg_buf_view(&walk->rest);
    }
    return NULL;
}

const char *tree_link_problem(struct kg_str path, const char *target, tree_link_fn *link_of,
                              void *data)
{
    struct kg_str text = kg_str(target);
    if (text.length == 0)
        return "the link is empty";
    if (text.data[0] == '/')
        return "the link is absolute";
    if (text.length > TREE_LINK_BYTES_MAX || kg_utf8_valid(text) != text.length ||
        tree_rules_has_control(text))
        return "the target of the link is too long, or not readable text";
    kg_auto(tree_rules_walk_free) struct walk walk = {.link_of = link_of, .data = data};
    kg_buf_str(&walk.at, path);
    go_up(&walk);
    kg_buf_str(&walk.rest, text);
    return tree_rules_follow(&walk);
}

void tree_quote(struct kg_buf *out, struct kg_str path)
{
    bool cut = path.length > QUOTED_BYTES_MAX;
    kg_buf_char(out, '"');
    kg_buf_escaped(out, (struct kg_str){path.data, cut ? QUOTED_BYTES_MAX : path.length});
    kg_buf_text(out, cut ? "...\"" : "\"");
}
