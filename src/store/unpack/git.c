/*
 * A repository as a source: one commit is fetched, and its files are asked for one by one. Nothing
 * is checked out by git, so no attribute, filter, hook or submodule of a stranger gets a say; and
 * what git hands over is judged like an archive. git itself runs with a configuration of ours
 * alone.
 */
#include "store/unpack/git.h"
#include "base/semver.h"
#include "store/tree_rules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FETCHED        "refs/kaged/fetched"
#define TAGS           "refs/tags/"
#define REFS_BYTES_MAX ((size_t)4 << 20)           /* of ls-remote: some have many tags */
#define RECORD_MAX     (TREE_PATH_BYTES_MAX + 256) /* of ls-tree */
#define HEADER_MAX     256                         /* of cat-file */
#define OBJECT_MAX     64                          /* hex digits */
#define READ_BYTES     ((size_t)64 * 1024)

/* What git is told to do and not to do; its folder is its home, too. */
static const char config[] = "[safe]\n"
                             "directory = *\n" /* in the cage everything is somebody else's */
                             "[core]\n"
                             "hooksPath = /dev/null\n"
                             "fsmonitor = false\n"
                             "bigFileThreshold = 16m\n"
                             "[transfer]\n"
                             "fsckObjects = true\n"
                             "unpackLimit = 1\n" /* one pack, whose size is bounded */
                             "[pack]\n"
                             "threads = 1\n"
                             "[gc]\n"
                             "auto = 0\n"
                             "[credential]\n"
                             "helper =\n"
                             "[http]\n"
                             "followRedirects = initial\n" /* the cage knows no other host */
                             "lowSpeedLimit = 1\n"
                             "lowSpeedTime = 60\n";

struct git {
    const struct options *options;
    struct sink *sink;
    struct report *report;
    struct kg_err *err;
    struct git_place place;
    const char *remote; /* what git fetches from */
};

/* -- a place for it ---------------------------------------------------------------------------- */

static int write_config(const char *path, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int result = fd < 0 ? -errno : kg_write_all(fd, config, sizeof(config) - 1);
    return result < 0 ? kg_fail_errno(err, -result, "write %s", path) : 0;
}

static int store_unpack_git_make_place(struct git *git)
{
    const char *folder = git->options->folder;
    struct git_place *place = &git->place;
    bool local = strncmp(git->remote, "https://", 8) != 0;
    place->home = kg_format("%s/git-home", folder);
    place->repository = kg_format("%s/git", folder);
    if (mkdir(place->home, 0700) < 0)
        return kg_fail_errno(git->err, errno, "make folder %s", place->home);
    kg_auto(kg_free) char *file = kg_format("%s/config", place->home);
    place->environment = git_environment(place->home, file, local ? "file" : "https");
    int result = write_config(file, git->err);
    return result < 0 ? result
                      : git_run(&git->place,
                                (const char *[]){"init", "--quiet", "--bare",
                                                 "--template=", place->repository, NULL},
                                NULL, NULL, git->err);
}

static void git_free(struct git *git)
{
    free(git->place.home);
    free(git->place.repository);
    kg_list_free(git->place.environment);
}

/* -- fetching ---------------------------------------------------------------------------------- */

/* Bytes that have come so far. */
static uint64_t pack_bytes(const struct git *git)
{
    kg_auto(kg_free) char *path = kg_format("%s/objects/pack", git->place.repository);
    DIR *dir = opendir(path);
    const struct dirent *item;
    struct stat status;
    uint64_t bytes = 0;
    while (dir != NULL && (item = readdir(dir)) != NULL)
        if (fstatat(dirfd(dir), item->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_size;
    if (dir != NULL)
        closedir(dir);
    return bytes;
}

static bool store_unpack_git_on_pause(void *data)
{
    struct git *git = data;
    git->report->bytes = pack_bytes(git);
    report_progress(git->report);
    return git->report->bytes <= (uint64_t)git->options->source_bytes;
}

/* The ref of the next line of ls-remote; false: there is none. */
static bool next_ref(struct kg_str *lines, struct kg_str *ret_ref)
{
    while (lines->length > 0) {
        const char *end = memchr(lines->data, '\n', lines->length);
        size_t length = end ? (size_t)(end - lines->data) : lines->length;
        const char *tab = memchr(lines->data, '\t', length);
        if (tab != NULL)
            *ret_ref = (struct kg_str){tab + 1, length - (size_t)(tab + 1 - lines->data)};
        length += end != NULL;
        lines->data += length;
        lines->length -= length;
        if (tab != NULL)
            return true;
    }
    return false;
}

static bool has_ref(struct kg_str lines, const char *ref)
{
    struct kg_str found;
    while (next_ref(&lines, &found))
        if (kg_str_is(found, ref))
            return true;
    return false;
}

static int choose_exact(struct git *git, struct kg_str lines, char **ret_ref)
{
    const char *version = git->options->version;
    kg_auto(kg_free) char *with_v = kg_format(TAGS "v%s", version);
    kg_auto(kg_free) char *without = kg_format(TAGS "%s", version);
    if (has_ref(lines, with_v))
        *ret_ref = kg_steal(&with_v);
    else if (has_ref(lines, without))
        *ret_ref = kg_steal(&without);
    else
        return kg_fail(git->err, KG_E_NOT_FOUND, "the repository has neither a tag v%s nor %s",
                       version, version);
    return 0;
}

/* The newest of the tags that are versions in the range. */
static int choose_newest(struct git *git, const struct kg_semver_range *range, struct kg_str lines,
                         char **ret_ref)
{
    struct kg_semver version, best = {0};
    struct kg_str ref, chosen = KG_STR_NULL;
    while (next_ref(&lines, &ref)) {
        if (!kg_str_starts(ref, TAGS))
            continue;
        struct kg_str tag = kg_str_from(ref, strlen(TAGS));
        if (kg_str_starts(tag, "v"))
            tag = kg_str_from(tag, 1);
        if (!kg_semver_parse(tag, &version) || !kg_semver_range_has(range, &version) ||
            (chosen.length > 0 && kg_semver_compare(&version, &best) <= 0))
            continue;
        best = version;
        chosen = ref;
    }
    if (chosen.length == 0)
        return kg_fail(git->err, KG_E_NOT_FOUND, "the repository has no tag of a version in %s",
                       git->options->version);
    *ret_ref = kg_str_dup(chosen);
    return 0;
}

/* A version by itself means its own tag, whatever else is like it. */
static struct kg_semver_range *range_of(const char *version)
{
    struct kg_semver exact;
    const char *plain = version + (version[0] == 'v');
    return kg_semver_parse(kg_str(plain), &exact) ? NULL
                                                  : kg_semver_range_parse(kg_str(version), NULL);
}

/* *ret_ref: the tag of the version that was asked for, or the default branch. Owned. */
static int choose_ref(struct git *git, char **ret_ref)
{
    const char *version = git->options->version;
    if (version == NULL) {
        *ret_ref = kg_strdup("HEAD");
        return 0;
    }
    struct kg_semver_range *range = range_of(version);
    const char *wanted = range ? "*" : version;
    kg_auto(kg_free) char *with_v = kg_format(TAGS "v%s", wanted);
    kg_auto(kg_free) char *without = kg_format(TAGS "%s", wanted);
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    int result = git_run(
        &git->place,
        (const char *[]){"ls-remote", "--quiet", "--refs", git->remote, with_v, without, NULL},
        &(struct run_output){&lines, REFS_BYTES_MAX}, NULL, git->err);
    if (result == 0)
        result = range ? choose_newest(git, range, kg_buf_view(&lines), ret_ref)
                       : choose_exact(git, kg_buf_view(&lines), ret_ref);
    kg_semver_range_free(range);
    return result;
}

static int store_unpack_git_fetch(struct git *git)
{
    kg_auto(kg_free) char *ref = NULL;
    report_phase(git->report, "fetching", 0);
    int result = choose_ref(git, &ref);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *refspec = kg_format("+%s:%s", ref, FETCHED);
    return git_run(&git->place,
                   (const char *[]){"fetch", "--quiet", "--depth=1", "--no-tags",
                                    "--no-recurse-submodules", "--no-auto-maintenance",
                                    "--no-write-fetch-head", git->remote, refspec, NULL},
                   NULL, &(struct run_watch){store_unpack_git_on_pause, git}, git->err);
}

/* -- the files --------------------------------------------------------------------------------- */

/* One record of ls-tree; texts are borrowed from its line. */
struct record {
    struct kg_str mode, type, object, path;
    int64_t bytes;
};

static struct kg_str store_unpack_git_take_word(struct kg_str *line)
{
    while (line->length > 0 && line->data[0] == ' ')
        line->data++, line->length--;
    size_t length = 0;
    while (length < line->length && line->data[length] != ' ' && line->data[length] != '\t')
        length++;
    struct kg_str word = {line->data, length};
    line->data += length;
    line->length -= length;
    return word;
}

/* MODE TYPE OBJECT BYTES<tab>PATH */
static bool parse_record(struct kg_str line, struct record *ret_record)
{
    struct record record;
    record.mode = store_unpack_git_take_word(&line);
    record.type = store_unpack_git_take_word(&line);
    record.object = store_unpack_git_take_word(&line);
    struct kg_str bytes = store_unpack_git_take_word(&line);
    if (line.length < 2 || line.data[0] != '\t' || record.object.length > OBJECT_MAX)
        return false;
    record.path = (struct kg_str){line.data + 1, line.length - 1};
    if (!kg_str_to_int(bytes, &record.bytes))
        record.bytes = -1;
    *ret_record = record;
    return true;
}

/* The content of one object, block by block, into the sink or into a link. */
static int take_content(struct git *git, struct git_stream *objects, struct kg_str path,
                        int64_t bytes, struct kg_buf *link)
{
    kg_auto(kg_free) char *block = kg_alloc(READ_BYTES);
    while (bytes > 0) {
        size_t length = bytes < (int64_t)READ_BYTES ? (size_t)bytes : READ_BYTES;
        if (!git_stream_read(objects, block, length))
            return sink_refuse(KG_E_INVALID_SOURCE, path, "git did not return all of it", git->err);
        int result = 0;
        if (link != NULL)
            kg_buf_append(link, block, length);
        else
            result = sink_file_write(git->sink, block, length, git->err);
        if (result < 0)
            return result;
        bytes -= (int64_t)length;
    }
    return 0;
}

/* Asks for the object: its size must be the one that the record has. */
static int store_unpack_git_ask(struct git *git, struct git_child *objects,
                                const struct record *record)
{
    char request[OBJECT_MAX + 2], header[HEADER_MAX], expected[HEADER_MAX];
    int length = snprintf(request, sizeof(request), "%.*s\n", KG_STR_ARG(record->object));
    snprintf(expected, sizeof(expected), "%.*s blob %lld", KG_STR_ARG(record->object),
             (long long)record->bytes);
    if (kg_write_all(objects->in, request, (size_t)length) < 0 ||
        !git_stream_until(&objects->out, '\n', header, sizeof(header)) ||
        strcmp(header, expected) != 0)
        return sink_refuse(KG_E_INVALID_SOURCE, record->path, "git did not return it", git->err);
    return 0;
}

static int store_unpack_git_write_file(struct git *git, struct git_child *objects,
                                       const struct record *record)
{
    int result =
        sink_file_begin(git->sink, record->path, kg_str_is(record->mode, "100755"), git->err);
    if (result == 0)
        result = take_content(git, &objects->out, record->path, record->bytes, NULL);
    return result < 0 ? result : sink_file_end(git->sink, git->err);
}

static int store_unpack_git_write_link(struct git *git, struct git_child *objects,
                                       const struct record *record)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (record->bytes > TREE_LINK_BYTES_MAX)
        return sink_refuse(KG_E_REFUSED, record->path, "the target of the link is too long",
                           git->err);
    int result = take_content(git, &objects->out, record->path, record->bytes, &target);
    kg_buf_terminate(&target);
    return result < 0 ? result : sink_link(git->sink, record->path, kg_buf_view(&target), git->err);
}

static int store_unpack_git_write_record(struct git *git, struct git_child *objects,
                                         const struct record *record)
{
    bool is_link = kg_str_is(record->mode, "120000");
    if (kg_str_is(record->type, "commit"))
        return sink_refuse(KG_E_REFUSED, record->path, "it is a submodule, which is not fetched",
                           git->err);
    if (!kg_str_is(record->type, "blob") || record->bytes < 0)
        return sink_refuse(KG_E_INVALID_SOURCE, record->path, "it is neither a file nor a link",
                           git->err);
    if (record->bytes > git->options->file_bytes_max)
        return sink_refuse(KG_E_TOO_LARGE, record->path, "the file is larger than the bound",
                           git->err);
    char newline;
    int result = store_unpack_git_ask(git, objects, record);
    if (result == 0)
        result = is_link ? store_unpack_git_write_link(git, objects, record)
                         : store_unpack_git_write_file(git, objects, record);
    if (result == 0 && !git_stream_read(&objects->out, &newline, 1))
        result = sink_refuse(KG_E_INVALID_SOURCE, record->path, "git did not return it", git->err);
    return result;
}

static int write_records(struct git *git, struct git_child *names, struct git_child *objects)
{
    char line[RECORD_MAX];
    while (git_stream_until(&names->out, '\0', line, sizeof(line))) {
        struct record record;
        if (!parse_record(kg_str(line), &record))
            return kg_fail(git->err, KG_E_INVALID_SOURCE, "git lists something other than files");
        int result = store_unpack_git_write_record(git, objects, &record);
        if (result < 0)
            return result;
    }
    if (!git_stream_at_end(&names->out))
        return kg_fail(git->err, KG_E_REFUSED, "an entry: its name is too long");
    return git_child_end(names) ? 0 : kg_fail(git->err, KG_E_INVALID_SOURCE, "git ls-tree failed");
}

static int write_tree(struct git *git)
{
    kg_auto(git_child_free) struct git_child names = git_child_none, objects = git_child_none;
    report_phase(git->report, "unpacking", 0);
    int result = git_child_start(
        &git->place, (const char *[]){"ls-tree", "-r", "-l", "-z", "--full-tree", FETCHED, NULL},
        &names, git->err);
    if (result == 0)
        result = git_child_start(&git->place, (const char *[]){"cat-file", "--batch", NULL},
                                 &objects, git->err);
    return result < 0 ? result : write_records(git, &names, &objects);
}

int unpack_git(const struct options *options, struct sink *sink, struct report *report,
               struct kg_err *err)
{
    bool local = strncmp(options->source, "file://", 7) == 0;
    kg_auto(git_free) struct git git = {
        .options = options,
        .sink = sink,
        .report = report,
        .err = err,
        .remote = local ? options->source + 7 : options->source, /* a path is taken as it is */
    };
    int result = store_unpack_git_make_place(&git);
    if (result == 0)
        result = store_unpack_git_fetch(&git);
    if (result == 0)
        result = write_tree(&git);
    return result < 0 ? result : sink_finish(sink, SINK_MANIFEST_AT_TOP, err);
}
