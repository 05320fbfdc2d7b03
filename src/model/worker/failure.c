/*
 * What went wrong, in one word of a table and in a sentence. A provider's own words are cut, made
 * printable and freed of the secrets that were sent to it.
 */
#include "model/worker/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX  300 /* bytes of a provider's message */
#define SECRET_MIN 4   /* shorter ones would be found everywhere */

static const struct {
    const char *name;
    bool again;
} rows[] = {
    [MODEL_OK] = {"ok", false},
#define MODEL_FAILURE(symbol, name, again) [MODEL_##symbol] = {name, again},
#include "model/worker/failures.def"
#undef MODEL_FAILURE
};

const char *failure_name(enum model_failure code)
{
    return rows[code].name;
}

bool failure_may_pass(enum model_failure code)
{
    return rows[code].again;
}

int failure_set(struct failure *failure, enum model_failure code, const char *format, ...)
{
    if (failure->code != MODEL_OK)
        return -1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->message, sizeof(failure->message), format, arguments);
    va_end(arguments);
    failure->code = code;
    return -1;
}

/* -- what a provider says ---------------------------------------------------------------------- */

/* The first row that fits tells. */
static const struct {
    int from, to;
    enum model_failure code;
} statuses[] = {
    {401, 401, MODEL_UNAUTHORIZED}, {402, 402, MODEL_QUOTA},   {403, 403, MODEL_UNAUTHORIZED},
    {404, 405, MODEL_NOT_FOUND},    {408, 408, MODEL_SERVER},  {413, 413, MODEL_CONTEXT},
    {429, 429, MODEL_RATE_LIMITED}, {400, 499, MODEL_INVALID}, {503, 503, MODEL_OVERLOADED},
    {529, 529, MODEL_OVERLOADED},   {500, 599, MODEL_SERVER},  {300, 399, MODEL_REFUSED},
};

/* What both APIs call their errors: `type` or `code`. */
static const struct {
    const char *word;
    enum model_failure code;
} words[] = {
    {"context_length_exceeded", MODEL_CONTEXT},
    {"insufficient_quota", MODEL_QUOTA},
    {"billing_error", MODEL_QUOTA},
    {"overloaded_error", MODEL_OVERLOADED},
    {"rate_limit_error", MODEL_RATE_LIMITED},
    {"rate_limit_exceeded", MODEL_RATE_LIMITED},
    {"authentication_error", MODEL_UNAUTHORIZED},
    {"permission_error", MODEL_UNAUTHORIZED},
    {"invalid_api_key", MODEL_UNAUTHORIZED},
    {"not_found_error", MODEL_NOT_FOUND},
    {"model_not_found", MODEL_NOT_FOUND},
    {"request_too_large", MODEL_CONTEXT},
};

/* Sentences by which those are known who have no word for it. */
static const char *const context_phrases[] = {"prompt is too long", "maximum context length",
                                              "context window", "context length"};

static enum model_failure by_status(int status)
{
    for (size_t i = 0; i < KG_COUNT(statuses); i++)
        if (status >= statuses[i].from && status <= statuses[i].to)
            return statuses[i].code;
    return MODEL_BAD_ANSWER;
}

static enum model_failure by_word(struct kg_str word, enum model_failure otherwise)
{
    for (size_t i = 0; i < KG_COUNT(words); i++)
        if (kg_str_is(word, words[i].word))
            return words[i].code;
    return otherwise;
}

/* Where the part begins in the text, or NULL. */
static const char *model_failure_find(struct kg_str text, const char *part)
{
    return text.length > 0 ? memmem(text.data, text.length, part, strlen(part)) : NULL;
}

static bool speaks_of_context(struct kg_str message)
{
    for (size_t i = 0; i < KG_COUNT(context_phrases); i++)
        if (model_failure_find(message, context_phrases[i]) != NULL)
            return true;
    return false;
}

static enum model_failure model_failure_classify(const struct kg_node *error, struct kg_str message,
                                                 enum model_failure otherwise)
{
    enum model_failure code = by_word(kg_node_text(error, "code"), MODEL_OK);
    if (code == MODEL_OK)
        code = by_word(kg_node_text(error, "type"), otherwise);
    return code == MODEL_INVALID && speaks_of_context(message) ? MODEL_CONTEXT : code;
}

/* {"error":{"message":...}}, {"error":"..."}, {"message":...}, {"detail":...} */
static struct kg_str model_failure_words_of(const struct kg_node *root,
                                            const struct kg_node **ret_error)
{
    static const char *const keys[] = {"message", "error", "detail"};
    const struct kg_node *error = kg_node_get(root, "error");
    *ret_error = error != NULL && error->type == KG_OBJECT ? error : root;
    for (size_t i = 0; i < KG_COUNT(keys); i++) {
        struct kg_str text = kg_node_text(*ret_error, keys[i]);
        if (text.length > 0)
            return text;
    }
    return KG_STR_NULL;
}

/* Where the secret begins in the text, or NULL. */
static const char *find_secret(struct kg_str text, char *const *secrets, size_t *ret_length)
{
    const char *first = NULL;
    for (; *secrets != NULL; secrets++) {
        size_t length = strlen(*secrets);
        const char *found = length >= SECRET_MIN ? model_failure_find(text, *secrets) : NULL;
        if (found == NULL || (first != NULL && found >= first))
            continue;
        first = found;
        *ret_length = length;
    }
    return first;
}

/* Freed of secrets before it is cut, lest half of one be left. */
void failure_put_words(struct kg_buf *out, struct kg_str text, char *const *secrets)
{
    kg_auto(kg_buf_free) struct kg_buf clean = {0};
    const char *found;
    size_t length = 0;
    while (clean.length < WORDS_MAX && (found = find_secret(text, secrets, &length)) != NULL) {
        kg_buf_append(&clean, text.data, (size_t)(found - text.data));
        kg_buf_text(&clean, "[secret]");
        text.length -= (size_t)(found + length - text.data);
        text.data = found + length;
    }
    kg_buf_str(&clean, text);
    if (clean.length == 0)
        return;
    kg_buf_text(out, ": ");
    kg_buf_escaped(
        out, (struct kg_str){clean.data, clean.length < WORDS_MAX ? clean.length : WORDS_MAX});
}

void failure_from_answer(struct failure *failure, int status, struct kg_str body,
                         char *const *secrets)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(body, NULL);
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    enum model_failure code = by_status(status);
    if (doc != NULL) {
        const struct kg_node *error;
        struct kg_str message = model_failure_words_of(doc->root, &error);
        code = model_failure_classify(error, message, code);
        failure_put_words(&said, message, secrets);
    } else {
        failure_put_words(&said, body, secrets);
    }
    failure_set(failure, code, "the provider answered %d%s", status, kg_buf_terminate(&said));
    failure->status = status;
}

void failure_from_event(struct failure *failure, const struct kg_node *error, char *const *secrets)
{
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    struct kg_str message = error->type == KG_STRING ? error->text : kg_node_text(error, "message");
    failure_put_words(&said, message, secrets);
    failure_set(failure, model_failure_classify(error, message, MODEL_SERVER),
                "the provider broke off with an error%s", kg_buf_terminate(&said));
}
