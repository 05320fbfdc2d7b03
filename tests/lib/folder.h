/* A test's own folder goes with the test. */
#ifndef KAGED_TEST_FOLDER_H
#define KAGED_TEST_FOLDER_H

#include <ftw.h>
#include <stdio.h>

static int folder_remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

/* With all that is in it; no link is followed. */
static inline int folder_remove(const char *path)
{
    return nftw(path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
