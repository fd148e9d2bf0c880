/* contest KERNEL IN OUT_BYTES: IN holds the arguments' numbers, the sizes of three inputs, and these. */
#include "../contest_kernels.c" /* the kernels are part of this program */
#include "bmlib_runtime.h"

int main(int argc, char **argv) {
    struct { unsigned long long place[4]; int number[8]; } __attribute__((packed)) args;
    unsigned size[4] = {(unsigned)atoi(argv[3])};
    bm_handle_t h;
    bm_device_mem_t mem[4];
    FILE *in = fopen(argv[2], "rb");
    CHECK(argc == 4 && in != NULL && fread(args.number, sizeof args.number, 1, in) == 1);
    CHECK(fread(size + 1, sizeof *size, 3, in) == 3 && bm_dev_request(&h, 0) == BM_SUCCESS);
    for (int i = 0; i < 4; i++) {
        char *data = calloc(1, size[i]);
        CHECK(i == 0 || fread(data, 1, size[i], in) == size[i]);
        CHECK(bm_malloc_device_byte(h, &mem[i], size[i]) == BM_SUCCESS && bm_memcpy_s2d(h, mem[i], data) == BM_SUCCESS);
        args.place[i] = bm_mem_get_device_addr(mem[i]);
        free(data);
    }
    fclose(in);
    CHECK(okkernel_launch_sync(h, argv[1], &args, sizeof args) == BM_SUCCESS);
    char *out = malloc(size[0]);
    CHECK(bm_memcpy_d2s(h, out, mem[0]) == BM_SUCCESS);
    FILE *file = fopen(argv[2], "wb");
    CHECK(file != NULL && fwrite(out, 1, size[0], file) == size[0] && fclose(file) == 0);
    bm_dev_free(h);
    return 0;
}
