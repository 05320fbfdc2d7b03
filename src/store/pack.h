/*
 * A plugin's folder as one file: a ZIP, which of an MCP server is an .mcpb with a manifest.json.
 * The same folder gives the same bytes on every machine: names in order, no times, no owners, and
 * nothing compressed, since two versions of a library do that differently.
 */
#ifndef KAGED_STORE_PACK_H
#define KAGED_STORE_PACK_H

#include "store/store.h"

struct store_pack {
    const char *dir;                 /* of the plugin */
    const struct manifest *manifest; /* NULL: a package of the catalog, taken as it is */
    const char *file;                /* that is written; it must not be there */
    struct store_limits limits;
};

struct store_packed {
    uint32_t files;
    uint64_t bytes;  /* of the whole file */
    char hash[65];   /* SHA-256 of the file */
    char **left_out; /* owned list of paths */
    char **remarks;  /* owned: what manifest.json cannot say */
    bool has_own;    /* the folder had a manifest.json, which was taken as it is */
};
/* Blocks. On failure there is no file. */
int store_pack(const struct store_pack *pack, struct store_packed *ret_packed, struct kg_err *err);
void store_packed_free(struct store_packed *packed); /* also for kg_auto */
/* "NAME-1.0.0.mcpb"; owned. */
char *store_pack_name(const struct manifest *manifest);

#endif
