/* A libbmrt.so whose nets copy input i to output i. $MOCK_MODE: what goes wrong in net $MOCK_NET (all, without it). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bmruntime_interface.h"

void mock_say(const char *format, ...);
bool mock_fails(const char *call);

static char runtime;
static int launches;

const char *libbmrt_version(void) { return "mock 1"; }

void *bmrt_create(bm_handle_t handle) {
    mock_say("bmrt_create %d\n", handle != NULL);
    printf("said on stdout\n");
    fprintf(stderr, "said on stderr\n");
    return mock_fails("bmrt_create") ? NULL : &runtime;
}

void bmrt_destroy(void *given) { mock_say("bmrt_destroy %d\n", given == &runtime); }

bool bmrt_load_bmodel(void *given, const char *path) {
    FILE *file = fopen(path, "rb");
    mock_say("bmrt_load_bmodel %d %s %d\n", given == &runtime, path, file != NULL);
    if (file) fclose(file);
    return !mock_fails("bmrt_load_bmodel");
}

/* Nets named one_... have one input and output, others two; all float32. */
const bm_net_info_t *bmrt_get_network_info(void *given, const char *name) {
    static bm_net_info_t info;
    static bm_data_type_t types[2] = {BM_FLOAT32, BM_FLOAT32};
    mock_say("bmrt_get_network_info %d %s\n", given == &runtime, name);
    info.name = name;
    info.input_num = info.output_num = strncmp(name, "one_", 4) == 0 ? 1 : 2;
    info.input_dtypes = info.output_dtypes = types;
    return mock_fails("bmrt_get_network_info") ? NULL : &info;
}

static void spoil(const char *mode, float *data, size_t count, int channels, size_t plane) {
    if (strcmp(mode, "nan") == 0) data[3] = 0.0f / (float)(data[3] == 12345.0f);
    if (strcmp(mode, "rounding") == 0) data[0] = data[0] * (1.0f + 1.2e-7f);
    if (strcmp(mode, "zeros") == 0) data[1] = -0.0f;
    if (strcmp(mode, "varies") == 0 && launches > 1) data[2] += 1;
    if (strcmp(mode, "lane") == 0)
        for (size_t i = 0; i < count; i++)
            if (i / plane % (size_t)channels % 64 == 5) data[i] = 7e5f;
}

bool bmrt_launch_tensor_ex(void *given, const char *name, const bm_tensor_t inputs[], int input_num,
                           bm_tensor_t outputs[], int output_num, bool user_mem, bool user_stmode) {
    const char *mode = getenv("MOCK_MODE"), *net = getenv("MOCK_NET");
    mock_say("bmrt_launch_tensor_ex %d %s %d %d %d %d\n", given == &runtime, name, input_num, output_num, user_mem,
             user_stmode);
    launches++;
    if (!mode || (net && strcmp(net, name) != 0)) mode = "";
    if (strcmp(mode, "crash") == 0) raise(SIGSEGV);
    if (strcmp(mode, "exit") == 0) exit(77);
    if (strcmp(mode, "hang") == 0)
        for (;;) pause();
    if (strcmp(mode, "refuse") == 0) return false;
    for (int i = 0; i < output_num; i++) {
        float *data = (float *)outputs[i].device_mem.u.device.device_addr;
        const bm_shape_t *shape = &inputs[i].shape;
        size_t plane = 1, count;
        for (int d = 2; d < shape->num_dims; d++) plane *= (size_t)shape->dims[d];
        count = plane * (size_t)shape->dims[0] * (size_t)shape->dims[1];
        if (strcmp(mode, "unwritten") != 0) memcpy(data, (void *)inputs[i].device_mem.u.device.device_addr, 4 * count);
        spoil(mode, data, count, shape->dims[1], plane);
        outputs[i].shape = *shape;
        if (strcmp(mode, "shape") == 0) outputs[i].shape.num_dims--;
    }
    return true;
}
