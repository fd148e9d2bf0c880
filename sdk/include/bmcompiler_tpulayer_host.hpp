// Host side of a custom TPU layer: the descriptor class that tells the compiler how to treat it.
//
//     __BM_DESC__(TPU_X)
//     class XDescriptor : public bmcompiler::LayerDescriptor { ... };
//
// All heights and widths are in elements of the tensor; "slice" is an extent, "idx" the index of a
// first element, both in the whole tensor's coordinates and without clipping at its edges.
#ifndef BMCOMPILER_TPULAYER_HOST_HPP
#define BMCOMPILER_TPULAYER_HOST_HPP

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "bmcompiler_tpulayer_device.h"

#define __BM_DESC__(op)

namespace bmcompiler {

// One tensor of the graph, as the compiler knows it.
struct GraphTensor {
    std::string name;
    std::vector<int> shape;
    DATA_TYPE_T dtype = DTYPE_FP32;
    TENSOR_TYPE_T ttype = BMNET_NEURON;  // BMNET_COEFF: a constant
    const void *data = nullptr;          // its elements, inside prepare, where that needs them
};

// The node of the graph that a descriptor describes.
struct GraphNode {
    std::string name;
    int op_type = -1;
    const void *param = nullptr;  // the layer's parameter struct
    int param_size = 0;           // bytes
    std::vector<GraphTensor> inputs;
    std::vector<GraphTensor> outputs;
};

class LayerDescriptor {
  public:
    LayerDescriptor() = default;
    virtual ~LayerDescriptor() = default;
    LayerDescriptor(const LayerDescriptor &) = delete;
    LayerDescriptor &operator=(const LayerDescriptor &) = delete;

    // The node described; valid in every virtual function, not in the constructor.
    const GraphNode &layer() const { return *node_; }
    // The parameter struct as T.
    template <typename T> const T *param() const { return static_cast<const T *>(layer().param); }

    virtual std::string get_name() { return "UNKNOWN"; }

    // How the layer may run.
    virtual bool must_dynamic_run() { return false; }         // its kernel cannot be recorded
    virtual bool output_shape_is_dynamic() { return false; }  // output shape depends on data
    virtual bool force_use_global_layer() { return false; }   // never in a local group
    virtual bool can_split_local_h_w() { return true; }       // its local function accepts slices
    virtual bool can_inplace(DATA_TYPE_T) { return false; }   // local output may overwrite the input
    virtual bool can_h_w_dynamic() { return true; }           // other h/w in dynamic mode
    virtual bool just_reshape() { return false; }             // same bytes, other shape
    virtual bool is_share_mem_layer() { return false; }       // output lives in the input's memory

    // Memory. Bytes of DDR, and bytes of local memory per NPU for a piece of this shape.
    virtual bm_size_t get_global_buffer_size() { return 0; }
    virtual TENSOR_TYPE_T input_type(int /*in_idx*/) { return BMNET_NEURON; }
    virtual bm_size_t get_local_buffer_size(const std::vector<int> & /*split_shape*/) { return 0; }
    virtual bool should_input_on_l2mem(int /*in_idx*/) { return false; }

    // Constant inputs, laid out for the kernel when the net is compiled. Where prepared_shape is not empty, the
    // layer's C functions get a constant of that shape and of prepared_dtype in place of the graph's one; prepare
    // makes its elements. `constant` holds the elements as in layer().inputs[in_idx]; `prepared` is as long as
    // prepared_shape and prepared_dtype say, and zeroed. Asked for constants only; outputs have no shape yet when
    // prepared_shape and prepared_dtype are asked. All other methods go on seeing the graph's constant.
    // prepared_with: the prepared constant input that holds this one's elements too (prepare finds them in
    // layer().inputs[].data). The C functions then do not get this input; those behind it move up.
    virtual std::vector<int> prepared_shape(int /*in_idx*/) { return {}; }
    virtual DATA_TYPE_T prepared_dtype(int in_idx) {
        return layer().inputs.at(static_cast<std::size_t>(in_idx)).dtype;
    }
    virtual int prepared_with(int in_idx) { return in_idx; }
    virtual void prepare(int /*in_idx*/, const void * /*constant*/, void * /*prepared*/) {
        throw std::logic_error("prepared_shape is given, prepare is not");
    }

    // What an output piece needs of the input (backward), and what an input gives (forward).
    virtual bool is_backslice_optimize_support_layer() { return false; }
    virtual int backward_hslice(int out_hslice) { return out_hslice; }
    virtual int backward_wslice(int out_wslice) { return out_wslice; }
    virtual int backward_hidx(int out_hidx) { return out_hidx; }
    virtual int backward_widx(int out_widx) { return out_widx; }
    virtual int backward_kh() { return 1; }
    virtual int backward_stride_h() { return 1; }
    virtual int backward_up_pad_h() { return 0; }
    virtual int backward_down_pad_h() { return 0; }
    virtual int forward_height(int in_height) { return in_height; }
    // The output is the inputs' bytes one after the other.
    virtual bool joins_inputs() { return false; }
    // Its local function takes input pieces with more rows and columns than the output piece needs: it finds
    // its window by `processed`.
    virtual bool accepts_larger_pieces() { return false; }

    // Called once by the generated entry, before anything else.
    void bind(const GraphNode *node) { node_ = node; }

  private:
    const GraphNode *node_ = nullptr;
};

}  // namespace bmcompiler
#endif
