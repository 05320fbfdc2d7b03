/*
 * What kaged-watch tells of one child. That program reads what a plugin wrote, so it is not
 * believed either: a message that does not fit ends the telling.
 */
#include "cage/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define MESSAGES_A_TURN 256

const char *const cage_act_names[CAGE_ACTS] = {
    [CAGE_ACT_LOOK] = "look",     [CAGE_ACT_READ] = "read", [CAGE_ACT_LIST] = "list",
    [CAGE_ACT_WRITE] = "write",   [CAGE_ACT_RUN] = "run",   [CAGE_ACT_CONNECT] = "connect",
    [CAGE_ACT_OTHERS] = "others",
};

struct cage_attempts {
    struct loop_fd end;
    void (*on_new)(void *data, const struct cage_attempt *attempt);
    void *data;
    struct cage_attempt *items; /* owned */
    size_t count;
};

static bool attempts_add(struct cage_attempts *attempts, const struct cage_told *told,
                         const char *what, size_t length)
{
    if (attempts->count == CAGE_ATTEMPTS_MAX || memchr(what, '\0', length) != NULL)
        return false;
    attempts->items = kg_realloc(attempts->items, (attempts->count + 1) * sizeof(*attempts->items));
    struct cage_attempt *attempt = &attempts->items[attempts->count++];
    *attempt = (struct cage_attempt){
        .act = told->act,
        .there = told->there,
        .what = kg_str_dup((struct kg_str){what, length}),
        .call = kg_str_dup((struct kg_str){told->call, strnlen(told->call, sizeof(told->call))}),
        .port = told->port,
        .count = told->count,
    };
    if (attempts->on_new != NULL)
        attempts->on_new(attempts->data, attempt);
    return true;
}

static bool attempts_take(struct cage_attempts *attempts, const char *message, size_t size)
{
    struct cage_told told;
    if (size < sizeof(told))
        return false;
    memcpy(&told, message, sizeof(told));
    if (told.act >= CAGE_ACTS || told.there >= CAGE_THERES || told.index > attempts->count)
        return false;
    if (told.index == attempts->count)
        return attempts_add(attempts, &told, message + sizeof(told), size - sizeof(told));
    attempts->items[told.index].count = told.count;
    return true;
}

/* False when there is nothing more for now, or ever. */
static bool attempts_read(struct cage_attempts *attempts)
{
    char message[sizeof(struct cage_told) + 2 * CAGE_PATH_MAX];
    ssize_t got = recv(attempts->end.fd, message, sizeof(message), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (got > 0 && attempts_take(attempts, message, (size_t)got))
        return true;
    loop_fd_end(&attempts->end);
    return false;
}

static void cage_attempts_on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct cage_attempts *attempts = KG_CONTAINER(poll->data, struct cage_attempts, end);
    for (unsigned i = 0; i < MESSAGES_A_TURN && attempts_read(attempts); i++)
        ;
}

struct cage_attempts *
cage_attempts_new(struct loop *loop, int fd,
                  void (*on_new)(void *data, const struct cage_attempt *attempt), void *data)
{
    struct cage_attempts *attempts = kg_alloc(sizeof(*attempts));
    attempts->on_new = on_new;
    attempts->data = data;
    loop_fd_begin(loop, &attempts->end, fd);
    if (attempts->end.poll != NULL)
        uv_poll_start(attempts->end.poll, UV_READABLE, cage_attempts_on_readable);
    return attempts;
}

void cage_attempts_finish(struct cage_attempts *attempts)
{
    while (attempts->end.fd >= 0 && attempts_read(attempts))
        ;
    loop_fd_end(&attempts->end);
}

size_t cage_attempts_count(const struct cage_attempts *attempts)
{
    return attempts->count;
}

const struct cage_attempt *cage_attempts_at(const struct cage_attempts *attempts, size_t index)
{
    return &attempts->items[index];
}

void cage_attempts_free(struct cage_attempts *attempts)
{
    if (attempts == NULL)
        return;
    loop_fd_end(&attempts->end);
    for (size_t i = 0; i < attempts->count; i++) {
        free(attempts->items[i].what);
        free(attempts->items[i].call);
    }
    free(attempts->items);
    free(attempts);
}
