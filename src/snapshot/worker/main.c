/*
 * kaged-snapshot, the process in the cage: it sees one folder, whose files it keeps or puts back,
 * and a store of its own. Nobody believes more of what it says than that.
 *
 * usage: kaged-snapshot take|compare|restore|drop FOLDER STORE NAME=VALUE...
 */
#include "snapshot/worker/internal.h"

#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OPEN_FILES 256
#define FILE_BYTES ((int64_t)1 << 33) /* of a pack, or an index, of git's */

static const struct kg_option numbers[] = {
    KG_OPTION(struct snapshot_options, files_max, 1, INT64_C(1) << 32, 20000),
    KG_OPTION(struct snapshot_options, bytes_max, 1, INT64_C(1) << 40, 256 << 20),
    KG_OPTION(struct snapshot_options, file_bytes_max, 1, INT64_C(1) << 32, 16 << 20),
    {NULL},
};

static int parse_word(const char *word, struct snapshot_options *options, struct kg_err *err)
{
    struct kg_str name;
    const char *value;
    int result = kg_option_split(word, &name, &value, err);
    if (result < 0)
        return result;
    if (kg_str_is(name, "way"))
        options->way = value;
    else if (kg_str_is(name, "tree"))
        options->tree = value;
    else if (kg_str_is(name, "ref"))
        options->ref = value;
    else if (kg_str_is(name, "drop"))
        kg_list_add(&options->drop, kg_strdup(value));
    else
        return kg_option_set(numbers, name, value, options, err);
    return 0;
}

static int snapshot_parse(int count, char **words, struct snapshot_options *options,
                          struct kg_err *err)
{
    int result = 0;
    kg_options_preset(numbers, options);
    options->drop = kg_list_new(0);
    if (count < 4)
        return kg_fail(err, KG_E_USAGE, "an action, a folder and a store must be named");
    options->act = words[1];
    options->folder = words[2];
    options->store = words[3];
    for (int i = 4; i < count && result == 0; i++)
        result = parse_word(words[i], options, err);
    return result;
}

static void put_told(struct kg_json_writer *json, const char *key, const char *count_key,
                     const struct snapshot_told *told)
{
    kg_json_named_begin(json, key, '[');
    kg_buf_str(json->buf, kg_buf_view(&told->json));
    kg_json_end(json, ']');
    kg_json_named_int(json, count_key, (int64_t)told->count);
}

static void snapshot_print(const struct snapshot *snapshot, const char *tree, size_t files)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "way", snapshot->is_own ? "git" : "copy");
    kg_json_named_text(&json, "tree", tree);
    kg_json_named_int(&json, "files", (int64_t)files);
    kg_json_named_int(&json, "bytes", snapshot->bytes);
    put_told(&json, "left_out", "left_out_count", &snapshot->left_out);
    put_told(&json, "changes", "change_count", &snapshot->changes);
    kg_json_end(&json, '}');
    kg_buf_char(&out, '\n');
    (void)kg_write_all(STDOUT_FILENO, out.data, out.length);
}

/* The tree of now, which a restore could be undone with; then what was asked for. */
static int snapshot_work(struct snapshot *snapshot, struct kg_err *err)
{
    const struct snapshot_options *options = snapshot->options;
    kg_auto(snapshot_list_clear) struct snapshot_list now = {0}, then = {0};
    char tree[SNAPSHOT_ID_MAX];
    git_drop_refs(snapshot, options->drop);
    if (strcmp(options->act, "drop") == 0)
        return 0;
    int result = snapshot_list_files(snapshot, &now, err);
    if (result == 0)
        result = git_keep(snapshot, &now, err);
    if (result == 0)
        result = git_write_tree(snapshot, &now, tree, err);
    if (result == 0 && options->ref != NULL)
        result = git_set_ref(snapshot, options->ref, tree, err);
    if (result == 0 && options->tree != NULL)
        result = git_read_tree(snapshot, options->tree, &then, err);
    if (result == 0 && options->tree != NULL)
        result = snapshot_change(snapshot, &now, &then, strcmp(options->act, "restore") == 0, err);
    if (result == 0)
        snapshot_print(snapshot, tree, now.count);
    return result;
}

static int snapshot_main_run(const struct snapshot_options *options, struct kg_err *err)
{
    struct snapshot snapshot = {.options = options};
    snapshot.folder = open(options->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (snapshot.folder < 0)
        return kg_fail_errno(err, errno, "open %s", options->folder);
    int result = git_open(&snapshot, err);
    if (result == 0)
        result = snapshot_work(&snapshot, err);
    git_close(&snapshot);
    kg_buf_free(&snapshot.left_out.json);
    kg_buf_free(&snapshot.changes.json);
    close(snapshot.folder);
    return result;
}

int main(int count, char **words)
{
    struct snapshot_options options = {0};
    struct kg_err err = {0};
    int result = snapshot_parse(count, words, &options, &err);
    if (result == 0) {
        kg_confine(022, FILE_BYTES, OPEN_FILES);
        result = snapshot_main_run(&options, &err);
    }
    kg_list_free(options.drop);
    if (result < 0)
        fprintf(stderr, "%s\n", err.message);
    return result < 0 ? 1 : 0;
}
