/*
 * Which groups of the kernel there are for us. Three ways are tried, best first; each says why it
 * is not possible. A way is only taken if it has both memory and pids: half a limit is none.
 *
 *   v2, delegated   the group we are in is ours alone: we move into a leaf, cages are its siblings
 *   v2, as root     a folder "kaged" at the top of the hierarchy
 *   v1, as root     a folder "kaged" below our own group, in each controller's hierarchy
 */
#include "cage/cgroup.h"
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MAX_BYTES ((size_t)4 * 1024 * 1024)
#define PROCS_MAX_BYTES ((size_t)1024 * 1024)
#define MOVE_ROUNDS     16 /* a process may fork while we move it */

const char *const cage_limits_names[CAGE_LIMITS_MODES] = {
    [CAGE_LIMITS_NONE] = "none",
    [CAGE_LIMITS_V1] = "cgroup-v1",
    [CAGE_LIMITS_V2] = "cgroup-v2",
};

static const char *const controller_names[CAGE_CONTROLLERS] = {
    [CAGE_MEMORY] = "memory",
    [CAGE_PIDS] = "pids",
    [CAGE_CPU] = "cpu",
};

/* -- what the host says ------------------------------------------------------------------------ */

/* The two tables of /proc/self that tell where we are and where that is mounted. */
struct tables {
    const struct cage_cgroup_asker *asker;
    struct kg_buf groups, mounts; /* owned */
};

static void tables_free(struct tables *tables)
{
    kg_buf_free(&tables->groups);
    kg_buf_free(&tables->mounts);
}

static int read_tables(const struct cage_cgroup_asker *asker, struct tables *ret_tables,
                       struct kg_err *err)
{
    kg_auto(kg_free) char *groups = kg_format("%s/self/cgroup", asker->proc);
    kg_auto(kg_free) char *mounts = kg_format("%s/self/mountinfo", asker->proc);
    kg_auto(tables_free) struct tables tables = {.asker = asker};
    int result = kg_read_file(groups, TABLE_MAX_BYTES, &tables.groups, err);
    if (result == 0)
        result = kg_read_file(mounts, TABLE_MAX_BYTES, &tables.mounts, err);
    if (result < 0)
        return result;
    *ret_tables = tables;
    tables = (struct tables){0};
    return 0;
}

static bool cgroup_find_next_line(struct kg_str *rest, struct kg_str *ret_line)
{
    if (rest->length == 0)
        return false;
    *ret_line = kg_str_cut(rest, '\n');
    return true;
}

static bool has_word(struct kg_str words, char separator, const char *word)
{
    while (words.length > 0)
        if (kg_str_is(kg_str_cut(&words, separator), word))
            return true;
    return false;
}

/* Our group in the hierarchy of a controller of v1; in that of v2 where controller is NULL. */
static bool own_group(const struct tables *tables, const char *controller, struct kg_str *ret_path)
{
    struct kg_str rest = kg_buf_view(&tables->groups), line;
    while (cgroup_find_next_line(&rest, &line)) {
        struct kg_str number = kg_str_cut(&line, ':');
        struct kg_str controllers = kg_str_cut(&line, ':');
        bool found = controller != NULL ? has_word(controllers, ',', controller)
                                        : kg_str_is(number, "0") && controllers.length == 0;
        if (found) {
            *ret_path = line;
            return true;
        }
    }
    return false;
}

struct mount {
    struct kg_str root, point, type, options;
};

/* "36 35 0:29 /root /point rw,... shared:1 - type source options" */
static bool parse_mount(struct kg_str line, struct mount *ret_mount)
{
    struct mount mount;
    for (int i = 0; i < 3; i++)
        kg_str_cut(&line, ' ');
    mount.root = kg_str_cut(&line, ' ');
    mount.point = kg_str_cut(&line, ' ');
    while (line.length > 0 && !kg_str_is(kg_str_cut(&line, ' '), "-"))
        continue;
    mount.type = kg_str_cut(&line, ' ');
    kg_str_cut(&line, ' ');
    mount.options = line;
    *ret_mount = mount;
    return mount.type.length > 0;
}

static bool is_hierarchy_of(const struct mount *mount, const char *controller)
{
    if (controller == NULL)
        return kg_str_is(mount->type, "cgroup2");
    return kg_str_is(mount->type, "cgroup") && has_word(mount->options, ',', controller);
}

/* In a mount point, a blank and its like are written in octal. */
static void append_unescaped(struct kg_buf *out, struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++) {
        const char *at = text.data + i;
        bool octal = at[0] == '\\' && i + 3 < text.length && at[1] >= '0' && at[1] <= '3';
        if (octal)
            i += 3;
        kg_buf_char(out,
                    octal ? (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0')) : *at);
    }
}

/* Where a group is seen under a mount; NULL if it is not: it may lie above the mount's root. */
static char *folder_under(const struct mount *mount, struct kg_str path)
{
    struct kg_str root = kg_str_is(mount->root, "/") ? KG_STR("") : mount->root;
    bool below = path.length >= root.length && memcmp(path.data, root.data, root.length) == 0 &&
                 (path.length == root.length || path.data[root.length] == '/');
    if (!below || has_word(path, '/', ".."))
        return NULL;
    struct kg_buf folder = {0};
    append_unescaped(&folder, mount->point);
    kg_buf_append(&folder, path.data + root.length, path.length - root.length);
    while (folder.length > 1 && folder.data[folder.length - 1] == '/')
        folder.length--;
    return kg_buf_terminate(&folder);
}

/* Our own group as a folder; *ret_top is where its hierarchy is mounted. Both are owned. */
static int own_folder(const struct tables *tables, const char *controller, char **ret_folder,
                      char **ret_top, struct kg_err *err)
{
    const char *what = controller ? controller : "v2";
    struct kg_str path, rest = kg_buf_view(&tables->mounts), line;
    if (!own_group(tables, controller, &path))
        return kg_fail(err, KG_E_CAGE, "%s: the kernel does not have it", what);
    while (cgroup_find_next_line(&rest, &line)) {
        struct mount mount;
        if (!parse_mount(line, &mount) || !is_hierarchy_of(&mount, controller))
            continue;
        char *folder = folder_under(&mount, path);
        if (folder == NULL)
            continue;
        struct kg_buf top = {0};
        append_unescaped(&top, mount.point);
        *ret_folder = folder;
        *ret_top = kg_buf_terminate(&top);
        return 0;
    }
    return kg_fail(err, KG_E_CAGE, "%s: our group %.*s is not mounted", what,
                   KG_STR_CUT(path, KG_CUT_WORD));
}

/* -- files of a group -------------------------------------------------------------------------- */

static int read_in(const char *folder, const char *file, struct kg_buf *ret_text,
                   struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, file);
    return kg_read_file(path, PROCS_MAX_BYTES, ret_text, err);
}

static int write_in(const char *folder, const char *file, const char *text, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, file);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    int result = fd < 0 ? -errno : kg_write_all(fd, text, strlen(text));
    return result < 0 ? kg_fail_errno(err, -result, "write \"%s\" to %s", text, path) : 0;
}

static int cgroup_find_check_writable(const char *folder, struct kg_err *err)
{
    static const char *const files[] = {"", "/cgroup.procs"};
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        kg_auto(kg_free) char *path = kg_format("%s%s", folder, files[i]);
        if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
            return kg_fail(err, KG_E_CAGE, "%s is not ours to write", folder);
    }
    return 0;
}

static int cgroup_find_make_folder(const char *path, struct kg_err *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "make group %s", path);
    return 0;
}

/* -- v2 ---------------------------------------------------------------------------------------- */

static int check_controllers(const char *folder, bool *ret_cpu, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = read_in(folder, "cgroup.controllers", &text, err);
    if (result < 0)
        return result;
    struct kg_str rest = kg_buf_view(&text), line = KG_STR_NULL;
    cgroup_find_next_line(&rest, &line);
    for (enum cage_controller which = CAGE_MEMORY; which <= CAGE_PIDS; which++)
        if (!has_word(line, ' ', controller_names[which]))
            return kg_fail(err, KG_E_CAGE, "%s has no %s controller", folder,
                           controller_names[which]);
    *ret_cpu = has_word(line, ' ', "cpu");
    return 0;
}

/* For the groups below. Processor time is welcome, and not needed. */
static int enable_controllers(const char *folder, bool *ret_cpu, struct kg_err *err)
{
    int result = write_in(folder, "cgroup.subtree_control", "+memory +pids", err);
    if (result < 0)
        return result;
    *ret_cpu = *ret_cpu && write_in(folder, "cgroup.subtree_control", "+cpu", NULL) == 0;
    return 0;
}

/* The program that a process runs. Owned; "" if that is not for us to know. */
static char *cgroup_find_program_of(const struct tables *tables, pid_t pid)
{
    kg_auto(kg_free) char *link = kg_format("%s/%d/exe", tables->asker->proc, pid);
    char path[4096];
    ssize_t length = readlink(link, path, sizeof(path));
    return kg_str_dup((struct kg_str){path, length > 0 ? (size_t)length : 0});
}

/* Ours: the spawner, the daemon, and the `kaged start` that waits for it. */
static bool cgroup_find_is_ours(const struct tables *tables, pid_t pid)
{
    if (pid == getpid() || pid == tables->asker->daemon)
        return true;
    kg_auto(kg_free) char *program = cgroup_find_program_of(tables, pid);
    kg_auto(kg_free) char *daemon = cgroup_find_program_of(tables, tables->asker->daemon);
    return program[0] != '\0' && strcmp(program, daemon) == 0;
}

static int read_procs(const char *folder, pid_t **ret_pids, size_t *ret_count, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = read_in(folder, "cgroup.procs", &text, err);
    if (result < 0)
        return result;
    size_t count = 0;
    pid_t *pids = kg_alloc_array(text.length / 2 + 1, sizeof(*pids));
    char *at = kg_buf_terminate(&text), *end;
    for (long pid = strtol(at, &end, 10); end != at; pid = strtol(at, &end, 10), count++) {
        pids[count] = (pid_t)pid;
        at = end;
    }
    *ret_pids = pids;
    *ret_count = count;
    return 0;
}

static int cgroup_find_check_alone(const struct tables *tables, const char *folder,
                                   struct kg_err *err)
{
    kg_auto(kg_free) pid_t *pids = NULL;
    size_t count;
    int result = read_procs(folder, &pids, &count, err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++)
        if (!cgroup_find_is_ours(tables, pids[i]))
            return kg_fail(err, KG_E_CAGE, "%s is not ours alone: process %d is in it", folder,
                           pids[i]);
    return 0;
}

/* Processes and groups do not mix: ours go into a leaf. */
static int move_into_leaf(const char *folder, struct kg_err *err)
{
    kg_auto(kg_free) char *leaf = kg_format("%s/daemon", folder);
    int result = cgroup_find_make_folder(leaf, err);
    for (unsigned round = 0; round < MOVE_ROUNDS && result == 0; round++) {
        kg_auto(kg_free) pid_t *pids = NULL;
        size_t count;
        result = read_procs(folder, &pids, &count, err);
        if (result < 0 || count == 0)
            return result;
        for (size_t i = 0; i < count && result == 0; i++) {
            char text[16];
            snprintf(text, sizeof(text), "%d", pids[i]);
            result = write_in(leaf, "cgroup.procs", text, err);
        }
    }
    return result;
}

int cage_cgroups_prepare(const struct cage_cgroups *cgroups, struct kg_err *err)
{
    int result = 0;
    bool cpu = cgroups->bases[CAGE_CPU] != NULL;
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS && result == 0; which++)
        if (cgroups->own_bases && cgroups->bases[which] != NULL)
            result = cgroup_find_make_folder(cgroups->bases[which], err);
    if (result == 0 && cgroups->own_bases && cgroups->mode == CAGE_LIMITS_V2)
        result = enable_controllers(cgroups->bases[CAGE_MEMORY], &cpu, err);
    return result;
}

static void set_v2(struct cage_cgroups *cgroups, const char *base, bool cpu)
{
    cgroups->mode = CAGE_LIMITS_V2;
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++)
        cgroups->bases[which] = which == CAGE_CPU && !cpu ? NULL : kg_strdup(base);
}

static int find_delegated(const struct tables *tables, bool take, struct cage_cgroups *cgroups,
                          struct kg_err *err)
{
    kg_auto(kg_free) char *folder = NULL, *top = NULL;
    bool cpu = false;
    int result = own_folder(tables, NULL, &folder, &top, err);
    if (result == 0)
        result = check_controllers(folder, &cpu, err);
    if (result == 0)
        result = cgroup_find_check_writable(folder, err);
    if (result == 0)
        result = cgroup_find_check_alone(tables, folder, err);
    if (result == 0 && take)
        result = move_into_leaf(folder, err);
    if (result == 0 && take)
        result = enable_controllers(folder, &cpu, err);
    if (result == 0)
        set_v2(cgroups, folder, cpu);
    return result;
}

static int find_at_top(const struct tables *tables, bool take, struct cage_cgroups *cgroups,
                       struct kg_err *err)
{
    kg_auto(kg_free) char *folder = NULL, *top = NULL;
    bool cpu = false;
    if (!tables->asker->is_root)
        return kg_fail(err, KG_E_CAGE, "only root may make groups at its top");
    int result = own_folder(tables, NULL, &folder, &top, err);
    if (result == 0)
        result = check_controllers(top, &cpu, err);
    if (result == 0)
        result = cgroup_find_check_writable(top, err);
    if (result == 0 && take)
        result = enable_controllers(top, &cpu, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *base = kg_format("%s/kaged", top);
    set_v2(cgroups, base, cpu);
    cgroups->own_bases = take;
    return cage_cgroups_prepare(cgroups, err);
}

/* -- v1 ---------------------------------------------------------------------------------------- */

static int find_v1_of(const struct tables *tables, enum cage_controller which,
                      struct cage_cgroups *cgroups, struct kg_err *err)
{
    kg_auto(kg_free) char *folder = NULL, *top = NULL;
    int result = own_folder(tables, controller_names[which], &folder, &top, err);
    if (result == 0)
        result = cgroup_find_check_writable(folder, err);
    if (result == 0)
        cgroups->bases[which] = kg_format("%s/kaged", folder);
    return result;
}

static int find_v1(const struct tables *tables, bool take, struct cage_cgroups *cgroups,
                   struct kg_err *err)
{
    if (!tables->asker->is_root)
        return kg_fail(err, KG_E_CAGE, "v1 is for root only");
    int result = find_v1_of(tables, CAGE_MEMORY, cgroups, err);
    if (result == 0)
        result = find_v1_of(tables, CAGE_PIDS, cgroups, err);
    if (result < 0)
        return result;
    (void)find_v1_of(tables, CAGE_CPU, cgroups, NULL);
    cgroups->mode = CAGE_LIMITS_V1;
    cgroups->own_bases = take;
    return cage_cgroups_prepare(cgroups, err);
}

/* -- the best way ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int (*find)(const struct tables *tables, bool take, struct cage_cgroups *cgroups,
                struct kg_err *err);
} ways[] = {
    {"cgroup v2, delegated", find_delegated},
    {"cgroup v2, as root", find_at_top},
    {"cgroup v1, as root", find_v1},
};

static void cgroup_find_forget(struct cage_cgroups *cgroups)
{
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++)
        free(cgroups->bases[which]);
    *cgroups = (struct cage_cgroups){0};
}

/* Takes the first way that there is. What keeps us from the others is added to `why`. */
static bool find_way(const struct tables *tables, bool take, struct cage_cgroups *cgroups,
                     struct kg_buf *why, const char **ret_name)
{
    kg_auto(kg_free) char *last = kg_strdup("");
    for (size_t i = 0; i < KG_COUNT(ways); i++) {
        struct kg_err err = {0};
        if (ways[i].find(tables, take, cgroups, &err) == 0) {
            *ret_name = ways[i].name;
            return true;
        }
        cgroup_find_forget(cgroups);
        if (strcmp(last, err.message) != 0)
            kg_buf_printf(why, "%s%s: %s", why->length ? "; " : "", ways[i].name, err.message);
        free(last);
        last = kg_strdup(err.message);
    }
    return false;
}

static void cgroup_find_say(struct cage_limits *limits, enum cage_limits_mode mode, const char *how,
                            struct kg_buf *why)
{
    limits->mode = mode;
    snprintf(limits->words, sizeof(limits->words), "%s%s%s%s", how, why->length ? " (" : "",
             kg_buf_terminate(why), why->length ? ")" : "");
}

struct cage_cgroups *cage_cgroups_find(const struct cage_cgroup_asker *asker, bool take,
                                       struct cage_limits *ret_limits)
{
    kg_auto(kg_buf_free) struct kg_buf why = {0};
    kg_auto(tables_free) struct tables tables = {0};
    struct kg_err err = {0};
    struct cage_cgroups *cgroups = kg_alloc(sizeof(*cgroups));
    const char *name;
    if (read_tables(asker, &tables, &err) < 0) {
        kg_buf_text(&why, err.message);
    } else if (find_way(&tables, take, cgroups, &why, &name)) {
        kg_auto(kg_free) char *how =
            kg_format("%s, in %s: memory, processes%s", name, cgroups->bases[CAGE_MEMORY],
                      cgroups->bases[CAGE_CPU] ? ", processor time" : "");
        cgroup_find_say(ret_limits, cgroups->mode, how, &why);
        return cgroups;
    }
    cgroup_find_say(ret_limits, CAGE_LIMITS_NONE,
                    "no cgroups: limits of single processes, and a watchdog", &why);
    free(cgroups);
    return NULL;
}

void cage_limits_probe(struct cage_limits *ret_limits)
{
    const struct cage_cgroup_asker asker = {"/proc", getpid(), geteuid() == 0};
    cage_cgroups_free(cage_cgroups_find(&asker, false, ret_limits));
}
