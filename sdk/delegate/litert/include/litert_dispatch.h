/* The tables between LiteRT and a dispatch library, as far as they are used. */
#ifndef TPULAYER_LITERT_DISPATCH_H_
#define TPULAYER_LITERT_DISPATCH_H_

#include "litert_abi.h"

enum { LITERT_HOST_MEMORY = 1, LITERT_DISPATCH_BASIC = 1 };

typedef struct {
    litert_abi abi;
    litert_status (*create_requirements)(int type_num, const int *types, size_t size, int stride_num,
                                         const uint32_t *strides, litert_handle *requirements);
    void *contexts_and_buffers[24];
    litert_status (*get_packed_size)(litert_handle buffer, size_t *size);
    void *offset_and_locks[3];
    litert_status (*get_host_memory)(litert_handle buffer, void **memory);
} litert_runtime;

_Static_assert(offsetof(litert_runtime, get_packed_size) == 208, "LiteRT's table of functions");
_Static_assert(offsetof(litert_runtime, get_host_memory) == 240, "LiteRT's table of functions");

typedef struct {
    int fd;
    const void *base;
    size_t offset, size, file_offset;
} litert_memory;

typedef struct {
    litert_status (*initialize)(const litert_runtime *runtime, litert_handle environment, litert_handle options);
    litert_status (*get_vendor_id)(const char **id);
    litert_status (*get_build_id)(const char **id);
    litert_status (*get_capabilities)(int *capabilities);
    litert_status (*device_create)(const litert_runtime *runtime, litert_handle options, litert_handle *device);
    litert_status (*device_destroy)(litert_handle device);
    litert_status (*get_input_requirements)(litert_handle invocation, int index, const litert_ranked *type,
                                            litert_handle *requirements);
    litert_status (*get_output_requirements)(litert_handle invocation, int index, const litert_ranked *type,
                                             litert_handle *requirements);
    litert_status (*register_buffer)(litert_handle device, litert_handle buffer, uint64_t *handle);
    litert_status (*unregister_buffer)(litert_handle device, uint64_t handle);
    litert_status (*invocation_create)(const litert_runtime *runtime, litert_handle device, int type,
                                       const litert_memory *bytecode, const char *function, int input_num,
                                       int output_num, litert_handle *invocation);
    litert_status (*invocation_destroy)(litert_handle invocation);
    litert_status (*set_scheduling)(litert_handle invocation, const void *scheduling);
    litert_status (*attach_input)(litert_handle invocation, int index, uint64_t handle);
    litert_status (*attach_output)(litert_handle invocation, int index, uint64_t handle);
    litert_status (*detach_input)(litert_handle invocation, int index, uint64_t handle);
    litert_status (*detach_output)(litert_handle invocation, int index, uint64_t handle);
    litert_status (*invoke)(litert_handle invocation);
    litert_status (*start_metrics)(litert_handle invocation, int detail);
    litert_status (*stop_metrics)(litert_handle invocation, litert_handle *metrics);
    litert_status (*get_num_metrics)(litert_handle metrics, int *num);
    litert_status (*get_metric)(litert_handle metrics, int index, litert_metric *metric);
    litert_status (*destroy_metrics)(litert_handle metrics);
    litert_status (*check_runtime)(litert_version version, litert_handle environment, litert_handle options);
    litert_status (*set_options)(litert_handle invocation, litert_handle options);
    litert_status (*get_hooks)(litert_handle device, void *hook, void **data);
} litert_dispatch;

_Static_assert(sizeof(litert_dispatch) == 208, "LiteRT's dispatch interface has 26 functions");

typedef struct {
    litert_abi abi;
    litert_version version;
    const litert_dispatch *interface;
    const void *async_interface, *graph_interface, *buffer_handlers;
} litert_dispatch_api;

_Static_assert(sizeof(litert_dispatch_api) == 56, "LiteRT's dispatch API has 56 bytes");

#endif
