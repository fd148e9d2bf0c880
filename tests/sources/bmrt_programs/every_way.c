/* every_way STAT DYN TWO: loads and runs nets in each of the ways that there are. */
#include "launches.h"

int main(int argc, char **argv) {
    bm_handle_t h;
    CHECK(argc == 4 && bm_dev_request(&h, 0) == BM_SUCCESS);
    void *rt = bmrt_create(h);
    CHECK(rt != NULL && bmrt_get_bm_handle(rt) == (void *)h && bmrt_get_network_number(rt) == 0);
    const char **names = (const char **)argv;
    bmrt_get_network_names(rt, &names);
    CHECK(names == NULL);
    bmrt_set_flags(rt, BM_RUNTIME_SHARE_MEM);
    CHECK(bmrt_get_flags(rt) == BM_RUNTIME_SHARE_MEM);
    CHECK(bmrt_load_bmodel(rt, argv[1]));
    CHECK(launches(h, rt, "stat", 4, 2, 1, true) == 0);
    FILE *file = fopen(argv[2], "rb");
    char *data = (char *)malloc(1 << 20);
    CHECK(file != NULL && data != NULL);
    size_t size = fread(data, 1, 1 << 20, file);
    fclose(file);
    CHECK(bmrt_load_bmodel_data(rt, data, size));
    free(data);
    CHECK(bmrt_load_bmodel(rt, argv[3]));
    CHECK(launches(h, rt, "dyn", 4, 2, 2, true) == 0 && launches(h, rt, "dyn", 1, 2, 3, true) == 0);
    CHECK(launches(h, rt, "dyn", 3, 1, 4, true) == 0 && launches(h, rt, "stat", 4, 2, 5, true) == 0);
    CHECK(bmrt_load_bmodel(rt, argv[1])); /* its net is there */
    CHECK(bmrt_get_network_number(rt) == 4);
    bmrt_get_network_names(rt, &names);
    CHECK(strcmp(names[0], "stat") == 0 && strcmp(names[1], "dyn") == 0);
    CHECK(strcmp(names[2], "one") == 0 && strcmp(names[3], "other") == 0);
    CHECK(bmrt_get_network_index(rt, "other") == 3);
    free(names);
    const bm_net_info_t *info = bmrt_get_network_info(rt, "one");
    CHECK(info == bmrt_get_network_info(rt, "one") && strcmp(info->name, "one") == 0 && !info->is_dynamic);
    CHECK(info->input_num == 1 && info->output_num == 1 && info->stage_num == 2 && info->core_num == 1);
    CHECK(strcmp(info->input_names[0], "x") == 0 && strcmp(info->output_names[0], "y") == 0);
    CHECK(info->input_dtypes[0] == BM_FLOAT32 && info->output_dtypes[0] == BM_FLOAT32);
    CHECK(info->input_scales[0] == 1 && info->output_scales[0] == 1);
    CHECK(info->input_zero_point[0] == 0 && info->output_zero_point[0] == 0);
    CHECK(info->input_loc_devices[0] == 0 && info->output_loc_devices[0] == 0 && info->addr_mode == 0);
    CHECK(info->max_input_bytes[0] == 48 && info->max_output_bytes[0] == 80);
    CHECK(info->stages[1].input_shapes[0].num_dims == 2 && info->stages[1].input_shapes[0].dims[0] == 3);
    CHECK(bmrt_get_network_info(rt, "dyn")->is_dynamic);
    /* the stage that the shape says; the constants stand behind the input's copy */
    for (int rows = 2; rows <= 3; rows++) {
        float x[12], y[20];
        unsigned char *constants = (unsigned char *)(y + 4 * rows);
        bm_shape_t shape = {2, {rows, 4}}, made;
        void *in = x, *out = y;
        for (int i = 0; i < 12; i++) x[i] = (float)(i + 10 * rows);
        CHECK(bmrt_launch_data(rt, "one", &in, &shape, 1, &out, &made, 1, true));
        CHECK(made.dims[0] == rows + 2 && memcmp(x, y, (size_t)rows * 16) == 0);
        for (int i = 0; i < 32; i++) CHECK(constants[i] == i);
    }
    bmrt_show_neuron_network(rt);
    /* a second runtime on the same device has nets of its own, and outlives the first */
    void *again = bmrt_create_ex(&h, 1);
    CHECK(again != NULL && bmrt_load_bmodel(again, argv[1]) && bmrt_get_network_number(again) == 1);
    bmrt_destroy(rt);
    CHECK(launches(h, again, "stat", 4, 2, 6, true) == 0);
    bmrt_destroy(again);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
