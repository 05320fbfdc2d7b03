/*
 * A manifest is read into a checked struct or not at all: YAML, then the published schema, then the
 * rules that a schema cannot say. The last two always both run, so that an author sees all that is
 * wrong at once.
 */
#include "manifest/internal.h"

#include "base/doc.h"

#include <stdlib.h>

#define NAME_MAX_BYTES    64
#define PACKAGE_MAX_BYTES 214
#define PACKAGE_PREFIX    "plugin-" /* how packages of plugins are called elsewhere */

bool manifest_name_is_valid(struct kg_str name)
{
    if (name.length == 0 || name.length > NAME_MAX_BYTES || !kg_is_lower(name.data[0]))
        return false;
    for (size_t i = 1; i < name.length; i++) {
        char c = name.data[i];
        if (!kg_is_lower(c) && !kg_is_digit(c) && c != '-')
            return false;
    }
    return true;
}

static struct kg_str last_part(struct kg_str package)
{
    const char *slash = package.length > 0 ? memrchr(package.data, '/', package.length) : NULL;
    return slash != NULL ? kg_str_from(package, (size_t)(slash - package.data) + 1) : package;
}

struct kg_str manifest_package_name(struct kg_str package)
{
    struct kg_str last = last_part(package);
    bool prefixed = last.length < package.length && kg_str_starts(last, PACKAGE_PREFIX) &&
                    last.length > strlen(PACKAGE_PREFIX);
    return prefixed ? kg_str_from(last, strlen(PACKAGE_PREFIX)) : last;
}

bool manifest_is_package(const struct manifest *manifest, const char *declared)
{
    if (strcmp(manifest->package, declared) == 0 || strcmp(manifest->name, declared) == 0)
        return true;
    return strcmp(manifest->package, manifest->name) == 0 &&
           strcmp(manifest_name_in(declared), manifest->name) == 0;
}

const char *manifest_name_in(const char *package)
{
    return manifest_package_name(kg_str(package)).data;
}

static bool is_scope(struct kg_str scope)
{
    for (size_t i = 0; i < scope.length; i++) {
        char c = scope.data[i];
        bool mark = c == '.' || c == '_' || c == '-';
        if (!kg_is_lower(c) && !kg_is_digit(c) && (!mark || i == 0))
            return false;
    }
    return scope.length > 0;
}

bool manifest_package_is_valid(struct kg_str package)
{
    struct kg_str name = last_part(package);
    size_t before = package.length - name.length; /* with the slash */
    if (package.length > PACKAGE_MAX_BYTES || !manifest_name_is_valid(name))
        return false;
    return before == 0 || (before > 2 && package.data[0] == '@' &&
                           is_scope((struct kg_str){package.data + 1, before - 2}));
}

static void free_methods(struct manifest *manifest)
{
    for (size_t i = 0; manifest->methods != NULL && i < manifest->method_count; i++) {
        schema_free(manifest->methods[i].params);
        schema_free(manifest->methods[i].result);
    }
    free(manifest->methods);
    kg_list_free(manifest->method_names);
}

static void free_tools(struct manifest *manifest)
{
    for (size_t i = 0; manifest->tools != NULL && i < manifest->tool_count; i++) {
        schema_free(manifest->tools[i].parameters);
        schema_free(manifest->tools[i].output);
    }
    free(manifest->tools);
}

struct manifest *manifest_keep(struct manifest *manifest)
{
    manifest->references++;
    return manifest;
}

void manifest_free(struct manifest *manifest)
{
    if (manifest == NULL || manifest->references-- > 0)
        return;
    free_methods(manifest);
    free_tools(manifest);
    free(manifest->knobs);
    free(manifest->shown);
    kg_list_free(manifest->command);
    kg_list_free(manifest->headers);
    kg_list_free(manifest->env);
    kg_list_free(manifest->capabilities);
    capability_set_free(&manifest->capability_set);
    kg_list_free(manifest->notifications);
    schema_free(manifest->config_schema);
    schema_free(manifest->system_config_schema);
    kg_doc_free(manifest->tools_doc);
    kg_doc_free(manifest->doc);
    free(manifest);
}

static struct manifest *manifest_read_document(struct kg_doc *doc, struct kg_problems *problems)
{
    struct manifest *manifest = kg_alloc(sizeof(*manifest));
    manifest->doc = doc;
    published_check(doc->root, problems);
    if (doc->root->type == KG_OBJECT)
        rules_apply(manifest, doc->root, problems);
    if (problems->errors == 0)
        return manifest;
    manifest_free(manifest);
    return NULL;
}

struct manifest *manifest_read(struct kg_str text, struct kg_problems *problems)
{
    struct kg_err err = {0};
    struct kg_doc *doc = kg_yaml_read(text, &err);
    if (doc == NULL) {
        kg_problems_add_err(problems, &manifest_rows[MANIFEST_YAML], "", &err);
        return NULL;
    }
    struct manifest *manifest = manifest_read_document(doc, problems);
    kg_problems_sort(problems);
    return manifest;
}

struct manifest *manifest_load(const char *dir, struct kg_problems *problems)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", dir, MANIFEST_FILE);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err = {0};
    if (kg_read_file(path, KG_DOC_BYTES_MAX, &text, &err) < 0) {
        kg_problems_add_err(problems, &manifest_rows[MANIFEST_YAML], "", &err);
        return NULL;
    }
    return manifest_read(kg_buf_view(&text), problems);
}

const struct manifest_method *manifest_method_find(const struct manifest *manifest,
                                                   struct kg_str name)
{
    for (size_t i = 0; i < manifest->method_count; i++)
        if (kg_str_is(name, manifest->methods[i].name))
            return &manifest->methods[i];
    return NULL;
}

const struct manifest_tool *manifest_tool_find(const struct manifest *manifest, struct kg_str name)
{
    for (size_t i = 0; i < manifest->tool_count; i++)
        if (kg_str_is(name, manifest->tools[i].name))
            return &manifest->tools[i];
    return NULL;
}

const struct manifest_tool *manifest_tool_called(const struct manifest *manifest,
                                                 struct kg_str method)
{
    size_t own = strlen(manifest->name);
    bool full =
        kg_str_starts(method, manifest->name) && method.length > own && method.data[own] == '.';
    return manifest_tool_find(manifest, full ? kg_str_from(method, own + 1) : method);
}
