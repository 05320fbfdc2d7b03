/*
 * Capabilities: what a plugin asks of the host, one string each.
 *
 *   read:fs:PATH  write:fs:PATH  exec:PROGRAM:PATH  net:HOST:PORT  net:HOST:*  net:*  net:[]
 *   kaged:storage:read  kaged:storage:write  kaged:ask  kaged:sample
 *
 * PATH is absolute, or below config:/ or project:/. PROGRAM is a bare name or an absolute path.
 * HOST is an exact name, an IPv4 address, or an IPv6 address in brackets. Hostile until parsed.
 */
#ifndef KAGED_CAPABILITY_H
#define KAGED_CAPABILITY_H

#include "base/base.h"

#define CAPABILITY_BYTES_MAX 4096
#define CAPABILITY_COUNT_MAX 1024 /* in a set */

enum capability_kind {
    CAPABILITY_EMPTY, /* what capability_free leaves; asks for nothing, gives nothing */
    CAPABILITY_READ,
    CAPABILITY_WRITE,
    CAPABILITY_EXEC,
    CAPABILITY_NET_ANY,
    CAPABILITY_NET_NONE,
    CAPABILITY_NET_HOST,
    CAPABILITY_STORAGE_READ,
    CAPABILITY_STORAGE_WRITE,
    CAPABILITY_ASK,
    CAPABILITY_SAMPLE,
    CAPABILITY_KIND_COUNT
};

/* Texts are owned, in canonical form, and safe to show; "" where the kind has none. */
struct capability {
    enum capability_kind kind;
    char *path;    /* read, write, exec: "/opt/x", "config:/x", "project:/" */
    char *program; /* exec: "bash", "/usr/bin/git" */
    char *host;    /* host: lower case; an IPv6 address has no brackets here */
    uint16_t port; /* host: 0 is any */
};

/* KG_E_INVALID_MANIFEST with what is wrong, and a hint where there is a better way to write it. */
int capability_parse(struct kg_str text, struct capability *ret_capability, struct kg_err *err);
void capability_free(struct capability *capability); /* also for kg_auto; leaves an empty one */
/* Appends the canonical string, which parses to an equal capability. */
void capability_print(const struct capability *capability, struct kg_buf *out);
/* Appends what it means to an operator: "may read /opt/x and below". */
void capability_words(const struct capability *capability, struct kg_buf *out);
/* True if an operator should look twice; *ret_reason then says why, in words that live for ever. */
bool capability_is_dangerous(const struct capability *capability, const char **ret_reason);

bool capability_equal(const struct capability *a, const struct capability *b);
/*
 * Whether `allowed` includes `claimed`. net:* reaches every host except localhost and literal
 * addresses of this machine, its links and private networks: the gatekeeper lets through only those
 * of them that are declared, so they are never covered by it.
 */
bool capability_covers(const struct capability *allowed, const struct capability *claimed);

/* -- sets -------------------------------------------------------------------------------------- */

/* In the order of the list that it came from, each capability once. */
struct capability_set {
    struct capability *items; /* owned */
    size_t count;
};

struct capability_remark {
    size_t index;  /* of the entry in the list */
    bool is_error; /* else a warning: the entry adds nothing */
    char *text;    /* owned */
    char *hint;    /* owned, "" if there is none */
};

struct capability_remarks {
    struct capability_remark *items; /* owned */
    size_t count;
};

/*
 * Parses a NULL-ended list. remarks (empty, or NULL if nobody asks) gets every bad entry and every
 * warning, also on success; err gets the first error.
 */
int capability_set_parse(char *const *list, struct capability_set *ret_set,
                         struct capability_remarks *remarks, struct kg_err *err);
void capability_set_free(struct capability_set *set);             /* both also for kg_auto, */
void capability_remarks_free(struct capability_remarks *remarks); /* and leave an empty one */

bool capability_set_covers(const struct capability_set *allowed, const struct capability *claimed);

#endif
