/* What the files of backup/ share: the form of the file, and the places that a home has. */
#ifndef KAGED_BACKUP_INTERNAL_H
#define KAGED_BACKUP_INTERNAL_H

#include "backup/backup.h"

#include <sodium.h>

#define BACKUP_VERSION     1
#define BACKUP_NAME_MAX    4096
#define BACKUP_PIECE_BYTES 65536

/* -- places: a home can be one folder, or three; see places.c ---------------------------------- */

enum backup_place { BACKUP_CONFIG, BACKUP_DATA, BACKUP_STATE, BACKUP_PLACES };
extern const char *const backup_place_names[BACKUP_PLACES];
struct backup_roots {
    char *roots[BACKUP_PLACES]; /* owned; some may be the same */
};
void backup_roots_find(const struct config_paths *paths, struct backup_roots *ret_roots);
void backup_roots_free(struct backup_roots *roots); /* also for kg_auto */
/* The outermost root that the place is in; its own, if it is in no other. */
const char *backup_outer_root(const struct backup_roots *roots, enum backup_place place);
/* Which place a path of this home belongs to, whatever the home looks like. */
enum backup_place backup_place_of(const struct config_paths *paths, const char *path);

/* -- the file: records, then a hash of all of them; see format.c ------------------------------- */

enum backup_kind { BACKUP_FOLDER = 'D', BACKUP_FILE = 'F', BACKUP_LINK = 'L', BACKUP_END = 'E' };
struct backup_entry {
    enum backup_kind kind;
    enum backup_place place;
    uint32_t mode;
    int64_t modified_ms;
    char name[BACKUP_NAME_MAX]; /* below the place's root; "" is the root */
};

struct backup_writer {
    int fd; /* owned */
    crypto_hash_sha256_state hash;
    uint64_t bytes;
};
int backup_writer_begin(struct backup_writer *writer, int fd, struct kg_str header,
                        struct kg_err *err);
/* A file's pieces follow it, and then an empty one; a link's one piece is where it leads. */
int backup_write_entry(struct backup_writer *writer, const struct backup_entry *entry,
                       struct kg_err *err);
int backup_write_piece(struct backup_writer *writer, struct kg_str piece, struct kg_err *err);
int backup_writer_end(struct backup_writer *writer, struct kg_err *err); /* and on disk */

struct backup_reader {
    int fd;           /* owned */
    const char *path; /* borrowed */
    crypto_hash_sha256_state hash;
    char *buffer; /* owned */
    size_t at, filled;
};
/* *ret_header: JSON, appended. */
int backup_reader_open(struct backup_reader *reader, const char *path, struct kg_buf *ret_header,
                       struct kg_err *err);
void backup_reader_close(struct backup_reader *reader); /* also for kg_auto */
/* BACKUP_END: all was read, and is what was written. */
int backup_read_entry(struct backup_reader *reader, struct backup_entry *ret_entry,
                      struct kg_err *err);
/* The next piece, of at most BACKUP_PIECE_BYTES; *ret_length 0: there is none. */
int backup_read_piece(struct backup_reader *reader, char piece[BACKUP_PIECE_BYTES],
                      size_t *ret_length, struct kg_err *err);

#endif
