#include "bm_layer_axis.h"

bool bm_axis_valid(const window_axis *a) {
    return a->kernel >= 1 && a->kernel <= AXIS_PARAM_MAX && a->stride >= 1 && a->stride <= AXIS_PARAM_MAX &&
           a->dilation >= 1 && a->dilation <= AXIS_PARAM_MAX && a->before >= 0 && a->before <= AXIS_PARAM_MAX &&
           a->after >= 0 && a->after <= AXIS_PARAM_MAX && a->insert >= 0 && a->insert < AXIS_PARAM_MAX;
}

int bm_axis_result(const window_axis *a) {
    if (!bm_axis_valid(a)) return 0;
    const long long positions = (long long)(a->size - 1) * (a->insert + 1) + 1;
    const long long room = positions + a->before + a->after - bm_axis_extent(a);
    return room < 0 || room / a->stride > 0x7FFFFFFE ? 0 : (int)(room / a->stride + 1);
}

window_part bm_axis_part(const window_axis *a, int first, int count) {
    const long long start = (long long)first * a->stride - a->before, length = bm_axis_length(a, count);
    const long long step = a->insert + 1, last = start + length - 1;
    /* Elements in the window, whether the tensor has them or not; rounded up and down. */
    const long long from = start > 0 ? (start + step - 1) / step : -(-start / step);
    const long long to = last >= 0 ? last / step + 1 : -((-last + step - 1) / step) + 1;
    if (from >= to) return (window_part){.zeros_before = 1, .edge_after = (int)(length - 1)};
    window_part p = {.edge_before = (int)(from * step - start), .edge_after = (int)(last - (to - 1) * step)};
    const long long low = from > 0 ? from : 0, high = to < a->size ? to : a->size;
    if (low >= high) {
        p.zeros_before = (int)(to - from);
        return p;
    }
    p.first = (int)low;
    p.count = (int)(high - low);
    p.zeros_before = (int)(low - from);
    p.zeros_after = (int)(to - high);
    p.before = p.edge_before + (int)(p.zeros_before * step);
    p.after = p.edge_after + (int)(p.zeros_after * step);
    return p;
}

window_outputs bm_axis_seen(const window_axis *a, int tap, int start, int count) {
    const long long offset = (long long)tap * a->dilation - a->before;
    const long long low = offset >= 0 ? 0 : (-offset + a->stride - 1) / a->stride;
    const long long high = offset >= a->size ? 0 : (a->size - 1 - offset) / a->stride + 1;
    const int end = start + count;
    const int from = low < start ? start : low < end ? (int)low : end;
    return (window_outputs){from, high < from ? from : high < end ? (int)high : end};
}

bool bm_axis_misses(const window_axis *a) {
    for (int i = 0; i < a->out; i++) {
        bool seen = false;
        for (int tap = 0; tap < a->kernel && !seen; tap++) {
            const window_outputs one = bm_axis_seen(a, tap, i, 1);
            seen = one.first < one.end;
        }
        if (!seen) return true;
    }
    return false;
}
