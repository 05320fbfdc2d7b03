/*
 * What is parsed is canonical: two capabilities mean the same exactly if their fields are equal,
 * and what is printed parses to itself. An operator consents to these strings, so nothing in them
 * can hide, point elsewhere by "..", or match more than it shows.
 */
#include "manifest/capability.h"

#include "cage/cage.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#define SHOWN_BYTES_MAX 80 /* of a capability in a message */
#define LABEL_BYTES_MAX 63 /* DNS */
#define HOST_BYTES_MAX  253

#define refuse(err, ...) kg_fail(err, KG_E_INVALID_MANIFEST, __VA_ARGS__)

/* -- text -------------------------------------------------------------------------------------- */

/* Where the first of these characters is, or the text's length. */
static size_t find_any(struct kg_str text, const char *characters)
{
    size_t at = 0;
    while (at < text.length && strchr(characters, text.data[at]) == NULL)
        at++;
    return at;
}

static size_t capability_find_last(struct kg_str text, char character)
{
    size_t at = text.length;
    while (at > 0 && text.data[at - 1] != character)
        at--;
    return at > 0 ? at - 1 : text.length;
}

/* Escaped, and cut between two characters: for messages. */
static void capability_put_shown(struct kg_buf *out, struct kg_str text)
{
    size_t length = text.length;
    if (length > SHOWN_BYTES_MAX) {
        length = SHOWN_BYTES_MAX;
        while (length > 0 && ((unsigned char)text.data[length] & 0xC0) == 0x80)
            length--;
    }
    kg_buf_escaped(out, kg_str_first(text, length));
    if (length < text.length)
        kg_buf_text(out, "...");
}

static bool capability_is_plain(struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf escaped = {0};
    kg_buf_escaped(&escaped, text);
    return kg_str_equal(kg_buf_view(&escaped), text);
}

/* -- paths ------------------------------------------------------------------------------------- */

/* Finds what comes before the first slash: nothing, "config:" or "project:". */
static bool find_root(struct kg_str text, size_t *ret_length)
{
    static const char *const roots[] = {"/", "config:/", "project:/"};
    for (size_t i = 0; i < KG_COUNT(roots); i++) {
        if (!kg_str_starts(text, roots[i]))
            continue;
        *ret_length = strlen(roots[i]) - 1;
        return true;
    }
    return false;
}

static bool capability_next_segment(struct kg_str *rest, struct kg_str *ret_segment)
{
    while (rest->length > 0 && rest->data[0] == '/')
        *rest = kg_str_from(*rest, 1);
    *ret_segment = kg_str_first(*rest, find_any(*rest, "/"));
    *rest = kg_str_from(*rest, ret_segment->length);
    return ret_segment->length > 0;
}

static int put_segments(struct kg_str rest, struct kg_buf *out, struct kg_err *err)
{
    struct kg_str segment;
    size_t root = out->length;
    while (capability_next_segment(&rest, &segment)) {
        if (kg_str_is(segment, ".") || kg_str_is(segment, ".."))
            return refuse(err, "the path contains a \"%.*s\": write the path that it leads to",
                          KG_STR_ARG(segment));
        kg_buf_char(out, '/');
        kg_buf_str(out, segment);
    }
    if (out->length == root)
        kg_buf_char(out, '/');
    if (out->data[out->length - 1] == ' ')
        return refuse(err, "the path ends with a space, which nobody would see: leave it out");
    return 0;
}

static int capability_read_path(struct kg_str text, char **ret_path, struct kg_err *err)
{
    if (text.length == 0)
        return refuse(err, "the path is missing");
    size_t root, pattern = find_any(text, "*?[]{}");
    if (pattern < text.length)
        return refuse(err,
                      "the path contains a \"%c\": patterns are not supported, name the folder",
                      text.data[pattern]);
    if (!find_root(text, &root))
        return refuse(err, "the path is relative: it must start with /, config:/ or project:/");
    kg_auto(kg_buf_free) struct kg_buf path = {0};
    kg_buf_str(&path, kg_str_first(text, root));
    int result = put_segments(kg_str_from(text, root), &path, err);
    if (result == 0)
        result = cage_place_check(kg_buf_terminate(&path), KG_E_INVALID_MANIFEST, err);
    if (result == 0)
        *ret_path = kg_str_dup(kg_buf_view(&path));
    return result;
}

static int capability_take_path(struct kg_str text, struct capability *capability,
                                struct kg_err *err)
{
    return capability_read_path(text, &capability->path, err);
}

static void capability_put_path(const struct capability *capability, struct kg_buf *out)
{
    kg_buf_text(out, capability->path);
}

/* -- programs ---------------------------------------------------------------------------------- */

static bool is_program_character(char c)
{
    return kg_is_letter_or_digit(c) || c == '.' || c == '_' || c == '+' || c == '-';
}

/* The colon of config:/ would end the program: such a name is a slip, not a program. */
static bool is_program_name(struct kg_str name)
{
    static const char *const slips[] = {".", "..", "config", "project"};
    for (size_t i = 0; i < KG_COUNT(slips); i++)
        if (kg_str_is(name, slips[i]))
            return false;
    for (size_t i = 0; i < name.length; i++)
        if (!is_program_character(name.data[i]))
            return false;
    return name.length > 0 && name.data[0] != '-';
}

static int read_program(struct kg_str text, char **ret_program, struct kg_err *err)
{
    if (text.length == 0)
        return refuse(err, "the program is missing");
    if (text.data[0] == '/')
        return kg_wrap(err, capability_read_path(text, ret_program, err), "the program");
    if (!is_program_name(text))
        return refuse(err, "the program must be a bare name like git, or an absolute path");
    *ret_program = kg_str_dup(text);
    return 0;
}

static int take_exec(struct kg_str text, struct capability *capability, struct kg_err *err)
{
    size_t colon = find_any(text, ":");
    int result = read_program(kg_str_first(text, colon), &capability->program, err);
    if (result < 0)
        return result;
    if (colon == text.length) {
        result = refuse(err, "the path is missing");
        kg_hint(err, "name the folder to work in: exec:PROGRAM:PATH");
        return result;
    }
    return capability_read_path(kg_str_from(text, colon + 1), &capability->path, err);
}

static void put_exec(const struct capability *capability, struct kg_buf *out)
{
    kg_buf_printf(out, "%s:%s", capability->program, capability->path);
}

static void say_exec(const struct capability *capability, struct kg_buf *out)
{
    kg_buf_printf(out, "%s, in any folder that it sees, and read %s", capability->program,
                  capability->path);
}

/* -- addresses: one form for both families, IPv4 mapped into IPv6 ------------------------------ */

static bool read_family(struct kg_str text, int family, void *ret_address)
{
    char terminated[INET6_ADDRSTRLEN];
    if (text.length >= sizeof(terminated))
        return false;
    memcpy(terminated, text.data, text.length);
    terminated[text.length] = '\0';
    return inet_pton(family, terminated, ret_address) == 1;
}

static bool read_ipv4(struct kg_str text, struct in6_addr *ret_address)
{
    struct in6_addr mapped = {.s6_addr = {[10] = 0xFF, [11] = 0xFF}};
    if (!read_family(text, AF_INET, &mapped.s6_addr[12]))
        return false;
    *ret_address = mapped;
    return true;
}

static bool read_ipv6(struct kg_str text, struct in6_addr *ret_address)
{
    return read_family(text, AF_INET6, ret_address);
}

/* A mapped address is written as the IPv4 address that it stands for. */
static char *address_text(const struct in6_addr *address)
{
    char text[INET6_ADDRSTRLEN];
    if (IN6_IS_ADDR_V4MAPPED(address))
        inet_ntop(AF_INET, &address->s6_addr[12], text, sizeof(text));
    else
        inet_ntop(AF_INET6, address, text, sizeof(text));
    return kg_strdup(text);
}

enum reach { REACH_FAR, REACH_SELF, REACH_LINK, REACH_PRIVATE };

static const struct range {
    const char *first;
    unsigned bits;
    enum reach reach;
} ranges[] = {
    {"0.0.0.0", 8, REACH_SELF}, /* Linux connects 0.0.0.0 and :: to this machine */
    {"127.0.0.0", 8, REACH_SELF},       {"::", 128, REACH_SELF},
    {"::1", 128, REACH_SELF},           {"169.254.0.0", 16, REACH_LINK},
    {"fe80::", 10, REACH_LINK},         {"10.0.0.0", 8, REACH_PRIVATE},
    {"100.64.0.0", 10, REACH_PRIVATE},  {"172.16.0.0", 12, REACH_PRIVATE},
    {"192.168.0.0", 16, REACH_PRIVATE}, {"fc00::", 7, REACH_PRIVATE},
    {"fec0::", 10, REACH_PRIVATE},
};

static bool same_bits(const struct in6_addr *a, const struct in6_addr *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a->s6_addr[whole] ^ b->s6_addr[whole]) >> (8 - rest) == 0;
}

static bool in_range(const struct in6_addr *address, const struct range *range)
{
    struct in6_addr first;
    struct kg_str text = kg_str(range->first);
    bool is_ipv4 = read_ipv4(text, &first);
    if (!is_ipv4 && !read_ipv6(text, &first))
        return false;
    return same_bits(address, &first, range->bits + (is_ipv4 ? 96 : 0));
}

static enum reach host_reach(struct kg_str host)
{
    struct in6_addr address;
    if (kg_str_is(host, "localhost"))
        return REACH_SELF;
    if (!read_ipv4(host, &address) && !read_ipv6(host, &address))
        return REACH_FAR;
    for (size_t i = 0; i < KG_COUNT(ranges); i++)
        if (in_range(&address, &ranges[i]))
            return ranges[i].reach;
    return REACH_FAR;
}

/* -- hosts and ports --------------------------------------------------------------------------- */

/*
 * Resolvers read 2130706433 and 0x7f.1 as addresses. What ends in a number is one: it is taken in
 * its plain form or not at all.
 */
static bool ends_in_number(struct kg_str host)
{
    size_t dot = capability_find_last(host, '.');
    struct kg_str label = dot < host.length ? kg_str_from(host, dot + 1) : host;
    const char *digits = "0123456789";
    if (kg_str_starts(label, "0x") || kg_str_starts(label, "0X")) {
        label = kg_str_from(label, 2);
        digits = "0123456789abcdefABCDEF";
    } else if (label.length == 0) {
        return false;
    }
    for (size_t i = 0; i < label.length; i++)
        if (strchr(digits, label.data[i]) == NULL)
            return false;
    return true;
}

/* What is wrong with a part of a name, or NULL. Underscores are used, though no RFC gives them. */
static const char *label_problem(struct kg_str label)
{
    if (label.length == 0)
        return "the host has an empty part: no dot may start or end it, nor follow another";
    if (label.length > LABEL_BYTES_MAX)
        return "a part of the host is longer than 63 characters";
    for (size_t i = 0; i < label.length; i++) {
        char c = label.data[i];
        if ((unsigned char)c >= 0x80)
            return "the host has a letter that DNS does not have: write its xn-- form";
        if (!kg_is_letter_or_digit(c) && c != '-' && c != '_')
            return "the host may have only letters, digits, dashes, underscores and dots";
    }
    if (label.data[0] == '-' || label.data[label.length - 1] == '-')
        return "a part of the host starts or ends with a dash";
    return NULL;
}

static const char *name_problem(struct kg_str name)
{
    if (name.length > HOST_BYTES_MAX)
        return "the host is longer than 253 characters";
    for (;;) {
        size_t dot = find_any(name, ".");
        const char *problem = label_problem(kg_str_first(name, dot));
        if (problem != NULL || dot == name.length)
            return problem;
        name = kg_str_from(name, dot + 1);
    }
}

static int capability_read_name(struct kg_str name, char **ret_host, struct kg_err *err)
{
    const char *problem = name_problem(name);
    if (problem != NULL)
        return refuse(err, "%s", problem);
    char *host = kg_str_dup(name);
    for (char *c = host; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    *ret_host = host;
    return 0;
}

static int capability_read_host(struct kg_str text, char **ret_host, struct kg_err *err)
{
    struct in6_addr address;
    if (text.length == 0)
        return refuse(err, "the host is missing");
    if (!ends_in_number(text))
        return capability_read_name(text, ret_host, err);
    if (!read_ipv4(text, &address))
        return refuse(err, "the host is a malformed IPv4 address: write four numbers from 0 to 255,"
                           " without leading zeros");
    *ret_host = address_text(&address);
    return 0;
}

static int read_bracketed(struct kg_str text, char **ret_host, struct kg_err *err)
{
    struct in6_addr address;
    if (text.length == 0)
        return refuse(err, "the address in the brackets is missing: net:[] alone means no network");
    if (!read_ipv6(text, &address))
        return refuse(err, "what is in the brackets is not an IPv6 address");
    *ret_host = address_text(&address);
    return 0;
}

static int read_port(struct kg_str text, uint16_t *ret_port, struct kg_err *err)
{
    int64_t port;
    if (text.length == 0)
        return refuse(err, "the port is missing");
    if (kg_str_is(text, "*")) {
        *ret_port = 0;
        return 0;
    }
    if (find_any(text, ":") < text.length)
        return refuse(err,
                      "something follows the port: it is a number, or * for all, and comes last");
    if (!kg_str_to_int(text, &port) || port < 1 || port > UINT16_MAX)
        return refuse(err, "the port must be a number from 1 to 65535, or * for all");
    *ret_port = (uint16_t)port;
    return 0;
}

/* An IPv6 address, or one with a port behind it, as people write them in haste. */
static bool is_bare_ipv6(struct kg_str text)
{
    struct in6_addr address;
    return read_ipv6(text, &address) ||
           read_ipv6(kg_str_first(text, capability_find_last(text, ':')), &address);
}

static int capability_check_target(struct kg_str text, struct kg_err *err)
{
    if (find_any(kg_str_first(text, find_any(text, ":")), "*") < find_any(text, ":"))
        return refuse(err, "the host contains a \"*\": names are exact, name each host");
    if (is_bare_ipv6(text))
        return refuse(err, "an IPv6 address needs brackets: net:[ADDRESS]:PORT");
    return 0;
}

/* Moves *rest behind the host. */
static int take_host(struct kg_str *rest, char **ret_host, struct kg_err *err)
{
    bool bracketed = rest->length > 0 && rest->data[0] == '[';
    size_t end = find_any(*rest, bracketed ? "]" : ":");
    struct kg_str host = kg_str_first(*rest, end);
    if (!bracketed) {
        *rest = kg_str_from(*rest, end);
        return capability_read_host(host, ret_host, err);
    }
    if (end == rest->length)
        return refuse(err, "the bracket is not closed");
    *rest = kg_str_from(*rest, end + 1);
    return read_bracketed(kg_str_from(host, 1), ret_host, err);
}

static int read_target(struct kg_str text, struct capability *capability, struct kg_err *err)
{
    int result = capability_check_target(text, err);
    if (result == 0)
        result = take_host(&text, &capability->host, err);
    if (result < 0)
        return result;
    if (text.length > 0 && text.data[0] != ':')
        return refuse(err, "a colon and the port must follow the bracket");
    return read_port(text.length > 0 ? kg_str_from(text, 1) : text, &capability->port, err);
}

static int take_target(struct kg_str text, struct capability *capability, struct kg_err *err)
{
    int result = read_target(text, capability, err);
    if (result < 0)
        kg_hint(err, "net:api.example.com:443 is one port, net:api.example.com:* all of a host's");
    return result;
}

static void put_host(const char *host, struct kg_buf *out)
{
    kg_buf_printf(out, strchr(host, ':') != NULL ? "[%s]" : "%s", host);
}

static void capability_put_target(const struct capability *capability, struct kg_buf *out)
{
    put_host(capability->host, out);
    kg_buf_char(out, ':');
    if (capability->port == 0)
        kg_buf_char(out, '*');
    else
        kg_buf_int(out, capability->port);
}

static void say_target(const struct capability *capability, struct kg_buf *out)
{
    if (capability->port == 0)
        kg_buf_text(out, "every port of ");
    put_host(capability->host, out);
    if (capability->port != 0)
        kg_buf_printf(out, ", port %u", capability->port);
}

/* -- what to look at twice: each says why, or NULL --------------------------------------------- */

/* A home itself, or what is hidden in it: keys, tokens, histories. */
static const char *danger_of_reading(const struct capability *capability)
{
    const char *path = capability->path, *rest = NULL;
    if (kg_path_within(path, "/root"))
        rest = path + strlen("/root");
    else if (kg_path_within(path, "/home"))
        rest = strchrnul(path + strlen("/home/"), '/');
    if (rest != NULL && (*rest == '\0' || kg_str_starts(kg_str(rest), "/.")))
        return "it can read a user's own files, keys and tokens among them";
    return NULL;
}

static const char *danger_of_writing(const struct capability *capability)
{
    if (cage_guard_of(capability->path) != NULL)
        return "programs outside of the cage run, or believe, what is in it";
    if (capability->path[0] != '/')
        return NULL;
    return "it can change files outside its own folder and the project";
}

/* With or without a version behind: python3.11, lua5.4. */
static bool is_version_of(const char *name, const char *program)
{
    size_t length = strlen(program);
    return strncmp(name, program, length) == 0 &&
           (name[length] == '\0' || strchr(".-0123456789", name[length]) != NULL);
}

static const char *danger_of_running(const struct capability *capability)
{
    static const char *const interpreters[] = {
        "ash",    "awk",    "bash", "bun",     "busybox", "csh",   "dash", "deno",
        "expect", "fish",   "gawk", "guile",   "java",    "julia", "ksh",  "lua",
        "luajit", "mawk",   "mksh", "node",    "nodejs",  "perl",  "php",  "pwsh",
        "pypy",   "python", "ruby", "Rscript", "sh",      "tclsh", "tcsh", "zsh",
    };
    const char *name = kg_path_name(capability->program);
    for (size_t i = 0; i < KG_COUNT(interpreters); i++)
        if (is_version_of(name, interpreters[i]))
            return "it is a shell or an interpreter: it runs any script";
    return NULL;
}

static const char *danger_of_reaching(const struct capability *capability)
{
    static const char *const reasons[] = {
        [REACH_FAR] = NULL,
        [REACH_SELF] = "it reaches services on this machine, which often trust whoever is on it",
        [REACH_LINK] = "it reaches link-local addresses, where clouds hand out credentials",
        [REACH_PRIVATE] = "it reaches machines of a private network",
    };
    return reasons[host_reach(kg_str(capability->host))];
}

static const char *danger_of_any_host(const struct capability *capability)
{
    (void)capability;
    return "it can send what it reads to anyone";
}

/* -- kinds ------------------------------------------------------------------------------------- */

typedef void put_function(const struct capability *capability, struct kg_buf *out);

static const struct row {
    const char *head; /* what the string starts with, or all of it if there is nothing to take */
    int (*take)(struct kg_str rest, struct capability *capability, struct kg_err *err);
    put_function *put;
    const char *words; /* then what `say` puts, then `after` */
    put_function *say;
    const char *after;
    const char *(*danger)(const struct capability *capability);
} rows[CAPABILITY_KIND_COUNT] = {
    [CAPABILITY_EMPTY] = {.head = "", .words = ""},
    [CAPABILITY_READ] =
        {
            .head = "read:fs:",
            .take = capability_take_path,
            .put = capability_put_path,
            .words = "may read ",
            .say = capability_put_path,
            .after = " and below",
            .danger = danger_of_reading,
        },
    [CAPABILITY_WRITE] =
        {
            .head = "write:fs:",
            .take = capability_take_path,
            .put = capability_put_path,
            .words = "may change files in ",
            .say = capability_put_path,
            .danger = danger_of_writing,
        },
    [CAPABILITY_EXEC] =
        {
            .head = "exec:",
            .take = take_exec,
            .put = put_exec,
            .words = "may run ",
            .say = say_exec,
            .danger = danger_of_running,
        },
    [CAPABILITY_NET_ANY] =
        {
            .head = "net:*",
            .words = "may reach any host on the network",
            .danger = danger_of_any_host,
        },
    [CAPABILITY_NET_NONE] = {.head = "net:[]", .words = "may not reach the network"},
    [CAPABILITY_NET_HOST] =
        {
            .head = "net:",
            .take = take_target,
            .put = capability_put_target,
            .words = "may reach ",
            .say = say_target,
            .danger = danger_of_reaching,
        },
    [CAPABILITY_STORAGE_READ] =
        {
            .head = "kaged:storage:read",
            .words = "may read the data it keeps",
        },
    [CAPABILITY_STORAGE_WRITE] =
        {
            .head = "kaged:storage:write",
            .words = "may keep data of its own",
        },
    [CAPABILITY_ASK] =
        {
            .head = "kaged:ask",
            .words = "may ask questions of whoever uses it",
        },
    [CAPABILITY_SAMPLE] =
        {
            .head = "kaged:sample",
            .words = "may ask the session's model, at its cost",
        },
};

/* Rows that are whole strings match only as such, and before the row whose head begins them. */
static enum capability_kind capability_kind_of(struct kg_str text)
{
    for (int kind = CAPABILITY_EMPTY + 1; kind < CAPABILITY_KIND_COUNT; kind++) {
        const struct row *row = &rows[kind];
        bool matches =
            row->take != NULL ? kg_str_starts(text, row->head) : kg_str_is(text, row->head);
        if (matches)
            return (enum capability_kind)kind;
    }
    return CAPABILITY_EMPTY;
}

/* The first word tells what was meant, even if the rest is missing. */
static void hint_nearest(struct kg_str text, struct kg_err *err)
{
    static const char *const words[] = {"read", "write", "exec", "net", "kaged"};
    static const char *const shapes[] = {"read:fs:PATH", "write:fs:PATH", "exec:PROGRAM:PATH",
                                         "net:HOST:PORT",
                                         ("kaged:storage:read, kaged:storage:write, kaged:ask or "
                                          "kaged:sample")};
    const char *nearest =
        kg_str_nearest(kg_str_first(text, find_any(text, ":")), words, KG_COUNT(words));
    for (size_t i = 0; i < KG_COUNT(words); i++)
        if (nearest == words[i])
            kg_hint(err, "did you mean %s?", shapes[i]);
    if (nearest == NULL)
        kg_hint(err, "the kinds are read:fs:PATH, write:fs:PATH, exec:PROGRAM:PATH, net:HOST:PORT, "
                     "net:HOST:*, net:*, net:[], kaged:storage:read, kaged:storage:write, "
                     "kaged:ask, kaged:sample");
}

static int refuse_kind(struct kg_str text, struct kg_err *err)
{
    for (int kind = CAPABILITY_EMPTY + 1; kind < CAPABILITY_KIND_COUNT; kind++)
        if (rows[kind].take == NULL && kg_str_starts(text, rows[kind].head))
            return refuse(err, "nothing may follow %s", rows[kind].head);
    int result = refuse(err, text.length == 0 ? "it is empty" : "there is no such kind");
    hint_nearest(text, err);
    return result;
}

static int manifest_capability_parse(struct kg_str text, struct capability *capability,
                                     struct kg_err *err)
{
    if (text.length > CAPABILITY_BYTES_MAX)
        return refuse(err, "it is longer than %d bytes", CAPABILITY_BYTES_MAX);
    if (!capability_is_plain(text))
        return refuse(err, "it contains a control character or a byte that is not UTF-8");
    capability->kind = capability_kind_of(text);
    const struct row *row = &rows[capability->kind];
    if (capability->kind == CAPABILITY_EMPTY)
        return refuse_kind(text, err);
    if (row->take == NULL)
        return 0;
    return row->take(kg_str_from(text, strlen(row->head)), capability, err);
}

static void fill_absent(char **text)
{
    if (*text == NULL)
        *text = kg_strdup("");
}

int capability_parse(struct kg_str text, struct capability *ret_capability, struct kg_err *err)
{
    kg_auto(capability_free) struct capability capability = {0};
    int result = manifest_capability_parse(text, &capability, err);
    if (result < 0) {
        kg_auto(kg_buf_free) struct kg_buf shown = {0};
        capability_put_shown(&shown, text);
        return kg_wrap(err, result, "capability \"%s\"", kg_buf_terminate(&shown));
    }
    fill_absent(&capability.path);
    fill_absent(&capability.program);
    fill_absent(&capability.host);
    *ret_capability = capability;
    capability = (struct capability){0};
    return 0;
}

void capability_free(struct capability *capability)
{
    free(capability->path);
    free(capability->program);
    free(capability->host);
    *capability = (struct capability){0};
}

void capability_print(const struct capability *capability, struct kg_buf *out)
{
    const struct row *row = &rows[capability->kind];
    kg_buf_text(out, row->head);
    if (row->put != NULL)
        row->put(capability, out);
}

void capability_words(const struct capability *capability, struct kg_buf *out)
{
    const struct row *row = &rows[capability->kind];
    kg_buf_text(out, row->words);
    if (row->say != NULL)
        row->say(capability, out);
    if (row->after != NULL)
        kg_buf_text(out, row->after);
}

bool capability_is_dangerous(const struct capability *capability, const char **ret_reason)
{
    const struct row *row = &rows[capability->kind];
    const char *reason = row->danger != NULL ? row->danger(capability) : NULL;
    if (reason != NULL)
        *ret_reason = reason;
    return reason != NULL;
}

/* -- what covers what -------------------------------------------------------------------------- */

bool capability_equal(const struct capability *a, const struct capability *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case CAPABILITY_READ:
    case CAPABILITY_WRITE:
        return strcmp(a->path, b->path) == 0;
    case CAPABILITY_EXEC:
        return strcmp(a->program, b->program) == 0 && strcmp(a->path, b->path) == 0;
    case CAPABILITY_NET_HOST:
        return strcmp(a->host, b->host) == 0 && a->port == b->port;
    default:
        return true;
    }
}

static bool host_covers(const struct capability *allowed, const struct capability *claimed)
{
    return claimed->kind == CAPABILITY_NET_HOST && strcmp(allowed->host, claimed->host) == 0 &&
           (allowed->port == 0 || allowed->port == claimed->port);
}

static bool any_host_covers(const struct capability *claimed)
{
    return claimed->kind == CAPABILITY_NET_ANY ||
           (claimed->kind == CAPABILITY_NET_HOST && host_reach(kg_str(claimed->host)) == REACH_FAR);
}

bool capability_covers(const struct capability *allowed, const struct capability *claimed)
{
    bool reads = claimed->kind == CAPABILITY_READ, writes = claimed->kind == CAPABILITY_WRITE;
    if (claimed->kind == CAPABILITY_NET_NONE)
        return true;
    switch (allowed->kind) {
    case CAPABILITY_READ:
        return reads && kg_path_within(claimed->path, allowed->path);
    case CAPABILITY_WRITE:
        return (reads || writes) && kg_path_within(claimed->path, allowed->path);
    case CAPABILITY_NET_ANY:
        return any_host_covers(claimed);
    case CAPABILITY_NET_HOST:
        return host_covers(allowed, claimed);
    case CAPABILITY_STORAGE_WRITE:
        return claimed->kind == CAPABILITY_STORAGE_READ ||
               claimed->kind == CAPABILITY_STORAGE_WRITE;
    default:
        return capability_equal(allowed, claimed);
    }
}

bool capability_set_covers(const struct capability_set *allowed, const struct capability *claimed)
{
    if (claimed->kind == CAPABILITY_NET_NONE)
        return true;
    for (size_t i = 0; i < allowed->count; i++)
        if (capability_covers(&allowed->items[i], claimed))
            return true;
    return false;
}

/* -- sets -------------------------------------------------------------------------------------- */

/* A list while it is read: items stand where their entries do, bad ones are empty. */
struct reading {
    char *const *list; /* borrowed */
    struct capability_set set;
    struct capability_remarks *remarks; /* borrowed, may be NULL */
    struct kg_err first;                /* error, if its code is set */
};

static void manifest_capability_remark(struct reading *reading, size_t index, bool is_error,
                                       const struct kg_err *what)
{
    struct capability_remarks *remarks = reading->remarks;
    if (is_error && reading->first.code == KG_OK)
        reading->first = *what;
    if (remarks == NULL)
        return;
    remarks->items = kg_realloc(remarks->items, (remarks->count + 1) * sizeof(*remarks->items));
    remarks->items[remarks->count++] = (struct capability_remark){
        index, is_error, kg_strdup(what->message), kg_strdup(what->hint)};
}

static void capability_read_entries(struct reading *reading)
{
    for (size_t i = 0; i < reading->set.count; i++) {
        struct kg_err err = {0};
        if (capability_parse(kg_str(reading->list[i]), &reading->set.items[i], &err) < 0)
            manifest_capability_remark(reading, i, true, &err);
    }
}

/* Says "capability X: WHAT Y", as the list spells them. */
static void remark_pair(struct reading *reading, size_t index, size_t other, bool is_error,
                        const char *what)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf own = {0}, others = {0};
    capability_put_shown(&own, kg_str(reading->list[index]));
    capability_put_shown(&others, kg_str(reading->list[other]));
    refuse(&err, "capability \"%s\": %s \"%s\"", kg_buf_terminate(&own), what,
           kg_buf_terminate(&others));
    kg_hint(&err, is_error ? "leave one of the two out" : "leave it out");
    manifest_capability_remark(reading, index, is_error, &err);
}

static bool asks_for_network(const struct capability *capability)
{
    return capability->kind == CAPABILITY_NET_ANY || capability->kind == CAPABILITY_NET_HOST;
}

/* No network and some network cannot both be meant. */
static void check_network(struct reading *reading, size_t index)
{
    const struct capability_set *set = &reading->set;
    if (set->items[index].kind != CAPABILITY_NET_NONE)
        return;
    for (size_t i = 0; i < set->count; i++) {
        if (!asks_for_network(&set->items[i]))
            continue;
        remark_pair(reading, index, i, true, "it asks for no network, which contradicts");
        return;
    }
}

/* Of equals the first is needed; net:[] is a statement, though everything covers it. */
static void check_needed(struct reading *reading, size_t index)
{
    const struct capability_set *set = &reading->set;
    const struct capability *own = &set->items[index];
    for (size_t i = 0; i < set->count; i++) {
        if (i == index || !capability_covers(&set->items[i], own))
            continue;
        bool same = capability_equal(&set->items[i], own);
        if (same ? i > index : own->kind == CAPABILITY_NET_NONE)
            continue;
        remark_pair(reading, index, i, false, same ? "it repeats" : "it is redundant beside");
        return;
    }
}

/* Leaves each capability once. */
static void drop_twins(struct capability_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        size_t twin = 0;
        while (twin < kept && !capability_equal(&set->items[twin], &set->items[i]))
            twin++;
        if (twin < kept)
            capability_free(&set->items[i]);
        else
            set->items[kept++] = set->items[i];
    }
    set->count = kept;
}

static void capability_check_entries(struct reading *reading)
{
    for (size_t i = 0; i < reading->set.count; i++) {
        if (reading->set.items[i].kind == CAPABILITY_EMPTY)
            continue;
        check_network(reading, i);
        check_needed(reading, i);
    }
}

int capability_set_parse(char *const *list, struct capability_set *ret_set,
                         struct capability_remarks *remarks, struct kg_err *err)
{
    size_t count = kg_list_count(list);
    if (count > CAPABILITY_COUNT_MAX)
        return refuse(err, "there are %zu capabilities; at most %d are allowed", count,
                      CAPABILITY_COUNT_MAX);
    struct reading reading = {
        .list = list,
        .set = {kg_alloc_array(count, sizeof(struct capability)), count},
        .remarks = remarks,
    };
    capability_read_entries(&reading);
    capability_check_entries(&reading);
    if (reading.first.code != KG_OK) {
        capability_set_free(&reading.set);
        if (err != NULL)
            *err = reading.first;
        return -EINVAL;
    }
    drop_twins(&reading.set);
    *ret_set = reading.set;
    return 0;
}

void capability_set_free(struct capability_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        capability_free(&set->items[i]);
    free(set->items);
    *set = (struct capability_set){0};
}

void capability_remarks_free(struct capability_remarks *remarks)
{
    for (size_t i = 0; i < remarks->count; i++) {
        free(remarks->items[i].text);
        free(remarks->items[i].hint);
    }
    free(remarks->items);
    *remarks = (struct capability_remarks){0};
}
