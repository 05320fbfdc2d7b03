/*
 * A package of npm as a source. npm's own client installs it into a folder of ours, by the
 * operator's settings, which come on stdin; no script of any package is run, and what it leaves
 * there is judged like any other folder. The client has a home and a cache of its own, which go
 * with the cage.
 */
#include "store/unpack/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTINGS_BYTES_MAX ((size_t)64 * 1024)
#define LOCK_BYTES_MAX     ((size_t)16 << 20)
#define LOOK_PAUSE_MS      500
#define MODULES            "node_modules"
#define OTHER_HOST                                                                                 \
    "only the registries that npm is configured with can be reached; if they send packages from "  \
    "another "                                                                                     \
    "host, npm's replace-registry-host=always may help"

struct npm {
    const struct options *options;
    struct report *report;
    struct kg_err *err;
    char *home, *folder; /* owned: the client's, and where it installs */
    char **environment;  /* owned */
    uint64_t look_ms;    /* when its folders are looked at again */
    struct {
        int64_t bytes, files;
    } found;       /* in the folder that is looked at */
    bool too_many; /* files, not bytes */
};

static void npm_free(struct npm *npm)
{
    free(npm->home);
    free(npm->folder);
    kg_list_free(npm->environment);
}

/* -- a place for it ---------------------------------------------------------------------------- */

/* The operator's settings: an entry of the environment a line. */
static int read_settings(struct npm *npm)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    char bytes[4096], *rest = NULL;
    ssize_t got;
    while ((got = read(STDIN_FILENO, bytes, sizeof(bytes))) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || text.length + (size_t)got > SETTINGS_BYTES_MAX)
            return kg_fail(npm->err, KG_E_IO, "npm's settings cannot be read");
        kg_buf_append(&text, bytes, (size_t)got);
    }
    for (char *line = strtok_r(kg_buf_terminate(&text), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        kg_list_add(&npm->environment, kg_strdup(line));
    return 0;
}

static int store_unpack_npm_make_place(struct npm *npm)
{
    npm->home = kg_format("%s/npm-home", npm->options->folder);
    npm->folder = kg_format("%s/npm", npm->options->folder);
    npm->environment = kg_list_new(0);
    kg_list_add(&npm->environment, kg_strdup("PATH=/usr/bin:/usr/local/bin"));
    kg_list_add(&npm->environment, kg_strdup("LC_ALL=C.UTF-8"));
    kg_list_add(&npm->environment, kg_format("HOME=%s", npm->home));
    if (mkdir(npm->home, 0700) < 0 || mkdir(npm->folder, 0755) < 0)
        return kg_fail_errno(npm->err, errno, "make folders in %s", npm->options->folder);
    return read_settings(npm);
}

/* In the folder that npm works in. */
static int store_unpack_npm_write_file(struct npm *npm, const char *name, struct kg_str text)
{
    kg_auto(kg_free) char *file = kg_format("%s/%s", npm->folder, name);
    kg_auto(kg_close) int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int result = fd < 0 ? -errno : kg_write_all(fd, text.data, text.length);
    return result < 0 ? kg_fail_errno(npm->err, -result, "write %s", file) : 0;
}

/* -- how much there is ------------------------------------------------------------------------- */

/* Goes no further than the bounds. What goes away meanwhile is not there. */
static bool store_unpack_npm_count(struct npm *npm, int parent, const char *name, int64_t bytes_max)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *item;
    struct stat status;
    bool fits = true;
    if (dir == NULL)
        return true;
    while (fits && (item = readdir(dir)) != NULL) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
            fstatat(fd, item->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        npm->found.files++;
        npm->found.bytes += S_ISREG(status.st_mode) ? status.st_size : 0;
        npm->too_many = npm->found.files > npm->options->files_max;
        fits = !npm->too_many && npm->found.bytes <= bytes_max;
        if (fits && S_ISDIR(status.st_mode))
            fits = store_unpack_npm_count(npm, fd, item->d_name, bytes_max);
    }
    closedir(dir);
    return fits;
}

/* A look takes as long as there are files: the next one waits for ten times that. */
static bool store_unpack_npm_on_pause(void *data)
{
    struct npm *npm = data;
    const struct options *options = npm->options;
    uint64_t now_ms = kg_monotonic_ms();
    if (now_ms < npm->look_ms)
        return true;
    npm->found.bytes = npm->found.files = 0;
    bool fits = store_unpack_npm_count(npm, AT_FDCWD, npm->home, options->source_bytes);
    npm->found.bytes = npm->found.files = 0;
    fits = fits && store_unpack_npm_count(npm, AT_FDCWD, npm->folder, options->bytes_max);
    npm->report->bytes = (uint64_t)npm->found.bytes;
    npm->report->files = (uint64_t)npm->found.files;
    report_progress(npm->report);
    uint64_t took_ms = kg_monotonic_ms() - now_ms;
    npm->look_ms = now_ms + LOOK_PAUSE_MS + 10 * took_ms;
    return fits;
}

/* -- what it says when it fails ---------------------------------------------------------------- */

/* By npm's own codes. */
static const struct failure {
    const char *said;
    enum kg_code code;
    const char *words, *hint;
} failures[] = {
    {"E404", KG_E_NOT_FOUND, "the registry does not have it, or something that it needs",
     "look at the name; npm view says what the registry knows"},
    {"ETARGET", KG_E_NOT_FOUND, "the registry has no version that fits, of it or what it needs",
     "npm view PACKAGE versions lists them"},
    {"EINTEGRITY", KG_E_INVALID_SOURCE,
     "what the registry sent has another hash than the registry promised", NULL},
    {"E401", KG_E_REFUSED, "the registry wants a login", "npm login, as the daemon's user"},
    {"E403", KG_E_REFUSED, "the registry refuses it", NULL},
    {"ENOTFOUND", KG_E_IO, "a host cannot be found, or is not that of a registry", OTHER_HOST},
    {"EAI_AGAIN", KG_E_IO, "a host cannot be found, or is not that of a registry", OTHER_HOST},
    {"ECONNREFUSED", KG_E_IO, "a host cannot be reached, or is not that of a registry", OTHER_HOST},
    {"ECONNRESET", KG_E_IO, "the registry cannot be reached, or ended the connection",
     "npm config get registry says where it is"},
    {"ETIMEDOUT", KG_E_IO, "the registry does not answer in time", NULL},
    {"ERR_SOCKET_TIMEOUT", KG_E_IO, "the registry does not answer in time", NULL},
    {"FETCH_ERROR", KG_E_IO, "what the registry answers is not a package", NULL},
    {"EJSONPARSE", KG_E_INVALID_SOURCE, "what the registry answers is not JSON", NULL},
    {"EFBIG", KG_E_TOO_LARGE, "a file is larger than the bound",
     "limits.install_source_bytes and limits.install_file_bytes of config.toml are the bounds"},
    {"EBADPLATFORM", KG_E_INVALID_SOURCE, "it, or what it needs, is not for this kind of machine",
     NULL},
    {"EUSAGE", KG_E_INVALID_SOURCE, "its package.json and package-lock.json do not fit together",
     "npm install writes a new package-lock.json"},
    {"ERESOLVE", KG_E_INVALID_SOURCE, "the packages that it needs contradict each other", NULL},
    {"TAR_BAD_ARCHIVE", KG_E_INVALID_SOURCE, "what the registry sent is not an archive", NULL},
};

/* What is behind "npm error " in a line; NULL: it is something else. */
static const char *error_of(const char *line)
{
    static const char *const marks[] = {"npm error ", "npm ERR! "};
    for (size_t i = 0; i < KG_COUNT(marks); i++)
        if (strncmp(line, marks[i], strlen(marks[i])) == 0)
            return line + strlen(marks[i]);
    return NULL;
}

/* Its code, and the first line behind it; "" where there is none. Both are cut out of what it said.
 */
static void find_words(struct kg_buf *said, const char **ret_code, const char **ret_line)
{
    char *rest = NULL;
    *ret_code = *ret_line = "";
    for (char *line = strtok_r(kg_buf_terminate(said), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *words = error_of(line);
        if (words != NULL && strncmp(words, "code ", 5) == 0)
            *ret_code = words + 5;
        else if (words != NULL && (*ret_line)[0] == '\0' && strncmp(words, "syscall ", 8) != 0 &&
                 strncmp(words, "errno ", 6) != 0)
            *ret_line = words;
        else if (strncmp(line, "fatal: ", 7) == 0)
            *ret_line = line + 7;
    }
}

static int fail_too_much(const struct npm *npm)
{
    const struct options *options = npm->options;
    if (npm->too_many)
        kg_fail(npm->err, KG_E_TOO_LARGE, "it has more files than the bound, which is %lld",
                (long long)options->files_max);
    else
        kg_fail(npm->err, KG_E_TOO_LARGE, "it has more bytes than the bound, which is %lld",
                (long long)options->bytes_max);
    return kg_hint(npm->err, "limits.install_%s of config.toml is the bound",
                   npm->too_many ? "files" : "bytes");
}

static int store_unpack_npm_fail(const struct npm *npm, struct run_end *end)
{
    const char *code, *line;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (end->too_much)
        return fail_too_much(npm);
    if (end->signal != 0)
        return kg_fail(npm->err, KG_E_INVALID_SOURCE, "npm was ended by signal %d (%s)",
                       end->signal, strsignal(end->signal));
    find_words(&end->said, &code, &line);
    kg_buf_escaped(&shown, kg_str(line));
    for (size_t i = 0; i < KG_COUNT(failures); i++) {
        const struct failure *row = &failures[i];
        if (strcmp(row->said, code) != 0)
            continue;
        kg_fail(npm->err, row->code, "%s (npm: %" KG_S_PATH ")", row->words,
                kg_buf_terminate(&shown));
        return row->hint != NULL ? kg_hint(npm->err, "%s", row->hint) : -EINVAL;
    }
    return kg_fail(npm->err, KG_E_INVALID_SOURCE, "npm cannot install it: %s%s%" KG_S_CAUSE, code,
                   code[0] != '\0' ? ": " : "",
                   line[0] != '\0' ? kg_buf_terminate(&shown) : "it failed without a message");
}

/* -- the whole --------------------------------------------------------------------------------- */

/* act: "install" with what is asked for, or "ci" with NULL. */
static int run_npm(struct npm *npm, const char *act, const char *asked_or_null)
{
    const struct options *options = npm->options;
    kg_auto(run_end_free) struct run_end end = {0};
    kg_auto(kg_free) char *cache = kg_format("--cache=%s/cache", npm->home);
    const char *words[] = {options->node,
                           options->npm,
                           act,
                           "--ignore-scripts",
                           "--omit=dev",
                           "--save-exact",
                           "--package-lock",
                           "--omit-lockfile-registry-resolved",
                           "--no-audit",
                           "--no-fund",
                           "--no-update-notifier",
                           "--no-progress",
                           "--engine-strict=false",
                           "--loglevel=error",
                           "--logs-max=0",
                           "--fetch-retries=1",
                           "--fetch-retry-mintimeout=1000",
                           cache,
                           "--",
                           asked_or_null,
                           NULL};
    const struct run_program program = {
        .words = words, .environment = npm->environment, .folder = npm->folder};
    report_phase(npm->report, "fetching", 0);
    int result = run_to_end(&program, NULL, &(struct run_watch){store_unpack_npm_on_pause, npm},
                            &end, npm->err);
    if (result == 0 && !end.well)
        result = store_unpack_npm_fail(npm, &end);
    return result;
}

static int install(struct npm *npm)
{
    const struct options *options = npm->options;
    kg_auto(kg_free) char *asked = options->version
                                       ? kg_format("%s@%s", options->source, options->version)
                                       : kg_strdup(options->source);
    int result = store_unpack_npm_write_file(npm, "package.json", KG_STR("{\"private\": true}\n"));
    return result < 0 ? result : run_npm(npm, "install", asked);
}

/* A package with a manifest of its own is the plugin, and what it needs lies below it. */
static int store_unpack_npm_copy(struct npm *npm, struct sink *sink)
{
    kg_auto(kg_free) char *package = kg_format(MODULES "/%s", npm->options->source);
    kg_auto(kg_free) char *place = kg_format("%s/%s", npm->folder, package);
    kg_auto(kg_free) char *modules = kg_format("%s/" MODULES, npm->folder);
    kg_auto(kg_free) char *manifest = kg_format("%s/" UNPACK_MANIFEST, place);
    report_phase(npm->report, "copying", 0);
    if (access(place, F_OK) < 0)
        return kg_fail(npm->err, KG_E_INVALID_SOURCE, "npm did not install %s",
                       npm->options->source);
    if (access(manifest, F_OK) < 0)
        return folder_copy(npm->folder, &(struct folder_copy){.below = ""}, sink, npm->err);
    int result = folder_copy(place, &(struct folder_copy){.below = ""}, sink, npm->err);
    return result < 0
               ? result
               : folder_copy(modules, &(struct folder_copy){.below = MODULES, .left_out = package},
                             sink, npm->err);
}

int unpack_npm(const struct options *options, struct sink *sink, struct report *report,
               struct kg_err *err)
{
    kg_auto(npm_free) struct npm npm = {.options = options, .report = report, .err = err};
    if (options->node == NULL || options->npm == NULL)
        return kg_fail(err, KG_E_USAGE, "the paths of node and npm must be given");
    int result = store_unpack_npm_make_place(&npm);
    if (result == 0)
        result = install(&npm);
    if (result == 0)
        result = store_unpack_npm_copy(&npm, sink);
    return result < 0 ? result : sink_finish(sink, SINK_MANIFEST_LATER, err);
}

/*
 * Only the two files that say what is needed are shown to npm: no setting of a stranger's counts.
 * What it leaves is looked at by whoever started us, with the rest of the tree.
 */
static int store_unpack_npm_take_over(struct npm *npm, const char *name)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *file = kg_format("%s/tree/%s", npm->options->folder, name);
    kg_auto(kg_close) int fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return kg_fail(npm->err, KG_E_INVALID_SOURCE,
                       "there is no %s at its top: what it needs cannot be fetched", name);
    int result = kg_read_fd(fd, name, LOCK_BYTES_MAX, &text, npm->err);
    return result < 0 ? result : store_unpack_npm_write_file(npm, name, kg_buf_view(&text));
}

int npm_complete(const struct options *options, struct report *report, struct kg_err *err)
{
    kg_auto(npm_free) struct npm npm = {.options = options, .report = report, .err = err};
    int result = store_unpack_npm_make_place(&npm);
    if (result == 0)
        result = store_unpack_npm_take_over(&npm, "package.json");
    if (result == 0)
        result = store_unpack_npm_take_over(&npm, "package-lock.json");
    if (result == 0)
        result = run_npm(&npm, "ci", NULL);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *from = kg_format("%s/" MODULES, npm.folder);
    kg_auto(kg_free) char *to = kg_format("%s/tree/" MODULES, options->folder);
    if (rename(from, to) < 0 && errno != ENOENT)
        return kg_fail_errno(err, errno, "put " MODULES " into the tree");
    return 0;
}
