/* TPU_MATMUL: product of matrices, with numpy's rules for shapes: batch dimensions are broadcast, a first operand
 * of one dimension is a row, a second one a column, and that dimension is absent from the result.
 *
 * Two instructions do it. The matrix product spreads the columns of the result over the lanes and takes as long for
 * each of its rows: it is for few rows. The convolution with a 1 x 1 kernel, whose weights are the left matrix and
 * whose picture is the right one (its rows are channels), spreads rows over the lanes and columns over the units of a
 * lane, and takes two summands at a time.
 *
 * Inputs: left, right, perhaps one number per column
 * Makes: product of matrices, batches broadcast
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_product.h"
#include "bm_layer_rows.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define LINE CHIP_ALIGN_BYTES          /* bytes of a channel's tile of one row: up to 32 columns, aligned */
#define LINES (CHIP_LOCAL_BYTES / LINE) /* of them in local memory */
#define LEFT_WIDTH CHIP_ALIGN_WORDS     /* columns of the left matrix in a channel */
#define SUM_MAX (CHIP_NPU_NUM * LEFT_WIDTH) /* columns of the left matrix at a time: a channel a lane */
#define COLUMNS_MAX (CHIP_NPU_NUM * PRODUCT_BLOCK) /* columns of the result at a time, PRODUCT_BLOCK to a lane */
#define ROWS_MAX 512 /* rows of the result at a time */
#define HALF_WORDS (CHIP_LOCAL_WORDS / 2) /* 32-bit words of a lane that the buffers of one turn take */

/* Inputs: left, right, and optionally one number per column of the result that is added (a Gemm's C of another
 * shape is a following addition). Constants that are stored transposed the descriptor turns, others are turned in DDR
 * before anything else. A constant right matrix for few rows it prepares as
 * blocks of PRODUCT_BLOCK columns, each with its rows one after the other, the last block narrower where n asks for it;
 * its type is BMNET_COEFF_NEURON then, and its shape still [k, n]. For local groups it is [1, k, n], if constant. */
__BM_PARAM__(TPU_MATMUL)
typedef struct {
    int trans_a; /* 1: the left matrices are stored as [k, m] */
    int trans_b; /* 1: the right ones as [n, k] */
    float alpha; /* factor of the product; 0 stands for 1 */
} tpu_matmul_param_t;

/* ---- shapes ---- */

typedef struct {
    int m, n, k;
    int batch_dims;                  /* of the result */
    int batch[MAX_SHAPE_DIMS];
    unsigned long long batches;
    unsigned long long left_step[MAX_SHAPE_DIMS], right_step[MAX_SHAPE_DIMS]; /* elements; 0 where broadcast */
    bool row, column;                /* an operand of one dimension */
    bool left_turned, right_turned;
    bool blocks;                     /* the right matrix lies in blocks of columns */
} product;

/* Steps of an operand's batch dimensions, counted from the last. */
static bool broadcast(const tpu_tensor_t *t, int matrix_dims, product *p, unsigned long long *step) {
    unsigned long long size = 1;
    for (int d = (int)t->dims - matrix_dims; d < (int)t->dims; d++) size *= (unsigned long long)t->shape[d];
    const int own = (int)t->dims - matrix_dims;
    for (int i = 0; i < p->batch_dims; i++) {
        const int d = p->batch_dims - 1 - i, extent = i < own ? t->shape[own - 1 - i] : 1;
        step[d] = extent == 1 ? 0 : size;
        size *= (unsigned long long)extent;
        if (extent != 1 && p->batch[d] != 1 && p->batch[d] != extent) return false;
        if (extent != 1) p->batch[d] = extent;
    }
    return true;
}

static int product_of(const tpu_matmul_param_t *param, const tpu_tensor_t *in, product *p) {
    const tpu_tensor_t *a = &in[0], *b = &in[1];
    if (a->dims < 1 || b->dims < 1) return BM_LAYER_NOT_SUPPORTED;
    *p = (product){.row = a->dims == 1, .column = b->dims == 1};
    p->left_turned = param->trans_a && !p->row && a->ttype == BMNET_NEURON;
    p->right_turned = param->trans_b && !p->column && b->ttype == BMNET_NEURON;
    p->blocks = b->ttype == BMNET_COEFF_NEURON;
    const int *am = a->shape + a->dims - (p->row ? 1 : 2), *bm = b->shape + b->dims - (p->column ? 1 : 2);
    p->m = p->row ? 1 : am[p->left_turned];
    p->k = p->row ? am[0] : am[!p->left_turned];
    const int rows = p->column ? bm[0] : bm[p->right_turned];
    p->n = p->column ? 1 : bm[!p->right_turned];
    if (rows != p->k) return BM_LAYER_PARAM_INVALID;
    const int left_dims = (int)a->dims - (p->row ? 1 : 2), right_dims = (int)b->dims - (p->column ? 1 : 2);
    p->batch_dims = larger(left_dims, right_dims);
    for (int d = 0; d < p->batch_dims; d++) p->batch[d] = 1;
    if (!broadcast(a, p->row ? 1 : 2, p, p->left_step) || !broadcast(b, p->column ? 1 : 2, p, p->right_step))
        return BM_LAYER_PARAM_INVALID;
    p->batches = bm_layer_elements(p->batch, 0, p->batch_dims);
    return BM_LAYER_OK;
}

__BM_SHAPE__(TPU_MATMUL)
int matmul_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_matmul_param_t) || in_num < 2 || in_num > 3 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_matmul_param_t *q = param;
    if ((q->trans_a | q->trans_b) & ~1) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    product p;
    const int code = product_of(q, in_tensors, &p);
    if (code != BM_LAYER_OK) return code;
    if (in_num == 3 && in_tensors[2].elem_num != p.n) return BM_LAYER_PARAM_INVALID;
    tpu_tensor_t *out = &out_tensors[0];
    out->ttype = BMNET_NEURON;
    out->dtype = DTYPE_FP32;
    int dims = p.batch_dims;
    for (int d = 0; d < dims; d++) out->shape[d] = p.batch[d];
    if (!p.row) out->shape[dims++] = p.m;
    if (!p.column) out->shape[dims++] = p.n;
    if (dims == 0) out->shape[dims++] = 1; /* row times column: one number */
    out->dims = (unsigned int)dims;
    return BM_LAYER_OK;
}

/* ---- the work: every tile of the result, sum by sum ---- */

typedef struct {
    product p;
    unsigned long long left, right, bias, out; /* addresses; bias 0: none */
    float alpha;
    bool convolves;
    int rows, columns, sums; /* of a tile, at most; sums: how many columns of the left matrix at a time */
    bool left_once;          /* all of the left matrix stays in local memory, `sums` columns after the other */
    int together;            /* batches whose matrices are loaded with one command for each operand */
    local_addr_t left_buffer[2], right_buffer[2], out_buffer[2], bias_buffer[2];
} job;

/* One tile: rows m.., columns n.. of the result of batch b, summed over k..; or `count` whole batches. */
typedef struct {
    unsigned long long b;
    int count;
    int m, n, k, rows, columns, sums;
    unsigned long long left, right; /* addresses of its operands */
    int left_at, right_at, out_at;  /* which buffers */
    bool loads_left, loads_right, first, last;
} tile;

/* Both operands' matrices lie one after another, as those of the result do. */
static bool dense(const product *p) {
    unsigned long long left = (unsigned long long)p->m * (unsigned long long)p->k;
    unsigned long long right = (unsigned long long)p->k * (unsigned long long)p->n;
    for (int d = p->batch_dims - 1; d >= 0; d--) {
        if (p->batch[d] != 1 && (p->left_step[d] != left || p->right_step[d] != right)) return false;
        left *= (unsigned long long)p->batch[d];
        right *= (unsigned long long)p->batch[d];
    }
    return true;
}

static int even(int k) { return (k + 1) / 2 * 2; }

static void plan_convolution(job *j) {
    const product *p = &j->p;
    j->rows = smaller(p->m, ROWS_MAX);
    j->columns = smaller(p->n, j->rows <= 2 * CHIP_NPU_NUM ? PRODUCT_STEP : PRODUCT_STEP / 2);
    const int right = local_line(j->columns), out = local_slots(j->rows) * right;
    /* As many summands as lanes take a slot of the right matrix and as many words of each slot of the left one. */
    const int each = right + local_slots(j->rows) * CHIP_NPU_NUM;
    const int fit = (HALF_WORDS - out - right - CHIP_ALIGN_WORDS) / each * CHIP_NPU_NUM;
    j->sums = smaller(p->k, smaller(fit, SUM_MAX));
    const int left = local_line(local_slots(j->rows) * even(j->sums)), all = local_slots(j->sums) * right + left + out;
    j->together = 1;
    if (j->rows == p->m && j->columns == p->n && j->sums == p->k && dense(p)) {
        const unsigned long long half = (p->batches + 1) / 2;
        const int many = (HALF_WORDS - right - CHIP_ALIGN_WORDS) / all;
        j->together = half < (unsigned long long)many ? (int)half : many;
    }
    local_addr_t next = 0;
    for (int i = 0; i < 2; i++) {
        j->right_buffer[i] = next;
        next += 4u * (local_addr_t)(j->together * local_slots(j->sums) * right);
        j->left_buffer[i] = next;
        next += 4u * (local_addr_t)local_line(j->together * local_slots(j->rows) * even(j->sums));
        j->out_buffer[i] = next;
        next += 4u * (local_addr_t)(j->together * out);
        j->bias_buffer[i] = next;
        next += 4u * (local_addr_t)right;
    }
}

/* Batches that multiply the same matrix, one behind the other: their rows are rows of one product. */
static void join_rows(product *p) {
    for (; p->batch_dims > 0; p->batch_dims--) {
        const int d = p->batch_dims - 1;
        const unsigned long long extent = (unsigned long long)p->batch[d], rows = extent * (unsigned long long)p->m;
        const bool next = p->right_step[d] == 0 && p->left_step[d] == (unsigned long long)p->m * (unsigned long long)p->k;
        if ((extent != 1 && !next) || rows > 0x7fffffff) return;
        p->m = (int)rows;
        p->batches /= extent;
    }
}

static void plan(job *j) {
    product *p = &j->p;
    join_rows(p);
    j->convolves = !p->blocks && product_by_convolution(p->m, p->n);
    if (j->convolves) {
        plan_convolution(j);
        return;
    }
    const int lines = LINES - 2;
    j->columns = smaller(p->n, COLUMNS_MAX);
    j->rows = smaller(p->m, ROWS_MAX);
    j->sums = smaller(smaller(p->k, SUM_MAX), (lines - 4 * j->rows) / 2);
    j->rows = smaller(p->m, (lines - 2 * j->sums) / 4);
    j->together = 1;
    if (j->rows == p->m && j->columns == p->n && j->sums == p->k && dense(p)) {
        /* At most half of them, so that one half is loaded while the other is computed. */
        const int fit = lines / (4 * p->m + 2 * p->k);
        const unsigned long long half = (p->batches + 1) / 2;
        j->together = half < (unsigned long long)fit ? (int)half : fit;
    }
    int left_rows = j->together * j->rows;
    for (int parts = divide_up(p->k, j->sums); j->sums < p->k && p->batches == 1 && j->rows == p->m;) {
        const int sums = local_line(divide_up(p->k, parts));
        if (parts * j->rows > LINES / 8) break;
        if (2 * sums + (parts + 2) * j->rows + 2 > LINES) {
            parts++;
            continue;
        }
        j->left_once = true;
        j->sums = sums;
        left_rows = parts * j->rows;
        break;
    }
    local_addr_t next = 0;
    for (int i = 0; i < 2; i++) {
        j->right_buffer[i] = next;
        next += (local_addr_t)(j->together * j->sums * LINE);
    }
    for (int i = 0; i < 2; i++) {
        j->left_buffer[i] = next;
        if (i == 1 || !j->left_once) next += (local_addr_t)(left_rows * LINE);
    }
    for (int i = 0; i < 2; i++) {
        j->out_buffer[i] = next;
        next += (local_addr_t)(j->together * j->rows * LINE);
    }
    for (int i = 0; i < 2; i++) {
        j->bias_buffer[i] = next;
        next += LINE;
    }
}

/* Fills in what follows from a tile's place, and which operands are there from the tile before. */
static void prepare(const job *j, tile *s, const tile *before) {
    const product *p = &j->p;
    s->rows = smaller(j->rows, p->m - s->m);
    s->columns = smaller(j->columns, p->n - s->n);
    s->sums = smaller(j->sums, p->k - s->k);
    s->count = p->batches - s->b < (unsigned long long)j->together ? (int)(p->batches - s->b) : j->together;
    s->first = s->k == 0;
    s->last = s->k + s->sums == p->k;
    unsigned long long left = 0, right = 0, index = s->b;
    for (int d = p->batch_dims - 1; d >= 0; d--) {
        const unsigned long long extent = (unsigned long long)p->batch[d], at = index % extent;
        index /= extent;
        left += at * p->left_step[d];
        right += at * p->right_step[d];
    }
    const unsigned long long m = (unsigned long long)s->m, n = (unsigned long long)s->n, k = (unsigned long long)s->k;
    left += m * (unsigned long long)p->k + k;
    if (p->blocks)
        right = n * (unsigned long long)p->k + k * (unsigned long long)smaller(p->n - s->n, PRODUCT_BLOCK);
    else
        right += k * (unsigned long long)p->n + n;
    s->left = j->left + 4 * left;
    s->right = j->right + 4 * right;
    s->loads_left = before == NULL || (!j->left_once && (s->left != before->left || s->rows != before->rows ||
                                                         s->sums != before->sums || s->count != before->count));
    s->loads_right = before == NULL || s->right != before->right || s->columns != before->columns ||
                     s->sums != before->sums || s->count != before->count;
    s->left_at = before == NULL ? 0 : before->left_at ^ (int)s->loads_left;
    s->right_at = before == NULL ? 0 : before->right_at ^ (int)s->loads_right;
    s->out_at = before == NULL ? 0 : before->out_at ^ (int)s->first;
}

static bool next_tile(const job *j, const tile *now, tile *next) {
    *next = *now;
    if ((next->k += j->sums) >= j->p.k) {
        next->k = 0;
        if ((next->m += j->rows) >= j->p.m) {
            next->m = 0;
            if ((next->n += j->columns) >= j->p.n) {
                next->n = 0;
                if ((next->b += (unsigned long long)now->count) == j->p.batches) return false;
            }
        }
    }
    prepare(j, next, now);
    return true;
}

/* Columns of the result in a channel. The unit computes 16 at a time, and copies go the faster the longer the runs of
 * a lane are: PRODUCT_BLOCK where few rows are computed or more columns have to fit, else half of that. */
static int width_of(const job *j, const tile *s) {
    const bool wide = j->p.blocks || s->columns > PRODUCT_STEP || s->rows * 12 < s->columns;
    return smaller(s->columns, wide ? PRODUCT_BLOCK : PRODUCT_BLOCK / 2);
}

/* Rows of a block lie in a channel as they do in DDR: one run to each channel. */
static void load_blocks(const job *j, local_addr_t target, const tile *s) {
    const product *p = &j->p;
    const int whole = s->columns / PRODUCT_BLOCK, rest = s->columns % PRODUCT_BLOCK;
    const dim4 to = {1, 1, PRODUCT_BLOCK, 1};
    if (whole > 0) {
        const dim4 shape = {1, whole, s->sums, PRODUCT_BLOCK}, from = {1, PRODUCT_BLOCK * p->k, PRODUCT_BLOCK, 1};
        okk_gdma_32bit_cpy_S2L(target, s->right, &shape, &to, &from);
    }
    if (rest > 0) {
        const dim4 shape = {1, 1, s->sums, rest}, from = {1, 1, rest, 1};
        const unsigned long long first = (unsigned long long)(p->n - rest) * (unsigned long long)p->k;
        okk_gdma_32bit_cpy_S2L(target + (local_addr_t)whole * okk_local_mem_size_per_npu(),
                               j->right + 4 * (first + (unsigned long long)s->k * (unsigned long long)rest),
                               &shape, &to, &from);
    }
}

/* For the convolution: rows of the left matrix in channels, pairs of summands side by side, a last single one beside
 * a zero; rows of the right one in channels. */
static void load_channels(const job *j, const tile *s) {
    const product *p = &j->p;
    const local_addr_t left = j->left_buffer[s->left_at];
    if (s->loads_left) {
        const int wide = even(s->sums);
        const dim4 to = {local_slots(s->rows) * wide, wide, 1, 1}, beside = {s->count, s->rows, 1, 1};
        const dim4 line = {s->count, s->rows, 1, s->sums}, plain = {p->m * p->k, p->k, p->k, 1};
        if (wide > s->sums)
            okk_gdma_32bit_set_C_local(left + 4u * (local_addr_t)s->sums, (x32){.u32 = 0}, &beside, &to);
        okk_gdma_32bit_cpy_S2L(left, s->left, &line, &to, &plain);
    }
    if (s->loads_right) {
        const dim4 line = {s->count, s->sums, 1, s->columns}, plain = {p->k * p->n, p->n, p->n, 1};
        okk_gdma_32bit_cpy_S2L(j->right_buffer[s->right_at], s->right, &line, NULL, &plain);
    }
    if (j->bias != 0 && s->last) {
        const dim4 shape = {1, CHIP_NPU_NUM, 1, s->columns}, same = {0, 0, s->columns, 1};
        okk_gdma_32bit_cpy_S2L(j->bias_buffer[s->out_at], j->bias + 4ull * (unsigned long long)s->n, &shape, NULL,
                               &same);
    }
}

static void convolve(const job *j, const tile *s) {
    const local_addr_t out = j->out_buffer[s->out_at];
    const dim4 picture = {1, s->sums, 1, s->columns};
    const dim4 pairs = {1, even(s->sums) / 2, 1, 1};
    const int left = local_slots(s->rows) * even(s->sums), right = local_line(s->columns);
    for (int i = 0; i < s->count; i++)
        okk_bdc_conv2d(out + 4u * (local_addr_t)(i * local_slots(s->rows) * right),
                       j->right_buffer[s->right_at] + 4u * (local_addr_t)(i * local_slots(s->sums) * right),
                       j->left_buffer[s->left_at] + 4u * (local_addr_t)(i * left), 0, &picture, s->rows, 1, 1, NULL,
                       &pairs, false, !s->first, NULL, NULL, NULL);
    if (!s->last) return;
    const dim4 shape = {s->count, s->rows, 1, s->columns}, once = {0, 0, 0, 1};
    if (j->alpha != 0 && j->alpha != 1) okk_bdc_mul_C(out, out, j->alpha, &shape, NULL, NULL);
    if (j->bias != 0) okk_bdc_add(out, out, j->bias_buffer[s->out_at], &shape, NULL, NULL, &once);
}

/* All columns of the left matrix, j->sums at a time. */
static void load_left(const job *j, const tile *s) {
    const product *p = &j->p;
    const int parts = p->k / j->sums, rest = p->k - parts * j->sums;
    const dim4 shape = {s->rows, j->sums / LEFT_WIDTH, parts, LEFT_WIDTH};
    const dim4 to = {LEFT_WIDTH, 1, s->rows * LEFT_WIDTH, 1}, from = {p->k, LEFT_WIDTH, j->sums, 1};
    okk_gdma_32bit_cpy_S2L(j->left_buffer[0], s->left, &shape, &to, &from);
    if (rest > 0)
        okk_gdma_32bit_matrix_S2L(j->left_buffer[0] + (local_addr_t)(parts * s->rows * LINE),
                                  s->left + 4ull * (unsigned int)(parts * j->sums), s->rows, rest,
                                  smaller(rest, LEFT_WIDTH), p->k);
}

static void load(const job *j, const tile *s) {
    if (j->convolves) {
        load_channels(j, s);
        return;
    }
    const product *p = &j->p;
    const local_addr_t left = j->left_buffer[s->left_at], right = j->right_buffer[s->right_at];
    if (s->loads_left && j->left_once) {
        load_left(j, s);
    } else if (s->loads_left) {
        okk_gdma_32bit_matrix_S2L(left, s->left, s->rows * s->count, s->sums, smaller(s->sums, LEFT_WIDTH), p->k);
    }
    if (s->loads_right) {
        const int width = width_of(j, s);
        if (p->blocks)
            load_blocks(j, right, s);
        else
            okk_gdma_32bit_matrix_S2L(right, s->right, s->sums * s->count, s->columns, width, p->n);
    }
    if (j->bias != 0 && s->last)
        okk_gdma_32bit_matrix_S2L(j->bias_buffer[s->out_at], j->bias + 4ull * (unsigned long long)s->n, 1, s->columns,
                                  width_of(j, s), s->columns);
}

static void compute(const job *j, const tile *s) {
    if (j->convolves) {
        convolve(j, s);
        return;
    }
    const local_addr_t out = j->out_buffer[s->out_at];
    const int width = width_of(j, s), part = j->left_once ? s->k / j->sums : 0;
    const local_addr_t left = j->left_buffer[s->left_at] + (local_addr_t)(part * s->rows * LINE);
    for (int i = 0; i < s->count; i++)
        okk_bdc_matmul(out + (local_addr_t)(i * s->rows * LINE), left + (local_addr_t)(i * s->rows * LINE),
                       j->right_buffer[s->right_at] + (local_addr_t)(i * s->sums * LINE), 0, s->rows, s->sums,
                       s->columns, smaller(s->sums, LEFT_WIDTH), width, false, !s->first);
    if (!s->last) return;
    const dim4 shape = {s->rows * s->count, divide_up(s->columns, width), 1, width};
    const dim4 once = {0, CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS, 1};
    if (j->alpha != 0 && j->alpha != 1) okk_bdc_mul_C(out, out, j->alpha, &shape, NULL, NULL);
    if (j->bias != 0) okk_bdc_add(out, out, j->bias_buffer[s->out_at], &shape, NULL, NULL, &once);
}

static void store(const job *j, const tile *s) {
    const product *p = &j->p;
    const unsigned long long row = s->b * (unsigned long long)p->m + (unsigned long long)s->m;
    const system_addr_t target = j->out + 4 * (row * (unsigned long long)p->n + (unsigned long long)s->n);
    const local_addr_t source = j->out_buffer[s->out_at];
    if (j->convolves) {
        const dim4 shape = {s->count, s->rows, 1, s->columns}, plain = {p->m * p->n, p->n, p->n, 1};
        okk_gdma_32bit_cpy_L2S(target, source, &shape, &plain, NULL);
    } else {
        okk_gdma_32bit_matrix_L2S(target, source, s->rows * s->count, s->columns, width_of(j, s), p->n);
    }
}

/* The matrices of an operand, stored [columns, rows], turned one after the other to `target`. */
static void turn(u64 target, const tpu_tensor_t *t, int rows, int columns) {
    bm_move_turned(target, t->addr, t->elem_num / (rows * columns), columns, rows);
}

__BM_GLOBAL__(TPU_MATMUL)
int matmul_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    job j = {.left = in_tensors[0].addr, .right = in_tensors[1].addr, .out = out_tensors[0].addr};
    j.bias = in_num == 3 ? in_tensors[2].addr : 0;
    j.alpha = ((const tpu_matmul_param_t *)param)->alpha;
    const int code = product_of(param, in_tensors, &j.p);
    if (code != BM_LAYER_OK) return code;
    okk_initialize();
    u64 buffer = buffer_addr;
    if (j.p.left_turned) {
        turn(buffer, &in_tensors[0], j.p.m, j.p.k);
        j.left = buffer;
        buffer += 4ull * (unsigned int)in_tensors[0].elem_num;
    }
    if (j.p.right_turned) {
        turn(buffer, &in_tensors[1], j.p.k, j.p.n);
        j.right = buffer;
    }
    plan(&j);

    /* While one tile is computed, the next one's operands are loaded and a finished tile is stored. */
    tile current = {0}, next = {0}, stored = {0};
    prepare(&j, &current, NULL);
    load(&j, &current);
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        okk_parallel_start();
        if (computing) {
            more = next_tile(&j, &current, &next);
            if (more) load(&j, &next);
            compute(&j, &current);
        }
        if (storing) store(&j, &stored);
        okk_parallel_end();
        storing = computing && current.last;
        stored = current;
        current = next;
    }
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: rows of the left matrices are channels, and rows of these where there are four dimensions; the right
 * matrix is a constant [1, k, n] or, of three dimensions, one for each batch; its rows are one to a channel. So the
 * tile's channels are weights of a convolution as they lie, and what it makes lies as the result shall. ---- */

typedef struct {
    local_addr_t x, right, y, spare; /* spare: room for one row of the result in each lane */
    int n, channels, rows, k;
    int columns, row;         /* of the result's tile; words from one slot of the right matrix's rows to the next */
    int next_right;           /* words from one batch's right matrix to the next */
    dim4 x_stride, y_stride;  /* of [n, channels, rows, even k or columns] */
} local_product;

/* Row `row` of all channels of a batch. Products are written at whole lines, so where rows of the result begin elsewhere
 * they are made in the spare room. */
static void multiply_row(const local_product *p, int batch, int row) {
    const local_addr_t x = p->x + 4u * (local_addr_t)(batch * p->x_stride.n + row * p->x_stride.h);
    const local_addr_t y = p->y + 4u * (local_addr_t)(batch * p->y_stride.n + row * p->columns);
    const local_addr_t right = p->right + 4u * (local_addr_t)(batch * p->next_right);
    bm_row_product m = {p->channels, p->k, p->columns, p->x_stride.c, p->row, p->y_stride.c};
    if (row * p->columns % CHIP_ALIGN_WORDS == 0) {
        bm_multiply_rows(&m, y, x, right);
        return;
    }
    for (int slot = 0; slot < local_slots(p->channels); slot++) {
        const local_addr_t to = y + 4u * (local_addr_t)(slot * p->y_stride.c);
        m.rows = smaller(CHIP_NPU_NUM, p->channels - slot * CHIP_NPU_NUM);
        bm_multiply_rows(&m, p->spare, x + 4u * (local_addr_t)(slot * p->x_stride.c), right);
        const dim4 whole = {1, m.rows, 1, p->columns};
        okk_bdc_32bit_cpy(to, p->spare, &whole, &p->y_stride, NULL);
    }
}

/* Adds one number per column, which lie in the first lane; work: room for a copy of them in every lane. */
static void add_bias(const local_product *p, local_addr_t bias, local_addr_t work) {
    bm_spread_row(work, bias, smaller(p->channels, CHIP_NPU_NUM), p->columns);
    const dim4 shape = {p->n, p->channels, p->rows, p->columns}, once = {0, 0, 0, 1};
    okk_bdc_add(p->y, p->y, work, &shape, &p->y_stride, &p->y_stride, &once);
}

/* Rows of an odd number of elements, copied with a zero behind each. */
static void make_even(local_product *p, local_addr_t work) {
    const dim4 rows = {p->n, p->channels, p->rows, p->k}, ends = {p->n, p->channels, p->rows, 1};
    const dim4 from = p->x_stride, to = {p->n, p->channels, p->rows, p->k + 1};
    okk_128_byte_aligned_stride_for_32bit(&p->x_stride, 0, &to);
    okk_bdc_32bit_cpy(work, p->x, &rows, &p->x_stride, &from);
    okk_bdc_32bit_set_C(work + 4u * (local_addr_t)p->k, (x32){.u32 = 0}, &ends, &p->x_stride);
    p->x = work;
}

__BM_LOCAL__(TPU_MATMUL)
int matmul_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const float alpha = ((const tpu_matmul_param_t *)param)->alpha;
    const tpu_tensor_t *x = &in_tensors[0], *right = &in_tensors[1], *y = &out_tensors[0];
    const int last = (int)y->dims - 1, first = y->processed[last];
    const bool own = right->ttype == BMNET_NEURON; /* one for each batch */
    local_product p = {.x = (local_addr_t)x->addr, .y = (local_addr_t)y->addr, .n = y->slice_shape[0],
                       .channels = y->slice_shape[1], .rows = last == 3 ? y->slice_shape[2] : 1,
                       .k = x->slice_shape[last], .columns = y->slice_shape[last]};
    p.row = own ? local_line(p.columns) : right->shape[2];
    p.next_right = own ? local_slots(p.k) * p.row : 0;
    p.right = (local_addr_t)right->addr + 4u * (local_addr_t)first;
    local_addr_t work = (local_addr_t)buffer_offset;
    p.spare = work + 4u * (local_addr_t)(in_num == 3 ? local_line(p.columns) : 0);
    const dim4 from = {p.n, p.channels, p.rows, p.k}, shape = {p.n, p.channels, p.rows, p.columns};
    okk_128_byte_aligned_stride_for_32bit(&p.x_stride, 0, &from);
    okk_128_byte_aligned_stride_for_32bit(&p.y_stride, 0, &shape);
    if (p.k % 2 != 0) make_even(&p, p.spare + 4u * (local_addr_t)(last == 3 ? local_line(p.columns) : 0));
    for (int batch = 0; batch < p.n; batch++)
        for (int row = 0; row < p.rows; row++) multiply_row(&p, batch, row);
    if (alpha != 0 && alpha != 1) okk_bdc_mul_C(p.y, p.y, alpha, &shape, NULL, NULL);
    if (in_num == 3) add_bias(&p, (local_addr_t)in_tensors[2].addr + 4u * (local_addr_t)first, work);
    return BM_LAYER_OK;
}
