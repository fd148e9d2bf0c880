/* bmruntime's functions on the emulated BM1684: nets of bmodels on tensors in device memory. Link with
 * -lbmrt -lbmlib. p_bmrt is what bmrt_create gave. Functions may be called from several threads; a device serves
 * one request after the other.
 * What is wrong (a NULL, an unknown net, a shape or type that the net does not take, a damaged bmodel, an error of
 * the device) is false, NULL, 0 or -1, with one message on stderr.
 */
#ifndef BMRUNTIME_INTERFACE_H_
#define BMRUNTIME_INTERFACE_H_

#include "bmdef.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- element types, shapes, tensors ---- */
size_t bmrt_data_type_size(bm_data_type_t dtype); /* bytes of an element; 1 for 4 bits */
/* dims: num_dims sizes of 1 or more. When they are not, the shape gets 0 dimensions. */
void bmrt_shape(bm_shape_t *shape, const int *dims, int num_dims);
uint64_t bmrt_shape_count(const bm_shape_t *shape); /* elements; 1 without dimensions */
bool bmrt_shape_is_same(const bm_shape_t *left, const bm_shape_t *right);
/* Fill in a tensor, store mode 1N, with new device memory for it, which bm_free_device takes back. _ex: on the
 * handle with this index of those that bmrt_create_ex got. */
bool bmrt_tensor(bm_tensor_t *tensor, void *p_bmrt, bm_data_type_t dtype, bm_shape_t shape);
bool bmrt_tensor_ex(bm_tensor_t *tensor, void *p_bmrt, int devid, bm_data_type_t dtype, bm_shape_t shape);
/* The same with memory that is there. A tensor that it cannot hold gets no dimensions and no memory. */
void bmrt_tensor_with_device(bm_tensor_t *tensor, bm_device_mem_t device_mem, bm_data_type_t dtype,
                             bm_shape_t shape);
size_t bmrt_tensor_bytesize(const bm_tensor_t *tensor);    /* of its elements */
size_t bmrt_tensor_device_size(const bm_tensor_t *tensor); /* of its memory */

/* ---- the runtime ---- */
void *bmrt_create(bm_handle_t bm_handle);
/* With several handles; nets run on the first. */
void *bmrt_create_ex(bm_handle_t *bm_handles, int num_handles);
/* Unloads the nets; before bm_dev_free of the handle. */
void bmrt_destroy(void *p_bmrt);
void *bmrt_get_bm_handle(void *p_bmrt); /* a bm_handle_t, the first */
void bmrt_set_flags(void *p_bmrt, uint32_t flags);
uint32_t bmrt_get_flags(void *p_bmrt);
void bmrt_trace(void *p_bmrt); /* prints what is loaded to stderr */

/* ---- nets ----
 * A net whose name is loaded already stays as it is, with a message; the others of the bmodel come.
 */
bool bmrt_load_bmodel(void *p_bmrt, const char *bmodel_path);
bool bmrt_load_bmodel_data(void *p_bmrt, const void *bmodel_data, size_t size);
/* Nets have memory of their own here: what mem_info gives them stays unused, and what they ask for is 128 bytes each. */
bool bmrt_get_bmodel_info(const char *bmodel_path, mem_info_t *mem_info);
bool bmrt_get_bmodel_data_info(const void *bmodel_data, size_t size, mem_info_t *mem_info);
bool bmrt_load_bmodel_with_mem(void *p_bmrt, const char *bmodel_path, mem_info_t *mem_info);
bool bmrt_load_bmodel_data_with_mem(void *p_bmrt, const void *bmodel_data, size_t size, mem_info_t *mem_info);
/* decrypt_lib: a shared library with a decrypt_func of the name `decrypt`. */
bool bmrt_load_bmodel_with_decrypt(void *p_bmrt, const char *bmodel_path, decrypt_func f);
bool bmrt_load_bmodel_with_decrypt_lib(void *p_bmrt, const char *bmodel_path, const char *decrypt_lib);
void bmrt_show_neuron_network(void *p_bmrt); /* prints all nets to stdout */
int bmrt_get_network_number(void *p_bmrt);
/* *network_names: an array for free(), NULL without nets; the names are the runtime's. */
void bmrt_get_network_names(void *p_bmrt, const char ***network_names);
const char *bmrt_get_network_name(void *p_bmrt, int index); /* in the order of loading; NULL with a message */
/* The stage that runs with inputs of these shapes; -1 with a message when there is none. */
int bmrt_get_stage_index(void *p_bmrt, const char *net_name, bm_tensor_t *input_tensors);
int bmrt_get_network_index(void *p_bmrt, const char *net_name); /* in the order of loading */
/* What is known of a net, until bmrt_destroy. */
const bm_net_info_t *bmrt_get_network_info(void *p_bmrt, const char *net_name);
void bmrt_print_network_info(const bm_net_info_t *net_info); /* to stdout */

/* ---- running a net ----
 * The stage is chosen by the shapes of the inputs: the one compiled for them, or the smallest of a dynamic net that
 * holds them. The outputs get dtype and shape, and without user_mem new device memory, which bm_free_device takes
 * back; with user_mem their device_mem takes the result. The net has run when these return; programs that call
 * bm_thread_sync may go on doing so.
 */
bool bmrt_launch_tensor(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                        bm_tensor_t output_tensors[], int output_num);
/* Inputs may lie in 4N (8 bits) and 2N (16 bits), whatever the net wants. user_stmode: the outputs' st_mode says how they
 * come, else they come in 1N. */
bool bmrt_launch_tensor_ex(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[], int input_num,
                           bm_tensor_t output_tensors[], int output_num, bool user_mem, bool user_stmode);
/* Inputs and outputs in the host's memory, of the net's types. Without user_mem the outputs are for free(). */
bool bmrt_launch_data(void *p_bmrt, const char *net_name, void *const input_datas[],
                      const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                      bm_shape_t output_shapes[], int output_num, bool user_mem);
/* core_list: a BM1684 has core 0 only, which runs with an empty list too. */
bool bmrt_launch_tensor_multi_cores(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                    int input_num, bm_tensor_t output_tensors[], int output_num, bool user_mem,
                                    bool user_stmode, const int *core_list, int core_num);
/* thread_idx: of bmrt_pre_alloc_mem_multi_thread; any number, the device serves one launch after the other. */
bool bmrt_launch_tensor_multi_thread(void *p_bmrt, const char *net_name, const bm_tensor_t input_tensors[],
                                     int input_num, bm_tensor_t output_tensors[], int output_num,
                                     uint64_t thread_idx, bool user_mem, bool user_stmode, const int *core_list,
                                     int core_num);
bool bmrt_launch_data_multi_thread(void *p_bmrt, const char *net_name, void *const input_datas[],
                                   const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                   bm_shape_t output_shapes[], int output_num, uint64_t thread_idx, bool user_mem,
                                   const int *core_list, int core_num);
bool bmrt_launch_data_multi_cores(void *p_bmrt, const char *net_name, void *const input_datas[],
                                  const bm_shape_t input_shapes[], int input_num, void *output_datas[],
                                  bm_shape_t output_shapes[], int output_num, bool user_mem, const int *core_list,
                                  int core_num);
/* Only checks: a net has its memory when it is loaded. */
bool bmrt_pre_alloc_neuron_multi_cores(void *p_bmrt, const char *net_name, int stage_idx, const int *core_list,
                                       int core_num);
bool bmrt_pre_alloc_mem_multi_thread(void *p_bmrt, uint64_t thread_idx, const mem_info_t *mem_info);

/* ---- copies on several devices: the first tensor_num[0] tensors are on the first handle, and so on ---- */
bool bmrt_memcpy_s2d_parallel(void *p_bmrt, bm_tensor_t tensors[], void *datas[], int tensor_num[],
                              int device_num);
bool bmrt_memcpy_d2s_parallel(void *p_bmrt, void *datas[], bm_tensor_t tensors[], int tensor_num[],
                              int device_num);
bool bmrt_memcpy_d2d_byte_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                   bm_tensor_t src_tensors[], size_t src_offsets[], size_t sizes[],
                                   int tensor_num[], int device_num);
/* A part of each tensor, of up to four dimensions: shapes[i] elements, from an offset in bytes, with strides in
 * elements of the same width on both sides. */
bool bmrt_memcpy_d2d_stride_ex_parallel(void *p_bmrt, bm_tensor_t dst_tensors[], size_t dst_offsets[],
                                        bm_shape_t dst_strides[], bm_tensor_t src_tensors[], size_t src_offsets[],
                                        bm_shape_t src_strides[], bm_shape_t shapes[], int tensor_num[],
                                        int device_num);

#ifdef __cplusplus
}
#endif
#endif
