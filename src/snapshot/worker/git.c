/*
 * git's own program, which reads a configuration that strangers wrote. So nothing is asked of it
 * that would run what that names: no hook, no filter, no monitor; contents are kept as they are.
 * The index that people work with is neither read for that nor written.
 */
#include "snapshot/worker/internal.h"

#include "store/unpack/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX  24
#define NAMES_MAX  ((size_t)64 << 20) /* bytes of what git lists */
#define LINKS      "/tmp/links"       /* what links lead to, as files */
#define INDEX_FILE "/tmp/index"

/* -- one command ------------------------------------------------------------------------------- */

static const char *const common[] = {
    "-c", "core.fsmonitor=false",          "-c", "core.hooksPath=/dev/null",
    "-c", "core.attributesFile=/dev/null", "-c", "core.bare=false",
    "-c", "core.untrackedCache=false",     "-c", "safe.directory=*",
    "-c", "core.packedRefsTimeout=10000",
};

struct command {
    const char *const *words; /* NULL-ended, without git itself */
    int in;                   /* -1: nothing */
    bool own_index;           /* works on one of its own */
};

static int snapshot_git_start(struct snapshot *snapshot, const struct command *command,
                              struct run_pipes *pipes, pid_t *ret_pid, struct kg_err *err)
{
    kg_auto(kg_free) char *git_dir = kg_format("--git-dir=%s", snapshot->git_dir);
    kg_auto(kg_free) char *work_tree = kg_format("--work-tree=%s", snapshot->options->folder);
    const char *argv[WORDS_MAX + KG_COUNT(common) + 4];
    size_t count = 0;
    argv[count++] = "git";
    argv[count++] = git_dir;
    argv[count++] = work_tree;
    for (size_t i = 0; i < KG_COUNT(common); i++)
        argv[count++] = common[i];
    for (size_t i = 0; i < WORDS_MAX && command->words[i] != NULL; i++)
        argv[count++] = command->words[i];
    argv[count] = NULL;
    const struct run_program program = {
        .words = argv,
        .environment = command->own_index ? snapshot->environment : snapshot->environment + 1,
        .folder = snapshot->options->folder,
    };
    pipes->its[STDIN_FILENO] =
        command->in >= 0 ? command->in : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int result = run_pipe(pipes, STDOUT_FILENO, err);
    if (result == 0)
        result = run_start(&program, pipes, ret_pid, err);
    kg_close(&pipes->its[STDIN_FILENO]);
    kg_close(&pipes->its[STDOUT_FILENO]);
    return result;
}

static int snapshot_git_fail(const struct command *command, struct kg_err *err)
{
    return kg_fail(err, KG_E_IO, "git %s failed", command->words[0]);
}

static int snapshot_git_read_all(int fd, size_t max, struct kg_buf *out, struct kg_err *err)
{
    char bytes[16384];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof(bytes))) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read what git says");
        if (out->length + (size_t)got > max)
            return kg_fail(err, KG_E_TOO_LARGE, "git lists more than %zu bytes", max);
        kg_buf_append(out, bytes, (size_t)got);
    }
    return 0;
}

/* Takes over command->in. What it says on stdout is kept, up to a bound. */
static int snapshot_git_run(struct snapshot *snapshot, const struct command *command, size_t max,
                            struct kg_buf *ret_out, struct kg_err *err)
{
    kg_auto(run_pipes_free) struct run_pipes pipes = run_pipes_none;
    pid_t pid;
    int result = snapshot_git_start(snapshot, command, &pipes, &pid, err);
    if (result < 0)
        return result;
    int read = snapshot_git_read_all(pipes.ours[STDOUT_FILENO], max, ret_out, err);
    kg_close(&pipes.ours[STDOUT_FILENO]);
    if (!run_left_well(pid, NULL))
        return read < 0 ? read : snapshot_git_fail(command, err);
    return read;
}

static int run_simple(struct snapshot *snapshot, const char *const *words, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    return snapshot_git_run(snapshot, &(struct command){.words = words, .in = -1}, 65536, &out,
                            err);
}

/* What a command reads: written before it is started, so that neither waits for the other. */
static int input_of(const struct kg_buf *text, struct kg_err *err)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || kg_write_all(fd, text->data, text->length) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        kg_fail_errno(err, errno, "write what git is told");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* -- the repository ---------------------------------------------------------------------------- */

/* The first is left out where the repository's own index is meant. */
static char **snapshot_git_make_environment(void)
{
    static const char *const fixed[] = {
        "GIT_INDEX_FILE=" INDEX_FILE,
        "PATH=/usr/bin:/usr/local/bin",
        "LC_ALL=C",
        "HOME=/tmp",
        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_CONFIG_GLOBAL=/dev/null",
        "GIT_ATTR_NOSYSTEM=1",
        "GIT_OPTIONAL_LOCKS=0",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_NO_REPLACE_OBJECTS=1",
        "GIT_ALLOW_PROTOCOL=none",
    };
    char **list = kg_list_new(KG_COUNT(fixed));
    for (size_t i = 0; i < KG_COUNT(fixed); i++)
        kg_list_add(&list, kg_strdup(fixed[i]));
    return list;
}

static bool has_repository(const struct snapshot *snapshot)
{
    struct stat there;
    return fstatat(snapshot->folder, ".git", &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(there.st_mode) && faccessat(snapshot->folder, ".git/HEAD", F_OK, 0) == 0;
}

static int make_repository(struct snapshot *snapshot, struct kg_err *err)
{
    kg_auto(kg_free) char *head = kg_path_join(snapshot->git_dir, "HEAD");
    const char *const words[] = {"init", "-q", "--template=", NULL};
    if (access(head, F_OK) == 0)
        return 0;
    int result = kg_make_dirs(snapshot->git_dir, 0700, err);
    return result < 0 ? result : run_simple(snapshot, words, err);
}

int git_open(struct snapshot *snapshot, struct kg_err *err)
{
    const struct snapshot_options *options = snapshot->options;
    bool is_own = has_repository(snapshot);
    snapshot->environment = snapshot_git_make_environment();
    snapshot->is_own = options->way != NULL ? strcmp(options->way, "git") == 0 : is_own;
    if (snapshot->is_own && !is_own)
        return kg_fail(err, KG_E_CONFLICT, "%s no longer has a git repository", options->folder);
    if (mkdir(LINKS, 0700) < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "make %s", LINKS);
    snapshot->git_dir = snapshot->is_own ? kg_path_join(options->folder, ".git")
                                         : kg_path_join(options->store, "repository");
    return snapshot->is_own ? 0 : make_repository(snapshot, err);
}

void git_close(struct snapshot *snapshot)
{
    kg_list_free(snapshot->environment);
    free(snapshot->git_dir);
}

int git_names(struct snapshot *snapshot, struct kg_buf *ret_names, struct kg_err *err)
{
    const char *const words[] = {"ls-files",           "-z", "--cached", "--others",
                                 "--exclude-standard", NULL};
    const struct command command = {.words = words, .in = -1, .own_index = !snapshot->is_own};
    return snapshot_git_run(snapshot, &command, NAMES_MAX, ret_names, err);
}

/* -- contents go in ---------------------------------------------------------------------------- */

/* As git reads a path in a list of lines. */
static void snapshot_git_put_path(struct kg_buf *out, const char *path)
{
    if (path[0] != '"' && strchr(path, '\n') == NULL) {
        kg_buf_text(out, path);
        kg_buf_char(out, '\n');
        return;
    }
    kg_buf_char(out, '"');
    for (; *path != '\0'; path++) {
        if (*path == '"' || *path == '\\' || *path == '\n')
            kg_buf_printf(out, "\\%03o", (unsigned char)*path);
        else
            kg_buf_char(out, *path);
    }
    kg_buf_text(out, "\"\n");
}

/* What a link leads to, in a file of its own. */
static int snapshot_git_put_link(const struct snapshot *snapshot, const char *path, size_t number,
                                 struct kg_buf *out, struct kg_err *err)
{
    char leads_to[4096];
    const char *name;
    kg_auto(kg_close) int parent = snapshot_open_parent(snapshot->folder, path, false, &name);
    ssize_t length = parent < 0 ? -1 : readlinkat(parent, name, leads_to, sizeof(leads_to));
    if (length < 0 || length == sizeof(leads_to))
        return kg_fail(err, KG_E_CONFLICT, "%s was changed meanwhile; try again", path);
    kg_auto(kg_free) char *file = kg_format(LINKS "/%zu", number);
    kg_auto(kg_close) int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || kg_write_all(fd, leads_to, (size_t)length) < 0)
        return kg_fail_errno(err, errno, "write %s", file);
    snapshot_git_put_path(out, file);
    return 0;
}

/* One id for each line that it was told. */
static int take_ids(struct kg_buf *said, struct snapshot_list *list, struct kg_err *err)
{
    char *rest = NULL, *line = strtok_r(kg_buf_terminate(said), "\n", &rest);
    for (size_t i = 0; i < list->count; i++) {
        if (line == NULL || strlen(line) >= SNAPSHOT_ID_MAX)
            return kg_fail(err, KG_E_IO, "git hash-object said too little");
        kg_str_copy(kg_str(line), list->items[i].id, SNAPSHOT_ID_MAX);
        line = strtok_r(NULL, "\n", &rest);
    }
    return 0;
}

int git_keep(struct snapshot *snapshot, struct snapshot_list *list, struct kg_err *err)
{
    const char *const words[] = {"hash-object", "-w", "--no-filters", "--stdin-paths", NULL};
    kg_auto(kg_buf_free) struct kg_buf paths = {0}, said = {0};
    int result = 0;
    for (size_t i = 0; i < list->count && result == 0; i++) {
        if (list->items[i].mode == 0120000)
            result = snapshot_git_put_link(snapshot, list->items[i].path, i, &paths, err);
        else
            snapshot_git_put_path(&paths, list->items[i].path);
    }
    int in = result == 0 ? input_of(&paths, err) : -1;
    if (in < 0)
        return result < 0 ? result : -EIO;
    const struct command command = {.words = words, .in = in};
    result = snapshot_git_run(snapshot, &command, NAMES_MAX, &said, err);
    return result < 0 ? result : take_ids(&said, list, err);
}

static int run_for_id(struct snapshot *snapshot, const struct command *command,
                      char ret_id[SNAPSHOT_ID_MAX], struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    int result = snapshot_git_run(snapshot, command, 4096, &said, err);
    if (result < 0)
        return result;
    struct kg_str id = kg_str(kg_buf_terminate(&said));
    while (id.length > 0 && id.data[id.length - 1] == '\n')
        id.length--;
    if (id.length == 0 || id.length >= SNAPSHOT_ID_MAX)
        return snapshot_git_fail(command, err);
    kg_str_copy(id, ret_id, SNAPSHOT_ID_MAX);
    return 0;
}

int git_write_tree(struct snapshot *snapshot, const struct snapshot_list *list,
                   char ret_tree[SNAPSHOT_ID_MAX], struct kg_err *err)
{
    const char *const fill[] = {"update-index", "-z", "--index-info", NULL};
    const char *const write[] = {"write-tree", NULL};
    kg_auto(kg_buf_free) struct kg_buf lines = {0}, said = {0};
    for (size_t i = 0; i < list->count; i++) {
        kg_buf_printf(&lines, "%06o %s\t%s", list->items[i].mode, list->items[i].id,
                      list->items[i].path);
        kg_buf_char(&lines, '\0');
    }
    (void)unlink(INDEX_FILE);
    int in = input_of(&lines, err);
    if (in < 0)
        return -EIO;
    const struct command filling = {.words = fill, .in = in, .own_index = true};
    int result = snapshot_git_run(snapshot, &filling, 4096, &said, err);
    const struct command writing = {.words = write, .in = -1, .own_index = true};
    return result < 0 ? result : run_for_id(snapshot, &writing, ret_tree, err);
}

int git_set_ref(struct snapshot *snapshot, const char *ref, const char *tree, struct kg_err *err)
{
    const char *const words[] = {"update-ref", ref, tree, NULL};
    return run_simple(snapshot, words, err);
}

/* One that is gone already does no harm. */
void git_drop_refs(struct snapshot *snapshot, char *const *refs)
{
    struct kg_err err;
    for (; *refs != NULL; refs++) {
        const char *const words[] = {"update-ref", "-d", *refs, NULL};
        (void)run_simple(snapshot, words, &err);
    }
}

/* -- contents come out ------------------------------------------------------------------------- */

/* "MODE blob ID\tPATH" */
static int snapshot_git_take_row(struct snapshot_list *list, char *row, struct kg_err *err)
{
    unsigned mode = 0;
    char id[SNAPSHOT_ID_MAX] = "", type[8] = "";
    char *tab = strchr(row, '\t');
    if (tab == NULL || sscanf(row, "%o %7s %64s", &mode, type, id) != 3 ||
        strcmp(type, "blob") != 0)
        return kg_fail(err, KG_E_IO, "the tree has entries that no snapshot has");
    struct snapshot_file *file = snapshot_list_add(list, kg_str(tab + 1), mode);
    kg_str_copy(kg_str(id), file->id, SNAPSHOT_ID_MAX);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct snapshot_file *)a)->path, ((const struct snapshot_file *)b)->path);
}

int git_read_tree(struct snapshot *snapshot, const char *tree, struct snapshot_list *ret_list,
                  struct kg_err *err)
{
    const char *const words[] = {"ls-tree", "-r", "-z", "--full-tree", tree, NULL};
    kg_auto(kg_buf_free) struct kg_buf rows = {0};
    const struct command command = {.words = words, .in = -1};
    int result = snapshot_git_run(snapshot, &command, NAMES_MAX, &rows, err);
    kg_buf_terminate(&rows);
    for (size_t at = 0; at < rows.length && result == 0;) {
        size_t length = strlen(rows.data + at);
        result = snapshot_git_take_row(ret_list, rows.data + at, err);
        at += length + 1;
    }
    if (result == 0 && ret_list->count > 0)
        qsort(ret_list->items, ret_list->count, sizeof(ret_list->items[0]), by_path);
    return result;
}

/* "ID blob SIZE", a newline, the content, a newline. */
static int read_content(FILE *from, size_t max, struct kg_buf *ret_content, struct kg_err *err)
{
    char line[128], type[8];
    unsigned long long size;
    ret_content->length = 0;
    if (fgets(line, sizeof(line), from) == NULL || sscanf(line, "%*s %7s %llu", type, &size) != 2 ||
        strcmp(type, "blob") != 0 || size > max)
        return kg_fail(err, KG_E_IO, "a file of the snapshot no longer exists");
    kg_buf_reserve(ret_content, size + 1);
    if (fread(ret_content->data, 1, size + 1, from) != size + 1)
        return kg_fail(err, KG_E_IO, "git cat-file ended too soon");
    ret_content->length = size;
    return 0;
}

int git_contents(struct snapshot *snapshot, const struct snapshot_file *const *files, size_t count,
                 git_content_fn *take, void *data, struct kg_err *err)
{
    const char *const words[] = {"cat-file", "--batch", NULL};
    kg_auto(run_pipes_free) struct run_pipes pipes = run_pipes_none;
    kg_auto(kg_buf_free) struct kg_buf ids = {0}, content = {0};
    pid_t pid;
    for (size_t i = 0; i < count; i++)
        kg_buf_printf(&ids, "%s\n", files[i]->id);
    int in = input_of(&ids, err);
    const struct command command = {.words = words, .in = in};
    int result = in < 0 ? -EIO : snapshot_git_start(snapshot, &command, &pipes, &pid, err);
    if (result < 0)
        return result;
    FILE *from = fdopen(kg_steal_fd(&pipes.ours[STDOUT_FILENO]), "r");
    for (size_t i = 0; from != NULL && i < count && result == 0; i++) {
        result = read_content(from, (size_t)snapshot->options->file_bytes_max, &content, err);
        if (result == 0)
            result = take(data, files[i], kg_buf_view(&content), err);
    }
    if (from != NULL)
        fclose(from);
    return run_left_well(pid, NULL) || result < 0 ? result : snapshot_git_fail(&command, err);
}
