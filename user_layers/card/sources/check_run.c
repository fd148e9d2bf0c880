/* Opens the device, loads every model of the plan and runs its nets. Each call is announced before it is made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

#define POISON 0xA5              /* fills outputs before a run, so that what nobody wrote is seen */
#define REPEAT_SECONDS 5.0       /* no further launch of a net is begun after that */
#define KEPT_BYTES (256u << 20)  /* of outputs that differ, in all */

static size_t kept_bytes;
static bool unreadable; /* some of the pack: nothing can be said of the device then */

static bool failed(const char *call, int status) {
    record_begin("failed");
    record_text("call", call);
    record_int("status", status);
    record_end();
    record_failed();
    return false;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A file's bytes from offset on; NULL, with a message, when they cannot be read although the pack was whole. */
static void *file_bytes(const char *folder, const char *name, size_t offset, size_t bytes) {
    char path[4096];
    char *data = malloc(bytes);
    FILE *file = NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path) file = fopen(path, "rb");
    bool good = data && file && fseek(file, (long)offset, SEEK_SET) == 0 && fread(data, 1, bytes, file) == bytes;
    if (file) fclose(file);
    if (good) return data;
    fprintf(stderr, "error: cannot read %zu bytes of %s/%s from %zu on; copy the pack again\n", bytes, folder, name,
            offset);
    free(data);
    unreadable = true;
    return NULL;
}

/* ---- one run ---- */

typedef struct {
    bm_handle_t handle;
    void *runtime;
    const check_options *options;
    const check_run *run;
    int index;
    bm_tensor_t *inputs, *outputs;
} check_state;

static bool allocate(check_state *s, bm_tensor_t *made, const check_tensor *tensor) {
    bm_device_mem_t memory;
    step("bm_malloc_device_byte of %zu bytes for '%s' of net '%s'", tensor->room, tensor->name, s->run->net);
    bm_status_t status = bm_malloc_device_byte(s->handle, &memory, (unsigned)tensor->room);
    if (status != BM_SUCCESS) return failed("bm_malloc_device_byte", status);
    made->dtype = tensor->dtype;
    made->shape = tensor->shape;
    made->device_mem = memory;
    made->st_mode = BM_STORE_1N;
    return true;
}

static bool copy_in(check_state *s, const bm_tensor_t *to, const check_tensor *tensor, void *data, size_t bytes) {
    step("bm_memcpy_s2d_partial of %zu bytes to '%s' of net '%s'", bytes, tensor->name, s->run->net);
    bm_status_t status = bm_memcpy_s2d_partial(s->handle, to->device_mem, data, (unsigned)bytes);
    return status == BM_SUCCESS || failed("bm_memcpy_s2d_partial", status);
}

static bool set_up(check_state *s) {
    for (int i = 0; i < s->run->input_num; i++) {
        const check_tensor *tensor = &s->run->inputs[i];
        if (!allocate(s, &s->inputs[i], tensor)) return false;
        void *data = file_bytes(s->options->folder, tensor->file, tensor->offset, tensor->bytes);
        bool good = data ? copy_in(s, &s->inputs[i], tensor, data, tensor->bytes) : failed("reading the pack", errno);
        free(data);
        if (!good) return false;
    }
    for (int i = 0; i < s->run->output_num; i++)
        if (!allocate(s, &s->outputs[i], &s->run->outputs[i])) return false;
    return true;
}

static bool poison(check_state *s) {
    for (int i = 0; i < s->run->output_num; i++) {
        size_t room = s->run->outputs[i].room;
        void *data = malloc(room);
        if (!data) return failed("malloc", errno);
        memset(data, POISON, room);
        bool good = copy_in(s, &s->outputs[i], &s->run->outputs[i], data, room);
        free(data);
        if (!good) return false;
    }
    return true;
}

static bool launch(check_state *s, int64_t *host_us, int64_t *device_us) {
    const check_run *run = s->run;
    for (int i = 0; i < run->output_num; i++) { /* the runtime sets the shape it made */
        s->outputs[i].dtype = run->outputs[i].dtype;
        s->outputs[i].shape = run->outputs[i].shape;
        s->outputs[i].st_mode = BM_STORE_1N;
    }
    step("bmrt_launch_tensor_ex of net '%s', stage %d", run->net, run->stage);
    double begin = now();
    if (!bmrt_launch_tensor_ex(s->runtime, run->net, s->inputs, run->input_num, s->outputs, run->output_num, true, true))
        return failed("bmrt_launch_tensor_ex", 0);
    step("bm_thread_sync after net '%s', stage %d", run->net, run->stage);
    bm_status_t status = bm_thread_sync(s->handle);
    *host_us = (int64_t)(1e6 * (now() - begin));
    if (status != BM_SUCCESS) return failed("bm_thread_sync", status);
    *device_us = -1;
    step("bm_get_last_api_process_time_us");
    last_time_us(s->handle, device_us);
    return true;
}

static void keep_output(check_state *s, int output, const void *data, size_t bytes) {
    char path[4096];
    if (kept_bytes + bytes > KEPT_BYTES ||
        (size_t)snprintf(path, sizeof path, "%s/run%d_output%d.bin", s->options->results, s->index, output) >=
            sizeof path)
        return;
    FILE *file = fopen(path, "wb");
    if (!file) return;
    fwrite(data, 1, bytes, file);
    fclose(file);
    kept_bytes += bytes;
}

/* round: 0 after the first launch, 1 after the last one, which must give the same bits. */
static bool compare(check_state *s, int output, int round) {
    const check_tensor *tensor = &s->run->outputs[output];
    const bm_tensor_t *made = &s->outputs[output];
    char *got = calloc(1, tensor->bytes);
    if (!got) return failed("calloc", errno);
    step("bm_memcpy_d2s_partial of %zu bytes from '%s' of net '%s'", tensor->bytes, tensor->name, s->run->net);
    bm_status_t status = bm_memcpy_d2s_partial(s->handle, got, made->device_mem, (unsigned)tensor->bytes);
    void *expected = NULL;
    if (status != BM_SUCCESS) {
        failed("bm_memcpy_d2s_partial", status);
    } else if (!(expected = file_bytes(s->options->folder, tensor->file, tensor->offset, tensor->bytes))) {
        failed("reading the pack", errno);
    }
    bool same = false;
    if (expected) {
        char hash[65];
        int64_t shape[BM_MAX_DIMS_NUM];
        int dims = made->shape.num_dims < 0 || made->shape.num_dims > BM_MAX_DIMS_NUM ? 0 : made->shape.num_dims;
        bool fits = dims == tensor->shape.num_dims;
        for (int i = 0; i < dims; i++) {
            shape[i] = made->shape.dims[i];
            fits = fits && shape[i] == tensor->shape.dims[i];
        }
        step("comparing '%s' of net '%s'", tensor->name, s->run->net);
        sha256_text(got, tensor->bytes, hash);
        record_begin("output");
        record_int("run", s->index);
        record_int("output", output);
        record_int("round", round);
        record_text("name", tensor->name);
        record_int("dtype", tensor->dtype);
        record_list("shape", shape, (size_t)dims);
        record_bool("shape_fits", fits);
        record_text("sha256", hash);
        same = compare_outputs(tensor, expected, got, POISON) && fits;
        record_end();
        if (!same) record_failed();
        if (!same && round == 0) keep_output(s, output, got, tensor->bytes);
    }
    free(got);
    free(expected);
    return expected != NULL;
}

static bool compare_all(check_state *s, int round) {
    for (int i = 0; i < s->run->output_num; i++)
        if (!compare(s, i, round)) return false;
    return true;
}

static bool run_net(check_state *s) {
    int64_t host[MOST_REPEATS], device[MOST_REPEATS];
    size_t count = 0, device_count = 0;
    int repeats = s->options->repeats;
    double begin = now();
    if (!set_up(s) || !poison(s)) return false;
    if (!launch(s, &host[0], &device[0]) || !compare_all(s, 0)) return false;
    for (count = 1; (int)count < repeats && now() - begin < REPEAT_SECONDS; count++)
        if (!launch(s, &host[count], &device[count])) return false;
    if (count > 1 && !compare_all(s, 1)) return false;
    while (device_count < count && device[device_count] >= 0) device_count++;
    record_begin("times");
    record_int("run", s->index);
    record_list("host_us", host, count);
    record_list("device_us", device, device_count);
    record_end();
    return true;
}

/* Whether the runtime knows the net as the plan does; a launch with other counts might read beyond the arrays. */
static bool is_as_planned(check_state *s) {
    step("bmrt_get_network_info of net '%s'", s->run->net);
    const bm_net_info_t *info = bmrt_get_network_info(s->runtime, s->run->net);
    if (!info) return failed("bmrt_get_network_info", 0);
    bool same = info->input_num == s->run->input_num && info->output_num == s->run->output_num;
    for (int i = 0; same && i < info->input_num; i++) same = info->input_dtypes[i] == s->run->inputs[i].dtype;
    for (int i = 0; same && i < info->output_num; i++) same = info->output_dtypes[i] == s->run->outputs[i].dtype;
    return same || failed("bmrt_get_network_info: other inputs or outputs than in the pack", 0);
}

static void run_one(check_state *s) {
    const check_run *run = s->run;
    record_begin("run");
    record_int("run", s->index);
    record_end();
    s->inputs = calloc((size_t)run->input_num + 1, sizeof *s->inputs);
    s->outputs = calloc((size_t)run->output_num + 1, sizeof *s->outputs);
    if (!s->inputs || !s->outputs)
        failed("calloc", errno);
    else if (is_as_planned(s))
        run_net(s);
    for (int k = 0; k < 2; k++) {
        bm_tensor_t *tensors = k ? s->outputs : s->inputs;
        for (int i = 0; tensors && i < (k ? run->output_num : run->input_num); i++)
            if (bm_mem_get_device_size(tensors[i].device_mem) != 0) {
                step("bm_free_device after net '%s'", run->net);
                bm_free_device(s->handle, tensors[i].device_mem);
            }
        free(tensors);
    }
}

/* ---- all ---- */

static void run_model(bm_handle_t handle, const check_plan *plan, const check_options *options, int model) {
    char path[4096];
    const char *file = plan->models[model].file;
    snprintf(path, sizeof path, "%s/%s", options->folder, file);
    step("bmrt_create");
    void *runtime = bmrt_create(handle);
    if (!runtime) {
        failed("bmrt_create", 0);
        return;
    }
    step("bmrt_load_bmodel of %s", file);
    double begin = now();
    bool loaded = bmrt_load_bmodel(runtime, path);
    record_begin("model");
    record_int("model", model);
    record_text("file", file);
    record_bool("loaded", loaded);
    record_int("us", (int64_t)(1e6 * (now() - begin)));
    record_end();
    if (!loaded) record_failed();
    for (int i = 0; loaded && i < plan->run_num; i++)
        if (plan->runs[i].model == model) {
            check_state state = {.handle = handle, .runtime = runtime, .options = options, .run = &plan->runs[i], .index = i};
            run_one(&state);
        }
    step("bmrt_destroy");
    bmrt_destroy(runtime);
}

static bool load(bm_handle_t handle, const check_plan *plan, const char *folder) {
    char tcm[4096], ddr[4096];
    if (!plan->tcm) return failed("okkernel_load_firmware: the pack has no firmware", 0);
    snprintf(tcm, sizeof tcm, "%s/%s", folder, plan->tcm);
    snprintf(ddr, sizeof ddr, "%s/%s", folder, plan->ddr);
    step("okkernel_load_firmware of %s and %s", plan->tcm, plan->ddr);
    bm_status_t status = okkernel_load_firmware(handle, tcm, ddr);
    record_begin("firmware");
    record_int("status", status);
    record_end();
    if (status != BM_SUCCESS) record_failed();
    return status == BM_SUCCESS;
}

/* The static models on the firmware that is there, then the dynamic ones on the pack's. */
static void run_models(bm_handle_t handle, const check_plan *plan, const check_options *options) {
    bool loaded = options->load_first;
    if (loaded && !load(handle, plan, options->folder)) return;
    for (int dynamic = 0; dynamic < 2; dynamic++)
        for (int i = 0; i < plan->model_num; i++) {
            if (plan->models[i].dynamic != (dynamic == 1)) continue;
            if (dynamic && !options->load_firmware) {
                record_begin("skipped");
                record_int("model", i);
                record_text("file", plan->models[i].file);
                record_end();
                continue;
            }
            if (dynamic && !loaded && !load(handle, plan, options->folder)) return;
            loaded = loaded || dynamic;
            run_model(handle, plan, options, i);
        }
}

int check_all(const check_plan *plan, const check_options *options) {
    bm_handle_t handle;
    record_libraries();
    step("bm_dev_request of device %d", options->device);
    bm_status_t status = bm_dev_request(&handle, options->device);
    record_begin("device");
    record_int("device", options->device);
    record_int("status", status);
    record_end();
    if (status != BM_SUCCESS) {
        fprintf(stderr, "error: device %d cannot be opened (status %d)\n", options->device, (int)status);
        record_failed();
        return ENVIRONMENT;
    }
    record_device(handle);
    if (check_memory(handle)) run_models(handle, plan, options);
    step("bm_dev_free");
    bm_dev_free(handle);
    return unreadable ? ENVIRONMENT : has_failed() ? DIFFERENT : OK;
}
