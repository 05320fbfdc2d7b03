/*
 * The consent queue: nothing is fetched or taken without the operator's word, the word is for what
 * was shown, and what a project waits for outlives the daemon. The store behind it is played here.
 */
#include "store/consent.h"
#include "folder.h"
#include "state/sessions.h"
#include "state_place.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HASH_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct fixture {
    char dir[64];
    char *db;
    struct loop *loop;
    struct state_keeper *keeper;
    struct consent_queue *queue;
    struct consent_limits limits;
    struct kg_err err;

    /* What the queue asked of the store. */
    unsigned prepared, cancelled, dropped, taken;
    char *source, *base, *plugin; /* of the last wish; owned */
    struct consent *consent;      /* of the last call */
    struct store_consent yes;     /* its hash is hash */
    char hash[STORE_HASH_TEXT];
    int prepare_fails;
};

static void keep(char **text, const char *value)
{
    free(*text);
    *text = value ? kg_strdup(value) : NULL;
}

static int prepare(void *data, struct consent *consent, const struct consent_wish *wish,
                   struct kg_err *err)
{
    struct fixture *fixture = data;
    if (fixture->prepare_fails)
        return kg_fail(err, KG_E_USAGE, "no such source");
    fixture->prepared++;
    fixture->consent = consent;
    keep(&fixture->source, wish->source);
    keep(&fixture->base, wish->base);
    keep(&fixture->plugin, wish->plugin);
    return 0;
}

static void cancel(void *data, struct consent *consent)
{
    (void)consent;
    ((struct fixture *)data)->cancelled++;
}

static void drop(void *data, struct store_offer *offer)
{
    ((struct fixture *)data)->dropped++;
    store_offer_free(offer);
}

static void take(void *data, struct consent *consent, struct store_offer *offer,
                 const struct store_consent *yes, const char *operator_id)
{
    struct fixture *fixture = data;
    assert_string_equal(operator_id, "ann");
    fixture->taken++;
    fixture->consent = consent;
    fixture->yes = *yes;
    snprintf(fixture->hash, sizeof(fixture->hash), "%s", yes->hash);
    store_offer_free(offer);
}

static void open_queue(struct fixture *fixture)
{
    static const struct consent_ops ops = {prepare, cancel, drop, take};
    const struct consent_parts parts = {.loop = fixture->loop,
                                        .keeper = fixture->keeper,
                                        .ops = &ops,
                                        .data = fixture,
                                        .limits = fixture->limits};
    fixture->queue = consent_queue_new(&parts, &fixture->err);
    assert_non_null(fixture->queue);
}

static int set_up(void **data)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/kaged-consent-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->db = kg_format("%s/kaged.db", fixture->dir);
    fixture->limits = (struct consent_limits){.open_max = 4, .offer_ms = 3600000};
    state_place_begin(fixture->db);
    fixture->loop = loop_new();
    fixture->keeper = state_keeper_new(fixture->loop, fixture->db, &fixture->err);
    assert_non_null(fixture->keeper);
    open_queue(fixture);
    *data = fixture;
    return 0;
}

static int tear_down(void **data)
{
    struct fixture *fixture = *data;
    consent_queue_free(fixture->queue);
    state_keeper_free(fixture->keeper);
    loop_free(fixture->loop);
    state_place_end();
    folder_remove(fixture->dir);
    free(fixture->db);
    free(fixture->source);
    free(fixture->base);
    free(fixture->plugin);
    free(fixture);
    return 0;
}

static void restart(struct fixture *fixture)
{
    consent_queue_free(fixture->queue);
    open_queue(fixture);
}

/* An offer as the store makes them, with or without a capability that is new. */
static struct store_offer *offer(const char *hash, bool widens)
{
    static const char text[] = "name: echo\nversion: 2.0.0\nkaged_api: 1\n"
                               "description: Says it.\ncommand: [\"./echo\"]\n"
                               "methods: [\"echo.say\"]\ncapabilities: []\n";
    struct kg_problems problems = {0};
    struct store_offer *made = kg_alloc(sizeof(*made));
    made->id = kg_id_new("off_");
    made->origin = "folder";
    made->kind = widens ? STORE_UPGRADE : STORE_INSTALL;
    made->manifest = manifest_read(kg_str(text), &problems);
    assert_non_null(made->manifest);
    kg_problems_free(&problems);
    snprintf(made->hash, sizeof(made->hash), "%s", hash);
    made->warnings = kg_list_new(0);
    made->diff = (struct store_tree_diff){
        .added = kg_list_new(0), .removed = kg_list_new(0), .changed = kg_list_new(0)};
    if (widens) {
        made->capabilities = kg_alloc(sizeof(*made->capabilities));
        made->capabilities[0] = (struct store_capability){
            .text = kg_strdup("net:*"), .words = kg_strdup("may reach"), .difference = STORE_NEW};
        made->capability_count = made->capabilities_new = 1;
    }
    return made;
}

static struct consent *ask_own(struct fixture *fixture)
{
    const struct consent_request request = {
        .wish = {.kind = CONSENT_INSTALL, .source = "/srv/echo"}, .operator_id = "ann"};
    struct consent *consent = consent_raise(fixture->queue, &request, &fixture->err);
    assert_non_null(consent);
    return consent;
}

static struct consent *ask_project(struct fixture *fixture, const char *source, bool again)
{
    const struct consent_request request = {.wish = {.kind = CONSENT_INSTALL,
                                                     .plugin = "@scope/echo",
                                                     .source = source,
                                                     .base = source ? "/srv/web" : NULL,
                                                     .version = "2.0.0"},
                                            .project = "web",
                                            .again = again};
    struct consent *consent = consent_raise(fixture->queue, &request, &fixture->err);
    assert_non_null(consent);
    return consent;
}

static int say_yes(struct fixture *fixture, struct consent *consent, const char *hash)
{
    return consent_approve(consent, &(struct consent_answer){.operator_id = "ann", .hash = hash},
                           &fixture->err);
}

/* As far as an offer that waits for a yes. */
static struct consent *offered_to_project(struct fixture *fixture)
{
    struct consent *consent = ask_project(fixture, "./echo", false);
    assert_int_equal(say_yes(fixture, consent, NULL), 0);
    consent_offered(consent, offer(HASH_A, false));
    return consent;
}

#define assert_state(consent, wanted)                                                              \
    assert_string_equal(consent_state_name(consent_state(consent)), wanted)

static void assert_json_has(const struct consent *consent, const char *part)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    consent_json(consent, true, &json);
    if (strstr(kg_buf_terminate(&text), part) == NULL)
        fail_msg("%s is not in %s", part, text.data);
}

/* -- tests ------------------------------------------------------------------------------------- */

static void what_the_operator_asks_for_is_fetched_at_once(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_own(fixture);
    assert_state(consent, "fetching");
    assert_string_equal(fixture->source, "/srv/echo");
    consent_offered(consent, offer(HASH_A, false));
    assert_state(consent, "offered");
    assert_json_has(consent, "\"plugin\":\"echo\"");
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    assert_state(consent, "installing");
    assert_true(fixture->yes.local);
    consent_taken(consent, &(struct consent_outcome){.name = "echo", .version = "2.0.0"});
    assert_state(consent, "done");
}

static void what_a_project_wants_is_fetched_only_after_a_yes(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_project(fixture, "./echo", false);
    assert_state(consent, "wanted");
    assert_int_equal(fixture->prepared, 0);
    assert_int_equal(say_yes(fixture, consent, NULL), 0);
    assert_state(consent, "fetching");
    assert_string_equal(fixture->source, "./echo");
    assert_string_equal(fixture->base, "/srv/web");
    assert_string_equal(fixture->plugin, "@scope/echo");
}

static void a_yes_is_for_the_hash_that_was_shown(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_own(fixture);
    assert_int_equal(say_yes(fixture, consent, HASH_A), -EINVAL);
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
    consent_offered(consent, offer(HASH_A, false));
    assert_true(say_yes(fixture, consent, HASH_B) < 0);
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
    assert_true(say_yes(fixture, consent, NULL) < 0);
    assert_int_equal(fixture->err.code, KG_E_USAGE);
    assert_int_equal(fixture->taken, 0);
    assert_state(consent, "offered");
}

static void new_capabilities_need_a_word_of_their_own(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_own(fixture);
    consent_offered(consent, offer(HASH_A, true));
    assert_true(say_yes(fixture, consent, HASH_A) < 0);
    assert_int_equal(fixture->err.code, KG_E_REFUSED);
    assert_non_null(strstr(fixture->err.message, "net:*"));
    assert_int_equal(fixture->taken, 0);
    const struct consent_answer answer = {
        .operator_id = "ann", .hash = HASH_A, .allow_new_capabilities = true};
    assert_int_equal(consent_approve(consent, &answer, &fixture->err), 0);
    assert_int_equal(fixture->taken, 1);
    assert_true(fixture->yes.allow_new_capabilities);
}

static void a_wish_without_a_source_needs_a_path(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_project(fixture, NULL, false);
    assert_true(say_yes(fixture, consent, NULL) < 0);
    assert_non_null(strstr(fixture->err.message, "source not specified"));
    assert_non_null(strstr(fixture->err.hint, consent_id(consent)));
    const struct consent_answer answer = {.operator_id = "ann", .path = "/srv/my-echo"};
    assert_int_equal(consent_approve(consent, &answer, &fixture->err), 0);
    assert_string_equal(fixture->source, "/srv/my-echo");
    assert_state(consent, "fetching");
}

static void a_source_that_cannot_be_begun_leaves_the_wish_as_it_was(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_project(fixture, "./echo", false);
    fixture->prepare_fails = 1;
    const struct consent_answer answer = {.operator_id = "ann", .path = "/nowhere"};
    assert_true(consent_approve(consent, &answer, &fixture->err) < 0);
    assert_state(consent, "wanted");
    assert_json_has(consent, "\"source\":\"./echo\"");
    const struct consent_request own = {.wish = {.kind = CONSENT_INSTALL, .source = "/nowhere"},
                                        .operator_id = "ann"};
    assert_null(consent_raise(fixture->queue, &own, &fixture->err));
    assert_int_equal(consent_count(fixture->queue), 1);
}

static void a_yes_activates_the_plugin_for_its_project_only(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = offered_to_project(fixture);
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    assert_false(fixture->yes.local);
    assert_false(consent_is_active(fixture->queue, "web", "echo"));
    consent_taken(consent, &(struct consent_outcome){.name = "echo", .version = "2.0.0"});
    assert_false(consent_is_active(fixture->queue, "web", "echo")); /* it is not on the disk yet */
    assert_state(consent, "installing");
    state_keeper_drain(fixture->keeper);
    assert_state(consent, "done");
    assert_true(consent_is_active(fixture->queue, "web", "echo"));
    assert_false(consent_is_active(fixture->queue, "shop", "echo"));
}

/* Another's lock stands for whatever keeps kaged.db from being written. */
static void what_cannot_be_kept_is_not_activated(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = offered_to_project(fixture);
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    state_keeper_drain(fixture->keeper);
    struct state *other = state_open(fixture->db, &fixture->err);
    assert_int_equal(state_step(other, STATE_BEGIN_WRITE, &fixture->err), 0);
    consent_taken(consent, &(struct consent_outcome){.name = "echo", .version = "2.0.0"});
    state_keeper_drain(fixture->keeper);
    assert_state(consent, "failed");
    assert_false(consent_is_active(fixture->queue, "web", "echo"));
    state_close(other);
}

static void a_queue_may_end_while_something_is_kept(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = offered_to_project(fixture);
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    consent_taken(consent, &(struct consent_outcome){.name = "echo", .version = "2.0.0"});
    restart(fixture);
    assert_true(consent_is_active(fixture->queue, "web", "echo"));
}

static void what_is_installed_is_activated_without_a_change_of_the_store(void **data)
{
    struct fixture *fixture = *data;
    const struct consent_request request = {.wish = {.kind = CONSENT_ACTIVATE, .plugin = "echo"},
                                            .project = "shop"};
    struct consent *consent = consent_raise(fixture->queue, &request, &fixture->err);
    struct store_offer *installed = offer(HASH_A, false);
    snprintf(installed->approved_hash, sizeof(installed->approved_hash), "%s", HASH_A);
    assert_int_equal(say_yes(fixture, consent, NULL), 0);
    consent_offered(consent, installed);
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    state_keeper_drain(fixture->keeper);
    assert_state(consent, "done");
    assert_int_equal(fixture->taken, 0);
    assert_int_equal(fixture->dropped, 1);
    assert_true(consent_is_active(fixture->queue, "shop", "echo"));
}

static void a_no_is_remembered_until_it_is_asked_again(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = offered_to_project(fixture);
    assert_int_equal(consent_decline(consent, "ann", &fixture->err), 0);
    assert_int_equal(fixture->dropped, 1);
    restart(fixture);
    consent = consent_of_project(fixture->queue, "web", "echo");
    assert_non_null(consent);
    assert_state(consent, "declined");
    assert_json_has(consent, "\"answered_by\":\"ann\"");
    assert_ptr_equal(ask_project(fixture, "./echo", false), consent);
    assert_state(consent, "declined");
    assert_ptr_equal(ask_project(fixture, "./echo", true), consent);
    assert_state(consent, "wanted");
}

static void another_wish_is_asked_again_after_a_no(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_project(fixture, "./echo", false);
    assert_int_equal(consent_decline(consent, "ann", &fixture->err), 0);
    assert_ptr_equal(ask_project(fixture, "./another", false), consent);
    assert_state(consent, "wanted");
    assert_json_has(consent, "\"source\":\"./another\"");
    assert_json_has(consent, "\"answered_by\":null");
}

static void what_was_fetched_is_wanted_again_after_a_restart(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_free) char *id = kg_strdup(consent_id(offered_to_project(fixture)));
    ask_own(fixture);
    restart(fixture);
    assert_int_equal(fixture->dropped, 1);
    assert_int_equal(fixture->cancelled, 1);
    assert_int_equal(consent_count(fixture->queue), 1);
    struct consent *consent = consent_find(fixture->queue, kg_str(id), &fixture->err);
    assert_non_null(consent);
    assert_state(consent, "wanted");
    assert_json_has(consent, "\"source\":\"./echo\"");
    assert_json_has(consent, "\"offer\":null");
}

static void declining_ends_what_is_being_fetched(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_own(fixture);
    assert_int_equal(consent_decline(consent, "ann", &fixture->err), 0);
    assert_int_equal(fixture->cancelled, 1);
    assert_state(consent, "declined");
    assert_true(consent_decline(consent, "ann", &fixture->err) < 0);
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
}

static bool has_expired(void *consent)
{
    return consent_state(consent) == CONSENT_EXPIRED;
}

static void an_offer_that_nobody_answers_expires(void **data)
{
    struct fixture *fixture = *data;
    fixture->limits.offer_ms = 20;
    consent_queue_set_limits(fixture->queue, &fixture->limits);
    struct consent *consent = offered_to_project(fixture);
    assert_true(loop_run_until(fixture->loop, has_expired, consent, 20000));
    assert_int_equal(fixture->dropped, 1);
    assert_true(say_yes(fixture, consent, HASH_A) < 0);
    assert_int_equal(fixture->err.code, KG_E_CONFLICT);
    assert_int_equal(say_yes(fixture, consent, NULL), 0);
    assert_state(consent, "fetching");
}

static void a_failure_says_why_and_can_be_tried_again(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_project(fixture, "./echo", false);
    assert_int_equal(say_yes(fixture, consent, NULL), 0);
    kg_fail(&fixture->err, KG_E_IO, "the source cannot be reached");
    consent_failed(consent, &fixture->err);
    assert_state(consent, "failed");
    assert_json_has(consent, "the source cannot be reached");
    restart(fixture);
    consent = consent_of_project(fixture->queue, "web", "@scope/echo");
    assert_state(consent, "failed");
    assert_json_has(consent, "the source cannot be reached");
    assert_int_equal(say_yes(fixture, consent, NULL), 0);
    assert_state(consent, "fetching");
    assert_json_has(consent, "\"error\":null");
}

static void a_version_that_was_put_back_is_a_failure(void **data)
{
    struct fixture *fixture = *data;
    struct consent *consent = ask_own(fixture);
    consent_offered(consent, offer(HASH_A, false));
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    struct consent_outcome outcome = {.name = "echo", .version = "1.0.0", .reverted = true};
    kg_fail(&outcome.reason, KG_E_PLUGIN_DOWN, "it crashed");
    consent_taken(consent, &outcome);
    assert_state(consent, "failed");
    assert_json_has(consent, "did not start, and 1.0.0 is back: it crashed");
}

static void the_queue_is_bounded_and_forgets_old_answers(void **data)
{
    struct fixture *fixture = *data;
    for (size_t i = 0; i < 2 * fixture->limits.open_max; i++)
        assert_int_equal(consent_decline(ask_own(fixture), "ann", &fixture->err), 0);
    for (size_t i = 0; i < fixture->limits.open_max; i++)
        ask_own(fixture);
    assert_true(consent_count(fixture->queue) <= 2 * fixture->limits.open_max);
    const struct consent_request request = {
        .wish = {.kind = CONSENT_INSTALL, .source = "/srv/echo"}, .operator_id = "ann"};
    assert_null(consent_raise(fixture->queue, &request, &fixture->err));
    assert_int_equal(fixture->err.code, KG_E_BUSY);
}

static void a_project_that_is_gone_wants_nothing(void **data)
{
    struct fixture *fixture = *data;
    offered_to_project(fixture);
    consent_forget_project(fixture->queue, "web");
    assert_int_equal(fixture->dropped, 1);
    assert_null(consent_of_project(fixture->queue, "web", "echo"));
    restart(fixture);
    assert_int_equal(consent_count(fixture->queue), 0);
}

struct ear {
    struct consent_listener listener;
    char heard[256];
};

static void on_change(struct consent_listener *listener, struct consent *consent)
{
    struct ear *ear = KG_CONTAINER(listener, struct ear, listener);
    strcat(ear->heard, consent_state_name(consent_state(consent)));
    strcat(ear->heard, " ");
}

static void listeners_hear_of_each_change(void **data)
{
    struct fixture *fixture = *data;
    struct ear ear = {.listener.on_change = on_change};
    consent_listen(fixture->queue, &ear.listener);
    struct consent *consent = offered_to_project(fixture);
    assert_int_equal(say_yes(fixture, consent, HASH_A), 0);
    consent_taken(consent, &(struct consent_outcome){.name = "echo", .version = "2.0.0"});
    state_keeper_drain(fixture->keeper);
    assert_string_equal(ear.heard, "fetching offered installing done ");
    consent_unlisten(fixture->queue, &ear.listener);
    ask_own(fixture);
    assert_string_equal(ear.heard, "fetching offered installing done ");
}

static void only_a_yes_to_an_offer_leads_into_the_store(void **data)
{
    (void)data;
    for (enum consent_state state = 0; state < CONSENT_STATE_COUNT; state++)
        for (size_t i = 0; consent_transition(state, i).event != NULL; i++) {
            enum consent_state next = consent_transition(state, i).next;
            if (next == CONSENT_INSTALLING)
                assert_int_equal(state, CONSENT_OFFERED);
            if (next == CONSENT_DONE)
                assert_int_equal(state, CONSENT_INSTALLING);
        }
}

static void wishes_that_cannot_be_meant_are_refused(void **data)
{
    struct fixture *fixture = *data;
    kg_auto(kg_free) char *vast = kg_alloc(8192);
    memset(vast, 'x', 8191);
    const struct consent_request wrong[] = {
        {.wish = {.kind = CONSENT_INSTALL}},
        {.wish = {.kind = CONSENT_INSTALL, .source = "/x"}, .project = "web"},
        {.wish = {.kind = CONSENT_INSTALL, .plugin = "../x"}, .project = "web"},
        {.wish = {.kind = CONSENT_INSTALL, .plugin = "@scope/"}, .project = "web"},
        {.wish = {.kind = CONSENT_INSTALL, .source = vast}},
    };
    for (size_t i = 0; i < KG_COUNT(wrong); i++)
        assert_null(consent_raise(fixture->queue, &wrong[i], &fixture->err));
    assert_int_equal(consent_count(fixture->queue), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* On both kinds of state; the other one is about the lock of a file. */
#define SHARED_TESTS                                                                               \
    TEST(what_the_operator_asks_for_is_fetched_at_once),                                           \
        TEST(what_a_project_wants_is_fetched_only_after_a_yes),                                    \
        TEST(a_yes_is_for_the_hash_that_was_shown),                                                \
        TEST(new_capabilities_need_a_word_of_their_own),                                           \
        TEST(a_wish_without_a_source_needs_a_path),                                                \
        TEST(a_source_that_cannot_be_begun_leaves_the_wish_as_it_was),                             \
        TEST(a_yes_activates_the_plugin_for_its_project_only),                                     \
        TEST(a_queue_may_end_while_something_is_kept),                                             \
        TEST(what_is_installed_is_activated_without_a_change_of_the_store),                        \
        TEST(a_no_is_remembered_until_it_is_asked_again),                                          \
        TEST(another_wish_is_asked_again_after_a_no),                                              \
        TEST(what_was_fetched_is_wanted_again_after_a_restart),                                    \
        TEST(declining_ends_what_is_being_fetched), TEST(an_offer_that_nobody_answers_expires),    \
        TEST(a_failure_says_why_and_can_be_tried_again),                                           \
        TEST(a_version_that_was_put_back_is_a_failure),                                            \
        TEST(the_queue_is_bounded_and_forgets_old_answers),                                        \
        TEST(a_project_that_is_gone_wants_nothing), TEST(listeners_hear_of_each_change),           \
        TEST(only_a_yes_to_an_offer_leads_into_the_store),                                         \
        TEST(wishes_that_cannot_be_meant_are_refused)

int main(void)
{
    const struct CMUnitTest shared[] = {SHARED_TESTS};
    const struct CMUnitTest tests[] = {SHARED_TESTS, TEST(what_cannot_be_kept_is_not_activated)};
    return state_place_is_postgres() ? STATE_PLACE_RUN("consent", shared)
                                     : STATE_PLACE_RUN("consent", tests);
}
