/* Further ways to load nets, and to ask which is which, on top of bmrt.c. */
#define _GNU_SOURCE
#include "bmrt_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 64, ASKED = 128 };

/* All of a file, for free(); NULL with a message. */
static uint8_t *read_file(const char *path, size_t *size, const char *function) {
    FILE *file = path == NULL || *path == 0 ? NULL : fopen(path, "rb");
    if (file == NULL) {
        bmrt_say(function, "cannot read %s: %s", path == NULL ? "NULL" : path, path == NULL ? "no path" : strerror(errno));
        return NULL;
    }
    uint8_t *data = NULL;
    long bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (bytes >= 0 && fseek(file, 0, SEEK_SET) == 0) data = malloc((size_t)bytes + 1);
    if (data != NULL && fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(data);
        data = NULL;
    }
    fclose(file);
    if (data == NULL)
        bmrt_say(function, "cannot read %s", path);
    else
        *size = (size_t)bytes;
    return data;
}

static bool model_info(const uint8_t *data, size_t size, mem_info_t *mem_info, const char *function) {
    static const uint8_t magic[] = {0xEE, 0xAA, 0x55, 0xFF};
    if (mem_info == NULL) return bmrt_say(function, "mem_info is NULL");
    if (size < HEADER_BYTES || memcmp(data, magic, sizeof magic) != 0) return bmrt_say(function, "this is no bmodel");
    const memory_t asked = {.addr = UINT64_MAX, .size = ASKED, .number = 1};
    *mem_info = (mem_info_t){asked, asked, asked, asked, asked};
    return true;
}

bool bmrt_get_bmodel_data_info(const void *bmodel_data, size_t size, mem_info_t *mem_info) {
    if (bmodel_data == NULL) return bmrt_say(__func__, "bmodel_data is NULL");
    return model_info(bmodel_data, size, mem_info, __func__);
}

bool bmrt_get_bmodel_info(const char *bmodel_path, mem_info_t *mem_info) {
    size_t size = 0;
    uint8_t *data = read_file(bmodel_path, &size, __func__);
    bool good = data != NULL && model_info(data, size, mem_info, __func__);
    free(data);
    return good;
}

bool bmrt_load_bmodel_with_mem(void *p_bmrt, const char *bmodel_path, mem_info_t *mem_info) {
    if (mem_info == NULL) return bmrt_say(__func__, "mem_info is NULL");
    return bmrt_load_bmodel(p_bmrt, bmodel_path);
}

bool bmrt_load_bmodel_data_with_mem(void *p_bmrt, const void *bmodel_data, size_t size, mem_info_t *mem_info) {
    if (mem_info == NULL) return bmrt_say(__func__, "mem_info is NULL");
    return bmrt_load_bmodel_data(p_bmrt, bmodel_data, size);
}

bool bmrt_load_bmodel_with_decrypt(void *p_bmrt, const char *bmodel_path, decrypt_func f) {
    size_t size = 0;
    uint64_t made = 0;
    if (f == NULL) return bmrt_say(__func__, "f is NULL");
    uint8_t *data = read_file(bmodel_path, &size, __func__);
    if (data == NULL) return false;
    uint8_t *plain = f(data, size, &made);
    bool good = plain != NULL ? bmrt_load_bmodel_data(p_bmrt, plain, made)
                              : bmrt_say(__func__, "%s: the function made nothing of it", bmodel_path);
    free(plain);
    free(data);
    return good;
}

bool bmrt_load_bmodel_with_decrypt_lib(void *p_bmrt, const char *bmodel_path, const char *decrypt_lib) {
    void *library = decrypt_lib == NULL ? NULL : dlopen(decrypt_lib, RTLD_NOW);
    if (library == NULL)
        return bmrt_say(__func__, "decrypt_lib cannot be loaded: %s", decrypt_lib == NULL ? "NULL" : dlerror());
    union {
        void *found;
        decrypt_func call;
    } function = {.found = dlsym(library, "decrypt")};
    bool good = function.found != NULL ? bmrt_load_bmodel_with_decrypt(p_bmrt, bmodel_path, function.call)
                                       : bmrt_say(__func__, "%s has no function decrypt", decrypt_lib);
    dlclose(library);
    return good;
}

const char *bmrt_get_network_name(void *p_bmrt, int index) {
    const bm_net_info_t *info = bmrt_net_at(p_bmrt, index, __func__);
    return info == NULL ? NULL : info->name;
}

int bmrt_get_stage_index(void *p_bmrt, const char *net_name, bm_tensor_t *input_tensors) {
    const bm_net_info_t *info = bmrt_find(p_bmrt, net_name, __func__);
    uint64_t number, stage = 0;
    bm_handle_t handle = info == NULL ? NULL : bmrt_handle(p_bmrt, 0, &number, __func__);
    if (handle == NULL) return -1;
    if (input_tensors == NULL) {
        bmrt_say(__func__, "input_tensors is NULL");
        return -1;
    }
    bm_shape_t *shapes = calloc((size_t)info->input_num + 1, sizeof *shapes);
    if (shapes == NULL) return -1;
    for (int i = 0; i < info->input_num; i++) shapes[i] = input_tensors[i].shape;
    question q = {.library = "bmrt",
                  .function = __func__,
                  .head = {.op = OP_STAGE, .a = number, .data_bytes = (size_t)info->input_num * sizeof *shapes},
                  .text = net_name,
                  .data = shapes,
                  .value = &stage};
    bm_status_t status = tpulayer_ask(handle, &q);
    free(shapes);
    return status == BM_SUCCESS ? (int)stage : -1;
}
