// The kernel `crash` of kernels.h, launched by a program that has it inside.
#include "bmlib_runtime.h"

int main() {
    bm_handle_t h;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "crash", nullptr, 0) == BM_ERR_FAILURE);
    bm_dev_free(h);
    return 0;
}
