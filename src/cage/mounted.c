/*
 * Where a path lies on its file system, whatever name led to it. A mount can show a folder, or a
 * part of it, a second time under another name: so two paths are compared by the file system they
 * are on and by their place in it, as the kernel's list of mounts tells both. A file system that
 * is mounted below a path is told as a part of what the path shows.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LIST_MAX_BYTES ((size_t)16 << 20)
#define FIELDS         5 /* of a line, up to the mount point */

struct mount {
    uint64_t id;
    struct kg_str device; /* "major:minor", in the list's text, as the next two */
    char *root, *point;   /* what of the file system is mounted, and where */
};

struct cage_mounted {
    struct kg_buf text;
    struct mount *items; /* owned */
    size_t count;
};

/* In place: a blank, a tab, a line's end and a backslash are written as three octal digits. */
static void mounted_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        bool escaped = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] != '\0' &&
                       from[3] != '\0';
        *to =
            escaped ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
        from += escaped ? 4 : 1;
    }
    *to = '\0';
}

static void mounted_add_line(struct cage_mounted *mounted, char *line)
{
    char *fields[FIELDS] = {0}, *next = NULL;
    size_t count = 0;
    for (char *field = strtok_r(line, " ", &next); field != NULL && count < FIELDS;
         field = strtok_r(NULL, " ", &next))
        fields[count++] = field;
    if (count < FIELDS)
        return;
    mounted_unescape(fields[3]);
    mounted_unescape(fields[4]);
    mounted->items = kg_realloc(mounted->items, (mounted->count + 1) * sizeof(*mounted->items));
    mounted->items[mounted->count++] =
        (struct mount){strtoull(fields[0], NULL, 10), kg_str(fields[2]), fields[3], fields[4]};
}

struct cage_mounted *cage_mounted_read(void)
{
    struct cage_mounted *mounted = kg_alloc(sizeof(*mounted));
    char *next = NULL;
    if (kg_read_file("/proc/self/mountinfo", LIST_MAX_BYTES, &mounted->text, NULL) < 0) {
        cage_mounted_free(mounted);
        return NULL;
    }
    for (char *line = strtok_r(kg_buf_terminate(&mounted->text), "\n", &next); line != NULL;
         line = strtok_r(NULL, "\n", &next))
        mounted_add_line(mounted, line);
    return mounted;
}

void cage_mounted_free(struct cage_mounted *mounted)
{
    if (mounted == NULL)
        return;
    kg_buf_free(&mounted->text);
    free(mounted->items);
    free(mounted);
}

/* What the mount shows at that path below its mount point, as a path of its file system. Owned. */
static char *mounted_place_in(const struct mount *mount, const char *path)
{
    const char *rest = strcmp(mount->point, "/") == 0 ? path : path + strlen(mount->point);
    const char *root = strcmp(mount->root, "/") == 0 ? "" : mount->root;
    kg_auto(kg_free) char *place = kg_format("%s%s", root, strcmp(rest, "/") == 0 ? "" : rest);
    return kg_strdup(place[0] != '\0' ? place : "/");
}

/* The mount that the path is on; NULL: nobody knows. */
static const struct mount *mount_of(const struct cage_mounted *mounted, const char *path)
{
    struct statx there;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_MNT_ID, &there) < 0 ||
        (there.stx_mask & STATX_MNT_ID) == 0)
        return NULL;
    for (size_t i = 0; i < mounted->count; i++)
        if (mounted->items[i].id == there.stx_mnt_id &&
            kg_path_within(path, mounted->items[i].point))
            return &mounted->items[i];
    return NULL;
}

static bool is_same_tree(const char *a, const char *b)
{
    return strcmp(a, "/") == 0 || strcmp(b, "/") == 0 || kg_path_within(a, b) ||
           kg_path_within(b, a);
}

bool cage_mounted_overlap(const struct cage_mounted *mounted, const char *path, const char *folder)
{
    const struct mount *here = mount_of(mounted, path), *there = mount_of(mounted, folder);
    if (there == NULL)
        return false; /* it is not there yet, and has no other name */
    kg_auto(kg_free) char *place = mounted_place_in(there, folder);
    kg_auto(kg_free) char *own = here != NULL ? mounted_place_in(here, path) : NULL;
    if (own != NULL && kg_str_equal(here->device, there->device) && is_same_tree(own, place))
        return true;
    for (size_t i = 0; i < mounted->count; i++) {
        const struct mount *below = &mounted->items[i];
        if (kg_path_within(below->point, path) && kg_str_equal(below->device, there->device) &&
            is_same_tree(below->root, place))
            return true;
    }
    return false;
}
