/*
 * What comes without a kaged-plugin.yaml gets one, made of the file that says what it is, before it
 * is hashed and offered. See complete.c.
 */
#ifndef KAGED_STORE_COMPLETE_H
#define KAGED_STORE_COMPLETE_H

#include "base/json/json.h"

/* Blocks. Remarks are for the operator, a line each, owned; NULL: there are none. */
int store_complete(int folder_fd, char ***ret_remarks, struct kg_err *err);

/* Blocks. Writes the manifest that was made. */
int complete_write(int folder_fd, struct kg_str manifest, struct kg_err *err);

/* Pure. The manifest of what a file says: manifest.json of an .mcpb or .dxt file, see bundle.c, and
 * package.json or pyproject.toml of a server's folder, see folder_server.c. */
typedef int complete_fn(struct kg_str text, struct kg_buf *ret_manifest, char ***ret_remarks,
                        struct kg_err *err);
complete_fn bundle_manifest, package_manifest, pyproject_manifest;

#endif
