/* Offsets on a machine of 64 bits, where programs and other libraries expect them. */
#include "bmruntime_interface.h"
#include <stddef.h>
#define AT(type, field, offset) CHECK(offsetof(type, field) == offset)
int main(void) {
    CHECK(sizeof(bm_shape_t) == 36 && sizeof(bm_shape_ex_t) == 40 && sizeof(bm_device_mem_t) == 24);
    CHECK(sizeof(bm_tensor_t) == 72 && sizeof(bm_stage_info_t) == 32 && sizeof(bm_net_info_t) == 144);
    AT(bm_tensor_t, shape, 4); AT(bm_tensor_t, device_mem, 40); AT(bm_tensor_t, st_mode, 64);
    AT(bm_stage_info_t, output_shapes, 8); AT(bm_stage_info_t, input_mems, 16);
    AT(bm_net_info_t, is_dynamic, 8); AT(bm_net_info_t, input_num, 12); AT(bm_net_info_t, input_names, 16);
    AT(bm_net_info_t, input_dtypes, 24); AT(bm_net_info_t, input_scales, 32); AT(bm_net_info_t, output_num, 40);
    AT(bm_net_info_t, output_names, 48); AT(bm_net_info_t, output_dtypes, 56); AT(bm_net_info_t, output_scales, 64);
    AT(bm_net_info_t, stage_num, 72); AT(bm_net_info_t, stages, 80); AT(bm_net_info_t, max_input_bytes, 88);
    AT(bm_net_info_t, max_output_bytes, 96); AT(bm_net_info_t, input_zero_point, 104);
    AT(bm_net_info_t, output_zero_point, 112); AT(bm_net_info_t, input_loc_devices, 120);
    AT(bm_net_info_t, output_loc_devices, 128); AT(bm_net_info_t, core_num, 136); AT(bm_net_info_t, addr_mode, 140);
    return 0;
}
