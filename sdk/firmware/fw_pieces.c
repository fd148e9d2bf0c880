/* Cutting a tensor into pieces that one command can hold. */
#include "fw_internal.h"

static int least(int a, int b) { return a < b ? a : b; }

/* Before the first piece the size is that of no piece at all. */
fw_pieces fw_pieces_of(const dim4 *shape, const dim4 *most) {
    return (fw_pieces){.whole = *shape, .most = *most};
}

/* One axis further, or back to its beginning: then the next outer axis has to move. */
static bool step(int *at, int *size, int whole, int most) {
    bool more = *size < whole - *at;
    *at = more ? *at + *size : 0;
    *size = least(most, whole - *at);
    return more;
}

bool fw_pieces_next(fw_pieces *p) {
    if (p->size.n == 0) {
        p->size = (dim4){least(p->most.n, p->whole.n), least(p->most.c, p->whole.c), least(p->most.h, p->whole.h),
                         least(p->most.w, p->whole.w)};
        return true;
    }
    return step(&p->at.w, &p->size.w, p->whole.w, p->most.w) || step(&p->at.h, &p->size.h, p->whole.h, p->most.h) ||
           step(&p->at.c, &p->size.c, p->whole.c, p->most.c) || step(&p->at.n, &p->size.n, p->whole.n, p->most.n);
}

int64_t fw_pieces_offset(const dim4 *at, const dim4 *stride, bool local) {
    int64_t c = local ? at->c / CHIP_NPU_NUM : at->c;
    return (int64_t)at->n * stride->n + c * stride->c + (int64_t)at->h * stride->h + (int64_t)at->w * stride->w;
}

local_addr_t fw_pieces_local(local_addr_t addr, const dim4 *at, const dim4 *stride, const char *which) {
    int64_t piece = (int64_t)addr + fw_pieces_offset(at, stride, true) * 4;
    if (piece >= (int64_t)CHIP_NPU_NUM * CHIP_LOCAL_BYTES)
        fw_refuse("%s reaches 0x%llx, which is over the 32 MiB of local memory", which, (unsigned long long)piece);
    return (local_addr_t)piece;
}
