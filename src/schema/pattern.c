/*
 * Plain patterns run as automatons, the others in PCRE2 under limits. There a match is tried with
 * few steps first, then with more; each try is paid for, so that neither one slow match nor many of
 * them outlast the check's budget. The memory for matching belongs to the thread, so a match
 * allocates only while that grows.
 */
#include "schema/internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS_MIN    128     /* of backtracking in the first try, and 4 for each byte */
#define STEPS_GROWTH 16      /* from try to try */
#define STEPS_MAX    1000000 /* of the last try at least */
#define STEPS_PRICE  8       /* so many are one step of the check */
#define HEAP_MAX_KIB 32768
#define TEXT_LARGE   32768 /* bytes; what a match of such a text has allocated is not kept */
#define NESTING_MAX  100   /* of groups */
#define COMPILE_OPTIONS                                                                            \
    (PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF |               \
     PCRE2_ALLOW_EMPTY_CLASS | PCRE2_NEVER_BACKSLASH_C)

struct schema_pattern {
    struct schema_automaton *automaton; /* owned; or NULL, and then: */
    pcre2_code *code;                   /* owned */
    struct kg_str source;
    char text[]; /* of source */
};

/* -- compiling --------------------------------------------------------------------------------- */

static pcre2_code *pattern_compile(struct kg_str translated, int *ret_code)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL)
        abort();
    pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
    pcre2_set_parens_nest_limit(context, NESTING_MAX);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    PCRE2_SIZE offset;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)(translated.data ? translated.data : ""), translated.length,
                      COMPILE_OPTIONS, ret_code, &offset, context);
    pcre2_compile_context_free(context);
    return code;
}

static pcre2_code *translate_and_compile(struct kg_str source, char problem[SCHEMA_PROBLEM_MAX])
{
    kg_auto(kg_buf_free) struct kg_buf translated = {0};
    if (!schema_pattern_translate(source, &translated, problem))
        return NULL;
    int error;
    pcre2_code *code = pattern_compile(kg_buf_view(&translated), &error);
    if (code == NULL &&
        pcre2_get_error_message(error, (PCRE2_UCHAR *)problem, SCHEMA_PROBLEM_MAX) < 0)
        problem[SCHEMA_PROBLEM_MAX - 1] = '\0';
    return code;
}

struct schema_pattern *schema_pattern_new(struct kg_str source, char problem[SCHEMA_PROBLEM_MAX])
{
    if (source.length > SCHEMA_PATTERN_MAX) {
        snprintf(problem, SCHEMA_PROBLEM_MAX, "it is longer than %d bytes", SCHEMA_PATTERN_MAX);
        return NULL;
    }
    struct schema_automaton *automaton = schema_automaton_new(source);
    pcre2_code *code = automaton ? NULL : translate_and_compile(source, problem);
    if (automaton == NULL && code == NULL)
        return NULL;
    struct schema_pattern *pattern = kg_alloc(sizeof(*pattern) + source.length + 1);
    pattern->automaton = automaton;
    pattern->code = code;
    pattern->source = (struct kg_str){pattern->text, source.length};
    if (source.length)
        memcpy(pattern->text, source.data, source.length);
    return pattern;
}

void schema_pattern_free(struct schema_pattern *pattern)
{
    if (pattern == NULL)
        return;
    free(pattern->automaton);
    pcre2_code_free(pattern->code);
    free(pattern);
}

struct kg_str schema_pattern_source(const struct schema_pattern *pattern)
{
    return pattern->source;
}

size_t schema_pattern_bytes(const struct schema_pattern *pattern)
{
    size_t bytes = 0;
    if (pattern->code != NULL)
        pcre2_pattern_info(pattern->code, PCRE2_INFO_SIZE, &bytes);
    return bytes;
}

bool schema_pattern_is_valid(struct kg_str source)
{
    char problem[SCHEMA_PROBLEM_MAX];
    kg_auto(kg_buf_free) struct kg_buf translated = {0};
    if (source.length > SCHEMA_PATTERN_MAX ||
        !schema_pattern_translate(source, &translated, problem))
        return false;
    int error;
    pcre2_code *code = pattern_compile(kg_buf_view(&translated), &error);
    pcre2_code_free(code);
    return code != NULL || error == PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH;
}

/* -- matching ---------------------------------------------------------------------------------- */

/* What a thread needs for matching; made at its first match, freed at its end. */
struct workspace {
    pcre2_match_data *data;
    pcre2_match_context *context;
};
static _Thread_local struct workspace *workspace;
static pthread_key_t workspace_key;
static pthread_once_t workspace_once = PTHREAD_ONCE_INIT;

static void free_workspace(void *pointer)
{
    struct workspace *old = pointer;
    pcre2_match_data_free(old->data);
    pcre2_match_context_free(old->context);
    free(old);
}

static void pattern_make_key(void)
{
    if (pthread_key_create(&workspace_key, free_workspace) != 0)
        abort();
}

static struct workspace *get_workspace(void)
{
    if (workspace != NULL)
        return workspace;
    pthread_once(&workspace_once, pattern_make_key);
    workspace = kg_alloc(sizeof(*workspace));
    workspace->data = pcre2_match_data_create(1, NULL);
    workspace->context = pcre2_match_context_create(NULL);
    if (workspace->data == NULL || workspace->context == NULL)
        abort();
    pcre2_set_heap_limit(workspace->context, HEAP_MAX_KIB);
    pthread_setspecific(workspace_key, workspace);
    return workspace;
}

static void drop_workspace(void)
{
    pthread_setspecific(workspace_key, NULL);
    free_workspace(workspace);
    workspace = NULL;
}

static int pattern_match(const struct schema_pattern *pattern, struct kg_str text, uint32_t steps)
{
    struct workspace *own = get_workspace();
    pcre2_set_match_limit(own->context, steps);
    return pcre2_match(pattern->code, (PCRE2_SPTR)(text.data ? text.data : ""), text.length, 0, 0,
                       own->data, own->context);
}

bool schema_pattern_match(const struct schema_pattern *pattern, struct kg_str text, uint64_t *work)
{
    if (pattern->automaton != NULL) {
        schema_work(work, 1 + text.length / 4);
        return schema_automaton_match(pattern->automaton, text);
    }
    int result = PCRE2_ERROR_MATCHLIMIT;
    uint64_t steps = STEPS_MIN + 4 * (uint64_t)text.length;
    for (bool last = false; result == PCRE2_ERROR_MATCHLIMIT && !last; steps *= STEPS_GROWTH) {
        schema_work(work, steps / STEPS_PRICE);
        if (*work == 0)
            return false;
        last = steps >= STEPS_MAX;
        result = pattern_match(pattern, text, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    }
    if (text.length > TEXT_LARGE)
        drop_workspace();
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        *work = 0;
    return result >= 0;
}
