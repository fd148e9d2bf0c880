/* Device memory and copies for one kind of descriptor; bmlib_memory.c includes this for each of the three. Given are
 *   NAME(x)  the function that bm_x is for this kind
 *   MEM      its descriptor
 *   SIZE     the type of sizes and offsets of its functions
 *   COUNT    that of extents and numbers of elements
 */

/* ---- descriptors ---- */

MEM NAME(mem_from_device)(unsigned long long device_addr, SIZE len) {
    MEM mem;
    memset(&mem, 0, sizeof mem);
    mem.u.device.device_addr = (unsigned long)device_addr;
    mem.flags.u.mem_type = BM_MEM_TYPE_DEVICE;
    mem.size = len;
    return mem;
}

bm_mem_type_t NAME(mem_get_type)(MEM mem) { return mem.flags.u.mem_type; }
unsigned long long NAME(mem_get_device_addr)(MEM mem) { return mem.u.device.device_addr; }
SIZE NAME(mem_get_device_size)(MEM mem) { return mem.size; }
void *NAME(mem_get_system_addr)(MEM mem) { return mem.u.system.system_addr; }
void NAME(mem_set_system_addr)(MEM *pmem, void *addr) { pmem->u.system.system_addr = addr; }
void NAME(mem_set_device_size)(MEM *pmem, SIZE size) { pmem->size = size; }

void NAME(mem_set_device_addr)(MEM *pmem, unsigned long long addr) {
    pmem->u.device.device_addr = (unsigned long)addr;
}

void NAME(set_device_mem)(MEM *pmem, SIZE size, unsigned long long addr) { *pmem = NAME(mem_from_device)(addr, size); }

static device_piece NAME(piece)(MEM mem) {
    return (device_piece){mem.u.device.device_addr, mem.size, mem.flags.u.mem_type == BM_MEM_TYPE_DEVICE};
}

/* ---- allocation ---- */

static bm_status_t NAME(give)(bm_handle_t handle, MEM *pmem, uint64_t size, const char *function) {
    uint64_t addr;
    if (pmem == NULL) return bmlib_refuse(function, "pmem is NULL");
    if (size > (SIZE)-1) return bmlib_refuse(function, TOO_LARGE);
    bm_status_t status = allocate(handle, size, &addr, function);
    if (status == BM_SUCCESS) *pmem = NAME(mem_from_device)(addr, (SIZE)size);
    return status;
}

bm_status_t NAME(malloc_device_byte)(bm_handle_t handle, MEM *pmem, SIZE size) {
    return NAME(give)(handle, pmem, size, __func__);
}

bm_status_t NAME(malloc_device_dword)(bm_handle_t handle, MEM *pmem, COUNT count) {
    uint64_t size;
    return bytes_of((int64_t)count, 1, 1, 1, &size, __func__) ? NAME(give)(handle, pmem, size, __func__)
                                                              : BM_ERR_PARAM;
}

bm_status_t NAME(malloc_neuron_device)(bm_handle_t handle, MEM *pmem, COUNT n, COUNT c, COUNT h, COUNT w) {
    uint64_t size;
    return bytes_of((int64_t)n, (int64_t)c, (int64_t)h, (int64_t)w, &size, __func__)
               ? NAME(give)(handle, pmem, size, __func__)
               : BM_ERR_PARAM;
}

bm_status_t NAME(malloc_device_byte_heap)(bm_handle_t handle, MEM *pmem, int heap_id, SIZE size) {
    if (heap_id < 0 || heap_id >= HEAPS) return bmlib_refuse(__func__, NO_HEAP);
    return NAME(give)(handle, pmem, size, __func__);
}

bm_status_t NAME(malloc_device_byte_heap_mask)(bm_handle_t handle, MEM *pmem, int heap_id_mask, SIZE size) {
    if ((heap_id_mask & ((1 << HEAPS) - 1)) == 0)
        return bmlib_refuse(__func__, "heap_id_mask has none of bits 0, 1 and 2");
    return NAME(give)(handle, pmem, size, __func__);
}

void NAME(free_device)(bm_handle_t handle, MEM mem) { release(handle, mem.u.device.device_addr, __func__); }

bm_status_t NAME(get_gmem_heap_id)(bm_handle_t handle, MEM *pmem, unsigned int *heapid) {
    (void)handle;
    if (pmem == NULL || heapid == NULL) return bmlib_refuse(__func__, "pmem or heapid is NULL");
    *heapid = 0;
    return BM_SUCCESS;
}

/* ---- copies ---- */

bm_status_t NAME(memcpy_s2d)(bm_handle_t handle, MEM dst, void *src) {
    return write_piece(handle, NAME(piece)(dst), src, dst.size, 0, __func__);
}

bm_status_t NAME(memcpy_s2d_partial)(bm_handle_t handle, MEM dst, void *src, SIZE size) {
    return write_piece(handle, NAME(piece)(dst), src, size, 0, __func__);
}

bm_status_t NAME(memcpy_s2d_partial_offset)(bm_handle_t handle, MEM dst, void *src, SIZE size, SIZE offset) {
    return write_piece(handle, NAME(piece)(dst), src, size, offset, __func__);
}

bm_status_t NAME(memcpy_d2s)(bm_handle_t handle, void *dst, MEM src) {
    return read_piece(handle, dst, NAME(piece)(src), src.size, 0, __func__);
}

bm_status_t NAME(memcpy_d2s_partial)(bm_handle_t handle, void *dst, MEM src, SIZE size) {
    return read_piece(handle, dst, NAME(piece)(src), size, 0, __func__);
}

bm_status_t NAME(memcpy_d2s_partial_offset)(bm_handle_t handle, void *dst, MEM src, SIZE size, SIZE offset) {
    return read_piece(handle, dst, NAME(piece)(src), size, offset, __func__);
}

/* ---- in the program's address space ---- */

bm_status_t NAME(mem_mmap_device_mem)(bm_handle_t handle, MEM *dmem, unsigned long long *vmem) {
    if (dmem == NULL) return bmlib_refuse(__func__, "dmem is NULL");
    return bmlib_map(handle, NAME(piece)(*dmem), vmem, __func__);
}

bm_status_t NAME(mem_mmap_device_mem_no_cache)(bm_handle_t handle, MEM *dmem, unsigned long long *vmem) {
    if (dmem == NULL) return bmlib_refuse(__func__, "dmem is NULL");
    return bmlib_map(handle, NAME(piece)(*dmem), vmem, __func__);
}

static bm_status_t NAME(coherent)(const MEM *dmem, uint64_t offset, uint64_t len, const char *function) {
    if (dmem == NULL) return bmlib_refuse(function, "dmem is NULL");
    return bmlib_coherent(NAME(piece)(*dmem), offset, len, function);
}

bm_status_t NAME(mem_invalidate_device_mem)(bm_handle_t handle, MEM *dmem) {
    (void)handle;
    return NAME(coherent)(dmem, 0, 0, __func__);
}

bm_status_t NAME(mem_invalidate_partial_device_mem)(bm_handle_t handle, MEM *dmem, SIZE offset, SIZE len) {
    (void)handle;
    return NAME(coherent)(dmem, offset, len, __func__);
}

bm_status_t NAME(mem_flush_device_mem)(bm_handle_t handle, MEM *dmem) {
    (void)handle;
    return NAME(coherent)(dmem, 0, 0, __func__);
}

bm_status_t NAME(mem_flush_partial_device_mem)(bm_handle_t handle, MEM *dmem, SIZE offset, SIZE len) {
    (void)handle;
    return NAME(coherent)(dmem, offset, len, __func__);
}

#undef NAME
#undef MEM
#undef SIZE
#undef COUNT
