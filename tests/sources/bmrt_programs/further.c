/* further STAT DYN TWO: see test_bmrt_c.models */
#include "bmruntime_interface.h"

static uint8_t *turn(const uint8_t *data, uint64_t size, uint64_t *made) {
    uint8_t *out = malloc(size);
    memcpy(out, data, size);
    *made = size;
    return out;
}

static uint8_t *nothing(const uint8_t *data, uint64_t size, uint64_t *made) {
    (void)data;
    *made = size;
    return NULL;
}

int main(int argc, char **argv) {
    bm_handle_t h;
    mem_info_t mem;
    char junk[100] = "junk";
    CHECK(argc == 4 && bm_dev_request(&h, 0) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_get_bmodel_info(argv[1], &mem) && mem.coeff_mem.size > 0 && mem.io_mem.number == 1);
    CHECK(!bmrt_get_bmodel_info("absent.bmodel", &mem) && !bmrt_get_bmodel_data_info(junk, sizeof junk, &mem));
    CHECK(bmrt_load_bmodel_with_mem(rt, argv[1], &mem) && !bmrt_load_bmodel_with_mem(rt, argv[1], NULL));
    CHECK(bmrt_load_bmodel_with_decrypt(rt, argv[2], turn) && !bmrt_load_bmodel_with_decrypt(rt, argv[2], nothing));
    CHECK(!bmrt_load_bmodel_with_decrypt_lib(rt, argv[2], "./absent.so"));
    FILE *file = fopen(argv[3], "rb");
    static char data[1 << 20];
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    CHECK(bmrt_load_bmodel_data_with_mem(rt, data, size, &mem));
    CHECK(bmrt_get_network_number(rt) == 4 && strcmp(bmrt_get_network_name(rt, 2), "one") == 0);
    CHECK(bmrt_get_network_name(rt, 9) == NULL && bmrt_get_network_name(rt, -1) == NULL);
    bm_tensor_t x = {.dtype = BM_FLOAT32, .shape = {2, {3, 4}}};
    CHECK(bmrt_get_stage_index(rt, "one", &x) == 1);
    x.shape.dims[0] = 2;
    CHECK(bmrt_get_stage_index(rt, "one", &x) == 0);
    x.shape.dims[0] = 7;
    CHECK(bmrt_get_stage_index(rt, "one", &x) == -1 && bmrt_get_stage_index(rt, "absent", &x) == -1);

    bm_tensor_t in, out;
    float values[8] = {1, 2, 3, 4, 5, 6, 7, 8}, result[16];
    CHECK(bmrt_pre_alloc_mem_multi_thread(rt, 3, &mem) && !bmrt_pre_alloc_mem_multi_thread(rt, 3, NULL));
    CHECK(bmrt_tensor(&in, rt, BM_FLOAT32, (bm_shape_t){2, {2, 4}}));
    CHECK(bm_memcpy_s2d(h, in.device_mem, values) == BM_SUCCESS);
    CHECK(bmrt_launch_tensor_multi_thread(rt, "other", &in, 1, &out, 1, 3, false, false, NULL, 0));
    CHECK(out.shape.dims[0] == 4 && bm_memcpy_d2s(h, result, out.device_mem) == BM_SUCCESS && result[7] == 8);
    void *in_data[] = {values}, *out_data[] = {result};
    bm_shape_t in_shape = {2, {2, 4}}, out_shape;
    CHECK(bmrt_launch_data_multi_thread(rt, "other", in_data, &in_shape, 1, out_data, &out_shape, 1, 3, true, NULL, 0));
    bm_profile_t profile;
    unsigned long us;
    CHECK(bm_get_profile(h, &profile) == BM_SUCCESS && profile.sent_api_counter == 2);
    CHECK(bm_get_last_api_process_time_us(h, &us) == BM_SUCCESS && us > 0 && us <= profile.tpu_process_time + 1);

    /* out[c][r] = in[r][c] of 2 x 3 of 4 columns, from the second row of out on */
    int one[] = {1};
    bm_shape_t shape = {2, {2, 3}}, from = {2, {4, 1}}, to = {2, {1, 4}};
    size_t at_in[] = {4}, at_out[] = {16};
    CHECK(bmrt_memcpy_d2d_stride_ex_parallel(rt, &out, at_out, &to, &in, at_in, &from, &shape, one, 1));
    CHECK(bm_memcpy_d2s(h, result, out.device_mem) == BM_SUCCESS);
    CHECK(result[4] == 2 && result[5] == 6 && result[8] == 3 && result[9] == 7 && result[12] == 4 && result[13] == 8);
    CHECK(result[3] == 4 && result[6] == 7);
    shape.num_dims = 5;
    CHECK(!bmrt_memcpy_d2d_stride_ex_parallel(rt, &out, at_out, &to, &in, at_in, &from, &shape, one, 1));
    shape.num_dims = 2;
    in.dtype = BM_INT8;
    CHECK(!bmrt_memcpy_d2d_stride_ex_parallel(rt, &out, at_out, &to, &in, at_in, &from, &shape, one, 1));
    bmrt_destroy(rt);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
