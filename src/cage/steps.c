/*
 * The parts that a plan is made of: paths that mean what they say, steps, words, grants,
 * listeners.
 */
#include "cage/internal.h"

#include <stdlib.h>

const char *const cage_step_names[CAGE_STEP_KINDS] = {
    [CAGE_STEP_SYSTEM] = "system", [CAGE_STEP_BIND] = "bind",
    [CAGE_STEP_LINK] = "link",     [CAGE_STEP_TMPFS] = "tmpfs",
    [CAGE_STEP_PROC] = "proc",     [CAGE_STEP_DEVICE] = "device",
    [CAGE_STEP_COPY] = "copy",     [CAGE_STEP_READ_ONLY] = "read-only",
    [CAGE_STEP_WRITE] = "write",   [CAGE_STEP_TEXT] = "text",
};

static bool is_dots(const char *part, size_t length)
{
    return length == 0 || (length == 1 && part[0] == '.') ||
           (length == 2 && part[0] == '.' && part[1] == '.');
}

bool cage_path_plain(const char *path)
{
    if (path[0] != '/' || strlen(path) >= CAGE_PATH_MAX)
        return false;
    for (const char *part = path + 1;; part++) {
        size_t length = strcspn(part, "/");
        if (is_dots(part, length))
            return false;
        part += length;
        if (*part == '\0')
            return true;
    }
}

static void drop_last_part(struct kg_buf *path)
{
    while (path->length > 0 && path->data[path->length - 1] != '/')
        path->length--;
    if (path->length > 0)
        path->length--;
}

char *cage_path_join(const char *base, const char *relative)
{
    struct kg_buf path = {0};
    if (relative[0] != '/' && strcmp(base, "/") != 0)
        kg_buf_text(&path, base);
    while (*relative != '\0') {
        size_t length = strcspn(relative, "/");
        if (length == 2 && is_dots(relative, length)) {
            drop_last_part(&path);
        } else if (!is_dots(relative, length)) {
            kg_buf_char(&path, '/');
            kg_buf_append(&path, relative, length);
        }
        relative += length + (relative[length] == '/');
    }
    if (path.length == 0)
        kg_buf_char(&path, '/');
    return kg_buf_terminate(&path);
}

void cage_steps_add(struct cage_steps *steps, enum cage_step_kind kind, const char *path,
                    const char *source, uint64_t bytes)
{
    steps->items = kg_realloc(steps->items, (steps->count + 1) * sizeof(*steps->items));
    steps->items[steps->count++] = (struct cage_step){
        .kind = kind, .path = kg_strdup(path), .source = kg_strdup(source), .bytes = bytes};
}

bool cage_steps_reach(const struct cage_steps *steps, const char *path)
{
    for (size_t i = 0; i < steps->count; i++) {
        const struct cage_step *step = &steps->items[i];
        if ((step->kind == CAGE_STEP_SYSTEM || step->kind == CAGE_STEP_BIND ||
             step->kind == CAGE_STEP_WRITE || step->kind == CAGE_STEP_COPY ||
             step->kind == CAGE_STEP_LINK) &&
            kg_path_within(path, step->path))
            return true;
    }
    return false;
}

int cage_steps_too_many(const char *name, struct kg_err *err)
{
    kg_fail(err, KG_E_TOO_LARGE, "plugin %s: its cage would have more than %d mounts", name,
            CAGE_STEPS_MAX);
    return kg_hint(err, "each path, program and folder between a path that may be written and one "
                        "below it that may not is a mount: declare fewer");
}

void cage_steps_free(struct cage_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        free(steps->items[i].path);
        free(steps->items[i].source);
    }
    free(steps->items);
    *steps = (struct cage_steps){0};
}

void cage_words_add(struct cage_words *words, const char *text)
{
    words->items = kg_realloc(words->items, (words->count + 2) * sizeof(*words->items));
    words->items[words->count++] = kg_strdup(text);
    words->items[words->count] = NULL;
}

bool cage_words_have(const struct cage_words *words, const char *text)
{
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->items[i], text) == 0)
            return true;
    return false;
}

void cage_words_free(struct cage_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (struct cage_words){0};
}

void cage_grants_add(struct cage_grants *grants, enum cage_grant_kind kind, const char *path,
                     const char *note)
{
    grants->items = kg_realloc(grants->items, (grants->count + 1) * sizeof(*grants->items));
    grants->items[grants->count++] =
        (struct cage_grant){.kind = kind, .path = kg_strdup(path), .note = kg_strdup(note)};
}

void cage_grants_free(struct cage_grants *grants)
{
    for (size_t i = 0; i < grants->count; i++) {
        free(grants->items[i].path);
        free(grants->items[i].note);
    }
    free(grants->items);
    *grants = (struct cage_grants){0};
}

static void steps_add_listener(struct cage_listener **items, size_t *count, const char *host,
                               const char *address, uint16_t port)
{
    *items = kg_realloc(*items, (*count + 1) * sizeof(**items));
    (*items)[(*count)++] = (struct cage_listener){
        .host = kg_strdup(host), .address = kg_strdup(address), .port = port};
}

void cage_network_add(struct cage_network *network, const char *host, const char *address,
                      uint16_t port)
{
    steps_add_listener(&network->items, &network->count, host, address, port);
}

void cage_network_close(struct cage_network *network, const char *host, uint16_t port)
{
    steps_add_listener(&network->closed, &network->closed_count, host, "", port);
}

static void free_listeners(struct cage_listener *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].host);
        free(items[i].address);
    }
    free(items);
}

void cage_network_free(struct cage_network *network)
{
    free_listeners(network->items, network->count);
    free_listeners(network->closed, network->closed_count);
    free(network->nft);
    *network = (struct cage_network){0};
}
