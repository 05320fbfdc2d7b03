/* Where what came with the program is: SDKs, templates, plugins. */
#include "config/config.h"

#include <stdlib.h>
#include <sys/stat.h>

/* Beside the program, in the source tree as in an installation, wherever that was moved to. */
char *config_share_dir(void)
{
    static const char *const beside[] = {
        "../share/kaged",
#ifdef KAGED_TEST_LAYOUT
        "../../share/kaged", /* the tests have folders of their own */
#endif
    };
    const char *told = getenv("KAGED_SHARE");
    kg_auto(kg_free) char *self = realpath("/proc/self/exe", NULL);
    char *slash = self != NULL ? strrchr(self, '/') : NULL;
    if (told != NULL)
        return kg_strdup(told);
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; slash != NULL && i < KG_COUNT(beside); i++) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", self, beside[i]);
        kg_auto(kg_free) char *sdk = kg_format("%s/sdk", path);
        struct stat there;
        if (stat(sdk, &there) == 0 && S_ISDIR(there.st_mode))
            return kg_steal(&path);
    }
    return kg_strdup(KAGED_SHARE_DIR);
}
