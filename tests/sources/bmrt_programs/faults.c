/* faults FIRMWARE STAT BAD: a net whose run the device refuses; kernels that crash and that never end between runs
 * of a good one. The device goes on, with its memories. */
#include "launches.h"

int main(int argc, char **argv) {
    bm_handle_t h;
    CHECK(argc == 4 && bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(okkernel_load_firmware(h, argv[1], "") == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_load_bmodel(rt, argv[2]) && bmrt_load_bmodel(rt, argv[3]));
    const bm_net_info_t *info = bmrt_get_network_info(rt, "grow");
    bm_tensor_t in, out;
    memset(&out, 0, sizeof out);
    CHECK(info != NULL && bmrt_tensor(&in, rt, BM_FLOAT32, info->stages[0].input_shapes[0]));
    CHECK(!bmrt_launch_tensor(rt, "grow", &in, 1, &out, 1) && bmrt_tensor_device_size(&out) == 0);
    CHECK(launches(h, rt, "stat", 4, 2, 1, true) == 0);
    CHECK(okkernel_launch_async(h, "crash", NULL, 0) == BM_SUCCESS);
    CHECK(launches(h, rt, "stat", 4, 2, 2, true) == 1); /* bm_thread_sync tells of the crash */
    CHECK(launches(h, rt, "stat", 4, 2, 3, true) == 0);
    CHECK(okkernel_launch_sync(h, "endless", NULL, 0) == BM_ERR_TIMEOUT);
    CHECK(launches(h, rt, "stat", 4, 2, 4, true) == 0);
    bmrt_destroy(rt);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
