/*
 * What the files of this folder share. From bottom to top: seals and keys are bytes; files are read
 * line by line; a walk checks blocks; a chain writes them; the writer thread owns the chain; the
 * loop side takes events.
 */
#ifndef KAGED_AUDIT_INTERNAL_H
#define KAGED_AUDIT_INTERNAL_H

#include "audit/audit.h"
#include "base/json/json.h"
#include "state/state.h"

#include <nettle/sha2.h>
#include <stdatomic.h>

#define AUDIT_BLOCK_BYTES  ((size_t)256 * 1024)       /* a block past this is sealed */
#define AUDIT_URGENT_BYTES ((size_t)512 * 1024)       /* still in the cache when the writer comes */
#define AUDIT_LINE_MAX     ((size_t)64 * 1024 * 1024) /* a longer one is not ours */
#define AUDIT_PROBLEM_MAX  sizeof(((struct audit_report *)0)->problem)

/* Every event's line begins {"ts":"...","id":"evt_..."; readers find both at fixed places. */
#define AUDIT_TS_AT       7
#define AUDIT_TS_LENGTH   (KG_TIME_TEXT - 1)
#define AUDIT_ID_AT       39
#define AUDIT_ID_LENGTH   30
#define AUDIT_HEAD_LENGTH 70 /* with the quote behind the id */

/* -- seal.c: the line that ends a block, and the signed head ----------------------------------- */

struct audit_seal {
    uint64_t block;
    uint64_t events;
    unsigned char prev[32]; /* the hash of the block before */
    bool recovered;         /* sealed by the start after a crash */
    bool broken;            /* what was there before did not fit the signed head */
    unsigned char hash[32];
};
bool audit_is_seal(struct kg_str line);
/* All of the line that its hash covers, and then the rest of it. */
void audit_seal_put(struct kg_buf *buf, const struct audit_seal *seal);
void audit_seal_put_hash(struct kg_buf *buf, const struct audit_seal *seal);
/* *ret_covered is how much of the line the hash covers. False if it is not as audit_seal_put
 * writes. */
bool audit_seal_parse(struct kg_str line, struct audit_seal *ret_seal, size_t *ret_covered);

struct audit_key {
    unsigned char secret[64]; /* Ed25519, the public half in its last 32 bytes */
};
/* -ENOENT if there is none; with `make` it is made then. */
int audit_key_load(const char *path, bool make, struct audit_key *ret_key, struct kg_err *err);
void audit_head_sign(const struct audit_key *key, struct state_audit_head *head);
bool audit_head_is_signed(const struct audit_key *key, const struct state_audit_head *head);

/* SHA-256 of a block while it grows. */
void audit_digest_add(struct sha256_ctx *digest, struct kg_str bytes);
/* And starts anew. */
void audit_digest_end(struct sha256_ctx *digest, unsigned char ret_hash[SHA256_DIGEST_SIZE]);

/* -- files.c: the folder and lines of one file ------------------------------------------------- */

struct audit_files {
    uint32_t *numbers; /* owned; oldest first */
    size_t count;
};
int audit_files_list(const char *dir, struct audit_files *ret_files, struct kg_err *err);
void audit_files_free(struct audit_files *files); /* for kg_auto */
#define AUDIT_NAME_MAX 32
void audit_file_name(uint32_t number, char ret_name[AUDIT_NAME_MAX]);
char *audit_file_path(const char *dir, uint32_t number); /* the caller owns it */
/*
 * A file of this process's own that has just been made is lost with its folder's entry: syncs that.
 */
int audit_sync_dir(const char *dir, struct kg_err *err);

struct audit_reader {
    int fd;
    struct kg_buf buf;
    size_t at;       /* in buf: the next line */
    uint64_t offset; /* in the file: the next line */
};
int audit_reader_open(struct audit_reader *reader, const char *dir, uint32_t number,
                      struct kg_err *err);
/* The next line is the one that begins there, or what is left of one. */
int audit_reader_seek(struct audit_reader *reader, uint64_t offset, struct kg_err *err);
void audit_reader_close(struct audit_reader *reader); /* for kg_auto; a zeroed one is fine */
/*
 * 1 with a line and its \n, valid until the next call; 0 at the end, where half a line may remain.
 */
int audit_reader_next(struct audit_reader *reader, struct kg_str *ret_line, struct kg_err *err);
/* How many bytes of half a line remain after a 0. */
size_t audit_reader_rest(const struct audit_reader *reader);

/* -- backward.c: the same lines, the last one first ------------------------------------------- */

/* Bytes that grow at their front. */
struct audit_front {
    char *data;        /* owned */
    size_t start, end; /* in data: what is held */
    size_t capacity;
};
void audit_front_put(struct audit_front *front, struct kg_str bytes);
struct kg_str audit_front_view(const struct audit_front *front);
void audit_front_free(struct audit_front *front); /* for kg_auto */

struct audit_backward {
    int fd;
    uint64_t offset; /* in the file: of the first byte held */
    struct audit_front held;
};
int audit_backward_open(struct audit_backward *reader, const char *dir, uint32_t number,
                        struct kg_err *err);
void audit_backward_close(struct audit_backward *reader); /* for kg_auto, with an fd of -1 too */
/* 1 with a line and its \n, valid until the next call; 0 at the beginning. */
int audit_backward_next(struct audit_backward *reader, struct kg_str *ret_line, struct kg_err *err);

/* The first seal or the first event's line of a file; *ret_found is false if it has none. */
int audit_first_seal(const char *dir, uint32_t number, struct audit_seal *ret_seal, bool *ret_found,
                     struct kg_err *err);
bool audit_is_event(struct kg_str line);

/* -- walk.c: checks blocks file after file; goes on after a problem, keeps the first ----------- */

struct audit_walk {
    const struct state_audit_head *head; /* borrowed; NULL: there is none to compare with */
    bool from_start;                     /* the first file walked is the oldest */
    bool started;                        /* a seal was seen: block and hash are set */
    uint64_t block;
    unsigned char hash[32];
    bool head_seen; /* the head's block was there, with the head's hash */
    uint64_t files, blocks, events;
    uint64_t events_past_head; /* in sealed blocks newer than the head */
    uint64_t unsealed;         /* lines after the last seal of the last file */
    uint64_t tail, end, size;  /* in the last file: after its last seal; after its last line; all */
    char last_id[AUDIT_ID_LENGTH + 1];
    char problem[AUDIT_PROBLEM_MAX];
    char broken[AUDIT_PROBLEM_MAX]; /* the first mark that a start found the log damaged */
};
int audit_walk_file(struct audit_walk *walk, const char *dir, uint32_t number, bool last,
                    struct kg_err *err);

/* -- chain.c, recover.c: the files as they are written ----------------------------------------- */

enum audit_seal_kind { AUDIT_SEAL_PLAIN, AUDIT_SEAL_RECOVERED, AUDIT_SEAL_BROKEN };

struct audit_chain {
    char *dir;
    uint64_t rotate_bytes;
    unsigned keep;
    struct audit_key key;
    struct state *state;          /* owned */
    struct state_audit_head head; /* of the newest sealed block */
    bool dirty;                   /* the head in the database is older */
    bool rotating;                /* the next file has to be begun */
    int fd;
    uint32_t file;
    uint64_t file_bytes;
    struct sha256_ctx digest; /* of the block's bytes in the file */
    uint64_t block_bytes, block_events;
    uint64_t block_since_ns; /* when its first line was written */
    struct audit_seal seal;  /* being written, while seal_line is not empty */
    struct kg_buf seal_line;
    size_t seal_written;
    char last_id[AUDIT_ID_LENGTH + 1]; /* of the newest event found at the start, or "" */
};
/* Checks the end of the log, seals what a crash left, and is ready to append. */
int audit_chain_open(struct audit_chain *chain, const struct audit_options *options,
                     struct kg_err *err);
void audit_chain_close(struct audit_chain *chain);
/* Each of these may be refused by the disk; called again, it goes on exactly where it stopped. */
int audit_chain_append(struct audit_chain *chain, struct kg_str lines, size_t *at,
                       struct kg_err *err);
int audit_chain_seal(struct audit_chain *chain, enum audit_seal_kind kind, struct kg_err *err);
int audit_chain_commit(struct audit_chain *chain, struct kg_err *err);
int audit_chain_begin_file(struct audit_chain *chain, uint32_t number, struct kg_err *err);
/* Deletes the oldest files past `keep`; what it cannot delete it only logs. */
void audit_chain_trim(struct audit_chain *chain);

/* -- writer.c and loop.c: the two threads ------------------------------------------------------ */

/* A text that is copied all 64 bytes at once, which is quicker than as many as it has. */
#define AUDIT_PIECE_BYTES 64
struct audit_piece {
    char text[AUDIT_PIECE_BYTES];
    size_t length;
};
/* An event's texts, made once: `,"event":"plugin.spawned"`, `,"name":` and so on. */
struct audit_text_row {
    struct audit_piece event;
    struct audit_piece fields[AUDIT_FIELDS_MAX];
    size_t count;
};

struct audit {
    struct loop *loop; /* borrowed */
    char *dir;
    size_t queue_bytes;
    size_t urgent_bytes; /* a queue past this ends the writer's nap */
    uint64_t seal_interval_ms;

    /* The loop thread's. */
    struct audit_request request;
    struct audit_text_row *texts; /* owned */
    struct kg_buf fill;           /* lines of this turn */
    char head[AUDIT_HEAD_LENGTH];
    int64_t head_ms;
    bool head_is_now; /* the clock was read since the last hand-over */
    struct loop_task hand_over;
    struct loop_task call_waiters;
    struct audit_waiter *waiters;
    struct audit_listener *listeners;
    struct audit_listener *next_listener; /* while they are called: any of them may leave */

    /* Read by any thread; the first is set by the loop, the others by the writer. */
    _Atomic uint64_t emitted; /* bytes */
    _Atomic uint64_t written;
    atomic_int refused; /* why the disk refuses, or 0 */

    uv_mutex_t lock; /* around what follows, up to the writer's own */
    uv_cond_t wake;
    struct kg_buf queue; /* handed over */
    struct loop_message *flushes, **flushes_tail;
    uint64_t rotate_bytes;
    unsigned keep;
    bool idle; /* the writer sleeps until it is woken */
    bool closing;
    bool waited; /* a waiter wants to hear of progress */
    bool posted; /* `progress` is under way */
    struct loop_message progress;

    /* The writer's own. */
    struct audit_chain chain;
    struct kg_buf batch; /* taken from the queue */
    size_t batch_at;     /* how much of it is in the file */
    struct loop_message *batch_flushes;
    bool busy; /* the last turn wrote something */
    struct loop_worker *worker;
    struct loop_job job;
};
/* The writer's whole life, as one job of its worker. */
void audit_writer_run(struct loop_job *job);

#endif
