/* What a config of git names, as far as hooks and further files go. Whatever is in it. */
#include "host/internal.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct row {
    const char *text, *hooks, *include; /* the first of each; NULL: none */
} rows[] = {
    {"", NULL, NULL},
    {"[core]\n\thooksPath = tools/hooks\n", "tools/hooks", NULL},
    {"[CORE]\nHOOKSPATH=a\n", "a", NULL},
    {"[core] hooksPath = a # why\n", "a", NULL},
    {"[core]\n hooksPath = \"a # b\" ; why\n", "a # b", NULL},
    {"[core]\r\nhooksPath = a\\\\b\r\n", "a\\b", NULL},
    {"[core]\n# hooksPath = a\n; hooksPath = b\n", NULL, NULL},
    {"[core]\nhooksPath\nhooksPath =\n", NULL, NULL},
    {"[other]\nhooksPath = a\n[core]\nbare = false\n", NULL, NULL},
    {"[core \"sub\"]\nx = y\n[include]\npath = ../a\n", NULL, "../a"},
    {"[includeIf \"gitdir:[x]/\"]\n\tpath = a\n", NULL, "a"},
    {"[core", NULL, NULL},
    {"[\"", NULL, NULL},
    {"[]=\n=\n", NULL, NULL},
    {"[core]\nhooksPath = \"a", "a", NULL},
    {"[core]\nhooksPath = a\\", "a\\", NULL},
};

static void values_are_read_as_git_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        char **hooks = kg_list_new(0), **includes = kg_list_new(0);
        guards_git_config(kg_str(rows[i].text), &hooks, &includes);
        const char *hook = hooks[0] ? hooks[0] : "none",
                   *include = includes[0] ? includes[0] : "none";
        assert_string_equal(hook, rows[i].hooks ? rows[i].hooks : "none");
        assert_string_equal(include, rows[i].include ? rows[i].include : "none");
        kg_list_free(hooks);
        kg_list_free(includes);
    }
}

static void lists_have_a_bound(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    char **hooks = kg_list_new(0), **includes = kg_list_new(0);
    kg_buf_text(&text, "[core]\n");
    for (size_t i = 0; i < 1000; i++)
        kg_buf_text(&text, "hooksPath = a\n");
    guards_git_config(kg_buf_view(&text), &hooks, &includes);
    assert_int_equal(kg_list_count(hooks), 16);
    kg_list_free(hooks);
    kg_list_free(includes);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_as_git_reads_them),
        cmocka_unit_test(lists_have_a_bound),
    };
    return cmocka_run_group_tests_name("guards git", tests, NULL, NULL);
}
