/* Capabilities: the grammar and its refusals, what covers what, and what an operator reads. */
#include "manifest/capability.h"
#include "cage/cage.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

static struct capability must_parse(const char *text)
{
    struct kg_err err = {0};
    struct capability capability = {0};
    if (capability_parse(kg_str(text), &capability, &err) < 0)
        fail_msg("%s", err.message);
    return capability;
}

/* It parses, and its canonical string is `printed`, which parses to the same. */
static void assert_prints(const char *text, const char *printed)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(capability_free) struct capability capability = must_parse(text);
    capability_print(&capability, &out);
    assert_string_equal(kg_buf_terminate(&out), printed);
    kg_auto(capability_free) struct capability again = must_parse(printed);
    assert_true(capability_equal(&capability, &again));
}

/* Refused with that sentence; what was to be returned is untouched. */
static void assert_refused_str(struct kg_str text, const char *sentence, const char *hint)
{
    struct kg_err err = {0};
    struct capability capability = {.kind = CAPABILITY_EMPTY, .port = 7};
    int result = capability_parse(text, &capability, &err);
    if (result == 0)
        fail_msg("%.*s was taken", KG_STR_ARG(text));
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
    assert_int_equal(capability.port, 7);
    if (strncmp(err.message, "capability \"", 12) != 0 || strstr(err.message, sentence) == NULL)
        fail_msg("wanted \"%s\": %s", sentence, err.message);
    if (hint != NULL && strstr(err.hint, hint) == NULL)
        fail_msg("wanted the hint \"%s\": %s", hint, err.hint);
}

static void assert_refused(const char *text, const char *sentence)
{
    assert_refused_str(kg_str(text), sentence, NULL);
}

struct rule {
    const char *text;
    const char *sentence;
};

static void check_refusals(const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_refused(rules[i].text, rules[i].sentence);
}

#define CHECK_REFUSALS(rules) check_refusals(rules, KG_COUNT(rules))

#define LIST(...) ((char *const[]){__VA_ARGS__, NULL})

static struct capability_set must_parse_set(char *const *list)
{
    struct kg_err err = {0};
    struct capability_set set = {0};
    if (capability_set_parse(list, &set, NULL, &err) < 0)
        fail_msg("%s", err.message);
    return set;
}

static bool covers(const char *allowed, const char *claimed)
{
    kg_auto(capability_free) struct capability a = must_parse(allowed);
    kg_auto(capability_free) struct capability b = must_parse(claimed);
    return capability_covers(&a, &b);
}

static void assert_set_prints(const struct capability_set *set, const char *printed)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    for (size_t i = 0; i < set->count; i++) {
        kg_buf_text(&out, i > 0 ? " " : "");
        capability_print(&set->items[i], &out);
    }
    assert_string_equal(kg_buf_terminate(&out), printed);
}

/* -- the grammar ------------------------------------------------------------------------------- */

static void every_example_of_the_document_is_taken(void **state)
{
    (void)state;
    static const char *const examples[] = {
        "read:fs:/opt/oh-my-pi",
        "write:fs:/var/lib/ollama/models",
        "exec:bash:/opt/oh-my-pi",
        "net:api.openai.com:443",
        "net:localhost:*",
        "net:*",
        "net:[]",
        "kaged:storage:read",
        "kaged:storage:write",
        "read:fs:config:/memory",
        "write:fs:config:/memory",
    };
    for (size_t i = 0; i < KG_COUNT(examples); i++)
        assert_prints(examples[i], examples[i]);
}

static void each_kind_has_its_fields(void **state)
{
    (void)state;
    kg_auto(capability_free) struct capability path = must_parse("write:fs:config:/memory");
    assert_int_equal(path.kind, CAPABILITY_WRITE);
    assert_string_equal(path.path, "config:/memory");
    kg_auto(capability_free) struct capability exec = must_parse("exec:/usr/bin/git:project:/src");
    assert_int_equal(exec.kind, CAPABILITY_EXEC);
    assert_string_equal(exec.program, "/usr/bin/git");
    assert_string_equal(exec.path, "project:/src");
    kg_auto(capability_free) struct capability host = must_parse("net:[::1]:8080");
    assert_int_equal(host.kind, CAPABILITY_NET_HOST);
    assert_string_equal(host.host, "::1");
    assert_int_equal(host.port, 8080);
    kg_auto(capability_free) struct capability ports = must_parse("net:localhost:*");
    assert_int_equal(ports.port, 0);
    assert_string_equal(ports.path, "");
}

static void one_form_is_printed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } forms[] = {
        {"read:fs:/opt//x///y/", "read:fs:/opt/x/y"},
        {"read:fs://opt", "read:fs:/opt"},
        {"read:fs:config:/", "read:fs:config:/"},
        {"read:fs:config://memory/", "read:fs:config:/memory"},
        {"write:fs:project:///", "write:fs:project:/"},
        {"read:fs:/opt/a b/c:d", "read:fs:/opt/a b/c:d"},
        {"read:fs:/opt/\xC3\xA9t\xC3\xA9/...", "read:fs:/opt/\xC3\xA9t\xC3\xA9/..."},
        {"read:fs:/etc/ssl/", "read:fs:/etc/ssl"},
        {"read:fs:/devices", "read:fs:/devices"},
        {"read:fs:config:/proc", "read:fs:config:/proc"},
        {"exec:/usr//bin/git:/opt/x/", "exec:/usr/bin/git:/opt/x"},
        {"exec:g++:/opt/a:b", "exec:g++:/opt/a:b"},
        {"exec:python3.11:config:/", "exec:python3.11:config:/"},
        {"net:API.OpenAI.com:0443", "net:api.openai.com:443"},
        {"net:my_db:5432", "net:my_db:5432"},
        {"net:xn--bcher-kva.example:1", "net:xn--bcher-kva.example:1"},
        {"net:3com.com:65535", "net:3com.com:65535"},
        {"net:192.0.2.1:80", "net:192.0.2.1:80"},
        {"net:[2001:DB8:0:0::1]:443", "net:[2001:db8::1]:443"},
        {"net:[0:0:0:0:0:0:0:1]:*", "net:[::1]:*"},
        {"net:[::ffff:192.0.2.1]:80", "net:192.0.2.1:80"},
    };
    for (size_t i = 0; i < KG_COUNT(forms); i++)
        assert_prints(forms[i].text, forms[i].printed);
}

static void unknown_kinds_are_refused_with_the_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence, *hint;
    } slips[] = {
        {"reed:fs:/x", "\"reed:fs:/x\": there is no such kind", "did you mean read:fs:PATH?"},
        {"read:/x", "there is no such kind", "did you mean read:fs:PATH?"},
        {"read:fs", "there is no such kind", "did you mean read:fs:PATH?"},
        {"wirte:fs:/x", "there is no such kind", "did you mean write:fs:PATH?"},
        {"exe:bash:/x", "there is no such kind", "did you mean exec:PROGRAM:PATH?"},
        {"nett:a:80", "there is no such kind", "did you mean net:HOST:PORT?"},
        {"kaged:storage", "there is no such kind", "did you mean kaged:storage:read, "},
        {"kaged:storage:all", "there is no such kind", "did you mean kaged:storage:read, "},
        {"camera", "there is no such kind", "the kinds are read:fs:PATH, "},
        {" read:fs:/x", "there is no such kind", "did you mean read:fs:PATH?"},
        {"", "capability \"\": it is empty", "the kinds are"},
    };
    for (size_t i = 0; i < KG_COUNT(slips); i++)
        assert_refused_str(kg_str(slips[i].text), slips[i].sentence, slips[i].hint);
    assert_refused_str(KG_STR_NULL, "it is empty", NULL);
}

static void paths_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"read:fs:", "the path is missing"},
        {"write:fs:", "the path is missing"},
        {"read:fs:opt/x", "relative: it must start with /, config:/ or project:/"},
        {"read:fs:./x", "the path is relative"},
        {"read:fs:~/x", "the path is relative"},
        {"read:fs:$HOME/x", "the path is relative"},
        {"read:fs:config:memory", "the path is relative"},
        {"read:fs:home:/memory", "the path is relative"},
        {"read:fs:/opt/../etc", "contains a \"..\": write the path that it leads to"},
        {"read:fs:config:/..", "contains a \"..\""},
        {"read:fs:/opt/./x", "contains a \".\""},
        {"read:fs:/opt/*", "contains a \"*\": patterns are not supported, name the folder"},
        {"read:fs:/opt/x?", "contains a \"?\""},
        {"read:fs:/opt/[ab]", "contains a \"[\""},
        {"read:fs:/opt/ab]", "contains a \"]\""},
        {"read:fs:/opt/{a,b}", "contains a \"{\""},
        {"read:fs:/opt/b}", "contains a \"}\""},
        {"read:fs:/opt/x ", "ends with a space"},
        {"read:fs:/opt/x /", "ends with a space"},
    };
    CHECK_REFUSALS(rules);
}

static void places_of_the_system_are_refused(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"read:fs:/", "/ cannot be given as a whole: it is the system's own"},
        {"write:fs:///", "/ cannot be given as a whole"},
        {"read:fs:/etc", "/etc cannot be given as a whole"},
        {"read:fs:/usr/", "/usr cannot be given as a whole"},
        {"read:fs:/run", "/run cannot be given as a whole"},
        {"read:fs://boot", "/boot cannot be given as a whole"},
        {"read:fs:/proc", "/proc and what is in it cannot be given to a plugin"},
        {"read:fs:/proc/self/environ", "/proc and what is in it cannot"},
        {"write:fs:/sys/fs/cgroup", "/sys and what is in it cannot"},
        {"read:fs:/dev/sda", "/dev and what is in it cannot"},
        {"read:fs:/home", "/home cannot be given as a whole"},
        {"write:fs:/root", "/root cannot be given as a whole"},
        {"read:fs:/tmp", "/tmp cannot be given as a whole"},
        {"exec:git:/var/", "/var cannot be given as a whole"},
        {"exec:bash:/", "/ cannot be given as a whole"},
    };
    CHECK_REFUSALS(rules);
    assert_refused_str(KG_STR("read:fs:/home"), "/home", "name the file or folder below it");
    assert_refused_str(KG_STR("read:fs:/proc"), "/proc", "the cage has a /proc of its own");
}

/* Once there were three lists, and what was valid here was refused when the plugin started. */
static void what_is_taken_here_the_cage_takes_too(void **state)
{
    (void)state;
    static const char *const places[] = {
#define PLACE(path, rule) path, path "/below",
#include "cage/places.def"
#undef PLACE
    };
    for (size_t i = 0; i < KG_COUNT(places); i++) {
        struct capability capability = {0};
        kg_auto(kg_free) char *text = kg_format("read:fs:%s", places[i]);
        bool taken = capability_parse(kg_str(text), &capability, NULL) == 0;
        capability_free(&capability);
        if (taken != cage_place_may_be_given(places[i]))
            fail_msg("%s is %s", text, taken ? "taken" : "refused");
    }
}

static void programs_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"exec:", "the program is missing"},
        {"exec::/opt/x", "the program is missing"},
        {"exec:bash", "the path is missing"},
        {"exec:bash:", "the path is missing"},
        {"exec:bash:x", "the path is relative"},
        {"exec:bin/bash:/x", "a bare name like git, or an absolute path"},
        {"exec:../bash:/x", "a bare name like git"},
        {"exec:..:/x", "a bare name like git"},
        {"exec:-x:/x", "a bare name like git"},
        {"exec:ba sh:/x", "a bare name like git"},
        {"exec:*:/x", "a bare name like git"},
        {"exec:config:/bin/x:/opt", "a bare name like git"},
        {"exec:/opt/../bash:/x", "the program: the path contains a \"..\""},
        {"exec:/proc/self/exe:/x", "the program: /proc and what is in it"},
        {"exec:/opt/*:/x", "the program: the path contains a \"*\""},
    };
    CHECK_REFUSALS(rules);
    assert_refused_str(KG_STR("exec:git"), "the path is missing", "name the folder to work in");
}

static void ports_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"net:a", "the port is missing"},
        {"net:a:", "the port is missing"},
        {"net:[::1]", "the port is missing"},
        {"net:a:0", "a number from 1 to 65535, or * for all"},
        {"net:a:65536", "a number from 1 to 65535"},
        {"net:a:99999999999999999999", "a number from 1 to 65535"},
        {"net:a:-1", "a number from 1 to 65535"},
        {"net:a:+80", "a number from 1 to 65535"},
        {"net:a:http", "a number from 1 to 65535"},
        {"net:a:80x", "a number from 1 to 65535"},
        {"net:a:80 ", "a number from 1 to 65535"},
        {"net:a:0x50", "a number from 1 to 65535"},
        {"net:a:80-90", "a number from 1 to 65535"},
        {"net:a:**", "a number from 1 to 65535"},
        {"net:https://a", "a number from 1 to 65535"},
        {"net:g:80:90", "something follows the port"},
        {"net:a:*:80", "something follows the port"},
        {"net:[::1]:80:90", "something follows the port"},
    };
    CHECK_REFUSALS(rules);
    assert_refused_str(KG_STR("net:a"), "the port is missing", "net:api.example.com:443");
}

static void hosts_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"net:", "the host is missing"},
        {"net::443", "the host is missing"},
        {"net:*.example.com:443", "contains a \"*\": names are exact, name each host"},
        {"net:*.example.com", "names are exact"},
        {"net:*:443", "names are exact"},
        {"net:*x", "names are exact"},
        {"net:.example.com:443", "the host has an empty part"},
        {"net:example.com.:443", "the host has an empty part"},
        {"net:a..b:443", "the host has an empty part"},
        {"net:-a.com:443", "starts or ends with a dash"},
        {"net:a-.com:443", "starts or ends with a dash"},
        {"net:a b:443", "only letters, digits, dashes, underscores and dots"},
        {"net:a/b:443", "only letters, digits"},
        {"net:user@a:443", "only letters, digits"},
        {"net:b\xC3\xBC"
         "cher.example:443",
         "write its xn-- form"},
    };
    CHECK_REFUSALS(rules);
}

static void addresses_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"net:1.2.3:80", "a malformed IPv4 address: write four numbers from 0 to 255"},
        {"net:1.2.3.256:80", "a malformed IPv4 address"},
        {"net:1.2.3.04:80", "a malformed IPv4 address"},
        {"net:1.2.3.4.5:80", "a malformed IPv4 address"},
        {"net:2130706433:80", "a malformed IPv4 address"},
        {"net:0x7f000001:80", "a malformed IPv4 address"},
        {"net:127.0.0.0x1:80", "a malformed IPv4 address"},
        {"net:example.0x:80", "a malformed IPv4 address"},
        {"net:::1:80", "an IPv6 address needs brackets: net:[ADDRESS]:PORT"},
        {"net:::1:*", "an IPv6 address needs brackets"},
        {"net:fe80::1", "an IPv6 address needs brackets"},
        {"net:2001:db8:1:2:3:4:5:6:443", "an IPv6 address needs brackets"},
        {"net:[]:80", "the address in the brackets is missing: net:[] alone means no network"},
        {"net:[]x", "the address in the brackets is missing"},
        {"net:[::1", "the bracket is not closed"},
        {"net:[::1]80", "a colon and the port must follow the bracket"},
        {"net:[1.2.3.4]:80", "what is in the brackets is not an IPv6 address"},
        {"net:[a]:80", "is not an IPv6 address"},
        {"net:[fe80::1%eth0]:80", "is not an IPv6 address"},
        {"net:[1:2:3:4:5:6:7:8:9]:80", "is not an IPv6 address"},
    };
    CHECK_REFUSALS(rules);
}

static void the_lengths_of_names_are_bounded(void **state)
{
    (void)state;
    char label[64], name[255];
    memset(label, 'a', 63);
    label[63] = '\0';
    for (size_t i = 0; i < 254; i++)
        name[i] = i % 2 == 0 ? 'a' : '.';
    name[254] = '\0';
    kg_auto(kg_free) char *longest_label = kg_format("net:%s:80", label);
    kg_auto(kg_free) char *long_label = kg_format("net:%sa:80", label);
    kg_auto(kg_free) char *longest_name = kg_format("net:%.253s:80", name);
    kg_auto(kg_free) char *long_name = kg_format("net:%.253sa:80", name);
    assert_prints(longest_label, longest_label);
    assert_refused(long_label, "longer than 63 characters");
    assert_prints(longest_name, longest_name);
    assert_refused(long_name, "longer than 253 characters");
}

static void nothing_may_follow_what_is_whole(void **state)
{
    (void)state;
    assert_refused("kaged:storage:read:x", "nothing may follow kaged:storage:read");
    assert_refused("kaged:storage:writes", "nothing may follow kaged:storage:write");
    assert_refused("kaged:storage:read ", "nothing may follow kaged:storage:read");
}

static void what_people_cannot_see_is_refused(void **state)
{
    (void)state;
    static const struct kg_str texts[] = {
        KG_STR("read:fs:/opt\0/x"),
        KG_STR("read:fs:/opt\n/x"),
        KG_STR("read:fs:/opt\x1B[2J"),
        KG_STR("read:fs:/opt/\x7F"),
        KG_STR("net:a\t:80"),
        KG_STR("exec:bash\r:/x"),
        KG_STR("read:fs:/\xE2\x80\xAEtpo"),
        KG_STR("read:fs:/\xFF"),
        KG_STR("kaged:storage:read\0"),
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        assert_refused_str(texts[i], "a control character or a byte that is not UTF-8", NULL);
}

static void the_message_shows_a_hostile_text_safely(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    assert_refused_str(KG_STR("read:fs:/a\x1B"), "capability \"read:fs:/a\\x1b\": ", NULL);
    kg_buf_char(&text, 'x');
    for (int i = 0; i < 100; i++)
        kg_buf_text(&text, "\xC3\xA9");
    kg_buf_char(&text, ':');
    assert_refused_str(kg_buf_view(&text), "\xC3\xA9...\": there is no such kind", NULL);
}

static void the_length_is_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "read:fs:/");
    while (text.length < CAPABILITY_BYTES_MAX)
        kg_buf_char(&text, 'a');
    const char *longest = kg_buf_terminate(&text);
    assert_prints(longest, longest);
    kg_buf_char(&text, 'a');
    assert_refused_str(kg_buf_view(&text), "it is longer than 4096 bytes", NULL);
}

static void errors_are_optional(void **state)
{
    (void)state;
    struct capability capability = {0};
    struct capability_set set = {0};
    assert_true(capability_parse(KG_STR("net:a:0"), &capability, NULL) < 0);
    assert_true(capability_set_parse(LIST("net:a:0"), &set, NULL, NULL) < 0);
    assert_null(set.items);
}

/* -- what covers what -------------------------------------------------------------------------- */

static void a_capability_covers_what_it_includes(void **state)
{
    (void)state;
    static const struct {
        const char *allowed, *claimed;
    } pairs[] = {
        {"read:fs:/a", "read:fs:/a"},
        {"read:fs:/a", "read:fs:/a/b"},
        {"write:fs:/a", "read:fs:/a"},
        {"write:fs:/a", "read:fs:/a/b/c"},
        {"write:fs:/a", "write:fs:/a/b"},
        {"read:fs:config:/", "read:fs:config:/x"},
        {"exec:bash:/a", "exec:bash:/a/"},
        {"kaged:storage:write", "kaged:storage:read"},
        {"net:*", "net:*"},
        {"net:*", "net:api.openai.com:443"},
        {"net:*", "net:192.0.2.1:*"},
        {"net:a:*", "net:A:80"},
        {"net:a:*", "net:a:*"},
        {"net:a:80", "net:[]"},
        {"read:fs:/a", "net:[]"},
        {"net:[]", "net:[]"},
    };
    for (size_t i = 0; i < KG_COUNT(pairs); i++)
        if (!covers(pairs[i].allowed, pairs[i].claimed))
            fail_msg("%s does not cover %s", pairs[i].allowed, pairs[i].claimed);
}

static void a_capability_does_not_cover_more(void **state)
{
    (void)state;
    static const struct {
        const char *allowed, *claimed;
    } pairs[] = {
        {"read:fs:/a", "write:fs:/a"},
        {"read:fs:/a/b", "read:fs:/a"},
        {"read:fs:/a", "read:fs:/ab"},
        {"read:fs:/a", "read:fs:config:/a"},
        {"read:fs:config:/x", "read:fs:project:/x"},
        {"read:fs:config:/x", "read:fs:config:/"},
        {"write:fs:/a", "exec:bash:/a"},
        {"exec:bash:/a", "exec:bash:/a/b"},
        {"exec:bash:/a", "exec:sh:/a"},
        {"exec:bash:/a", "exec:/usr/bin/bash:/a"},
        {"exec:bash:/a", "read:fs:/a"},
        {"kaged:storage:read", "kaged:storage:write"},
        {"net:a:80", "net:a:81"},
        {"net:a:80", "net:a:*"},
        {"net:a:*", "net:b:80"},
        {"net:a:*", "net:*"},
        {"net:[]", "net:a:80"},
        {"net:[]", "net:*"},
        {"net:*", "read:fs:/a"},
    };
    for (size_t i = 0; i < KG_COUNT(pairs); i++)
        if (covers(pairs[i].allowed, pairs[i].claimed))
            fail_msg("%s covers %s", pairs[i].allowed, pairs[i].claimed);
}

/* The gatekeeper lets only those through that are declared, so an upgrade that adds one must ask.
 */
static void any_host_does_not_cover_this_machine_and_its_networks(void **state)
{
    (void)state;
    static const char *const local[] = {
        "net:localhost:*",        "net:127.0.0.1:5432", "net:[::1]:80",
        "net:169.254.169.254:80", "net:10.0.0.1:22",    "net:[fd00::1]:443",
    };
    for (size_t i = 0; i < KG_COUNT(local); i++)
        if (covers("net:*", local[i]))
            fail_msg("net:* covers %s", local[i]);
}

static void a_set_covers_what_one_of_it_covers(void **state)
{
    (void)state;
    kg_auto(capability_set_free) struct capability_set set =
        must_parse_set(LIST("read:fs:/a", "net:a:443"));
    kg_auto(capability_set_free) struct capability_set none = must_parse_set(LIST(NULL));
    kg_auto(capability_free) struct capability inside = must_parse("read:fs:/a/b");
    kg_auto(capability_free) struct capability outside = must_parse("net:a:80");
    kg_auto(capability_free) struct capability nothing = must_parse("net:[]");
    assert_true(capability_set_covers(&set, &inside));
    assert_false(capability_set_covers(&set, &outside));
    assert_false(capability_set_covers(&none, &inside));
    assert_true(capability_set_covers(&none, &nothing));
}

/* -- sets -------------------------------------------------------------------------------------- */

static void assert_remark(const struct capability_remark *remark, size_t index, bool is_error,
                          const char *sentence)
{
    assert_int_equal(remark->index, index);
    assert_int_equal(remark->is_error, is_error);
    if (strstr(remark->text, sentence) == NULL)
        fail_msg("wanted \"%s\": %s", sentence, remark->text);
}

static void every_bad_entry_of_a_list_is_reported(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct capability_set set = {.count = 7};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    int result = capability_set_parse(LIST("read:fs:/a", "reed:fs:/b", "net:a:80", "net:a:0"), &set,
                                      &remarks, &err);
    assert_true(result < 0);
    assert_int_equal(set.count, 7);
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
    assert_string_equal(err.message, "capability \"reed:fs:/b\": there is no such kind");
    assert_string_equal(err.hint, "did you mean read:fs:PATH?");
    assert_int_equal(remarks.count, 2);
    assert_remark(&remarks.items[0], 1, true, "\"reed:fs:/b\": there is no such kind");
    assert_string_equal(remarks.items[0].hint, "did you mean read:fs:PATH?");
    assert_remark(&remarks.items[1], 3, true, "the port must be");
}

static void duplicates_are_warned_of_and_kept_once(void **state)
{
    (void)state;
    kg_auto(capability_set_free) struct capability_set set = {0};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    char *const *list = LIST("read:fs:/a", "net:[]", "read:fs:/a/", "net:[]");
    assert_int_equal(capability_set_parse(list, &set, &remarks, NULL), 0);
    assert_set_prints(&set, "read:fs:/a net:[]");
    assert_int_equal(remarks.count, 2);
    assert_remark(&remarks.items[0], 2, false,
                  "capability \"read:fs:/a/\": it repeats \"read:fs:/a\"");
    assert_remark(&remarks.items[1], 3, false, "it repeats \"net:[]\"");
}

static void redundant_entries_are_warned_of(void **state)
{
    (void)state;
    kg_auto(capability_set_free) struct capability_set set = {0};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    char *const *list = LIST("read:fs:/a/b", "write:fs:/a", "net:localhost:1", "net:*");
    assert_int_equal(capability_set_parse(list, &set, &remarks, NULL), 0);
    assert_int_equal(set.count, 4);
    assert_int_equal(remarks.count, 1);
    assert_remark(&remarks.items[0], 0, false,
                  "capability \"read:fs:/a/b\": it is redundant beside \"write:fs:/a\"");
    assert_string_equal(remarks.items[0].hint, "leave it out");
}

static void asking_for_no_network_is_not_redundant(void **state)
{
    (void)state;
    kg_auto(capability_set_free) struct capability_set set = {0};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    assert_int_equal(capability_set_parse(LIST("read:fs:/a", "net:[]"), &set, &remarks, NULL), 0);
    assert_int_equal(remarks.count, 0);
}

static void no_network_and_some_network_contradict(void **state)
{
    (void)state;
    char *const *lists[] = {LIST("net:[]", "net:*"), LIST("net:[]", "net:a:80")};
    for (size_t i = 0; i < KG_COUNT(lists); i++) {
        struct kg_err err = {0};
        struct capability_set set = {0};
        kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
        assert_true(capability_set_parse(lists[i], &set, &remarks, &err) < 0);
        assert_int_equal(remarks.count, 1);
        assert_remark(&remarks.items[0], 0, true, "asks for no network, which contradicts \"net:");
        assert_string_equal(err.hint, "leave one of the two out");
    }
}

static void the_number_of_entries_is_bounded(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct capability_set set = {0};
    char **list = kg_list_new(CAPABILITY_COUNT_MAX + 1);
    for (size_t i = 0; i <= CAPABILITY_COUNT_MAX; i++)
        list[i] = kg_format("read:fs:/a/%zu", i);
    assert_true(capability_set_parse(list, &set, NULL, &err) < 0);
    assert_string_equal(err.message, "there are 1025 capabilities; at most 1024 are allowed");
    free(list[CAPABILITY_COUNT_MAX]);
    list[CAPABILITY_COUNT_MAX] = NULL;
    assert_int_equal(capability_set_parse(list, &set, NULL, &err), 0);
    assert_int_equal(set.count, CAPABILITY_COUNT_MAX);
    capability_set_free(&set);
    kg_list_free(list);
}

/* -- words ------------------------------------------------------------------------------------- */

static void each_kind_is_said_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"read:fs:/opt/x", "may read /opt/x and below"},
        {"write:fs:config:/memory", "may change files in config:/memory"},
        {"exec:bash:/opt/x", "may run bash, in any folder that it sees, and read /opt/x"},
        {"net:api.openai.com:443", "may reach api.openai.com, port 443"},
        {"net:[::1]:80", "may reach [::1], port 80"},
        {"net:localhost:*", "may reach every port of localhost"},
        {"net:*", "may reach any host on the network"},
        {"net:[]", "may not reach the network"},
        {"kaged:storage:write", "may keep data of its own"},
        {"kaged:storage:read", "may read the data it keeps"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_buf_free) struct kg_buf words = {0};
        kg_auto(capability_free) struct capability capability = must_parse(rows[i].text);
        capability_words(&capability, &words);
        assert_string_equal(kg_buf_terminate(&words), rows[i].words);
    }
}

static void dangerous_ones_say_why(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"net:*", "send what it reads to anyone"},
        {"write:fs:/opt/x", "outside its own folder and the project"},
        {"write:fs:/opt/x/.git/hooks", "programs outside of the cage"},
        {"write:fs:project:/.git/hooks/pre-commit", "programs outside of the cage"},
        {"write:fs:project:/sub/.git/modules/a/config", "programs outside of the cage"},
        {"write:fs:project:/.vscode", "programs outside of the cage"},
        {"write:fs:project:/a/.config/fish", "programs outside of the cage"},
        {"exec:bash:/x", "a shell or an interpreter"},
        {"exec:/bin/sh:/x", "a shell or an interpreter"},
        {"exec:python3.11:/x", "a shell or an interpreter"},
        {"exec:/usr/bin/node:/x", "a shell or an interpreter"},
        {"exec:perl:/x", "a shell or an interpreter"},
        {"exec:ruby:/x", "a shell or an interpreter"},
        {"exec:lua5.4:/x", "a shell or an interpreter"},
        {"net:LocalHost:80", "services on this machine"},
        {"net:127.8.8.8:*", "services on this machine"},
        {"net:0.0.0.0:80", "services on this machine"},
        {"net:[::]:80", "services on this machine"},
        {"net:[::1]:80", "services on this machine"},
        {"net:[::ffff:127.0.0.1]:80", "services on this machine"},
        {"net:169.254.169.254:80", "link-local"},
        {"net:[febf::1]:80", "link-local"},
        {"net:10.255.0.1:80", "a private network"},
        {"net:172.31.0.1:80", "a private network"},
        {"net:192.168.1.1:80", "a private network"},
        {"net:100.127.0.1:80", "a private network"},
        {"net:[fdab::1]:80", "a private network"},
        {"read:fs:/home/ann", "a user's own files"},
        {"read:fs:/home/ann/.ssh/id", "a user's own files"},
        {"read:fs:/root/.config", "a user's own files"},
    };
    for (size_t i = 0; i < KG_COUNT(rules); i++) {
        const char *reason = "it is not dangerous";
        kg_auto(capability_free) struct capability capability = must_parse(rules[i].text);
        capability_is_dangerous(&capability, &reason);
        if (strstr(reason, rules[i].sentence) == NULL)
            fail_msg("%s: %s", rules[i].text, reason);
    }
}

static void ordinary_ones_are_not_dangerous(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "read:fs:/opt/x",
        "read:fs:/home/ann/notes",
        "read:fs:/rooted",
        "read:fs:/homes/x",
        "write:fs:config:/x",
        "write:fs:project:/",
        "exec:git:/x",
        "exec:shfmt:/x",
        "exec:/opt/bash/git:/x",
        "net:example.com:443",
        "net:172.32.0.1:80",
        "net:100.128.0.1:80",
        "net:[2001:db8::1]:80",
        "net:11.0.0.1:80",
        "net:[]",
        "kaged:storage:write",
        "kaged:storage:read",
        "write:fs:project:/.git",
        "write:fs:project:/a.vscode",
        "write:fs:project:/hooks",
        "read:fs:project:/.git/hooks",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        const char *reason = NULL;
        kg_auto(capability_free) struct capability capability = must_parse(texts[i]);
        if (capability_is_dangerous(&capability, &reason))
            fail_msg("%s: %s", texts[i], reason);
        assert_null(reason);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_of_the_document_is_taken),
        cmocka_unit_test(each_kind_has_its_fields),
        cmocka_unit_test(one_form_is_printed),
        cmocka_unit_test(unknown_kinds_are_refused_with_the_nearest),
        cmocka_unit_test(paths_are_refused_with_the_reason),
        cmocka_unit_test(places_of_the_system_are_refused),
        cmocka_unit_test(what_is_taken_here_the_cage_takes_too),
        cmocka_unit_test(programs_are_refused_with_the_reason),
        cmocka_unit_test(ports_are_refused_with_the_reason),
        cmocka_unit_test(hosts_are_refused_with_the_reason),
        cmocka_unit_test(addresses_are_refused_with_the_reason),
        cmocka_unit_test(the_lengths_of_names_are_bounded),
        cmocka_unit_test(nothing_may_follow_what_is_whole),
        cmocka_unit_test(what_people_cannot_see_is_refused),
        cmocka_unit_test(the_message_shows_a_hostile_text_safely),
        cmocka_unit_test(the_length_is_bounded),
        cmocka_unit_test(errors_are_optional),
        cmocka_unit_test(a_capability_covers_what_it_includes),
        cmocka_unit_test(a_capability_does_not_cover_more),
        cmocka_unit_test(any_host_does_not_cover_this_machine_and_its_networks),
        cmocka_unit_test(a_set_covers_what_one_of_it_covers),
        cmocka_unit_test(every_bad_entry_of_a_list_is_reported),
        cmocka_unit_test(duplicates_are_warned_of_and_kept_once),
        cmocka_unit_test(redundant_entries_are_warned_of),
        cmocka_unit_test(asking_for_no_network_is_not_redundant),
        cmocka_unit_test(no_network_and_some_network_contradict),
        cmocka_unit_test(the_number_of_entries_is_bounded),
        cmocka_unit_test(each_kind_is_said_in_words),
        cmocka_unit_test(dangerous_ones_say_why),
        cmocka_unit_test(ordinary_ones_are_not_dangerous),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
