// The layers of this folder: how the compiler may treat them.
#ifndef BM_HOST_FAULTS_H
#define BM_HOST_FAULTS_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

inline u32 aligned(const int *tile) { // bytes of a lane
    return static_cast<u32>(tile[0] * ((tile[1] + 63) / 64) * ((tile[2] * tile[3] + 31) / 32) * 128);
}

__BM_DESC__(TPU_F_WRITES_INPUT)
class FWritesInputDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WRITES_INPUT"; }
};

__BM_DESC__(TPU_F_NO_BUFFER)
class FNoBufferDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_NO_BUFFER"; }
};

__BM_DESC__(TPU_F_BUFFER_TOO_SMALL)
class FBufferTooSmallDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_BUFFER_TOO_SMALL"; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 4ull * x[1] * x[2] * x[3];
    }
};

__BM_DESC__(TPU_F_PARTLY_WRITTEN)
class FPartlyWrittenDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_PARTLY_WRITTEN"; }
};

__BM_DESC__(TPU_F_FIRST_BATCH)
class FFirstBatchDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_FIRST_BATCH"; }
};

__BM_DESC__(TPU_F_WRONG_DTYPE)
class FWrongDtypeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WRONG_DTYPE"; }
};

__BM_DESC__(TPU_F_SMALLER_SHAPE)
class FSmallerShapeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_SMALLER_SHAPE"; }
};

__BM_DESC__(TPU_F_NEIGHBOUR)
class FNeighbourDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_NEIGHBOUR"; }
};

__BM_DESC__(TPU_F_READS_OUTPUT)
class FReadsOutputDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_READS_OUTPUT"; }
};

__BM_DESC__(TPU_F_WRITES_CONSTANT)
class FWritesConstantDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WRITES_CONSTANT"; }
    virtual TENSOR_TYPE_T input_type(int i) const override { return i == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
};

__BM_DESC__(TPU_F_VECTOR_AS_MAP)
class FVectorAsMapDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_VECTOR_AS_MAP"; }
};

__BM_DESC__(TPU_F_RACE)
class FRaceDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_RACE"; }
};

__BM_DESC__(TPU_F_LEFT_IN_LOCAL)
class FLeftInLocalDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_LEFT_IN_LOCAL"; }
};

__BM_DESC__(TPU_F_COMPILED_ROWS)
class FCompiledRowsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_COMPILED_ROWS"; }
};

__BM_DESC__(TPU_F_SECOND_OUTPUT)
class FSecondOutputDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_SECOND_OUTPUT"; }
};

__BM_DESC__(TPU_F_EXTENTS_OF_FIRST)
class FExtentsOfFirstDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_EXTENTS_OF_FIRST"; }
};

__BM_DESC__(TPU_F_POINTER_BEYOND)
class FPointerBeyondDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_POINTER_BEYOND"; }
    virtual bool must_dynamic_run() const override { return true; }
};

__BM_DESC__(TPU_F_WRITES_INPUT_TILE)
class FWritesInputTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WRITES_INPUT_TILE"; }
};

__BM_DESC__(TPU_F_NO_LOCAL_BUFFER)
class FNoLocalBufferDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_NO_LOCAL_BUFFER"; }
};

__BM_DESC__(TPU_F_LOCAL_BUFFER_TOO_SMALL)
class FLocalBufferTooSmallDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_LOCAL_BUFFER_TOO_SMALL"; }
    virtual u32 get_local_buffer_size(const int *tile) const override { return static_cast<u32>(tile[3]) * 4; }
};

__BM_DESC__(TPU_F_HALO_NOT_ASKED)
class FHaloNotAskedDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_HALO_NOT_ASKED"; }
};

__BM_DESC__(TPU_F_BEHIND_ITS_TILE)
class FBehindItsTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_BEHIND_ITS_TILE"; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - 1; }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice + 2; }
};

__BM_DESC__(TPU_F_WHOLE_FOR_TILE)
class FWholeForTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WHOLE_FOR_TILE"; }
};

__BM_DESC__(TPU_F_LAST_ROW)
class FLastRowDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_LAST_ROW"; }
};

__BM_DESC__(TPU_F_COMPACT_TILE)
class FCompactTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_COMPACT_TILE"; }
};

__BM_DESC__(TPU_F_WRITES_LOCAL_CONSTANT)
class FWritesLocalConstantDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WRITES_LOCAL_CONSTANT"; }
    virtual TENSOR_TYPE_T input_type(int i) const override { return i == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
};

__BM_DESC__(TPU_F_FIXED_ADDRESS)
class FFixedAddressDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_FIXED_ADDRESS"; }
};

__BM_DESC__(TPU_F_ADDS_TO_TILE)
class FAddsToTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_ADDS_TO_TILE"; }
};

__BM_DESC__(TPU_F_CONSTANT_AS_TILE)
class FConstantAsTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_CONSTANT_AS_TILE"; }
    virtual TENSOR_TYPE_T input_type(int i) const override { return i == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
};

__BM_DESC__(TPU_F_WORK_BEHIND_OUTPUT)
class FWorkBehindOutputDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_WORK_BEHIND_OUTPUT"; }
};

__BM_DESC__(TPU_F_TOP_EDGE)
class FTopEdgeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_TOP_EDGE"; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - 1; }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice + 1; }
};

__BM_DESC__(TPU_C_SHARES)
class CSharesDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_SHARES"; }
    virtual bool is_share_mem_layer() const override { return true; }
};

__BM_DESC__(TPU_C_IN_PLACE)
class CInPlaceDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_IN_PLACE"; }
    virtual bool can_inplace(DATA_TYPE_T) const override { return true; }
};

__BM_DESC__(TPU_C_PADDED_TILE)
class CPaddedTileDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_PADDED_TILE"; }
};

__BM_DESC__(TPU_C_BUFFERS)
class CBuffersDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_BUFFERS"; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 4ull * x[0] * x[1] * x[2] * x[3];
    }
    virtual u32 get_local_buffer_size(const int *tile) const override { return aligned(tile); }
};

__BM_DESC__(TPU_C_ROWS)
class CRowsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_ROWS"; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - 1; }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice + 2; }
};

__BM_DESC__(TPU_C_PER_CHANNEL)
class CPerChannelDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_PER_CHANNEL"; }
    virtual TENSOR_TYPE_T input_type(int i) const override { return i == 0 ? BMNET_NEURON : BMNET_COEFF_NEURON; }
};

__BM_DESC__(TPU_C_TWO_OUTPUTS)
class CTwoOutputsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_TWO_OUTPUTS"; }
};

__BM_DESC__(TPU_C_OUTPUT_AS_SCRATCH)
class COutputAsScratchDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_OUTPUT_AS_SCRATCH"; }
    virtual u32 get_local_buffer_size(const int *tile) const override { return aligned(tile); }
};

__BM_DESC__(TPU_C_POOL)
class CPoolDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_POOL"; }
    virtual int backward_hidx(int out_hidx) const override { return 2 * out_hidx; }
    virtual int backward_hslice(int out_hslice) const override { return 2 * out_hslice; }
    virtual int backward_widx(int out_widx) const override { return 2 * out_widx; }
    virtual int backward_wslice(int out_wslice) const override { return 2 * out_wslice; }
};

__BM_DESC__(TPU_C_TURN)
class CTurnDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_TURN"; }
};

__BM_DESC__(TPU_C_POINTER)
class CPointerDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_POINTER"; }
    virtual bool must_dynamic_run() const override { return true; }
};

__BM_DESC__(TPU_C_PING_PONG)
class CPingPongDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_PING_PONG"; }
};

__BM_DESC__(TPU_C_TO_BYTES)
class CToBytesDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_TO_BYTES"; }
};

__BM_DESC__(TPU_C_INSIDE)
class CInsideDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_INSIDE"; }
};

__BM_DESC__(TPU_C_JOIN)
class CJoinDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_JOIN"; }
};

__BM_DESC__(TPU_C_FRAME)
class CFrameDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_FRAME"; }
};

#endif
