/*
 * A program that the bench asks: each line on stdin is a command with numbers, each answer one line
 * of JSON with its figures. What it measures waits between two commands, so that contenders can
 * take turns. It uses nothing of kaged: peers are contenders too.
 */
#ifndef KAGED_BENCH_CONTENDER_H
#define KAGED_BENCH_CONTENDER_H

#include <stddef.h>
#include <stdint.h>

#define CONTENDER_NUMBERS 4

struct contender_command {
    const char *name;                                               /* NULL: the end of the table */
    void (*run)(void *data, const long numbers[CONTENDER_NUMBERS]); /* 0: not given */
};
/*
 * Until stdin ends. wait (or NULL) comes before each line, and returns when stdin has something to
 * read.
 */
void contender_serve(const struct contender_command *commands, void (*wait)(void *data),
                     void *data);

/* One more figure of the answer. */
void contender_figure(const char *name, double value);

/* A latency; the command `latencies`, which every contender has, tells p50_us and p99_us of all
 * that the command before it took. */
void contender_sample(double us);

uint64_t contender_now_ns(void);
double contender_quantile(double *values, size_t count, double share);
/* Something was not as it must be: nothing that was measured counts. */
__attribute__((noreturn)) void contender_die(const char *what, const char *why);

#endif
