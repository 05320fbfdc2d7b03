/*
 * Landlock on top of the mounts: only what the rules name may be executed, and only below what they
 * name may anything be changed, whatever the mounts would let through. Reading is left to the
 * mounts. What an older kernel does not know of is not asked for; the rules themselves are applied
 * whole or not at all.
 */
#include "landlock.h"
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The kernel's interface, which is newer than the headers that kaged may be built with. */
#define ASK_VERSION  (1u << 0)
#define RULE_BENEATH 1
#define RUN          (1ull << 0)
#define WRITE_FILE   (1ull << 1)
#define REMOVE_DIR   (1ull << 4)
#define REMOVE_FILE  (1ull << 5)
#define MAKE_CHAR    (1ull << 6)
#define MAKE_DIR     (1ull << 7)
#define MAKE_REG     (1ull << 8)
#define MAKE_SOCK    (1ull << 9)
#define MAKE_FIFO    (1ull << 10)
#define MAKE_BLOCK   (1ull << 11)
#define MAKE_SYM     (1ull << 12)
#define REFER        (1ull << 13)
#define TRUNCATE     (1ull << 14)

#define SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0)
#define SCOPE_SIGNAL               (1ull << 1)
#define LOG_NEW_EXEC               (1u << 1)

#define VERSION_REFER    2
#define VERSION_TRUNCATE 3
#define VERSION_SCOPES   6
#define VERSION_LOG      7

/* Devices are made by nobody; the rest of what changes a folder goes where it may be changed. */
#define CHANGE_FILE (WRITE_FILE | TRUNCATE)
#define CHANGE                                                                                     \
    (CHANGE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO |        \
     MAKE_SYM | REFER)

struct ruleset {
    uint64_t handled_files;
    uint64_t handled_network;
    uint64_t scoped;
};

struct beneath {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

static long make_ruleset(const struct ruleset *ruleset, size_t size, unsigned flags)
{
    return BARE_CALL(SYS_landlock_create_ruleset, ruleset, size, flags, 0, 0);
}

/*
 * A kernel takes a larger structure than its own, if what it does not know is zero. Before REFER
 * was known, files could not be moved from folder to folder at all; programs then copy them.
 */
static struct ruleset ruleset_for(long version)
{
    struct ruleset ruleset = {.handled_files = RUN | CHANGE | MAKE_CHAR | MAKE_BLOCK};
    if (version < VERSION_REFER)
        ruleset.handled_files &= ~REFER;
    if (version < VERSION_TRUNCATE)
        ruleset.handled_files &= ~TRUNCATE;
    if (version >= VERSION_SCOPES)
        ruleset.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
    return ruleset;
}

static long landlock_allow(long rules, uint64_t handled, char letter, long fd)
{
    struct stat status;
    long result = BARE_CALL(SYS_fstat, fd, &status, 0, 0, 0);
    if (result < 0)
        return result;
    uint64_t allowed = letter == 'x' ? RUN : S_ISDIR(status.st_mode) ? CHANGE : CHANGE_FILE;
    struct beneath beneath = {.allowed = allowed & handled, .folder = (int32_t)fd};
    return BARE_CALL(SYS_landlock_add_rule, rules, RULE_BENEATH, &beneath, 0, 0);
}

/* What is not there cannot be allowed, and need not be. */
static long cage_shim_landlock_add_rule(long rules, uint64_t handled, char letter, const char *path)
{
    long fd = BARE_CALL(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
    long result = landlock_allow(rules, handled, letter, fd);
    BARE_CALL(SYS_close, fd, 0, 0, 0, 0);
    return result;
}

static long landlock_add_rules(long rules, uint64_t handled, const char *rule,
                               struct orders *orders)
{
    for (; *rule != '\0'; rule = orders_next(orders)) {
        if (*rule != 'x' && *rule != 'w')
            return -EINVAL;
        long result = cage_shim_landlock_add_rule(rules, handled, *rule, rule + 1);
        if (result < 0)
            return result;
    }
    return 0;
}

long landlock_apply(struct orders *orders)
{
    const char *first = orders_next(orders);
    if (*first == '\0')
        return 0;
    long version = make_ruleset(NULL, 0, ASK_VERSION);
    if (version < 0)
        return version;
    struct ruleset ruleset = ruleset_for(version);
    long rules = make_ruleset(&ruleset, sizeof(ruleset), 0);
    if (rules < 0)
        return rules;
    long result = landlock_add_rules(rules, ruleset.handled_files, first, orders);
    if (result < 0)
        return result;
    /* The kernel's own log tells what the plugin was refused, also after it became the command. */
    unsigned flags = version >= VERSION_LOG ? LOG_NEW_EXEC : 0;
    result = BARE_CALL(SYS_landlock_restrict_self, rules, flags, 0, 0, 0);
    BARE_CALL(SYS_close, rules, 0, 0, 0, 0);
    return result;
}
