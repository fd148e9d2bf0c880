// A run of operations as one kernel of the framework: the TPU does them.
#pragma once

#include <string>
#include <vector>

#include "include/api/kernel.h"
#include "model.h"
#include "tpulayer_delegate.h"

namespace tpulayer {
class TpuLayerGraph : public mindspore::kernel::Kernel {
 public:
  TpuLayerGraph(const std::string &name, const Model &part, const Config &config);
  ~TpuLayerGraph() override;

  // Compile the part for the shapes that its inputs have. false: the error is in Fail().
  bool Compile();

  int Prepare() override;  // loads the program onto the device
  int Execute() override;  // from the framework's buffers into its buffers
  int ReSize() override;   // for new shapes of the inputs: by the dynamic net, or by compiling anew; sets the outputs'

 private:
  bool Load();
  bool Reshaped();
  bool SetOutputs();

  Config config_;
  Message message_;  // the model, for compiling it for other shapes
  std::string program_;         // compiled and not yet loaded
  std::vector<Shape> compiled_;  // the shapes of the inputs that it is for
  std::vector<Shape> shapes_;    // those that the partition is for
  tpld_partition *partition_ = nullptr;
};
}  // namespace tpulayer
