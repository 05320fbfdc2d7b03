/*
 * kaged-lua: runs one script, for one conversation, in a cage that has nothing. Its source comes
 * over stdin, as all else does.
 *
 * usage: kaged-lua [NAME=VALUE...]
 */
#include "base/confine.h"
#include "script/worker/internal.h"

#include <stdio.h>
#include <unistd.h>

#define OPEN_FILES 16

#ifdef __SANITIZE_ADDRESS__
/* What was freed is kept for a while: past a few bombs that would be more than the cage has. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}
#endif

static int script_leave(const char *why)
{
    fprintf(stderr, "kaged-lua: %s\n", why);
    return 1;
}

static int read_options(int count, char **words, struct options *options, struct kg_err *err)
{
    kg_options_preset(options_rows, options);
    for (int i = 1; i < count; i++) {
        struct kg_str name;
        const char *value;
        if (kg_option_split(words[i], &name, &value, err) < 0 ||
            kg_option_set(options_rows, name, value, options, err) < 0)
            return -1;
    }
    return 0;
}

int main(int count, char **words)
{
    struct options options;
    struct kg_err err = {0};
    kg_confine(077, 0, OPEN_FILES);
    if (read_options(count, words, &options, &err) < 0)
        return script_leave(err.message);
    struct runner *runner = runner_new(&options, STDIN_FILENO, STDOUT_FILENO, &err);
    if (runner == NULL)
        return script_leave(err.message);
    int result = runner_serve(runner);
    runner_free(runner);
    return result < 0 ? script_leave(strerror(-result)) : 0;
}
