/*
 * A boundary is only seen whole: what could be the beginning of one waits for the next piece, and
 * all before it is passed on. So no byte is looked at more often than the boundary is long.
 */
#include "http/multipart.h"

#include <strings.h>

/* The value of NAME="VALUE" or NAME=VALUE among the parameters of a header; data NULL: none. */
static struct kg_str parameter_of(struct kg_str header, const char *name)
{
    size_t length = strlen(name);
    struct kg_str rest = header;
    kg_str_cut(&rest, ';');
    while (rest.length > 0) {
        while (rest.length > 0 && (rest.data[0] == ' ' || rest.data[0] == '\t'))
            rest = kg_str_from(rest, 1);
        bool named = rest.length > length && strncasecmp(rest.data, name, length) == 0 &&
                     rest.data[length] == '=';
        struct kg_str value = named ? kg_str_from(rest, length + 1) : KG_STR_NULL;
        if (named && value.length > 0 && value.data[0] == '"') {
            value = kg_str_from(value, 1);
            return kg_str_cut(&value, '"');
        }
        if (named)
            return kg_str_cut(&value, ';');
        kg_str_cut(&rest, ';');
    }
    return KG_STR_NULL;
}

static int multipart_malformed(struct kg_err *err, const char *what)
{
    kg_fail(err, KG_E_INVALID_PACKAGE,
            "Invalid plugin file: the body is not multipart/form-data: %s", what);
    return kg_hint(err, "send it as curl -F file=@package.zip does");
}

int multipart_begin(struct multipart *multipart, struct kg_str content_type, const char *field,
                    struct kg_err *err)
{
    static const char type[] = "multipart/form-data";
    struct kg_str boundary = parameter_of(content_type, "boundary");
    if (content_type.length < sizeof(type) - 1 ||
        strncasecmp(content_type.data, type, sizeof(type) - 1) != 0)
        return multipart_malformed(err, "Content-Type says something else");
    if (boundary.length == 0 || boundary.length > MULTIPART_BOUNDARY_MAX)
        return multipart_malformed(err, "its Content-Type has no valid boundary");
    multipart->field = field;
    memcpy(multipart->boundary, "\r\n--", 4);
    kg_str_copy(boundary, multipart->boundary + 4, sizeof(multipart->boundary) - 4);
    kg_buf_text(&multipart->held, "\r\n"); /* the first boundary may stand at the very start */
    return 0;
}

/* Content-Disposition: form-data; name="file"; filename="x.zip" */
static void multipart_take_head(struct multipart *multipart, struct kg_str head)
{
    static const char name[] = "content-disposition:";
    multipart->wanted = false;
    while (head.length > 0) {
        struct kg_str line = kg_str_cut(&head, '\n');
        if (line.length > 0 && line.data[line.length - 1] == '\r')
            line.length--;
        if (line.length < sizeof(name) - 1 || strncasecmp(line.data, name, sizeof(name) - 1) != 0)
            continue;
        struct kg_str file = parameter_of(line, "filename");
        multipart->wanted =
            !multipart->found && kg_str_is(parameter_of(line, "name"), multipart->field);
        if (multipart->wanted)
            kg_str_copy(file.data ? file : KG_STR(""), multipart->file_name,
                        sizeof(multipart->file_name));
    }
    multipart->found |= multipart->wanted;
}

static void multipart_pass_on(struct multipart *multipart, size_t length)
{
    if (multipart->state == MULTIPART_CONTENT && multipart->wanted && length > 0)
        multipart->on_bytes(multipart->data, kg_str_first(kg_buf_view(&multipart->held), length));
    kg_buf_consume(&multipart->held, length);
}

/* Up to the next boundary, which must be whole with the two bytes behind it. False: more must come.
 */
static bool step_to_boundary(struct multipart *multipart, int *ret_result, struct kg_err *err)
{
    struct kg_str held = kg_buf_view(&multipart->held);
    size_t length = strlen(multipart->boundary);
    const char *found = memmem(held.data, held.length, multipart->boundary, length);
    if (found == NULL) {
        if (held.length >= length)
            multipart_pass_on(multipart, held.length - length + 1);
        return false;
    }
    size_t before = (size_t)(found - held.data);
    if (held.length < before + length + 2) {
        multipart_pass_on(multipart, before);
        return false;
    }
    struct kg_str behind = kg_str_first(kg_str_from(held, before + length), 2);
    bool last = kg_str_is(behind, "--"), ends_line = kg_str_is(behind, "\r\n");
    multipart_pass_on(multipart, before);
    kg_buf_consume(&multipart->held, length + (last ? 2 : 0));
    if (!last && !ends_line)
        *ret_result = multipart_malformed(err, "a boundary does not end its line");
    multipart->state = last ? MULTIPART_EPILOGUE : MULTIPART_HEAD;
    return true;
}

static bool step_over_head(struct multipart *multipart, int *ret_result, struct kg_err *err)
{
    struct kg_str held = kg_buf_view(&multipart->held);
    const char *end = memmem(held.data, held.length, "\r\n\r\n", 4);
    size_t length = end ? (size_t)(end - held.data) : held.length;
    if (length > MULTIPART_HEAD_MAX || multipart->parts == MULTIPART_PARTS_MAX)
        *ret_result =
            multipart_malformed(err, "a part has too many headers, or there are too many parts");
    if (end == NULL || *ret_result < 0)
        return *ret_result < 0;
    multipart_take_head(multipart, kg_str_first(held, length));
    kg_buf_consume(&multipart->held, length + 4);
    multipart->parts++;
    multipart->state = MULTIPART_CONTENT;
    return true;
}

int multipart_feed(struct multipart *multipart, struct kg_str piece, struct kg_err *err)
{
    int result = 0;
    bool more = true;
    if (multipart->state != MULTIPART_EPILOGUE)
        kg_buf_str(&multipart->held, piece);
    while (result == 0 && more && multipart->state != MULTIPART_EPILOGUE)
        more = multipart->state == MULTIPART_HEAD ? step_over_head(multipart, &result, err)
                                                  : step_to_boundary(multipart, &result, err);
    return result;
}

int multipart_end(const struct multipart *multipart, struct kg_err *err)
{
    if (multipart->state != MULTIPART_EPILOGUE)
        return multipart_malformed(err, "it ends before its last boundary");
    if (!multipart->found)
        return multipart_malformed(err, "it has no field \"file\"");
    return 0;
}

void multipart_free(struct multipart *multipart)
{
    kg_buf_free(&multipart->held);
}
