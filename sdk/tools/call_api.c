/* A kernel that makes any calls of the kernel API that it is sent: what `tpulayer isa encode` and
 * `tpulayer conformance` run. The dispatcher is made from the headers by user_layers/encode/calls.py.
 */
#include "fw_internal.h"
#include "okk.h"

typedef unsigned long long word;

/* Calls function number f with one word per argument; pointers are 1 + an offset into data, NULL is 0.
 * Returns what the function returned, or 0. */
word call_api_dispatch(word f, const word *arguments, const char *data);

/* {calls, bytes of them, DDR address for results or 0}, then per call {function, words, words...}; the
 * data that pointers count in follows. Per call six words come out: bd id, gdma id, parallel, result, and
 * the newest numbers of BD and GDMA commands, which okk_get_id_node does not show in a parallel section. */
void call_api(const void *args) {
    const word *w = args;
    const char *data = (const char *)(w + 3) + w[1];
    const word *at = w + 3;
    /* not okk_global_mem_addr, which refuses while commands are recorded */
    word *out = (word *)(void *)fw_ddr_pointer(w[2], w[0] * 6 * sizeof(word));
    okk_initialize();
    for (word i = 0; i < w[0]; i++) {
        unsigned int node[3];
        word result = call_api_dispatch(at[0], at + 2, data);
        at += 2 + at[1];
        okk_get_id_node(node);
        if (out == NULL) continue;
        out[0] = node[0];
        out[1] = node[1];
        out[2] = node[2];
        out[3] = result;
        out[4] = fw.bd_id;
        out[5] = fw.gdma_id;
        out += 6;
    }
}
OKKERNEL_FUNC_REGISTER(call_api)
