/* TPU_RECURRENT: LSTM, GRU and RNN as ONNX defines them, step by step: states, and where they fit the recurrent
 * weights, stay in local memory. What the steps' inputs give to the gates is there before, as one product of matrices.
 *
 * Hidden units are dealt over the lanes, `units` to each, and a lane has all gates of its units: so gates become states
 * where they lie, and states are at once the left matrix of the next step's product.
 *
 * Errors are those of TPU_MATMUL, and of sigmoid and tanh; both directions of a layer are rows of the same commands.
 *
 * Inputs: gates of every step, recurrent weights, for GRU more weights or what is added to them, perhaps initial states
 * Makes: the hidden states of all steps, the last ones, of LSTM the last cell states too
 */
#include "bm_layer_functions.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BLOCK_ROWS 16 /* of all steps whose gates are loaded, and whose states are stored, at once */

/* CELL_GRU multiplies the reset state by the weights, CELL_GRU_AFTER resets the product (linear_before_reset). */
enum { CELL_LSTM, CELL_GRU, CELL_GRU_AFTER, CELL_RNN, CELLS };

/* Lanes are ceil(hidden / units), at most one to each NPU; columns of a tensor go [lane, gate, unit], and units beyond
 * `hidden` have zeros. Gates are in ONNX's order. Those that a sigmoid takes (all but LSTM's and GRU's last and RNN's)
 * are there with the opposite sign, weights as inputs; but GRU's first with its own, for what is added to a state is
 * the part that the gate leaves.
 * Inputs: gates [steps, batch, directions * columns], weights [directions, lanes, hidden, columns of a lane]; for
 * CELL_GRU these have the first two gates, and the third's follow as another tensor; for CELL_GRU_AFTER what is added
 * to the products follows, [directions, columns]; then the hidden, and of LSTM the cell states, as `initial` says,
 * [directions, batch, hidden].
 * Outputs: [steps, directions, batch, hidden], [directions, batch, hidden], of LSTM another one like this. */
__BM_PARAM__(TPU_RECURRENT)
typedef struct {
    int cell;
    int hidden;
    int units;
    int directions; /* 1 or 2 */
    int reverse;    /* 1: one direction, from the last step to the first */
    int initial;    /* 1: initial hidden states are given, 2: cell states, 3: both; zeros else */
} tpu_recurrent_param_t;

static const int gates_of[CELLS] = {4, 3, 3, 1};
static const int first_gates[CELLS] = {4, 2, 3, 1}; /* of the product with the state */
static const int sigmoids_of[CELLS] = {3, 2, 2, 0};

static int lanes_of(const tpu_recurrent_param_t *p) { return divide_up(p->hidden, p->units); }

/* Whether the initial hidden (0) or cell states (1) are an input. */
static bool given(const tpu_recurrent_param_t *p, int which) { return (p->initial >> which & 1) != 0; }

/* Inputs before the initial states. */
static int fixed_inputs(int cell) { return cell == CELL_GRU || cell == CELL_GRU_AFTER ? 3 : 2; }

static bool has_shape(const tpu_tensor_t *t, const int *extents, int dims) {
    if ((int)t->dims != dims) return false;
    for (int d = 0; d < dims; d++)
        if (t->shape[d] != extents[d]) return false;
    return true;
}

static bool valid(const tpu_recurrent_param_t *p) {
    if (p->cell < 0 || p->cell >= CELLS || p->hidden < 1 || p->units < 1 || p->units > p->hidden) return false;
    if (p->directions < 1 || p->directions > 2 || (p->reverse & ~1)) return false;
    if (p->initial & ~(p->cell == CELL_LSTM ? 3 : 1)) return false;
    if (p->reverse && p->directions == 2) return false;
    return gates_of[p->cell] * p->units <= CHIP_MATRIX_WIDTH_MAX && lanes_of(p) <= CHIP_NPU_NUM;
}

__BM_SHAPE__(TPU_RECURRENT)
int recurrent_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    const tpu_recurrent_param_t *p = param;
    if (param_size != (int)sizeof(tpu_recurrent_param_t) || !valid(p)) return BM_LAYER_PARAM_INVALID;
    const int states = p->cell == CELL_LSTM ? 2 : 1, fixed = fixed_inputs(p->cell);
    if (in_num != fixed + given(p, 0) + given(p, 1) || out_num != 1 + states) return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    const int lanes = lanes_of(p), width = gates_of[p->cell] * p->units, columns = lanes * width;
    const tpu_tensor_t *gates = &in_tensors[0];
    if (gates->dims != 3 || gates->shape[2] != p->directions * columns) return BM_LAYER_PARAM_INVALID;
    const int weights[4] = {p->directions, lanes, p->hidden, first_gates[p->cell] * p->units};
    if (!has_shape(&in_tensors[1], weights, 4)) return BM_LAYER_PARAM_INVALID;
    const int more[4] = {p->directions, lanes, p->hidden, p->units}, added[2] = {p->directions, columns};
    if (p->cell == CELL_GRU && !has_shape(&in_tensors[2], more, 4)) return BM_LAYER_PARAM_INVALID;
    if (p->cell == CELL_GRU_AFTER && !has_shape(&in_tensors[2], added, 2)) return BM_LAYER_PARAM_INVALID;
    const int state[3] = {p->directions, gates->shape[1], p->hidden};
    for (int i = fixed; i < in_num; i++)
        if (!has_shape(&in_tensors[i], state, 3)) return BM_LAYER_PARAM_INVALID;
    for (int i = 0; i < out_num; i++) {
        tpu_tensor_t *out = &out_tensors[i];
        out->ttype = BMNET_NEURON;
        out->dtype = DTYPE_FP32;
        out->dims = i == 0 ? 4 : 3;
        out->shape[0] = gates->shape[0];
        for (int d = 0; d < 3; d++) out->shape[(i == 0) + d] = state[d];
    }
    return BM_LAYER_OK;
}

/* ---- what lies where ---- */

/* A part of the recurrent weights: those of some lanes' states in one direction's product. */
typedef struct {
    int product, direction, lane, lanes; /* whose states they multiply */
    int width;                           /* columns of a lane */
    bool first, last;                    /* of its direction's product; of the product in all directions */
    local_addr_t place;
} piece;

typedef struct {
    tpu_recurrent_param_t p;
    system_addr_t gates, weights[2], added, initial[2], out, last[2];
    int steps, batch, lanes, products, states;
    bool resident;     /* all weights stay in local memory */
    int together;      /* lanes of a piece, at most */
    int pieces;
    int most;          /* batches at a time */
    local_addr_t weight_at[2], added_at; /* weight_at: resident: of each product, else of a piece, by turns */
    local_addr_t input[2], hidden[2];                         /* of a block's steps; matrices: a row to each line */
    local_addr_t product, reset, summed;                      /* matrices of a step */
    local_addr_t taken, chosen, work, cell, fresh, spare, temporary[3]; /* rows without gaps between */
    int block;            /* steps, at most */
    /* of the batches at hand */
    int from, rows;       /* rows: batches of all directions */
    dim4 units, sigmoids; /* of states, and of what sigmoids take: rows without gaps between, [1, lanes, rows, .] */
} job;

static int gate_width(const job *j) { return gates_of[j->p.cell] * j->p.units; }
static int product_width(const job *j, int product) { return (product == 0 ? first_gates[j->p.cell] : 1) * j->p.units; }

/* Words of a lane that a product's weights of some lanes take. */
static long long weight_words(const job *j, int product, int lanes) {
    return (long long)smaller(lanes * j->p.units, j->p.hidden) * local_line(product_width(j, product));
}

/* Places for so many batches at a time; how many words of a lane they take. */
static long long lay_out(job *j, int batches) {
    const int rows = batches * j->p.directions, cell = j->p.cell, units = j->p.units;
    const int state = local_line(rows * units), matrix = rows * local_line(units), block = j->block;
    const int sigmoids = local_line(rows * sigmoids_of[cell] * units);
    const bool gru = cell == CELL_GRU || cell == CELL_GRU_AFTER;
    const long long piece_words = weight_words(j, 0, j->together);
    const long long first = j->resident ? j->p.directions * weight_words(j, 0, j->lanes) : piece_words;
    const long long second = !j->resident         ? piece_words
                             : j->products == 2 ? j->p.directions * weight_words(j, 1, j->lanes)
                                                : 0;
    const struct {
        local_addr_t *place;
        long long words;
    } all[] = {{&j->weight_at[0], first},
               {&j->weight_at[1], second},
               {&j->added_at, j->added != 0 ? j->p.directions * local_line(gate_width(j)) : 0},
               {&j->input[0], block * rows * local_line(gate_width(j))},
               {&j->input[1], block * rows * local_line(gate_width(j))},
               {&j->product, gru ? rows * local_line(product_width(j, 0)) : 0},
               {&j->hidden[0], block * matrix},
               {&j->hidden[1], block * matrix},
               {&j->reset, cell == CELL_GRU ? matrix : 0},
               {&j->summed, cell == CELL_GRU ? matrix : 0},
               {&j->taken, sigmoids},
               {&j->chosen, sigmoids},
               {&j->work, sigmoids},
               {&j->cell, cell == CELL_LSTM ? state : 0},
               {&j->fresh, state},
               {&j->spare, state},
               {&j->temporary[0], state},
               {&j->temporary[1], state},
               {&j->temporary[2], state}};
    long long words = 0;
    for (int i = 0; i < BM_COUNT(all); i++) {
        *all[i].place = (local_addr_t)(4 * words);
        words += all[i].words;
    }
    j->most = batches;
    return words;
}

/* All weights where they fit beside one batch, else pieces of them, which every step loads. Then as many batches as
 * fit: products take as long for each. Of few batches, whose copies are little but latency, several steps; four blocks
 * at least, for the first one's load and the last one's store hide behind nothing. */
static void plan(job *j) {
    j->resident = true;
    j->block = 1;
    j->together = j->lanes;
    int batches = j->batch;
    if (lay_out(j, 1) > CHIP_LOCAL_WORDS) {
        j->resident = false;
        j->together = 1;
        while (batches > 1 && lay_out(j, batches) > CHIP_LOCAL_WORDS / 2) batches = divide_up(batches, 2);
        while (j->together < j->lanes) {
            j->together++;
            if (lay_out(j, batches) <= CHIP_LOCAL_WORDS) continue;
            j->together--;
            break;
        }
    }
    while (batches > 1 && lay_out(j, batches) > CHIP_LOCAL_WORDS) batches = divide_up(batches, 2);
    if (j->resident && batches == j->batch)
        j->block = larger(1, smaller(BLOCK_ROWS / (batches * j->p.directions), j->steps / 4));
    while (lay_out(j, batches) > CHIP_LOCAL_WORDS && j->block > 1) j->block /= 2;
    j->pieces = j->products * j->p.directions * divide_up(j->lanes, j->together);
}

/* Those of a product one after the other, its directions after one another; `turn`: pieces that were loaded before. */
static piece piece_at(const job *j, int index, int turn) {
    const int parts = divide_up(j->lanes, j->together), part = index % parts;
    piece s = {.direction = index / parts % j->p.directions, .product = index / parts / j->p.directions};
    s.lane = part * j->together;
    s.lanes = smaller(j->together, j->lanes - s.lane);
    s.width = product_width(j, s.product);
    s.first = part == 0;
    s.last = part == parts - 1 && s.direction == j->p.directions - 1;
    s.place = j->weight_at[turn % 2];
    if (j->resident) {
        const long long before = s.direction * weight_words(j, s.product, j->lanes);
        s.place = j->weight_at[s.product] + 4u * (local_addr_t)before;
    }
    return s;
}

/* Rows of the weights that a piece has: one for each state. */
static int sums_of(const job *j, const piece *s) {
    return smaller(s->lanes * j->p.units, j->p.hidden - s->lane * j->p.units);
}

/* ---- between DDR and local memory ---- */

static void load_piece(const job *j, int index, int turn) {
    const piece s = piece_at(j, index, turn);
    const int all = j->p.hidden * s.width, sums = sums_of(j, &s), line = local_line(s.width);
    const dim4 shape = {1, j->lanes, sums, s.width}, to = {0, sums * line, line, 1}, from = {0, all, s.width, 1};
    const unsigned long long at = (unsigned long long)(s.direction * j->lanes) * (unsigned long long)all +
                                  (unsigned long long)(s.lane * j->p.units * s.width);
    okk_gdma_32bit_cpy_S2L(s.place, j->weights[s.product] + 4 * at, &shape, &to, &from);
}

/* Whether a direction goes from the last step to the first. */
static bool goes_back(const job *j, int direction) { return direction == 1 || j->p.reverse; }

/* Steps of a block of this index. */
static int steps_of(const job *j, int block) { return smaller(j->block, j->steps - block * j->block); }

/* The first one, as tensors in DDR count, of those that a direction comes to in a block. */
static unsigned long long lowest_step(const job *j, int direction, int block) {
    const int first = block * j->block;
    return (unsigned long long)(goes_back(j, direction) ? j->steps - first - steps_of(j, block) : first);
}

/* Batches of one direction. */
static int count_of(const job *j) { return j->rows / j->p.directions; }

/* Words from one direction's part of a block's matrices to the other's. */
static int direction_words(const job *j, int line) { return j->block * count_of(j) * line; }

static void load_gates(const job *j, int block) {
    const int width = gate_width(j), columns = j->lanes * width, words = direction_words(j, local_line(width));
    for (int d = 0; d < j->p.directions; d++) {
        const unsigned long long row = lowest_step(j, d, block) * (unsigned long long)j->batch + (unsigned int)j->from;
        const unsigned long long at = (row * (unsigned int)j->p.directions + (unsigned int)d) * (unsigned int)columns;
        okk_gdma_32bit_matrix_S2L(j->input[block % 2] + 4u * (local_addr_t)(d * words), j->gates + 4 * at,
                                  steps_of(j, block) * count_of(j), columns, width, j->p.directions * columns);
    }
}

static void store_block(const job *j, int block) {
    const int steps = steps_of(j, block), count = count_of(j), line = local_line(j->p.units), hidden = j->p.hidden;
    const unsigned long long plane = (unsigned long long)j->batch * (unsigned long long)hidden;
    /* Rows of several steps lie as far apart as a step's where there is one direction, or one batch. */
    const bool at_once = j->p.directions == 1 || count == 1;
    const int stride = j->batch == 1 ? j->p.directions * hidden : hidden;
    for (int d = 0; d < j->p.directions; d++)
        for (int i = 0; i < (at_once ? 1 : steps); i++) {
            const unsigned long long step = lowest_step(j, d, block) + (unsigned int)i;
            const unsigned long long at = (step * (unsigned int)j->p.directions + (unsigned int)d) * plane +
                                          (unsigned long long)j->from * (unsigned long long)hidden;
            const int row = d * direction_words(j, line) + i * count * line;
            okk_gdma_32bit_matrix_L2S(j->out + 4 * at, j->hidden[block % 2] + 4u * (local_addr_t)row,
                                      at_once ? steps * count : count, hidden, j->p.units, stride);
        }
}

/* Rows of a step: [directions, lanes, batches, .], where they are. */
typedef struct {
    local_addr_t at;
    dim4 stride;
} view;

/* One step's rows among those of blocks, whose lines are so many words; step -1 is what was there at first. Steps lie
 * as in DDR, so those of a direction that goes back begin at the end. */
static view step_view(const job *j, const local_addr_t *blocks, int line, int nth) {
    const int block = nth < 0 ? 1 : nth / j->block, index = nth < 0 ? 0 : nth % j->block;
    const int steps = nth < 0 ? 1 : steps_of(j, block), count = count_of(j);
    int slot[2];
    for (int d = 0; d < 2; d++) slot[d] = goes_back(j, d) ? steps - 1 - index : index;
    const int apart = direction_words(j, line) + (slot[1] - slot[0]) * count * line;
    return (view){blocks[block % 2] + 4u * (local_addr_t)(slot[0] * count * line), {apart, apart, line, 1}};
}

static view gates_at(const job *j, int nth) { return step_view(j, j->input, local_line(gate_width(j)), nth); }

static view states_at(const job *j, int nth) { return step_view(j, j->hidden, local_line(j->p.units), nth); }

/* Rows so many words apart from one another. */
static view rows_at(const job *j, local_addr_t at, int words) {
    return (view){at, {count_of(j) * words, count_of(j) * words, words, 1}};
}

/* One gate of all units. */
static view gate(const job *j, view gates, int index) {
    gates.at += 4u * (local_addr_t)(index * j->p.units);
    return gates;
}

/* States of all directions from or to [directions, batch, hidden]. */
static void move_states(const job *j, const view *states, system_addr_t target, bool to_local) {
    const int hidden = j->p.hidden, count = count_of(j);
    for (int d = 0; d < j->p.directions; d++) {
        const unsigned long long row = (unsigned long long)d * (unsigned int)j->batch + (unsigned int)j->from;
        const system_addr_t far = target + 4 * row * (unsigned int)hidden;
        const local_addr_t local = states->at + 4u * (local_addr_t)(d * states->stride.n);
        if (to_local)
            okk_gdma_32bit_matrix_S2L(local, far, count, hidden, j->p.units, hidden);
        else
            okk_gdma_32bit_matrix_L2S(far, local, count, hidden, j->p.units, hidden);
    }
}

/* ---- a step ---- */

static void multiply(const job *j, const piece *s, int nth) {
    const bool into_input = j->p.cell == CELL_LSTM || j->p.cell == CELL_RNN, biased = j->added != 0 && s->first;
    const int sums = sums_of(j, s), state = local_line(j->p.units);
    const view to = s->product == 1 ? rows_at(j, j->summed, state)
                    : into_input    ? gates_at(j, nth)
                                    : rows_at(j, j->product, local_line(s->width));
    const view from = s->product == 1 ? rows_at(j, j->reset, state) : states_at(j, nth - 1);
    const local_addr_t left = from.at + 4u * (local_addr_t)(s->direction * from.stride.n);
    const local_addr_t bias = j->added_at + 4u * (local_addr_t)(s->direction * local_line(gate_width(j)));
    okk_bdc_matmul(to.at + 4u * (local_addr_t)(s->direction * to.stride.n), local_channel(left, s->lane, 0), s->place,
                   biased ? bias : 0, count_of(j), sums, j->lanes * s->width, smaller(sums, j->p.units), s->width,
                   biased, into_input || s->product == 1 || !s->first);
}

/* The rows of a step as functions take them, without gaps: shape and view of all, or of what they are made from. */
static dim4 apart(const job *j, const dim4 *rows) { return (dim4){j->p.directions, rows->c, count_of(j), rows->w}; }

static view plain(const job *j, local_addr_t at) { return rows_at(j, at, j->p.units); }

/* One sigmoid of all units. */
static view chosen(const job *j, int index) { return gate(j, rows_at(j, j->chosen, j->sigmoids.w), index); }

static void gather(const job *j, local_addr_t to, const view *from, const dim4 *rows) {
    const dim4 shape = apart(j, rows);
    const view made = rows_at(j, to, rows->w);
    okk_bdc_32bit_cpy(to, from->at, &shape, &made.stride, &from->stride);
}

typedef void (*two_operands)(local_addr_t, local_addr_t, local_addr_t, const dim4 *, const dim4 *, const dim4 *,
                             const dim4 *);

/* y = a op b, of all units. */
static void each(const job *j, two_operands op, view y, view a, view b) {
    const dim4 shape = apart(j, &j->units);
    op(y.at, a.at, b.at, &shape, &y.stride, &a.stride, &b.stride);
}

static void tanh_of(const job *j, local_addr_t y, local_addr_t x) {
    bm_tanh(y, x, j->temporary[0], j->temporary[1], j->temporary[2], &j->units);
}

static void step_lstm(const job *j, int nth) { /* gates: input, output, forget, cell */
    const view gates = gates_at(j, nth), last = gate(j, gates, 3), cell = plain(j, j->cell), spare = plain(j, j->spare);
    gather(j, j->fresh, &last, &j->units);
    gather(j, j->taken, &gates, &j->sigmoids);
    bm_logistic(j->chosen, j->taken, j->work, &j->sigmoids);
    tanh_of(j, j->spare, j->fresh);
    each(j, okk_bdc_mul, cell, cell, chosen(j, 2));
    each(j, okk_bdc_mac, cell, chosen(j, 0), spare);
    tanh_of(j, j->spare, j->cell);
    each(j, okk_bdc_mul, states_at(j, nth), spare, chosen(j, 1));
}

static void step_rnn(const job *j, int nth) {
    const view gates = gates_at(j, nth), next = states_at(j, nth), spare = plain(j, j->spare);
    const dim4 shape = apart(j, &j->units);
    gather(j, j->fresh, &gates, &j->units);
    tanh_of(j, j->spare, j->fresh);
    okk_bdc_32bit_cpy(next.at, spare.at, &shape, &next.stride, &spare.stride);
}

/* Behind the product of the state: what of it goes on, and what of it is reset. */
static void choose_gru(const job *j, int nth) { /* gates: update (what is left of 1), reset, hidden */
    const view gates = gates_at(j, nth), last = gate(j, gates, 2);
    const view made = rows_at(j, j->product, local_line(product_width(j, 0)));
    const view taken = rows_at(j, j->taken, j->sigmoids.w);
    const dim4 both = apart(j, &j->sigmoids), shape = apart(j, &j->units);
    okk_bdc_add(taken.at, gates.at, made.at, &both, &taken.stride, &gates.stride, &made.stride);
    bm_logistic(j->chosen, j->taken, j->work, &j->sigmoids);
    if (j->p.cell == CELL_GRU) {
        const int line = local_line(j->p.units);
        const view summed = rows_at(j, j->summed, line);
        okk_bdc_32bit_cpy(summed.at, last.at, &shape, &summed.stride, &last.stride);
        each(j, okk_bdc_mul, rows_at(j, j->reset, line), states_at(j, nth - 1), chosen(j, 1));
    } else {
        gather(j, j->fresh, &last, &j->units);
        each(j, okk_bdc_mac, plain(j, j->fresh), chosen(j, 1), gate(j, made, 2));
    }
}

static void step_gru(const job *j, int nth) {
    const view fresh = plain(j, j->fresh), spare = plain(j, j->spare);
    const view summed = rows_at(j, j->summed, local_line(j->p.units));
    if (j->p.cell == CELL_GRU) gather(j, j->fresh, &summed, &j->units);
    tanh_of(j, j->spare, j->fresh);
    each(j, okk_bdc_sub, fresh, spare, states_at(j, nth - 1));
    each(j, okk_bdc_mul, fresh, fresh, chosen(j, 0));
    each(j, okk_bdc_add, states_at(j, nth), states_at(j, nth - 1), fresh);
}

static void compute(const job *j, const piece *s, int nth) {
    multiply(j, s, nth);
    if (!s->last) return;
    if (j->p.cell == CELL_LSTM) step_lstm(j, nth);
    if (j->p.cell == CELL_RNN) step_rnn(j, nth);
    if ((j->p.cell == CELL_GRU || j->p.cell == CELL_GRU_AFTER) && s->product == 0) choose_gru(j, nth);
    if ((j->p.cell == CELL_GRU || j->p.cell == CELL_GRU_AFTER) && s->product == j->products - 1) step_gru(j, nth);
}

/* ---- all steps of some batches ---- */

static void measure(job *j, int from) {
    j->from = from;
    j->rows = smaller(j->most, j->batch - from) * j->p.directions;
    j->units = (dim4){1, j->lanes, j->rows, j->p.units};
    j->sigmoids = (dim4){1, j->lanes, j->rows, sigmoids_of[j->p.cell] * j->p.units};
}

/* Initial states; the lanes' units that there are not stay zero. */
static void begin(const job *j) {
    const view first = states_at(j, -1);
    const dim4 shape = apart(j, &j->units);
    const x32 zero = {.u32 = 0};
    okk_bdc_32bit_set_C(first.at, zero, &shape, &first.stride);
    if (given(&j->p, 1)) move_states(j, &first, j->initial[1], true);
    if (j->p.cell == CELL_LSTM) gather(j, j->cell, &first, &j->units);
    if (given(&j->p, 0))
        move_states(j, &first, j->initial[0], true);
    else if (given(&j->p, 1)) /* whose place it was */
        okk_bdc_32bit_set_C(first.at, zero, &shape, &first.stride);
    if (!j->resident) load_piece(j, 0, 0);
    load_gates(j, 0);
}

/* While one block is computed, the next one's gates are loaded and the last one's states stored; of weights that do not
 * stay, the next piece is loaded while one is multiplied. */
static void run(const job *j) {
    const int blocks = divide_up(j->steps, j->block), turns = j->resident ? 1 : j->pieces, all = blocks * turns;
    for (int turn = 0; turn < all; turn++) {
        const int block = turn / turns, index = turn % turns, end = j->resident ? j->pieces : index + 1;
        okk_parallel_start();
        if (!j->resident && turn + 1 < all) load_piece(j, (turn + 1) % turns, turn + 1);
        if (index == 0 && block + 1 < blocks) load_gates(j, block + 1);
        if (index == 0 && block > 0) store_block(j, block - 1);
        for (int nth = block * j->block; nth < block * j->block + steps_of(j, block); nth++)
            for (int i = index; i < end; i++) {
                const piece s = piece_at(j, i, turn);
                compute(j, &s, nth);
            }
        okk_parallel_end();
    }
    const view last = states_at(j, j->steps - 1), cell = plain(j, j->cell);
    const dim4 shape = apart(j, &j->units);
    store_block(j, blocks - 1);
    move_states(j, &last, j->last[0], false);
    if (j->p.cell != CELL_LSTM) return;
    okk_bdc_32bit_cpy(last.at, cell.at, &shape, &last.stride, &cell.stride);
    move_states(j, &last, j->last[1], false);
}

__BM_GLOBAL__(TPU_RECURRENT)
int recurrent_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                     const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size;
    job j = {.p = *(const tpu_recurrent_param_t *)param};
    j.gates = in_tensors[0].addr;
    j.steps = in_tensors[0].shape[0];
    j.batch = in_tensors[0].shape[1];
    j.lanes = lanes_of(&j.p);
    j.products = j.p.cell == CELL_GRU ? 2 : 1;
    for (int i = 0; i < j.products; i++) j.weights[i] = in_tensors[1 + i].addr;
    if (j.p.cell == CELL_GRU_AFTER) j.added = in_tensors[2].addr;
    for (int i = 0, next = fixed_inputs(j.p.cell); i < out_num - 1; i++) {
        if (given(&j.p, i)) j.initial[i] = in_tensors[next++].addr;
        j.last[i] = out_tensors[1 + i].addr;
    }
    j.out = out_tensors[0].addr;
    plan(&j);

    okk_initialize();
    for (int i = 0; j.resident && i < j.pieces; i++) load_piece(&j, i, 0);
    const int width = gate_width(&j);
    if (j.added != 0)
        okk_gdma_32bit_matrix_S2L(j.added_at, j.added, j.p.directions, j.lanes * width, width, j.lanes * width);
    for (int from = 0; from < j.batch; from += j.most) {
        measure(&j, from);
        begin(&j);
        run(&j);
    }
    okk_poll();
    return BM_LAYER_OK;
}
