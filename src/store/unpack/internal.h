/*
 * kaged-unpack: whatever a plugin comes as, what leaves it is a plain tree of files in one folder.
 *
 *   zip.c  tar.c  folder.c  git.c  npm.c   each reads one kind of source, and knows what that is
 *             \   |    |    /    /
 *              sink.c                 the only one that writes; knows what may be in a plugin
 *                 |
 *   FOLDER/new ... FOLDER/tree        the first while it is written, the second when it is whole
 */
#ifndef KAGED_STORE_UNPACK_INTERNAL_H
#define KAGED_STORE_UNPACK_INTERNAL_H

#include "base/base.h"

/* What the program leaves with. On all but the first and last a line on stdout says why. */
enum unpack_exit { UNPACK_DONE, UNPACK_FAILED, UNPACK_USAGE };

/* One of these is at the top: a manifest, or what one is made of (see store/complete.c). */
#define UNPACK_MANIFEST "kaged-plugin.yaml"
#define UNPACK_OTHERS   "manifest.json", "package.json", "pyproject.toml", "plugin.py"

/* -- options ----------------------------------------------------------------------------------- */

struct options {
    const char *format;  /* "zip", "tar", "folder", "git", "npm" */
    const char *source;  /* a path; an https:// URL, or file:// and a path, for git; npm: a name */
    const char *folder;  /* where the tree is made; there and empty */
    const char *version; /* git: the tag to take, with or without a v before it; or NULL */
    const char *node, *npm; /* npm's runtime, and its own program; of another source than npm: what
                             * its package-lock.json names is fetched, too */
    int64_t bytes_max;      /* of all files together */
    int64_t file_bytes_max; /* of one */
    int64_t files_max;      /* files, folders and links */
    int64_t depth_max;      /* of folders in each other */
    int64_t source_bytes;   /* of an archive, or of what git fetches */
};
/* The words of the command line; the texts are borrowed from it. */
int options_parse(int count, char **words, struct options *ret_options, struct kg_err *err);

/* -- report: lines of JSON about how far it is, and how it ended ------------------------------- */

struct report {
    int fd;
    const char *phase;
    uint64_t files, bytes, bytes_expected;
    uint64_t told_ms; /* when the last line was written */
};
/* A line, unless there was one a moment ago. */
void report_progress(struct report *report);
/* The next phase, told at once. The text is borrowed. */
void report_phase(struct report *report, const char *phase, uint64_t bytes_expected);
void report_done(struct report *report);
void report_failure(struct report *report, const struct kg_err *err);

/* -- sink -------------------------------------------------------------------------------------- */

struct sink;
/* folder: an fd of options->folder; borrowed, like the rest. NULL with err. */
struct sink *sink_new(int folder, const struct options *options, struct report *report,
                      struct kg_err *err);
void sink_free(struct sink *sink);
/* Each refuses what may not be, with the name in its message. Folders above come by themselves. */
int sink_folder(struct sink *sink, struct kg_str path, struct kg_err *err);
int sink_file_begin(struct sink *sink, struct kg_str path, bool executable, struct kg_err *err);
int sink_file_write(struct sink *sink, const void *data, size_t length, struct kg_err *err);
int sink_file_end(struct sink *sink, struct kg_err *err);
/* It is made in sink_finish, when all else is there: nothing can be written through it. */
int sink_link(struct sink *sink, struct kg_str path, struct kg_str target, struct kg_err *err);
/* The same file once more under a second name, as archives with hard links have it. */
int sink_copy(struct sink *sink, struct kg_str path, struct kg_str original, struct kg_err *err);
/* Where the manifest must be. */
enum sink_manifest {
    SINK_MANIFEST_AT_TOP,
    SINK_MANIFEST_BELOW, /* or in the one folder that holds everything, which is taken away */
    SINK_MANIFEST_LATER, /* nowhere: one is made of what came */
};
/* Checks and makes the links, takes a single top folder away if that is allowed, renames. */
int sink_finish(struct sink *sink, enum sink_manifest manifest, struct kg_err *err);
/* For what only a source can see: a refusal that names the entry. */
int sink_refuse(enum kg_code code, struct kg_str path, const char *why, struct kg_err *err);

/* -- sources ----------------------------------------------------------------------------------- */

typedef int source_fn(const struct options *options, struct sink *sink, struct report *report,
                      struct kg_err *err);
source_fn unpack_zip, unpack_tar, unpack_folder, unpack_git, unpack_npm;

/* A folder's files into the sink. */
struct folder_copy {
    const char *below;    /* where they come to lie; "": at the top */
    const char *left_out; /* what of it is not taken, by its path there; or NULL */
};
int folder_copy(const char *from, const struct folder_copy *how, struct sink *sink,
                struct kg_err *err);

/*
 * Whether the bytes of a ZIP file are what its two tables of contents say, without a gap or a
 * second meaning. libzip looks at less.
 */
int zip_layout_check(int fd, uint64_t size, struct kg_err *err);

/* What package-lock.json of the tree names becomes its node_modules; see npm.c. */
int npm_complete(const struct options *options, struct report *report, struct kg_err *err);

/* The whole work, without a word on stdout about its end; for the program, tests and fuzzers. */
int unpack(const struct options *options, struct report *report, struct kg_err *err);

/* Opens an archive: a regular file of at most source_bytes. An fd, or negative. */
int source_open(const struct options *options, uint64_t *ret_bytes, struct kg_err *err);

#endif
