/* Functions of bmruntime before bmruntime_interface.h that programs still call: a runtime by the chip's name, a
 * folder with a bmodel, and bmlib's functions on a runtime's device. Those that return int return a bm_status_t.
 */
#ifndef BMRUNTIME_LEGACY_H_
#define BMRUNTIME_LEGACY_H_

#include "bmdef.h"

#ifdef __cplusplus
extern "C" {
#endif

/* pbm_handle: a bm_handle_t *, or NULL for a handle of the runtime's own on device devid. chip_type: "BM1684". */
void *create_bmrt_helper(void *pbm_handle, const char *chip_type, int devid);
#define create_bmruntime(pbm_handle, chip_type, ...) create_bmrt_helper(pbm_handle, chip_type, (0, ##__VA_ARGS__))
#define create_bmruntime_per_device(pbm_handle, chip_type, devid) create_bmrt_helper(pbm_handle, chip_type, devid)
void destroy_bmruntime(void *p_bmrt); /* also the handle, when it is the runtime's own */

bool bmrt_load_context(void *p_bmrt, const char *ctx_dir); /* ctx_dir/compilation.bmodel */

int bmrt_malloc_neuron_device(void *p_bmrt, bm_device_mem_t *pmem, int n, int c, int h, int w);
int bmrt_malloc_device_byte(void *p_bmrt, bm_device_mem_t *pmem, unsigned int size);
void bmrt_free_device(void *p_bmrt, bm_device_mem_t mem);
int bmrt_memcpy_s2d(void *p_bmrt, bm_device_mem_t dst, void *src);
int bmrt_memcpy_d2s(void *p_bmrt, void *dst, bm_device_mem_t src);
int bmrt_memcpy_s2d_withsize(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size);
int bmrt_memcpy_d2s_withsize(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size);
int bmrt_memcpy_s2d_withsize_offset(void *p_bmrt, bm_device_mem_t dst, void *src, unsigned int size,
                                    unsigned int dev_offset);
int bmrt_memcpy_d2s_withsize_offset(void *p_bmrt, void *dst, bm_device_mem_t src, unsigned int size,
                                    unsigned int dev_offset);
int bmrt_thread_sync(void *p_bmrt);
int bmrt_dev_getcount(void *p_bmrt, int *dev_count);

#ifdef __cplusplus
}
#endif
#endif
