/* SQLite tells a full disk and a full database apart by no code: the disk itself is asked. */
#include "base/disk.h"

#include <stdint.h>
#include <sys/statvfs.h>

#define FULL_BYTES 65536

bool kg_disk_is_full(const char *path)
{
    struct statvfs disk;
    return statvfs(path, &disk) == 0 && disk.f_blocks > 0 &&
           ((uint64_t)disk.f_bavail * disk.f_frsize < FULL_BYTES ||
            (disk.f_files > 0 && disk.f_favail == 0));
}
