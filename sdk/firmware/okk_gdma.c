/* okk.h: copies and fills by the GDMA engine. */
#include <limits.h>

#include "fw_gdma.h"

/* One side of a copy. */
typedef struct {
    bool local;
    uint64_t addr; /* as the kernel gives it: local addresses without the memory's base */
    const dim4 *stride;
} side;

static int format_of(int element) {
    return element == 4 ? GDMA_FORMAT_FP32 : element == 2 ? GDMA_FORMAT_INT16 : GDMA_FORMAT_INT8;
}

static uint64_t absolute(const side *s, const char *which) {
    if (!s->local) {
        if (s->addr >> 40) fw_refuse("%s address 0x%llx has more than 40 bits", which, (unsigned long long)s->addr);
        return s->addr;
    }
    if (s->addr >= (uint64_t)CHIP_NPU_NUM * CHIP_LOCAL_BYTES)
        fw_refuse("%s address 0x%llx is over the 32 MiB of local memory", which, (unsigned long long)s->addr);
    return CHIP_LOCAL_BASE + s->addr;
}

static void check_stride(const dim4 *stride, const dim4 *shape, const char *which) {
    if (stride->w != 1 && (shape->w > 1 || stride->w < 0))
        fw_refuse("%s w-stride is %d; GDMA moves w with stride 1", which, stride->w);
    if (stride->n == INT_MAX || stride->c == INT_MAX)
        fw_refuse("the %s tensor has too many elements for its strides", which);
    if (stride->n < 0 || stride->c < 0 || stride->h < 0)
        fw_refuse("%s stride [%d, %d, %d, %d] has a negative entry", which, stride->n, stride->c, stride->h,
                  stride->w);
}

/* In a local function data is in local memory already; the exceptions are inputs that the compiler put into L2, what
 * the program takes for the load or the store of the function's output, and what built-in layers move within local
 * memory. */
void fw_gdma_check_scope(int direction, uint64_t source) {
    fw.apart = false;
    if (fw.scope != FW_SCOPE_LOCAL) return;
    fw.apart = direction == GDMA_DIRECTION_L2S ? fw.scatters : fw.turns && direction == GDMA_DIRECTION_L2L;
    bool from_l2 = source >= CHIP_L2_BASE && source < CHIP_L2_BASE + CHIP_L2_BYTES;
    const bool allowed = fw.gathers ? direction == GDMA_DIRECTION_S2L || direction == GDMA_DIRECTION_L2L
                                    : fw.apart || (direction == GDMA_DIRECTION_S2L && from_l2);
    if (!allowed)
        fw_refuse("the local function of layer %s moves data by GDMA; there only copies from L2 into local memory "
                  "are allowed (inputs with should_input_on_l2mem)",
                  fw.layer);
}

static void resolve(const side *s, const dim4 *shape, int element, const char *which, dim4 *stride) {
    if (s->stride != NULL)
        *stride = *s->stride;
    else if (s->local)
        fw_aligned_stride(stride, okk_start_npu_index((local_addr_t)s->addr), shape, element);
    else
        fw_continuous_stride(stride, shape);
    check_stride(stride, shape, which);
}

void fw_gdma_set_src(uint32_t *d, uint64_t addr, const dim4 *shape) {
    gdma_set_src_start_addr_l32(d, (uint32_t)addr);
    gdma_set_src_start_addr_h8(d, (uint32_t)(addr >> 32));
    gdma_set_src_nsize(d, (uint32_t)shape->n);
    gdma_set_src_csize(d, (uint32_t)shape->c);
    gdma_set_src_hsize(d, (uint32_t)shape->h);
    gdma_set_src_wsize(d, (uint32_t)shape->w);
}

void fw_gdma_set_dst(uint32_t *d, uint64_t addr, const dim4 *shape) {
    gdma_set_dst_start_addr_l32(d, (uint32_t)addr);
    gdma_set_dst_start_addr_h8(d, (uint32_t)(addr >> 32));
    gdma_set_dst_nsize(d, (uint32_t)shape->n);
    gdma_set_dst_csize(d, (uint32_t)shape->c);
    gdma_set_dst_hsize(d, (uint32_t)shape->h);
    gdma_set_dst_wsize(d, (uint32_t)shape->w);
}

void fw_gdma_set_src_stride(uint32_t *d, const dim4 *stride) {
    gdma_set_src_nstride(d, (uint32_t)stride->n);
    gdma_set_src_cstride(d, (uint32_t)stride->c);
    gdma_set_src_hstride(d, (uint32_t)stride->h);
    gdma_set_src_wstride(d, (uint32_t)stride->w);
}

void fw_gdma_set_dst_stride(uint32_t *d, const dim4 *stride) {
    gdma_set_dst_nstride(d, (uint32_t)stride->n);
    gdma_set_dst_cstride(d, (uint32_t)stride->c);
    gdma_set_dst_hstride(d, (uint32_t)stride->h);
    gdma_set_dst_wstride(d, (uint32_t)stride->w);
}

static void begin(uint32_t *d, int direction, int element) {
    gdma_defaults(d);
    gdma_set_direction(d, (uint32_t)direction);
    gdma_set_src_data_format(d, (uint32_t)format_of(element));
    gdma_set_dst_data_format(d, (uint32_t)format_of(element));
}

static int direction_of(bool dst_local, bool src_local) {
    if (src_local) return dst_local ? GDMA_DIRECTION_L2L : GDMA_DIRECTION_L2S;
    return dst_local ? GDMA_DIRECTION_S2L : GDMA_DIRECTION_S2S;
}

/* What one copy with strides holds; more is cut into several, as the vendor's encoder does. Pieces of local
 * memory begin on the tensor's first NPU. Where there is no cut, the descriptor's field refuses the size. */
enum { MOST = CHIP_EXTENT_MAX, PIECE_C = MOST / CHIP_NPU_NUM * CHIP_NPU_NUM, NO_CUT = INT_MAX };

static dim4 most_of(int direction) {
    if (direction == GDMA_DIRECTION_S2S) return (dim4){MOST, MOST, MOST, MOST};
    if (direction == GDMA_DIRECTION_L2L) return (dim4){MOST, NO_CUT, MOST, MOST};
    return (dim4){MOST, PIECE_C, NO_CUT, NO_CUT};
}

static uint64_t piece_of(const side *s, const char *which, const dim4 *at, const dim4 *stride, int element) {
    side piece = *s;
    piece.addr += (uint64_t)fw_pieces_offset(at, stride, s->local) * (uint64_t)element;
    return absolute(&piece, which);
}

static void copy(side dst, side src, const dim4 *shape, int element) {
    fw_check_shape(shape);
    int direction = direction_of(dst.local, src.local);
    fw_gdma_check_scope(direction, src.addr);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    /* With both layouts the default ones, copies between the memories need no strides. */
    if (dst.local != src.local && dst.stride == NULL && src.stride == NULL) {
        begin(d, direction, element);
        fw_gdma_set_src(d, absolute(&src, "source"), shape);
        fw_gdma_set_dst(d, absolute(&dst, "destination"), shape);
        fw_emit_gdma(d);
        return;
    }
    dim4 from, to, most = most_of(direction);
    resolve(&src, shape, element, "source", &from);
    resolve(&dst, shape, element, "destination", &to);
    fw_pieces p = fw_pieces_of(shape, &most);
    while (fw_pieces_next(&p)) {
        begin(d, direction, element);
        fw_gdma_set_src(d, piece_of(&src, "source", &p.at, &from, element), &p.size);
        fw_gdma_set_dst(d, piece_of(&dst, "destination", &p.at, &to, element), &p.size);
        gdma_set_stride_enable(d, 1);
        fw_gdma_set_src_stride(d, &from);
        fw_gdma_set_dst_stride(d, &to);
        fw_emit_gdma(d);
    }
}

static side local(local_addr_t addr, const dim4 *stride) { return (side){true, addr, stride}; }
static side sys(system_addr_t addr, const dim4 *stride) { return (side){false, addr, stride}; }

static void fill(side dst, uint32_t value, const dim4 *shape, int element) {
    fw_check_shape(shape);
    int direction = dst.local ? GDMA_DIRECTION_L2L : GDMA_DIRECTION_S2S;
    fw_gdma_check_scope(direction, 0);
    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, direction, element);
    gdma_set_special_func(d, GDMA_SPECIAL_CONSTANT);
    gdma_set_constant_value(d, value);
    gdma_set_stride_enable(d, 1);
    fw_gdma_set_dst(d, absolute(&dst, "destination"), shape);
    dim4 stride;
    resolve(&dst, shape, 4, "destination", &stride); /* the vendor's default is the 32-bit one at every width */
    fw_gdma_set_dst_stride(d, &stride);
    fw_emit_gdma(d);
}

typedef struct {
    int rows, cols, cols_per_channel, row_stride;
} matrix;

static void copy_matrix(bool to_local, local_addr_t local_addr, system_addr_t sys_addr, matrix m) {
    if (m.rows < 1 || m.cols < 1) fw_refuse("a matrix of %d rows and %d columns", m.rows, m.cols);
    if (m.cols_per_channel < 1) fw_refuse("%d columns per channel; at least 1", m.cols_per_channel);
    if (m.cols_per_channel > m.cols)
        fw_warn("%d columns per channel of a matrix of %d columns", m.cols_per_channel, m.cols);
    if (m.row_stride < 0 || (m.row_stride < m.cols && !to_local && m.rows > 1))
        fw_refuse("row_stride %d is less than the %d columns", m.row_stride, m.cols);
    if (m.row_stride < m.cols) fw_warn("row_stride %d is less than the %d columns", m.row_stride, m.cols);
    if (local_addr % 4 != 0) fw_refuse("local address 0x%x is not a multiple of 4", local_addr);
    if (local_addr % CHIP_ALIGN_BYTES != 0)
        fw_warn("local address 0x%x is not a multiple of %d", local_addr, CHIP_ALIGN_BYTES);
    int direction = to_local ? GDMA_DIRECTION_S2L : GDMA_DIRECTION_L2S;
    fw_gdma_check_scope(direction, sys_addr);
    int channels = (m.cols - 1) / m.cols_per_channel + 1;
    dim4 sys_shape = {1, 1, m.rows, m.cols}, sys_stride = {0, 0, m.row_stride, 1};
    dim4 shape = {m.rows, channels, 1, m.cols_per_channel}, stride;
    fw_aligned_stride(&stride, 0, &shape, 4); /* whichever the start NPU is */
    stride.h = stride.c;
    side l = local(local_addr, NULL), s = sys(sys_addr, NULL);

    uint32_t d[BM1684_DESCRIPTOR_WORDS];
    begin(d, direction, 4);
    gdma_set_stride_enable(d, 1);
    gdma_set_sys_mem_type(d, 1);
    if (to_local) {
        fw_gdma_set_src(d, absolute(&s, "source"), &sys_shape);
        fw_gdma_set_src_stride(d, &sys_stride);
        fw_gdma_set_dst(d, absolute(&l, "destination"), &shape);
        fw_gdma_set_dst_stride(d, &stride);
    } else {
        fw_gdma_set_src(d, absolute(&l, "source"), &shape);
        fw_gdma_set_src_stride(d, &stride);
        fw_gdma_set_dst(d, absolute(&s, "destination"), &sys_shape);
        fw_gdma_set_dst_stride(d, &sys_stride);
    }
    fw_emit_gdma(d);
}

/* ---- what the firmware moves by itself: no kernel line issued it ---- */

static void as_firmware(const char *what) {
    fw.api = what;
    fw.site = NULL;
}

void fw_gdma_load(local_addr_t dst, system_addr_t src, const dim4 *shape, const dim4 *dst_stride,
                  const dim4 *src_stride, int element) {
    as_firmware("load");
    copy(local(dst, dst_stride), sys(src, src_stride), shape, element);
}

void fw_gdma_store(system_addr_t dst, local_addr_t src, const dim4 *shape, const dim4 *dst_stride,
                   const dim4 *src_stride, int element) {
    as_firmware("store");
    copy(sys(dst, dst_stride), local(src, src_stride), shape, element);
}

void fw_gdma_move(local_addr_t dst, local_addr_t src, const dim4 *shape, const dim4 *dst_stride,
                  const dim4 *src_stride, int element) {
    as_firmware("move");
    copy(local(dst, dst_stride), local(src, src_stride), shape, element);
}

/* A continuous copy as rows of ROW elements, then the rest. */
void fw_gdma_copy(system_addr_t dst, system_addr_t src, uint64_t elements, int element) {
    enum { ROWS = CHIP_EXTENT_MAX, ROW = ROWS / 2 + 1 };
    as_firmware("copy");
    while (elements > 0) {
        dim4 shape = {1, 1, 1, (int)(elements < ROW ? elements : ROW)};
        if (elements >= ROW) shape.h = (int)(elements / ROW < ROWS ? elements / ROW : ROWS);
        copy(sys(dst, NULL), sys(src, NULL), &shape, element);
        uint64_t done = (uint64_t)shape.h * (uint64_t)shape.w;
        dst += done * (uint64_t)element;
        src += done * (uint64_t)element;
        elements -= done;
    }
}

/* ---- the public functions ---- */

#define COPIES(BITS)                                                                                         \
    void okk_gdma_##BITS##bit_cpy_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,     \
                                      const dim4 *dst_stride, const dim4 *src_stride) {                     \
        FW_ENTER();                                                                                          \
        copy(local(dst_addr, dst_stride), sys(src_addr, src_stride), shape, BITS / 8);                       \
    }                                                                                                        \
    void okk_gdma_##BITS##bit_cpy_L2S(system_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,     \
                                      const dim4 *dst_stride, const dim4 *src_stride) {                     \
        FW_ENTER();                                                                                          \
        copy(sys(dst_addr, dst_stride), local(src_addr, src_stride), shape, BITS / 8);                       \
    }                                                                                                        \
    void okk_gdma_##BITS##bit_cpy_L2L(local_addr_t dst_addr, local_addr_t src_addr, const dim4 *shape,      \
                                      const dim4 *dst_stride, const dim4 *src_stride) {                     \
        FW_ENTER();                                                                                          \
        copy(local(dst_addr, dst_stride), local(src_addr, src_stride), shape, BITS / 8);                     \
    }                                                                                                        \
    void okk_gdma_##BITS##bit_cpy_S2S(system_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape,    \
                                      const dim4 *dst_stride, const dim4 *src_stride) {                     \
        FW_ENTER();                                                                                          \
        copy(sys(dst_addr, dst_stride), sys(src_addr, src_stride), shape, BITS / 8);                         \
    }

COPIES(32)
COPIES(16)
COPIES(8)

#define FILLS(BITS, TYPE, MEMBER)                                                                            \
    void okk_gdma_##BITS##bit_set_C_system(system_addr_t dst_addr, TYPE C, const dim4 *shape,               \
                                           const dim4 *dst_stride) {                                         \
        FW_ENTER();                                                                                          \
        fill(sys(dst_addr, dst_stride), C.MEMBER, shape, BITS / 8);                                          \
    }                                                                                                        \
    void okk_gdma_##BITS##bit_set_C_local(local_addr_t dst_addr, TYPE C, const dim4 *shape,                 \
                                          const dim4 *dst_stride) {                                          \
        FW_ENTER();                                                                                          \
        fill(local(dst_addr, dst_stride), C.MEMBER, shape, BITS / 8);                                        \
    }

FILLS(32, x32, u32)
FILLS(16, x16, u16)
FILLS(8, x8, u8)

void okk_gdma_32bit_matrix_S2L(local_addr_t dst_addr, system_addr_t src_addr, int rows, int cols,
                               int cols_per_channel, int row_stride) {
    FW_ENTER();
    copy_matrix(true, dst_addr, src_addr, (matrix){rows, cols, cols_per_channel, row_stride});
}

void okk_gdma_32bit_matrix_L2S(system_addr_t dst_addr, local_addr_t src_addr, int rows, int cols,
                               int cols_per_channel, int row_stride) {
    FW_ENTER();
    copy_matrix(false, src_addr, dst_addr, (matrix){rows, cols, cols_per_channel, row_stride});
}

void okk_gdma_compact_S2L(local_addr_t dst_addr, system_addr_t src_addr, const dim4 *shape) {
    FW_ENTER();
    fw_check_shape(shape);
    if (okk_start_npu_index(dst_addr) != 0)
        fw_refuse("address 0x%x starts on NPU %d; this copy starts on NPU 0", dst_addr,
                  okk_start_npu_index(dst_addr));
    dim4 stride;
    fw_compact_stride(&stride, 0, shape);
    copy(local(dst_addr, &stride), sys(src_addr, NULL), shape, 4);
}
