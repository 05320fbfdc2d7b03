/*
 * Figures: how long calls take, how late the loop is, how much memory is used. What is counted in
 * the way of a call costs a few additions and no allocation. What must be read from /proc is read
 * by a worker, since a plugin decides how many processes there are to look at.
 */
#include "host/internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LAG_INTERVAL_MS 1000

/* -- histograms -------------------------------------------------------------------------------- */

const uint64_t host_bucket_us[HOST_BUCKETS] = {
    100,    250,    500,    1000,    2500,    5000,    10000,    25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000,
};

void host_histogram_add(struct host_histogram *histogram, uint64_t duration_ns)
{
    uint64_t us = (duration_ns + 999) / 1000; /* up: a bucket holds what took at most so long */
    size_t i = 0;
    while (i < HOST_BUCKETS && us > host_bucket_us[i])
        i++;
    histogram->counts[i]++;
    histogram->sum_ns += duration_ns;
}

uint64_t host_histogram_count(const struct host_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= HOST_BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

/* Within a bucket all durations are taken for evenly spread, as Prometheus does. */
uint64_t host_histogram_quantile_us(const struct host_histogram *histogram, unsigned per_cent)
{
    uint64_t rank = host_histogram_count(histogram) * per_cent, below = 0, lower_us = 0;
    for (size_t i = 0; i < HOST_BUCKETS; i++) {
        uint64_t here = histogram->counts[i] * 100;
        if (here > 0 && below + here >= rank) {
            double part = (double)(rank - below) / (double)here;
            return lower_us + (uint64_t)(part * (double)(host_bucket_us[i] - lower_us));
        }
        below += here;
        lower_us = host_bucket_us[i];
    }
    return rank > 0 ? lower_us : 0; /* past the last bound nothing is known */
}

/* -- the loop ---------------------------------------------------------------------------------- */

/*
 * How late a timer is says how long whatever came before it kept the loop. It runs only when there
 * is something to be late for: the first event after a look starts it, and a daemon at rest sleeps.
 */
static void on_lag_due(struct loop_timer *timer)
{
    struct host *host = KG_CONTAINER(timer, struct host, lag_timer);
    uint64_t now_ns = kg_monotonic_ns();
    uint64_t late_ns = now_ns > host->lag_due_ns ? now_ns - host->lag_due_ns : 0;
    host_histogram_add(&host->figures.lag, late_ns);
    host->figures.lag_last_us = late_ns / 1000;
    if (host->figures.lag_last_us > host->figures.lag_max_us)
        host->figures.lag_max_us = host->figures.lag_last_us;
    host->lag_due_ns = 0;
}

static void start_lag(struct host *host)
{
    host->lag_due_ns = kg_monotonic_ns() + (uint64_t)LAG_INTERVAL_MS * 1000000;
    loop_timer_start(host->loop, &host->lag_timer, LAG_INTERVAL_MS, on_lag_due);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static bool is_refusal(enum audit_event event)
{
    return event == AUDIT_PLUGIN_NET_DENIED || event == AUDIT_PLUGIN_ACCESS_DENIED ||
           event == AUDIT_PLUGIN_STORAGE_DENIED || event == AUDIT_PLUGIN_NOTIFICATION_REFUSED;
}

/* Minutes in which nothing was refused are empty. The one for this minute. */
static uint32_t *refusals_now(struct host *host)
{
    struct host_figures *figures = &host->figures;
    uint64_t minute = kg_monotonic_ns() / ((uint64_t)60 * 1000000000);
    uint64_t passed = minute - figures->refusal_minute;
    for (uint64_t i = 0; i < passed && i < HOST_REFUSAL_MINUTES; i++)
        figures->refusals[(minute - i) % HOST_REFUSAL_MINUTES] = 0;
    figures->refusal_minute = minute;
    return &figures->refusals[minute % HOST_REFUSAL_MINUTES];
}

uint64_t host_refusals(struct host *host)
{
    uint64_t count = 0;
    refusals_now(host);
    for (size_t i = 0; i < HOST_REFUSAL_MINUTES; i++)
        count += host->figures.refusals[i];
    return count;
}

static void on_metered(struct audit_listener *listener, struct kg_str line, enum audit_event event)
{
    (void)line;
    struct host *host = KG_CONTAINER(listener, struct host, meter_listener);
    if (host->lag_due_ns == 0)
        start_lag(host);
    if (is_refusal(event))
        ++*refusals_now(host);
}

void meter_start(struct host *host)
{
    host->meter_listener.on_event = on_metered;
    audit_listen(host->audit, &host->meter_listener);
}

void meter_stop(struct host *host)
{
    loop_timer_stop(host->loop, &host->lag_timer);
    if (host->audit != NULL)
        audit_unlisten(host->audit, &host->meter_listener);
}

const struct host_figures *host_figures(const struct host *host)
{
    return &host->figures;
}

/* -- memory ------------------------------------------------------------------------------------ */

struct measured_cage {
    struct host_process *process; /* one reference */
    pid_t pid;
    uint64_t bytes;
};

struct measuring {
    struct loop_job job;
    struct host *host;
    struct measured_cage *cages; /* owned */
    size_t count;
    uint64_t own_bytes;
    uint32_t open_fds;
    host_measured_fn *on_done;
    void *data;
};

static uint32_t count_open_fds(void)
{
    uint32_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the folder itself */
}

static void run_measuring(struct loop_job *job)
{
    struct measuring *measuring = KG_CONTAINER(job, struct measuring, job);
    for (size_t i = 0; i < measuring->count; i++)
        measuring->cages[i].bytes = cage_memory_of(measuring->cages[i].pid);
    measuring->own_bytes = cage_process_memory(getpid());
    measuring->open_fds = count_open_fds();
}

static void meter_on_measured(struct loop_job *job)
{
    struct measuring *measuring = KG_CONTAINER(job, struct measuring, job);
    struct host *host = measuring->host;
    for (size_t i = 0; i < measuring->count; i++) {
        struct measured_cage *cage = &measuring->cages[i];
        cage->process->usage.memory_bytes = cage->bytes;
        host_process_drop(cage->process);
    }
    host->figures.memory_bytes = measuring->own_bytes;
    host->figures.open_fds = measuring->open_fds;
    measuring->on_done(measuring->data);
    free(measuring->cages);
    free(measuring);
}

static void add_cage(struct measuring *measuring, struct host_process *process)
{
    pid_t pid = instance_cage_process(process->instance);
    if (pid == 0) {
        process->usage.memory_bytes = 0;
        return;
    }
    measuring->cages =
        kg_realloc(measuring->cages, (measuring->count + 1) * sizeof(*measuring->cages));
    measuring->cages[measuring->count++] =
        (struct measured_cage){.process = host_process_keep(process), .pid = pid};
}

void host_measure(struct host *host, host_measured_fn *on_done, void *data)
{
    const struct host_named none = {0};
    host_measure_plugins(host, &none, on_done, data);
}

void host_measure_plugins(struct host *host, const struct host_named *only_or_null,
                          host_measured_fn *on_done, void *data)
{
    struct measuring *measuring = kg_alloc(sizeof(*measuring));
    measuring->host = host;
    measuring->on_done = on_done;
    measuring->data = data;
    measuring->job.run = run_measuring;
    measuring->job.done = meter_on_measured;
    struct host_process *at = only_or_null ? only_or_null->process : host_process_after(host, NULL);
    for (; at != NULL; at = only_or_null ? NULL : host_process_after(host, at))
        add_cage(measuring, at);
    loop_worker_submit(host->reader, &measuring->job);
}
