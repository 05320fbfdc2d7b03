/*
 * libpq is loaded by who uses it, and by nobody else: a daemon without [cluster] needs neither the
 * library nor its memory.
 */
#include "state/postgres.h"

#include <dlfcn.h>
#include <pthread.h>

#define LIBRARY "libpq.so.5"

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static struct postgres_library library;
static void *library_handle;

static int library_load(struct kg_err *err)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        kg_fail(err, KG_E_INVALID_CONFIG,
                "cluster.database is set, but PostgreSQL's client library cannot be loaded: %s",
                dlerror());
        return kg_hint(err, "install it: apt install libpq5");
    }
#define LIBRARY_FIND(name)                                                                         \
    *(void **)&library.name = dlsym(handle, #name);                                                \
    if (library.name == NULL)                                                                      \
        return kg_fail(err, KG_E_INVALID_CONFIG, LIBRARY " has no " #name);
    POSTGRES_FUNCTIONS(LIBRARY_FIND)
#undef LIBRARY_FIND
    library_handle = handle;
    return 0;
}

const struct postgres_library *postgres_library(struct kg_err *err)
{
    pthread_mutex_lock(&library_lock);
    int result = library_handle != NULL ? 0 : library_load(err);
    pthread_mutex_unlock(&library_lock);
    return result < 0 ? NULL : &library;
}
