/*
 * Where a project comes from, a row each: its file; a folder that has none, whose one agent gets
 * every plugin that the operator has enabled for all projects; or a text that somebody keeps in the
 * state, which has no folder at all. What a project is made of never changes while it is loaded: a
 * file written into such a folder has to be loaded.
 */
#include "projects/internal.h"
#include "store/tree.h"

#include <errno.h>
#include <stdlib.h>

#define NAME_CHARS_MAX   40 /* of the folder's name in an id */
#define DIGEST_CHARS_MAX 8  /* of what tells two folders of one name apart */

/* -- a file ------------------------------------------------------------------------------------ */

static struct project *projects_source_read_file(struct project_load *load)
{
    return project_load(&load->location, &load->problems);
}

/* A file below the root. */
static void watch_file(struct projects_entry *project, const char *file)
{
    kg_auto(kg_free) char *path = kg_path_join(project->root, file);
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    host_watch_add(project->watch, folder, kg_path_name(path));
}

/* The folders are watched that its files are in, and the root, in which .kaged may come and go. */
static void watch_files(struct projects_entry *project)
{
    watch_file(project, project->file);
    watch_file(project, PROJECT_DIR);
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const char *prompt = project_resolved_at(project->resolved, i)->prompt_file;
        if (prompt != NULL)
            watch_file(project, prompt);
    }
}

const struct project_source project_file_source = {
    .name = "file",
    .has_file = true,
    .has_root = true,
    .locate = project_locate,
    .read = projects_source_read_file,
    .watch = watch_files,
};

/* -- a folder without one ---------------------------------------------------------------------- */

/* "api-1f0c9a3e": letters, digits and dashes of its name, and of what its path hashes to. */
static void projects_source_put_id(const char *root, struct kg_buf *out)
{
    unsigned char digest[32];
    const char *name = kg_path_name(root);
    for (size_t i = 0; name[i] != '\0' && out->length < NAME_CHARS_MAX; i++) {
        char lower = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
        bool is_letter = lower >= 'a' && lower <= 'z';
        if (is_letter || (out->length > 0 && kg_is_digit(lower)))
            kg_buf_char(out, lower);
        else if (out->length > 0 && out->data[out->length - 1] != '-')
            kg_buf_char(out, '-');
    }
    if (out->length == 0)
        kg_buf_text(out, "folder");
    if (out->data[out->length - 1] != '-')
        kg_buf_char(out, '-');
    tree_digest(kg_str(root), digest);
    for (size_t i = 0; i < DIGEST_CHARS_MAX / 2; i++)
        kg_buf_printf(out, "%02x", digest[i]);
}

/* Written down as a file would be, so that it is checked and resolved as one. */
static struct project *projects_source_read_folder(struct project_load *load)
{
    kg_auto(kg_buf_free) struct kg_buf id = {0}, text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    projects_source_put_id(load->location.root, &id);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "version", 1);
    kg_json_named_str(&json, "name", kg_buf_view(&id));
    kg_json_key(&json, "primary");
    kg_json_begin(&json, '{');
    kg_json_key(&json, "plugins");
    kg_json_begin(&json, '{');
    for (char **package = load->enabled; *package != NULL; package++) {
        kg_json_key(&json, manifest_name_in(*package));
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "package", *package);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    return project_read(kg_buf_view(&text), &load->problems);
}

const struct project_source project_folder_source = {
    .name = "folder",
    .has_root = true,
    .follows_choices = true,
    .asks_for_reach = true,
    .locate = project_locate_folder,
    .read = projects_source_read_folder,
};

/* -- the state --------------------------------------------------------------------------------- */

static int locate_state(const char *path, struct project_location *ret_location, struct kg_err *err)
{
    (void)err;
    *ret_location = (struct project_location){kg_strdup(""), kg_strdup(""), kg_strdup(path)};
    return 0;
}

static struct project *read_state(struct project_load *load)
{
    return project_read(kg_str(load->text), &load->problems);
}

const struct project_source project_state_source = {
    .name = "state",
    .locate = locate_state,
    .read = read_state,
};

/* -- which it is ------------------------------------------------------------------------------- */

const struct project_source *project_source_kept(const char *file)
{
    return file[0] != '\0' ? &project_file_source : &project_folder_source;
}

int project_source_find(struct project_load *load, struct kg_err *err)
{
    if (load->source != NULL)
        return load->source->locate(load->path, &load->location, err);
    int result = project_locate_any(load->path, &load->location, err);
    if (result < 0)
        return result;
    load->source = project_source_kept(load->location.file);
    if (!load->source->has_file)
        result = cage_place_check(load->location.root, KG_E_REFUSED, err);
    if (result < 0)
        return kg_wrap(err, result, "project %s", load->location.root);
    if (load->source->watch != NULL || !load->watch)
        return 0;
    kg_fail(err, KG_E_USAGE, "%s has no %s/%s: there is nothing to watch", load->location.root,
            PROJECT_DIR, PROJECT_FILE);
    return kg_hint(err, "load it without --watch");
}
