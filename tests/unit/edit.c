/*
 * One key changes and nothing else does: exact bytes for each form that a key can have, then every
 * key of whole corpora against a plain model, then files under the worst that can happen to them.
 */
#include "config/edit.h"
#include "base/doc.h"
#include "edit_model.h"
#include "folder.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* -- both formats ------------------------------------------------------------------------------ */

struct format {
    const char *name;
    struct kg_doc *(*read)(struct kg_str text, struct kg_err *err);
    int (*set)(struct kg_buf *text, const char *const *path, size_t path_count,
               const struct kg_node *value, struct kg_err *err);
    int (*remove)(struct kg_buf *text, const char *const *path, size_t path_count,
                  struct kg_err *err);
};

static const struct format toml = {"toml", kg_toml_read, edit_toml_set, edit_toml_remove};
static const struct format yaml = {"yaml", kg_yaml_read, edit_yaml_set, edit_yaml_remove};

/* value NULL removes. */
static int edit(const struct format *format, struct kg_buf *text, const char *const *path,
                size_t count, const struct kg_node *value, struct kg_err *err)
{
    return value ? format->set(text, path, count, value, err)
                 : format->remove(text, path, count, err);
}

/* -- exact bytes ------------------------------------------------------------------------------- */

/* value is JSON, NULL to remove the key. after NULL: refused, and why says how. */
struct row {
    const char *path; /* keys with slashes between them */
    const char *value;
    const char *before;
    const char *after;
    const char *why;
};

static void run_row(const struct format *format, const struct row *row)
{
    const char *path[64];
    size_t count = 0;
    struct kg_err err = {0};
    kg_auto(kg_free) char *keys = kg_strdup(row->path);
    for (char *rest = keys, *key = strsep(&rest, "/"); key != NULL; key = strsep(&rest, "/"))
        path[count++] = key;
    kg_auto(kg_doc_cleanup) struct kg_doc *value =
        row->value ? kg_json_read(kg_str(row->value), &err) : NULL;
    assert_true(row->value == NULL || value != NULL);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, row->before);
    int result = edit(format, &text, path, count, value ? value->root : NULL, &err);
    if (row->after != NULL && result < 0)
        fail_msg("%s in:\n%s", err.message, row->before);
    assert_int_equal(result < 0, row->after == NULL);
    assert_string_equal(kg_buf_terminate(&text), row->after ? row->after : row->before);
    if (row->after == NULL && strstr(err.message, row->why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, row->why);
}

static void run_rows(const struct format *format, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        run_row(format, &rows[i]);
}
#define RUN(format, rows) run_rows(&(format), rows, KG_COUNT(rows))

static void toml_values_change_in_their_place(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "2", "a = 1\n", "a = 2\n", 0},
        {"a", "\"x\"", "  a=1# one\nb = 2\n", "  a=\"x\"# one\nb = 2\n", 0},
        {"t/a", "true", "# t\n[t]\n\n\ta\t=\tfalse\t# no\n", "# t\n[t]\n\n\ta\t=\ttrue\t# no\n", 0},
        {"a", "1.5", "a = 1979-05-27 07:32:00Z # when\n", "a = 1.5 # when\n", 0},
        {"a", "\"n\"", "a = \"\"\"\nx # y\n\"\"\" # z\nb = 1", "a = \"n\" # z\nb = 1", 0},
        {"a", "\"q\\\"\\\\\\n\\u0000\\u007f\"", "a = 1", "a = \"q\\\"\\\\\\n\\u0000\\u007F\"", 0},
        {"a", "\"C:\\\\x\"", "a = 'C:\\y'\n", "a = 'C:\\x'\n", 0},
        {"a", "\"it's\"", "a = 'C:\\y'\n", "a = \"it's\"\n", 0},
        {"x y/\xC3\xA9", "1", "['x y']\n\"\\u00e9\" = 2\n", "['x y']\n\"\\u00e9\" = 1\n", 0},
        {"a/b", "1", "a.b = 2 # c\na.c = 3\n", "a.b = 1 # c\na.c = 3\n", 0},
        {"t/a", "1", "t = {a = 2, b.c = 3} # t\n", "t = {a = 1, b.c = 3} # t\n", 0},
        {"t/b/c", "1", "t = {a = 2, b.c = 3} # t\n", "t = {a = 2, b.c = 1} # t\n", 0},
        {"t/b/c", "1", "t = {a = 2, b = { c = 3 }}\n", "t = {a = 2, b = { c = 1 }}\n", 0},
        {"a", "2",
         "\xEF\xBB\xBF"
         "a = 1\n",
         "\xEF\xBB\xBF"
         "a = 2\n",
         0},
        {"a", "1", "a = 1 # same\r\n", "a = 1 # same\r\n", 0},
        {"a", "{\"k\":[1,{}],\"a b\":\"v\"}", "a = 1 # c", "a = {k = [1, {}], \"a b\" = \"v\"} # c",
         0},
    };
    RUN(toml, rows);
}

static void toml_lists_keep_the_items_that_stay(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "[1,2,3]", "a = [1, 2]\n", "a = [1, 2, 3]\n", 0},
        {"a", "[0,1,2]", "a = [ 1, 2 ]\n", "a = [ 0, 1, 2 ]\n", 0},
        {"a", "[1,3]", "a = [1, 2, 3]\n", "a = [1, 3]\n", 0},
        {"a", "[1,2]", "a = [1, 2, 3,]\n", "a = [1, 2,]\n", 0},
        {"a", "[]", "a = [1, 2]\n", "a = []\n", 0},
        {"a", "[1]", "a = [ ]\n", "a = [1]\n", 0},
        {"a", "[1,4,3]", "a = [1, 2, 3]\n", "a = [1, 4, 3]\n", 0},
        {"a", "[\"x\",\"y\"]", "a = [\n  \"x\", # first\n]\n",
         "a = [\n  \"x\", # first\n  \"y\",\n]\n", 0},
        {"a", "[\"x\",\"y\",\"z\"]", "a = [\n  \"x\" # first\n]\n",
         "a = [\n  \"x\", # first\n  \"y\",\n  \"z\"\n]\n", 0},
        {"a", "[\"x\",\"z\"]", "a = [\n  \"x\",\n  # why\n  \"y\", # second\n  \"z\",\n]\n",
         "a = [\n  \"x\",\n  # why\n  \"z\",\n]\n", 0},
        {"a", "[\"y\",\"x\"]", "a = [\r\n\t\"x\", # x\r\n]",
         "a = [\r\n\t\"y\",\r\n\t\"x\", # x\r\n]", 0},
    };
    RUN(toml, rows);
}

static void toml_keys_are_added_behind_the_last_of_their_table(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "1", "", "a = 1\n", 0},
        {"b", "2", "a = 1", "a = 1\nb = 2\n", 0},
        {"b", "2", "a = 1 # a\n\n# t\n[t]\n", "a = 1 # a\nb = 2\n\n# t\n[t]\n", 0},
        {"a", "1", "# file\n\n# t\n[t]\n", "# file\n\na = 1\n\n# t\n[t]\n", 0},
        {"a", "1", "# file\n[t]\nb = 1\n", "# file\na = 1\n\n[t]\nb = 1\n", 0},
        {"a", "1", "# nothing yet", "# nothing yet\na = 1\n", 0},
        {"t/b", "2", "[t]\n  a = [\n  1 ] # a\n\n# u\n[u]\n",
         "[t]\n  a = [\n  1 ] # a\n  b = 2\n\n# u\n[u]\n", 0},
        {"t/b", "2", "[t] # empty\n[u]\r\n", "[t] # empty\nb = 2\n[u]\r\n", 0},
        {"t/b", "2", "[t]\r\na = 1\r\n[t.u]\r\n", "[t]\r\na = 1\r\nb = 2\r\n[t.u]\r\n", 0},
        {"t/b", "2", "x = 1\n", "x = 1\n\n[t]\nb = 2\n", 0},
        {"t/b", "2", "x = 1\n\n", "x = 1\n\n[t]\nb = 2\n", 0},
        {"t/b", "2", "[t.u]\nx = 1", "[t.u]\nx = 1\n\n[t]\nb = 2\n", 0},
        {"plugins/@kaged/memory.x/on", "true", "", "[plugins.\"@kaged\".\"memory.x\"]\non = true\n",
         0},
        {"t/a/c", "2", "[t]\na . b = 1\nz = 1\n", "[t]\na . b = 1\na . c = 2\nz = 1\n", 0},
        {"t/a/c/d", "2", "[t]\na.b = 1\n", "[t]\na.b = 1\na.c = {d = 2}\n", 0},
        {"t/b", "2", "t = {a = 1} # t\n", "t = {a = 1, b = 2} # t\n", 0},
        {"t/b/c", "2", "t = { }\n", "t = {b = {c = 2} }\n", 0},
        {"t/a/c", "2", "t = { a.b = 1 }\n", "t = { a.b = 1, a.c = 2 }\n", 0},
        {"t/u", "{\"a\":1,\"v\":{\"w\":{}},\"b\":[2]}", "[t]\n",
         "[t]\n\n[t.u]\na = 1\nb = [2]\n\n[t.u.v.w]\n", 0},
        {"\"", "1", "[[a]]\n", "\"\\\"\" = 1\n\n[[a]]\n", 0},
        {"", "1", "", "\"\" = 1\n", 0},
    };
    RUN(toml, rows);
}

static void toml_keys_are_removed_with_their_lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", NULL, "# a\na = 1 # one\n\nb = 2\n", "# a\n\nb = 2\n", 0},
        {"b", NULL, "a = 1\r\nb = '''\r\n x\r\n''' # b\r\nc = 3", "a = 1\r\nc = 3", 0},
        {"b", NULL, "a = 1\nb = 2", "a = 1", 0},
        {"b", NULL, "a = 1\n\r\nb = 2", "a = 1\n", 0}, /* line breaks of both kinds */
        {"a", NULL, "a = 1", "", 0},
        {"t/a", NULL, "[t] # t\na = 1\n", "[t] # t\n", 0},
        {"t", NULL, "x = 1\n# t\n[t]\na = 1\n# in t\nb = 2\n\n# u\n[u]\n[t.v]\nz = 1\n",
         "x = 1\n# t\n\n# u\n[u]\n", 0},
        {"t", NULL, "[[t]]\na = 1\n[t.u]\n[v]\n[[t]]\n", "[v]\n", 0},
        {"t", NULL, "t.a = 1\nx = 2\nt.b.c = 3\n", "x = 2\n", 0},
        {"t/b", NULL, "t.a = 1\nx = 2\nt.b.c = 3\n", "t.a = 1\nx = 2\n", 0},
        {"t/u/a", NULL, "x = 1\nt.u.a = 1\n", "x = 1\n", 0},
        {"t/a", NULL, "t = {a = 1, b = 2}\n", "t = {b = 2}\n", 0},
        {"t/b", NULL, "t = { a = 1, b = 2 }\n", "t = { a = 1 }\n", 0},
        {"t/a", NULL, "t = { a = 1 } # t\n", "t = {} # t\n", 0},
        {"t/a", NULL, "t = { x = 0, a.b = 1, y = 1, a.c = 2 }\n", "t = { x = 0, y = 1 }\n", 0},
    };
    RUN(toml, rows);
}

static void toml_tables_change_key_by_key(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"t", "{\"b\":3,\"c\":4}", "[t] # t\na = 1 # a\n# b\nb = 2 # b\n[u]\n",
         "[t] # t\n# b\nb = 3 # b\nc = 4\n[u]\n", 0},
        {"t", "{}", "[t]\na = 1\n[t.u]\nx = 1\n", "[t]\n", 0},
        {"t", "{}", "x = 1\nt.a = 1\n", "x = 1\n\n[t]\n", 0},
        {"t", "5", "x = 1\n[t]\na = 1\n[u]\n", "x = 1\nt = 5\n[u]\n", 0},
        {"t", "5", "t.a = 1\nt.b = 2", "t = 5\n", 0},
        {"t/u", "5", "[t.u]\na = 1\n[x]\n", "[x]\n\n[t]\nu = 5\n", 0},
        {"t", "[1]", "[[t]]\na = 1\n[[t]]\n", "t = [1]\n\n", 0},
        {"t/a", "5", "t = {a.b = 1, c = 2}\n", "t = {c = 2, a = 5}\n", 0},
        {"t", "{\"u\":{\"a\":2},\"v\":{\"b\":1}}", "[t.u]\na = 1\n",
         "[t.u]\na = 2\n\n[t.v]\nb = 1\n", 0},
    };
    RUN(toml, rows);
}

static void toml_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "null", "a = 1\n", NULL, "set a: TOML has no null"},
        {"a", "[{\"b\":null}]", "a = 1\n", NULL, "TOML has no null"},
        {"a/b", "1", "a = 1\n", NULL, "set a.b: a on line 1 is a number, not a map of keys"},
        {"a/b", "1", "[[a]]\nb = 2\n", NULL, "set a.b: a on line 1 is an array, not a map"},
        {"a/b", NULL, "a = 1\n", NULL, "remove a.b: there is no such key"},
        {"b", NULL, "a = 1\n", NULL, "remove b: there is no such key"},
        {"b", "99999999999999999999", "a = 1\n", NULL, "does not fit in 64 bits"},
        {"b", "1", "a = \n", NULL, "1:5: the line ends where a value was expected"},
    };
    RUN(toml, rows);
}

static void yaml_values_change_in_their_place(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "2", "a: 1\n", "a: 2\n", 0},
        {"a", "\"x\"", "a:   1   # one\nb: 2", "a:   x   # one\nb: 2", 0},
        {"a", "\"x\"", "a: 'o' # c\r\nb: 2\r\n", "a: 'x' # c\r\nb: 2\r\n", 0},
        {"a", "\"x\"", "a: \"o\"\n", "a: \"x\"\n", 0},
        {"a", "\"yes\"", "a: o\n", "a: \"yes\"\n", 0},
        {"a", "\"0.2.0\"", "a: 0.1.0\n", "a: 0.2.0\n", 0},
        {"a", "\"a: b\"", "a: o\n", "a: \"a: b\"\n", 0},
        {"a", "\"1\"", "a: 1\n", "a: \"1\"\n", 0},
        {"a", "\"it's\"", "a: 'o'\n", "a: 'it''s'\n", 0},
        {"a", "\"l1\\nl2\\u0085\\u2028\"", "a: 'o'\n", "a: \"l1\\nl2\\u0085\\u2028\"\n", 0},
        {"a", "null", "a: x # c\n", "a: null # c\n", 0},
        {"a", "1", "a: # c\nb: 2\n", "a: 1 # c\nb: 2\n", 0},
        {"b", "1", "a:\nb:", "a:\nb: 1", 0},
        {"a", "\"x\"", "a: one\n  two\n  three # c\nb: 2\n", "a: x # c\nb: 2\n", 0},
        {"a", "\"x\"", "a: >-  # c\n  one\n\n  two\n\n# b\nb: 2\n", "a: x  # c\n\n# b\nb: 2\n", 0},
        {"a", "\"x\"", "a: |+\n  one\n\nb: 2\n", "a: x\nb: 2\n", 0},
        {"a", "\"x\"", "b: 1\na: |\n  one", "b: 1\na: x", 0},
        {"a/b", "1", "a:\n    b: 0 # b\n    c: 2\n", "a:\n    b: 1 # b\n    c: 2\n", 0},
        {"a/b", "1", "a: { b: 0, c: 2 } # a\n", "a: { b: 1, c: 2 } # a\n", 0},
        {"a/b", "1", "a: {b: , c}\n", "a: {b: 1 , c}\n", 0},
        {"a/c", "1", "a: {b: , c}\n", "a: {b: , c: 1}\n", 0},
        {"a/b", "\"x\"", "a: {\"b\":0}\n", "a: {\"b\":\"x\"}\n", 0},
        {"\xC3\xA9/x y", "1", "# \xC3\xA9\n\xC3\xA9:\n  \"x y\": '\xC3\xA9' # c\n",
         "# \xC3\xA9\n\xC3\xA9:\n  \"x y\": 1 # c\n", 0},
        {"a", "2",
         "\xEF\xBB\xBF"
         "a: 1\n",
         "\xEF\xBB\xBF"
         "a: 2\n",
         0},
    };
    RUN(yaml, rows);
}

static void yaml_collections_give_way_to_others(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "1", "a: # c\n  b: 1\n  # b\n  d: 2\n  # end\nz: 0\n", "a: 1 # c\nz: 0\n", 0},
        {"a", "1", "a:\n- x\n- y\nz: 0\n", "a: 1\nz: 0\n", 0},
        {"a", "[]", "a:\n  - x\n", "a: []\n", 0},
        {"a", "{\"b\":1}", "a: 0 # c\nz:\n    y: 1\n", "a: # c\n    b: 1\nz:\n    y: 1\n", 0},
        {"a", "{\"b\":1}", "a: {}", "a:\n  b: 1\n", 0},
        {"a", "{\"b\":1}", "a: |\n  x\n  y\nz: 1\n", "a:\n  b: 1\nz: 1\n", 0},
        {"a", "{\"b\":1}", "a:\n- x\nz: 1\n", "a:\n  b: 1\nz: 1\n", 0},
        {"a", "[{\"b\":1,\"c\":[1,2]},\"x\"]", "z:\n- 1\na: x\n",
         "z:\n- 1\na:\n- b: 1\n  c: [1, 2]\n- x\n", 0},
        {"a", "{\"c\":3,\"d\":4}", "a:\n  b: 1 # b\n  # c\n  c: 2 # c\nz: 0\n",
         "a:\n  # c\n  c: 3 # c\n  d: 4\nz: 0\n", 0},
        {"a", "{\"c\":{\"d\":1}}", "a: {b: 1, c: 2} # c\n", "a: {c: {d: 1}} # c\n", 0},
        {"a", "{\"b\":{\"c\":1}}", "a: {b: {c: 2, d: 3}}\n", "a: {b: {c: 1}}\n", 0},
    };
    RUN(yaml, rows);
}

static void yaml_lists_keep_the_items_that_stay(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "[1,2,3]", "a: [1, 2] # c\n", "a: [1, 2, 3] # c\n", 0},
        {"a", "[\"x\",\"y\"]", "a: [\"x\"]\n", "a: [\"x\", \"y\"]\n", 0},
        {"a", "[2]", "a: [ 1, 2 ]\n", "a: [ 2 ]\n", 0},
        {"a", "[1,2]", "a: [\n  1, # one\n  3, # three\n]\n", "a: [\n  1, # one\n  2, # three\n]\n",
         0},
        {"a", "[\"x\",\"w\"]", "a:\n  - x # x\n  # - old\nb: 1\n",
         "a:\n  - x # x\n  - w\n  # - old\nb: 1\n", 0},
        {"a", "[\"x\",\"z\"]", "a:\n- x # x\n# y\n- y # y\n- z # z\n",
         "a:\n- x # x\n# y\n- z # z\n", 0},
        {"a", "[\"w\",\"x\"]", "a:\n    - 'x'\n", "a:\n    - 'w'\n    - 'x'\n", 0},
        {"a", "[\"x\",\"q\",\"z\"]", "a:\n- x\n- y # y\n- z\n", "a:\n- x\n- q # y\n- z\n", 0},
        {"a", "[{\"k\":1},{\"k\":3,\"m\":4}]", "a:\n  - k: 1 # one\n  - k: 2\n    m: 3\nb: 0\n",
         "a:\n  - k: 1 # one\n  - k: 3\n    m: 4\nb: 0\n", 0},
        {"a", "[{\"n\":1}]", "a:\n  - n: 1 # one\n  - n: 2\n    m: 3", "a:\n  - n: 1 # one", 0},
        {"a", "[\"x\",\"w\"]", "a:\r\n  - x", "a:\r\n  - x\r\n  - w\r\n", 0},
    };
    RUN(yaml, rows);
}

static void yaml_keys_are_added_at_the_end_of_their_map(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "1", "", "a: 1\n", 0},
        {"a", "1", "# nothing yet", "# nothing yet\na: 1\n", 0},
        {"a", "1", "---\n# nothing yet\n", "---\n# nothing yet\na: 1\n", 0},
        {"a/b", "1", "{} # c\n", "a:\n  b: 1 # c\n", 0},
        {"b", "2", "a: 1", "a: 1\nb: 2\n", 0},
        {"b", "2", "a: 1 # a\n\n# end\n", "a: 1 # a\nb: 2\n\n# end\n", 0},
        {"b", "2", "a:\n  - x\n  # - y\n# end\n", "a:\n  - x\n  # - y\nb: 2\n# end\n", 0},
        {"b", "2", "---\na: |\n  x\n\n...\n", "---\na: |\n  x\nb: 2\n\n...\n", 0},
        {"a/c", "2", "a:\n   b: 1\nz: 0\n", "a:\n   b: 1\n   c: 2\nz: 0\n", 0},
        {"a/c/d/e", "\"x\"", "a:\n   b: 1\nz: 0\n",
         "a:\n   b: 1\n   c:\n      d:\n         e: x\nz: 0\n", 0},
        {"a/b", "1", "a: # soon\nz: 0\n", "a: # soon\n  b: 1\nz: 0\n", 0},
        {"a/b", "1", "a: {} # soon\r\nz: 0\r\n", "a: # soon\r\n  b: 1\r\nz: 0\r\n", 0},
        {"a/b", "1", "a: ~\n", "a:\n  b: 1\n", 0},
        {"a/b/c", "1", "a: {b: {}}\n", "a: {b: {c: 1}}\n", 0},
        {"a/c", "\"x\"", "a: { b: 1 } # a\n", "a: { b: 1, c: x } # a\n", 0},
        {"c", "\"x\"", "{\"b\": 1}\n", "{\"b\": 1, \"c\": \"x\"}\n", 0},
        {"c", "{\"d\":\"x\"}", "{\n  \"b\": 1\n}\n", "{\n  \"b\": 1,\n  \"c\": {\"d\": \"x\"}\n}\n",
         0},
        {"c", "2", "{\n  b: 1, # b\n}\n", "{\n  b: 1, # b\n  c: 2,\n}\n", 0},
        {"net: x", "[]", "a: 1\n", "a: 1\n\"net: x\": []\n", 0},
    };
    RUN(yaml, rows);
}

static void yaml_keys_are_removed_with_their_lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", NULL, "# a\na: 1 # one\n\nb: 2\n", "# a\n\nb: 2\n", 0},
        {"b", NULL, "a: 1\nb: 2", "a: 1", 0},
        {"a", NULL, "a: 1 # gone\n# end\n", "{}\n# end\n", 0},
        {"b", NULL, "a: 1\r\nb: >\r\n  x\r\n\r\n  y\r\n\r\nc: 3\r\n", "a: 1\r\n\r\nc: 3\r\n", 0},
        {"b", NULL, "a: 1\nb: |\n  x\n\n  y", "a: 1", 0},
        {"b", NULL, "a: 1\nb: # b\n  c:\n    - x\n    # - y\n  # d\n# e\ne: 1\n",
         "a: 1\n# e\ne: 1\n", 0},
        {"b", NULL, "a: 1\nb:\n- x\n- y: 1\n  z: 2\nc: 1\n", "a: 1\nc: 1\n", 0},
        {"a/b", NULL, "a: # a\n  b: 1\nz: 0\n", "a: {} # a\nz: 0\n", 0},
        {"a/b", NULL, "a: {b: 1, c: 2} # a\n", "a: {c: 2} # a\n", 0},
        {"a/c", NULL, "a: { b: 1, c: 2 } # a\n", "a: { b: 1 } # a\n", 0},
        {"a/b", NULL, "a: { b: 1, }\n", "a: {}\n", 0},
        {"a/c", NULL, "a: {\n  b: 1, # b\n  c: 2 # c\n}\n", "a: {\n  b: 1, # b\n}\n", 0},
    };
    RUN(yaml, rows);
}

static void yaml_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a", "1", "x: 0\na: &k 2\nb: *k\n", NULL, "set a: line 2 has an anchor"},
        {"b", "1", "a: &k 2\nb: *k\n", NULL, "line 2 has an anchor or is an alias"},
        {"b", NULL, "a: &k 2\nb: *k\n", NULL, "has an anchor or is an alias"},
        {"a/x", "1", "a: &k\n  x: 2\nb: *k\n", NULL, "has an anchor or is an alias"},
        {"b/x", "1", "a: &k\n  x: 2\nb: *k\n", NULL, "has an anchor or is an alias"},
        {"a/y", "1", "a: &k {x: 2}\nb: *k\n", NULL, "has an anchor or is an alias"},
        {"a", "1", "a:\n  - &k 2\nb: *k\n", NULL, "has an anchor or is an alias"},
        {"a", NULL, "? a\n: 1\nb: 2\n", NULL, "that kaged does not edit"},
        {"a/b", "1", "a: [1]\n", NULL, "set a.b: a on line 1 is an array, not a map of keys"},
        {"a", "1", "- x\n", NULL, "set a: the text on line 1 is an array"},
        {"b", NULL, "a: 1\n", NULL, "remove b: there is no such key"},
        {"a", "1", "a: [\n", NULL, "did not find"},
        {"b", "99999999999999999999", "a: 1\n", NULL, "does not fit in 64 bits"},
    };
    RUN(yaml, rows);
}

static void a_key_that_an_alias_does_not_repeat_is_still_edited(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"c", "1", "a: &k 2\nb: *k\nc: 0\n", "a: &k 2\nb: *k\nc: 1\n", 0},
        {"d", "1", "a: &k 2\nb: *k\n", "a: &k 2\nb: *k\nd: 1\n", 0},
    };
    RUN(yaml, rows);
}

static void a_path_needs_one_to_63_keys(void **state)
{
    (void)state;
    struct kg_err err = {0};
    const char *path[64];
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 0; i < KG_COUNT(path); i++)
        path[i] = "k";
    assert_true(edit_toml_remove(&text, path, 0, &err) < 0);
    assert_int_equal(err.code, KG_E_USAGE);
    assert_true(edit_yaml_remove(&text, path, 64, &err) < 0);
    assert_int_equal(err.code, KG_E_USAGE);
}

static void values_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_node value = {.type = KG_STRING, .text = {"\xFF", 1}};
    const char *bad_key = "\xC0";
    const char *key = "k";
    assert_true(edit_toml_set(&text, &key, 1, &value, &err) < 0);
    assert_true(edit_yaml_set(&text, &key, 1, &value, &err) < 0);
    value.text = KG_STR("x");
    assert_true(edit_yaml_set(&text, &bad_key, 1, &value, &err) < 0);
    assert_int_equal(err.code, KG_E_INVALID_PARAMS);
}

/* A number is any text that the caller says it is; only what reads as that number gets in. */
static void a_value_cannot_smuggle_in_a_second_key(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_node value = {.type = KG_NUMBER, .text = KG_STR("1\nadmin = true")};
    const char *key = "k";
    kg_buf_text(&text, "k = 0\n");
    assert_true(edit_toml_set(&text, &key, 1, &value, &err) < 0);
    assert_non_null(strstr(err.message, "more than this key"));
    assert_string_equal(kg_buf_terminate(&text), "k = 0\n");
}

static void a_toml_date_stays_a_date(void **state)
{
    (void)state;
    const char *key = "k";
    struct kg_err err = {0};
    struct kg_node value = {
        .type = KG_STRING, .flavor = KG_DATE_LOCAL, .text = KG_STR("2026-11-15")};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    assert_int_equal(edit_toml_set(&text, &key, 1, &value, &err), 0);
    assert_string_equal(kg_buf_terminate(&text), "k = 2026-11-15\n");
    assert_true(edit_yaml_set(&text, &key, 1, &value, &err) < 0);
}

/* -- every key of a corpus --------------------------------------------------------------------- */

#define KEYS_PER_FILE 40

struct corpus {
    const struct format *format;
    size_t done;
    size_t refused;
    size_t anchored;        /* refused as they must be: an alias repeats what they would touch */
    struct kg_map *reasons; /* what a refusal says: how often */
    struct kg_doc *values;  /* a list of those that keys are set to */
};

/* Both 1-based. */
struct place {
    uint32_t line;
    uint32_t column;
};

/* One edit of one file. */
struct trial {
    struct corpus *corpus;
    const char *file;
    struct kg_str text;
    const struct kg_node *root;
    const char *path[64];
    size_t count;
    struct place first; /* of what it may touch: the line of its key */
    struct place next;  /* of the key or value that comes behind it; line 0: none does */
};

static char *reason_of(const struct kg_err *err)
{
    const char *colon = strchr(err->message, ':');
    struct kg_buf out = {0};
    for (const char *at = colon ? colon + 2 : err->message; *at; at++)
        if (*at < '0' || *at > '9')
            kg_buf_char(&out, *at);
    return kg_buf_terminate(&out);
}

static void count_refusal(struct corpus *corpus, const struct kg_err *err)
{
    kg_auto(kg_free) char *reason = reason_of(err);
    size_t before = (size_t)kg_map_get(corpus->reasons, kg_str(reason));
    kg_map_set(corpus->reasons, kg_str(reason), (void *)(before + 1));
    if (strstr(reason, "has an anchor") != NULL)
        corpus->anchored++;
    else
        corpus->refused++;
}

static size_t offset_of(struct kg_str text, struct place place)
{
    size_t at = kg_str_starts(text, "\xEF\xBB\xBF") ? 3 : 0;
    for (uint32_t line = 1; line < place.line && at < text.length;)
        line += text.data[at++] == '\n';
    return at + place.column - 1;
}

/* All before the first line of the key and all from the next key on is there byte for byte. */
static void check_bytes(const struct trial *trial, struct kg_str after)
{
    struct kg_str before = trial->text;
    size_t head = offset_of(before, (struct place){trial->first.line, 1});
    while (head > 0 && (before.data[head - 1] == '\n' || before.data[head - 1] == '\r'))
        head--; /* the last line may go with the line break before it */
    size_t tail = trial->next.line ? before.length - offset_of(before, trial->next) : 0;
    struct kg_str head_now = {after.data, head};
    struct kg_str tail_now = {after.data + after.length - tail, tail};
    if (after.length < head + tail || !kg_str_equal((struct kg_str){before.data, head}, head_now) ||
        !kg_str_equal((struct kg_str){before.data + before.length - tail, tail}, tail_now))
        fail_msg("%s: bytes beside lines %u to %u changed:\n%.*s\n-- became --\n%.*s", trial->file,
                 trial->first.line, trial->next.line, KG_STR_ARG(before), KG_STR_ARG(after));
}

/* Whether every byte of before is still there, in its order. */
static bool keeps_all(struct kg_str before, struct kg_str after)
{
    size_t found = 0;
    for (size_t i = 0; i < after.length && found < before.length; i++)
        found += after.data[i] == before.data[found];
    return found == before.length;
}

static void check_tree(const struct trial *trial, const struct kg_node *value, struct kg_str after)
{
    struct kg_err err = {0};
    struct kg_arena *arena = kg_arena_new();
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = trial->corpus->format->read(after, &err);
    size_t drop_max = trial->corpus->format == &toml ? trial->count - 1 : 0;
    bool same = false;
    for (size_t drop = 0; doc && !same && drop <= drop_max; drop++) {
        struct kg_node expected =
            edit_model(arena, trial->root, trial->path, trial->count, value, drop);
        same = edit_model_same(doc->root, &expected);
    }
    kg_arena_free(arena);
    if (!same)
        fail_msg("%s: %s.. is not as expected %s:\n%.*s\n-- became --\n%.*s", trial->file,
                 trial->path[0], err.message, KG_STR_ARG(trial->text), KG_STR_ARG(after));
}

/* only_adds: no byte of the text may go. */
static void run_trial(struct trial *trial, const struct kg_node *value, bool only_adds)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_str(&text, trial->text);
    if (edit(trial->corpus->format, &text, trial->path, trial->count, value, &err) < 0) {
        count_refusal(trial->corpus, &err);
        assert_true(kg_str_equal(kg_buf_view(&text), trial->text));
        return;
    }
    trial->corpus->done++;
    check_tree(trial, value, kg_buf_view(&text));
    if (only_adds && !keeps_all(trial->text, kg_buf_view(&text)))
        fail_msg("%s: adding took bytes away:\n%.*s\n-- became --\n%.*s", trial->file,
                 KG_STR_ARG(trial->text), KG_STR_ARG(kg_buf_view(&text)));
    if (!only_adds)
        check_bytes(trial, kg_buf_view(&text));
}

static bool is_behind(struct place a, struct place b)
{
    return a.line > b.line || (a.line == b.line && a.column > b.column);
}

/* The nearest place behind last, of a key or a scalar that is not within skip. */
static void find_next(const struct kg_node *node, const struct kg_node *skip, struct place last,
                      struct place *next)
{
    for (uint32_t i = 0; edit_model_container(node) && i < node->count; i++) {
        bool map = node->type == KG_OBJECT;
        const struct kg_node *child = map ? &node->members[i].value : &node->items[i];
        struct place place = {child->line, child->column};
        if (map)
            place = (struct place){node->members[i].key_line, node->members[i].key_column};
        if (child == skip)
            continue;
        if (is_behind(place, last) && (next->line == 0 || is_behind(*next, place)))
            *next = place;
        find_next(child, skip, last, next);
    }
}

/*
 * Sets the key to each value, then removes it. An emptied YAML map becomes {} on the line of its
 * own key.
 */
static void try_key(struct trial *trial, const struct kg_node *map, uint32_t map_line,
                    const struct kg_member *member)
{
    const struct kg_node *values = trial->corpus->values->root;
    struct place start = {member->value.line, member->value.column};
    trial->first = (struct place){member->key_line, 1};
    trial->next = (struct place){0};
    find_next(trial->root, &member->value, start, &trial->next);
    for (uint32_t i = 0; i < values->count; i++)
        run_trial(trial, &values->items[i], false);
    if (trial->corpus->format == &yaml && map->count == 1)
        trial->first.line = map_line;
    run_trial(trial, NULL, false);
}

static void try_new_key(struct trial *trial, const struct kg_node *map)
{
    trial->path[trial->count++] = "brand new";
    const struct kg_node *values = trial->corpus->values->root;
    bool fills_empty = trial->corpus->format == &yaml && map->count == 0; /* {} becomes a block */
    if (kg_node_get(map, "brand new") == NULL && !fills_empty)
        run_trial(trial, &values->items[0], true);
    trial->count--;
}

/* Whether a value surely stands in one place, so that the lines it may touch are known. */
static bool is_leaf(const struct kg_node *node)
{
    return !edit_model_container(node) ||
           (node->type == KG_ARRAY && (node->count == 0 || node->items[0].type != KG_OBJECT));
}

static void try_map(struct trial *trial, const struct kg_node *map, uint32_t map_line,
                    size_t *budget)
{
    try_new_key(trial, map);
    for (uint32_t i = 0; i<map->count && * budget> 0; i++) {
        const struct kg_member *member = &map->members[i];
        kg_auto(kg_free) char *key = kg_str_dup(member->key);
        if (strlen(key) != member->key.length || trial->count > 60)
            continue;
        trial->path[trial->count++] = key;
        --*budget;
        if (member->value.type == KG_OBJECT)
            try_map(trial, &member->value, member->key_line, budget);
        if (is_leaf(&member->value))
            try_key(trial, map, map_line, member);
        trial->count--;
    }
}

static void try_file(const char *path, struct kg_str text, void *data)
{
    struct trial trial = {.corpus = data, .file = path, .text = text};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = trial.corpus->format->read(text, NULL);
    if (doc == NULL || doc->root->type != KG_OBJECT)
        return;
    size_t budget = KEYS_PER_FILE;
    trial.root = doc->root;
    try_map(&trial, doc->root, 1, &budget);
}

static void report_corpus(struct corpus *corpus)
{
    struct kg_str reason;
    size_t position = 0;
    void *times;
    printf("# %s edits: %zu done, %zu refused\n", corpus->format->name, corpus->done,
           corpus->refused + corpus->anchored);
    while (kg_map_next(corpus->reasons, &position, &reason, &times))
        printf("#   refused %zu times: %.*s\n", (size_t)times, KG_STR_ARG(reason));
    kg_map_free(corpus->reasons);
    kg_doc_free(corpus->values);
    assert_true(corpus->done > 0 && corpus->refused * 100 < corpus->done);
}

static void every_key_of_toml_test_can_be_edited(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = suite_path("toml-test/tests/valid");
    if (folder == NULL)
        return suite_skip(__func__, "toml-test");
    struct corpus corpus = {.format = &toml, .reasons = kg_map_new()};
    corpus.values =
        kg_json_read(KG_STR("[\"te\\\"xt\\n\",42,1.5e-7,true,[1,[\"x\"]],{\"k k\":{}}]"), NULL);
    suite_each_file(folder, ".toml", try_file, &corpus);
    report_corpus(&corpus);
}

static void every_key_of_the_yaml_files_can_be_edited(void **state)
{
    (void)state;
    struct corpus corpus = {.format = &yaml, .reasons = kg_map_new()};
    corpus.values = kg_json_read(
        KG_STR("[\"te\\\"xt\\n\",\"plain\",42,-0.5,true,null,[1,\"x y\"],{\"k: k\":{\"l\":[{}]}}]"),
        NULL);
    assert_true(suite_each_file("tests/unit/data/yaml", ".yaml", try_file, &corpus) >= 10);
    report_corpus(&corpus);
}

/* -- files ------------------------------------------------------------------------------------- */

struct fixture {
    char root[64], file[96];
    struct kg_err err;
    bool mounted;
};

static int set_up(void **data)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    snprintf(fixture->root, sizeof(fixture->root), "/tmp/kaged-edit-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->file, sizeof(fixture->file), "%s/config.toml", fixture->root);
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    if (fixture->mounted)
        umount2(fixture->root, MNT_DETACH);
    folder_remove(fixture->root);
    free(fixture);
    return 0;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

static void assert_file(const char *path, const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (kg_read_file(path, KG_DOC_BYTES_MAX, &text, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(kg_buf_terminate(&text), expected);
}

/* How many names the folder of the fixture has, hidden ones too. */
static size_t count_names(const struct fixture *fixture)
{
    glob_t found;
    kg_auto(kg_free) char *pattern = kg_format("%s/*", fixture->root);
    glob(pattern, GLOB_PERIOD, NULL, &found);
    size_t count = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        count += strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    }
    globfree(&found);
    return count;
}

/* data is a key; it gets the value 1. */
static int set_key(struct kg_buf *text, void *data, struct kg_err *err)
{
    const char *key = data;
    struct kg_node one = {.type = KG_NUMBER, .text = KG_STR("1")};
    return edit_toml_set(text, &key, 1, &one, err);
}

static int fail_change(struct kg_buf *text, void *data, struct kg_err *err)
{
    (void)data;
    kg_buf_text(text, "half");
    return kg_fail(err, KG_E_REFUSED, "not today");
}

static void a_missing_file_is_made_for_its_owner_alone(void **data)
{
    struct fixture *fixture = *data;
    struct stat status;
    mode_t mask = umask(0);
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"a", &fixture->err), 0);
    umask(mask);
    assert_file(fixture->file, "a = 1\n");
    assert_int_equal(stat(fixture->file, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(count_names(fixture), 1);
}

static void mode_and_owner_stay(void **data)
{
    struct fixture *fixture = *data;
    struct stat status;
    uid_t owner = geteuid() == 0 ? 12345 : geteuid();
    gid_t group = geteuid() == 0 ? 23456 : getegid();
    write_file(fixture->file, "a = 0\n", 0640);
    assert_int_equal(chown(fixture->file, owner, group), 0);
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"a", &fixture->err), 0);
    assert_file(fixture->file, "a = 1\n");
    assert_int_equal(stat(fixture->file, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_int_equal(status.st_uid, owner);
    assert_int_equal(status.st_gid, group);
}

static void a_link_stays_and_its_target_is_edited(void **data)
{
    struct fixture *fixture = *data;
    struct stat status;
    kg_auto(kg_free) char *below = kg_format("%s/real", fixture->root);
    kg_auto(kg_free) char *target = kg_format("%s/real/file", fixture->root);
    assert_int_equal(mkdir(below, 0700), 0);
    assert_int_equal(symlink("real/file", fixture->file), 0);
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"a", &fixture->err), 0);
    assert_file(target, "a = 1\n");
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"b", &fixture->err), 0);
    assert_file(target, "a = 1\nb = 1\n");
    assert_int_equal(lstat(fixture->file, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
}

static void links_in_a_circle_are_refused(void **data)
{
    struct fixture *fixture = *data;
    assert_int_equal(symlink("config.toml", fixture->file), 0);
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"a", &fixture->err), -ELOOP);
}

static void a_change_that_fails_leaves_the_file(void **data)
{
    struct fixture *fixture = *data;
    write_file(fixture->file, "a = 0\n", 0600);
    assert_true(edit_file(fixture->file, fail_change, NULL, &fixture->err) < 0);
    kg_auto(kg_free) char *expected = kg_format("edit %s: not today", fixture->file);
    assert_string_equal(fixture->err.message, expected);
    assert_file(fixture->file, "a = 0\n");
    assert_int_equal(count_names(fixture), 1);
}

static void a_text_that_stays_is_not_written(void **data)
{
    struct fixture *fixture = *data;
    struct stat before, after;
    write_file(fixture->file, "a = 1\n", 0600);
    assert_int_equal(stat(fixture->file, &before), 0);
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"a", &fixture->err), 0);
    assert_int_equal(stat(fixture->file, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void what_is_no_file_is_refused(void **data)
{
    struct fixture *fixture = *data;
    assert_true(edit_file(fixture->root, set_key, (void *)"a", &fixture->err) < 0);
    assert_true(edit_file("/nowhere/at/all", set_key, (void *)"a", &fixture->err) < 0);
    assert_string_equal(fixture->err.message,
                        "edit /nowhere/at/all: find it: No such file or directory");
    assert_int_equal(mkfifo(fixture->file, 0600), 0);
    assert_true(edit_file(fixture->file, set_key, (void *)"a", &fixture->err) < 0);
}

/* Stands in for a process that was killed before it could rename. */
static void leftovers_of_a_killed_edit_go_with_the_next(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_free) char *leftover =
        kg_format("%s/.kaged-edit-01ARZ3NDEKTSV4RRFFQ69G5FAV", fixture->root);
    write_file(leftover, "half", 0600);
    assert_int_equal(edit_file(fixture->file, set_key, (void *)"a", &fixture->err), 0);
    assert_int_equal(count_names(fixture), 1);
}

#define WRITERS         8
#define KEYS_PER_WRITER 10

static void add_many_keys(const struct fixture *fixture, int writer)
{
    struct kg_err err;
    for (int i = 0; i < KEYS_PER_WRITER; i++) {
        char key[32];
        snprintf(key, sizeof(key), "w%d-%d", writer, i);
        if (edit_file(fixture->file, set_key, key, &err) < 0)
            _exit(1);
    }
    _exit(0);
}

static void edits_of_many_processes_lose_nothing(void **data)
{
    struct fixture *fixture = *data;
    pid_t pids[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            add_many_keys(fixture, i);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    assert_int_equal(kg_read_file(fixture->file, KG_DOC_BYTES_MAX, &text, NULL), 0);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(kg_buf_view(&text), NULL);
    assert_non_null(doc);
    assert_int_equal(doc->root->count, WRITERS * KEYS_PER_WRITER);
    assert_int_equal(count_names(fixture), 1);
}

#define KILLS   40
#define FILLER  20000 /* bytes of a value, so that writing takes a while */
#define KILL_US 8000

/* Sets "text" to one letter many times, and "size" stays as it was. */
static int set_filler(struct kg_buf *text, void *data, struct kg_err *err)
{
    char *filler = kg_alloc(FILLER);
    const char *key = "text";
    memset(filler, *(char *)data, FILLER);
    struct kg_node value = {.type = KG_STRING, .text = {filler, FILLER}};
    int result = edit_toml_set(text, &key, 1, &value, err);
    free(filler);
    return result;
}

static void edit_until_killed(const struct fixture *fixture)
{
    for (char letter = 'a';; letter = letter == 'z' ? 'a' : (char)(letter + 1))
        if (edit_file(fixture->file, set_filler, &letter, NULL) < 0)
            _exit(1);
}

static void assert_whole(const struct fixture *fixture)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err = {0};
    if (kg_read_file(fixture->file, KG_DOC_BYTES_MAX, &text, &err) < 0)
        fail_msg("%s", err.message);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(kg_buf_view(&text), &err);
    if (doc == NULL)
        fail_msg("%s", err.message);
    const struct kg_node *filler = kg_node_get(doc->root, "text");
    assert_non_null(kg_node_get(doc->root, "keep"));
    assert_int_equal(filler->text.length, FILLER);
    for (size_t i = 0; i < FILLER; i++)
        assert_int_equal(filler->text.data[i], filler->text.data[0]);
}

static void a_kill_at_any_moment_leaves_a_whole_file(void **data)
{
    struct fixture *fixture = *data;
    write_file(fixture->file, "keep = true # it\n", 0600);
    assert_int_equal(edit_file(fixture->file, set_filler, (void *)"-", &fixture->err), 0);
    srand(1);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            edit_until_killed(fixture);
        usleep((useconds_t)(rand() % KILL_US));
        int status;
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_whole(fixture);
    }
}

static void a_full_disk_leaves_the_old_file(void **data)
{
    struct fixture *fixture = *data;
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", fixture->root, "tmpfs", 0, "size=16k") < 0) {
        const char *ci = getenv("CI");
        if (ci != NULL && strcmp(ci, "true") == 0)
            fail_msg("a tmpfs cannot be mounted");
        printf("SKIP %s: a tmpfs cannot be mounted\n", __func__);
        return;
    }
    fixture->mounted = true;
    write_file(fixture->file, "keep = true\n", 0600);
    assert_int_equal(edit_file(fixture->file, set_filler, (void *)"x", &fixture->err), -ENOSPC);
    kg_auto(kg_free) char *expected =
        kg_format("edit %s: write it: No space left on device", fixture->file);
    assert_string_equal(fixture->err.message, expected);
    assert_file(fixture->file, "keep = true\n");
    assert_int_equal(count_names(fixture), 1);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toml_values_change_in_their_place),
        cmocka_unit_test(toml_lists_keep_the_items_that_stay),
        cmocka_unit_test(toml_keys_are_added_behind_the_last_of_their_table),
        cmocka_unit_test(toml_keys_are_removed_with_their_lines),
        cmocka_unit_test(toml_tables_change_key_by_key),
        cmocka_unit_test(toml_refuses_what_it_cannot_do),
        cmocka_unit_test(yaml_values_change_in_their_place),
        cmocka_unit_test(yaml_collections_give_way_to_others),
        cmocka_unit_test(yaml_lists_keep_the_items_that_stay),
        cmocka_unit_test(yaml_keys_are_added_at_the_end_of_their_map),
        cmocka_unit_test(yaml_keys_are_removed_with_their_lines),
        cmocka_unit_test(yaml_refuses_what_it_cannot_do),
        cmocka_unit_test(a_key_that_an_alias_does_not_repeat_is_still_edited),
        cmocka_unit_test(a_path_needs_one_to_63_keys),
        cmocka_unit_test(values_that_are_not_utf8_are_refused),
        cmocka_unit_test(a_value_cannot_smuggle_in_a_second_key),
        cmocka_unit_test(a_toml_date_stays_a_date),
        cmocka_unit_test(every_key_of_toml_test_can_be_edited),
        cmocka_unit_test(every_key_of_the_yaml_files_can_be_edited),
        WITH_FOLDER(a_missing_file_is_made_for_its_owner_alone),
        WITH_FOLDER(mode_and_owner_stay),
        WITH_FOLDER(a_link_stays_and_its_target_is_edited),
        WITH_FOLDER(links_in_a_circle_are_refused),
        WITH_FOLDER(a_change_that_fails_leaves_the_file),
        WITH_FOLDER(a_text_that_stays_is_not_written),
        WITH_FOLDER(what_is_no_file_is_refused),
        WITH_FOLDER(leftovers_of_a_killed_edit_go_with_the_next),
        WITH_FOLDER(edits_of_many_processes_lose_nothing),
        WITH_FOLDER(a_kill_at_any_moment_leaves_a_whole_file),
        WITH_FOLDER(a_full_disk_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
