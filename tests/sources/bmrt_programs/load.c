/* load BMODEL...: 1 or 0 for each, and the number of nets. */
#include "bmruntime_interface.h"

int main(int argc, char **argv) {
    bm_handle_t h;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL);
    for (int i = 1; i < argc; i++) printf("%d", bmrt_load_bmodel(rt, argv[i]));
    printf(" %d\n", bmrt_get_network_number(rt));
    bmrt_destroy(rt);
    bm_dev_free(h);
    return 0;
}
