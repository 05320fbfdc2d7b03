/* Run with make test: the plugin with a host in memory, and a real SQLite behind it. */
#define main plugin_main
#include "../plugin.c"
#undef main

#include "database.h"

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static struct database *database;
static struct kaged_test *host;

/* A plugin that starts on the database as it is. kaged_test_start() is past on_ready already. */
static void start(const char *config)
{
    is_open = false;
    host = kaged_test_start(&notes, config);
    assert(host != NULL);
    kaged_test_on_request(host, database_answer, database);
}

static void begin(const char *config)
{
    database = database_new();
    start(config);
}

/* Whatever was done, the index holds the words of the notes and no others. */
static void end(void)
{
    kaged_test_stop(host);
    database_run(database, "INSERT INTO words (words, rank) VALUES ('integrity-check', 1)");
    database_free(database);
}

/* The result, or the words of the error. */
static const char *call(const char *tool, const char *params)
{
    char method[32];
    snprintf(method, sizeof(method), "notes.%s", tool);
    return kaged_test_call(host, method, params) ? kaged_test_result(host)
                                                 : kaged_test_message(host);
}

#define IS(tool, params, wanted) is(__LINE__, call(tool, params), wanted)
#define HAS(tool, params, part)  has(__LINE__, call(tool, params), part)

static void is(int line, const char *got, const char *wanted)
{
    if (strcmp(got, wanted) == 0)
        return;
    printf("tests/test.c:%d: got %s, wanted %s\n", line, got, wanted);
    exit(1);
}

static void has(int line, const char *got, const char *part)
{
    if (strstr(got, part) != NULL)
        return;
    printf("tests/test.c:%d: got %s, without %s\n", line, got, part);
    exit(1);
}

/* The ids in the answer, which is a page, in their order. */
static const char *ids(const char *tool, const char *params)
{
    static char text[512];
    char method[32];
    size_t at = 0;
    snprintf(method, sizeof(method), "notes.%s", tool);
    const struct kaged_json *page = kaged_test_call(host, method, params);
    if (page == NULL)
        return kaged_test_message(host);
    const struct kaged_json *found = kaged_json_get(page, "notes");
    text[0] = '\0';
    for (size_t i = 0; i < kaged_json_count(found); i++) {
        int64_t id = 0;
        kaged_json_int(kaged_json_get(kaged_json_at(found, i), "id"), &id);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%lld", i > 0 ? " " : "",
                               (long long)id);
    }
    if (kaged_json_is_true(kaged_json_get(page, "more")))
        snprintf(text + at, sizeof(text) - at, " and more");
    return text;
}

#define FINDS(query, wanted) is(__LINE__, ids("search", "{\"query\":\"" query "\"}"), wanted)

static void a_note_is_added_shown_edited_and_deleted(void)
{
    begin(NULL);
    IS("add", "{\"text\":\"Tea at five\",\"tags\":\"tea home\"}", "{\"id\":1}");
    HAS("show", "{\"id\":1}", "{\"id\":1,\"text\":\"Tea at five\",\"tags\":\"tea home\",");
    IS("edit", "{\"id\":1,\"text\":\"Coffee at six\"}", "{\"id\":1}");
    HAS("show", "{\"id\":1}", "\"text\":\"Coffee at six\",\"tags\":\"tea home\"");
    FINDS("coffee", "1");
    FINDS("five", "");
    IS("edit", "{\"id\":1,\"tags\":\"\"}", "{\"id\":1}");
    FINDS("home", "");
    IS("delete", "{\"id\":1}", "{\"id\":1}");
    FINDS("coffee", "");
    IS("show", "{\"id\":1}", "there is no note 1");
    IS("edit", "{\"id\":1,\"text\":\"x\"}", "there is no note 1");
    IS("delete", "{\"id\":1}", "there is no note 1");
    IS("add", "{\"text\":\"Another\"}", "{\"id\":2}"); /* an id is never used again */
    end();
}

static void the_best_note_comes_first_with_a_snippet(void)
{
    begin(NULL);
    call("add", "{\"text\":\"Among many other words there is a kettle, somewhere\"}");
    call("add", "{\"text\":\"kettle kettle\"}");
    call("add", "{\"text\":\"nothing of it\",\"tags\":\"kettle\"}");
    call("add", "{\"text\":\"Water\"}");
    FINDS("kettle", "3 2 1");
    HAS("search", "{\"query\":\"somewhere\"}", "a kettle, [somewhere]\"");
    FINDS("kettle somewhere", "1");
    FINDS("ket", "");
    FINDS("ket*", "3 2 1");
    end();
}

static void a_query_is_only_words(void)
{
    begin(NULL);
    call("add", "{\"text\":\"NOT a C++ program OR is it? text NEAR 'quotes' Größe 茶\"}");
    FINDS("c++ OR", "1");
    FINDS("not NEAR or", "1");
    FINDS("\\\"c++", "1");
    FINDS("grosse", "");
    FINDS("GROSSE*", "");
    FINDS("größe", "1");
    FINDS("grö*", "1");
    FINDS("茶", "1");
    FINDS("'quotes'", "1");
    FINDS("text:missing", "");
    FINDS("-- program ;", "1");
    FINDS("(a AND", "");
    FINDS("^program {is}", "1");
    FINDS("!!!", "");
    FINDS("prog**", "1");
    FINDS("it\\u0000is\\u0007a", "1");
    FINDS("", "invalid params: query must have 1 to 32 words");
    FINDS(" \\n\\t \\\" ** ", "invalid params: query must have 1 to 32 words");
    FINDS("1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3",
          "invalid params: query must have 1 to 32 words");
    end();
}

/* A query as long as it may be, with as many words as can be in it, fits. */
static void long_queries_are_refused(void)
{
    begin(NULL);
    char params[QUERY_BYTES_MAX + 64];
    for (size_t length = QUERY_BYTES_MAX; length <= QUERY_BYTES_MAX + 1; length++) {
        char *at = params + sprintf(params, "{\"query\":\"");
        for (size_t i = 0; i < length; i++)
            *at++ = i % 2 ? ' ' : 'a';
        strcpy(at, "\"}");
        is(__LINE__, ids("search", params),
           length > QUERY_BYTES_MAX ? "invalid params: query must be text of at most 1000 bytes"
                                    : "invalid params: query must have 1 to 32 words");
    }
    IS("search", "{\"query\":7}", "invalid params: query must be text of at most 1000 bytes");
    IS("search", "{}", "invalid params: query must be text of at most 1000 bytes");
    end();
}

static void lists_are_in_pages_and_by_tag(void)
{
    begin("{\"page_max\":3}");
    for (int i = 0; i < 5; i++)
        call("add", i % 2 ? "{\"text\":\"odd\",\"tags\":\"odd all\"}"
                          : "{\"text\":\"even\",\"tags\":\"all\"}");
    is(__LINE__, ids("list", "{}"), "5 4 3 and more");
    is(__LINE__, ids("list", "{\"limit\":2,\"offset\":2}"), "3 2 and more");
    is(__LINE__, ids("list", "{\"limit\":2,\"offset\":4}"), "1");
    is(__LINE__, ids("list", "{\"offset\":9}"), "");
    is(__LINE__, ids("list", "{\"tag\":\"odd\"}"), "4 2");
    is(__LINE__, ids("list", "{\"tag\":\"od\"}"), "");
    is(__LINE__, ids("search", "{\"query\":\"even\",\"limit\":1,\"offset\":1}"), "3 and more");
    IS("list", "{\"limit\":4}", "invalid params: limit must be a whole number from 1 to 3");
    IS("list", "{\"limit\":\"1\"}", "invalid params: limit must be a whole number from 1 to 3");
    HAS("list", "{\"offset\":-1}", "invalid params: offset must be a whole number from 0 to ");
    HAS("list", "{\"tag\":\"%\"}", "invalid params: tag must be of a-z, 0-9, _ and -");
    end();
}

static void what_is_no_note_is_refused(void)
{
    begin("{\"text_max_bytes\":5,\"notes_max\":1}");
    static const char text[] =
        "invalid params: text must be text of 1 to 5 bytes, none of them NUL";
    IS("add", "{}", "invalid params: a note needs a text");
    IS("add", "{\"text\":\"\"}", text);
    IS("add", "{\"text\":\"123456\"}", text);
    IS("add", "{\"text\":\"äää\"}", text);
    IS("add", "{\"text\":\"a\\u0000b\"}", text);
    IS("add", "{\"text\":[\"a\"]}", text);
    HAS("add", "{\"text\":\"a\",\"tags\":\"A\"}", "invalid params: tags must be of a-z");
    HAS("add", "{\"text\":\"a\",\"tags\":\"a\\u0000\"}", "invalid params: tags must be of a-z");
    IS("show", "{}", "invalid params: id must be that of a note");
    HAS("show", "{\"id\":0}", "invalid params: id must be a whole number from 1 to ");
    HAS("show", "{\"id\":1.5}", "invalid params: id must be a whole number from 1 to ");
    IS("add", "{\"text\":\"12345\"}", "{\"id\":1}");
    IS("add", "{\"text\":\"more\"}", "there are 1 notes, which is the most: delete some");
    end();
}

static void agents_see_their_own_notes_and_projects_theirs(void)
{
#define OF(project, agent, more)                                                                   \
    "{\"_context\":{\"project_id\":\"" project "\",\"agent_path\":\"" agent "\"}," more "}"
#define SHARED "\"_config\":{\"isolation\":\"project\"},"
    begin(NULL);
    IS("add", OF("music", "primary", "\"text\":\"secret\""), "{\"id\":1}");
    IS("show", OF("music", "other", "\"id\":1"), "there is no note 1");
    IS("edit", OF("home", "primary", "\"id\":1,\"text\":\"x\""), "there is no note 1");
    IS("delete", OF("home", "primary", "\"id\":1"), "there is no note 1");
    is(__LINE__, ids("search", OF("home", "primary", "\"query\":\"secret\"")), "");
    is(__LINE__, ids("search", OF("music", "primary", "\"query\":\"secret\"")), "1");
    IS("add", OF("music", "primary", SHARED "\"text\":\"for all\""), "{\"id\":2}");
    is(__LINE__, ids("list", OF("music", "other", SHARED "\"limit\":9")), "2");
    is(__LINE__, ids("list", OF("home", "other", SHARED "\"limit\":9")), "");
    end();
}

static void the_schema_is_made_once_and_a_newer_one_left_alone(void)
{
    begin(NULL);
    database_break(database, 1);
    IS("list", "{}", "resource busy");
    IS("add", "{\"text\":\"kept\"}", "{\"id\":1}");
    kaged_test_stop(host);
    start(NULL);
    FINDS("kept", "1");
    kaged_test_stop(host);
    database_run(database, "PRAGMA user_version = 99");
    start(NULL);
    IS("list", "{}", "the notes are those of a newer version of this plugin");
    end();
}

int main(void)
{
    a_note_is_added_shown_edited_and_deleted();
    the_best_note_comes_first_with_a_snippet();
    a_query_is_only_words();
    long_queries_are_refused();
    lists_are_in_pages_and_by_tag();
    what_is_no_note_is_refused();
    agents_see_their_own_notes_and_projects_theirs();
    the_schema_is_made_once_and_a_newer_one_left_alone();
    puts("ok");
    return 0;
}
