/*
 * One exchange with a node, for who has no certificate yet: what stdin has is sent, and what comes
 * until the end is written out. Nothing is sent to whom the fingerprint does not fit.
 */
#include "base/url.h"
#include "cluster/worker/internal.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_BYTES ((size_t)256 * 1024)
#define WAIT_SEC     15

static int join_connect(const char *address)
{
    kg_auto(kg_free) char *host = NULL;
    uint16_t port = 0;
    char port_text[8];
    struct addrinfo *found = NULL;
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    const struct timeval wait = {.tv_sec = WAIT_SEC};
    if (!kg_address_split(address, &host, &port))
        return -EINVAL;
    snprintf(port_text, sizeof(port_text), "%u", port);
    if (getaddrinfo(host, port_text, &wanted, &found) != 0)
        return -EHOSTUNREACH;
    int result = -EHOSTUNREACH;
    for (const struct addrinfo *at = found; at != NULL && result < 0; at = at->ai_next) {
        kg_auto(kg_close) int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
            connect(fd, at->ai_addr, at->ai_addrlen) < 0)
            result = -errno;
        else
            result = kg_steal_fd(&fd);
    }
    freeaddrinfo(found);
    return result;
}

static int join_exchange(SSL *ssl, struct kg_str text)
{
    char bytes[4096];
    size_t all = 0;
    if (SSL_connect(ssl) != 1) {
        bool unknown = SSL_get_verify_result(ssl) != X509_V_OK;
        char words[LINK_WORDS];
        tls_words("TLS", words);
        return program_leave(unknown ? "who answers there is not of the token's cluster" : words);
    }
    if (SSL_write(ssl, text.data, (int)text.length) != (int)text.length)
        return program_leave("the node takes nothing");
    for (int got; (got = SSL_read(ssl, bytes, sizeof(bytes))) > 0;) {
        all += (size_t)got;
        if (all > ANSWER_BYTES || kg_write_all(STDOUT_FILENO, bytes, (size_t)got) < 0)
            return program_leave("the node's answer does not end");
    }
    return all > 0 ? 0 : program_leave("the node did not answer");
}

int join_main(const char *address, const char *fingerprint)
{
    char words[LINK_WORDS] = "";
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    signal(SIGPIPE, SIG_IGN);
    if (program_read(&text) < 0)
        return program_leave("what is to be sent is too long");
    kg_auto(kg_close) int fd = join_connect(address);
    if (fd < 0) {
        snprintf(words, sizeof(words), "connect to %.100s: %s", address, strerror(-fd));
        return program_leave(words);
    }
    SSL_CTX *context = tls_pinned(fingerprint, words);
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    int result = ssl != NULL && SSL_set_fd(ssl, fd) == 1 ? join_exchange(ssl, kg_buf_view(&text))
                                                         : program_leave("TLS does not start");
    SSL_free(ssl);
    SSL_CTX_free(context);
    return result;
}
