/*
 * A project's file is read into a checked struct or not at all: YAML, then the published schema,
 * then the rules that a schema cannot say. The last two always both run, so that an author sees all
 * that is wrong at once.
 */
#include "project/internal.h"

#include "base/doc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void project_free(struct project *project)
{
    if (project == NULL)
        return;
    for (size_t i = 0; i < project->agent_count; i++) {
        free(project->agents[i].declarations);
        free(project->agents[i].switches);
    }
    free(project->agents);
    kg_doc_free(project->doc);
    free(project);
}

static struct project *project_read_document(struct kg_doc *doc, struct kg_problems *problems)
{
    struct project *project = kg_alloc(sizeof(*project));
    project->doc = doc;
    project_published_check(doc->root, problems);
    if (doc->root->type == KG_OBJECT)
        project_rules_apply(project, problems);
    if (problems->errors == 0)
        return project;
    project_free(project);
    return NULL;
}

struct project *project_read(struct kg_str text, struct kg_problems *problems)
{
    struct kg_err err = {0};
    if (text.length > PROJECT_FILE_BYTES_MAX) {
        kg_problems_add(problems, &project_rows[PROJECT_YAML], 0, 0, NULL,
                        "the file is larger than %d bytes", PROJECT_FILE_BYTES_MAX);
        return NULL;
    }
    struct kg_doc *doc = kg_yaml_read(text, &err);
    if (doc == NULL) {
        kg_problems_add_err(problems, &project_rows[PROJECT_YAML], "", &err);
        return NULL;
    }
    struct project *project = project_read_document(doc, problems);
    kg_problems_sort(problems);
    return project;
}

/* -- with its prompts -------------------------------------------------------------------------- */

static const char *prompt_fault(struct kg_str text)
{
    if (text.length > 0 && memchr(text.data, '\0', text.length) != NULL)
        return "contains a NUL";
    return kg_utf8_valid(text) < text.length ? "is not UTF-8 text" : NULL;
}

static void read_prompt(struct project *project, struct project_agent *agent, int root,
                        struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err = {0};
    const struct kg_node *place = kg_node_get(kg_node_get(agent->node, "prompt"), "file");
    if (project_read_below(root, agent->prompt_file, PROJECT_PROMPT_BYTES_MAX, &text, &err) < 0) {
        problem_at(problems, PROMPT_FILE, place, err.hint, "the prompt of %s: %s", agent->path,
                   err.message);
        return;
    }
    const char *fault = prompt_fault(kg_buf_view(&text));
    if (fault != NULL)
        problem_at(problems, PROMPT_FILE, place, NULL, "the prompt of %s: %s %s", agent->path,
                   agent->prompt_file, fault);
    else
        agent->prompt = project_keep(project->doc->arena, kg_buf_view(&text));
}

struct project *project_load(const struct project_location *location, struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err = {0};
    kg_auto(kg_close) int root = project_root_open(location->root, &err);
    if (root < 0 ||
        project_read_below(root, location->file, PROJECT_FILE_BYTES_MAX, &text, &err) < 0) {
        kg_problems_add_err(problems, &project_rows[PROJECT_FILE_UNUSABLE], "", &err);
        return NULL;
    }
    struct project *project = project_read(kg_buf_view(&text), problems);
    for (size_t i = 0; project != NULL && i < project->agent_count; i++)
        if (project->agents[i].prompt_file != NULL)
            read_prompt(project, &project->agents[i], root, problems);
    kg_problems_sort(problems);
    if (problems->errors == 0)
        return project;
    project_free(project);
    return NULL;
}
