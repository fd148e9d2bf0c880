/* one BMODEL NET: a net that computes what stat does, in each way that there is. */
#include "launches.h"

int main(int argc, char **argv) {
    bm_handle_t h;
    CHECK(argc == 3 && bm_dev_request(&h, 0) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_load_bmodel(rt, argv[1]));
    CHECK(launches(h, rt, argv[2], 4, 2, 1, true) == 0);
    bmrt_destroy(rt);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
