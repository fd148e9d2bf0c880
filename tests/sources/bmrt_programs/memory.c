/* memory STAT: in a device that is full but for 64 pages, more runtimes and launches than these hold. */
#include "bmruntime_interface.h"

int main(int argc, char **argv) {
    bm_handle_t h;
    bm_device_mem_t rest[3];
    float a[60] = {0}, b[12] = {0};
    void *ins[2] = {a, b}, *outs[2];
    bm_shape_t shapes[2] = {{3, {4, 3, 5}}, {2, {2, 6}}}, made[2];
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    /* leave 64 pages of 4 KiB, or the last piece is smaller */
    int left = 64;
    unsigned size[3] = {0xFFFFF000u, 0xFFFFF000u, 0xFAF00000u + 0x2000u - (unsigned)left * 4096u};
    for (int i = 0; i < 3; i++) CHECK(bm_malloc_device_byte(h, &rest[i], size[i]) == BM_SUCCESS);
    for (int i = 0; i < 40; i++) {
        void *rt = bmrt_create(h);
        CHECK(rt != NULL && bmrt_load_bmodel(rt, argv[1]));
        for (int k = 0; k < 3; k++) {
            CHECK(bmrt_launch_data(rt, "stat", ins, shapes, 2, outs, made, 2, false));
            free(outs[0]);
            free(outs[1]);
        }
        bmrt_destroy(rt);
    }
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
