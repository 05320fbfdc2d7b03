/* What is left of a disk. */
#ifndef KAGED_DISK_H
#define KAGED_DISK_H

#include <stdbool.h>

/* Whether next to nothing more fits on the file system of the path. */
bool kg_disk_is_full(const char *path);

#endif
