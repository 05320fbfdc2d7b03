/*
 * kaged-watch: looks at what is tried in one cage, and lets it go on. The kernel asks about each
 * call of watched.def, and the answer is always the same: do as you would. So nothing of the cage
 * depends on what is read here, which is good, since the other threads of a caller may change it
 * meanwhile; but a caller waits for the answer, and if this program is gone, such calls fail: the
 * spawner ends the cage then.
 *
 * It runs as the cage's user, outside of the cage: whoever made a user namespace has every right
 * over those in it, also to read what they point at. All that it keeps has a bound; what does not
 * fit is counted.
 *
 * usage: kaged-watch CAGE-SOCKET REPORT-SOCKET
 */
#include "cage/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNTS_MS    250  /* between two reports of counts */
#define LAST_WORD_MS 2000 /* for what is left to be said, once the cage is gone */
#define PAGE_BYTES   4096 /* no machine has smaller ones */
#define ADDRESS_TEXT 64

/* In watched.def, OPEN is what its flags say. */
enum {
    ACT_LOOK = CAGE_ACT_LOOK,
    ACT_READ = CAGE_ACT_READ,
    ACT_WRITE = CAGE_ACT_WRITE,
    ACT_RUN = CAGE_ACT_RUN,
    ACT_CONNECT = CAGE_ACT_CONNECT,
    ACT_OPEN = CAGE_ACTS
};

/* A row of watched.def. */
struct watched_call {
    int number;
    const char *name;
    int act;
    int folder, what; /* arguments; folder may be -1 */
};
#define CAGE_WATCHED_CALLS
#include "seccomp-watch.h"

struct entry {
    struct cage_told told;
    uint32_t last_told; /* the count that was reported */
    char *what;         /* owned */
};

static struct {
    int listener, report;
    struct seccomp_notif *asked;
    struct seccomp_notif_resp *answer;
    size_t asked_size, answer_size;
    struct kg_map *by_what; /* of an act and a path: borrowed entries, whose address is index + 1 */
    struct entry entries[CAGE_ATTEMPTS_MAX];
    uint32_t count, next; /* how many there are, and the first that was not reported */
    size_t bytes;
    bool changed; /* some count was not reported */
    uint64_t counts_at_ms;
} watch;

/* -- what is kept ------------------------------------------------------------------------------ */

static struct entry *entry_add(enum cage_act act, const char *what)
{
    struct entry *entry = &watch.entries[watch.count];
    entry->told = (struct cage_told){.index = watch.count, .act = (uint8_t)act};
    entry->what = kg_strdup(what);
    watch.bytes += strlen(what);
    watch.count++;
    return entry;
}

/* What does not fit is counted in the last place. */
static struct entry *watch_main_entry_new(enum cage_act act, const char *what)
{
    struct entry *last = &watch.entries[CAGE_ATTEMPTS_MAX - 1];
    if (watch.count == CAGE_ATTEMPTS_MAX)
        return last;
    if (watch.count < CAGE_ATTEMPTS_MAX - 1 && watch.bytes + strlen(what) <= CAGE_ATTEMPTS_BYTES)
        return entry_add(act, what);
    for (uint32_t i = watch.count; i-- > 0;)
        if (watch.entries[i].told.act == CAGE_ACT_OTHERS)
            return &watch.entries[i];
    return entry_add(CAGE_ACT_OTHERS, "");
}

/* -- reading from the caller ------------------------------------------------------------------- */

/* Up to size bytes, or as many as are there, page by page; how many, 0 if none. */
static size_t read_memory(pid_t pid, uint64_t address, void *ret_bytes, size_t size)
{
    struct iovec here = {ret_bytes, size}, there[2];
    size_t first = PAGE_BYTES - (size_t)(address % PAGE_BYTES);
    first = first < size ? first : size;
    there[0] = (struct iovec){(void *)(uintptr_t)address, first}; /* NOLINT: another's address */
    there[1] = (struct iovec){(void *)(uintptr_t)(address + first), size - first}; /* NOLINT */
    ssize_t got = process_vm_readv(pid, &here, 1, there, first < size ? 2 : 1, 0);
    return got > 0 ? (size_t)got : 0;
}

/* Owned; NULL: there is none, or it is too long for the kernel, too. */
static char *watch_main_read_path(pid_t pid, uint64_t address)
{
    char text[CAGE_PATH_MAX];
    size_t length = read_memory(pid, address, text, sizeof(text));
    const char *end = memchr(text, '\0', length);
    return end == NULL || end == text ? NULL : kg_strdup(text);
}

/* Where a relative path is meant from; owned, or NULL. */
static char *watch_main_read_folder(pid_t pid, int folder, uint64_t fd)
{
    char path[CAGE_PATH_MAX];
    bool is_working = folder < 0 || (int32_t)fd == AT_FDCWD;
    kg_auto(kg_free) char *link =
        is_working ? kg_format("/proc/%d/cwd", pid) : kg_format("/proc/%d/fd/%d", pid, (int32_t)fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0 || path[0] != '/')
        return NULL;
    path[length] = '\0';
    return kg_strdup(path);
}

static char *watch_main_absolute(pid_t pid, const struct watched_call *call,
                                 const uint64_t *arguments)
{
    kg_auto(kg_free) char *path = watch_main_read_path(pid, arguments[call->what]);
    if (path == NULL)
        return NULL;
    if (path[0] == '/')
        return cage_path_join("/", path);
    kg_auto(kg_free) char *folder =
        watch_main_read_folder(pid, call->folder, call->folder < 0 ? 0 : arguments[call->folder]);
    return folder != NULL ? cage_path_join(folder, path) : NULL;
}

/* -- what is there in the cage ----------------------------------------------------------------- */

static int open_there(int root, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static bool may(int fd, int rights)
{
    return faccessat(fd, "", rights, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

static enum cage_there watch_main_look(pid_t pid, enum cage_act *act, const char *path)
{
    if (kg_path_within(path, "/proc")) /* where each sees itself, and we are not in there */
        return CAGE_THERE_TO_READ;
    kg_auto(kg_free) char *name = kg_format("/proc/%d/root", pid);
    kg_auto(kg_close) int root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    kg_auto(kg_close) int fd = root < 0 ? -1 : open_there(root, path);
    struct stat status;
    if (fd >= 0 && *act == CAGE_ACT_READ && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        *act = CAGE_ACT_LIST;
    if (fd >= 0 && *act == CAGE_ACT_RUN && !may(fd, X_OK))
        return CAGE_THERE_NOTHING;
    if (fd >= 0)
        return may(fd, W_OK) ? CAGE_THERE_TO_WRITE : CAGE_THERE_TO_READ;
    if (root < 0 || *act != CAGE_ACT_WRITE)
        return CAGE_THERE_NOTHING;
    /* It could be made. */
    kg_auto(kg_free) char *above = kg_path_folder(path);
    kg_auto(kg_close) int folder = open_there(root, above);
    return folder >= 0 && may(folder, W_OK | X_OK) ? CAGE_THERE_TO_WRITE : CAGE_THERE_NOTHING;
}

/* -- one call ---------------------------------------------------------------------------------- */

static enum cage_act act_of(const struct watched_call *call, const uint64_t *arguments)
{
    if (call->act != ACT_OPEN)
        return (enum cage_act)call->act;
    unsigned flags = (unsigned)arguments[call->what + 1];
    if ((flags & O_PATH) != 0)
        return CAGE_ACT_LOOK;
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0)
        return CAGE_ACT_WRITE;
    return (flags & O_DIRECTORY) != 0 ? CAGE_ACT_LIST : CAGE_ACT_READ;
}

/* False: it is not an internet address. */
static bool watch_main_read_address(pid_t pid, uint64_t address, uint64_t size,
                                    char text[ADDRESS_TEXT], uint16_t *ret_port)
{
    struct sockaddr_storage raw = {0};
    size = size < sizeof(raw) ? size : sizeof(raw);
    if (read_memory(pid, address, &raw, (size_t)size) != size)
        return false;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&raw;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&raw;
    if (raw.ss_family == AF_INET && size >= sizeof(*v4)) {
        *ret_port = ntohs(v4->sin_port);
        return inet_ntop(AF_INET, &v4->sin_addr, text, ADDRESS_TEXT) != NULL;
    }
    *ret_port = ntohs(v6->sin6_port);
    return raw.ss_family == AF_INET6 && size >= sizeof(*v6) &&
           inet_ntop(AF_INET6, &v6->sin6_addr, text, ADDRESS_TEXT) != NULL;
}

/* What was read is the caller's only if it waited all the time; else its pid may be another's. */
static bool still_waits(uint64_t id)
{
    return ioctl(watch.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static void watch_main_note(const struct watched_call *call, enum cage_act act, const char *what,
                            uint16_t port)
{
    pid_t pid = (pid_t)watch.asked->pid;
    kg_auto(kg_free) char *key = kg_format("%d %u %s", act, port, what);
    /* Acts that turn out to be another, as reading of listing, are known by the first. */
    uintptr_t known = (uintptr_t)kg_map_get(watch.by_what, kg_str(key));
    struct entry *entry = known != 0 ? &watch.entries[known - 1] : NULL;
    enum cage_there there = CAGE_THERE_NOTHING;
    if (entry == NULL && act != CAGE_ACT_CONNECT)
        there = watch_main_look(pid, &act, what);
    if (!still_waits(watch.asked->id))
        return;
    if (entry == NULL) {
        entry = watch_main_entry_new(act, what);
        if (entry->told.count == 0) {
            entry->told.there = (uint8_t)there;
            entry->told.port = port;
            snprintf(entry->told.call, sizeof(entry->told.call), "%s", call->name);
        }
        if (entry->told.act != CAGE_ACT_OTHERS)
            kg_map_set(watch.by_what, kg_str(key), (void *)(uintptr_t)(entry->told.index + 1));
    }
    entry->told.count += entry->told.count < UINT32_MAX;
    watch.changed = true;
}

static void watch_main_look_at(const struct watched_call *call)
{
    const struct seccomp_data *data = &watch.asked->data;
    pid_t pid = (pid_t)watch.asked->pid;
    uint64_t arguments[6];
    memcpy(arguments, data->args, sizeof(arguments));
    if (call->act == ACT_CONNECT) {
        char text[ADDRESS_TEXT];
        uint16_t port;
        if (watch_main_read_address(pid, arguments[call->what], arguments[call->what + 1], text,
                                    &port))
            watch_main_note(call, CAGE_ACT_CONNECT, text, port);
        return;
    }
    kg_auto(kg_free) char *path = watch_main_absolute(pid, call, arguments);
    if (path != NULL)
        watch_main_note(call, act_of(call, arguments), path, 0);
}

/* False: nobody is left in the cage who could ask. */
static bool serve_one(void)
{
    memset(watch.asked, 0, watch.asked_size);
    if (ioctl(watch.listener, SECCOMP_IOCTL_NOTIF_RECV, watch.asked) < 0)
        return errno == EINTR || errno == ENOENT; /* the caller went, or was called away */
    for (size_t i = 0; i < KG_COUNT(watched_calls); i++)
        if (watched_calls[i].number == watch.asked->data.nr)
            watch_main_look_at(&watched_calls[i]);
    memset(watch.answer, 0, watch.answer_size);
    watch.answer->id = watch.asked->id;
    watch.answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    return ioctl(watch.listener, SECCOMP_IOCTL_NOTIF_SEND, watch.answer) == 0 || errno == ENOENT ||
           errno == EINPROGRESS;
}

/* -- telling ----------------------------------------------------------------------------------- */

/* 1 if it was told, 0 if there is no room for now; ends this program if nobody listens. */
static int watch_main_tell(struct entry *entry, bool whole)
{
    struct iovec parts[] = {{&entry->told, sizeof(entry->told)},
                            {entry->what, whole ? strlen(entry->what) : 0}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = KG_COUNT(parts)};
    if (sendmsg(watch.report, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
            return 0;
        exit(CAGE_WATCH_UNHEARD);
    }
    entry->last_told = entry->told.count;
    return 1;
}

/* What is new at once, counts now and then. False: not all could be told. */
static bool watch_main_tell_all(bool counts)
{
    while (watch.next < watch.count) {
        if (watch_main_tell(&watch.entries[watch.next], true) == 0)
            return false;
        watch.next++;
    }
    for (uint32_t i = 0; counts && watch.changed && i < watch.count; i++)
        if (watch.entries[i].last_told != watch.entries[i].told.count &&
            watch_main_tell(&watch.entries[i], false) == 0)
            return false;
    if (counts)
        watch.changed = false;
    return true;
}

static void watch_main_say_last(void)
{
    uint64_t deadline = kg_monotonic_ms() + LAST_WORD_MS;
    while (!watch_main_tell_all(true) && kg_monotonic_ms() < deadline) {
        struct pollfd room = {.fd = watch.report, .events = POLLOUT};
        poll(&room, 1, COUNTS_MS);
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

static void watch_main_turn(bool *ret_over)
{
    uint64_t now = kg_monotonic_ms();
    bool due = watch.changed && now >= watch.counts_at_ms;
    bool blocked = !watch_main_tell_all(due);
    if (due)
        watch.counts_at_ms = now + COUNTS_MS;
    struct pollfd polls[] = {
        {.fd = watch.listener, .events = POLLIN},
        {.fd = watch.report, .events = blocked ? POLLOUT : 0},
    };
    if (poll(polls, KG_COUNT(polls), watch.changed ? COUNTS_MS : -1) < 0)
        return;
    if ((polls[0].revents & POLLIN) != 0)
        *ret_over = !serve_one();
    else if ((polls[0].revents & (POLLHUP | POLLERR)) != 0)
        *ret_over = true;
    if ((polls[1].revents & (POLLHUP | POLLERR)) != 0)
        exit(CAGE_WATCH_UNHEARD);
}

static bool watch_main_make_room(void)
{
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        return false;
    watch.asked_size =
        sizes.seccomp_notif > sizeof(*watch.asked) ? sizes.seccomp_notif : sizeof(*watch.asked);
    watch.answer_size = sizes.seccomp_notif_resp > sizeof(*watch.answer) ? sizes.seccomp_notif_resp
                                                                         : sizeof(*watch.answer);
    watch.asked = kg_alloc(watch.asked_size);
    watch.answer = kg_alloc(watch.answer_size);
    watch.by_what = kg_map_new();
    return true;
}

static void end_room(void)
{
    for (uint32_t i = 0; i < watch.count; i++)
        free(watch.entries[i].what);
    kg_map_free(watch.by_what);
    free(watch.asked);
    free(watch.answer);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "kaged-watch is started by kaged\n");
        return 2;
    }
    char byte;
    int fds[CAGE_MESSAGE_FDS];
    int socket = atoi(argv[1]);
    watch.report = atoi(argv[2]);
    if (!watch_main_make_room())
        return 1;
    /* A cage that is not built sends nothing. */
    bool over = cage_message_receive(socket, &byte, sizeof(byte), fds) != 1 || fds[0] < 0;
    close(socket);
    watch.listener = fds[0];
    while (!over)
        watch_main_turn(&over);
    watch_main_say_last();
    end_room();
    return 0;
}
