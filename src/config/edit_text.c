/*
 * An edit is planned on the old text, applied to a copy, read again and compared: only a copy that
 * differs in exactly the one key takes the place of the text.
 */
#include "config/edit_internal.h"

#include <stdlib.h>

/* The bytes [start, end) give way to text. */
struct edit_splice {
    size_t start;
    size_t end;
    struct kg_str text; /* in the arena of the edit */
    size_t number;      /* keeps those of one place in the order in which they came */
    bool whole_lines;
};

static const struct kg_str byte_order_mark = {"\xEF\xBB\xBF", 3};

/* -- replacements ------------------------------------------------------------------------------ */

static void add_splice(struct edit *edit, struct edit_splice splice)
{
    if (edit->splice_count == edit->splice_capacity) {
        edit->splice_capacity = edit->splice_capacity ? edit->splice_capacity * 2 : 8;
        edit->splices = kg_realloc(edit->splices, edit->splice_capacity * sizeof(*edit->splices));
    }
    splice.text = kg_arena_str(edit->arena, splice.text);
    splice.number = edit->splice_count;
    edit->splices[edit->splice_count++] = splice;
}

void edit_replace(struct edit *edit, size_t start, size_t end, struct kg_str text)
{
    add_splice(edit, (struct edit_splice){.start = start, .end = end, .text = text});
}

void edit_insert_lines(struct edit *edit, size_t at, struct kg_str lines)
{
    add_splice(edit,
               (struct edit_splice){.start = at, .end = at, .text = lines, .whole_lines = true});
}

void edit_cut(struct edit *edit, size_t start, size_t end)
{
    edit_replace(edit, start, end, KG_STR(""));
}

size_t edit_line_start(const struct edit *edit, size_t at)
{
    while (at > 0 && edit->text.data[at - 1] != '\n')
        at--;
    return at;
}

size_t edit_line_end(const struct edit *edit, size_t at)
{
    while (at < edit->text.length && edit->text.data[at] != '\n')
        at++;
    return at < edit->text.length ? at + 1 : at;
}

size_t edit_skip_blank(const struct edit *edit, size_t at)
{
    while (at < edit->text.length && (edit->text.data[at] == ' ' || edit->text.data[at] == '\t'))
        at++;
    return at;
}

bool edit_starts_line(const struct edit *edit, size_t at)
{
    return edit_skip_blank(edit, edit_line_start(edit, at)) >= at;
}

/* -- items between brackets -------------------------------------------------------------------- */

static bool at_line_end(const struct edit *edit, size_t at)
{
    return at == edit->text.length || edit->text.data[at] == '\n' || edit->text.data[at] == '\r';
}

static bool edit_text_at_char(const struct edit *edit, size_t at, char c)
{
    return at < edit->text.length && edit->text.data[at] == c;
}

/* Whether a comma follows, be it after line breaks and comments. */
static bool comma_follows(const struct edit *edit, size_t at)
{
    for (;;) {
        at = edit_skip_blank(edit, at);
        if (edit_text_at_char(edit, at, '#'))
            at = edit_line_end(edit, at);
        else if (at < edit->text.length && at_line_end(edit, at))
            at++;
        else
            return edit_text_at_char(edit, at, ',');
    }
}

/* Whether an item and its comma have their lines to themselves. */
static bool edit_text_has_own_lines(const struct edit *edit, struct edit_span item)
{
    if (!edit_starts_line(edit, item.start))
        return false;
    size_t at = edit_skip_blank(edit, item.end);
    bool comma = edit_text_at_char(edit, at, ',');
    if (comma)
        at = edit_skip_blank(edit, at + 1);
    bool alone = at_line_end(edit, at) || edit_text_at_char(edit, at, '#');
    return alone && (comma || !comma_follows(edit, at));
}

static void insert_on_lines(struct edit *edit, struct edit_span beside, bool behind,
                            const struct kg_str *texts, size_t count)
{
    size_t start = edit_line_start(edit, beside.start);
    struct kg_str indent = {edit->text.data + start, beside.start - start};
    bool comma = !behind || comma_follows(edit, beside.end);
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    for (size_t i = 0; i < count; i++) {
        kg_buf_str(&lines, indent);
        kg_buf_str(&lines, texts[i]);
        kg_buf_text(&lines, comma || i + 1 < count ? "," : "");
        kg_buf_text(&lines, edit->eol);
    }
    if (!comma)
        edit_replace(edit, beside.end, beside.end, KG_STR(","));
    edit_insert_lines(edit, behind ? edit_line_end(edit, beside.end) : start, kg_buf_view(&lines));
}

void edit_items_insert(struct edit *edit, const struct edit_items *items, size_t before,
                       const struct kg_str *texts, size_t count)
{
    bool behind = before > 0;
    struct edit_span beside = {items->open, items->open};
    if (items->count > 0)
        beside = items->spans[behind ? before - 1 : 0];
    if (items->count > 0 && edit_text_has_own_lines(edit, beside)) {
        insert_on_lines(edit, beside, behind, texts, count);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf inserted = {0};
    for (size_t i = 0; i < count; i++) {
        kg_buf_text(&inserted, behind || i > 0 ? ", " : "");
        kg_buf_str(&inserted, texts[i]);
    }
    if (!behind && items->count > 0)
        kg_buf_text(&inserted, ", ");
    size_t at = behind ? beside.end : beside.start;
    edit_replace(edit, at, at, kg_buf_view(&inserted));
}

/* Of a list that keeps another one. A comma goes with them, unless the format allows it to stay. */
static void remove_run(struct edit *edit, const struct edit_items *items, size_t first, size_t end)
{
    const struct edit_span *spans = items->spans;
    bool own_lines = true;
    for (size_t i = first; i < end; i++)
        own_lines = own_lines && edit_text_has_own_lines(edit, spans[i]);
    if (own_lines)
        edit_cut(edit, edit_line_start(edit, spans[first].start),
                 edit_line_end(edit, spans[end - 1].end));
    else if (end < items->count)
        edit_cut(edit, spans[first].start, spans[end].start);
    else
        edit_cut(edit, spans[first - 1].end, spans[end - 1].end);
}

void edit_items_remove(struct edit *edit, const struct edit_items *items, const bool *marked)
{
    size_t first = 0;
    for (size_t i = 0; i <= items->count; i++) {
        if (i < items->count && marked[i])
            continue;
        if (i == items->count && first == 0)
            edit_cut(edit, items->open, items->close);
        else if (first < i)
            remove_run(edit, items, first, i);
        first = i + 1;
    }
}

void edit_items_change(struct edit *edit, const struct edit_items *items, const struct kg_node *old,
                       const struct kg_node *value, edit_put *put, const void *how)
{
    uint32_t head, tail;
    edit_common(old, value, &head, &tail);
    uint32_t old_end = old->count - tail;
    uint32_t new_end = value->count - tail;
    struct kg_str *texts = kg_arena_alloc(edit->arena, value->count * sizeof(*texts));
    for (uint32_t i = head; i < new_end; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        put(&text, &value->items[i], how);
        texts[i] = kg_arena_str(edit->arena, kg_buf_view(&text));
        if (i < old_end)
            edit_replace(edit, items->spans[i].start, items->spans[i].end, texts[i]);
    }
    if (new_end < old_end)
        remove_run(edit, items, new_end, old_end);
    else if (new_end > old_end)
        edit_items_insert(edit, items, old_end, texts + old_end, new_end - old_end);
}

/* -- trees ------------------------------------------------------------------------------------- */

bool edit_is_container(const struct kg_node *node)
{
    return node->type == KG_ARRAY || node->type == KG_OBJECT;
}

/* As numbers, since each format writes them its own way; an integer is not a float. */
static bool same_number(struct kg_str a, struct kg_str b)
{
    int64_t integer_a, integer_b;
    if (kg_str_equal(a, b))
        return true;
    bool is_integer = kg_str_to_int(a, &integer_a);
    if (is_integer != kg_str_to_int(b, &integer_b))
        return false;
    if (is_integer)
        return integer_a == integer_b;
    kg_auto(kg_free) char *text_a = kg_str_dup(a);
    kg_auto(kg_free) char *text_b = kg_str_dup(b);
    return strtod(text_a, NULL) == strtod(text_b, NULL);
}

static bool same_children(const struct kg_node *a, const struct kg_node *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->type == KG_ARRAY && !edit_same(&a->items[i], &b->items[i]))
            return false;
        if (a->type == KG_ARRAY)
            continue;
        const struct kg_member *member = kg_node_member(b, a->members[i].key);
        if (member == NULL || !edit_same(&a->members[i].value, &member->value))
            return false;
    }
    return true;
}

bool edit_same(const struct kg_node *a, const struct kg_node *b)
{
    if (a->type != b->type || a->flavor != b->flavor)
        return false;
    if (edit_is_container(a))
        return same_children(a, b);
    if (a->type == KG_NUMBER)
        return same_number(a->text, b->text);
    if (a->type == KG_STRING)
        return kg_str_equal(a->text, b->text);
    return a->type == KG_NULL || a->boolean == b->boolean;
}

void edit_common(const struct kg_node *a, const struct kg_node *b, uint32_t *ret_head,
                 uint32_t *ret_tail)
{
    uint32_t most = a->count < b->count ? a->count : b->count;
    uint32_t head = 0;
    uint32_t tail = 0;
    while (head < most && edit_same(&a->items[head], &b->items[head]))
        head++;
    while (head + tail < most &&
           edit_same(&a->items[a->count - tail - 1], &b->items[b->count - tail - 1]))
        tail++;
    *ret_head = head;
    *ret_tail = tail;
}

const struct kg_node *edit_wrap(struct edit *edit, const struct kg_str *path, size_t count,
                                const struct kg_node *value)
{
    while (count-- > 0) {
        struct kg_member *member = kg_arena_alloc(edit->arena, sizeof(*member));
        struct kg_node *map = kg_arena_alloc(edit->arena, sizeof(*map));
        *member = (struct kg_member){.key = path[count], .value = *value};
        *map = (struct kg_node){.type = KG_OBJECT, .count = 1, .members = member};
        value = map;
    }
    return value;
}

/* -- quoting ----------------------------------------------------------------------------------- */

/* What either format refuses, folds, or an editor would not show. */
static bool needs_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || (code & 0xFFFE) == 0xFFFE;
}

static void edit_text_put_escape(struct kg_buf *out, uint32_t code)
{
    static const char codes[] = "\b\t\n\f\r";
    static const char letters[] = "btnfr";
    const char *known = code && code < 0x20 ? strchr(codes, (int)code) : NULL;
    if (known != NULL)
        kg_buf_printf(out, "\\%c", letters[known - codes]);
    else
        kg_buf_printf(out, code > 0xFFFF ? "\\U%08X" : "\\u%04X", code);
}

void edit_put_quoted(struct kg_buf *out, struct kg_str text)
{
    kg_buf_char(out, '"');
    for (size_t at = 0, length; at < text.length; at += length) {
        uint32_t code = kg_utf8_decode(text.data + at, &length);
        if (needs_escape(code)) {
            edit_text_put_escape(out, code);
            continue;
        }
        if (code == '"' || code == '\\')
            kg_buf_char(out, '\\');
        kg_buf_append(out, text.data + at, length);
    }
    kg_buf_char(out, '"');
}

bool edit_is_printable(struct kg_str text)
{
    for (size_t at = 0, length; at < text.length; at += length)
        if (needs_escape(kg_utf8_decode(text.data + at, &length)))
            return false;
    return true;
}

/* -- applying ---------------------------------------------------------------------------------- */

static int compare_splices(const void *a, const void *b)
{
    const struct edit_splice *first = a;
    const struct edit_splice *second = b;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return first->number < second->number ? -1 : 1;
}

static bool ends_line(const struct kg_buf *out)
{
    return out->length == 0 || out->data[out->length - 1] == '\n';
}

static bool ends_in_blank_line(const struct kg_buf *out, const char *eol)
{
    size_t length = strlen(eol);
    return out->length == length ||
           (out->length > length && out->data[out->length - length - 1] == '\n');
}

static void put_tail(const struct edit *edit, struct kg_buf *out)
{
    if (edit->tail.length == 0)
        return;
    if (!ends_line(out))
        kg_buf_text(out, edit->eol);
    if (out->length > 0 && !ends_in_blank_line(out, edit->eol))
        kg_buf_text(out, edit->eol);
    kg_buf_str(out, kg_buf_view(&edit->tail));
}

/* When the last line went and had no line break, neither has the one that is last now. */
static void keep_end_open(const struct edit *edit, struct kg_buf *out)
{
    bool was_open = edit->text.length > 0 && edit->text.data[edit->text.length - 1] != '\n';
    if (!was_open || out->length == 0 || !ends_line(out))
        return;
    out->length--;
    if (out->length > 0 && out->data[out->length - 1] == '\r')
        out->length--;
}

static void edit_text_apply(struct edit *edit, struct kg_buf *out)
{
    size_t at = 0;
    bool cut_at_end = false;
    if (edit->splice_count)
        qsort(edit->splices, edit->splice_count, sizeof(*edit->splices), compare_splices);
    for (size_t i = 0; i < edit->splice_count; i++) {
        const struct edit_splice *splice = &edit->splices[i];
        if (splice->start > at)
            kg_buf_append(out, edit->text.data + at, splice->start - at);
        if (splice->whole_lines && !ends_line(out))
            kg_buf_text(out, edit->eol);
        kg_buf_str(out, splice->text);
        if (splice->start > at)
            at = splice->start;
        if (splice->end > at)
            at = splice->end;
        cut_at_end = splice->text.length == 0;
    }
    if (at < edit->text.length)
        kg_buf_append(out, edit->text.data + at, edit->text.length - at);
    else if (cut_at_end && edit->tail.length == 0)
        keep_end_open(edit, out);
    put_tail(edit, out);
}

/* -- the door ---------------------------------------------------------------------------------- */

static char *edit_text_path_text(const struct kg_str *path, size_t count)
{
    struct kg_buf out = {0};
    for (size_t i = 0; i < count; i++) {
        kg_buf_text(&out, i ? "." : "");
        kg_buf_escaped(&out, path[i]);
    }
    return kg_buf_terminate(&out);
}

static int edit_text_check_text(struct kg_str text, struct kg_err *err)
{
    if (kg_utf8_valid(text) == text.length)
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS, "the text to be written is not UTF-8");
}

/* Once here, so that writers need no errors; depth is what the path has used. */
static int check_value(const struct edit_format *format, const struct kg_node *value, size_t depth,
                       struct kg_err *err)
{
    if (depth > KG_DOC_DEPTH_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS, "nested deeper than %d levels", KG_DOC_DEPTH_MAX);
    int result = value->type == KG_STRING ? edit_text_check_text(value->text, err) : 0;
    if (result < 0 || !edit_is_container(value))
        return result < 0 ? result : format->check_scalar(value, err);
    for (uint32_t i = 0; i < value->count; i++) {
        bool list = value->type == KG_ARRAY;
        const struct kg_node *child = list ? &value->items[i] : &value->members[i].value;
        result = list ? 0 : edit_text_check_text(value->members[i].key, err);
        if (result == 0)
            result = check_value(format, child, depth + 1, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int edit_text_take_path(struct edit_request *request, const char *const *path, size_t count,
                               struct kg_err *err)
{
    if (count == 0 || count >= EDIT_PATH_MAX)
        return kg_fail(err, KG_E_USAGE, "a key must have 1 to %d parts", EDIT_PATH_MAX - 1);
    for (size_t i = 0; i < count; i++) {
        request->path[i] = kg_str(path[i]);
        int result = edit_text_check_text(request->path[i], err);
        if (result < 0)
            return result;
    }
    request->count = count;
    return 0;
}

/* Follows the path as far as there is something. A null on the way counts as an empty map. */
static int edit_text_look_up(struct edit_request *request, struct kg_err *err)
{
    const struct kg_node *node = request->root;
    request->found = 0;
    while (node->type == KG_OBJECT && request->found < request->count) {
        const struct kg_member *member = kg_node_member(node, request->path[request->found]);
        if (member == NULL)
            break;
        node = &member->value;
        request->found++;
    }
    if (request->found == request->count) {
        request->old = node;
        return 0;
    }
    if (request->value == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "there is no such key");
    if (node->type == KG_OBJECT || node->type == KG_NULL)
        return 0;
    kg_auto(kg_free) char *there = edit_text_path_text(request->path, request->found);
    return kg_fail(err, KG_E_CONFLICT, "%s on line %u is %s %s, not a map of keys",
                   request->found ? there : "the text", node->line,
                   node->type == KG_ARRAY ? "an" : "a", kg_type_names[node->type]);
}

/* Whether the rest of path is all that there is below node. */
static bool is_only_path(const struct kg_node *node, const struct kg_str *path, size_t count)
{
    while (count-- > 0) {
        if (node->type != KG_OBJECT || node->count != 1 ||
            !kg_str_equal(node->members[0].key, *path++))
            return false;
        node = &node->members[0].value;
    }
    return true;
}

/* Whether after is before with that one change. A map without keys may go with its last one. */
static bool is_change(const struct kg_node *before, const struct kg_node *after,
                      const struct kg_str *path, size_t count, const struct kg_node *value)
{
    if (count == 0)
        return value != NULL && edit_same(after, value);
    if (after->type != KG_OBJECT)
        return false;
    uint32_t others = 0;
    uint32_t before_count = before && before->type == KG_OBJECT ? before->count : 0;
    for (uint32_t i = 0; i < before_count; i++) {
        const struct kg_member *member = &before->members[i];
        if (kg_str_equal(member->key, *path))
            continue;
        const struct kg_member *now = kg_node_member(after, member->key);
        if (now == NULL || !edit_same(&member->value, &now->value))
            return false;
        others++;
    }
    const struct kg_member *old = before_count ? kg_node_member(before, *path) : NULL;
    const struct kg_member *now = kg_node_member(after, *path);
    if (after->count != others + (now != NULL))
        return false;
    if (now == NULL)
        return value == NULL && old && is_only_path(&old->value, path + 1, count - 1);
    return is_change(old ? &old->value : NULL, &now->value, path + 1, count - 1, value);
}

static int edit_text_check_result(const struct edit_format *format,
                                  const struct edit_request *request, struct kg_str result,
                                  struct kg_err *err)
{
    struct kg_err why = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *after = format->read(result, &why);
    if (after == NULL)
        return kg_fail(err, KG_E_CONFLICT, "the result could not be read: %s", why.message);
    if (!is_change(request->root, after->root, request->path, request->count, request->value))
        return kg_fail(err, KG_E_CONFLICT, "the result would differ in more than this key");
    return 0;
}

static void edit_begin(struct edit *edit, struct kg_str text)
{
    if (kg_str_starts(text, byte_order_mark.data))
        text = (struct kg_str){text.data + byte_order_mark.length,
                               text.length - byte_order_mark.length};
    edit->text = text.data ? text : KG_STR("");
    const char *newline = text.data && text.length ? memchr(text.data, '\n', text.length) : NULL;
    edit->eol = newline && newline > text.data && newline[-1] == '\r' ? "\r\n" : "\n";
    edit->arena = kg_arena_new();
}

static void edit_end(struct edit *edit)
{
    kg_arena_free(edit->arena);
    free(edit->splices);
    kg_buf_free(&edit->tail);
}

static int edit_text_run(const struct edit_format *format, struct kg_buf *text,
                         struct edit_request *request, struct kg_err *err)
{
    kg_auto(edit_end) struct edit edit = {0};
    edit_begin(&edit, kg_buf_view(text));
    int result = format->plan(&edit, request, err);
    if (result < 0)
        return result;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    edit_text_apply(&edit, &body);
    if (edit.text.data != text->data && text->length > 0)
        kg_buf_str(&out, byte_order_mark);
    kg_buf_str(&out, kg_buf_view(&body));
    result = edit_text_check_result(format, request, kg_buf_view(&out), err);
    if (result < 0)
        return result;
    kg_buf_free(text);
    *text = out;
    out = (struct kg_buf){0};
    return 0;
}

int edit_run(const struct edit_format *format, struct kg_buf *text, const char *const *path,
             size_t path_count, const struct kg_node *value, struct kg_err *err)
{
    struct kg_err unused = {0};
    struct edit_request request = {.value = value};
    err = err ? err : &unused;
    int result = edit_text_take_path(&request, path, path_count, err);
    if (result < 0)
        return result;
    kg_auto(kg_doc_cleanup) struct kg_doc *before = format->read(kg_buf_view(text), err);
    if (before == NULL)
        return -err->errnum;
    request.root = before->root;
    kg_auto(kg_free) char *name = edit_text_path_text(request.path, path_count);
    result = value ? check_value(format, value, path_count + 1, err) : 0;
    if (result == 0)
        result = edit_text_look_up(&request, err);
    if (result == 0 && request.old && value && edit_same(request.old, value))
        return 0;
    if (result == 0)
        result = edit_text_run(format, text, &request, err);
    return result < 0 ? kg_wrap(err, result, "%s %s", value ? "set" : "remove", name) : 0;
}
