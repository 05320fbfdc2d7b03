/*
 * What is guarded of a process that runs, watched from the host's side. What could not be covered,
 * since it was not there, is moved away when it appears and when the process ends: to a folder that
 * no plugin may write, beside it on the same disk. A cover holds as long as what it lies over: if
 * another file or folder takes its name, the kernel takes the cover away, and the process is
 * restarted. Nothing costs anything until a folder with such a name in it changes.
 */
#include "host/internal.h"
#include "project/project.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TOLD_MAX       16 /* that status shows of a process */
#define QUARANTINE_MAX 32 /* that a process may have moved away before it is disabled */

/* What was there when the plan was made. */
struct seen {
    bool there;
    dev_t device;
    ino_t inode;
    struct timespec changed; /* of a link, which has no cover: an inode can come again */
};

struct item {
    const char *path; /* borrowed from the covers */
    bool is_link;
    struct seen seen;
};

struct host_guarded {
    struct host_process *process; /* borrowed */
    struct host_covers covers;
    struct item *items; /* owned; one for each cover */
    struct host_watch *watch;
};

static struct seen guarded_see(const char *path)
{
    struct stat there;
    if (lstat(path, &there) < 0)
        return (struct seen){0};
    return (struct seen){true, there.st_dev, there.st_ino, there.st_ctim};
}

static bool guarded_is_same(const struct item *item, const struct seen *now)
{
    return now->there && now->device == item->seen.device && now->inode == item->seen.inode &&
           (!item->is_link || (now->changed.tv_sec == item->seen.changed.tv_sec &&
                               now->changed.tv_nsec == item->seen.changed.tv_nsec));
}

/* -- the quarantine ---------------------------------------------------------------------------- */

/* The nearest folder above that has a PROJECT_DIR of ours; that is covered. NULL: none. */
static char *home_of(const struct host_guarded *guarded, const char *path)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < guarded->covers.count; i++) {
        const char *own = guarded->items[i].path;
        size_t length = strlen(own) - strlen(kg_path_name(own)) - 1;
        if (strcmp(kg_path_name(own), PROJECT_DIR) == 0 && guarded->items[i].seen.there &&
            strncmp(path, own, length) == 0 && path[length] == '/' &&
            (nearest == NULL || strlen(own) > strlen(nearest)))
            nearest = own;
    }
    return nearest ? kg_path_folder(nearest) : NULL;
}

/* Without any link, which a plugin may have put there. */
static int open_folder(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int move_away(const char *path, const char *home, char **ret_to, struct kg_err *err)
{
    kg_auto(kg_free) char *above = kg_path_folder(path);
    kg_auto(kg_free) char *folder = kg_format("%s/%s/quarantine", home, PROJECT_DIR);
    struct kg_id id = kg_id_new("");
    kg_auto(kg_free) char *name = kg_format("%s-%s", id.text, kg_path_name(path));
    int result = host_make_ahead(folder, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int from = open_folder(above), to = open_folder(folder);
    if (from < 0 || to < 0 || renameat(from, kg_path_name(path), to, name) < 0)
        return kg_fail_errno(err, errno, "move %s to %s", path, folder);
    *ret_to = kg_path_join(folder, name);
    return 0;
}

static void keep_word(struct host_process *process, char *text)
{
    char ***list = &process->quarantined;
    if (*list == NULL)
        *list = kg_list_new(0);
    size_t count = kg_list_count(*list);
    if (count == TOLD_MAX) {
        free((*list)[0]);
        memmove(*list, *list + 1, count * sizeof(**list));
    }
    kg_list_add(list, text);
}

static void guarded_on_disabled(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "%s", err_or_null->message);
}

/* What is moved away stays on the disk until somebody looks at it: there is an end to that. */
static void count_quarantined(struct host_process *process)
{
    struct host *host = process->plugin->host;
    if (++process->quarantine_count != QUARANTINE_MAX || host->stopping)
        return;
    kg_log_about(KG_ERROR_LEVEL, process->name,
                 "is disabled: guarded files appeared %d times where it may write; look at the "
                 "quarantine, then: kaged plugin enable %s",
                 QUARANTINE_MAX, process->name);
    process->quarantine_count = 0;
    host_disable(host, kg_str(process->name), NULL, guarded_on_disabled, NULL);
}

static void quarantine(struct host_guarded *guarded, const char *path, const char *home)
{
    struct host_process *process = guarded->process;
    kg_auto(kg_free) char *to = NULL;
    struct kg_err err = {0};
    int result = move_away(path, home, &to, &err);
    if (result < 0 && !guarded_see(path).there)
        return; /* it is gone again */
    if (result < 0)
        kg_log_about(KG_WARN, process->name, "%s appeared, and is guarded: %s", path, err.message);
    else
        kg_log_about(KG_WARN, process->name, "%s appeared, and is guarded: it was moved to %s",
                     path, to);
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_QUARANTINED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(path), AUDIT_V_TEXT(to),
               AUDIT_V_TEXT(result < 0 ? err.message : NULL));
    keep_word(process, result < 0 ? kg_strdup(err.message) : kg_steal(&to));
    count_quarantined(process);
}

/* -- looking ----------------------------------------------------------------------------------- */

/*
 * Follows the names from a folder on. Gives what is at the path's end, or on the way there and not
 * a folder; NULL: nothing is. The folder that the next one is missed in goes to ret_last. Owned.
 */
static char *guarded_follow(const char *home, const char *path, char **ret_last, char **ret_missed)
{
    kg_auto(kg_free) char *at = kg_strdup(home);
    for (const char *rest = path + strlen(home) + 1;; rest += strcspn(rest, "/") + 1) {
        struct stat there;
        size_t length = strcspn(rest, "/");
        kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){rest, length});
        char *next = kg_path_join(at, name);
        bool missing = lstat(next, &there) < 0, last = rest[length] == '\0';
        if (missing || last || !S_ISDIR(there.st_mode)) {
            *ret_last = kg_steal(&at);
            *ret_missed = kg_steal(&name);
            if (missing)
                free(next);
            return missing ? NULL : next;
        }
        free(at);
        at = next;
    }
}

/* False: its cover is gone. */
static bool guarded_look_at(struct host_guarded *guarded, const struct item *item)
{
    kg_auto(kg_free) char *home = home_of(guarded, item->path);
    kg_auto(kg_free) char *last = NULL, *missed = NULL;
    if (home == NULL)
        return true; /* nobody in the cage could write there */
    kg_auto(kg_free) char *found = guarded_follow(home, item->path, &last, &missed);
    const struct seen now = guarded_see(item->path);
    bool same = item->seen.there && guarded_is_same(item, &now);
    if (found != NULL && !same && (!item->seen.there || item->is_link))
        quarantine(guarded, found, home);
    host_watch_add(guarded->watch, last, missed);
    return !item->seen.there || item->is_link || same;
}

/* Gives one whose cover is gone, or NULL. */
static const struct item *guarded_look(struct host_guarded *guarded)
{
    struct kg_err err = {0};
    const struct item *uncovered = NULL;
    host_watch_renew(guarded->watch);
    for (size_t i = 0; i < guarded->covers.count; i++)
        if (!guarded_look_at(guarded, &guarded->items[i]))
            uncovered = &guarded->items[i];
    if (host_watch_begin(guarded->watch, &err) > 0)
        kg_log_about(KG_WARN, guarded->process->name,
                     "guarded files can be checked only when it ends: %s", err.message);
    return uncovered;
}

static void guarded_on_quiet(void *data)
{
    struct host_guarded *guarded = data;
    struct host_process *process = guarded->process;
    const struct item *uncovered = guarded_look(guarded);
    if (uncovered == NULL || !host_process_runs(process))
        return;
    kg_log_about(KG_INFO, process->name, "is restarted: %s was replaced, and is guarded",
                 uncovered->path);
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_COVERED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(uncovered->path));
    host_process_restart(process);
}

/* -- from a start to its end ------------------------------------------------------------------- */

struct host_guarded *host_guarded_new(struct host_process *process, struct host_covers *covers)
{
    static const struct host_watch_ops ops = {.on_quiet = guarded_on_quiet};
    if (covers->count == 0)
        return NULL;
    struct host_guarded *guarded = kg_alloc(sizeof(*guarded));
    guarded->process = process;
    guarded->covers = *covers;
    *covers = (struct host_covers){0};
    guarded->items = kg_alloc_array(guarded->covers.count, sizeof(*guarded->items));
    for (size_t i = 0; i < guarded->covers.count; i++) {
        const struct host_cover *cover = &guarded->covers.items[i];
        guarded->items[i] = (struct item){cover->path, cover->link, guarded_see(cover->path)};
    }
    guarded->watch = host_watch_new(process->plugin->host->loop, &ops, guarded);
    (void)guarded_look(guarded);
    return guarded;
}

void host_guarded_end(struct host_guarded *guarded)
{
    if (guarded == NULL)
        return;
    (void)guarded_look(guarded);
    host_watch_free(guarded->watch);
    host_covers_free(&guarded->covers);
    free(guarded->items);
    free(guarded);
}
