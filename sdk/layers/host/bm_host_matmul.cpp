#include "bm_host_matmul.h"

#include "../lib/bm_layer_product.h"
#include "bm_host_constants.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"

namespace {

// to = from turned, [rows, columns] to [columns, rows].
void turn(const float *from, float *to, std::size_t rows, std::size_t columns) {
    const std::size_t tile = 32;
    for (std::size_t i = 0; i < rows; i += tile)
        for (std::size_t c = 0; c < columns; c++)
            for (std::size_t r = i; r < std::min(rows, i + tile); r++) to[c * rows + r] = from[r * columns + c];
}

}  // namespace

// Constants have types of their own: the kernel sees by them what it need not turn, and what lies in blocks.
TENSOR_TYPE_T MatmulDescriptor::input_type(int in_idx) const {
    if (!bm_is_constant(layer()->inputs.at(static_cast<std::size_t>(in_idx)))) return BMNET_NEURON;
    return in_idx == 1 && in_blocks() ? BMNET_COEFF_NEURON : BMNET_COEFF;
}

// Operands that are not constants are turned in DDR.
u64 MatmulDescriptor::get_global_buffer_size() const {
    bm_size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        const bmcompiler::GraphTensor &t = layer()->inputs.at(static_cast<std::size_t>(i));
        if (turned(i) && !bm_is_constant(t)) bytes += 4 * bm_elements(t.shape);
    }
    return bytes;
}

std::vector<int> MatmulDescriptor::prepared_shape(int in_idx) const {
    const bmcompiler::GraphTensor &t = layer()->inputs.at(static_cast<std::size_t>(in_idx));
    bm_shape shape = t.shape;
    if (in_idx == 2) return is_local() ? bm_reshaped(t, local_bias()) : bm_shape{};
    if (turned(in_idx)) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    if (in_idx == 1 && is_local()) shape.insert(shape.begin(), 1);
    return turned(in_idx) || shape != t.shape || (in_idx == 1 && in_blocks()) ? shape : bm_shape{};
}

void MatmulDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    if (in_idx == 2 || (!turned(in_idx) && !(in_idx == 1 && in_blocks())))
        return bm_keep_elements(layer()->inputs[static_cast<std::size_t>(in_idx)], constant, prepared);
    const bm_shape &shape = layer()->inputs[static_cast<std::size_t>(in_idx)].shape;
    const std::size_t rows = static_cast<std::size_t>(shape[shape.size() - 2]);
    const std::size_t columns = static_cast<std::size_t>(shape.back());
    const float *from = static_cast<const float *>(constant);
    float *to = static_cast<float *>(prepared);
    if (in_idx == 0 || !in_blocks()) {
        for (std::size_t i = 0; i < bm_elements(shape); i += rows * columns) turn(from + i, to + i, rows, columns);
        return;
    }
    const std::size_t k = turned(1) ? columns : rows, n = turned(1) ? rows : columns;
    for (std::size_t first = 0; first < n; first += PRODUCT_BLOCK) {
        const std::size_t wide = std::min<std::size_t>(PRODUCT_BLOCK, n - first);
        float *block = to + first * k;
        if (turned(1)) turn(from + first * k, block, wide, k);
        else
            for (std::size_t r = 0; r < k; r++) std::copy_n(from + r * n + first, wide, block + r * wide);
    }
}

bool MatmulDescriptor::turned(int in_idx) const {
    const tpu_matmul_param_t *p = param<tpu_matmul_param_t>();
    return (in_idx == 0 ? p->trans_a : p->trans_b) && layer()->inputs[static_cast<std::size_t>(in_idx)].shape.size() > 1;
}

// Whether the right matrix is a constant that meets so few rows that the matrix product takes it.
bool MatmulDescriptor::in_blocks() const {
    const auto &inputs = layer()->inputs;
    if (inputs.size() < 2 || !bm_is_constant(inputs[1]) || inputs[1].shape.size() != 2) return false;
    const int k = inputs[1].shape[turned(1) ? 1 : 0], n = inputs[1].shape[turned(1) ? 0 : 1];
    return !product_by_convolution(static_cast<long long>(bm_elements(inputs[0].shape)) / k, n);
}

// The numbers of the columns lie behind one another in the first lane.
bm_shape MatmulDescriptor::local_bias() const {
    bm_shape shape(layer()->outputs[0].shape.size(), 1);
    shape.back() = layer()->outputs[0].shape.back();
    return shape;
}

// The local function takes a constant for all batches, or of three dimensions a right matrix for each.
bool MatmulDescriptor::is_local() const {
    const auto &inputs = layer()->inputs;
    const bm_shape &x = inputs[0].shape, &right = inputs[1].shape;
    if (bm_is_constant(inputs[0]) || turned(0) || in_blocks() || x.size() < 2 || x[1] > CHIP_CHANNELS_MAX) return false;
    if (inputs.size() == 3 && !bm_is_constant(inputs[2])) return false;
    if (bm_is_constant(inputs[1])) return (x.size() == 3 || x.size() == 4) && right.size() == 2;
    return x.size() == 3 && right.size() == 3 && x[0] == right[0] && !turned(1) && right[1] <= CHIP_CHANNELS_MAX;
}

int MatmulDescriptor::forward_height(int in_height) const {
    return layer()->outputs[0].shape.size() == 3 ? layer()->outputs[0].shape[2] : in_height;
}

// Numbers of the columns for each lane; a row of the result; rows of the left matrix with a zero behind them, where
// they need one or, in a net whose shapes may change, might.
u32 MatmulDescriptor::get_local_buffer_size(const int *split_shape) const {
    const std::size_t dims = layer()->outputs[0].shape.size();
    const int k = layer()->inputs[0].shape.back(), line[4] = {1, 1, 1, split_shape[dims - 1]};
    const int even[4] = {split_shape[0], split_shape[1], dims == 4 ? split_shape[2] : 1, k + 1};
    const bool spare = dims == 4 && (line[3] % CHIP_ALIGN_WORDS != 0 || k % 2 != 0);
    const bool odd = k % 2 != 0 || !bm_is_constant(layer()->inputs[1]);
    return bm_local_bytes(static_cast<bm_size_t>((layer()->inputs.size() == 3) + spare) * bm_tile_bytes(line) +
                          (odd ? bm_tile_bytes(even) : 0));
}
