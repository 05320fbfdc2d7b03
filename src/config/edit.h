/*
 * Changes one key of a TOML or YAML text, or of a file, and nothing else: comments, order, quoting,
 * indentation, line endings and blank lines stay byte for byte. What an edit made is read again and
 * compared with the tree before it; if more than that one key differs, the edit is refused and the
 * text is left as it was.
 */
#ifndef KAGED_EDIT_H
#define KAGED_EDIT_H

#include "base/json/json.h"

/*
 * Sets the key that path leads to, from the root through maps (not through lists). One that is
 * there gets the new value in its place; one that is not is added at the end of its map, and maps
 * that are missing on the way are made. Of a map or a list that is replaced by another one, what
 * both have is left alone. TOML: a new map becomes a [table] at the end of the text, or an inline
 * table within one; there is no null. YAML: what has an anchor or is an alias is refused.
 */
int edit_toml_set(struct kg_buf *text, const char *const *path, size_t path_count,
                  const struct kg_node *value, struct kg_err *err);
int edit_yaml_set(struct kg_buf *text, const char *const *path, size_t path_count,
                  const struct kg_node *value, struct kg_err *err);

/*
 * Removes a key with its lines and the comment behind it; comment lines above it stay. A map that
 * loses its last key stays: TOML keeps its header, YAML writes {}; only a TOML table that has no
 * header of its own goes with its last key. A key that is not there is KG_E_NOT_FOUND.
 */
int edit_toml_remove(struct kg_buf *text, const char *const *path, size_t path_count,
                     struct kg_err *err);
int edit_yaml_remove(struct kg_buf *text, const char *const *path, size_t path_count,
                     struct kg_err *err);

/* The same of JSON; what is not plain JSON, as with comments in it, is refused. */
int edit_json_set(struct kg_buf *text, const char *const *path, size_t path_count,
                  const struct kg_node *value, struct kg_err *err);
int edit_json_remove(struct kg_buf *text, const char *const *path, size_t path_count,
                     struct kg_err *err);

/* Changes the text of a file; a negative result leaves the file alone. */
typedef int edit_change(struct kg_buf *text, void *data, struct kg_err *err);

/*
 * Reads the file (a missing one is an empty text), calls change and puts the result in its place,
 * all under one lock, so that edits by many processes lose nothing. A reader sees the old file or
 * the new one, whatever happens in between. Mode and owner are kept, the owner as far as the system
 * lets us; a new file has mode 0600. A symbolic link is followed and stays. A text that change
 * leaves as it was is not written.
 *
 * The lock is flock() on the folder that has the file: it leaves no lock file behind, and it is
 * never on an inode that a rename has just replaced. So change must not edit a file of the same
 * folder, and waiting for the lock ends with KG_E_CONFLICT after 10 s.
 */
int edit_file(const char *path, edit_change *change, void *data, struct kg_err *err);

#endif
