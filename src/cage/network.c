/*
 * The network of a plan. Each name that was declared gets an address of its own in a range that no
 * real network uses; one listener stands for one address and port, and none for anything else. The
 * same policy gives the same addresses.
 */
#include "cage/internal.h"

#include <arpa/inet.h>
#include <stdio.h>

#define HOST_BYTES_MAX 253

struct planning {
    const struct cage_policy *policy;
    struct cage_network *network;
    uint32_t last; /* the last address that a name got */
};

/* -- hosts ------------------------------------------------------------------------------------- */

/* What an address that TCP can connect to is, in the form that the kernel prints. */
static bool read_v4(const char *host, struct in_addr *ret_address)
{
    struct in6_addr mapped;
    if (inet_pton(AF_INET, host, ret_address) == 1)
        return true;
    if (inet_pton(AF_INET6, host, &mapped) != 1 || !IN6_IS_ADDR_V4MAPPED(&mapped))
        return false;
    memcpy(ret_address, &mapped.s6_addr[12], sizeof(*ret_address));
    return true;
}

static bool is_literal(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

/* It becomes a line of /etc/hosts, so nothing in it may end the line or start another word. */
static bool network_is_name(const char *host)
{
    size_t length = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789-_.");
    return length > 0 && length <= HOST_BYTES_MAX && host[length] == '\0';
}

/* Where an address listens: itself, but for the one that means this machine. NULL: nowhere. */
static const char *address_of_v4(struct in_addr address, char ret_text[INET6_ADDRSTRLEN])
{
    uint32_t number = ntohl(address.s_addr);
    if (IN_MULTICAST(number) || number == INADDR_BROADCAST)
        return NULL;
    if (number == INADDR_ANY)
        address.s_addr = htonl(INADDR_LOOPBACK);
    return inet_ntop(AF_INET, &address, ret_text, INET6_ADDRSTRLEN);
}

static const char *address_of_v6(const struct in6_addr *address, char ret_text[INET6_ADDRSTRLEN])
{
    if (IN6_IS_ADDR_MULTICAST(address) || IN6_IS_ADDR_LINKLOCAL(address))
        return NULL;
    if (IN6_IS_ADDR_UNSPECIFIED(address))
        address = &in6addr_loopback;
    return inet_ntop(AF_INET6, address, ret_text, INET6_ADDRSTRLEN);
}

static const char *address_of_literal(const char *host, char ret_text[INET6_ADDRSTRLEN])
{
    struct in_addr v4;
    struct in6_addr v6;
    if (read_v4(host, &v4))
        return address_of_v4(v4, ret_text);
    return inet_pton(AF_INET6, host, &v6) == 1 ? address_of_v6(&v6, ret_text) : NULL;
}

static bool network_is_declared(const struct cage_policy *policy, const char *address)
{
    char text[INET6_ADDRSTRLEN];
    for (size_t i = 0; i < policy->reach_count; i++) {
        const char *literal = address_of_literal(policy->reaches[i].host, text);
        if (literal != NULL && strcmp(literal, address) == 0)
            return true;
    }
    return false;
}

/* The address that the name has already, or the next that nobody declared as a literal. */
static void address_of_name(struct planning *planning, const char *name,
                            char ret_text[INET6_ADDRSTRLEN])
{
    for (size_t i = 0; i < planning->network->count; i++) {
        const struct cage_listener *item = &planning->network->items[i];
        if (strcmp(item->host, name) != 0)
            continue;
        snprintf(ret_text, INET6_ADDRSTRLEN, "%s", item->address);
        return;
    }
    do {
        struct in_addr next = {htonl(++planning->last)};
        inet_ntop(AF_INET, &next, ret_text, INET6_ADDRSTRLEN);
    } while (network_is_declared(planning->policy, ret_text));
}

/* -- listeners --------------------------------------------------------------------------------- */

static bool has_listener(const struct cage_network *network, const char *address, uint16_t port)
{
    for (size_t i = 0; i < network->count; i++)
        if (network->items[i].port == port && strcmp(network->items[i].address, address) == 0)
            return true;
    return false;
}

static int network_add_listener(struct planning *planning, const char *host, const char *address,
                                uint16_t port, struct kg_err *err)
{
    if (has_listener(planning->network, address, port))
        return 0;
    if (planning->network->count == CAGE_LISTENERS_MAX)
        return kg_fail(err, KG_E_CAGE, "plugin %s: network: more than %d hosts and ports",
                       planning->policy->name, CAGE_LISTENERS_MAX);
    cage_network_add(planning->network, host, address, port);
    return 0;
}

static int add_literal(struct planning *planning, const struct cage_reach *reach,
                       struct kg_err *err)
{
    char text[INET6_ADDRSTRLEN];
    const char *address = address_of_literal(reach->host, text);
    if (address == NULL)
        return kg_fail(err, KG_E_CAGE, "plugin %s: network: %s is not the address of one machine",
                       planning->policy->name, reach->host);
    return network_add_listener(planning, reach->host, address, reach->port, err);
}

static int add_localhost(struct planning *planning, const struct cage_reach *reach,
                         struct kg_err *err)
{
    int result = network_add_listener(planning, reach->host, "127.0.0.1", reach->port, err);
    return result < 0 ? result
                      : network_add_listener(planning, reach->host, "::1", reach->port, err);
}

static int network_add_name(struct planning *planning, const struct cage_reach *reach,
                            struct kg_err *err)
{
    char address[INET6_ADDRSTRLEN];
    if (!network_is_name(reach->host))
        return kg_fail(err, KG_E_CAGE, "plugin %s: network: \"%" KG_S_NAME "\" is not a host name",
                       planning->policy->name, reach->host);
    address_of_name(planning, reach->host, address);
    return network_add_listener(planning, reach->host, address, reach->port, err);
}

static int add_any(struct planning *planning, const struct cage_reach *reach, struct kg_err *err)
{
    if (reach->port != 0)
        return kg_fail(err, KG_E_CAGE, "plugin %s: network: every host, but only its port %u",
                       planning->policy->name, reach->port);
    planning->network->any = true;
    return 0;
}

static int network_add_reach(struct planning *planning, const struct cage_reach *reach,
                             struct kg_err *err)
{
    if (strcmp(reach->host, "*") == 0)
        return add_any(planning, reach, err);
    if (strcmp(reach->host, "localhost") == 0)
        return add_localhost(planning, reach, err);
    if (is_literal(reach->host))
        return add_literal(planning, reach, err);
    return network_add_name(planning, reach, err);
}

/* -- redirection ------------------------------------------------------------------------------- */

bool cage_network_redirects(const struct cage_network *network)
{
    bool whole = network->any;
    for (size_t i = 0; i < network->count; i++)
        whole = whole || network->items[i].port == 0;
    return whole;
}

static const char *redirected_host(const struct cage_network *network)
{
    for (size_t i = 0; i < network->count; i++)
        if (network->items[i].port == 0)
            return network->items[i].host;
    return "*";
}

static int plan_redirection(const struct cage_policy *policy, const struct cage_facts *facts,
                            struct cage_network *network, struct kg_err *err)
{
    if (!cage_network_redirects(network))
        return 0;
    if (facts->nft == NULL) {
        const char *host = redirected_host(network);
        int result = kg_fail(err, KG_E_CAGE, "plugin %s: net:%s%s needs nft, which is not here",
                             policy->name, host, strcmp(host, "*") == 0 ? "" : ":*");
        kg_hint(err, "install the package nftables, or declare each port that the plugin uses");
        return result;
    }
    kg_free(&network->nft);
    network->nft = kg_strdup(facts->nft);
    return 0;
}

/* -- files ------------------------------------------------------------------------------------- */

/*
 * A client may try only the first address of a name. So localhost has ::1 only where something
 * listens on both; a plugin's own server on 127.0.0.1 is found by either.
 */
static void write_hosts(const struct cage_network *network, struct kg_buf *out)
{
    const struct cage_listener *items = network->items;
    kg_buf_text(out, "127.0.0.1 localhost\n");
    bool both = false;
    for (size_t i = 0; i < network->count; i++)
        both = both || strcmp(items[i].host, "localhost") == 0;
    if (both)
        kg_buf_text(out, "::1 localhost\n");
    for (size_t i = 0; i < network->count; i++) {
        bool seen = is_literal(items[i].host) || strcmp(items[i].host, "localhost") == 0;
        for (size_t j = 0; j < i && !seen; j++)
            seen = strcmp(items[j].host, items[i].host) == 0;
        if (!seen)
            kg_buf_printf(out, "%s %s\n", items[i].address, items[i].host);
    }
}

static void network_add_files(struct cage_plan *plan)
{
    kg_auto(kg_buf_free) struct kg_buf hosts = {0};
    write_hosts(&plan->network, &hosts);
    cage_steps_add(&plan->steps, CAGE_STEP_TEXT, "/etc/hosts", kg_buf_terminate(&hosts), 0);
    cage_steps_add(&plan->steps, CAGE_STEP_TEXT, "/etc/nsswitch.conf", "hosts: files dns\n", 0);
    cage_steps_add(&plan->steps, CAGE_STEP_TEXT, "/etc/resolv.conf",
                   "nameserver " CAGE_NET_GATE "\noptions timeout:1 attempts:1\n", 0);
}

/* -- the whole --------------------------------------------------------------------------------- */

int cage_network_plan(const struct cage_policy *policy, const struct cage_facts *facts,
                      struct cage_plan *plan, struct kg_err *err)
{
    struct in_addr gate;
    inet_pton(AF_INET, CAGE_NET_GATE, &gate);
    struct planning planning = {policy, &plan->network, ntohl(gate.s_addr)};
    for (size_t i = 0; i < policy->reach_count; i++) {
        int result = network_add_reach(&planning, &policy->reaches[i], err);
        if (result < 0)
            return result;
    }
    for (size_t i = 0; i < policy->closed_count; i++)
        cage_network_close(&plan->network, policy->closed[i].host, policy->closed[i].port);
    plan->network.answers_names = policy->answers_names;
    plan->network.asks = policy->asks_hosts && !plan->network.any && facts->nft != NULL;
    plan->network.any |= plan->network.asks;
    int result = plan_redirection(policy, facts, &plan->network, err);
    if (result == 0 && cage_plan_has_network(plan))
        network_add_files(plan);
    return result;
}

static void print_item(const struct cage_listener *item, struct kg_buf *out)
{
    bool v6 = strchr(item->address, ':') != NULL;
    kg_buf_printf(out, "%s %s%s%s", item->port == 0 ? "redirect" : "listen", v6 ? "[" : "",
                  item->address, v6 ? "]" : "");
    if (item->port != 0)
        kg_buf_printf(out, ":%u", item->port);
    kg_buf_printf(out, " for %s\n", item->host);
}

void cage_network_print(const struct cage_network *network, struct kg_buf *out)
{
    for (size_t i = 0; i < network->count; i++)
        print_item(&network->items[i], out);
    if (network->any)
        kg_buf_text(out, "redirect all\n");
}
