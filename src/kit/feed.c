/*
 * Our stdin on its way to a program, from a thread of its own, since a file cannot be polled by the
 * loop. What was passed on is kept if it is to be said again to the next program; past a bound the
 * rest is not read, and that is told.
 */
#include "kit/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES 65536
#define KEPT_MAX   ((size_t)16 << 20)

struct kit_feed {
    pthread_t thread;
    int orders[2]; /* fds of programs, in; closed at the end */
    bool keeps;
    /* The thread's. */
    struct kg_buf text;
    size_t at; /* so much of it was passed on */
    int to;    /* -1: nobody reads */
    bool is_over;
};

static void feed_stop(struct kit_feed *feed)
{
    kg_close(&feed->to);
}

/* The next one is told all of it. False: there is nobody left. */
static bool feed_take_order(struct kit_feed *feed)
{
    int fd;
    if (read(feed->orders[0], &fd, sizeof(fd)) != (ssize_t)sizeof(fd))
        return false;
    feed_stop(feed);
    feed->to = fd;
    feed->at = 0;
    return true;
}

static void feed_read(struct kit_feed *feed)
{
    char bytes[READ_BYTES];
    if (!feed->keeps)
        feed->text.length = feed->at = 0;
    ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0)
        kg_buf_str(&feed->text, (struct kg_str){bytes, (size_t)got});
    feed->is_over = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    if (feed->text.length <= KEPT_MAX)
        return;
    kg_log(KG_WARN,
           "stdin is no longer passed on: what is kept of it for another start has reached %zu MiB",
           KEPT_MAX >> 20);
    feed->is_over = true;
}

static void feed_write(struct kit_feed *feed)
{
    ssize_t put = write(feed->to, feed->text.data + feed->at, feed->text.length - feed->at);
    if (put > 0)
        feed->at += (size_t)put;
    else if (put < 0 && errno != EAGAIN && errno != EINTR)
        feed_stop(feed);
}

static void *feed_run(void *data)
{
    struct kit_feed *feed = data;
    for (;;) {
        bool has_more = feed->at < feed->text.length;
        if (!has_more && feed->is_over)
            feed_stop(feed);
        bool reads = feed->to >= 0 && !has_more;
        struct pollfd polls[] = {
            {.fd = feed->orders[0], .events = POLLIN},
            {.fd = reads ? STDIN_FILENO : -1, .events = POLLIN},
            {.fd = has_more ? feed->to : -1, .events = POLLOUT},
        };
        if (poll(polls, KG_COUNT(polls), -1) < 0)
            continue;
        if (polls[0].revents != 0 && !feed_take_order(feed))
            return NULL;
        if (polls[0].revents != 0)
            continue; /* what else was ready was another's */
        if (polls[1].revents != 0)
            feed_read(feed);
        if (polls[2].revents != 0)
            feed_write(feed);
    }
}

struct kit_feed *kit_feed_new(bool has_input, bool keeps)
{
    struct kit_feed *feed = kg_alloc(sizeof(*feed));
    feed->to = -1;
    feed->keeps = keeps;
    feed->is_over = !has_input;
    if (pipe2(feed->orders, O_CLOEXEC) < 0) {
        free(feed);
        return NULL;
    }
    sigset_t before;
    kit_signals_keep(&before);
    int failed = pthread_create(&feed->thread, NULL, feed_run, feed);
    kit_signals_as(&before);
    if (failed == 0)
        return feed;
    kg_close(&feed->orders[0]);
    kg_close(&feed->orders[1]);
    free(feed);
    return NULL;
}

void kit_feed_to(struct kit_feed *feed, int fd)
{
    if (feed == NULL || kg_write_all(feed->orders[1], (const char *)&fd, sizeof(fd)) < 0)
        close(fd);
}

void kit_feed_free(struct kit_feed *feed)
{
    if (feed == NULL)
        return;
    kg_close(&feed->orders[1]);
    pthread_join(feed->thread, NULL);
    kg_close(&feed->orders[0]);
    feed_stop(feed);
    kg_buf_free(&feed->text);
    free(feed);
}
