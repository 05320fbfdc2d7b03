#include "talk.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000 /* nobody waits that long: it only ends a test that hangs */

void talk_rig_on_ready(void *data)
{
    kg_buf_text(&((struct talk_rig *)data)->told, "ready|");
}

void talk_rig_on_failed(void *data, bool mend, const char *words)
{
    kg_buf_printf(&((struct talk_rig *)data)->told, "%s %s|", mend ? "rejected" : "failed", words);
}

void talk_rig_on_done(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    kg_buf_printf(&((struct talk_rig *)data)->told, "done %d %.*s|", (int)outcome,
                  KG_STR_ARG(payload));
}

void talk_rig_open(struct talk_rig *rig, const struct dialect *dialect,
                   const struct dialect_ops *ops, const struct peer_ops *peer_ops)
{
    static const struct peer_limits limits = {65536, 1048576, 64, 100, 0};
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC | O_NONBLOCK), 0);
    rig->loop = loop_new();
    rig->in = to[0];
    rig->out = from[1];
    rig->talk = (struct dialect_talk){
        .dialect = dialect,
        .ops = ops,
        .data = rig,
        .loop = rig->loop,
        .name = "child",
        .plugin = "child",
        .timeout_ms = WAIT_MS,
        .peer = peer_new(rig->loop, to[1], from[0], &limits, peer_ops, rig),
    };
}

void talk_rig_close(struct talk_rig *rig)
{
    struct peer *peer = rig->talk.peer;
    peer_close(peer);
    dialect_end(&rig->talk);
    assert_null(rig->talk.peer);
    peer_free(peer);
    loop_free(rig->loop);
    kg_close(&rig->in);
    kg_close(&rig->out);
    kg_buf_free(&rig->heard);
    kg_buf_free(&rig->told);
    kg_buf_free(&rig->talk.tools);
    kg_list_free(rig->talk.subscriptions);
    free(rig->talk.log_level);
}

void talk_rig_say(struct talk_rig *rig, const char *line)
{
    kg_auto(kg_free) char *whole = kg_format("%s\n", line);
    assert_int_equal(write(rig->out, whole, strlen(whole)), strlen(whole));
}

void talk_rig_turn(struct talk_rig *rig)
{
    char bytes[4096];
    ssize_t got;
    uv_run(loop_uv(rig->loop), UV_RUN_NOWAIT);
    while ((got = read(rig->in, bytes, sizeof(bytes))) > 0)
        kg_buf_append(&rig->heard, bytes, (size_t)got);
    char *end;
    while ((end = rig->heard.length ? memchr(rig->heard.data, '\n', rig->heard.length) : NULL)) {
        struct kg_str line = {rig->heard.data, (size_t)(end - rig->heard.data)};
        rig->on_line(rig, line);
        kg_buf_consume(&rig->heard, line.length + 1);
    }
}

void talk_rig_wait(struct talk_rig *rig, struct kg_buf *where, const char *words)
{
    uint64_t limit_ms = kg_monotonic_ms() + WAIT_MS;
    while (where->length == 0 || strstr(kg_buf_terminate(where), words) == NULL) {
        if (kg_monotonic_ms() > limit_ms)
            fail_msg("no %s in %s", words, kg_buf_terminate(where));
        talk_rig_turn(rig);
        poll(NULL, 0, 1);
    }
}
