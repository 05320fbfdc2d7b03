/*
 * An identity counts once, at the node and for the request that it was made for. Each sender counts
 * up from its start; the last few thousand numbers are remembered, so that what is passed on at the
 * same time may arrive in any order, and what was seen, or is older than those, is refused.
 */
#include "cluster/identity.h"

#include "base/json/json.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#define VERSION      "v1."
#define AGE_MS       30000
#define WINDOW       4096 /* a multiple of 64 */
#define VALUE_BYTES  4096
#define MAC_TEXT     (2 * crypto_auth_hmacsha256_BYTES)
#define SENDERS_MAX  256
#define NUMBERS_BASE 10

struct identity_sender {
    int64_t started_ms; /* by its own clock */
    uint64_t highest;
    uint64_t seen[WINDOW / 64]; /* a bit for each number from highest down, at its remainder */
};

struct identities {
    unsigned char key[LINK_KEY_BYTES];
    char *node; /* owned */
    int64_t started_ms;
    uint64_t count;
    struct kg_map *senders; /* of struct identity_sender, owned */
};

struct identities *identities_new(const unsigned char key[LINK_KEY_BYTES], const char *node)
{
    struct identities *identities = kg_alloc(sizeof(*identities));
    memcpy(identities->key, key, LINK_KEY_BYTES);
    identities->node = kg_strdup(node);
    identities->started_ms = kg_wall_ms();
    identities->senders = kg_map_new();
    return identities;
}

void identities_free(struct identities *identities)
{
    size_t at = 0;
    struct kg_str name;
    void *sender;
    if (identities == NULL)
        return;
    while (kg_map_next(identities->senders, &at, &name, &sender))
        free(sender);
    kg_map_free(identities->senders);
    sodium_memzero(identities->key, sizeof(identities->key));
    free(identities->node);
    free(identities);
}

/* -- signing ----------------------------------------------------------------------------------- */

/* Of what it says, and of the request; no part can be read as belonging to another. */
static void identity_seal(const struct identities *identities, struct kg_str text,
                          const struct identity_request *request, char ret_text[MAC_TEXT + 1])
{
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    kg_auto(kg_buf_free) struct kg_buf all = {0};
    kg_buf_printf(&all, "%zu %zu %zu %lld\n", text.length, request->method.length,
                  request->target.length, (long long)request->body_bytes);
    kg_buf_str(&all, text);
    kg_buf_str(&all, request->method);
    kg_buf_str(&all, request->target);
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, identities->key, sizeof(identities->key));
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)all.data, all.length);
    crypto_auth_hmacsha256_final(&state, mac);
    sodium_bin2hex(ret_text, MAC_TEXT + 1, mac, sizeof(mac));
}

static void identity_print(struct identities *identities, const struct identity *identity,
                           const char *to, struct kg_buf *out)
{
    char scopes[24];
    struct kg_json_writer json = kg_json_writer(out);
    snprintf(scopes, sizeof(scopes), "%llu", (unsigned long long)identity->scopes);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "from", identities->node);
    kg_json_named_text(&json, "to", to);
    kg_json_named_int(&json, "at", kg_wall_ms());
    kg_json_named_int(&json, "started", identities->started_ms);
    kg_json_named_int(&json, "number", (int64_t)++identities->count);
    kg_json_named_str(&json, "via", identity->via);
    kg_json_named_str(&json, "operator", identity->operator_id);
    kg_json_named_str(&json, "principal", identity->principal);
    kg_json_named_str(&json, "profile", identity->profile);
    kg_json_named_str(&json, "credential", identity->credential_id);
    kg_json_named_text(&json, "scopes", scopes);
    kg_json_end(&json, '}');
}

void identity_sign(struct identities *identities, const struct identity *identity,
                   const struct identity_request *request, const char *to, struct kg_buf *out)
{
    char mac[MAC_TEXT + 1];
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    identity_print(identities, identity, to, &text);
    identity_seal(identities, kg_buf_view(&text), request, mac);
    size_t room = sodium_base64_ENCODED_LEN(text.length, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    kg_auto(kg_free) char *encoded = kg_alloc(room);
    sodium_bin2base64(encoded, room, (const unsigned char *)text.data, text.length,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    kg_buf_printf(out, VERSION "%s.%s", encoded, mac);
}

/* -- checking ---------------------------------------------------------------------------------- */

/* Its text, if this cluster signed it for that request. */
static int identity_open(const struct identities *identities, struct kg_str value,
                         const struct identity_request *request, struct kg_buf *text,
                         struct kg_err *err)
{
    char mac[MAC_TEXT + 1];
    size_t length = 0;
    if (value.data == NULL)
        return kg_fail(err, KG_E_REFUSED, IDENTITY_HEADER " is missing");
    bool fits = value.length <= VALUE_BYTES && kg_str_starts(value, VERSION);
    struct kg_str rest = fits ? kg_str_from(value, sizeof(VERSION) - 1) : KG_STR("");
    struct kg_str encoded = kg_str_cut(&rest, '.');
    kg_buf_reserve(text, encoded.length + 1);
    if (!fits || rest.length != MAC_TEXT ||
        sodium_base642bin((unsigned char *)text->data, text->capacity, encoded.data, encoded.length,
                          NULL, &length, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
        return kg_fail(err, KG_E_REFUSED, IDENTITY_HEADER " is malformed");
    text->length = length;
    identity_seal(identities, kg_buf_view(text), request, mac);
    if (sodium_memcmp(mac, rest.data, MAC_TEXT) != 0)
        return kg_fail(err, KG_E_REFUSED,
                       IDENTITY_HEADER " is not signed by this cluster for this request");
    return 0;
}

static bool sender_sees_first(struct identity_sender *sender, uint64_t number)
{
    if (number > sender->highest) {
        uint64_t from = number - sender->highest >= WINDOW ? number - WINDOW : sender->highest;
        for (uint64_t next = from + 1; next <= number; next++)
            sender->seen[next % WINDOW / 64] &= ~(UINT64_C(1) << next % 64);
        sender->highest = number;
    } else if (sender->highest - number >= WINDOW) {
        return false;
    }
    uint64_t bit = UINT64_C(1) << number % 64, *word = &sender->seen[number % WINDOW / 64];
    bool first = (*word & bit) == 0;
    *word |= bit;
    return first;
}

static bool identity_is_first(struct identities *identities, struct kg_str from, int64_t started_ms,
                              uint64_t number)
{
    struct identity_sender *sender = kg_map_get(identities->senders, from);
    if (sender == NULL) {
        if (kg_map_count(identities->senders) >= SENDERS_MAX)
            return false;
        sender = kg_alloc(sizeof(*sender));
        kg_map_set(identities->senders, from, sender);
    }
    if (started_ms < sender->started_ms)
        return false;
    if (started_ms > sender->started_ms) /* it was started again */
        *sender = (struct identity_sender){.started_ms = started_ms};
    return sender_sees_first(sender, number);
}

static int identity_weigh(struct identities *identities, const struct kg_node *root,
                          const char *from, struct kg_err *err)
{
    struct kg_str sender = kg_node_text(root, "from"), to = kg_node_text(root, "to");
    int64_t age_ms = kg_wall_ms() - kg_node_number(root, "at");
    int64_t number = kg_node_number(root, "number");
    if (!kg_str_is(sender, from))
        return kg_fail(err, KG_E_REFUSED, IDENTITY_HEADER " is of the node %.*s, and came from %s",
                       KG_STR_CUT(sender, LINK_NODE_MAX), from);
    if (!kg_str_is(to, identities->node))
        return kg_fail(err, KG_E_REFUSED, IDENTITY_HEADER " is for the node %.*s, not for %s",
                       KG_STR_CUT(to, LINK_NODE_MAX), identities->node);
    if (age_ms > AGE_MS || age_ms < -AGE_MS) {
        kg_fail(err, KG_E_REFUSED, "what the node %s signed is %lld ms from our clock", from,
                (long long)age_ms);
        return kg_hint(err, "run a time service on all nodes");
    }
    if (number <= 0 ||
        !identity_is_first(identities, sender, kg_node_number(root, "started"), (uint64_t)number))
        return kg_fail(err, KG_E_REFUSED, IDENTITY_HEADER " was used before");
    return 0;
}

int identity_check(struct identities *identities, struct kg_str value, const char *from,
                   const struct identity_request *request, struct kg_doc **ret_text,
                   struct identity *ret_identity, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = identity_open(identities, value, request, &text, err);
    if (result < 0)
        return result;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), err);
    if (doc == NULL)
        return -EINVAL;
    const struct kg_node *root = doc->root;
    result = identity_weigh(identities, root, from, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *scopes = kg_str_dup(kg_node_text(root, "scopes"));
    *ret_identity = (struct identity){
        .node = kg_node_text(root, "from"),
        .via = kg_node_text(root, "via"),
        .operator_id = kg_node_text(root, "operator"),
        .principal = kg_node_text(root, "principal"),
        .profile = kg_node_text(root, "profile"),
        .credential_id = kg_node_text(root, "credential"),
        .scopes = strtoull(scopes, NULL, NUMBERS_BASE),
    };
    *ret_text = kg_steal(&doc);
    return 0;
}
