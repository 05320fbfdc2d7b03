/*
 * multipart/form-data in pieces: one file is taken out of it, and nothing is kept of the rest. The
 * bytes are a stranger's: parts, their heads and what is around them are bounded.
 */
#ifndef KAGED_HTTP_MULTIPART_H
#define KAGED_HTTP_MULTIPART_H

#include "base/base.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */
#define MULTIPART_HEAD_MAX     4096
#define MULTIPART_PARTS_MAX    16
#define MULTIPART_NAME_MAX     255

enum multipart_state {
    MULTIPART_PREAMBLE, /* before the first boundary */
    MULTIPART_HEAD,     /* a part's headers */
    MULTIPART_CONTENT,
    MULTIPART_EPILOGUE,
};

struct multipart {
    char boundary[MULTIPART_BOUNDARY_MAX + 5]; /* with "\r\n--" before it */
    const char *field;                         /* the part that is wanted */
    enum multipart_state state;
    struct kg_buf held; /* owned: what could be the start of something */
    size_t parts;
    bool wanted; /* the part that is read is the one */
    bool found;  /* it was there */
    char file_name[MULTIPART_NAME_MAX + 1];
    bool failed; /* for a reader that goes on to the end: with this */
    struct kg_err err;
    void (*on_bytes)(void *data, struct kg_str bytes); /* of the file */
    void *data;
};
int multipart_begin(struct multipart *multipart, struct kg_str content_type, const char *field,
                    struct kg_err *err);
int multipart_feed(struct multipart *multipart, struct kg_str piece, struct kg_err *err);
/* All has come: whether the file was in it, and whole. */
int multipart_end(const struct multipart *multipart, struct kg_err *err);
void multipart_free(struct multipart *multipart);

#endif
