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
    STORE_MODE_T store_mode = STORE_MODE_1N;
    float scale = 0.0f;  // of a quantised tensor: value = scale x integer; else 0
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

// The methods down to forward_height are those of the vendor's class of this name, with its signatures; those behind
// it are this toolkit's own. A method of a derived class that hides one of them (for want of a `const`, say) does not
// compile, and neither does one that misspells its name.
class LayerDescriptor {
  public:
    LayerDescriptor() = default;
    virtual ~LayerDescriptor() = default;
    LayerDescriptor(const LayerDescriptor &) = delete;
    LayerDescriptor &operator=(const LayerDescriptor &) = delete;

    // The node described; valid in every virtual function, not in the constructor.
    GraphNode *layer() const { return node_; }
    // The parameter struct as T.
    template <typename T> const T *param() const { return static_cast<const T *>(node_->param); }

    virtual std::string get_name() const { return "UNKNOWN"; }

    // How the layer may run.
    virtual bool must_dynamic_run() const { return false; }         // its kernel cannot be recorded
    virtual bool output_shape_is_dynamic() const { return false; }  // output shape depends on data
    virtual bool force_use_global_layer() const { return false; }   // never in a local group
    virtual bool can_split_local_h_w() const { return true; }       // its local function accepts slices
    virtual bool can_inplace(DATA_TYPE_T /*data_prec*/) const { return false; }  // local output may overwrite the input
    virtual bool can_h_w_dynamic() const { return true; }           // other h/w in dynamic mode
    virtual bool just_reshape() const { return false; }             // same bytes, other shape
    virtual bool is_share_mem_layer() const { return false; }       // output lives in the input's memory

    // Memory. Bytes of DDR, and bytes of local memory per NPU for a tile of the output: split_shape has the tile's
    // four extents, 1 behind the tensor's last dimension.
    virtual u64 get_global_buffer_size() const { return 0; }
    virtual TENSOR_TYPE_T input_type(int /*in_idx*/) const { return BMNET_NEURON; }
    virtual u32 get_local_buffer_size(const int * /*split_shape*/) const { return 0; }

    // The local function works on tiles of a tensor other than those that it needs itself (it finds its window by
    // `processed`): layers that need different tiles of one tensor then share a larger one.
    virtual bool is_backslice_optimize_support_layer() const { return false; }

    // Which rows and columns of the input an output tile needs: first row and number of rows...
    virtual int backward_hslice(int out_hslice) const { return out_hslice; }
    virtual int backward_wslice(int out_wslice) const { return out_wslice; }
    virtual int backward_hidx(int out_hidx) const { return out_hidx; }
    virtual int backward_widx(int out_widx) const { return out_widx; }
    // ... or the window that slides over the rows: rows of the input under a window of out_kh output rows, rows that
    // out_stride_h output rows step over, rows above and below the input's edges for so many of the output's. A
    // convolution of kernel K, stride S and padding P has (out_kh - 1) * S + K, out_stride_h * S and
    // out_up_pad_h * S + P. Taken where backward_hslice and backward_hidx are left as they are here.
    virtual int backward_kh(int out_kh) const { return out_kh; }
    virtual int backward_stride_h(int out_stride_h) const { return out_stride_h; }
    virtual int backward_up_pad_h(int out_up_pad_h) const { return out_up_pad_h; }
    virtual int backward_down_pad_h(int out_down_pad_h) const { return out_down_pad_h; }

    virtual bool should_input_on_l2mem(int /*in_idx*/) const { return false; }
    // Rows of the output, given those of the first input; compared with what the shape function says.
    virtual int forward_height(int in_height) const { return in_height; }

    // Constant inputs, laid out for the kernel when the net is compiled. Where prepared_shape is not empty, the
    // layer's C functions get a constant of that shape and of prepared_dtype in place of the graph's one; prepare
    // makes its elements. `constant` holds the elements as in layer()->inputs[in_idx]; `prepared` is as long as
    // prepared_shape and prepared_dtype say, and zeroed. Asked for constants only; outputs have no shape yet when
    // prepared_shape and prepared_dtype are asked. All other methods go on seeing the graph's constant.
    // prepared_with: the prepared constant input that holds this one's elements too (prepare finds them in
    // layer()->inputs[].data). The C functions then do not get this input; those behind it move up.
    virtual std::vector<int> prepared_shape(int /*in_idx*/) const { return {}; }
    virtual DATA_TYPE_T prepared_dtype(int in_idx) const {
        return layer()->inputs.at(static_cast<std::size_t>(in_idx)).dtype;
    }
    virtual int prepared_with(int in_idx) const { return in_idx; }
    virtual void prepare(int /*in_idx*/, const void * /*constant*/, void * /*prepared*/) const {
        throw std::logic_error("prepared_shape is given, prepare is not");
    }

    // The output is the inputs' bytes one after the other.
    virtual bool is_concat_layer() const { return false; }
    // is_backslice_optimize_support_layer for layers whose windows no kernel, stride and padding describe.
    virtual bool accepts_larger_tiles() const { return is_backslice_optimize_support_layer(); }

    // How the C functions take an input: where the graph has it in another way, a conversion is put before the layer.
    // A layer that says nothing takes fp32 (and integers that are no quantised values, such as indices, as they are);
    // one that takes integers says in its shape function which type, store mode and scale its outputs have. Not asked
    // for constants; outputs have no shape yet when these are asked.
    virtual DATA_TYPE_T input_dtype(int /*in_idx*/) const { return DTYPE_FP32; }
    virtual STORE_MODE_T input_store_mode(int in_idx) const {
        switch (input_dtype(in_idx)) {
        case DTYPE_INT8:
        case DTYPE_UINT8: return STORE_MODE_4N;
        case DTYPE_INT16:
        case DTYPE_UINT16: return STORE_MODE_2N;
        default: return STORE_MODE_1N;
        }
    }

    // Each row of the outputs depends on the same row of the inputs alone, whichever row it is and however many there
    // are: rows of one picture may come as four batches. Asked for layers that take 8-bit integers.
    virtual bool each_row_alone() const { return false; }

    // Called once by the generated entry, before anything else.
    void bind(GraphNode *node) { node_ = node; }

  private:
    GraphNode *node_ = nullptr;
};

}  // namespace bmcompiler
#endif
