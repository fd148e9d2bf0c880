/* The host side of the device in bmlib's words: memory, copies, and launching kernels. Link with
 * -lbmlib; the library drives the emulated BM1684 in a process of its own, one for each handle.
 * Functions may be called from several threads. A handle that is not in use is BM_ERR_PARAM. With every
 * error status there is a message on stderr.
 */
#ifndef BMLIB_RUNTIME_H_
#define BMLIB_RUNTIME_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    BM_SUCCESS = 0,
    BM_ERR_DEVNOTREADY = 1,
    BM_ERR_FAILURE = 2,
    BM_ERR_TIMEOUT = 3,
    BM_ERR_PARAM = 4,
    BM_ERR_NOMEM = 5,
    BM_ERR_DATA = 6,
    BM_ERR_BUSY = 7,
    BM_ERR_NOFEATURE = 8,
    BM_NOT_SUPPORTED = 9
} bm_status_t;

typedef enum {
    BM_MEM_TYPE_DEVICE = 0,
    BM_MEM_TYPE_HOST = 1,
    BM_MEM_TYPE_SYSTEM = 2,
    BM_MEM_TYPE_INT8_DEVICE = 3,
    BM_MEM_TYPE_INVALID = 4
} bm_mem_type_t;

typedef union {
    struct {
        bm_mem_type_t mem_type : 3;
        unsigned int gmem_heapid : 3;
        unsigned int reserved : 26;
    } u;
    unsigned int rawflags;
} bm_mem_flags_t;

/* A piece of device memory (or of the host's): address and size in bytes. */
typedef struct bm_mem_desc {
    union {
        struct {
            unsigned long device_addr;
            unsigned int reserved;
            int dmabuf_fd;
        } device;
        struct {
            void *system_addr;
            unsigned int reserved0;
            int reserved1;
        } system;
    } u;
    bm_mem_flags_t flags;
    unsigned int size;
} bm_mem_desc_t;

typedef struct bm_mem_desc bm_device_mem_t;
typedef struct bm_mem_desc bm_system_mem_t;
typedef struct bm_context *bm_handle_t;

#define BM_MEM_ADDR_NULL (0xfffffffff)

/* In a function that returns bm_status_t: leaves it with the call's status unless that is BM_SUCCESS. */
#define BM_CHECK_RET(call)                                                       \
    do {                                                                         \
        bm_status_t bm_check_ret_status = (call);                                \
        if (bm_check_ret_status != BM_SUCCESS) return bm_check_ret_status;       \
    } while (0)

/* ---- the device ---- */
bm_status_t bm_dev_getcount(int *count);
bm_status_t bm_dev_query(int devid);
bm_status_t bm_dev_request(bm_handle_t *handle, int devid);
void bm_dev_free(bm_handle_t handle);
int bm_get_devid(bm_handle_t handle);
bm_status_t bm_get_chipid(bm_handle_t handle, unsigned int *p_chipid); /* 0x1684 */

/* ---- descriptors of memory ---- */
bm_mem_type_t bm_mem_get_type(struct bm_mem_desc mem);
unsigned long long bm_mem_get_device_addr(struct bm_mem_desc mem);
void bm_mem_set_device_addr(struct bm_mem_desc *pmem, unsigned long long addr);
unsigned int bm_mem_get_device_size(struct bm_mem_desc mem);
void bm_mem_set_device_size(struct bm_mem_desc *pmem, unsigned int size);
void bm_set_device_mem(bm_device_mem_t *pmem, unsigned int size, unsigned long long addr);
bm_device_mem_t bm_mem_from_device(unsigned long long device_addr, unsigned int len);
void *bm_mem_get_system_addr(struct bm_mem_desc mem);
void bm_mem_set_system_addr(struct bm_mem_desc *pmem, void *addr);
bm_system_mem_t bm_mem_from_system(void *system_addr);
bm_device_mem_t bm_mem_null(void);
#define BM_MEM_NULL (bm_mem_null())

/* ---- device memory ---- */
bm_status_t bm_malloc_device_byte(bm_handle_t handle, bm_device_mem_t *pmem, unsigned int size);
bm_status_t bm_malloc_device_dword(bm_handle_t handle, bm_device_mem_t *pmem, int count);
void bm_free_device(bm_handle_t handle, bm_device_mem_t mem);
/* n * c * h * w elements of 32 bits. */
bm_status_t bm_malloc_neuron_device(bm_handle_t handle, bm_device_mem_t *pmem, int n, int c, int h, int w);
/* The card has heaps 0, 1 and 2; here they are one, all of DDR. */
bm_status_t bm_malloc_device_byte_heap(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id, unsigned int size);
bm_status_t bm_malloc_device_byte_heap_mask(bm_handle_t handle, bm_device_mem_t *pmem, int heap_id_mask,
                                            unsigned int size);
/* An address in place of a descriptor. */
bm_status_t bm_malloc_device_mem(bm_handle_t handle, unsigned long long *paddr, int heap_id, unsigned long long size);
void bm_free_device_mem(bm_handle_t ctx, unsigned long long paddr);
/* Allocates n * c * h * w or coeff_count elements, of 32 bits or (_byte) of 8, and with need_copy fills them from
 * sys_mem. */
bm_status_t bm_mem_convert_system_to_device_neuron(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                   struct bm_mem_desc sys_mem, bool need_copy, int n, int c, int h,
                                                   int w);
bm_status_t bm_mem_convert_system_to_device_neuron_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                        struct bm_mem_desc sys_mem, bool need_copy, int n, int c,
                                                        int h, int w);
bm_status_t bm_mem_convert_system_to_device_coeff(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                  struct bm_mem_desc sys_mem, bool need_copy, int coeff_count);
bm_status_t bm_mem_convert_system_to_device_coeff_byte(bm_handle_t handle, struct bm_mem_desc *dev_mem,
                                                       struct bm_mem_desc sys_mem, bool need_copy, int coeff_count);

/* ---- device memory in the program's address space ----
 * *vmem: the address of its bytes, until unmap, also after bm_free_device. The device sees what is written and the
 * program what the device wrote, so flush and invalidate only check their arguments.
 */
bm_status_t bm_mem_mmap_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem);
bm_status_t bm_mem_mmap_device_mem_no_cache(bm_handle_t handle, bm_device_mem_t *dmem, unsigned long long *vmem);
bm_status_t bm_mem_unmap_device_mem(bm_handle_t handle, void *vmem, int size); /* size: the memory's */
/* The device address of a mapped byte. */
bm_status_t bm_mem_vir_to_phy(bm_handle_t handle, unsigned long long vmem, unsigned long long *device_mem);
bm_status_t bm_mem_flush_device_mem(bm_handle_t handle, bm_device_mem_t *dmem);
bm_status_t bm_mem_flush_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                            unsigned int len);
bm_status_t bm_mem_invalidate_device_mem(bm_handle_t handle, bm_device_mem_t *dmem);
bm_status_t bm_mem_invalidate_partial_device_mem(bm_handle_t handle, bm_device_mem_t *dmem, unsigned int offset,
                                                 unsigned int len);

/* ---- copies: s system (host), d device; _partial: size bytes, _offset: from there on ---- */
bm_status_t bm_memcpy_s2d(bm_handle_t handle, bm_device_mem_t dst, void *src);
bm_status_t bm_memcpy_s2d_partial(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size);
bm_status_t bm_memcpy_s2d_partial_offset(bm_handle_t handle, bm_device_mem_t dst, void *src, unsigned int size,
                                         unsigned int offset);
bm_status_t bm_memcpy_d2s(bm_handle_t handle, void *dst, bm_device_mem_t src);
bm_status_t bm_memcpy_d2s_partial(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size);
bm_status_t bm_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, bm_device_mem_t src, unsigned int size,
                                         unsigned int offset);
/* Counts and offsets in 32-bit words. */
bm_status_t bm_memcpy_d2d(bm_handle_t handle, bm_device_mem_t dst, int dst_offset, bm_device_mem_t src,
                          int src_offset, int len);
bm_status_t bm_memcpy_d2d_byte(bm_handle_t handle, bm_device_mem_t dst, size_t dst_offset, bm_device_mem_t src,
                               size_t src_offset, size_t size);
/* dst[i * dst_stride] = src[i * src_stride] for `count` elements of format_size bytes (1, 2 or 4). dst_stride is 1, or
 * 4 for bytes with src_stride 1. */
bm_status_t bm_memcpy_d2d_stride(bm_handle_t handle, bm_device_mem_t dst, int dst_stride, bm_device_mem_t src,
                                 int src_stride, int count, int format_size);
/* All of src to another device. */
bm_status_t bm_memcpy_p2p(bm_handle_t handle_src, bm_device_mem_t src, bm_handle_t handle_dst, bm_device_mem_t dst);
bm_status_t bm_memcpy_c2c(bm_handle_t src_handle, bm_handle_t dst_handle, bm_device_mem_t src, bm_device_mem_t dst,
                          bool force_dst_cdma);
/* Pieces of the host's memory, one behind the other on the device: after argc, which counts what follows, a
 * void * and an unsigned long long of bytes for each. */
bm_status_t bm_memcpy_s2d_gather(bm_handle_t handle, bm_device_mem_t dst, int argc, ...);
bm_status_t bm_memcpy_d2s_scatter(bm_handle_t handle, bm_device_mem_t src, int argc, ...);
/* Fills with a 32-bit word; the size is a multiple of 4. */
bm_status_t bm_memset_device(bm_handle_t handle, const int value, bm_device_mem_t mem);
/* Fills with the first `mode` bytes at value (1 to 4); the size is a multiple of mode. */
bm_status_t bm_memset_device_ext(bm_handle_t handle, void *value, int mode, bm_device_mem_t mem);

/* ---- kernels ----
 * A program that has kernels linked into it (OKKERNEL_FUNC_REGISTER; libbmlib.so has the kernel API) runs those until it
 * loads a firmware. They run in a copy of the program as it was at bm_dev_request: what they write into the program's
 * variables stays there.
 * load_firmware: here firmware_tcm is the firmware.so that build_bmkernel or build_layers made (or its
 * folder), and firmware_ddr is not looked at. Without it $BMRUNTIME_FIRMWARE_PATH counts. Launches run in the
 * order given. okkernel_sync waits for the asynchronous ones and gives the first error among them; those
 * after it have run all the same. A kernel that crashes is BM_ERR_FAILURE, one that never ends is stopped
 * and BM_ERR_TIMEOUT; the device goes on with its memories.
 */
#define bmkernel_load_firmware okkernel_load_firmware
bm_status_t okkernel_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr);
bm_status_t okkernel_launch_async(bm_handle_t handle, const char *func_name, const void *args,
                                  unsigned int size);
bm_status_t okkernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args,
                                 unsigned int size);
bm_status_t okkernel_sync(bm_handle_t handle);
bm_status_t bm_device_sync(bm_handle_t handle);
bm_status_t bm_handle_sync(bm_handle_t handle);
bm_status_t bm_thread_sync(bm_handle_t handle);
void bm_flush(bm_handle_t handle); /* bm_thread_sync without a status */
bm_status_t bm_thread_sync_from_core(bm_handle_t handle, int core_id); /* core 0 */
/* How long to wait for an answer, in place of TPULAYER_HOST_LIMIT; in ms, counted in whole seconds. */
bm_status_t bm_set_sync_timeout(bm_handle_t handle, int timeout);

bm_status_t bm_load_firmware(bm_handle_t handle, const char *firmware_tcm, const char *firmware_ddr);
bm_status_t tpu_kernel_launch_sync(bm_handle_t handle, const char *func_name, const void *args, unsigned int size);
bm_status_t tpu_kernel_sync(bm_handle_t handle);

/* Of kernel projects with one entry for all, `int bmkernel_func(void *args)`: starts it as okkernel_launch_async does a
 * kernel. What it returns but 0 is an error. */
bm_status_t bmkernel_init(bm_handle_t *handle, int dev_id); /* bm_dev_request */
void bmkernel_deinit(bm_handle_t handle);
bm_status_t bmkernel_launch(bm_handle_t handle, const void *args, unsigned int size);
/* Puts a table where kernels find it at okk_lookup_table_start_addr(), at most okk_lookup_table_size() bytes. */
bm_status_t bmkernel_load_lookup_table(bm_handle_t handle, const void *table, unsigned int size);

#ifdef __cplusplus
}
#endif

#include "bmlib_card.h"
#include "bmlib_u64.h"

#endif
