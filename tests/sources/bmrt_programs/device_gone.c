/* device_gone STAT: the device's process (its number is in $PID_FILE) gets $SIGNAL between two launches. */
#include "launches.h"

int main(int argc, char **argv) {
    bm_handle_t h;
    int pid;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(bmrt_load_bmodel(rt, argv[1]) && launches(h, rt, "stat", 4, 2, 1, true) == 0);
    FILE *file = fopen(getenv("PID_FILE"), "r");
    CHECK(file != NULL && fscanf(file, "%d", &pid) == 1);
    setenv("TPULAYER_HOST_LIMIT", "2", 1); /* not before: on a busy machine all takes seconds */
    CHECK(kill(pid, atoi(getenv("SIGNAL"))) == 0);
    bm_tensor_t in[2], out[2];
    memset(in, 0, sizeof in);
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2) && !bmrt_load_bmodel(rt, argv[1]));
    CHECK(bmrt_get_network_info(rt, "stat") != NULL);
    bmrt_destroy(rt);
    bm_dev_free(h);
    CHECK(kill(pid, 0) != 0);
    printf("ok\n");
    return 0;
}
