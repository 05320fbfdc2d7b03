/*
 * notes: what agents write down, found again by its words. A note is a row of `notes`, its words
 * are in the full-text index `words`; the two change together, in one batch, or not at all. Nobody
 * sees the notes of another project, nor, unless isolation says so, of another agent.
 */
#include <kaged-plugin.h>
#include <string.h>

#define QUERY_BYTES_MAX 1000
#define QUERY_WORDS_MAX 32
#define TAGS_BYTES_MAX  200

/* Order of the columns of `words`: snippets are of the text, and a tag weighs more. */
#define TEXT_COLUMN "0"
#define WEIGHTS     "1.0, 4.0"
#define NOW         "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define OURS        "project = ?1 AND agent = ?2"

/* -- the schema -------------------------------------------------------------------------------- */

static const struct kaged_statement first_schema[] = {
    {.sql = "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL,"
            " agent TEXT NOT NULL, text TEXT NOT NULL, tags TEXT NOT NULL,"
            " created_at TEXT NOT NULL, updated_at TEXT NOT NULL)"},
    {.sql = "CREATE INDEX notes_of ON notes (project, agent, updated_at)"},
    {.sql = "CREATE VIRTUAL TABLE words USING fts5 (text, tags, content = 'notes',"
            " content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2')"},
    {.sql = "PRAGMA user_version = 1"},
};

/* Step N takes a database from user_version N to N + 1; steps are only ever added. */
static const struct {
    const struct kaged_statement *statements;
    size_t count;
} steps[] = {
    {first_schema, sizeof(first_schema) / sizeof(first_schema[0])},
};
static const int64_t newest = sizeof(steps) / sizeof(steps[0]);

static const struct kaged_json *first_row(const struct kaged_json *result)
{
    return kaged_json_at(kaged_json_get(result, "rows"), 0);
}

/* At the start, and again at a call if it failed then: storage may have been busy. */
static int open_notes(struct kaged_call *call)
{
    bool *is_open = kaged_data(call);
    const struct kaged_json *result;
    int64_t version;
    if (*is_open)
        return 0;
    if (kaged_query(call, "PRAGMA user_version", KAGED_NO_PARAMS, &result) < 0)
        return -1;
    if (!kaged_json_int(kaged_json_get(first_row(result), "user_version"), &version) ||
        version > newest)
        return kaged_fail(call, 0, "the notes are those of a newer version of this plugin");
    for (; version < newest; version++)
        if (kaged_batch(call, steps[version].statements, steps[version].count, NULL) < 0)
            return -1;
    *is_open = true;
    return 0;
}

/* -- what a call has --------------------------------------------------------------------------- */

static int64_t setting(struct kaged_call *call, const char *key, int64_t fallback)
{
    int64_t value;
    return kaged_json_int(kaged_json_get(kaged_config(call), key), &value) ? value : fallback;
}

struct owner {
    struct kaged_value project, agent;
};

static struct owner owner_of(struct kaged_call *call)
{
    const struct kaged_context *context = kaged_context(call);
    const char *isolation = kaged_json_text(kaged_json_get(kaged_config(call), "isolation"));
    bool shared = isolation != NULL && strcmp(isolation, "project") == 0;
    return (struct owner){
        .project = kaged_text(context->project_id ? context->project_id : ""),
        .agent = kaged_text(context->agent_path && !shared ? context->agent_path : ""),
    };
}

/* A number of the params; *ret_value stays as it is if there is none. */
static int read_number(struct kaged_call *call, const char *key, int64_t least, int64_t most,
                       int64_t *ret_value)
{
    const struct kaged_json *given = kaged_json_get(kaged_params(call), key);
    int64_t value;
    if (given == NULL)
        return 0;
    if (!kaged_json_int(given, &value) || value < least || value > most)
        return kaged_invalid_params(call, "%s must be a whole number from %lld to %lld", key,
                                    (long long)least, (long long)most);
    *ret_value = value;
    return 0;
}

static int read_id(struct kaged_call *call, int64_t *ret_id)
{
    *ret_id = 0;
    if (read_number(call, "id", 1, INT64_MAX, ret_id) < 0)
        return -1;
    return *ret_id > 0 ? 0 : kaged_invalid_params(call, "id must be that of a note");
}

struct page {
    int64_t limit, offset;
};

static int read_page(struct kaged_call *call, struct page *ret_page)
{
    int64_t most = setting(call, "page_max", 50);
    *ret_page = (struct page){.limit = most < 20 ? most : 20};
    if (read_number(call, "limit", 1, most, &ret_page->limit) < 0)
        return -1;
    return read_number(call, "offset", 0, INT32_MAX, &ret_page->offset);
}

/* The text of a note; null if there is none. */
static int read_text(struct kaged_call *call, struct kaged_value *ret_text)
{
    const struct kaged_json *given = kaged_json_get(kaged_params(call), "text");
    const char *text = kaged_json_text(given);
    size_t length = kaged_json_length(given);
    int64_t most = setting(call, "text_max_bytes", 65536);
    *ret_text = kaged_null();
    if (given == NULL)
        return 0;
    if (text == NULL || length == 0 || (int64_t)length > most || strlen(text) != length)
        return kaged_invalid_params(call, "text must be text of 1 to %lld bytes, none of them NUL",
                                    (long long)most);
    *ret_text = kaged_text_n(text, length);
    return 0;
}

/* Words of a-z, 0-9, _ and -; null if there are none. */
static int read_tags(struct kaged_call *call, const char *key, struct kaged_value *ret_tags)
{
    const struct kaged_json *given = kaged_json_get(kaged_params(call), key);
    const char *tags = kaged_json_text(given);
    size_t length = kaged_json_length(given);
    *ret_tags = kaged_null();
    if (given == NULL)
        return 0;
    if (tags == NULL || length > TAGS_BYTES_MAX ||
        strspn(tags, "abcdefghijklmnopqrstuvwxyz0123456789_- ") != length)
        return kaged_invalid_params(call, "%s must be of a-z, 0-9, _ and -, at most %d", key,
                                    TAGS_BYTES_MAX);
    *ret_tags = kaged_text_n(tags, length);
    return 0;
}

/* -- add, show, edit, delete ------------------------------------------------------------------- */

/* An index over another table's text is told what to forget before that changes. */
static const char unindex[] =
    "INSERT INTO words (words, rowid, text, tags)"
    " SELECT 'delete', id, text, tags FROM notes WHERE " OURS " AND id = ?3";
static const char reindex[] = "INSERT INTO words (rowid, text, tags)"
                              " SELECT id, text, tags FROM notes WHERE " OURS " AND id = ?3";

/* A number of one of the results of a batch. */
static int64_t number_of(const struct kaged_json *batch, size_t index, const char *key)
{
    int64_t number = 0;
    kaged_json_int(kaged_json_get(kaged_json_at(kaged_json_get(batch, "results"), index), key),
                   &number);
    return number;
}

static int no_note(struct kaged_call *call, int64_t id)
{
    return kaged_fail(call, 0, "there is no note %lld", (long long)id);
}

static int check_room(struct kaged_call *call, struct owner owner)
{
    const struct kaged_json *result;
    int64_t most = setting(call, "notes_max", 10000), count = 0;
    if (kaged_query(call, "SELECT count(*) AS count FROM notes WHERE " OURS,
                    KAGED_PARAMS(owner.project, owner.agent), &result) < 0)
        return -1;
    kaged_json_int(kaged_json_get(first_row(result), "count"), &count);
    if (count < most)
        return 0;
    return kaged_fail(call, 0, "there are %lld notes, which is the most: delete some",
                      (long long)count);
}

/* notes.add {"text": "Tea at five", "tags": "tea home"} */
static int add_note(struct kaged_call *call)
{
    struct owner owner = owner_of(call);
    struct kaged_value text, tags;
    const struct kaged_json *result;
    if (open_notes(call) < 0 || read_text(call, &text) < 0 || read_tags(call, "tags", &tags) < 0)
        return -1;
    if (text.kind == KAGED_V_NULL)
        return kaged_invalid_params(call, "a note needs a text");
    if (check_room(call, owner) < 0)
        return -1;
    const struct kaged_statement statements[] = {
        {"INSERT INTO notes (project, agent, text, tags, created_at, updated_at)"
         " VALUES (?, ?, ?, coalesce(?, ''), " NOW ", " NOW ")",
         KAGED_PARAMS(owner.project, owner.agent, text, tags)},
        {"INSERT INTO words (rowid, text, tags) VALUES (last_insert_rowid(), ?, coalesce(?, ''))",
         KAGED_PARAMS(text, tags)},
    };
    if (kaged_batch(call, statements, 2, &result) < 0)
        return -1;
    return kaged_reply(call,
                       KAGED_FIELDS({"id", kaged_int(number_of(result, 0, "last_insert_rowid"))}));
}

/* notes.show {"id": 7} */
static int show_note(struct kaged_call *call)
{
    struct owner owner = owner_of(call);
    const struct kaged_json *result;
    int64_t id;
    if (open_notes(call) < 0 || read_id(call, &id) < 0 ||
        kaged_query(call,
                    "SELECT id, text, tags, created_at, updated_at FROM notes WHERE " OURS
                    " AND id = ?3",
                    KAGED_PARAMS(owner.project, owner.agent, kaged_int(id)), &result) < 0)
        return -1;
    if (first_row(result) == NULL)
        return no_note(call, id);
    kaged_put(kaged_result(call), kaged_json(first_row(result)));
    return 0;
}

/* notes.edit {"id": 7, "text": "Tea at six"}; what is not given stays. */
static int edit_note(struct kaged_call *call)
{
    struct owner owner = owner_of(call);
    struct kaged_value text, tags;
    const struct kaged_json *result;
    int64_t id;
    if (open_notes(call) < 0 || read_id(call, &id) < 0 || read_text(call, &text) < 0 ||
        read_tags(call, "tags", &tags) < 0)
        return -1;
    const struct kaged_statement statements[] = {
        {unindex, KAGED_PARAMS(owner.project, owner.agent, kaged_int(id))},
        {"UPDATE notes SET text = coalesce(?4, text), tags = coalesce(?5, tags),"
         " updated_at = " NOW " WHERE " OURS " AND id = ?3",
         KAGED_PARAMS(owner.project, owner.agent, kaged_int(id), text, tags)},
        {reindex, KAGED_PARAMS(owner.project, owner.agent, kaged_int(id))},
    };
    if (kaged_batch(call, statements, 3, &result) < 0)
        return -1;
    if (number_of(result, 1, "rows_affected") == 0)
        return no_note(call, id);
    return kaged_reply(call, KAGED_FIELDS({"id", kaged_int(id)}));
}

/* notes.delete {"id": 7} */
static int delete_note(struct kaged_call *call)
{
    struct owner owner = owner_of(call);
    const struct kaged_json *result;
    int64_t id;
    if (open_notes(call) < 0 || read_id(call, &id) < 0)
        return -1;
    const struct kaged_statement statements[] = {
        {unindex, KAGED_PARAMS(owner.project, owner.agent, kaged_int(id))},
        {"DELETE FROM notes WHERE " OURS " AND id = ?3",
         KAGED_PARAMS(owner.project, owner.agent, kaged_int(id))},
    };
    if (kaged_batch(call, statements, 2, &result) < 0)
        return -1;
    if (number_of(result, 1, "rows_affected") == 0)
        return no_note(call, id);
    return kaged_reply(call, KAGED_FIELDS({"id", kaged_int(id)}));
}

/* -- list and search --------------------------------------------------------------------------- */

/* One row more than the page was asked for: it only says that there is more. */
static int reply_page(struct kaged_call *call, const struct kaged_json *result, struct page page)
{
    const struct kaged_json *rows = kaged_json_get(result, "rows");
    struct kaged_writer *writer = kaged_result(call);
    kaged_begin_object(writer);
    kaged_key(writer, "notes");
    kaged_begin_array(writer);
    for (size_t i = 0; i < kaged_json_count(rows) && i < (size_t)page.limit; i++)
        kaged_put(writer, kaged_json(kaged_json_at(rows, i)));
    kaged_end_array(writer);
    kaged_put_field(writer, "more", kaged_bool(kaged_json_count(rows) > (size_t)page.limit));
    kaged_end_object(writer);
    return 0;
}

/* notes.list {"tag": "tea", "limit": 10, "offset": 20} */
static int list_notes(struct kaged_call *call)
{
    struct owner owner = owner_of(call);
    const struct kaged_json *result;
    struct kaged_value tag;
    struct page page;
    if (open_notes(call) < 0 || read_tags(call, "tag", &tag) < 0 || read_page(call, &page) < 0 ||
        kaged_query(
            call,
            "SELECT id, substr(text, 1, 100) AS start, tags, updated_at FROM notes WHERE " OURS
            " AND (?3 IS NULL OR instr(' ' || tags || ' ', ' ' || ?3 || ' '))"
            " ORDER BY updated_at DESC, id DESC LIMIT ?4 OFFSET ?5",
            KAGED_PARAMS(owner.project, owner.agent, tag, kaged_int(page.limit + 1),
                         kaged_int(page.offset)),
            &result) < 0)
        return -1;
    return reply_page(call, result, page);
}

static bool is_separator(char c)
{
    return (unsigned char)c <= ' ' || c == '"' || c == 0x7f;
}

/*
 * What a person typed as an expression of fts5: each word in quotes, so that nothing in it is an
 * operator; all must occur. A star at the end of a word makes it a beginning. The number of words.
 */
static int write_match(const char *query, size_t length, char ret_match[2 * QUERY_BYTES_MAX + 4])
{
    char *out = ret_match;
    int words = 0;
    for (size_t i = 0; i < length;) {
        size_t end = i;
        while (end < length && !is_separator(query[end]))
            end++;
        size_t word = end - i;
        while (word > 0 && query[i + word - 1] == '*')
            word--;
        if (word > 0) {
            *out++ = '"';
            out = (char *)memcpy(out, query + i, word) + word;
            *out++ = '"';
            if (i + word < end)
                *out++ = '*';
            *out++ = ' ';
            words++;
        }
        i = end + 1;
    }
    *out = '\0';
    return words;
}

static int read_query(struct kaged_call *call, char ret_match[2 * QUERY_BYTES_MAX + 4])
{
    const struct kaged_json *given = kaged_json_get(kaged_params(call), "query");
    size_t length = kaged_json_length(given);
    if (kaged_json_text(given) == NULL || length > QUERY_BYTES_MAX)
        return kaged_invalid_params(call, "query must be text of at most %d bytes",
                                    QUERY_BYTES_MAX);
    int words = write_match(kaged_json_text(given), length, ret_match);
    if (words < 1 || words > QUERY_WORDS_MAX)
        return kaged_invalid_params(call, "query must have 1 to %d words", QUERY_WORDS_MAX);
    return 0;
}

/* notes.search {"query": "tea fi*"} */
static int search_notes(struct kaged_call *call)
{
    struct owner owner = owner_of(call);
    const struct kaged_json *result;
    char match[2 * QUERY_BYTES_MAX + 4];
    struct page page;
    if (open_notes(call) < 0 || read_query(call, match) < 0 || read_page(call, &page) < 0 ||
        kaged_query(call,
                    "SELECT id, snippet(words, " TEXT_COLUMN ", '[', ']', '…', 16) AS snippet,"
                    " notes.tags, updated_at FROM words JOIN notes ON id = words.rowid"
                    " WHERE words MATCH ?3 AND " OURS " ORDER BY bm25(words, " WEIGHTS
                    "), id DESC LIMIT ?4 OFFSET ?5",
                    KAGED_PARAMS(owner.project, owner.agent, kaged_text(match),
                                 kaged_int(page.limit + 1), kaged_int(page.offset)),
                    &result) < 0)
        return -1;
    return reply_page(call, result, page);
}

/* -- the plugin -------------------------------------------------------------------------------- */

static bool is_open;

static const struct kaged_plugin notes = {
    .name = "notes",
    .version = "1.0.0",
    .capabilities = (const char *const[]){"kaged:storage:write", NULL},
    .tools =
        (const struct kaged_entry[]){
            {"add", add_note},
            {"search", search_notes},
            {"list", list_notes},
            {"show", show_note},
            {"edit", edit_note},
            {"delete", delete_note},
            {NULL, NULL},
        },
    .on_ready = open_notes,
    .data = &is_open,
};

int main(void)
{
    return kaged_run(&notes);
}
