#include "bm_layer_conv_plan.h"

#define CONV_LOAD_COST 230000ull /* bytes that could be moved in the time that a load takes to begin */

/* Bytes per NPU of the weights of a tile. */
static long long conv_weight_bytes(const conv_problem *p, const conv_plan *t) {
    return local_align(4ll * local_slots(t->group * t->out_c) * bm_conv_channel_words(p, t->in_c));
}

static long long conv_bias_bytes(const conv_problem *p, const conv_plan *t) {
    return p->bias && !p->joined ? local_align(4ll * local_slots(t->group * t->out_c)) : 0;
}

long long bm_conv_input_bytes(const conv_problem *p, const conv_plan *t) {
    const long long h = bm_axis_elements(&p->h, t->h);
    const long long w = bm_conv_all_columns(p, t) ? p->w.size : bm_axis_elements(&p->w, t->w);
    return local_bytes(t->n, t->group * t->in_c, p->filled || h < p->h.size ? h : p->h.size,
                       p->filled || w < p->w.size ? w : p->w.size);
}

static long long conv_output_bytes(const conv_plan *t) {
    return local_bytes(t->n, t->group * t->out_c, t->h, t->w);
}

static long long conv_phase_bytes(const conv_problem *p, const conv_plan *t) {
    if (!p->phased) return 0;
    return local_bytes(t->n, t->group * t->out_c, divide_up(t->h, p->h.insert + 1), divide_up(t->w, p->w.insert + 1));
}

static bool conv_fits(const conv_problem *p, const conv_plan *t) {
    const long long once = bm_conv_input_bytes(p, t) + conv_output_bytes(t) + conv_weight_bytes(p, t) + conv_bias_bytes(p, t);
    return 2 * once + conv_phase_bytes(p, t) <= CHIP_LOCAL_BYTES;
}

/* The most output elements below which an instruction's input is not too long. */
static int conv_most(const window_axis *a) {
    return smaller(a->out, (int)((CHIP_WINDOW_SIDE_MAX - bm_axis_extent(a)) / a->stride + 1));
}

/* The largest value of 1..most with which the plan fits; the caller knows that 1 does. */
static int conv_largest(const conv_problem *p, conv_plan *t, int *value, int most) {
    int low = 1, high = most;
    while (low < high) {
        *value = low + (high - low + 1) / 2;
        if (conv_fits(p, t)) low = *value;
        else high = *value - 1;
    }
    return low;
}

/* Extents n, h, w of the tiles for the given channels: as large as fit, of equal size. */
static bool conv_fit_tile(const conv_problem *p, conv_plan *t) {
    const int most_h = conv_most(&p->h), most_w = conv_most(&p->w);
    t->n = t->h = t->w = 1;
    if (!conv_fits(p, t)) return false;
    t->w = conv_largest(p, t, &t->w, most_w);
    t->w = divide_up(p->w.out, divide_up(p->w.out, t->w));
    t->h = conv_largest(p, t, &t->h, most_h);
    t->h = divide_up(p->h.out, divide_up(p->h.out, t->h));
    if (t->h == p->h.out && t->w == p->w.out) t->n = conv_largest(p, t, &t->n, p->n);
    return true;
}

static void conv_count(const conv_problem *p, conv_plan *t) {
    t->groups = divide_up(p->groups, t->group);
    t->out_cs = divide_up(p->out_c, t->out_c);
    t->in_cs = divide_up(p->in_c, t->in_c);
    t->ns = divide_up(p->n, t->n);
    t->hs = divide_up(p->h.out, t->h);
    t->ws = divide_up(p->w.out, t->w);
}

/* What the loads take, in bytes; what cannot overlap with computing counts twice. Sets tiles_outer. */
static unsigned long long conv_cost(const conv_problem *p, conv_plan *t) {
    conv_count(p, t);
    const unsigned long long tiles = (unsigned long long)t->ns * (unsigned)t->hs * (unsigned)t->ws;
    const unsigned long long weights = (unsigned long long)t->out_cs * (unsigned)t->in_cs;
    const unsigned long long input = CHIP_NPU_NUM * (unsigned long long)bm_conv_input_bytes(p, t) + CONV_LOAD_COST;
    const unsigned long long weight = CHIP_NPU_NUM * (unsigned long long)conv_weight_bytes(p, t) + CONV_LOAD_COST;
    /* Tiles below the same weights, or all weights for each tile. */
    const unsigned long long all = tiles * weights;
    const unsigned long long inner = all * input + (t->in_cs > 1 ? all : weights) * weight;
    const unsigned long long outer = (t->in_cs > 1 ? all : tiles) * input + (weights > 1 ? all : 1) * weight;
    t->tiles_outer = outer < inner;
    return (t->tiles_outer ? outer : inner) * (unsigned)t->groups + input + weight +
           CHIP_NPU_NUM * (unsigned long long)conv_output_bytes(t);
}

/* Takes t for best if it costs less, whole or with tiles of fewer rows, which overlap more. */
static void conv_consider(const conv_problem *p, conv_plan t, conv_plan *best, unsigned long long *least) {
    if (!conv_fit_tile(p, &t)) return;
    const int rows = t.h;
    for (int cut = 1; cut <= 4 && cut <= rows; cut *= 2) {
        t.h = divide_up(rows, cut);
        const unsigned long long cost = conv_cost(p, &t);
        if (cost >= *least) continue;
        *least = cost;
        *best = t;
    }
}

/* The next smaller number of channels: half, in whole rounds of lanes as long as there are several. */
static int conv_fewer(int channels) {
    const int half = divide_up(channels, 2);
    return half > CHIP_NPU_NUM ? divide_up(half, CHIP_NPU_NUM) * CHIP_NPU_NUM : half;
}

static void conv_place(const conv_problem *p, conv_plan *t) {
    local_addr_t at = 0;
    for (int i = 0; i < 2; i++) {
        t->input[i] = at;
        t->output[i] = t->input[i] + (local_addr_t)bm_conv_input_bytes(p, t);
        t->weight[i] = t->output[i] + (local_addr_t)conv_output_bytes(t);
        t->bias[i] = t->weight[i] + (local_addr_t)conv_weight_bytes(p, t);
        at = t->bias[i] + (local_addr_t)conv_bias_bytes(p, t);
    }
    t->phases = at;
}

bool bm_conv_make_plan(const conv_problem *p, conv_plan *best) {
    unsigned long long least = ~0ull;
    conv_plan t = {.group = p->groups, .out_c = p->out_c, .in_c = p->in_c};
    if (bm_axis_extent(&p->h) > CHIP_WINDOW_SIDE_MAX || bm_axis_extent(&p->w) > CHIP_WINDOW_SIDE_MAX) return false;
    for (;; t.group = conv_fewer(t.group)) { /* all channels of several groups */
        if ((long long)t.group * larger(p->in_c, p->out_c) <= CHIP_CHANNELS_WHOLE) conv_consider(p, t, best, &least);
        if (t.group == 1) break;
    }
    for (t.out_c = smaller(p->out_c, CHIP_CHANNELS_WHOLE);; t.out_c = conv_fewer(t.out_c)) {
        for (t.in_c = smaller(p->in_c, CHIP_CHANNELS_WHOLE);; t.in_c = conv_fewer(t.in_c)) {
            if (t.in_c < p->in_c) t.in_c += t.in_c % 2; /* pairs stay together */
            conv_consider(p, t, best, &least);
            /* Sums in parts have other bits than whole ones, which a group makes: only where nothing else fits. */
            if (t.in_c <= 4 || p->bytes != NULL || least != ~0ull) break;
        }
        if (t.out_c <= CHIP_NPU_NUM) break;
    }
    if (least == ~0ull) return false;
    conv_place(p, best);
    return true;
}

void bm_conv_zero_beside(const conv_problem *p, local_addr_t input, long long bytes) {
    const int beside = bm_conv_channels(p) - p->in_c;
    if (p->depthwise || beside == 0) return;
    const dim4 lines = {1, beside, (int)(bytes / CHIP_ALIGN_BYTES), CHIP_ALIGN_BYTES / 4};
    okk_bdc_32bit_set_C(input + (local_addr_t)p->in_c * CHIP_LOCAL_BYTES, (x32){.fp32 = 0}, &lines, NULL);
}
