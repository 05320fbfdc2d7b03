/*
 * An orchestrator as the text of a project, which is checked and resolved as a project's file is.
 * Of the mode supervisor the primary has the tools of every package, and each that is specialized
 * is an agent below it, too, to which it can hand work. Of the mode grounded there is one agent,
 * which speaks of one resource, and the packages that are specialized say how it works.
 */
#include "catalog/orchestrators.h"

#include <stdlib.h>

#define SHOWN_MAX       40
#define DESCRIPTION_MAX 1000
#define PROMPT_MAX      65000 /* bytes of a prompt; a project's file bounds its characters */

char *orchestrator_project_id(const char *id)
{
    return kg_format("orchestrator-%s", id);
}

/* "com.example.Parcel.Finder" is "finder". */
char *orchestrator_shown(const char *pid, char *const *taken)
{
    const char *dot = strrchr(pid, '.');
    char name[SHOWN_MAX + 1];
    kg_str_copy(kg_str(dot ? dot + 1 : pid), name, sizeof(name));
    for (char *at = name; *at != '\0'; at++) {
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        if (!kg_is_lower(*at) && !kg_is_digit(*at) && *at != '-' && *at != '_')
            *at = '-';
    }
    char *shown = kg_format("%s%s", kg_is_lower(name[0]) ? "" : "p", name);
    for (unsigned more = 2; kg_list_has(taken, kg_str(shown)); more++) {
        free(shown);
        shown = kg_format("%s%s-%u", kg_is_lower(name[0]) ? "" : "p", name, more);
    }
    return shown;
}

static void orchestrator_text_put_cut(struct kg_json_writer *json, const char *key,
                                      struct kg_str text, size_t most)
{
    size_t length = text.length < most ? text.length : most;
    text.length = kg_utf8_valid((struct kg_str){text.data, length});
    kg_json_named_str(json, key, text);
}

static void orchestrator_text_put_plugins(struct kg_json_writer *json,
                                          const struct text_package *packages, size_t count)
{
    kg_json_named_begin(json, "plugins", '{');
    for (size_t i = 0; i < count; i++) {
        kg_json_named_begin(json, packages[i].shown, '{');
        kg_json_named_text(json, "package", packages[i].name);
        kg_json_end(json, '}');
    }
    kg_json_end(json, '}');
}

static void put_specialized(struct kg_json_writer *json, const char *model,
                            const struct text_package *package)
{
    kg_json_named_begin(json, package->shown, '{');
    kg_json_named_text(json, "model", model);
    orchestrator_text_put_cut(json, "description", kg_node_text(package->document, "description"),
                              DESCRIPTION_MAX);
    orchestrator_text_put_cut(json, "prompt", kg_node_text(package->document, "system_prompt"),
                              PROMPT_MAX);
    orchestrator_text_put_plugins(json, package, 1);
    kg_json_end(json, '}');
}

static void orchestrator_text_put_line(struct kg_buf *prompt, struct kg_str text)
{
    if (text.length > 0)
        kg_buf_printf(prompt, "%s%.*s", prompt->length > 0 ? "\n\n" : "", KG_STR_ARG(text));
}

static void orchestrator_text_put_prompt(const struct orchestrator_row *row, bool is_grounded,
                                         const struct text_package *packages, size_t count,
                                         struct kg_buf *prompt)
{
    orchestrator_text_put_line(prompt, kg_str(row->whoami ? row->whoami : ""));
    orchestrator_text_put_line(
        prompt, is_grounded
                    ? KG_STR("You speak of one resource alone: what the system tells you of it "
                             "is the truth, and its rules are yours. Use your tools for what "
                             "is not said there, and never guess.")
                    : KG_STR("Answer with the help of your tools, and never guess what one of "
                             "them can find out."));
    for (size_t i = 0; is_grounded && i < count; i++)
        orchestrator_text_put_line(prompt, kg_node_text(packages[i].document, "system_prompt"));
}

void orchestrator_put_text(const struct orchestrator_row *row, const char *model,
                           const struct text_package *packages, size_t count, struct kg_buf *out)
{
    bool is_grounded = strcmp(row->mode, "grounded") == 0;
    kg_auto(kg_free) char *name = orchestrator_project_id(row->id);
    kg_auto(kg_buf_free) struct kg_buf prompt = {0};
    struct kg_json_writer json = kg_json_writer(out);
    orchestrator_text_put_prompt(row, is_grounded, packages, count, &prompt);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "version", 1);
    kg_json_named_text(&json, "name", name);
    kg_json_named_begin(&json, "primary", '{');
    kg_json_named_text(&json, "model", model);
    orchestrator_text_put_cut(&json, "prompt", kg_buf_view(&prompt), PROMPT_MAX);
    orchestrator_text_put_plugins(&json, packages, count);
    kg_json_named_begin(&json, "subagents", '{');
    for (size_t i = 0; !is_grounded && i < count; i++)
        if (kg_node_is_true(packages[i].document, "is_specialized"))
            put_specialized(&json, model, &packages[i]);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
}
