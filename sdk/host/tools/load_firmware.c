/* load_firmware TCM DDR [DEV_ID]: puts a pair of firmware images onto a device. Written against bmlib's names
 * alone, so that it links with the library of a card as well.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "bmlib_runtime.h"

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: load_firmware firmware_tcm.bin firmware_ddr.bin [DEV_ID]\n");
        return 2;
    }
    long device = 0;
    if (argc == 4) {
        char *end;
        errno = 0;
        device = strtol(argv[3], &end, 10);
        if (*argv[3] == 0 || *end != 0 || errno != 0 || device < 0 || device > INT_MAX) {
            fprintf(stderr, "error: %s is not a device number\n", argv[3]);
            return 2;
        }
    }
    bm_handle_t handle;
    if (bm_dev_request(&handle, (int)device) != BM_SUCCESS) {
        fprintf(stderr, "error: device %ld cannot be opened\n", device);
        return 3;
    }
    bm_status_t status = okkernel_load_firmware(handle, argv[1], argv[2]);
    bm_dev_free(handle);
    if (status != BM_SUCCESS) {
        fprintf(stderr, "error: %s and %s were not loaded into device %ld (status %d)\n", argv[1], argv[2], device,
                (int)status);
        return 1;
    }
    printf("device %ld: loaded %s and %s\n", device, argv[1], argv[2]);
    return 0;
}
