/* Commands in, figures out; see contender.h. An answer is written whole or the program ends. */
#include "contender.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES_MAX (1u << 20)

static double samples[SAMPLES_MAX];
static size_t sample_count;
static bool has_figure;

void contender_die(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

uint64_t contender_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double contender_quantile(double *values, size_t count, double share)
{
    if (count == 0)
        contender_die("quantile", "nothing was measured");
    qsort(values, count, sizeof(*values), compare_doubles);
    return values[(size_t)((double)(count - 1) * share)];
}

void contender_figure(const char *name, double value)
{
    printf("%s\"%s\":%.6g", has_figure ? "," : "{", name, value);
    has_figure = true;
}

void contender_sample(double us)
{
    if (sample_count < SAMPLES_MAX)
        samples[sample_count++] = us;
}

static void report_latencies(void)
{
    contender_figure("p50_us", contender_quantile(samples, sample_count, 0.5));
    contender_figure("p99_us", contender_quantile(samples, sample_count, 0.99));
}

static void run_command(const struct contender_command *commands, const char *name,
                        const long *numbers, void *data)
{
    while (commands->name != NULL && strcmp(commands->name, name) != 0)
        commands++;
    if (commands->name == NULL)
        contender_die(name, "no such command");
    sample_count = 0;
    commands->run(data, numbers);
}

static void run_line(const struct contender_command *commands, char *line, void *data)
{
    long numbers[CONTENDER_NUMBERS] = {0};
    const char *name = strtok(line, " \n"), *word;
    for (size_t i = 0; i < CONTENDER_NUMBERS && (word = strtok(NULL, " \n")) != NULL; i++)
        numbers[i] = strtol(word, NULL, 10);
    has_figure = false;
    if (name != NULL && strcmp(name, "latencies") == 0)
        report_latencies();
    else
        run_command(commands, name ? name : "", numbers, data);
    puts(has_figure ? "}" : "{}");
    fflush(stdout);
}

void contender_serve(const struct contender_command *commands, void (*wait)(void *data), void *data)
{
    char line[256];
    for (;;) {
        if (wait != NULL)
            wait(data);
        if (fgets(line, sizeof(line), stdin) == NULL)
            return;
        run_line(commands, line, data);
    }
}
