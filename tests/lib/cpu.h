/* What bounds work is measured in time of the processor: others on a busy machine take none of it.
 */
#ifndef KAGED_TEST_CPU_H
#define KAGED_TEST_CPU_H

#include <stdint.h>
#include <time.h>

static inline uint64_t cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

#endif
