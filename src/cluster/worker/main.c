/*
 * kaged-link: speaks TLS with other nodes, so that the daemon need not. Without a word it is the
 * daemon's child: its stdin is a socket, on which it is given its keys first, and then sockets, see
 * cluster/link_wire.h. It gives up all else before it has the first, and ends with the daemon. With
 * a word it makes keys and certificates, or joins, and is done:
 *
 *   kaged-link authority NAME | request NODE | certificate NODE | expiry
 *   kaged-link join ADDRESS FINGERPRINT
 */
#include "cluster/worker/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define CONTROL    STDIN_FILENO
#define PEM_BYTES  ((size_t)64 * 1024)
#define ORDERS_MAX 64 /* before others have their turn */

int program_leave(const char *what)
{
    fprintf(stderr, "kaged-link: %s\n", what);
    return 1;
}

int program_read(struct kg_buf *ret_text)
{
    for (;;) {
        kg_buf_reserve(ret_text, 4096);
        ssize_t got = read(STDIN_FILENO, ret_text->data + ret_text->length, 4096);
        if (got < 0 && errno == EINTR)
            continue;
        ret_text->length += got > 0 ? (size_t)got : 0;
        if (got <= 0 || ret_text->length > PEM_BYTES)
            return got == 0 ? 0 : -EIO;
    }
}

/* What it was given, for OpenSSL to read; it is overwritten afterwards. */
static int link_take_keys(struct tls *tls, char ret_words[LINK_WORDS])
{
    struct link_message message = {0};
    int fds[CAGE_MESSAGE_FDS] = {-1, -1, -1};
    struct kg_buf pem = {0};
    if (cage_message_receive(CONTROL, &message, sizeof(message), fds) != 1 ||
        message.kind != LINK_KEYS || fds[0] < 0) {
        snprintf(ret_words, LINK_WORDS, "it was given no keys");
        return -EINVAL;
    }
    int result = kg_read_fd(fds[0], "keys", PEM_BYTES, &pem, NULL);
    if (result == 0)
        result = tls_open(tls, kg_buf_view(&pem), ret_words);
    explicit_bzero(pem.data, pem.length);
    kg_buf_free(&pem);
    kg_close(&fds[0]);
    return result;
}

/* False at the end. */
static bool link_take_orders(struct tunnels *tunnels)
{
    for (int i = 0; i < ORDERS_MAX; i++) {
        struct link_message order;
        int fds[CAGE_MESSAGE_FDS];
        int result = cage_message_receive(CONTROL, &order, sizeof(order), fds);
        if (result == -EAGAIN)
            return true;
        if (result <= 0 || (order.kind != LINK_ACCEPT && order.kind != LINK_CONNECT))
            return false;
        order.node[LINK_NODE_MAX] = '\0';
        kg_close(&fds[2]);
        tunnels_add(tunnels, &order, fds[0], fds[1]);
    }
    return true;
}

static int link_serve(void)
{
    struct tls tls = {0};
    struct link_message ready = {.kind = LINK_READY};
    struct tunnels *tunnels = tunnels_new(CONTROL, &tls);
    signal(SIGPIPE, SIG_IGN);
    int result = link_take_keys(&tls, ready.words);
    if (result == 0 && link_confine() < 0)
        snprintf(ready.words, sizeof(ready.words), "the kernel refuses a filter of system calls");
    cage_message_send(CONTROL, &ready, sizeof(ready), NULL, 0);
    if (ready.words[0] != '\0')
        return program_leave(ready.words);
    while (tunnels_turn(tunnels) == 0 || link_take_orders(tunnels))
        continue;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        int words;
    } acts[] = {{"authority", 3}, {"request", 3}, {"certificate", 3}, {"expiry", 2}, {"join", 4}};
    size_t act = 0;
    if (argc == 1)
        return link_serve();
    while (act < KG_COUNT(acts) &&
           (strcmp(argv[1], acts[act].word) != 0 || argc != acts[act].words))
        act++;
    switch (act) {
    case 0:
        return authority_main(argv[2]);
    case 1:
        return request_main(argv[2]);
    case 2:
        return certificate_main(argv[2]);
    case 3:
        return expiry_main();
    case 4:
        return join_main(argv[2], argv[3]);
    default:
        return program_leave("it is started by the daemon, and by kaged cluster");
    }
}
