/* Device memory: descriptors, allocation and copies. Three kinds of descriptors name it (bm_, bm_..._u64 and sg_),
 * and the same functions exist for each.
 */
#include "bmlib_internal.h"

#include <stdlib.h>
#include <string.h>

enum { HEAPS = 3, PART_BYTES = 64 << 20 };

#define TOO_LARGE "the size is not a number of bytes in 32 bits"
#define NO_HEAP "heap_id is 0, 1 or 2"

static bm_status_t allocate(bm_handle_t handle, uint64_t size, uint64_t *addr, const char *function) {
    question q = {.function = function, .head = {.op = OP_MALLOC, .a = size}, .value = addr};
    return tpulayer_ask(handle, &q);
}

static void release(bm_handle_t handle, uint64_t addr, const char *function) {
    question q = {.function = function, .head = {.op = OP_FREE, .a = addr}};
    (void)tpulayer_ask(handle, &q);
}

/* Bytes of n * c * h * w elements of 32 bits; false with a message. */
static bool bytes_of(int64_t n, int64_t c, int64_t h, int64_t w, uint64_t *bytes, const char *function) {
    const int64_t extents[] = {n, c, h, w};
    *bytes = 4;
    for (int i = 0; i < 4; i++) {
        if (extents[i] < 1) {
            bmlib_refuse(function, "extents are 1 or more");
            return false;
        }
        if (__builtin_mul_overflow(*bytes, (uint64_t)extents[i], bytes)) {
            bmlib_refuse(function, "the size is not a number of bytes in 64 bits");
            return false;
        }
    }
    return true;
}

static bool inside(device_piece memory, uint64_t offset, uint64_t size, const char *function) {
    if (!memory.on_device) {
        bmlib_say("bmlib: %s: the memory is not the device's", function);
        return false;
    }
    if (offset <= memory.bytes && size <= memory.bytes - offset) return true;
    bmlib_say("bmlib: %s: %llu bytes at offset %llu of %llu bytes", function, (unsigned long long)size,
              (unsigned long long)offset, (unsigned long long)memory.bytes);
    return false;
}

static bm_status_t write_piece(bm_handle_t handle, device_piece dst, const void *src, uint64_t size, uint64_t offset,
                               const char *function) {
    if (src == NULL) return bmlib_refuse(function, "the host's address is NULL");
    if (!inside(dst, offset, size, function)) return BM_ERR_PARAM;
    question q = {.function = function,
                  .head = {.op = OP_WRITE, .a = dst.addr + offset, .data_bytes = size},
                  .data = src};
    return tpulayer_ask(handle, &q);
}

static bm_status_t read_piece(bm_handle_t handle, void *dst, device_piece src, uint64_t size, uint64_t offset,
                              const char *function) {
    if (dst == NULL) return bmlib_refuse(function, "the host's address is NULL");
    if (!inside(src, offset, size, function)) return BM_ERR_PARAM;
    question q = {.function = function,
                  .head = {.op = OP_READ, .a = src.addr + offset, .b = size},
                  .out = dst,
                  .capacity = size};
    return tpulayer_ask(handle, &q);
}

#define NAME(x) bm_##x
#define MEM bm_device_mem_t
#define SIZE unsigned int
#define COUNT int
#include "bmlib_memory.h"

#define NAME(x) bm_##x##_u64
#define MEM bm_device_mem_u64_t
#define SIZE unsigned long long
#define COUNT unsigned long long
#include "bmlib_memory.h"

#define NAME(x) sg_##x
#define MEM sg_device_mem_t
#define SIZE unsigned long long
#define COUNT unsigned long long
#include "bmlib_memory.h"

bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size) {
    (void)handle; /* the mapping may outlive it */
    return bmlib_unmap(vmem, size < 0 ? 0 : (uint64_t)size, __func__);
}

bm_status_t bm_mem_unmap_device_mem_u64(bm_handle_t handle, void *vmem, unsigned long long size) {
    (void)handle;
    return bmlib_unmap(vmem, size, __func__);
}

bm_status_t sg_mem_unmap_device_mem(bm_handle_t handle, void *vmem, unsigned long long size) {
    (void)handle;
    return bmlib_unmap(vmem, size, __func__);
}

/* ---- what one kind alone has ---- */

bm_device_mem_t bm_mem_null(void) { return bm_mem_from_device(BM_MEM_ADDR_NULL, 0); }

bm_system_mem_t bm_mem_from_system(void *system_addr) {
    bm_system_mem_t mem;
    memset(&mem, 0, sizeof mem);
    mem.u.system.system_addr = system_addr;
    mem.flags.u.mem_type = BM_MEM_TYPE_SYSTEM;
    return mem;
}

bm_status_t bm_malloc_device_mem(bm_handle_t handle, unsigned long long *paddr, int heap_id, unsigned long long size) {
    uint64_t addr;
    if (paddr == NULL) return bmlib_refuse(__func__, "paddr is NULL");
    if (heap_id < 0 || heap_id >= HEAPS) return bmlib_refuse(__func__, NO_HEAP);
    bm_status_t status = allocate(handle, size, &addr, __func__);
    if (status == BM_SUCCESS) *paddr = addr;
    return status;
}

void bm_free_device_mem(bm_handle_t ctx, unsigned long long paddr) { release(ctx, paddr, __func__); }

static bm_status_t convert(bm_handle_t handle, bm_device_mem_t *dev_mem, bm_system_mem_t sys_mem, bool need_copy,
                           const int extents[4], unsigned int width, const char *function) {
    uint64_t size;
    if (need_copy && (sys_mem.flags.u.mem_type != BM_MEM_TYPE_SYSTEM || sys_mem.u.system.system_addr == NULL))
        return bmlib_refuse(function, "there is nothing to copy: sys_mem is not a memory of the host");
    if (!bytes_of(extents[0], extents[1], extents[2], extents[3], &size, function)) return BM_ERR_PARAM;
    bm_status_t status = bm_give(handle, dev_mem, size / 4 * width, function);
    if (status != BM_SUCCESS || !need_copy) return status;
    status = bm_memcpy_s2d(handle, *dev_mem, sys_mem.u.system.system_addr);
    if (status != BM_SUCCESS) bm_free_device(handle, *dev_mem);
    return status;
}

bm_status_t bm_mem_convert_system_to_device_neuron(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                   struct bm_mem_desc sys_mem, bool need_copy, int n, int c, int h,
                                                   int w) {
    return convert(handle, dev_mem, sys_mem, need_copy, (int[]){n, c, h, w}, 4, __func__);
}

bm_status_t bm_mem_convert_system_to_device_neuron_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                        struct bm_mem_desc sys_mem, bool need_copy, int n, int c,
                                                        int h, int w) {
    return convert(handle, dev_mem, sys_mem, need_copy, (int[]){n, c, h, w}, 1, __func__);
}

bm_status_t bm_mem_convert_system_to_device_coeff(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                  struct bm_mem_desc sys_mem, bool need_copy, int coeff_count) {
    return convert(handle, dev_mem, sys_mem, need_copy, (int[]){1, 1, 1, coeff_count}, 4, __func__);
}

bm_status_t bm_mem_convert_system_to_device_coeff_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                       struct bm_mem_desc sys_mem, bool need_copy,
                                                       int coeff_count) {
    return convert(handle, dev_mem, sys_mem, need_copy, (int[]){1, 1, 1, coeff_count}, 1, __func__);
}

/* ---- further copies ---- */

bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src,
                               size_t src_offset, size_t size) {
    device_piece to = bm_piece(dst), from = bm_piece(src);
    if (!inside(to, dst_offset, size, __func__) || !inside(from, src_offset, size, __func__)) return BM_ERR_PARAM;
    request_head head = {.op = OP_COPY, .a = to.addr + dst_offset, .b = from.addr + src_offset, .c = size};
    question q = {.function = __func__, .head = head};
    return tpulayer_ask(handle, &q);
}

bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                          int src_offset, int len) {
    if (dst_offset < 0 || src_offset < 0 || len < 0)
        return bmlib_refuse(__func__, "a negative offset or length");
    return bm_memcpy_d2d_byte(handle, dst, (size_t)dst_offset * 4, src, (size_t)src_offset * 4, (size_t)len * 4);
}

bm_status_t bm_memcpy_d2d_stride(bm_handle_t handle, bm_device_mem_t dst, int dst_stride, bm_device_mem_t src,
                                 int src_stride, int count, int format_size) {
    if (format_size != 1 && format_size != 2 && format_size != 4)
        return bmlib_refuse(__func__, "format_size is 1, 2 or 4 bytes");
    if (count < 1) return bmlib_refuse(__func__, "count is 1 or more");
    if (src_stride < 1 || (dst_stride != 1 && !(dst_stride == 4 && src_stride == 1 && format_size == 1)))
        return bmlib_refuse(__func__, "src_stride is 1 or more, dst_stride 1 (4 from bytes with src_stride 1)");
    size_t width = (size_t)format_size, last = (size_t)count - 1;
    size_t from_bytes = (last * (size_t)src_stride + 1) * width, to_bytes = (last * (size_t)dst_stride + 1) * width;
    device_piece to = bm_piece(dst), from = bm_piece(src);
    if (!inside(to, 0, to_bytes, __func__) || !inside(from, 0, from_bytes, __func__)) return BM_ERR_PARAM;
    char *read = malloc(from_bytes), *made = malloc(to_bytes);
    bm_status_t status = read == NULL || made == NULL ? BM_ERR_NOMEM : BM_SUCCESS;
    if (status == BM_SUCCESS) status = read_piece(handle, read, from, from_bytes, 0, __func__);
    if (status == BM_SUCCESS && dst_stride > 1) /* what lies between stays */
        status = read_piece(handle, made, to, to_bytes, 0, __func__);
    for (size_t i = 0; status == BM_SUCCESS && i <= last; i++)
        memcpy(made + i * (size_t)dst_stride * width, read + i * (size_t)src_stride * width, width);
    if (status == BM_SUCCESS) status = write_piece(handle, to, made, to_bytes, 0, __func__);
    free(read);
    free(made);
    return status;
}

/* From one device to another, in parts through this process. */
static bm_status_t across(bm_handle_t from_handle, bm_device_mem_t src, bm_handle_t to_handle, bm_device_mem_t dst,
                          const char *function) {
    device_piece to = bm_piece(dst), from = bm_piece(src);
    if (!inside(to, 0, from.bytes, function) || !inside(from, 0, from.bytes, function)) return BM_ERR_PARAM;
    uint64_t part = from.bytes < PART_BYTES ? from.bytes : PART_BYTES;
    char *bytes = malloc((size_t)part + 1);
    bm_status_t status = bytes == NULL ? BM_ERR_NOMEM : BM_SUCCESS;
    for (uint64_t at = 0; status == BM_SUCCESS && at < from.bytes; at += part) {
        if (part > from.bytes - at) part = from.bytes - at;
        status = read_piece(from_handle, bytes, from, part, at, function);
        if (status == BM_SUCCESS) status = write_piece(to_handle, to, bytes, part, at, function);
    }
    free(bytes);
    return status;
}

bm_status_t bm_memcpy_p2p(bm_handle_t handle_src, bm_device_mem_t src, bm_handle_t handle_dst, bm_device_mem_t dst) {
    return across(handle_src, src, handle_dst, dst, __func__);
}

bm_status_t bm_memcpy_c2c(bm_handle_t src_handle, bm_handle_t dst_handle, bm_device_mem_t src, bm_device_mem_t dst,
                          bool force_dst_cdma) {
    (void)force_dst_cdma;
    return across(src_handle, src, dst_handle, dst, __func__);
}

bm_status_t bm_memcpy_s2d_gather(bm_handle_t handle, bm_device_mem_t dst, int argc, ...) {
    va_list pairs;
    uint64_t at = 0;
    bm_status_t status = argc % 2 == 0 ? BM_SUCCESS : bmlib_refuse(__func__, "argc counts addresses and lengths");
    va_start(pairs, argc);
    for (int i = 0; i + 1 < argc && status == BM_SUCCESS; i += 2) {
        const void *src = va_arg(pairs, void *);
        unsigned long long bytes = va_arg(pairs, unsigned long long);
        status = write_piece(handle, bm_piece(dst), src, bytes, at, __func__);
        at += bytes;
    }
    va_end(pairs);
    return status;
}

bm_status_t bm_memcpy_d2s_scatter(bm_handle_t handle, bm_device_mem_t src, int argc, ...) {
    va_list pairs;
    uint64_t at = 0;
    bm_status_t status = argc % 2 == 0 ? BM_SUCCESS : bmlib_refuse(__func__, "argc counts addresses and lengths");
    va_start(pairs, argc);
    for (int i = 0; i + 1 < argc && status == BM_SUCCESS; i += 2) {
        void *dst = va_arg(pairs, void *);
        unsigned long long bytes = va_arg(pairs, unsigned long long);
        status = read_piece(handle, dst, bm_piece(src), bytes, at, __func__);
        at += bytes;
    }
    va_end(pairs);
    return status;
}

static bm_status_t fill(bm_handle_t handle, const void *value, unsigned int width, bm_device_mem_t mem,
                        const char *function) {
    if (mem.size % width != 0) {
        bmlib_say("bmlib: %s: the size %u is not a multiple of %u", function, mem.size, width);
        return BM_ERR_PARAM;
    }
    char *bytes = malloc((size_t)mem.size + 1);
    if (bytes == NULL) return BM_ERR_NOMEM;
    for (size_t i = 0; i < mem.size; i += width) memcpy(bytes + i, value, width);
    bm_status_t status = write_piece(handle, bm_piece(mem), bytes, mem.size, 0, function);
    free(bytes);
    return status;
}

bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem) {
    return fill(handle, &value, 4, mem, __func__);
}

bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem) {
    if (value == NULL) return bmlib_refuse(__func__, "value is NULL");
    if (mode < 1 || mode > 4) return bmlib_refuse(__func__, "mode is 1 to 4 bytes");
    return fill(handle, value, (unsigned int)mode, mem, __func__);
}
