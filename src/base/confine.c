#include "base/confine.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void confine_limit(int resource, int64_t value)
{
    struct rlimit both = {(rlim_t)value, (rlim_t)value};
    setrlimit(resource, &both);
}

void kg_confine(mode_t mask, int64_t file_bytes_max, int64_t open_files_max)
{
    umask(mask);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    confine_limit(RLIMIT_CORE, 0);
    confine_limit(RLIMIT_FSIZE, file_bytes_max);
    confine_limit(RLIMIT_NOFILE, open_files_max);
}
