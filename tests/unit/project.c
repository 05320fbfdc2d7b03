/* A project's file: every problem with its place and code, the rules one by one, files and edits.
 */
#include "project/project.h"

#include "base/doc.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

#define HEAD "version: 1\nname: music\n" /* what follows starts on line 3 */

static char *listing(const struct kg_problems *problems)
{
    struct kg_buf out = {0};
    kg_problems_print(problems, "x", &out);
    return kg_buf_terminate(&out);
}

static void fail_with(const char *text, const struct kg_problems *problems)
{
    kg_auto(kg_free) char *all = listing(problems);
    fail_msg("%s%.200s", all, text);
}

static struct project *must_read(const char *text)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct project *project = project_read(kg_str(text), &problems);
    if (project == NULL || problems.count > 0)
        fail_with(text, &problems);
    return project;
}

static void assert_taken(const char *text)
{
    project_free(must_read(text));
}

struct sample {
    const char *text; /* behind HEAD, if that is no part of it */
    enum project_code code;
    uint32_t line, column;
    const char *words; /* of the message or the hint */
};

/* One problem of that code, at that place, with those words; no other. */
static void check_sample(const struct sample *sample)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    bool whole = strncmp(sample->text, "version", 7) == 0;
    kg_auto(kg_free) char *text = kg_format("%s%s", whole ? "" : HEAD, sample->text);
    struct project *project = project_read(kg_str(text), &problems);
    const struct kg_problem *problem = problems.items;
    bool is_error = project_rows[sample->code].severity == KG_SEVERITY_ERROR;
    if (problems.count != 1 || problem->row != &project_rows[sample->code] ||
        problem->line != sample->line || problem->column != sample->column ||
        (project == NULL) != is_error ||
        (strstr(problem->message, sample->words) == NULL &&
         (problem->hint == NULL || strstr(problem->hint, sample->words) == NULL)))
        fail_with(text, &problems);
    project_free(project);
}

/* -- the whole --------------------------------------------------------------------------------- */

static const char full_example[] =
    HEAD "primary:\n"
         "  model: smart\n"
         "  prompt: You are a musician.\n"
         "  tools:\n"
         "    \"memory-hindsight.reflect\": { enabled: false }\n"
         "    memory-hindsight.recall: true\n"
         "  plugins:\n"
         "    memory:\n"
         "      package: \"@kaged/memory-hindsight\"\n"
         "      version: ^1.2\n"
         "      source: https://github.com/kaged/memory-hindsight\n"
         "      isolation: project\n"
         "      hooks: [on_session_start, on_session_idle, pre_compact, post_compact]\n"
         "      config:\n"
         "        recall_budget: mid\n"
         "        tags: [primary]\n"
         "    notes: { package: notes, source: ./plugins/notes }\n"
         "  compaction:\n"
         "    threshold: 0.8\n"
         "    strategy: delegate\n"
         "    delegate: { plugin: memory }\n"
         "    keep_recent: 10\n"
         "    summary_model: fast\n"
         "  subagents:\n"
         "    researcher:\n"
         "      prompt: { file: prompts/researcher.md }\n"
         "      plugins:\n"
         "        memory:\n"
         "          hooks: [pre_compact]\n"
         "          config: { tags: [researcher] }\n"
         "      subagents:\n"
         "        reader:\n"
         "          plugins:\n"
         "            memory:\n"
         "    writer: {}\n";

static void a_full_project_is_read(void **state)
{
    (void)state;
    struct project *project = must_read(full_example);
    static const char *const paths[] = {"primary", "primary.subagents.researcher",
                                        "primary.subagents.researcher.subagents.reader",
                                        "primary.subagents.writer"};
    assert_string_equal(project->name, "music");
    assert_int_equal(project->agent_count, KG_COUNT(paths));
    for (size_t i = 0; i < KG_COUNT(paths); i++)
        assert_string_equal(project->agents[i].path, paths[i]);
    const struct project_agent *primary = &project->agents[0];
    assert_string_equal(primary->model, "smart");
    assert_string_equal(primary->prompt, "You are a musician.");
    assert_int_equal(primary->switch_count, 2);
    assert_false(primary->switches[0].enabled);
    assert_true(primary->switches[1].enabled);
    assert_string_equal(primary->declarations[0].name, "memory");
    assert_string_equal(primary->declarations[0].version, "^1.2");
    assert_string_equal(primary->declarations[1].source, "./plugins/notes");
    assert_int_equal(primary->compaction.strategy, PROJECT_STRATEGY_DELEGATE);
    assert_int_equal(primary->compaction.keep_recent, 10);
    assert_true(primary->compaction.threshold > 0.79 && primary->compaction.threshold < 0.81);
    project_free(project);
}

static void what_is_shared_is_inherited_from_the_primary(void **state)
{
    (void)state;
    struct project *project = must_read(full_example);
    const struct project_declaration *base = &project->agents[0].declarations[0];
    for (size_t i = 1; i <= 2; i++) {
        const struct project_declaration *memory = &project->agents[i].declarations[0];
        assert_ptr_equal(memory->base, base);
        assert_int_equal(memory->isolation, PROJECT_ISOLATION_PROJECT);
    }
    assert_int_equal(project->agents[3].declaration_count, 0);
    project_free(project);
}

static void an_agent_may_be_empty(void **state)
{
    (void)state;
    assert_taken(HEAD "primary:\n");
    assert_taken(HEAD "primary: {}\n");
    assert_taken(HEAD "primary:\n  plugins:\n  tools:\n  subagents:\n  compaction:\n");
}

static void a_shared_plugin_may_repeat_what_it_is(void **state)
{
    (void)state;
    assert_taken(HEAD "primary:\n"
                      "  plugins: { m: { package: mem, isolation: project } }\n"
                      "  subagents:\n"
                      "    a: { plugins: { m: { package: mem, isolation: project } } }\n");
}

/* -- problems ---------------------------------------------------------------------------------- */

#define PLUGIN(text) "primary:\n  plugins:\n    m: { package: mem, " text " }\n"
#define SUBAGENT(primary, subagent)                                                                \
    "primary:\n  plugins: { m: " primary " }\n"                                                    \
    "  subagents:\n    a: { plugins: { m: " subagent " } }\n"

static const struct sample samples[] = {
    {"primary: [\n", PROJECT_YAML, 4, 1, "flow"},
    {"version: 1\nname: music\n", PROJECT_MISSING_KEY, 1, 1, "primary"},
    {"primary: { modle: x }\n", PROJECT_UNKNOWN_KEY, 3, 12, "did you mean \"model\""},
    {"primary: 5\n", PROJECT_WRONG_TYPE, 3, 10, "object"},
    {"primary: { model: 5 }\n", PROJECT_WRONG_TYPE, 3, 19, "quotes"},
    {"primary: { compaction: { threshold: 1.5 } }\n", PROJECT_OUT_OF_RANGE, 3, 37, "1"},
    {"primary: { compaction: { threshold: 0 } }\n", PROJECT_OUT_OF_RANGE, 3, 37, "0"},
    {"primary: { compaction: { keep_recent: -1 } }\n", PROJECT_OUT_OF_RANGE, 3, 39, "0"},
    {"primary: { prompt: \"a\\0b\" }\n", PROJECT_BAD_VALUE, 3, 20, "NUL"},
    {"primary: { prompt: { file: /etc/passwd } }\n", PROJECT_BAD_VALUE, 3, 28, "relative"},
    {PLUGIN("isolation: agnt"), PROJECT_BAD_VALUE, 5, 35, "did you mean agent"},
    {"version: 2\nname: music\nprimary: {}\n", PROJECT_FORMAT_UNSUPPORTED, 1, 10, "newer"},
    {"version: 1\nname: My Music\nprimary: {}\n", PROJECT_NAME_INVALID, 2, 7, "lower-case"},
    {"primary: { plugins: { \"A b\": { package: x } } }\n", PROJECT_NAME_INVALID, 3, 23, "A b"},
    {"primary: { subagents: { \"a.b\": {} } }\n", PROJECT_NAME_INVALID, 3, 25, "a.b"},
    {"primary: {}\nplugins: { m: { package: mem } }\n", PROJECT_ROOT_PLUGINS, 4, 10,
     "primary.plugins"},
    {"primary: {}\nsubagents: { a: {} }\n", PROJECT_ROOT_SUBAGENTS, 4, 12, "primary.subagents"},
    {"primary: { plugins: { m: {} } }\n", PROJECT_PACKAGE_MISSING, 3, 23, "add package"},
    {SUBAGENT("{ package: mem }", "{}"), PROJECT_PACKAGE_MISSING, 6, 21, "isolation: project"},
    {SUBAGENT("{ package: mem, isolation: project }", "{ package: other }"),
     PROJECT_PACKAGE_OVERRIDE, 6, 35, "under another name"},
    {SUBAGENT("{ package: mem, isolation: project }", "{ isolation: agent }"),
     PROJECT_ISOLATION_OVERRIDE, 6, 37, "shared by the project"},
    {"primary: { plugins: { a: { package: m }, b: { package: m } } }\n", PROJECT_PACKAGE_TWICE, 3,
     42, "\"a\" and as \"b\""},
    {PLUGIN("isolation: agent, config: { isolation: project }"), PROJECT_ISOLATION_IN_CONFIG, 5, 63,
     "beside config"},
    {PLUGIN("version: newest"), PROJECT_VERSION_INVALID, 5, 33, "^1.2.0"},
    {PLUGIN("source: /opt/mem"), PROJECT_SOURCE_INVALID, 5, 32, "./FOLDER"},
    {PLUGIN("source: http://x.example/"), PROJECT_SOURCE_INVALID, 5, 32, "https"},
    {PLUGIN("source: ./a/../../b"), PROJECT_SOURCE_INVALID, 5, 32, "leads out"},
    {PLUGIN("hooks: [on_sesion_start]"), PROJECT_UNKNOWN_HOOK, 5, 32,
     "did you mean on_session_start?"},
    {"primary: { compaction: { strategy: dorp } }\n", PROJECT_UNKNOWN_STRATEGY, 3, 36,
     "did you mean drop?"},
    {"primary: { compaction: { strategy: delegate } }\n", PROJECT_DELEGATE_MISSING, 3, 36,
     "plugin: NAME"},
    {PLUGIN("config: {}") "  compaction: { strategy: drop, delegate: { plugin: m } }\n",
     PROJECT_DELEGATE_UNUSED, 6, 27, "fails"},
    {PLUGIN("config: {}") "  compaction: { delegate: { plugin: n } }\n", PROJECT_DELEGATE_UNKNOWN,
     6, 37, "no plugin \"n\""},
    {SUBAGENT("{ package: mem }", "{ package: mem, hooks: [on_session_idle] }"),
     PROJECT_HOOK_ILLEGAL, 6, 48, "sessions are the primary's"},
};

/* These need more than the file: see project_resolve.c and the tests of files below. */
static const enum project_code elsewhere[] = {
    PROJECT_FILE_UNUSABLE,  PROJECT_PROMPT_FILE,   PROJECT_AGENTS_DEEP,      PROJECT_AGENTS_MANY,
    PROJECT_PLUGINS_MANY,   PROJECT_DELEGATE_ROLE, PROJECT_HOOK_NOT_OFFERED, PROJECT_PLUGIN_MISSING,
    PROJECT_PLUGIN_VERSION, PROJECT_TOOL_UNKNOWN,  PROJECT_TOOLS_MANY,       PROJECT_TOOL_COLLISION,
    PROJECT_PLUGIN_TWICE,   PROJECT_NAME_BUILTIN,  PROJECT_ROLE_VIOLATION,   PROJECT_MODEL_UNKNOWN,
    PROJECT_CONFIG_INVALID, PROJECT_CONFIG_SECRET, PROJECT_CONFIG_LARGE,     PROJECT_HANDOFF_TAKEN,
};

static void each_problem_has_its_place_and_code(void **state)
{
    (void)state;
    bool seen[PROJECT_CODE_COUNT] = {0};
    for (size_t i = 0; i < KG_COUNT(samples); i++) {
        check_sample(&samples[i]);
        seen[samples[i].code] = true;
    }
    for (size_t i = 0; i < KG_COUNT(elsewhere); i++)
        seen[elsewhere[i]] = true;
    for (size_t i = 0; i < PROJECT_CODE_COUNT; i++)
        if (!seen[i])
            fail_msg("%s has no sample", project_rows[i].code);
}

static void a_file_with_twenty_mistakes_lists_twenty(void **state)
{
    (void)state;
    static const char text[] = "version: 1\n"
                               "name: Music\n" /* 1 */
                               "plugins: {}\n" /* 2 */
                               "owner: me\n"   /* 3 */
                               "primary:\n"
                               "  model: 5\n"    /* 4 */
                               "  prompt: [x]\n" /* 5 */
                               "  tools:\n"
                               "    memory.recall: maybe\n" /* 6 */
                               "    \"Bad Tool\": true\n"   /* 7 */
                               "  plugins:\n"
                               "    memory:\n"
                               "      package: \"No Package\"\n" /* 8 */
                               "      version: latest!\n"        /* 9 */
                               "      source: ftp://x\n"         /* 10 */
                               "      hooks: [on_start]\n"       /* 11 */
                               "      isolation: none\n"         /* 12 */
                               "      config: text\n"            /* 13 */
                               "      extra: 1\n"                /* 14 */
                               "    nameless: {}\n"              /* 15 */
                               "  compaction:\n"
                               "    threshold: 2\n"                 /* 16 */
                               "    strategy: forget\n"             /* 17 */
                               "    delegate: { plugin: nobody }\n" /* 18 */
                               "    keep_recent: few\n"             /* 19 */
                               "  subagents:\n"
                               "    Researcher: {}\n"; /* 20 */
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    assert_null(project_read(kg_str(text), &problems));
    if (problems.count != 20 || problems.errors != 20)
        fail_with(text, &problems);
}

static void codes_are_stable_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROJECT_CODE_COUNT; i++) {
        const char *code = project_rows[i].code;
        assert_int_equal(strspn(code, "abcdefghijklmnopqrstuvwxyz_."), strlen(code));
        assert_int_equal(project_rows[i].meaning[strlen(project_rows[i].meaning) - 1], '.');
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(code, project_rows[k].code);
    }
}

static void a_refused_project_says_the_first_error(void **state)
{
    (void)state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_err err = {0};
    assert_null(project_read(KG_STR("version: 1\nprimary: 5\n"), &problems));
    assert_true(project_problems_fail(&problems, "p.yaml", &err) < 0);
    assert_int_equal(err.code, KG_E_INVALID_PROJECT);
    assert_non_null(strstr(err.message, "p.yaml:1:1: "));
    assert_non_null(strstr(err.message, "(and 1 more)"));
}

/* -- bounds ------------------------------------------------------------------------------------ */

static void assert_bounded(const struct kg_buf *text, enum project_code code)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    assert_null(project_read(kg_buf_view(text), &problems));
    bool found = false;
    for (size_t i = 0; i < problems.count; i++)
        found |= problems.items[i].row == &project_rows[code];
    if (!found)
        fail_with("", &problems);
}

static struct kg_buf deep_project(int depth)
{
    struct kg_buf text = {0};
    kg_buf_text(&text, HEAD "primary: {");
    for (int i = 1; i < depth; i++)
        kg_buf_text(&text, " subagents: { a: {");
    for (int i = 1; i < depth; i++)
        kg_buf_text(&text, " } }");
    kg_buf_text(&text, " }\n");
    kg_buf_terminate(&text);
    return text;
}

static void agents_in_each_other_are_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf fits = deep_project(PROJECT_DEPTH_MAX);
    kg_auto(kg_buf_free) struct kg_buf too_deep = deep_project(PROJECT_DEPTH_MAX + 1);
    kg_auto(kg_buf_free) struct kg_buf absurd = deep_project(200);
    assert_taken(fits.data);
    assert_bounded(&too_deep, PROJECT_AGENTS_DEEP);
    assert_bounded(&absurd, PROJECT_YAML);
}

/* `outer` agents below the primary, each with so many below it and so many plugins. */
static struct kg_buf wide_project(int outer, int inner, int plugins)
{
    struct kg_buf text = {0};
    kg_buf_text(&text, HEAD "primary:\n  subagents:\n");
    for (int i = 0; i < outer; i++) {
        kg_buf_printf(&text, "    a%d:\n      plugins:\n", i);
        for (int k = 0; k < plugins; k++)
            kg_buf_printf(&text, "        p%d: { package: p%d }\n", k, k);
        kg_buf_text(&text, "      subagents:\n");
        for (int k = 0; k < inner; k++)
            kg_buf_printf(&text, "        b%d:\n", k);
    }
    kg_buf_terminate(&text);
    return text;
}

static void agents_are_counted(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf fits = wide_project(9, 6, 0);
    kg_auto(kg_buf_free) struct kg_buf too_many = wide_project(9, 7, 0);
    kg_auto(kg_buf_free) struct kg_buf at_once = wide_project(65, 0, 0);
    assert_taken(fits.data);
    assert_bounded(&too_many, PROJECT_AGENTS_MANY);
    assert_bounded(&at_once, PROJECT_AGENTS_MANY);
}

static void declarations_are_counted(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf fits = wide_project(8, 0, 32);
    kg_auto(kg_buf_free) struct kg_buf too_many = wide_project(9, 0, 32);
    kg_auto(kg_buf_free) struct kg_buf of_one = wide_project(1, 0, 129);
    assert_taken(fits.data);
    assert_bounded(&too_many, PROJECT_PLUGINS_MANY);
    assert_bounded(&of_one, PROJECT_PLUGINS_MANY);
}

static void a_file_is_bounded_in_size(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, HEAD "primary: {}\n");
    while (text.length <= PROJECT_FILE_BYTES_MAX)
        kg_buf_text(&text, "# nothing\n");
    assert_bounded(&text, PROJECT_YAML);
}

/* -- files ------------------------------------------------------------------------------------- */

struct world {
    char *dir;  /* has root and, beside it, outside */
    char *root; /* has .kaged/ and prompts/ */
};

static char *path_in(const struct world *world, const char *path)
{
    return kg_format("%s/%s", world->root, path);
}

static void write_text(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const struct world *world, const char *name, const char *text)
{
    kg_auto(kg_free) char *path = path_in(world, name);
    write_text(path, text, strlen(text));
}

static int set_up(void **state)
{
    struct world *world = kg_alloc(sizeof(*world));
    char dir[] = "/tmp/kaged-project-XXXXXX";
    assert_non_null(mkdtemp(dir));
    world->dir = realpath(dir, NULL);
    world->root = kg_format("%s/root", world->dir);
    kg_auto(kg_free) char *ours = path_in(world, ".kaged"), *prompts = path_in(world, "prompts");
    kg_auto(kg_free) char *outside = kg_format("%s/outside", world->dir);
    assert_int_equal(mkdir(world->root, 0755) + mkdir(ours, 0755) + mkdir(prompts, 0755), 0);
    write_text(outside, "a secret", 8);
    *state = world;
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    struct world *world = *state;
    nftw(world->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(world->dir);
    free(world->root);
    free(world);
    return 0;
}

static struct project *load(const struct world *world, const char *path,
                            struct kg_problems *problems)
{
    struct kg_err err = {0};
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_free) char *whole = path_in(world, path);
    if (project_locate(whole, &location, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(location.root, world->root);
    return project_load(&location, problems);
}

static void a_project_is_found_by_root_folder_or_file(void **state)
{
    const struct world *world = *state;
    static const char *const paths[] = {"", ".", ".kaged", ".kaged/project.yaml", "other.yaml"};
    write_file(world, ".kaged/project.yaml", HEAD "primary: {}\n");
    write_file(world, "other.yaml", HEAD "primary: {}\n");
    for (size_t i = 0; i < KG_COUNT(paths); i++) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        struct project *project = load(world, paths[i], &problems);
        assert_non_null(project);
        project_free(project);
    }
}

static void a_folder_without_a_project_is_not_found(void **state)
{
    const struct world *world = *state;
    kg_auto(project_location_free) struct project_location location = {0};
    struct kg_err err = {0};
    assert_int_equal(project_locate(world->root, &location, &err), -ENOENT);
    assert_non_null(strstr(err.hint, ".kaged/project.yaml"));
    assert_int_equal(err.code, KG_E_NOT_FOUND);
    assert_int_equal(project_locate("/nowhere/at/all", &location, &err), -ENOENT);
    assert_int_equal(err.code, KG_E_NOT_FOUND);
}

/* The prompt's file is of this name; NULL: it is read. */
static void check_prompt(const struct world *world, const char *file, const char *words)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *text = kg_format(HEAD "primary:\n  prompt: { file: %s }\n", file);
    write_file(world, ".kaged/project.yaml", text);
    struct project *project = load(world, "", &problems);
    if ((project == NULL) != (words != NULL) ||
        (words != NULL &&
         (problems.count != 1 || problems.items[0].row != &project_rows[PROJECT_PROMPT_FILE] ||
          problems.items[0].line != 4 || problems.items[0].column != 19 ||
          strstr(problems.items[0].message, words) == NULL)))
        fail_with(file, &problems);
    if (project != NULL)
        assert_string_equal(project->agents[0].prompt, "Be kind.\n");
    project_free(project);
}

static void make_link(const struct world *world, const char *target, const char *name)
{
    kg_auto(kg_free) char *path = path_in(world, name);
    assert_int_equal(symlink(target, path), 0);
}

static void a_prompt_is_read_from_its_file(void **state)
{
    const struct world *world = *state;
    write_file(world, "prompts/a.md", "Be kind.\n");
    make_link(world, "a.md", "prompts/link.md");
    check_prompt(world, "prompts/a.md", NULL);
    check_prompt(world, "prompts/link.md", NULL);
    check_prompt(world, "prompts/../prompts/a.md", NULL);
}

static void a_prompt_stays_in_the_project(void **state)
{
    const struct world *world = *state;
    kg_auto(kg_free) char *outside = kg_format("%s/outside", world->dir);
    make_link(world, outside, "prompts/absolute.md");
    make_link(world, "../../outside", "prompts/up.md");
    make_link(world, "..", "prompts/folder");
    make_link(world, "/proc/self/environ", "prompts/proc.md");
    check_prompt(world, "../outside", "leads out");
    check_prompt(world, "prompts/absolute.md", "leads out");
    check_prompt(world, "prompts/up.md", "leads out");
    check_prompt(world, "prompts/folder/../outside", "leads out");
    check_prompt(world, "prompts/proc.md", "leads out");
}

static void a_prompt_is_a_text_of_bounded_size(void **state)
{
    const struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf large = {0};
    kg_auto(kg_free) char *fifo = path_in(world, "prompts/fifo");
    kg_auto(kg_free) char *nul = path_in(world, "prompts/nul.md");
    while (large.length <= PROJECT_PROMPT_BYTES_MAX)
        kg_buf_text(&large, "again and ");
    write_file(world, "prompts/large.md", kg_buf_terminate(&large));
    write_file(world, "prompts/latin.md", "\xe4\xf6\xfc");
    write_text(nul, "a\0b", 3);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    check_prompt(world, "prompts/large.md", "larger than");
    check_prompt(world, "prompts/latin.md", "not UTF-8");
    check_prompt(world, "prompts/nul.md", "NUL");
    check_prompt(world, "prompts/fifo", "not a regular file");
    check_prompt(world, "prompts", "directory");
    check_prompt(world, "prompts/none.md", "No such file");
}

static void a_project_file_is_no_link_out_of_the_project(void **state)
{
    const struct world *world = *state;
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    make_link(world, "../../outside", ".kaged/project.yaml");
    assert_null(load(world, "", &problems));
    assert_ptr_equal(problems.items[0].row, &project_rows[PROJECT_FILE_UNUSABLE]);
    assert_non_null(strstr(problems.items[0].message, "leads out"));
}

/* -- editing ----------------------------------------------------------------------------------- */

static const char before_edit[] = "# ours\n" HEAD "primary:\n"
                                  "  plugins:\n"
                                  "    memory:            # remembers\n"
                                  "      package: mem\n"
                                  "      isolation: project\n"
                                  "      config:\n"
                                  "        budget: mid    # not too much\n"
                                  "        nested: { a: 1, b: 2 }\n"
                                  "    bare: { package: bare }\n"
                                  "  subagents:\n"
                                  "    reader:\n"
                                  "      plugins:\n"
                                  "        memory:\n";

struct edit {
    const char *agent, *plugin;
    const char *keys[3];
    const char *value;        /* JSON; NULL: remove */
    const char *found, *made; /* what of the text becomes what; NULL: refused, and why */
};

static int run_edit(const struct edit *edit, struct kg_buf *text, struct kg_err *err)
{
    size_t count = 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *value =
        edit->value ? kg_json_read(kg_str(edit->value), err) : NULL;
    while (count < 3 && edit->keys[count] != NULL)
        count++;
    return project_edit_config(text, edit->agent, edit->plugin, edit->keys, count,
                               value ? value->root : NULL, err);
}

/* The text before, with one part of it replaced. */
static char *replaced(const char *found, const char *made)
{
    const char *at = strstr(before_edit, found);
    assert_non_null(at);
    return kg_format("%.*s%s%s", (int)(at - before_edit), before_edit, made, at + strlen(found));
}

static void check_edit(const struct edit *edit)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err = {0};
    kg_buf_text(&text, before_edit);
    int result = run_edit(edit, &text, &err);
    if ((result < 0) != (edit->found == NULL))
        fail_msg("%s %s: %s", edit->plugin, edit->keys[0], err.message);
    kg_auto(kg_free) char *wanted =
        edit->found ? replaced(edit->found, edit->made) : kg_strdup(before_edit);
    assert_string_equal(kg_buf_terminate(&text), wanted);
    if (edit->found == NULL && strstr(err.message, edit->made) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, edit->made);
}

static void a_setting_is_changed_and_the_rest_stays(void **state)
{
    (void)state;
    static const struct edit edits[] = {
        {"primary", "memory", {"budget"}, "\"high\"", "budget: mid ", "budget: high "},
        {"primary", "memory", {"nested", "b"}, "3", "b: 2", "b: 3"},
        {"primary", "memory", {"tags"}, "[\"x\"]", "b: 2 }\n", "b: 2 }\n        tags: [x]\n"},
        {"primary", "memory", {"budget"}, NULL, "        budget: mid    # not too much\n", ""},
        {"primary", "bare", {"k"}, "1", "{ package: bare }", "{ package: bare, config: {k: 1} }"},
        {"primary",
         "bare",
         {"isolation"},
         "\"project\"",
         "{ package: bare }",
         "{ package: bare, isolation: project }"},
        {"primary.subagents.reader",
         "memory",
         {"budget"},
         "\"low\"",
         "        memory:\n",
         "        memory:\n          config:\n            budget: low\n"},
        {"primary.subagents.nobody", "memory", {"budget"}, "1", NULL, "no agent"},
        {"primary.subagents.reader", "bare", {"k"}, "1", NULL, "declares no plugin"},
        {"primary", "memory", {"isolation"}, "\"sometimes\"", NULL, "must be one of"},
        {"primary", "memory", {"isolation"}, "\"agent\"", NULL, "has no package"},
        {"primary.subagents.reader", "memory", {"isolation"}, "\"agent\"", NULL, "cannot isolate"},
        {"primary", "memory", {NULL}, "1", NULL, "1 to"},
    };
    for (size_t i = 0; i < KG_COUNT(edits); i++)
        check_edit(&edits[i]);
}

static void a_setting_is_changed_in_the_file(void **state)
{
    const struct world *world = *state;
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *value = kg_json_read(KG_STR("\"high\""), NULL);
    struct kg_err err = {0};
    const char *key = "budget";
    write_file(world, ".kaged/project.yaml", before_edit);
    assert_int_equal(project_locate(world->root, &location, &err), 0);
    assert_int_equal(project_set_config(&location, "primary", "memory", &key, 1, value->root, &err),
                     0);
    assert_int_equal(kg_read_file(location.path, 1 << 20, &text, &err), 0);
    kg_auto(kg_free) char *wanted = replaced("budget: mid ", "budget: high ");
    assert_string_equal(kg_buf_terminate(&text), wanted);
}

static void a_linked_file_is_not_changed(void **state)
{
    const struct world *world = *state;
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *value = kg_json_read(KG_STR("1"), NULL);
    struct kg_err err = {0};
    const char *key = "budget";
    write_file(world, "elsewhere.yaml", before_edit);
    make_link(world, "../elsewhere.yaml", ".kaged/project.yaml");
    assert_int_equal(project_locate(world->root, &location, &err), 0);
    assert_true(project_set_config(&location, "primary", "memory", &key, 1, value->root, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    assert_non_null(strstr(err.message, "link"));
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_project_is_read),
        cmocka_unit_test(what_is_shared_is_inherited_from_the_primary),
        cmocka_unit_test(an_agent_may_be_empty),
        cmocka_unit_test(a_shared_plugin_may_repeat_what_it_is),
        cmocka_unit_test(each_problem_has_its_place_and_code),
        cmocka_unit_test(a_file_with_twenty_mistakes_lists_twenty),
        cmocka_unit_test(codes_are_stable_words),
        cmocka_unit_test(a_refused_project_says_the_first_error),
        cmocka_unit_test(agents_in_each_other_are_bounded),
        cmocka_unit_test(agents_are_counted),
        cmocka_unit_test(declarations_are_counted),
        cmocka_unit_test(a_file_is_bounded_in_size),
        WITH_FILES(a_project_is_found_by_root_folder_or_file),
        WITH_FILES(a_folder_without_a_project_is_not_found),
        WITH_FILES(a_prompt_is_read_from_its_file),
        WITH_FILES(a_prompt_stays_in_the_project),
        WITH_FILES(a_prompt_is_a_text_of_bounded_size),
        WITH_FILES(a_project_file_is_no_link_out_of_the_project),
        cmocka_unit_test(a_setting_is_changed_and_the_rest_stays),
        WITH_FILES(a_setting_is_changed_in_the_file),
        WITH_FILES(a_linked_file_is_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
