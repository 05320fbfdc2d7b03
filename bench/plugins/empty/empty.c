#include <kaged-plugin.h>

static int empty(struct kaged_call *call)
{
    (void)call;
    return 0;
}

int main(void)
{
    return kaged_run(&(struct kaged_plugin){
        .name = "empty-c",
        .version = "1.0.0",
        .methods = (const struct kaged_entry[]){{"empty.call", empty}, {NULL, NULL}},
    });
}
