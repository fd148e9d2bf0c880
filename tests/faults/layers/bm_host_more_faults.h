// More layers of this folder: how the compiler may treat them.
#ifndef BM_HOST_MORE_FAULTS_H
#define BM_HOST_MORE_FAULTS_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_F_ROWS_OF_THE_FIRST)
class FRowsOfTheFirstDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_ROWS_OF_THE_FIRST"; }
};

__BM_DESC__(TPU_F_BUFFER_OF_ELEMENTS)
class FBufferOfElementsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_BUFFER_OF_ELEMENTS"; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 1ull * x[0] * x[1] * x[2] * x[3];
    }
};

__BM_DESC__(TPU_F_SUMS_IN_ITS_BUFFER)
class FSumsInItsBufferDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_SUMS_IN_ITS_BUFFER"; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 4ull * x[0] * x[1] * x[2] * x[3];
    }
};

__BM_DESC__(TPU_F_PAIRS_OF_BATCHES)
class FPairsOfBatchesDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_PAIRS_OF_BATCHES"; }
};

__BM_DESC__(TPU_F_ROWS_ROUNDED_UP)
class FRowsRoundedUpDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_ROWS_ROUNDED_UP"; }
};

__BM_DESC__(TPU_F_PLACE_OF_THE_THIRD)
class FPlaceOfTheThirdDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_PLACE_OF_THE_THIRD"; }
};

__BM_DESC__(TPU_F_HALVES_FOR_WORDS)
class FHalvesForWordsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_HALVES_FOR_WORDS"; }
};

__BM_DESC__(TPU_F_PAIRS_OF_CONSTANTS)
class FPairsOfConstantsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_PAIRS_OF_CONSTANTS"; }
};

__BM_DESC__(TPU_F_ONE_ROW_MORE)
class FOneRowMoreDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_ONE_ROW_MORE"; }
    virtual bool output_shape_is_dynamic() const override { return true; }
};

__BM_DESC__(TPU_F_BUFFER_TOO_EARLY)
class FBufferTooEarlyDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_BUFFER_TOO_EARLY"; }
    virtual bool must_dynamic_run() const override { return true; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 4ull * x[1];
    }
};

__BM_DESC__(TPU_F_POINTER_WHILE_RECORDED)
class FPointerWhileRecordedDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_POINTER_WHILE_RECORDED"; }
};

__BM_DESC__(TPU_F_SCRATCH_OF_A_SLOT)
class FScratchOfASlotDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_SCRATCH_OF_A_SLOT"; }
    virtual u32 get_local_buffer_size(const int *tile) const override {
        return static_cast<u32>(tile[0] * 1 * ((tile[2] * tile[3] + 31) / 32) * 128);
    }
};

__BM_DESC__(TPU_F_ADDS_TO_SCRATCH)
class FAddsToScratchDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_ADDS_TO_SCRATCH"; }
    virtual u32 get_local_buffer_size(const int *tile) const override {
        return static_cast<u32>(tile[0] * ((tile[1] + 63) / 64) * ((tile[2] * tile[3] + 31) / 32) * 128);
    }
};

__BM_DESC__(TPU_F_PAIRS_OF_COLUMNS)
class FPairsOfColumnsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_PAIRS_OF_COLUMNS"; }
};

__BM_DESC__(TPU_F_READS_WHAT_IT_REPLACED)
class FReadsWhatItReplacedDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_READS_WHAT_IT_REPLACED"; }
    virtual bool can_inplace(DATA_TYPE_T) const override { return true; }
};

__BM_DESC__(TPU_F_TWO_ROWS_FEWER)
class FTwoRowsFewerDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "F_TWO_ROWS_FEWER"; }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - 1; }
    virtual int backward_hslice(int out_hslice) const override { return out_hslice + 2; }
};

__BM_DESC__(TPU_C_TWO_SHAPES)
class CTwoShapesDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_TWO_SHAPES"; }
};

__BM_DESC__(TPU_C_SUMS_IN_ITS_BUFFER)
class CSumsInItsBufferDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_SUMS_IN_ITS_BUFFER"; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 4ull * x[0] * x[1] * x[2] * x[3];
    }
};

__BM_DESC__(TPU_C_THREE_IN_A_ROW)
class CThreeInARowDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_THREE_IN_A_ROW"; }
};

__BM_DESC__(TPU_C_ROWS_ABOVE)
class CRowsAboveDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_ROWS_ABOVE"; }
    virtual bool output_shape_is_dynamic() const override { return true; }
};

__BM_DESC__(TPU_C_LARGEST_OF_ALL)
class CLargestOfAllDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_LARGEST_OF_ALL"; }
    virtual bool must_dynamic_run() const override { return true; }
    virtual u64 get_global_buffer_size() const override {
        const std::vector<int> &x = layer()->inputs[0].shape;
        return 4ull * x[1];
    }
};

__BM_DESC__(TPU_C_REPLACES_ITS_INPUT)
class CReplacesItsInputDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_REPLACES_ITS_INPUT"; }
    virtual bool can_inplace(DATA_TYPE_T) const override { return true; }
    virtual u32 get_local_buffer_size(const int *tile) const override {
        return static_cast<u32>(tile[0] * ((tile[1] + 63) / 64) * ((tile[2] * tile[3] + 31) / 32) * 128);
    }
};

__BM_DESC__(TPU_C_PAIRS_OF_COLUMNS)
class CPairsOfColumnsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "C_PAIRS_OF_COLUMNS"; }
};

#endif
