/* A kernel that tells its process and never ends. */
#include <unistd.h>

#include "bmlib_runtime.h"
#include "okk.h"

void endless(const void *args) {
    (void)args;
    printf("%d\n", getpid());
    for (volatile int i = 0;; i = i + 1) {
    }
}
OKKERNEL_FUNC_REGISTER(endless)

int main(void) {
    bm_handle_t h;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    return okkernel_launch_sync(h, "endless", NULL, 0);
}
