/*
 * Runs in a cage with a network and tries one thing: `client ATTEMPT HOST PORT` prints one line,
 * what the other side said or the name of the error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define WAIT_SECONDS 10

static int say_error(void)
{
    puts(strerrorname_np(errno));
    return 0;
}

static struct addrinfo *find(const char *host, const char *port, int type)
{
    struct addrinfo hints = {.ai_socktype = type}, *found = NULL;
    int result = getaddrinfo(host, port, &hints, &found);
    if (result == 0)
        return found;
    puts(gai_strerror(result));
    exit(0);
}

static int open_to(const struct addrinfo *to)
{
    struct timeval wait = {.tv_sec = WAIT_SECONDS};
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    return connect(fd, to->ai_addr, to->ai_addrlen) < 0 ? -1 : fd;
}

/* Asks like a browser of old, and prints what follows the empty line. */
static int try_get(const char *host, const char *port)
{
    static const char question[] = "GET / HTTP/1.0\r\n\r\n";
    char text[1024];
    size_t length = 0;
    int fd = open_to(find(host, port, SOCK_STREAM));
    if (fd < 0 || send(fd, question, sizeof(question) - 1, MSG_NOSIGNAL) < 0)
        return say_error();
    for (ssize_t got; (got = read(fd, text + length, sizeof(text) - 1 - length)) != 0;) {
        if (got < 0)
            return say_error();
        length += (size_t)got;
    }
    text[length] = '\0';
    const char *body = strstr(text, "\r\n\r\n");
    fputs(body != NULL ? body + 4 : "nothing\n", stdout);
    return 0;
}

static int try_udp(const char *host, const char *port)
{
    char answer[16];
    int fd = open_to(find(host, port, SOCK_DGRAM));
    if (fd < 0 || send(fd, "x", 1, 0) < 0 || recv(fd, answer, sizeof(answer), 0) < 0)
        return say_error();
    puts("ok");
    return 0;
}

static int try_resolve(const char *host, const char *port)
{
    char text[INET6_ADDRSTRLEN];
    for (struct addrinfo *one = find(host, port, SOCK_STREAM); one != NULL; one = one->ai_next) {
        getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST);
        printf("%s%s", text, one->ai_next != NULL ? " " : "\n");
    }
    return 0;
}

/* A server of the plugin's own: says hello to itself. */
static int try_serve(const char *host, const char *port)
{
    struct addrinfo *at = find(host, port, SOCK_STREAM);
    char text[16];
    int server = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server, at->ai_addr, at->ai_addrlen) < 0 || listen(server, 1) < 0)
        return say_error();
    int client = open_to(at);
    int peer = accept(server, NULL, NULL);
    if (client < 0 || send(peer, "hello\n", 7, 0) < 0 || recv(client, text, sizeof(text), 0) < 0)
        return say_error();
    fputs(text, stdout);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(const char *host, const char *port);
} attempts[] = {{"get", try_get}, {"udp", try_udp}, {"resolve", try_resolve}, {"serve", try_serve}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 4 && i < sizeof(attempts) / sizeof(attempts[0]); i++)
        if (strcmp(attempts[i].name, argv[1]) == 0)
            return attempts[i].run(argv[2], argv[3]);
    fprintf(stderr, "usage: client ATTEMPT HOST PORT\n");
    return 2;
}
