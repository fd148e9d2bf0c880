/* Running a net on tensors in device memory or on data of the host. */
#include "bmrt_internal.h"

#include <stdlib.h>
#include <string.h>

static wire_tensor to_wire(const bm_tensor_t *t, bool with_memory_only) {
    wire_tensor w;
    memset(&w, 0, sizeof w);
    w.addr = bm_mem_get_device_addr(t->device_mem);
    w.size = bm_mem_get_device_size(t->device_mem);
    w.st_mode = (int32_t)t->st_mode;
    if (with_memory_only) return w;
    w.dtype = (int32_t)t->dtype;
    w.num_dims = t->shape.num_dims;
    for (int i = 0; i < BM_MAX_DIMS_NUM; i++) w.dims[i] = i < t->shape.num_dims ? t->shape.dims[i] : 0;
    return w;
}

static bool on_device(const bm_tensor_t *t, const char *what, int index, const char *function) {
    if (bm_mem_get_type(t->device_mem) == BM_MEM_TYPE_DEVICE) return true;
    return bmrt_say(function, "%s[%d]: the memory is not the device's", what, index);
}

static bool check_cores(const int *core_list, int core_num, const char *function) {
    if (core_num < 0 || (core_num > 0 && core_list == NULL))
        return bmrt_say(function, "core_list is NULL with core_num %d", core_num);
    for (int i = 0; i < core_num; i++)
        if (core_list[i] != 0 || i > 0)
            return bmrt_say(function, "core_list[%d] is %d of %d; a BM1684 has core 0 alone", i, core_list[i],
                            core_num);
    return true;
}

/* *ran, or NULL: whether there are outputs; so it is, too, where checks found something and false is returned. */
static bool launch(void *p_bmrt, const char *net_name, const bm_tensor_t inputs[], int input_num,
                   bm_tensor_t outputs[], int output_num, bool user_mem, bool user_stmode, bool *ran,
                   const char *function) {
    const bm_net_info_t *info = bmrt_find(p_bmrt, net_name, function);
    if (info == NULL) return false;
    if (inputs == NULL) return bmrt_say(function, "input_tensors is NULL");
    if (outputs == NULL) return bmrt_say(function, "output_tensors is NULL");
    if (input_num != info->input_num)
        return bmrt_say(function, "net '%s' has %d inputs, input_num is %d", info->name, info->input_num, input_num);
    if (output_num != info->output_num)
        return bmrt_say(function, "net '%s' has %d outputs, output_num is %d", info->name, info->output_num,
                        output_num);
    uint64_t number;
    bm_handle_t handle = bmrt_handle(p_bmrt, 0, &number, function);
    if (handle == NULL) return false;
    size_t total = (size_t)input_num + (size_t)output_num;
    wire_tensor *tensors = calloc(total + 1, sizeof *tensors);
    if (tensors == NULL) return bmrt_say(function, "out of memory");
    bool good = true;
    size_t came = 0;
    for (int i = 0; i < input_num && good; i++) {
        good = on_device(&inputs[i], "input_tensors", i, function);
        tensors[i] = to_wire(&inputs[i], false);
    }
    for (int i = 0; i < output_num && good; i++) {
        wire_tensor *wanted = &tensors[input_num + i];
        if (user_mem) good = on_device(&outputs[i], "output_tensors", i, function);
        *wanted = to_wire(&outputs[i], true);
        wanted->given = user_mem;
        if (!user_stmode) wanted->st_mode = BM_STORE_1N;
    }
    question q = {.library = "bmrt",
                  .function = function,
                  .head = {.op = OP_RUN_NET,
                           .a = number,
                           .b = (uint64_t)input_num,
                           .c = (uint64_t)output_num,
                           .data_bytes = total * sizeof *tensors},
                  .launches = true,
                  .text = net_name,
                  .data = tensors,
                  .out = tensors, /* the request is sent when the reply comes */
                  .capacity = (size_t)output_num * sizeof *tensors,
                  .came = &came};
    good = good && tpulayer_ask(handle, &q) == BM_SUCCESS;
    bool made = came == (size_t)output_num * sizeof *tensors;
    if (ran != NULL) *ran = made;
    for (int i = 0; i < output_num && made; i++) {
        outputs[i].dtype = (bm_data_type_t)tensors[i].dtype;
        outputs[i].st_mode = (bm_store_mode_t)tensors[i].st_mode;
        memset(&outputs[i].shape, 0, sizeof outputs[i].shape);
        outputs[i].shape.num_dims = tensors[i].num_dims;
        memcpy(outputs[i].shape.dims, tensors[i].dims, sizeof tensors[i].dims);
        if (!user_mem) outputs[i].device_mem = bm_mem_from_device(tensors[i].addr, (unsigned int)tensors[i].size);
    }
    free(tensors);
    return good;
}

bool bmrt_launch_tensor(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                        bm_tensor_t output_tensors[], int output_num) {
    return launch(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, false, false, NULL,
                  __func__);
}

bool bmrt_launch_tensor_ex(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                           bm_tensor_t output_tensors[], int output_num, bool user_mem, bool user_stmode) {
    return launch(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, user_mem, user_stmode,
                  NULL, __func__);
}

bool bmrt_launch_tensor_multi_cores(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                    int input_num, bm_tensor_t output_tensors[], int output_num, bool user_mem,
                                    bool user_stmode, const int *core_list, int core_num) {
    return check_cores(core_list, core_num, __func__) &&
           launch(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, user_mem, user_stmode,
                  NULL, __func__);
}

bool bmrt_launch_tensor_multi_thread(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                     int input_num, bm_tensor_t output_tensors[], int output_num,
                                     uint64_t thread_idx, bool user_mem, bool user_stmode, const int *core_list,
                                     int core_num) {
    (void)thread_idx;
    return check_cores(core_list, core_num, __func__) &&
           launch(p_bmrt, net_name, input_tensors, input_num, output_tensors, output_num, user_mem, user_stmode,
                  NULL, __func__);
}

bool bmrt_pre_alloc_mem_multi_thread(void *p_bmrt, uint64_t thread_idx, const mem_info_t *mem_info) {
    (void)thread_idx;
    if (mem_info == NULL) return bmrt_say(__func__, "mem_info is NULL");
    return bmrt_handle(p_bmrt, 0, NULL, __func__) != NULL;
}

bool bmrt_pre_alloc_neuron_multi_cores(void *p_bmrt, const char *net_name, int stage_idx, const int *core_list,
                                       int core_num) {
    const bm_net_info_t *info = bmrt_find(p_bmrt, net_name, __func__);
    if (info == NULL || !check_cores(core_list, core_num, __func__)) return false;
    if (stage_idx >= 0 && stage_idx < info->stage_num) return true;
    return bmrt_say(__func__, "net '%s' has no stage %d; it has %d, counted from 0", info->name, stage_idx,
                    info->stage_num);
}

/* ---- data of the host ---- */

typedef struct {
    bm_handle_t handle;
    bm_tensor_t *tensors; /* inputs, then outputs; those with memory of size 0 have none */
    int count;
} device_tensors;

static void free_tensors(device_tensors *d) {
    for (int i = 0; i < d->count; i++)
        if (bm_mem_get_device_size(d->tensors[i].device_mem) > 0) bm_free_device(d->handle, d->tensors[i].device_mem);
    free(d->tensors);
}

static bool fetch(bm_handle_t handle, const bm_tensor_t *t, void **data, bool user_mem, const char *function) {
    size_t bytes = bmrt_tensor_bytesize(t);
    void *to = user_mem ? *data : malloc(bytes + 1);
    if (to == NULL) return bmrt_say(function, "out of memory");
    if (bm_memcpy_d2s_partial(handle, to, t->device_mem, (unsigned int)bytes) != BM_SUCCESS) {
        if (!user_mem) free(to);
        return false;
    }
    *data = to;
    return true;
}

static bool launch_data(void *p_bmrt, const char *net_name, void *const input_datas[],
                        const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                        bm_shape_t output_shapes[], int output_num, bool user_mem, const char *function) {
    const bm_net_info_t *info = bmrt_find(p_bmrt, net_name, function);
    if (info == NULL) return false;
    if (input_datas == NULL || input_shapes == NULL || output_datas == NULL || output_shapes == NULL)
        return bmrt_say(function, "an array of datas or shapes is NULL");
    if (input_num != info->input_num || output_num != info->output_num)
        return bmrt_say(function, "net '%s' has %d inputs and %d outputs, input_num is %d and output_num %d",
                        info->name, info->input_num, info->output_num, input_num, output_num);
    for (int i = 0; i < input_num; i++)
        if (input_datas[i] == NULL) return bmrt_say(function, "input_datas[%d] is NULL", i);
    for (int i = 0; i < output_num && user_mem; i++)
        if (output_datas[i] == NULL) return bmrt_say(function, "output_datas[%d] is NULL", i);
    device_tensors d = {.handle = bmrt_handle(p_bmrt, 0, NULL, function), .count = input_num + output_num};
    if (d.handle == NULL) return false;
    d.tensors = calloc((size_t)d.count + 1, sizeof *d.tensors);
    if (d.tensors == NULL) return bmrt_say(function, "out of memory");
    bool good = true;
    for (int i = 0; i < input_num && good; i++)
        good = bmrt_tensor(&d.tensors[i], p_bmrt, info->input_dtypes[i], input_shapes[i]) &&
               bm_memcpy_s2d(d.handle, d.tensors[i].device_mem, input_datas[i]) == BM_SUCCESS;
    bm_tensor_t *outputs = d.tensors + input_num;
    bool ran = false;
    bool clean = good && launch(p_bmrt, net_name, d.tensors, input_num, outputs, output_num, false, false, &ran,
                                function);
    good = ran;
    int fetched = 0;
    for (; good && fetched < output_num; fetched++) {
        good = fetch(d.handle, &outputs[fetched], &output_datas[fetched], user_mem, function);
        if (!good) break;
        output_shapes[fetched] = outputs[fetched].shape;
    }
    for (int i = 0; i < fetched && !good && !user_mem; i++) {
        free(output_datas[i]);
        output_datas[i] = NULL;
    }
    free_tensors(&d);
    return good && clean;
}

bool bmrt_launch_data(void *p_bmrt, const char *net_name, void *const input_datas[],
                      const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                      bm_shape_t output_shapes[], int output_num, bool user_mem) {
    return launch_data(p_bmrt, net_name, input_datas, input_shapes, input_num, output_datas, output_shapes,
                       output_num, user_mem, __func__);
}

bool bmrt_launch_data_multi_cores(void *p_bmrt, const char *net_name, void *const input_datas[],
                                  const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                  bm_shape_t output_shapes[], int output_num, bool user_mem, const int *core_list,
                                  int core_num) {
    return check_cores(core_list, core_num, __func__) &&
           launch_data(p_bmrt, net_name, input_datas, input_shapes, input_num, output_datas, output_shapes,
                       output_num, user_mem, __func__);
}

bool bmrt_launch_data_multi_thread(void *p_bmrt, const char *net_name, void *const input_datas[],
                                   const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                   bm_shape_t output_shapes[], int output_num, uint64_t thread_idx, bool user_mem,
                                   const int *core_list, int core_num) {
    (void)thread_idx;
    return check_cores(core_list, core_num, __func__) &&
           launch_data(p_bmrt, net_name, input_datas, input_shapes, input_num, output_datas, output_shapes,
                       output_num, user_mem, __func__);
}
