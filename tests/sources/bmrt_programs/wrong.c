/* wrong STAT LAYER: each mistake is refused, and the device goes on. */
#include "launches.h"

int main(int argc, char **argv) {
    bm_handle_t h, none = NULL;
    char foreign[256] = {0};
    bm_tensor_t in[2], out[2], saved;
    bm_shape_t shape, shapes[2] = {{3, {4, 3, 5}}, {2, {2, 6}}}, made[2];
    float a[60] = {0}, b[12] = {0};
    void *ins[2] = {a, b}, *outs[2] = {NULL, NULL};
    const char **names = (const char **)argv;
    CHECK(argc == 3 && bmrt_create(NULL) == NULL && bmrt_create((bm_handle_t)(void *)foreign) == NULL);
    CHECK(bmrt_create_ex(NULL, 1) == NULL && bmrt_create_ex(&none, 1) == NULL);
    bmrt_destroy(NULL);
    bmrt_destroy(foreign);
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS && bmrt_create_ex(&h, 0) == NULL);
    void *rt = bmrt_create(h);
    CHECK(!bmrt_load_bmodel(NULL, argv[1]) && !bmrt_load_bmodel(foreign, argv[1]) && !bmrt_load_bmodel(rt, NULL));
    CHECK(!bmrt_load_bmodel(rt, "") && !bmrt_load_bmodel(rt, "absent.bmodel") && !bmrt_load_bmodel(rt, "/"));
    CHECK(!bmrt_load_bmodel_data(rt, NULL, 5) && !bmrt_load_bmodel_data(rt, a, 0));
    CHECK(!bmrt_load_bmodel_data(rt, a, sizeof a)); /* no bmodel */
    CHECK(!bmrt_load_bmodel(rt, argv[2]));          /* a layer that the firmware has not */
    CHECK(bmrt_get_network_number(rt) == 0 && bmrt_get_network_number(NULL) == 0);
    CHECK(bmrt_load_bmodel(rt, argv[1]));
    bmrt_show_neuron_network(NULL);
    bmrt_print_network_info(NULL);
    bmrt_trace(NULL);
    bmrt_get_network_names(rt, NULL);
    bmrt_get_network_names(foreign, &names);
    CHECK(names == NULL && bmrt_get_network_info(rt, "absent") == NULL && bmrt_get_network_info(rt, NULL) == NULL);
    CHECK(bmrt_get_network_info(NULL, "stat") == NULL && bmrt_get_network_index(rt, "absent") == -1);
    /* tensors */
    CHECK(!bmrt_tensor(NULL, rt, BM_FLOAT32, shapes[0]) && !bmrt_tensor(in, NULL, BM_FLOAT32, shapes[0]));
    CHECK(!bmrt_tensor(in, rt, (bm_data_type_t)11, shapes[0]) && bmrt_tensor_device_size(in) == 0);
    CHECK(!bmrt_tensor_ex(in, rt, 1, BM_FLOAT32, shapes[0]) && !bmrt_tensor_ex(in, rt, -1, BM_FLOAT32, shapes[0]));
    shape.num_dims = 9;
    CHECK(!bmrt_tensor(in, rt, BM_FLOAT32, shape) && bmrt_shape_count(&shape) == 0 && bmrt_shape_count(NULL) == 0);
    bm_shape_t huge = {3, {65536, 65536, 1}}, nothing = {2, {3, 0}}, beyond = {8, {65536, 65536, 65536, 65536, 2}};
    CHECK(!bmrt_tensor(in, rt, BM_FLOAT32, huge) && bmrt_shape_count(&huge) == 1ull << 32);
    CHECK(!bmrt_tensor(in, rt, BM_FLOAT32, nothing) && bmrt_shape_count(&nothing) == 0);
    CHECK(bmrt_shape_count(&beyond) == 0);
    CHECK(!bmrt_shape_is_same(NULL, &shape) && !bmrt_shape_is_same(&shape, &shape));
    int dims[3] = {3, 0, 1};
    bmrt_shape(&shape, dims, 3);
    CHECK(shape.num_dims == 0);
    bmrt_shape(&shape, dims, 1);
    CHECK(shape.num_dims == 1 && shape.dims[0] == 3);
    bmrt_shape(&shape, dims, 9);
    bmrt_shape(&shape, NULL, 1);
    bmrt_shape(NULL, dims, 1);
    CHECK(bmrt_data_type_size((bm_data_type_t)-1) == 0 && bmrt_tensor_bytesize(NULL) == 0);
    CHECK(bmrt_tensor_device_size(NULL) == 0);
    for (int i = 0; i < 2; i++) CHECK(bmrt_tensor(&in[i], rt, BM_FLOAT32, shapes[i]));
    bmrt_tensor_with_device(&saved, in[1].device_mem, BM_FLOAT32, shapes[0]);
    CHECK(bmrt_tensor_device_size(&saved) == 0);
    bmrt_tensor_with_device(NULL, in[1].device_mem, BM_FLOAT32, shapes[0]);
    /* launches */
    CHECK(!bmrt_launch_tensor(NULL, "stat", in, 2, out, 2) && !bmrt_launch_tensor(rt, NULL, in, 2, out, 2));
    CHECK(!bmrt_launch_tensor(rt, "absent", in, 2, out, 2));
    CHECK(!bmrt_launch_tensor(rt, "stat", NULL, 2, out, 2) && !bmrt_launch_tensor(rt, "stat", in, 2, NULL, 2));
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 1, out, 2) && !bmrt_launch_tensor(rt, "stat", in, 2, out, 3));
    saved = in[0];
    in[0].dtype = BM_INT8;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0].dtype = (bm_data_type_t)99;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0] = saved;
    in[0].st_mode = BM_STORE_4N;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0] = saved;
    in[0].shape.dims[0] = 3;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0].shape.dims[0] = -1;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0].shape.num_dims = 100;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0] = saved;
    in[0].shape.dims[0] = 1 << 30;
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0] = saved;
    bm_mem_set_device_addr(&in[0].device_mem, 64); /* not in the device's memory */
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0].device_mem = bm_mem_from_system(a);
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    in[0] = saved;
    memset(out, 0, sizeof out);
    CHECK(!bmrt_launch_tensor_ex(rt, "stat", in, 2, out, 2, true, false)); /* outputs without memory */
    out[1].st_mode = BM_STORE_2N;
    CHECK(!bmrt_launch_tensor_ex(rt, "stat", in, 2, out, 2, false, true));
    int cores[2] = {0, 1};
    CHECK(!bmrt_launch_tensor_multi_cores(rt, "stat", in, 2, out, 2, false, false, cores, 2));
    CHECK(!bmrt_launch_tensor_multi_cores(rt, "stat", in, 2, out, 2, false, false, cores + 1, 1));
    CHECK(!bmrt_launch_tensor_multi_cores(rt, "stat", in, 2, out, 2, false, false, NULL, 1));
    CHECK(!bmrt_pre_alloc_neuron_multi_cores(rt, "stat", 1, cores, 1));
    CHECK(bmrt_pre_alloc_neuron_multi_cores(rt, "stat", 0, cores, 1));
    CHECK(!bmrt_launch_data(rt, "stat", NULL, shapes, 2, outs, made, 2, false));
    CHECK(!bmrt_launch_data(rt, "stat", ins, shapes, 1, outs, made, 2, false));
    CHECK(!bmrt_launch_data(rt, "stat", ins, shapes, 2, outs, made, 2, true));
    float more[60] = {0};
    bm_shape_t other[2] = {shapes[1], shapes[0]};
    ins[1] = more;
    CHECK(!bmrt_launch_data(rt, "stat", ins, other, 2, outs, made, 2, false) && outs[0] == NULL);
    ins[1] = NULL;
    CHECK(!bmrt_launch_data(rt, "stat", ins, shapes, 2, outs, made, 2, false));
    int numbers[2] = {2, 1};
    CHECK(!bmrt_memcpy_s2d_parallel(rt, in, NULL, numbers, 1) && !bmrt_memcpy_d2s_parallel(rt, outs, in, NULL, 1));
    /* all that left the device as it was */
    CHECK(launches(h, rt, "stat", 4, 2, 1, true) == 0);
    bm_free_device(h, in[0].device_mem);
    bm_free_device(h, in[1].device_mem);
    /* the device goes before the runtime */
    bm_dev_free(h);
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2) && !bmrt_load_bmodel(rt, argv[1]));
    CHECK(bmrt_get_network_number(rt) == 1);
    bmrt_destroy(rt);
    bmrt_destroy(rt);
    CHECK(!bmrt_launch_tensor(rt, "stat", in, 2, out, 2));
    printf("ok\n");
    return 0;
}
