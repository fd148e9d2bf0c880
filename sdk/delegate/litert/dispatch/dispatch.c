/* libLiteRtDispatch_TpuLayer.so: LiteRT's runtime runs the partitions that the compiler plugin made.
 *
 * Tensors stay in LiteRT's host memory; libtpulayer_delegate copies once each way. A failure is a status for LiteRT, and
 * its reason one line on stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litert_dispatch.h"
#include "tpulayer_delegate.h"

enum { DEVICE = 0, METRICS = 6 };

typedef struct {
    const litert_runtime *runtime;
    tpld_partition *partition;
    int input_num, output_num;
    litert_handle *inputs, *outputs; /* LiteRT's buffers */
    void **memory;                   /* of the buffers, inputs first */
    tpld_counters_info before;       /* when metrics were started */
} invocation;

typedef struct {
    litert_metric items[METRICS];
} metrics;

static litert_status failed(const char *what, int status) {
    const char *why = tpld_last_error();
    fprintf(stderr, "tpulayer: LiteRT: %s: %s\n", what, *why != 0 ? why : tpld_status_text(status));
    switch (status) {
    case TPLD_BAD_ARGUMENT:
    case TPLD_BAD_SHAPES: return LITERT_BAD_ARGUMENT;
    case TPLD_BAD_PROGRAM: return LITERT_WRONG_VERSION;
    default: return LITERT_FAILURE;
    }
}

static litert_status refused(const char *what) {
    fprintf(stderr, "tpulayer: LiteRT: %s\n", what);
    return LITERT_BAD_ARGUMENT;
}

static litert_status initialize(const litert_runtime *runtime, litert_handle environment, litert_handle options) {
    (void)environment;
    (void)options;
    if (runtime == NULL || runtime->abi.struct_size < sizeof *runtime) {
        refused("this LiteRT is too old: its runtime gives fewer functions than 2.2 does");
        return LITERT_WRONG_VERSION;
    }
    return LITERT_OK;
}

static litert_status get_vendor_id(const char **id) {
    *id = "TpuLayer";
    return LITERT_OK;
}

static litert_status get_build_id(const char **id) {
    *id = tpld_version();
    return LITERT_OK;
}

static litert_status get_capabilities(int *capabilities) {
    *capabilities = LITERT_DISPATCH_BASIC;
    return LITERT_OK;
}

static litert_status device_create(const litert_runtime *runtime, litert_handle options, litert_handle *device) {
    (void)runtime;
    (void)options;
    int status = tpld_open_device(DEVICE);
    if (status != TPLD_OK) return failed("no device", status);
    static int token; /* the device is the process's own; LiteRT wants a handle that is not NULL */
    *device = &token;
    return LITERT_OK;
}

static litert_status device_destroy(litert_handle device) {
    (void)device;
    return LITERT_OK;
}

static litert_status requirements(litert_handle handle, const tpld_tensor *tensor, const litert_ranked *type,
                                  litert_handle *made) {
    invocation *i = handle;
    (void)type;
    const int host = LITERT_HOST_MEMORY;
    return i->runtime->create_requirements(1, &host, (size_t)tensor->bytes, 0, NULL, made);
}

static litert_status get_input_requirements(litert_handle handle, int index, const litert_ranked *type,
                                            litert_handle *made) {
    tpld_tensor tensor;
    int status = tpld_input(((invocation *)handle)->partition, index, &tensor);
    return status == TPLD_OK ? requirements(handle, &tensor, type, made) : failed("an input", status);
}

static litert_status get_output_requirements(litert_handle handle, int index, const litert_ranked *type,
                                             litert_handle *made) {
    tpld_tensor tensor;
    int status = tpld_output(((invocation *)handle)->partition, index, &tensor);
    return status == TPLD_OK ? requirements(handle, &tensor, type, made) : failed("an output", status);
}

static litert_status register_buffer(litert_handle device, litert_handle buffer, uint64_t *handle) {
    (void)device;
    *handle = (uint64_t)(uintptr_t)buffer;
    return LITERT_OK;
}

static litert_status unregister_buffer(litert_handle device, uint64_t handle) {
    (void)device;
    (void)handle;
    return LITERT_OK;
}

static litert_status invocation_destroy(litert_handle handle) {
    invocation *i = handle;
    if (i == NULL) return LITERT_OK;
    tpld_destroy(i->partition);
    free(i->inputs);
    free(i->outputs);
    free(i->memory);
    free(i);
    return LITERT_OK;
}

static litert_status check_numbers(const invocation *i) {
    int inputs = tpld_input_num(i->partition), outputs = tpld_output_num(i->partition);
    if (inputs == i->input_num && outputs == i->output_num) return LITERT_OK;
    fprintf(stderr, "tpulayer: LiteRT: %s has %d inputs and %d outputs, the model calls it with %d and %d\n",
            tpld_name(i->partition), inputs, outputs, i->input_num, i->output_num);
    return LITERT_WRONG_VERSION;
}

static litert_status invocation_create(const litert_runtime *runtime, litert_handle device, int type,
                                       const litert_memory *bytecode, const char *function, int input_num,
                                       int output_num, litert_handle *made) {
    (void)device;
    (void)type;
    if (bytecode == NULL || bytecode->base == NULL || input_num < 0 || output_num < 0)
        return refused("a partition without bytes");
    invocation *i = calloc(1, sizeof *i);
    if (i == NULL) return LITERT_NO_MEMORY;
    i->runtime = runtime;
    i->input_num = input_num;
    i->output_num = output_num;
    i->inputs = calloc((size_t)input_num + 1, sizeof *i->inputs);
    i->outputs = calloc((size_t)output_num + 1, sizeof *i->outputs);
    i->memory = calloc((size_t)input_num + (size_t)output_num + 1, sizeof *i->memory);
    litert_status status = LITERT_NO_MEMORY;
    if (i->inputs != NULL && i->outputs != NULL && i->memory != NULL) {
        const char *program = (const char *)bytecode->base + bytecode->offset;
        int loaded = tpld_load(DEVICE, program, bytecode->size, function, &i->partition);
        status = loaded == TPLD_OK ? check_numbers(i) : failed(function == NULL ? "a partition" : function, loaded);
    }
    if (status != LITERT_OK) {
        invocation_destroy(i);
        return status;
    }
    *made = i;
    return LITERT_OK;
}

static litert_status set_scheduling(litert_handle handle, const void *scheduling) {
    (void)handle;
    (void)scheduling; /* one partition runs after the other, in the order of the calls */
    return LITERT_OK;
}

static litert_status attach(litert_handle *buffers, int num, int index, uint64_t handle) {
    if (index < 0 || index >= num) return LITERT_INDEX;
    buffers[index] = (litert_handle)(uintptr_t)handle;
    return LITERT_OK;
}

static litert_status attach_input(litert_handle handle, int index, uint64_t buffer) {
    invocation *i = handle;
    return attach(i->inputs, i->input_num, index, buffer);
}

static litert_status attach_output(litert_handle handle, int index, uint64_t buffer) {
    invocation *i = handle;
    return attach(i->outputs, i->output_num, index, buffer);
}

static litert_status detach_input(litert_handle handle, int index, uint64_t buffer) {
    (void)buffer;
    return attach_input(handle, index, 0);
}

static litert_status detach_output(litert_handle handle, int index, uint64_t buffer) {
    (void)buffer;
    return attach_output(handle, index, 0);
}

/* The memory of one buffer, which must be as large as the tensor. It is not locked: LiteRT holds the lock of a buffer that
 * its own kernels use in the same run. */
static litert_status find_memory(const invocation *i, litert_handle buffer, const tpld_tensor *tensor, void **memory) {
    size_t size;
    if (buffer == NULL) return refused("a buffer is not attached");
    if (i->runtime->get_packed_size(buffer, &size) != LITERT_OK || i->runtime->get_host_memory(buffer, memory) != LITERT_OK)
        return refused("a buffer is not in the host's memory");
    if (size == tensor->bytes) return LITERT_OK;
    fprintf(stderr, "tpulayer: LiteRT: %s has %llu bytes, the buffer %zu\n", tensor->name,
            (unsigned long long)tensor->bytes, size);
    return LITERT_BAD_ARGUMENT;
}

static litert_status find_all(const invocation *i) {
    tpld_tensor tensor;
    litert_status status = LITERT_OK;
    for (int k = 0; k < i->input_num && status == LITERT_OK; k++) {
        int known = tpld_input(i->partition, k, &tensor);
        status = known == TPLD_OK ? find_memory(i, i->inputs[k], &tensor, &i->memory[k]) : failed("an input", known);
    }
    for (int k = 0; k < i->output_num && status == LITERT_OK; k++) {
        int known = tpld_output(i->partition, k, &tensor);
        void **memory = &i->memory[i->input_num + k];
        status = known == TPLD_OK ? find_memory(i, i->outputs[k], &tensor, memory) : failed("an output", known);
    }
    return status;
}

static litert_status invoke(litert_handle handle) {
    invocation *i = handle;
    litert_status status = find_all(i);
    if (status != LITERT_OK) return status;
    int ran = tpld_execute(i->partition, (const void *const *)i->memory, i->memory + i->input_num);
    return ran == TPLD_OK ? LITERT_OK : failed(tpld_name(i->partition), ran);
}

static litert_status start_metrics(litert_handle handle, int detail) {
    invocation *i = handle;
    (void)detail;
    int status = tpld_counters(i->partition, &i->before);
    return status == TPLD_OK ? LITERT_OK : failed("metrics", status);
}

static litert_status stop_metrics(litert_handle handle, litert_handle *made) {
    const invocation *i = handle;
    tpld_counters_info now, was = i->before;
    int status = tpld_counters(i->partition, &now);
    if (status != TPLD_OK) return failed("metrics", status);
    metrics *m = calloc(1, sizeof *m);
    if (m == NULL) return LITERT_NO_MEMORY;
    const struct {
        const char *name;
        uint64_t value;
    } found[METRICS] = {
        {"tpulayer_runs", now.runs - was.runs},
        {"tpulayer_commands", now.commands - was.commands},
        {"tpulayer_modelled_ns", now.ns - was.ns},
        {"tpulayer_bytes_in", now.bytes_in - was.bytes_in},
        {"tpulayer_bytes_out", now.bytes_out - was.bytes_out},
        {"tpulayer_copy_ns", now.copy_wall_ns - was.copy_wall_ns},
    };
    for (int k = 0; k < METRICS; k++) {
        m->items[k].name = found[k].name;
        m->items[k].value.type = LITERT_ANY_INT;
        m->items[k].value.number = (int64_t)found[k].value;
    }
    *made = m;
    return LITERT_OK;
}

static litert_status get_num_metrics(litert_handle handle, int *num) {
    (void)handle;
    *num = METRICS;
    return LITERT_OK;
}

static litert_status get_metric(litert_handle handle, int index, litert_metric *metric) {
    if (index < 0 || index >= METRICS) return LITERT_INDEX;
    *metric = ((const metrics *)handle)->items[index];
    return LITERT_OK;
}

static litert_status destroy_metrics(litert_handle handle) {
    free(handle);
    return LITERT_OK;
}

static litert_status check_runtime(litert_version version, litert_handle environment, litert_handle options) {
    (void)environment;
    (void)options;
    return version.major == 0 ? LITERT_OK : LITERT_WRONG_VERSION;
}

static litert_status set_options(litert_handle handle, litert_handle options) {
    (void)handle;
    (void)options;
    return LITERT_OK;
}

LITERT_EXPORT litert_status LiteRtDispatchGetApi(litert_dispatch_api *api) {
    static const litert_dispatch interface = {
        .initialize = initialize,
        .get_vendor_id = get_vendor_id,
        .get_build_id = get_build_id,
        .get_capabilities = get_capabilities,
        .device_create = device_create,
        .device_destroy = device_destroy,
        .get_input_requirements = get_input_requirements,
        .get_output_requirements = get_output_requirements,
        .register_buffer = register_buffer,
        .unregister_buffer = unregister_buffer,
        .invocation_create = invocation_create,
        .invocation_destroy = invocation_destroy,
        .set_scheduling = set_scheduling,
        .attach_input = attach_input,
        .attach_output = attach_output,
        .detach_input = detach_input,
        .detach_output = detach_output,
        .invoke = invoke,
        .start_metrics = start_metrics,
        .stop_metrics = stop_metrics,
        .get_num_metrics = get_num_metrics,
        .get_metric = get_metric,
        .destroy_metrics = destroy_metrics,
        .check_runtime = check_runtime,
        .set_options = set_options,
    };
    if (api == NULL) return LITERT_BAD_ARGUMENT;
    *api = (litert_dispatch_api){.abi = {sizeof *api, 1, 0, 0}, .version = {0, 1, 0}, .interface = &interface};
    return LITERT_OK;
}
