/* TPU_DETECTION_OUTPUT: boxes from an SSD's predictions, as DetectionOutput of Caffe's ssd branch has them. The
 * engines decode all boxes (loc has them for each class where the classes share none) and tell which priors have a
 * score above the threshold; the controller goes through those only: the best top_k of each class (equal scores in
 * order of priors), greedy suppression of what overlaps a better box of its class, the best keep_top_k of an image.
 * Rows are image, class, score, xmin, ymin, xmax, ymax, by image, class and falling score. Without any detection there
 * is one row for each image: its number, then -1 six times. Scores that are denormal count as 0, NaN is above no
 * threshold.
 *
 * Inputs: loc `[N, priors * 4]`, scores `[N, priors * classes]`, priors `[1, 2, priors * 4]`
 * Makes: an SSD's detections `[1, 1, rows, 7]`; how many is known when it has run
 */
#include <limits.h>
#include <stdbool.h>

#include "bm_layer_detection.h"
#include "bm_layer_functions.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define ROW 7            /* numbers of a detection */
#define CLASSES_MAX 4096 /* a row of scores fits into a lane many times */

enum { CORNER = 1, CENTER_SIZE = 2, CORNER_SIZE = 3 };

__BM_PARAM__(TPU_DETECTION_OUTPUT)
typedef struct {
    int num_classes;                /* the background's included */
    int share_location;             /* 1: one box for all classes of a prior */
    int background_label_id;        /* the class that is nothing; -1: there is none */
    int code_type;                  /* what loc means: 1 CORNER, 2 CENTER_SIZE, 3 CORNER_SIZE */
    int variance_encoded_in_target; /* 1: loc is not to be multiplied by the priors' variances */
    int top_k;                      /* scores of a class that are looked at; 0: all */
    int keep_top_k;                 /* detections of an image; 0: all */
    float nms_threshold;            /* boxes that overlap a better one by more (intersection / union) are left out */
    float eta;                      /* what the threshold is multiplied by after each box while above 0.5; 1: nothing */
    float confidence_threshold;     /* scores are above it */
} tpu_detection_output_param_t;

__BM_SHAPE__(TPU_DETECTION_OUTPUT)
int detection_output_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                           tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_detection_output_param_t) || in_num != 3 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_detection_output_param_t *p = param;
    const tpu_tensor_t *loc = &in_tensors[0], *conf = &in_tensors[1], *prior = &in_tensors[2];
    if (p->num_classes < 1 || p->background_label_id < -1 || p->background_label_id >= p->num_classes ||
        p->code_type < CORNER || p->code_type > CORNER_SIZE || p->top_k < 0 || p->keep_top_k < 0 ||
        ((p->share_location | p->variance_encoded_in_target) & ~1) || !(p->nms_threshold >= 0) || !(p->eta > 0) ||
        !(p->eta <= 1) || p->confidence_threshold != p->confidence_threshold)
        return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 3) || p->num_classes > CLASSES_MAX) return BM_LAYER_NOT_SUPPORTED;
    if (prior->dims != 3 || prior->shape[0] != 1 || prior->shape[2] % 4 != 0 ||
        (prior->shape[1] != 2 && !(prior->shape[1] == 1 && p->variance_encoded_in_target)))
        return BM_LAYER_PARAM_INVALID;
    const unsigned long long priors = (unsigned long long)prior->shape[2] / 4, images = (unsigned long long)loc->shape[0];
    const unsigned long long boxes = p->share_location ? priors : priors * (unsigned long long)p->num_classes;
    if (conf->shape[0] != loc->shape[0] || bm_layer_elements(loc->shape, 1, (int)loc->dims) != 4 * boxes ||
        bm_layer_elements(conf->shape, 1, (int)conf->dims) != priors * (unsigned long long)p->num_classes)
        return BM_LAYER_PARAM_INVALID;
    const unsigned long long most = images * bm_detections_of(p->num_classes, p->background_label_id, (int)priors,
                                                              p->top_k, p->keep_top_k);
    if (most > INT_MAX / ROW) return BM_LAYER_NOT_SUPPORTED;
    tpu_tensor_t *out = &out_tensors[0];
    out->ttype = BMNET_NEURON;
    out->dtype = DTYPE_FP32;
    out->dims = 4;
    out->shape[0] = out->shape[1] = 1;
    out->shape[2] = most > images ? (int)most : (int)images;
    out->shape[3] = ROW;
    return BM_LAYER_OK;
}

/* Everything that the functions below need. */
typedef struct {
    const tpu_detection_output_param_t *p;
    int images, priors, labels; /* labels: those that have boxes of their own */
    int limit;                  /* candidates of a class */
    bm_detection_buffer at;
} detection;

/* ---- on the engines ---- */

/* `rows` rows of four words for each of c lanes, `step` words apart in DDR and next to each other in a lane. */
static void move_rows(bool load, local_addr_t local, u64 addr, int c, int rows, int step) {
    const bool together = step == 4;
    const dim4 shape = {1, c, together ? 1 : rows, together ? 4 * rows : 4};
    dim4 near;
    const dim4 far = {0, step * rows, step, 1};
    okk_128_byte_aligned_stride_for_32bit(&near, 0, &shape);
    if (load)
        okk_gdma_32bit_cpy_S2L(local, addr, &shape, &near, &far);
    else
        okk_gdma_32bit_cpy_L2S(addr, local, &shape, &far, &near);
}

/* A lane's buffers: rows of four words, and behind them of two. */
#define PRIORS_MAX 4096 /* of a lane */
#define FOURS (16 * PRIORS_MAX)
#define TWOS (8 * PRIORS_MAX)
enum { LOC = 0, PRIOR = FOURS, VARIANCE = 2 * FOURS, SIZE = 3 * FOURS, CENTER = SIZE + TWOS, POWER = CENTER + TWOS,
       EXPONENT = POWER + TWOS, WORK = EXPONENT + TWOS, HIGH = 8 };

/* The boxes of a tile take the place of its predictions: xmin, ymin, xmax, ymax. The order of operations is Caffe's. */
static void decode(const tpu_detection_output_param_t *p, int c, int rows) {
    const dim4 all = {1, c, rows, 4}, pair = {1, c, rows, 2}, flat = bm_flat(&pair);
    dim4 step;
    okk_128_byte_aligned_stride_for_32bit(&step, 0, &all);
    if (!p->variance_encoded_in_target) bm_mul(LOC, LOC, VARIANCE, &all);
    if (p->code_type != CORNER) okk_bdc_sub(SIZE, PRIOR + HIGH, PRIOR, &pair, NULL, &step, &step);
    if (p->code_type == CORNER_SIZE) {
        okk_bdc_mul(LOC, LOC, SIZE, &pair, &step, &step, NULL);
        okk_bdc_mul(LOC + HIGH, LOC + HIGH, SIZE, &pair, &step, &step, NULL);
    }
    if (p->code_type != CENTER_SIZE) {
        bm_add(LOC, LOC, PRIOR, &all);
        return;
    }
    okk_bdc_add(CENTER, PRIOR, PRIOR + HIGH, &pair, NULL, &step, &step);
    bm_mul_C(CENTER, CENTER, 0.5f, &pair);
    okk_bdc_mul(POWER, LOC, SIZE, &pair, NULL, &step, NULL);
    bm_add(CENTER, POWER, CENTER, &pair);
    okk_bdc_32bit_cpy(EXPONENT, LOC + HIGH, &pair, NULL, &step);
    bm_exp(POWER, EXPONENT, WORK, &flat);
    bm_mul(POWER, POWER, SIZE, &pair);
    bm_mul_C(POWER, POWER, 0.5f, &pair);
    okk_bdc_sub(LOC, CENTER, POWER, &pair, &step, NULL, NULL);
    okk_bdc_add(LOC + HIGH, CENTER, POWER, &pair, &step, NULL, NULL);
}

/* The boxes of one image for one label. */
static void decode_all(const detection *d, u64 loc, u64 prior, u64 boxes) {
    const int step = 4 * d->labels;
    for (int at = 0, c, rows; at < d->priors; at += c * rows) {
        c = smaller(d->priors - at, CHIP_NPU_NUM);
        rows = smaller((d->priors - at) / c, PRIORS_MAX);
        move_rows(true, LOC, loc + 4ull * (u64)at * (u64)step, c, rows, step);
        move_rows(true, PRIOR, prior + 16ull * (u64)at, c, rows, 4);
        if (!d->p->variance_encoded_in_target)
            move_rows(true, VARIANCE, prior + 16ull * (u64)(d->priors + at), c, rows, 4);
        decode(d->p, c, rows);
        move_rows(false, LOC, boxes + 16ull * (u64)at, c, rows, 4);
    }
}

/* The lanes' buffers while scores are looked at. */
#define SCORE_WORDS (CHIP_LOCAL_WORDS / 2 - 1) /* an extent at most */
#define FOUND_WORDS (CHIP_LOCAL_WORDS / 8)
enum { SCORES = 0, FOUND = CHIP_LOCAL_BYTES / 2, NEXT = FOUND + 4 * FOUND_WORDS };

/* For each row of scores, one word: 0 where none of them is above the threshold, but for the background's. */
static void find(const detection *d, u64 scores, u64 found) {
    const int classes = d->p->num_classes, most = smaller(SCORE_WORDS / classes, FOUND_WORDS);
    const int all = d->images * d->priors;
    for (int at = 0, c, rows; at < all; at += c * rows) {
        c = smaller(all - at, CHIP_NPU_NUM);
        rows = smaller((all - at) / c, most);
        const dim4 loaded = {1, c, 1, rows * classes}, column = {1, c, rows, 1}, stored = {1, c, 1, rows};
        dim4 step;
        okk_128_byte_aligned_stride_for_32bit(&step, 0, &loaded);
        okk_gdma_32bit_cpy_S2L(SCORES, scores + 4ull * (u64)at * (u64)classes, &loaded, NULL, NULL);
        step.h = classes;
        okk_bdc_32bit_set_C(FOUND, bm_word(0), &column, NULL);
        for (int label = 0; label < classes; label++) {
            if (label == d->p->background_label_id) continue;
            okk_bdc_greater_C_select_value(NEXT, SCORES + 4u * (unsigned int)label, d->p->confidence_threshold,
                                           bm_word(1), &column, NULL, &step);
            bm_or(FOUND, FOUND, NEXT, &column);
        }
        okk_gdma_32bit_cpy_L2S(found + 4ull * (u64)at, FOUND, &stored, NULL, NULL);
    }
}

/* ---- on the controller: heaps whose first element is the smallest ---- */

/* Numbers in the order of whole ones: equal for 0, -0 and denormals. */
static int rank_of(unsigned int bits) {
    const int magnitude = (int)(bits & BM_MAGNITUDE);
    if (magnitude <= (int)BM_MANTISSA) return 0;
    return (bits & BM_SIGN) != 0 ? -magnitude : magnitude;
}

static bool is_nan(unsigned int bits) { return (bits & BM_MAGNITUDE) > BM_EXPONENT; }

/* Larger is better: by rank, and of equal ones that with the lower index. */
static u64 entry_of(int rank, int index) {
    return ((u64)((unsigned int)rank ^ BM_SIGN) << 32) | (unsigned int)(INT_MAX - index);
}
static int index_of(u64 entry) { return INT_MAX - (int)(unsigned int)entry; }

static void sift_down(u64 *heap, int count, int at, u64 entry) {
    for (int child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (entry <= heap[child]) break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

/* The best `limit` of those that are offered stay. */
static int offer(u64 *heap, int count, int limit, u64 entry) {
    if (count == limit) {
        if (entry > heap[0]) sift_down(heap, count, 0, entry);
        return count;
    }
    int at = count;
    for (; at > 0 && heap[(at - 1) / 2] > entry; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
    return count + 1;
}

/* A heap's elements, the best one first. */
static void sort(u64 *heap, int count) {
    for (int left = count - 1; left > 0; left--) {
        const u64 least = heap[0], last = heap[left];
        sift_down(heap, left, 0, last);
        heap[left] = least;
    }
}

/* ---- on the controller: suppression ---- */

enum { XMIN, YMIN, XMAX, YMAX };

static float area_of(const x32 *b) {
    if (b[XMAX].fp32 < b[XMIN].fp32 || b[YMAX].fp32 < b[YMIN].fp32) return 0;
    return (b[XMAX].fp32 - b[XMIN].fp32) * (b[YMAX].fp32 - b[YMIN].fp32);
}

/* Whether box a is to be left out because of b, which has a better score. */
static bool overlaps(const x32 *a, const x32 *b, float threshold) {
    const float left = a[XMIN].fp32 > b[XMIN].fp32 ? a[XMIN].fp32 : b[XMIN].fp32;
    const float top = a[YMIN].fp32 > b[YMIN].fp32 ? a[YMIN].fp32 : b[YMIN].fp32;
    const float right = a[XMAX].fp32 < b[XMAX].fp32 ? a[XMAX].fp32 : b[XMAX].fp32;
    const float bottom = a[YMAX].fp32 < b[YMAX].fp32 ? a[YMAX].fp32 : b[YMAX].fp32;
    if (!(right > left) || !(bottom > top)) return false;
    const float shared = (right - left) * (bottom - top);
    return !(shared / (area_of(a) + area_of(b) - shared) <= threshold);
}

/* The same in whole numbers, which the controller has instructions for, wherever these are sure: corners are multiples
 * of 2**-13, rounded down, so differences of two of them are less than SLACK off, also where floats are rounded. */
#define FIXED_BITS 13
#define SHARE_BITS 16
#define SLACK 2
#define ONE_EXPONENT 127

/* A box with all corners within -2 .. 2 (whole: it is one), and the bounds of its area. */
typedef struct {
    int whole, corner[4];
    unsigned int least, most;
} bm_detection_sketch;
_Static_assert(sizeof(bm_detection_sketch) == BM_DETECTION_SKETCH, "the buffer has other sketches");

static unsigned int product(int w, int h) { return w > 0 && h > 0 ? (unsigned int)w * (unsigned int)h : 0; }

static void sketch(const x32 *box, bm_detection_sketch *s) {
    s->whole = 1;
    for (int k = 0; k < 4; k++) {
        const unsigned int bits = box[k].u32, exponent = (bits & BM_EXPONENT) >> 23;
        const unsigned int shift = ONE_EXPONENT + 23 - FIXED_BITS - exponent;
        if (exponent > ONE_EXPONENT) {
            s->whole = 0;
            return;
        }
        const int size = shift < 32 ? (int)(((bits & BM_MANTISSA) | (BM_MANTISSA + 1)) >> shift) : 0;
        s->corner[k] = (bits & BM_SIGN) != 0 ? -size - 1 : size;
    }
    const int w = s->corner[XMAX] - s->corner[XMIN], h = s->corner[YMAX] - s->corner[YMIN];
    s->least = product(w - SLACK, h - SLACK);
    s->most = product(w + SLACK, h + SLACK);
}

enum { STAYS, GOES, UNSURE };

/* limit: the threshold in units of 2**-SHARE_BITS, rounded down. */
static int judge(const bm_detection_sketch *a, const bm_detection_sketch *b, unsigned int limit) {
    if (!a->whole || !b->whole) return UNSURE;
    const int w = smaller(a->corner[XMAX], b->corner[XMAX]) - larger(a->corner[XMIN], b->corner[XMIN]);
    if (w <= -SLACK) return STAYS;
    const int h = smaller(a->corner[YMAX], b->corner[YMAX]) - larger(a->corner[YMIN], b->corner[YMIN]);
    if (h <= -SLACK) return STAYS;
    const unsigned int least = product(w - SLACK, h - SLACK), most = product(w + SLACK, h + SLACK);
    const unsigned int together = a->least + b->least > most ? a->least + b->least - most : 0;
    if ((u64)most << SHARE_BITS <= (u64)limit * together) return STAYS;
    if ((u64)least << SHARE_BITS > (u64)(limit + 1) * (a->most + b->most - least)) return GOES;
    return UNSURE;
}

static unsigned int limit_of(float threshold) {
    return (unsigned int)((threshold < 2 ? threshold : 2) * (1 << SHARE_BITS));
}

/* The priors of the candidates, the best one first, without those that overlap a better one; how many there are. */
static int suppress(const tpu_detection_output_param_t *p, const x32 *boxes, const u64 *candidates, int count,
                    int *kept, bm_detection_sketch *sketches) {
    float threshold = p->nms_threshold;
    unsigned int limit = limit_of(threshold);
    int made = 0;
    for (int i = 0; i < count; i++) {
        const int prior = index_of(candidates[i]);
        const x32 *box = boxes + 4 * (u64)prior;
        bm_detection_sketch *mine = &sketches[made];
        int k = 0, found = STAYS;
        sketch(box, mine);
        for (; k < made && found != GOES; k++) {
            found = judge(mine, &sketches[k], limit);
            if (found == UNSURE && overlaps(box, boxes + 4 * (u64)kept[k], threshold)) found = GOES;
        }
        if (found == GOES) continue;
        kept[made++] = prior;
        if (p->eta < 1 && threshold > 0.5f) {
            threshold *= p->eta;
            limit = limit_of(threshold);
        }
    }
    return made;
}

/* ---- on the controller: an image ---- */

static void *pointer(u64 addr) { return (void *)okk_global_mem_addr(addr); }

static const x32 *boxes_of(const detection *d, int image, int label) {
    const u64 set = (u64)(d->labels > 1 ? label : 0) * (u64)d->images + (u64)image;
    return pointer(d->at.boxes + 16 * set * (u64)d->priors);
}

/* The detections of one image, from `out` on; how many there are. */
static int detect(const detection *d, int image, const x32 *scores, const int *found, x32 *out) {
    const tpu_detection_output_param_t *p = d->p;
    const x32 limit = {.fp32 = p->confidence_threshold};
    const int threshold = rank_of(limit.u32);
    int *priors = pointer(d->at.priors), *kept = pointer(d->at.kept), *labels = pointer(d->at.labels);
    u64 *heap = pointer(d->at.heap), *best = pointer(d->at.best);
    bm_detection_sketch *sketches = pointer(d->at.sketches);
    int chosen = 0, made = 0, best_count = 0;
    for (int i = 0; i < d->priors; i++)
        if (found[i] != 0) priors[chosen++] = i;
    for (int label = 0; label < p->num_classes; label++) {
        if (label == p->background_label_id) continue;
        int count = 0;
        for (int i = 0; i < chosen; i++) {
            const unsigned int bits = scores[(u64)priors[i] * (u64)p->num_classes + (u64)label].u32;
            if (rank_of(bits) > threshold && !is_nan(bits))
                count = offer(heap, count, d->limit, entry_of(rank_of(bits), priors[i]));
        }
        if (count == 0) continue;
        sort(heap, count);
        const int more = suppress(p, boxes_of(d, image, label), heap, count, kept + made, sketches);
        for (int i = made; i < made + more; i++) {
            labels[i] = label;
            const unsigned int bits = scores[(u64)kept[i] * (u64)p->num_classes + (u64)label].u32;
            if (p->keep_top_k > 0) best_count = offer(best, best_count, p->keep_top_k, entry_of(rank_of(bits), i));
        }
        made += more;
    }
    const u64 worst = p->keep_top_k > 0 && best_count > 0 ? best[0] : 0;
    int rows = 0;
    for (int i = 0; i < made; i++) {
        const x32 score = scores[(u64)kept[i] * (u64)p->num_classes + (u64)labels[i]];
        if (entry_of(rank_of(score.u32), i) < worst) continue;
        const x32 *box = boxes_of(d, image, labels[i]) + 4 * (u64)kept[i];
        x32 *row = out + ROW * (u64)rows++;
        row[0].fp32 = (float)image;
        row[1].fp32 = (float)labels[i];
        row[2] = score;
        for (int k = 0; k < 4; k++) row[3 + k] = box[k];
    }
    return rows;
}

__BM_GLOBAL__(TPU_DETECTION_OUTPUT)
int detection_output_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                            const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                            const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_detection_output_param_t *p = param;
    const u64 loc = in_tensors[0].addr, conf = in_tensors[1].addr, prior = in_tensors[2].addr;
    detection d = {.p = p, .images = in_tensors[0].shape[0], .priors = in_tensors[2].shape[2] / 4};
    d.labels = p->share_location ? 1 : p->num_classes;
    d.at = bm_detection_buffer_at(buffer_addr, p->num_classes, p->background_label_id, p->share_location, p->top_k,
                                  p->keep_top_k, d.images, d.priors);
    d.limit = bm_candidates_of(d.priors, p->top_k);
    okk_initialize();
    for (int label = 0; label < d.labels; label++) {
        if (d.labels > 1 && label == p->background_label_id) continue;
        for (int image = 0; image < d.images; image++) {
            const u64 set = (u64)label * (u64)d.images + (u64)image, first = (u64)image * (u64)d.priors * (u64)d.labels;
            decode_all(&d, loc + 16 * (first + (u64)label), prior, d.at.boxes + 16 * set * (u64)d.priors);
        }
    }
    find(&d, conf, d.at.found);
    okk_poll();
    x32 *out = pointer(out_tensors[0].addr);
    int rows = 0;
    for (int image = 0; image < d.images; image++) {
        const u64 first = (u64)image * (u64)d.priors;
        const x32 *scores = pointer(conf + 4 * first * (u64)p->num_classes);
        rows += detect(&d, image, scores, pointer(d.at.found + 4 * first), out + ROW * (u64)rows);
    }
    if (rows == 0) {
        for (; rows < d.images; rows++) {
            out[ROW * (u64)rows].fp32 = (float)rows;
            for (int k = 1; k < ROW; k++) out[ROW * (u64)rows + (u64)k].fp32 = -1;
        }
    }
    out_tensors[0].shape[2] = rows;
    return BM_LAYER_OK;
}
