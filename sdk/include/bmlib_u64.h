/* bmlib's functions on device memory of 4 GiB and more: what bm_x is for bm_device_mem_t, bm_x_u64 is for
 * bm_device_mem_u64_t, and sg_x, its older name, for sg_device_mem_t. Included by bmlib_runtime.h.
 */
#ifndef BMLIB_U64_H_
#define BMLIB_U64_H_

#include "bmlib_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bm_mem_desc_u64 {
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
    unsigned long long size;
} bm_mem_desc_u64_t;

typedef struct sg_mem_desc {
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
    unsigned long long size;
} sg_mem_desc_t;

typedef struct bm_mem_desc_u64 bm_device_mem_u64_t;
typedef struct bm_mem_desc_u64 bm_system_mem_u64_t;
typedef struct sg_mem_desc sg_device_mem_t;
typedef struct sg_mem_desc sg_system_mem_t;

bm_mem_type_t bm_mem_get_type_u64(struct bm_mem_desc_u64 mem);
unsigned long long bm_mem_get_device_addr_u64(struct bm_mem_desc_u64 mem);
void bm_mem_set_device_addr_u64(struct bm_mem_desc_u64 *pmem, unsigned long long addr);
unsigned long long bm_mem_get_device_size_u64(struct bm_mem_desc_u64 mem);
void bm_mem_set_device_size_u64(struct bm_mem_desc_u64 *pmem, unsigned long long size);
void bm_set_device_mem_u64(bm_device_mem_u64_t *pmem, unsigned long long size, unsigned long long addr);
bm_device_mem_u64_t bm_mem_from_device_u64(unsigned long long device_addr, unsigned long long len);
void *bm_mem_get_system_addr_u64(struct bm_mem_desc_u64 mem);
void bm_mem_set_system_addr_u64(struct bm_mem_desc_u64 *pmem, void *addr);
bm_status_t bm_malloc_neuron_device_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long n,
                                        unsigned long long c, unsigned long long h, unsigned long long w);
bm_status_t bm_malloc_device_dword_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long
                                       count);
bm_status_t bm_malloc_device_byte_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned long long size);
bm_status_t bm_malloc_device_byte_heap_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, int heap_id,
                                           unsigned long long size);
bm_status_t bm_malloc_device_byte_heap_mask_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, int
                                                heap_id_mask, unsigned long long size);
void bm_free_device_u64(bm_handle_t handle, bm_device_mem_u64_t mem);
bm_status_t bm_memcpy_s2d_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src);
bm_status_t bm_memcpy_s2d_partial_offset_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src, unsigned
                                             long long size, unsigned long long offset);
bm_status_t bm_memcpy_s2d_partial_u64(bm_handle_t handle, bm_device_mem_u64_t dst, void *src, unsigned long
                                      long size);
bm_status_t bm_memcpy_d2s_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src);
bm_status_t bm_memcpy_d2s_partial_offset_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src, unsigned
                                             long long size, unsigned long long offset);
bm_status_t bm_memcpy_d2s_partial_u64(bm_handle_t handle, void *dst, bm_device_mem_u64_t src, unsigned long
                                      long size);
bm_status_t bm_mem_mmap_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem, unsigned long long
                                       *vmem);
bm_status_t bm_mem_mmap_device_mem_no_cache_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem, unsigned long
                                                long *vmem);
bm_status_t bm_mem_invalidate_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem);
bm_status_t bm_mem_invalidate_partial_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem, unsigned
                                                     long long offset, unsigned long long len);
bm_status_t bm_mem_flush_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem);
bm_status_t bm_mem_flush_partial_device_mem_u64(bm_handle_t handle, bm_device_mem_u64_t *dmem, unsigned long
                                                long offset, unsigned long long len);
bm_status_t bm_mem_unmap_device_mem_u64(bm_handle_t handle, void *vmem, unsigned long long size);
bm_status_t bm_get_gmem_heap_id_u64(bm_handle_t handle, bm_device_mem_u64_t *pmem, unsigned int *heapid);

bm_mem_type_t sg_mem_get_type(struct sg_mem_desc mem);
unsigned long long sg_mem_get_device_addr(struct sg_mem_desc mem);
void sg_mem_set_device_addr(struct sg_mem_desc *pmem, unsigned long long addr);
unsigned long long sg_mem_get_device_size(struct sg_mem_desc mem);
void sg_mem_set_device_size(struct sg_mem_desc *pmem, unsigned long long size);
void sg_set_device_mem(sg_device_mem_t *pmem, unsigned long long size, unsigned long long addr);
sg_device_mem_t sg_mem_from_device(unsigned long long device_addr, unsigned long long len);
void *sg_mem_get_system_addr(struct sg_mem_desc mem);
void sg_mem_set_system_addr(struct sg_mem_desc *pmem, void *addr);
bm_status_t sg_malloc_neuron_device(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long n, unsigned
                                    long long c, unsigned long long h, unsigned long long w);
bm_status_t sg_malloc_device_dword(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long count);
bm_status_t sg_malloc_device_byte(bm_handle_t handle, sg_device_mem_t *pmem, unsigned long long size);
bm_status_t sg_malloc_device_byte_heap(bm_handle_t handle, sg_device_mem_t *pmem, int heap_id, unsigned long
                                       long size);
bm_status_t sg_malloc_device_byte_heap_mask(bm_handle_t handle, sg_device_mem_t *pmem, int heap_id_mask,
                                            unsigned long long size);
void sg_free_device(bm_handle_t handle, sg_device_mem_t mem);
bm_status_t sg_memcpy_s2d(bm_handle_t handle, sg_device_mem_t dst, void *src);
bm_status_t sg_memcpy_s2d_partial_offset(bm_handle_t handle, sg_device_mem_t dst, void *src, unsigned long
                                         long size, unsigned long long offset);
bm_status_t sg_memcpy_s2d_partial(bm_handle_t handle, sg_device_mem_t dst, void *src, unsigned long long
                                  size);
bm_status_t sg_memcpy_d2s(bm_handle_t handle, void *dst, sg_device_mem_t src);
bm_status_t sg_memcpy_d2s_partial_offset(bm_handle_t handle, void *dst, sg_device_mem_t src, unsigned long
                                         long size, unsigned long long offset);
bm_status_t sg_memcpy_d2s_partial(bm_handle_t handle, void *dst, sg_device_mem_t src, unsigned long long
                                  size);
bm_status_t sg_mem_mmap_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long *vmem);
bm_status_t sg_mem_mmap_device_mem_no_cache(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long
                                            *vmem);
bm_status_t sg_mem_invalidate_device_mem(bm_handle_t handle, sg_device_mem_t *dmem);
bm_status_t sg_mem_invalidate_partial_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long
                                                 offset, unsigned long long len);
bm_status_t sg_mem_flush_device_mem(bm_handle_t handle, sg_device_mem_t *dmem);
bm_status_t sg_mem_flush_partial_device_mem(bm_handle_t handle, sg_device_mem_t *dmem, unsigned long long
                                            offset, unsigned long long len);
bm_status_t sg_mem_unmap_device_mem(bm_handle_t handle, void *vmem, unsigned long long size);
bm_status_t sg_get_gmem_heap_id(bm_handle_t handle, sg_device_mem_t *pmem, unsigned int *heapid);

#ifdef __cplusplus
}
#endif
#endif
