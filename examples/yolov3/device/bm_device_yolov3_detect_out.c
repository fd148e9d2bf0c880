/* TPU_YOLOV3_DETECT_OUT: the boxes that YOLOv3's heads see.
 *
 * Inputs: 1 to 3 heads [n, num_boxes * (5 + num_classes), h, w], fp32: for each anchor x, y, width, height, whether
 * there is something, and the classes, all before their sigmoids and exponentials.
 * Makes: [1, 1, detections, 7]: image, class, score, x and y of the centre, width and height, these four in parts of the
 * picture. Image after image, in each by falling score; equal scores in the order of heads, anchors, rows, columns.
 * A box has the class with the largest number (the first of equal ones), and the score sigmoid(something) *
 * sigmoid(class), which must be above confidence_threshold. Of two boxes of one class that overlap (intersection over
 * union) by more than nms_threshold the one with the lower score goes; at most keep_top_k per image stay (-1: all).
 * Where no image has any, one row for each image: its number and six times -1.
 *
 * The engines decode whole rows of cells and find those above the threshold; the controller, which has no floating
 * point unit, sorts these by the bits of their scores and compares only boxes that touch.
 */
#include "yolov3_detect_out.h"

#include "bm_atomic.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define LANES 64
#define WORDS 120000 /* of local memory per lane that tiles may take, with room for the ends of rows */
#define TENSORS 26   /* planes of a tile besides those of the classes */
#define CLIPPED 80.0f /* sigmoids and exponentials are taken of -80 to 80 */

__BM_PARAM__(TPU_YOLOV3_DETECT_OUT)
typedef struct {
    int num_classes;
    int num_boxes;       /* anchors of each head */
    int mask_group_size; /* from the first anchor of a head in `mask` to that of the next one */
    int keep_top_k;      /* boxes of an image that come out at most; -1: all */
    float nms_threshold;
    float confidence_threshold;
    float bias[18];        /* width and height of each anchor, in pixels */
    float anchor_scale[3]; /* pixels per cell of each head */
    int mask[9];           /* the anchors of each head: which widths and heights of `bias` */
} tpu_yolov3_detect_out_param_t;

typedef tpu_yolov3_detect_out_param_t params;

static int smaller_of(int a, int b) { return a < b ? a : b; }

/* ---- shape ---- */

static bool params_are_good(const params *p, int heads) {
    if (p->num_classes < 1 || p->num_boxes < 1 || p->keep_top_k < -1 || p->keep_top_k == 0) return false;
    if (p->mask_group_size < p->num_boxes || (heads - 1) * p->mask_group_size + p->num_boxes > YOLOV3_MAX_MASK)
        return false;
    if (!(p->nms_threshold >= 0 && p->nms_threshold <= 1)) return false;
    if (!(p->confidence_threshold >= 0 && p->confidence_threshold < 1)) return false;
    for (int t = 0; t < heads; t++) {
        if (!(p->anchor_scale[t] > 0)) return false;
        for (int k = 0; k < p->num_boxes; k++) {
            const int anchor = p->mask[t * p->mask_group_size + k];
            if (anchor < 0 || anchor >= YOLOV3_ANCHORS) return false;
            if (!(p->bias[2 * anchor] > 0 && p->bias[2 * anchor + 1] > 0)) return false;
        }
    }
    return true;
}

/* The largest number of rows for one image. */
static long long most_of(const params *p, long long boxes) {
    return p->keep_top_k < 0 || p->keep_top_k > boxes ? boxes : p->keep_top_k;
}

static void set_output(tpu_tensor_t *out, int rows) {
    out->ttype = BMNET_NEURON;
    out->dtype = DTYPE_FP32;
    out->dims = 4;
    out->shape[0] = out->shape[1] = 1;
    out->shape[2] = rows;
    out->shape[3] = YOLOV3_ROW;
}

__BM_SHAPE__(TPU_YOLOV3_DETECT_OUT)
int yolov3_detect_out_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                            tpu_tensor_t *out_tensors, const int out_num) {
    const params *p = param;
    if (param_size != (int)sizeof *p || in_num < 1 || in_num > YOLOV3_MAX_HEADS || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    if (!params_are_good(p, in_num)) return BM_LAYER_PARAM_INVALID;
    long long boxes = 0;
    for (int t = 0; t < in_num; t++) {
        const tpu_tensor_t *head = &in_tensors[t];
        if (head->dims != 4 || head->dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
        if (head->shape[0] != in_tensors[0].shape[0]) return BM_LAYER_PARAM_INVALID;
        if ((long long)p->num_boxes * (5ll + p->num_classes) != head->shape[1]) return BM_LAYER_PARAM_INVALID;
        if (head->shape[3] > YOLOV3_MAX_WIDTH) return BM_LAYER_NOT_SUPPORTED;
        boxes += (long long)p->num_boxes * head->shape[2] * head->shape[3];
    }
    const long long rows = in_tensors[0].shape[0] * most_of(p, boxes);
    if (boxes >= 1 << 24 || rows >= 1 << 24) return BM_LAYER_NOT_SUPPORTED; /* numbers pass through fp32 */
    set_output(&out_tensors[0], (int)rows);
    return BM_LAYER_OK;
}

/* ---- the engines: scores and boxes of all cells, and the numbers of those above the threshold ---- */

/* One head of one image. */
typedef struct {
    const params *p;
    u64 from;               /* its numbers in DDR */
    u64 planes, numbers;    /* in the work buffer */
    int h, w;               /* cells */
    int group;              /* the first of its anchors in `mask` */
    float scale;            /* pixels per cell */
    int first;              /* the number of its first box in the image */
} head_t;

/* Rows of cells lie on the lanes: anchors are batches, rows channels. Where the tensors of a tile are. */
typedef struct {
    int anchors, classes; /* of a tile */
    local_addr_t columns, rows, sums, inputs, sizes, work, sigmoids, exponentials, made, mask, numbers, labels;
} layout_t;

static local_addr_t place(local_addr_t *at, int anchors, int rows, int w) {
    const local_addr_t here = *at;
    *at += 4u * (local_addr_t)anchors * (((local_addr_t)rows * (local_addr_t)w + 31u) / 32u * 32u);
    return here;
}

/* For rows of w cells. Columns, rows and sums lie where those of all heads do, the widest of which has `widest`. */
static layout_t layout_of(const params *p, int w, int widest) {
    layout_t l;
    const int least = smaller_of(p->num_classes, 8);
    l.anchors = smaller_of(p->num_boxes, WORDS / (w * (TENSORS + least)));
    l.classes = smaller_of(p->num_classes, WORDS / (l.anchors * w) - TENSORS);
    local_addr_t at = 0;
    l.columns = place(&at, 1, 1, widest);
    l.rows = place(&at, 1, 1, 1);
    l.sums = place(&at, 1, 1, 1);
    l.inputs = place(&at, l.anchors, 4, w);
    l.sizes = place(&at, l.anchors, 2, w);
    l.work = place(&at, l.anchors, 4, w);
    l.sigmoids = place(&at, l.anchors, 4, w);
    l.exponentials = place(&at, l.anchors, 2, w);
    l.made = place(&at, l.anchors, 5, w);
    l.mask = place(&at, l.anchors, 1, w);
    l.numbers = place(&at, l.anchors, 1, w);
    l.labels = place(&at, l.anchors, l.classes, w);
    return l;
}

/* Planes [first, first + count) of some anchors and rows, to a tensor of `planes` planes. */
static void load(const head_t *head, local_addr_t to, int planes, int at, int first, int count, int anchor, int anchors,
                 int row, int rows) {
    const int cells = head->h * head->w, each = 5 + head->p->num_classes;
    const dim4 shape = {anchors, rows, count, head->w}, all = {anchors, rows, planes, head->w};
    const dim4 from = {each * cells, head->w, cells, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &all);
    const u64 offset = ((u64)anchor * (u64)each + (u64)first) * (u64)cells + (u64)row * (u64)head->w;
    okk_gdma_32bit_cpy_S2L(to + 4u * (local_addr_t)(at * head->w), head->from + 4 * offset, &shape, &stride, &from);
}

/* The largest class of each cell, to plane 3 of the inputs. */
static void largest_class(const head_t *head, const layout_t *l, int anchor, int anchors, int row, int rows) {
    const int w = head->w;
    const dim4 all = {anchors, rows, l->classes, w}, inputs = {anchors, rows, 4, w}, one = {anchors, rows, 1, w};
    dim4 stride, input_stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &all);
    okk_128_byte_aligned_stride_for_32bit(&input_stride, 0, &inputs);
    const local_addr_t largest = l->inputs + 4u * (local_addr_t)(3 * w);
    for (int done = 0; done < head->p->num_classes; done += l->classes) {
        int count = smaller_of(l->classes, head->p->num_classes - done);
        load(head, l->labels, l->classes, 0, 5 + done, count, anchor, anchors, row, rows);
        while (count > 1) {
            const int half = (count + 1) / 2;
            const dim4 upper = {anchors, rows, count - half, w};
            okk_bdc_max(l->labels, l->labels, l->labels + 4u * (local_addr_t)(half * w), &upper, &stride, &stride,
                        &stride);
            count = half;
        }
        if (done == 0)
            okk_bdc_32bit_cpy(largest, l->labels, &one, &input_stride, &stride);
        else
            okk_bdc_max(largest, largest, l->labels, &one, &input_stride, &input_stride, &stride);
    }
}

static void clip(local_addr_t at, const dim4 *shape) {
    okk_bdc_min_C(at, at, CLIPPED, shape, NULL, NULL);
    okk_bdc_max_C(at, at, -CLIPPED, shape, NULL, NULL);
}

/* Scores and boxes of a tile, to the planes in the work buffer; how many are above the threshold, and their numbers. */
static int decode(const head_t *head, const layout_t *l, int anchor, int anchors, int row, int rows) {
    const int w = head->w, cells = head->h * w;
    const dim4 four = {anchors, rows, 4, w}, two = {anchors, rows, 2, w}, five = {anchors, rows, 5, w};
    const dim4 one = {anchors, rows, 1, w}, each = {1, rows, 1, w}, word = {1, rows, 1, 1};
    const dim4 along = {0, 0, 0, 1}, still = {0, 0, 0, 0};
    const local_addr_t plane = 4u * (local_addr_t)w;
    dim4 of_four, of_two, of_five;
    okk_128_byte_aligned_stride_for_32bit(&of_four, 0, &four);
    okk_128_byte_aligned_stride_for_32bit(&of_two, 0, &two);
    okk_128_byte_aligned_stride_for_32bit(&of_five, 0, &five);

    load(head, l->inputs, 4, 0, 0, 2, anchor, anchors, row, rows); /* x, y */
    load(head, l->inputs, 4, 2, 4, 1, anchor, anchors, row, rows); /* is there something */
    load(head, l->sizes, 2, 0, 2, 2, anchor, anchors, row, rows);  /* width, height */
    largest_class(head, l, anchor, anchors, row, rows);
    clip(l->inputs, &four);
    clip(l->sizes, &two);
    okk_bdc_sigmoid(l->sigmoids, l->inputs, l->work, &four);
    okk_bdc_exp(l->exponentials, l->sizes, l->work, &two);

    const local_addr_t score = l->made, x = score + plane, y = x + plane, sizes = y + plane;
    okk_bdc_mul(score, l->sigmoids + 2 * plane, l->sigmoids + 3 * plane, &one, &of_five, &of_four, &of_four);
    okk_bdc_add(x, l->sigmoids, l->columns, &one, &of_five, &of_four, &along);
    okk_bdc_mul_C(x, x, 1.0f / (float)w, &one, &of_five, &of_five);
    okk_bdc_add_C(l->sums, l->rows, (float)row, &word, NULL, NULL);
    okk_bdc_add(y, l->sigmoids + plane, l->sums, &one, &of_five, &of_four, &still);
    okk_bdc_mul_C(y, y, 1.0f / (float)head->h, &one, &of_five, &of_five);
    okk_bdc_mul_C(l->sums, l->sums, (float)w, &word, NULL, NULL);
    for (int k = 0; k < anchors; k++) {
        const float *bias = &head->p->bias[2 * head->p->mask[head->group + anchor + k]];
        const local_addr_t to = sizes + 4u * (local_addr_t)(k * of_five.n);
        const local_addr_t from = l->exponentials + 4u * (local_addr_t)(k * of_two.n);
        okk_bdc_mul_C(to, from, bias[0] / ((float)w * head->scale), &each, &of_five, &of_two);
        okk_bdc_mul_C(to + plane, from + plane, bias[1] / ((float)head->h * head->scale), &each, &of_five, &of_two);
        dim4 of_one;
        okk_128_byte_aligned_stride_for_32bit(&of_one, 0, &one);
        const local_addr_t numbers = l->numbers + 4u * (local_addr_t)(k * of_one.n);
        okk_bdc_add(numbers, l->columns, l->sums, &each, &of_one, &along, &still);
        okk_bdc_add_C(numbers, numbers, (float)(head->first + (anchor + k) * cells), &each, &of_one, &of_one);
    }
    okk_bdc_fp32_to_int32(l->numbers, l->numbers, &one);
    okk_bdc_greater_C_select_value(l->mask, score, head->p->confidence_threshold, (x32){.s32 = 1}, &one, NULL, &of_five);

    const dim4 to = {5 * cells, w, cells, 1};
    okk_gdma_32bit_cpy_L2S(head->planes + 4 * ((u64)anchor * 5 * (u64)cells + (u64)row * (u64)w), l->made, &five, &to,
                           &of_five);
    const MaskMemCpy4DPram filter = {.data_local_mem_addr = l->numbers,
                                     .mask_local_mem_addr = l->mask,
                                     .local_mem_idx = 0,
                                     .dst_global_mem_addr = head->numbers,
                                     .shape = {(unsigned)anchors, (unsigned)rows, 1, (unsigned)w}};
    bm_atomic_mask_memcpy_4D(&filter);
    return (int)bm_get_mask_memcpy_res_num(); /* waits for all of it */
}

/* 0, 1, 2 ... along the rows, and the number of each lane. */
static void count_cells(const layout_t *l, u64 lanes, int w) {
    const int most = w > LANES ? w : LANES;
    const dim4 first = {1, LANES, 1, 1}, row = {1, 1, 1, LANES}, apart = {LANES, 1, 1, 1};
    const local_addr_t counts = l->inputs; /* long enough for the numbers of the lanes, and free yet */
    dim4 stride;
    const dim4 whole = {1, LANES, 1, most};
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    okk_bdc_32bit_set_C(counts, (x32){.fp32 = 0}, &first, &stride);
    for (int made = 1; made < most; made *= 2) {
        const dim4 more = {1, LANES, 1, smaller_of(made, most - made)};
        okk_bdc_add_C(counts + 4u * (local_addr_t)made, counts, (float)made, &more, &stride, &stride);
    }
    const dim4 columns = {1, LANES, 1, w};
    okk_bdc_32bit_cpy(l->columns, counts, &columns, NULL, &stride);
    okk_gdma_32bit_cpy_L2S(lanes, counts, &row, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(l->rows, lanes, &first, NULL, &apart);
}

/* ---- the controller ---- */

static bool before(const yolov3_candidate *a, const yolov3_candidate *b) {
    return a->score > b->score || (a->score == b->score && a->number < b->number);
}

/* Merges runs of growing length from one half of the room to the other; returns the half with the result. */
static yolov3_candidate *sorted(yolov3_candidate *list, yolov3_candidate *other, int count) {
    for (int run = 1; run < count; run *= 2) {
        for (int start = 0; start < count; start += 2 * run) {
            int a = start, b = smaller_of(start + run, count);
            const int a_end = b, b_end = smaller_of(start + 2 * run, count);
            for (int to = start; to < b_end; to++)
                other[to] = b == b_end || (a < a_end && before(&list[a], &list[b])) ? list[a++] : list[b++];
        }
        yolov3_candidate *swap = list;
        list = other;
        other = swap;
    }
    return list;
}

/* The bits of an fp32 number as an integer that is ordered as the numbers are. */
static int ordered(int bits) { return bits >= 0 ? bits : bits == (int)0x80000000 ? 0 : bits ^ 0x7fffffff; }

/* The first of the largest classes of a box. */
static int label_of(const head_t *head, int box) {
    const int cells = head->h * head->w, anchor = box / cells, cell = box - anchor * cells;
    const int classes = head->p->num_classes;
    const u64 first = ((u64)anchor * (u64)(5 + classes) + 5) * (u64)cells + (u64)cell;
    const int *from = (const int *)(const void *)okk_global_mem_addr(head->from + 4 * first);
    int label = 0, largest = ordered(*from);
    for (int k = 1; k < classes; k++) {
        const int value = ordered(from[(size_t)k * (size_t)cells]);
        if (value > largest) {
            largest = value;
            label = k;
        }
    }
    return label;
}

static bool overlaps(const yolov3_kept *a, const yolov3_kept *b, float threshold) {
    const float left = a->left > b->left ? a->left : b->left, right = a->right < b->right ? a->right : b->right;
    if (!(left < right)) return false;
    const float top = a->top > b->top ? a->top : b->top, bottom = a->bottom < b->bottom ? a->bottom : b->bottom;
    if (!(top < bottom)) return false;
    const float both = (right - left) * (bottom - top);
    return both > threshold * (a->area + b->area - both);
}

/* The rows of one image; how many they are. */
static int suppress(const params *p, const head_t *heads, int head_num, yolov3_candidate *list, int count,
                    yolov3_kept *kept, int image, float *rows) {
    int found = 0;
    for (int i = 0; i < count && found != p->keep_top_k; i++) {
        const head_t *head = &heads[0];
        while (head + 1 < heads + head_num && list[i].number >= head[1].first) head++;
        const int box = list[i].number - head->first, cells = head->h * head->w, anchor = box / cells;
        const float *planes = (const float *)(const void *)okk_global_mem_addr(head->planes + 20 * (u64)anchor * (u64)cells);
        const float *cell = planes + (box - anchor * cells);
        const float x = cell[cells], y = cell[2 * cells], width = cell[3 * cells], height = cell[4 * cells];
        yolov3_kept *one = &kept[found];
        one->label = label_of(head, box);
        one->left = x - width * 0.5f;
        one->right = x + width * 0.5f;
        one->top = y - height * 0.5f;
        one->bottom = y + height * 0.5f;
        one->area = width * height;
        bool hidden = false;
        for (int k = 0; k < found && !hidden; k++)
            hidden = kept[k].label == one->label && overlaps(&kept[k], one, p->nms_threshold);
        if (hidden) continue;
        float *row = rows + YOLOV3_ROW * found++;
        row[0] = (float)image;
        row[1] = (float)one->label;
        row[2] = cell[0];
        row[3] = x;
        row[4] = y;
        row[5] = width;
        row[6] = height;
    }
    return found;
}

__BM_GLOBAL__(TPU_YOLOV3_DETECT_OUT)
int yolov3_detect_out_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                             const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                             const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const params *p = param;
    const int images = in_tensors[0].shape[0];
    int boxes = 0, total = 0, widest = 1;
    for (int t = 0; t < in_num; t++) {
        boxes += p->num_boxes * in_tensors[t].shape[2] * in_tensors[t].shape[3];
        if (in_tensors[t].shape[3] > widest) widest = in_tensors[t].shape[3];
    }
    const yolov3_buffer buffer = yolov3_buffer_of((u64)boxes, (u64)most_of(p, boxes));
    const u64 work = yolov3_rounded(buffer_addr);
    okk_initialize();
    yolov3_candidate *list = (void *)okk_global_mem_addr(work + buffer.candidates);
    yolov3_kept *kept = (void *)okk_global_mem_addr(work + buffer.kept);
    const int *numbers = (const void *)okk_global_mem_addr(work + buffer.numbers);
    float *rows = (void *)okk_global_mem_addr(out_tensors[0].addr);
    const layout_t wide = layout_of(p, widest, widest);
    count_cells(&wide, work + buffer.lanes, widest); /* once: what it counts is the same for all heads and images */
    for (int image = 0; image < images; image++) {
        head_t heads[YOLOV3_MAX_HEADS];
        int first = 0, count = 0;
        for (int t = 0; t < in_num; t++) {
            const tpu_tensor_t *in = &in_tensors[t];
            const int h = in->shape[2], w = in->shape[3], cells = h * w;
            heads[t] = (head_t){.p = p,
                                .from = in->addr + 4 * (u64)image * (u64)in->shape[1] * (u64)cells,
                                .planes = work + buffer.planes + 20 * (u64)first,
                                .numbers = work + buffer.numbers,
                                .h = h,
                                .w = w,
                                .group = t * p->mask_group_size,
                                .scale = p->anchor_scale[t],
                                .first = first};
            const head_t *head = &heads[t];
            const layout_t layout = layout_of(p, w, widest);
            for (int anchor = 0; anchor < p->num_boxes; anchor += layout.anchors)
                for (int row = 0; row < h; row += LANES) {
                    const int some = smaller_of(layout.anchors, p->num_boxes - anchor);
                    const int found = decode(head, &layout, anchor, some, row, smaller_of(LANES, h - row));
                    for (int i = 0; i < found; i++) {
                        const int box = numbers[i] - first, k = box / cells;
                        const unsigned int *scores =
                            (const void *)okk_global_mem_addr(head->planes + 20 * (u64)k * (u64)cells);
                        list[count++] = (yolov3_candidate){scores[box - k * cells], numbers[i]};
                    }
                }
            first += p->num_boxes * cells;
        }
        yolov3_candidate *best = sorted(list, list + boxes, count);
        total += suppress(p, heads, in_num, best, count, kept, image, rows + YOLOV3_ROW * total);
    }
    if (total == 0)
        for (; total < images; total++)
            for (int k = 0; k < YOLOV3_ROW; k++) rows[YOLOV3_ROW * total + k] = k == 0 ? (float)total : -1.0f;
    set_output(&out_tensors[0], total);
    return BM_LAYER_OK;
}
