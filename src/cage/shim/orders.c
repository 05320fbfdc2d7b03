/*
 * Orders are followed whole or not at all: a spawner that was killed may have left some of them.
 * They begin with their length.
 */
#include "orders.h"
#include "bare.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ORDERS_MAX 1048576

static long orders_map(unsigned long fd, size_t length, struct orders *ret_orders)
{
    long mapped = BARE_CALL(SYS_mmap, NULL, length, PROT_READ, MAP_PRIVATE, fd);
    if (mapped <= 0 && mapped > -4096)
        return mapped ? mapped : -EINVAL; /* nothing is mapped at 0 */
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a system call answers with a number */
    const char *text = (const char *)mapped;
    *ret_orders = (struct orders){.at = text, .end = text + length};
    return 0;
}

long orders_open(unsigned long fd, struct orders *ret_orders)
{
    struct stat status;
    long result = BARE_CALL(SYS_fstat, fd, &status, 0, 0, 0);
    if (result < 0)
        return result;
    if (status.st_size <= 0 || status.st_size > ORDERS_MAX)
        return -EINVAL;
    result = orders_map(fd, (size_t)status.st_size, ret_orders);
    if (result < 0)
        return result;
    if (ret_orders->end[-1] != '\0')
        return -EINVAL;
    size_t follow = bare_number(orders_next(ret_orders));
    return follow == (size_t)(ret_orders->end - ret_orders->at) ? 0 : -EINVAL;
}

const char *orders_next(struct orders *orders)
{
    const char *word = orders->at;
    if (word == orders->end)
        return "";
    orders->at += bare_length(word) + 1;
    return word;
}

const char **orders_rest(struct orders *orders)
{
    size_t count = 0;
    for (const char *at = orders->at; at < orders->end; at += bare_length(at) + 1)
        count++;
    long room = BARE_CALL(SYS_mmap, NULL, (count + 1) * sizeof(char *), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (count == 0 || (room <= 0 && room > -4096))
        return NULL;
    const char **words = (const char **)room; /* NOLINT(performance-no-int-to-ptr) */
    for (size_t i = 0; i < count; i++)
        words[i] = orders_next(orders);
    return words;
}
