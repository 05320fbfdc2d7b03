/* Memory never comes back NULL: running out of it ends the program here, with one line. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *checked(void *memory, size_t size)
{
    if (memory == NULL && size != 0) {
        static const char message[] = "kaged: out of memory\n";
        (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
        abort();
    }
    return memory;
}

void *kg_alloc(size_t size)
{
    return checked(calloc(1, size), size);
}

void *kg_realloc(void *old, size_t size)
{
    return checked(realloc(old, size), size);
}

void *kg_alloc_array(size_t count, size_t size)
{
    return checked(calloc(count, size), count && size);
}

char *kg_strdup(const char *text_or_null)
{
    return text_or_null != NULL ? checked(strdup(text_or_null), 1) : NULL;
}

void kg_replace(char **text, const char *by_or_null)
{
    char *old = *text;
    *text = kg_strdup(by_or_null); /* which may be a part of the old one */
    free(old);
}

char *kg_format(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return checked(text, 1);
}

void kg_free(void *pointer_to_pointer)
{
    void **pointer = pointer_to_pointer;
    free(*pointer);
    *pointer = NULL;
}

void kg_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
