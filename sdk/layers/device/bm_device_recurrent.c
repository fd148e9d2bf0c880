/* TPU_RECURRENT: LSTM, GRU and RNN as ONNX defines them, step by step: states, and where they fit the recurrent weights,
 * stay in local memory. What the steps' inputs give to the gates is there before, as one product of matrices.
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

#define CHANNEL_MAX 128 /* columns of a product in a lane */

/* CELL_GRU multiplies the reset state by the weights, CELL_GRU_AFTER resets the product (linear_before_reset). */
enum { CELL_LSTM, CELL_GRU, CELL_GRU_AFTER, CELL_RNN, CELLS };

/* Lanes are ceil(hidden / units), at most 64; columns of a tensor go [lane, gate, unit], units beyond `hidden` have zeros.
 * Gates are in ONNX's order. Those that a sigmoid takes (all but LSTM's and GRU's last and RNN's) are there with the
 * opposite sign, weights as inputs.
 * Inputs: gates [steps, batch, directions * columns], weights [directions, lanes, hidden, columns of a lane]; for CELL_GRU
 * these have the first two gates, and the third's follow as another tensor; for CELL_GRU_AFTER what is added to the
 * products follows, [directions, columns]; where `initial` is 1 the hidden, and of LSTM the cell states follow,
 * [directions, batch, hidden].
 * Outputs: [steps, directions, batch, hidden], [directions, batch, hidden], of LSTM another one like this. */
__BM_PARAM__(TPU_RECURRENT)
typedef struct {
    int cell;
    int hidden;
    int units;
    int directions; /* 1 or 2 */
    int reverse;    /* 1: one direction, from the last step to the first */
    int initial;
} tpu_recurrent_param_t;

static const int gates_of[CELLS] = {4, 3, 3, 1};
static const int first_gates[CELLS] = {4, 2, 3, 1}; /* of the product with the state */
static const int sigmoids_of[CELLS] = {3, 2, 2, 0};

static int lanes_of(const tpu_recurrent_param_t *p) { return divide_up(p->hidden, p->units); }

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
    if (p->directions < 1 || p->directions > 2 || (p->initial & ~1) || (p->reverse & ~1)) return false;
    if (p->reverse && p->directions == 2) return false;
    return gates_of[p->cell] * p->units <= CHANNEL_MAX && lanes_of(p) <= CHIP_NPU_NUM;
}

__BM_SHAPE__(TPU_RECURRENT)
int recurrent_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    const tpu_recurrent_param_t *p = param;
    if (param_size != (int)sizeof(tpu_recurrent_param_t) || !valid(p)) return BM_LAYER_PARAM_INVALID;
    const int states = p->cell == CELL_LSTM ? 2 : 1, fixed = fixed_inputs(p->cell);
    if (in_num != fixed + p->initial * states || out_num != 1 + states) return BM_LAYER_PARAM_INVALID;
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
    local_addr_t input[2], product, hidden[2], reset, summed; /* matrices: a row to each line */
    local_addr_t taken, chosen, work, cell, fresh, spare, temporary[3]; /* rows without gaps between */
    /* of the batches at hand */
    int from, rows;       /* rows: batches of all directions */
    dim4 units, sigmoids; /* shapes of states, and of what sigmoids take */
    dim4 plain, one_of_sigmoids, in_gates, in_product, in_matrix; /* strides of states in each */
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
    const int state = local_line(rows * units), matrix = rows * local_line(units);
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
               {&j->input[0], rows * local_line(gate_width(j))},
               {&j->input[1], rows * local_line(gate_width(j))},
               {&j->product, gru ? rows * local_line(product_width(j, 0)) : 0},
               {&j->hidden[0], matrix},
               {&j->hidden[1], matrix},
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

/* All weights where they fit beside one batch, else pieces of them, which every step loads. Then as many batches as fit:
 * products take as long for each. */
static void plan(job *j) {
    j->resident = true;
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
    lay_out(j, batches);
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

/* The step of the inputs that a direction comes to at its nth one. */
static unsigned long long step_of(const job *j, int direction, int nth) {
    return (unsigned long long)(direction == 1 || j->p.reverse ? j->steps - 1 - nth : nth);
}

static void load_gates(const job *j, int nth) {
    const int width = gate_width(j), columns = j->lanes * width, count = j->rows / j->p.directions;
    for (int d = 0; d < j->p.directions; d++) {
        const unsigned long long row = step_of(j, d, nth) * (unsigned long long)j->batch + (unsigned int)j->from;
        const unsigned long long at = (row * (unsigned int)j->p.directions + (unsigned int)d) * (unsigned int)columns;
        okk_gdma_32bit_matrix_S2L(j->input[nth % 2] + 4u * (local_addr_t)(d * count * local_line(width)),
                                  j->gates + 4 * at, count, columns, width, j->p.directions * columns);
    }
}

/* One direction's states of the batches at hand: from or to [batch, hidden]. */
static void move_states(const job *j, local_addr_t states, system_addr_t target, int direction, bool to_local) {
    const int count = j->rows / j->p.directions;
    const local_addr_t local = states + 4u * (local_addr_t)(direction * count * local_line(j->p.units));
    const system_addr_t far = target + 4ull * (unsigned long long)j->from * (unsigned long long)j->p.hidden;
    if (to_local)
        okk_gdma_32bit_matrix_S2L(local, far, count, j->p.hidden, j->p.units, j->p.hidden);
    else
        okk_gdma_32bit_matrix_L2S(far, local, count, j->p.hidden, j->p.units, j->p.hidden);
}

/* All directions' states from or to [directions, batch, hidden]. */
static void move_all(const job *j, local_addr_t states, system_addr_t target, bool to_local) {
    const unsigned long long bytes = 4ull * (unsigned long long)j->batch * (unsigned long long)j->p.hidden;
    for (int d = 0; d < j->p.directions; d++)
        move_states(j, states, target + (unsigned int)d * bytes, d, to_local);
}

static void store_step(const job *j, int nth) {
    const unsigned long long bytes = 4ull * (unsigned long long)j->batch * (unsigned long long)j->p.hidden;
    for (int d = 0; d < j->p.directions; d++) {
        const unsigned long long plane = step_of(j, d, nth) * (unsigned int)j->p.directions + (unsigned int)d;
        move_states(j, j->hidden[(nth + 1) % 2], j->out + plane * bytes, d, false);
    }
}

/* ---- a step ---- */

/* A gate of all units. */
static local_addr_t gate(const job *j, local_addr_t gates, int index) {
    return gates + 4u * (local_addr_t)(index * j->p.units);
}

static void multiply(const job *j, const piece *s, int nth) {
    const bool into_input = j->p.cell == CELL_LSTM || j->p.cell == CELL_RNN, biased = j->added != 0 && s->first;
    const int count = j->rows / j->p.directions, row = s->direction * count, sums = sums_of(j, s);
    const local_addr_t target = s->product == 1 ? j->summed : into_input ? j->input[nth % 2] : j->product;
    const local_addr_t states = s->product == 1 ? j->reset : j->hidden[nth % 2];
    const local_addr_t left = states + 4u * (local_addr_t)(row * local_line(j->p.units));
    const local_addr_t bias = j->added_at + 4u * (local_addr_t)(s->direction * local_line(gate_width(j)));
    okk_bdc_matmul(target + 4u * (local_addr_t)(row * local_line(s->width)), local_channel(left, s->lane, 0), s->place,
                   biased ? bias : 0, count, sums, j->lanes * s->width, smaller(sums, j->p.units), s->width, biased,
                   into_input || s->product == 1 || !s->first);
}

/* What lies in `from` by these strides, in `to` without gaps. */
static void gather(local_addr_t to, local_addr_t from, const dim4 *shape, const dim4 *stride) {
    okk_bdc_32bit_cpy(to, from, shape, NULL, stride);
}

static void tanh_of(const job *j, local_addr_t y, local_addr_t x) {
    bm_tanh(y, x, j->temporary[0], j->temporary[1], j->temporary[2], &j->units);
}

static void step_lstm(const job *j, int nth) { /* gates: input, output, forget, cell */
    const local_addr_t input = j->input[nth % 2], next = j->hidden[(nth + 1) % 2];
    gather(j->fresh, gate(j, input, 3), &j->units, &j->in_gates);
    gather(j->taken, input, &j->sigmoids, &j->in_gates);
    bm_logistic(j->chosen, j->taken, j->work, &j->sigmoids);
    tanh_of(j, j->spare, j->fresh);
    okk_bdc_mul(j->cell, j->cell, gate(j, j->chosen, 2), &j->units, &j->plain, &j->plain, &j->one_of_sigmoids);
    okk_bdc_mac(j->cell, gate(j, j->chosen, 0), j->spare, &j->units, &j->plain, &j->one_of_sigmoids, &j->plain);
    tanh_of(j, j->spare, j->cell);
    okk_bdc_mul(next, j->spare, gate(j, j->chosen, 1), &j->units, &j->in_matrix, &j->plain, &j->one_of_sigmoids);
}

static void step_rnn(const job *j, int nth) {
    gather(j->fresh, j->input[nth % 2], &j->units, &j->in_gates);
    tanh_of(j, j->spare, j->fresh);
    okk_bdc_32bit_cpy(j->hidden[(nth + 1) % 2], j->spare, &j->units, &j->in_matrix, NULL);
}

/* Behind the product of the state: what of it goes on, and what of it is reset. */
static void choose_gru(const job *j, int nth) { /* gates: update, reset, hidden */
    const local_addr_t input = j->input[nth % 2], reset = gate(j, j->chosen, 1);
    okk_bdc_add(j->taken, input, j->product, &j->sigmoids, NULL, &j->in_gates, &j->in_product);
    bm_logistic(j->chosen, j->taken, j->work, &j->sigmoids);
    if (j->p.cell == CELL_GRU) {
        okk_bdc_32bit_cpy(j->summed, gate(j, input, 2), &j->units, &j->in_matrix, &j->in_gates);
        okk_bdc_mul(j->reset, j->hidden[nth % 2], reset, &j->units, &j->in_matrix, &j->in_matrix, &j->one_of_sigmoids);
    } else {
        gather(j->fresh, gate(j, input, 2), &j->units, &j->in_gates);
        okk_bdc_mac(j->fresh, reset, gate(j, j->product, 2), &j->units, &j->plain, &j->one_of_sigmoids, &j->in_product);
    }
}

static void step_gru(const job *j, int nth) {
    if (j->p.cell == CELL_GRU) gather(j->fresh, j->summed, &j->units, &j->in_matrix);
    tanh_of(j, j->spare, j->fresh);
    okk_bdc_sub(j->fresh, j->hidden[nth % 2], j->spare, &j->units, &j->plain, &j->in_matrix, &j->plain);
    okk_bdc_mul(j->fresh, j->fresh, j->chosen, &j->units, &j->plain, &j->plain, &j->one_of_sigmoids);
    okk_bdc_add(j->hidden[(nth + 1) % 2], j->spare, j->fresh, &j->units, &j->in_matrix, &j->plain, &j->plain);
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

/* Strides of [1, lanes, rows, .] whose rows begin so many words apart. */
static dim4 rows_apart(const job *j, int words) { return (dim4){j->rows * words, j->rows * words, words, 1}; }

static void measure(job *j, int from) {
    const int units = j->p.units, sigmoids = sigmoids_of[j->p.cell] * units;
    j->from = from;
    j->rows = smaller(j->most, j->batch - from) * j->p.directions;
    j->units = (dim4){1, j->lanes, j->rows, units};
    j->sigmoids = (dim4){1, j->lanes, j->rows, sigmoids};
    j->plain = rows_apart(j, units);
    j->one_of_sigmoids = rows_apart(j, sigmoids);
    j->in_gates = rows_apart(j, local_line(gate_width(j)));
    j->in_product = rows_apart(j, local_line(product_width(j, 0)));
    j->in_matrix = rows_apart(j, local_line(units));
}

/* Initial states; the lanes' units that there are not stay zero. */
static void begin(const job *j) {
    const x32 zero = {.u32 = 0};
    okk_bdc_32bit_set_C(j->hidden[0], zero, &j->units, &j->in_matrix);
    if (j->p.cell == CELL_LSTM && j->p.initial) {
        move_all(j, j->hidden[0], j->initial[1], true);
        gather(j->cell, j->hidden[0], &j->units, &j->in_matrix);
    } else if (j->p.cell == CELL_LSTM) {
        okk_bdc_32bit_set_C(j->cell, zero, &j->units, NULL);
    }
    if (j->p.initial) move_all(j, j->hidden[0], j->initial[0], true);
    if (!j->resident) load_piece(j, 0, 0);
    load_gates(j, 0);
}

/* While one step is computed, the next one's gates are loaded and the last one's states stored; of weights that do not
 * stay, the next piece is loaded while one is multiplied. */
static void run(const job *j) {
    const int turns = j->resident ? 1 : j->pieces, all = j->steps * turns;
    for (int turn = 0; turn < all; turn++) {
        const int nth = turn / turns, index = turn % turns;
        okk_parallel_start();
        if (!j->resident && turn + 1 < all) load_piece(j, (turn + 1) % turns, turn + 1);
        if (index == 0 && nth + 1 < j->steps) load_gates(j, nth + 1);
        if (index == 0 && nth > 0) store_step(j, nth - 1);
        for (int i = index; i < (j->resident ? j->pieces : index + 1); i++) {
            const piece s = piece_at(j, i, turn);
            compute(j, &s, nth);
        }
        okk_parallel_end();
    }
    store_step(j, j->steps - 1);
    move_all(j, j->hidden[j->steps % 2], j->last[0], false);
    if (j->p.cell != CELL_LSTM) return;
    okk_bdc_32bit_cpy(j->hidden[0], j->cell, &j->units, &j->in_matrix, NULL);
    move_all(j, j->hidden[0], j->last[1], false);
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
    for (int i = 0; i < out_num - 1; i++) {
        if (j.p.initial) j.initial[i] = in_tensors[fixed_inputs(j.p.cell) + i].addr;
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
