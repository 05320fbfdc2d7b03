/*
 * The pure parts of the gate: what kind an address is, what may lead where, the packets of the name
 * responder, and the table of names under `*`.
 */
#include "cage/gate_internal.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- addresses --------------------------------------------------------------------------------- */

static union gate_address address(const char *text)
{
    union gate_address parsed;
    if (!gate_address_parse(text, 80, &parsed))
        fail_msg("%s is not an address", text);
    return parsed;
}

static void every_kind_of_address_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum gate_class class;
    } rows[] = {
        {"8.8.8.8", GATE_CLASS_GLOBAL},
        {"11.0.0.0", GATE_CLASS_GLOBAL},
        {"172.32.0.1", GATE_CLASS_GLOBAL},
        {"223.255.255.255", GATE_CLASS_GLOBAL},
        {"100.128.0.1", GATE_CLASS_GLOBAL},
        {"2a00:1450::1", GATE_CLASS_GLOBAL},
        {"10.0.0.0", GATE_CLASS_PRIVATE},
        {"10.255.255.255", GATE_CLASS_PRIVATE},
        {"172.16.0.1", GATE_CLASS_PRIVATE},
        {"172.31.255.255", GATE_CLASS_PRIVATE},
        {"192.168.1.1", GATE_CLASS_PRIVATE},
        {"100.64.0.1", GATE_CLASS_PRIVATE},
        {"198.18.0.2", GATE_CLASS_PRIVATE},
        {"198.19.255.255", GATE_CLASS_PRIVATE},
        {"fc00::1", GATE_CLASS_PRIVATE},
        {"fdff:ffff::1", GATE_CLASS_PRIVATE},
        {"fec0::1", GATE_CLASS_PRIVATE},
        {"64:ff9b:1::7f00:1", GATE_CLASS_PRIVATE},
        {"127.0.0.1", GATE_CLASS_LOOPBACK},
        {"127.255.255.255", GATE_CLASS_LOOPBACK},
        {"::1", GATE_CLASS_LOOPBACK},
        {"::ffff:127.0.0.1", GATE_CLASS_LOOPBACK},
        {"169.254.169.254", GATE_CLASS_LINK},
        {"fe80::1", GATE_CLASS_LINK},
        {"febf::1", GATE_CLASS_LINK},
        {"fd00:ec2::254", GATE_CLASS_METADATA},
        {"100.100.100.200", GATE_CLASS_METADATA},
        {"192.0.0.192", GATE_CLASS_METADATA},
        {"0.0.0.0", GATE_CLASS_NOBODY},
        {"0.1.2.3", GATE_CLASS_NOBODY},
        {"224.0.0.1", GATE_CLASS_NOBODY},
        {"240.0.0.1", GATE_CLASS_NOBODY},
        {"255.255.255.255", GATE_CLASS_NOBODY},
        {"::", GATE_CLASS_NOBODY},
        {"ff02::1", GATE_CLASS_NOBODY},
        {"::ffff:0.0.0.0", GATE_CLASS_NOBODY},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        union gate_address parsed = address(rows[i].text);
        if (gate_address_class(&parsed) != rows[i].class)
            fail_msg("%s is of class %d", rows[i].text, gate_address_class(&parsed));
    }
}

static void an_ipv4_address_in_ipv6_clothes_is_found(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"64:ff9b::7f00:1", "127.0.0.1"},
        {"2002:7f00:1::", "127.0.0.1"},
        {"2002:a9fe:a9fe::1", "169.254.169.254"},
        {"2001:0:1:2:3:4:80ff:fffe", "127.0.0.1"},
        {"::10.1.2.3", "10.1.2.3"},
        {"::ffff:0:10.1.2.3", "10.1.2.3"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        union gate_address outer = address(rows[i][0]), inner;
        char text[GATE_ADDRESS_TEXT];
        assert_true(gate_address_embedded(&outer, &inner));
        gate_address_print(&inner, text);
        assert_string_equal(text, rows[i][1]);
        assert_int_equal(gate_address_port(&inner), 80);
    }
    union gate_address plain = address("2a00:1450::7f00:1"), inner;
    assert_false(gate_address_embedded(&plain, &inner));
}

static void a_mapped_address_is_an_ipv4_address(void **state)
{
    (void)state;
    union gate_address mapped = address("::ffff:10.1.2.3"), plain = address("10.1.2.3");
    assert_int_equal(mapped.any.sa_family, AF_INET);
    assert_true(gate_address_same_host(&mapped, &plain));
    struct sockaddr_in6 raw = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &raw.sin6_addr);
    union gate_address taken;
    assert_true(gate_address_take((struct sockaddr *)&raw, sizeof(raw), &taken));
    assert_int_equal(taken.any.sa_family, AF_INET);
    assert_int_equal(gate_address_port(&taken), 7);
    assert_false(gate_address_take((struct sockaddr *)&raw, 8, &taken));
}

static void what_is_no_plain_number_is_no_address(void **state)
{
    (void)state;
    static const char *const rows[] = {"",       "127.1", "0x7f000001", "localhost", "1.2.3.4.5",
                                       "::1%lo", "[::1]", "01.2.3.4",   "1.2.3.4 "};
    union gate_address ignored;
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (gate_address_parse(rows[i], 1, &ignored))
            fail_msg("\"%s\" was taken", rows[i]);
}

static void what_may_lead_where(void **state)
{
    (void)state;
    /* '+' allowed, '-' refused, 'p' only with private networks; one column a class. */
    static const struct {
        enum gate_trust trust;
        bool is_own;
        const char *global_private_loopback_link_metadata_nobody;
    } rows[] = {
        {GATE_TRUST_LITERAL, false, "+++++-"},  {GATE_TRUST_LITERAL, true, "+++++-"},
        {GATE_TRUST_LOCALHOST, true, "--+---"}, {GATE_TRUST_NAME, false, "+p----"},
        {GATE_TRUST_NAME, true, "------"},      {GATE_TRUST_ANY, false, "+-----"},
        {GATE_TRUST_ANY, true, "------"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        for (enum gate_class class = GATE_CLASS_GLOBAL; class <= GATE_CLASS_NOBODY; class ++) {
            char wanted = rows[i].global_private_loopback_link_metadata_nobody[class];
            bool open = gate_verdict(rows[i].trust, class, rows[i].is_own, true) == NULL;
            bool shut = gate_verdict(rows[i].trust, class, rows[i].is_own, false) == NULL;
            if (open != (wanted != '-') || shut != (wanted == '+'))
                fail_msg("row %zu, class %d", i, class);
        }
    }
}

static void what_is_refused_may_be_declared_otherwise(void **state)
{
    (void)state;
    /* 'n' by its name, 'h' as localhost, 'a' as an address, '-' in no way; one column a class. */
    static const struct {
        bool is_own, private_networks;
        const char *global_private_loopback_link_metadata_nobody;
    } rows[] = {{false, true, "nnhaa-"}, {false, false, "nahaa-"}, {true, true, "aahaa-"}};
    static const char letters[] = {
        [GATE_TRUST_LITERAL] = 'a', [GATE_TRUST_LOCALHOST] = 'h', [GATE_TRUST_NAME] = 'n'};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        for (enum gate_class class = GATE_CLASS_GLOBAL; class <= GATE_CLASS_NOBODY; class ++) {
            char wanted = rows[i].global_private_loopback_link_metadata_nobody[class];
            enum gate_trust trust;
            bool found = gate_remedy(class, rows[i].is_own, rows[i].private_networks, &trust);
            if ((found ? letters[trust] : '-') != wanted)
                fail_msg("row %zu, class %d", i, class);
        }
    }
}

static void own_addresses_are_known(void **state)
{
    (void)state;
    union gate_address loopback = address("127.0.0.1"), other = address("127.9.9.9");
    assert_int_equal(gate_address_is_own(&loopback), 1);
    assert_int_equal(gate_address_is_own(&other), 1);
    union gate_address outside = address("203.0.113.5");
    assert_int_equal(gate_address_is_own(&outside), 0);
}

/* -- packets ----------------------------------------------------------------------------------- */

struct packet {
    uint8_t bytes[600];
    size_t size;
};

/* A query for a name whose labels are divided by dots. */
static struct packet query(const char *name, uint16_t type)
{
    struct packet packet = {.bytes = {0x12, 0x34, 0x01, 0x00, 0, 1}, .size = 12};
    while (*name != '\0') {
        size_t label = strcspn(name, ".");
        packet.bytes[packet.size++] = (uint8_t)label;
        memcpy(packet.bytes + packet.size, name, label);
        packet.size += label;
        name += label + (name[label] == '.');
    }
    uint8_t tail[] = {0, (uint8_t)(type >> 8), (uint8_t)type, 0, 1};
    memcpy(packet.bytes + packet.size, tail, sizeof(tail));
    packet.size += sizeof(tail);
    return packet;
}

/* What a packet is answered with: its code, or -1 if not at all. */
static int code_of(const struct packet *packet, struct gate_query *ret_query)
{
    enum gate_rcode rcode;
    /* From the heap, so that a byte read past the end is found. */
    uint8_t *copy = malloc(packet->size ? packet->size : 1);
    memcpy(copy, packet->bytes, packet->size);
    bool answered = gate_query_read(copy, packet->size, ret_query, &rcode);
    free(copy);
    return answered ? (int)rcode : -1;
}

static void a_query_is_read(void **state)
{
    (void)state;
    struct gate_query read;
    struct packet packet = query("API.Example.com", GATE_QUERY_A);
    assert_int_equal(code_of(&packet, &read), GATE_RCODE_OK);
    assert_string_equal(read.name, "api.example.com");
    assert_true(read.is_plain && read.recursion_wanted);
    assert_int_equal(read.id, 0x1234);
    assert_int_equal(read.type, GATE_QUERY_A);
    assert_int_equal(read.question_size, packet.size - 12);
}

static void what_stands_behind_the_question_is_not_read(void **state)
{
    (void)state;
    struct gate_query read;
    struct packet packet = query("a.b", GATE_QUERY_A);
    packet.bytes[11] = 1; /* one additional record, as EDNS has it */
    memset(packet.bytes + packet.size, 0xC0, 40);
    packet.size += 40;
    assert_int_equal(code_of(&packet, &read), GATE_RCODE_OK);
    assert_string_equal(read.name, "a.b");
}

static void a_name_that_no_host_has_is_not_plain(void **state)
{
    (void)state;
    struct gate_query read;
    struct packet packet = query("a\x01-\xFF", GATE_QUERY_A);
    assert_int_equal(code_of(&packet, &read), GATE_RCODE_OK);
    assert_string_equal(read.name, "a?-?");
    assert_false(read.is_plain);
    packet = query("", GATE_QUERY_A);
    assert_int_equal(code_of(&packet, &read), GATE_RCODE_OK);
    assert_string_equal(read.name, "");
}

static void hostile_packets_are_refused_or_dropped(void **state)
{
    (void)state;
    struct gate_query read;
    struct packet good = query("api.example.com", GATE_QUERY_A), packet;
    static const struct {
        const char *what;
        size_t at;
        uint8_t value;
        int code;
    } rows[] = {
        {"a response", 2, 0x81, -1},
        {"an update", 2, 0x28, GATE_RCODE_NOT_DONE},
        {"a notification", 2, 0x20, GATE_RCODE_NOT_DONE},
        {"no question", 5, 0, GATE_RCODE_FORMAT},
        {"two questions", 5, 2, GATE_RCODE_FORMAT},
        {"an answer in a query", 7, 1, GATE_RCODE_FORMAT},
        {"a pointer", 12, 0xC0, GATE_RCODE_FORMAT},
        {"a pointer in the middle", 16, 0xC0, GATE_RCODE_FORMAT},
        {"a label of a kind unheard of", 12, 0x80, GATE_RCODE_FORMAT},
        {"a label past the end", 12, 63, GATE_RCODE_FORMAT},
        {"another class", 32, 3, GATE_RCODE_REFUSED},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        packet = good;
        packet.bytes[rows[i].at] = rows[i].value;
        if (code_of(&packet, &read) != rows[i].code)
            fail_msg("%s: %d", rows[i].what, code_of(&packet, &read));
    }
    for (packet = good; packet.size > 0; packet.size--)
        if (packet.size < good.size)
            assert_int_equal(code_of(&packet, &read), packet.size < 12 ? -1 : GATE_RCODE_FORMAT);
    packet = (struct packet){.size = GATE_PACKET_MAX + 1};
    assert_int_equal(code_of(&packet, &read), -1);
}

static void the_longest_name_is_read_and_a_longer_one_refused(void **state)
{
    (void)state;
    char name[300];
    struct gate_query read;
    memset(name, 'a', sizeof(name));
    for (size_t i = 63; i < sizeof(name); i += 64)
        name[i] = '.';
    name[253] = '\0'; /* 255 bytes on the wire */
    struct packet packet = query(name, GATE_QUERY_A);
    assert_int_equal(code_of(&packet, &read), GATE_RCODE_OK);
    assert_string_equal(read.name, name);
    name[253] = 'a';
    name[254] = '\0';
    packet = query(name, GATE_QUERY_A);
    assert_int_equal(code_of(&packet, &read), GATE_RCODE_FORMAT);
}

static void an_answer_has_the_addresses_that_were_asked_for(void **state)
{
    (void)state;
    union gate_address both[] = {address("198.18.0.2"), address("::1")};
    uint8_t answer[GATE_PACKET_MAX];
    struct gate_query read;
    struct packet packet = query("a.b", GATE_QUERY_A);
    code_of(&packet, &read);
    size_t size = gate_answer_write(packet.bytes, &read, GATE_RCODE_OK, both, 2, answer);
    static const uint8_t wanted[] = {0x12, 0x34, 0x85, 0x80, 0, 1, 0, 1,   0,    0,  0, 0, 1,
                                     'a',  1,    'b',  0,    0, 1, 0, 1,   0xC0, 12, 0, 1, 0,
                                     1,    0,    0,    0,    5, 0, 4, 198, 18,   0,  2};
    assert_int_equal(size, sizeof(wanted));
    assert_memory_equal(answer, wanted, sizeof(wanted));
    packet = query("a.b", GATE_QUERY_AAAA);
    code_of(&packet, &read);
    size = gate_answer_write(packet.bytes, &read, GATE_RCODE_OK, both, 1, answer);
    assert_int_equal(size, packet.size); /* the question, and nothing more */
    assert_int_equal(answer[3] & 0xF, GATE_RCODE_OK);
    size = gate_answer_write(packet.bytes, &read, GATE_RCODE_OK, both, 2, answer);
    assert_int_equal(size, packet.size + 28);
}

static void an_answer_never_outgrows_its_packet(void **state)
{
    (void)state;
    union gate_address many[64];
    for (size_t i = 0; i < KG_COUNT(many); i++)
        many[i] = address("2a00::1");
    uint8_t answer[GATE_PACKET_MAX];
    struct gate_query read;
    struct packet packet = query("a.b", GATE_QUERY_ALL);
    code_of(&packet, &read);
    assert_true(gate_answer_write(packet.bytes, &read, GATE_RCODE_OK, many, 64, answer) <=
                GATE_PACKET_MAX);
}

/* -- names under `*` --------------------------------------------------------------------------- */

static void a_name_keeps_its_address_and_is_found_by_it(void **state)
{
    (void)state;
    struct gate_names *names = gate_names_new();
    const struct gate_name *a = gate_names_give(names, "a.example");
    const struct gate_name *b = gate_names_give(names, "b.example");
    assert_ptr_equal(gate_names_give(names, "a.example"), a);
    union gate_address first, second, never = address("198.18.200.1");
    gate_name_address(a, &first);
    gate_name_address(b, &second);
    char text[GATE_ADDRESS_TEXT];
    gate_address_print(&first, text);
    assert_string_equal(text, "198.18.128.1");
    assert_string_equal(gate_name_text(gate_names_find(names, &second)), "b.example");
    assert_null(gate_names_find(names, &never));
    gate_names_free(names);
}

#define NAMES 4096 /* as many as there are places */

static void give_all(struct gate_names *names)
{
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%d.example", i);
        assert_non_null(gate_names_give(names, name));
    }
}

static void the_oldest_name_without_connections_gives_way(void **state)
{
    (void)state;
    struct gate_names *names = gate_names_new();
    give_all(names);
    gate_names_give(names, "n1.example"); /* asked for again: not old any more */
    union gate_address address_of_0, address_of_2, address_of_new;
    gate_name_address(gate_names_give(names, "n2.example"), &address_of_2);
    const struct gate_name *zero = gate_names_give(names, "n0.example");
    gate_name_address(zero, &address_of_0);
    gate_name_hold(gate_names_find(names, &address_of_0));
    gate_name_address(gate_names_give(names, "new.example"), &address_of_new);
    assert_string_equal(gate_name_text(gate_names_find(names, &address_of_0)), "n0.example");
    assert_string_equal(gate_name_text(gate_names_find(names, &address_of_2)), "n2.example");
    assert_string_equal(gate_name_text(gate_names_find(names, &address_of_new)), "new.example");
    union gate_address address_of_3 = address("198.18.128.4");
    assert_true(gate_address_same_host(&address_of_3, &address_of_new));
    gate_names_free(names);
}

static void no_address_is_given_while_all_have_connections(void **state)
{
    (void)state;
    struct gate_names *names = gate_names_new();
    give_all(names);
    union gate_address each = address("198.18.128.1");
    uint32_t first = ntohl(each.v4.sin_addr.s_addr);
    for (uint32_t i = 0; i < NAMES; i++) {
        each.v4.sin_addr.s_addr = htonl(first + i);
        gate_name_hold(gate_names_find(names, &each));
    }
    assert_null(gate_names_give(names, "new.example"));
    gate_name_release(gate_names_find(names, &each));
    assert_non_null(gate_names_give(names, "new.example"));
    gate_names_free(names);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_address_is_known),
        cmocka_unit_test(an_ipv4_address_in_ipv6_clothes_is_found),
        cmocka_unit_test(a_mapped_address_is_an_ipv4_address),
        cmocka_unit_test(what_is_no_plain_number_is_no_address),
        cmocka_unit_test(what_may_lead_where),
        cmocka_unit_test(what_is_refused_may_be_declared_otherwise),
        cmocka_unit_test(own_addresses_are_known),
        cmocka_unit_test(a_query_is_read),
        cmocka_unit_test(what_stands_behind_the_question_is_not_read),
        cmocka_unit_test(a_name_that_no_host_has_is_not_plain),
        cmocka_unit_test(hostile_packets_are_refused_or_dropped),
        cmocka_unit_test(the_longest_name_is_read_and_a_longer_one_refused),
        cmocka_unit_test(an_answer_has_the_addresses_that_were_asked_for),
        cmocka_unit_test(an_answer_never_outgrows_its_packet),
        cmocka_unit_test(a_name_keeps_its_address_and_is_found_by_it),
        cmocka_unit_test(the_oldest_name_without_connections_gives_way),
        cmocka_unit_test(no_address_is_given_while_all_have_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
