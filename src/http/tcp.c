/*
 * The listener on TCP. It binds a loopback address only, unless a proxy stands before it: whoever
 * could reach another one would have to be let in without TLS.
 */
#include "http/internal.h"

#include "base/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* -- addresses --------------------------------------------------------------------------------- */

static bool tcp_is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static int tcp_read_address(const char *bind, union address *ret_address, struct kg_err *err)
{
    kg_auto(kg_free) char *host = NULL;
    uint16_t port = 0;
    *ret_address = (union address){0};
    if (kg_address_split(bind, &host, &port)) {
        const char *number = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
        if (uv_ip4_addr(number, port, &ret_address->v4) == 0 ||
            uv_ip6_addr(number, port, &ret_address->v6) == 0)
            return 0;
    }
    kg_fail(err, KG_E_INVALID_CONFIG, "daemon.bind is \"%s\", which is not an address and a port",
            bind);
    return kg_hint(err, "write 127.0.0.1:7777 or [::1]:7777; \"\" is no TCP");
}

static void print_address(const union address *address, char ret_host[64], uint16_t *ret_port)
{
    char text[INET6_ADDRSTRLEN] = "";
    bool v6 = address->any.sa_family == AF_INET6;
    if (v6)
        uv_ip6_name(&address->v6, text, sizeof(text));
    else
        uv_ip4_name(&address->v4, text, sizeof(text));
    snprintf(ret_host, 64, v6 ? "[%s]" : "%s", text);
    *ret_port = ntohs(v6 ? address->v6.sin6_port : address->v4.sin_port);
}

void http_source_of(const struct sockaddr *from, struct http_source *ret_source)
{
    union address address = {0};
    struct http_source source = {.tcp = true};
    bool v6 = from->sa_family == AF_INET6;
    memcpy(&address, from, v6 ? sizeof(address.v6) : sizeof(address.v4));
    if (v6)
        uv_ip6_name(&address.v6, source.text, sizeof(source.text));
    else
        uv_ip4_name(&address.v4, source.text, sizeof(source.text));
    source.key[0] = v6 ? 6 : 4;
    if (tcp_is_loopback(&address))
        source.key[0] = 0;
    else if (v6)
        memcpy(source.key + 1, &address.v6.sin6_addr, 8);
    else
        memcpy(source.key + 1, &address.v4.sin_addr, 4);
    *ret_source = source;
}

/* -- listening --------------------------------------------------------------------------------- */

static int tcp_check_reach(const union address *address, bool behind_proxy, const char *bind,
                           struct kg_err *err)
{
    if (tcp_is_loopback(address) || behind_proxy)
        return 0;
    kg_fail(err, KG_E_INVALID_CONFIG,
            "daemon.bind is \"%s\", which others than this machine can reach", bind);
    return kg_hint(err,
                   "bind 127.0.0.1 or [::1], or put a proxy before it and set auth.mode to proxy");
}

int http_address_check(const char *bind, bool behind_proxy, struct kg_err *err)
{
    union address address;
    int result = tcp_read_address(bind, &address, err);
    return result < 0 ? result : tcp_check_reach(&address, behind_proxy, bind, err);
}

static int tcp_start_listening(struct http_server *server, const union address *address)
{
    uv_tcp_init(loop_uv(server->loop), &server->tcp);
    server->tcp.data = server;
    server->has_tcp = true;
    server->open_handles++;
    int result = uv_tcp_bind(&server->tcp, &address->any, 0);
    if (result == 0)
        result =
            uv_listen((uv_stream_t *)&server->tcp, HTTP_LISTEN_BACKLOG, http_server_on_connection);
    return result;
}

int http_server_listen_tcp(struct http_server *server, const char *bind, struct kg_err *err)
{
    union address address;
    uint16_t port;
    int length = sizeof(address);
    int result = tcp_read_address(bind, &address, err);
    if (result == 0)
        result =
            tcp_check_reach(&address, http_auth_mode(server->auth) == HTTP_AUTH_PROXY, bind, err);
    if (result < 0)
        return result;
    result = tcp_start_listening(server, &address);
    if (result == 0)
        result = uv_tcp_getsockname(&server->tcp, &address.any, &length);
    if (result < 0) {
        kg_fail_errno(err, -result, "listen on %s", bind);
        kg_hint(err, "set daemon.bind to another port, to port 0 for a free one, or to \"\"");
        snprintf(server->tcp_problem, sizeof(server->tcp_problem), "%.255s", err->message);
        return result;
    }
    print_address(&address, server->host_name, &port);
    snprintf(server->address, sizeof(server->address), "%.56s:%u", server->host_name, port);
    return 0;
}

const char *http_server_address(const struct http_server *server)
{
    return server->address[0] != '\0' ? server->address : NULL;
}

const char *http_server_tcp_problem(const struct http_server *server)
{
    return server->tcp_problem[0] != '\0' ? server->tcp_problem : NULL;
}

void http_server_set_auth(struct http_server *server, struct http_auth *auth)
{
    server->auth = auth;
}
