#include "graph.h"

#include <algorithm>
#include <utility>

#include "text.h"

namespace tpulayer {
namespace {
constexpr int kOk = 0, kError = -1;  // RET_OK and RET_ERROR

bool Known(const std::vector<Tensor> &tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor &tensor) {
    return std::all_of(tensor.Shape().begin(), tensor.Shape().end(), [](int64_t extent) { return extent >= 0; });
  });
}
}  // namespace

TpuLayerGraph::TpuLayerGraph(const std::string &name, const Model &part, const Config &config)
    : config_(config), message_(part.Told()) {
  set_name(name);
  set_inputs(part.inputs());
  set_outputs(part.outputs());
}

TpuLayerGraph::~TpuLayerGraph() { tpld_destroy(partition_); }

bool TpuLayerGraph::Compile() {
  std::vector<Shape> shapes;
  for (const auto &tensor : inputs_) shapes.push_back(tensor.Shape());
  const std::string model = message_.Json(name(), compiled_.empty() && shapes_.empty() ? std::vector<Shape>() : shapes);
  std::string wrong;
  if (!Ask(Request(config_, "compile", model), message_.data(), &program_, &wrong)) {
    Fail(name() + " cannot be compiled: " + wrong);
    return false;
  }
  compiled_ = std::move(shapes);
  return true;
}

bool TpuLayerGraph::Load() {
  tpld_partition *loaded = nullptr;
  if (tpld_load(config_.device, program_.data(), program_.size(), nullptr, &loaded) != TPLD_OK) {
    Fail(name() + " cannot be loaded: " + tpld_last_error());
    return false;  // what was loaded before stays, for the shapes that it is for
  }
  tpld_destroy(partition_);
  partition_ = loaded;
  shapes_ = std::move(compiled_);
  std::string().swap(program_);
  return true;
}

int TpuLayerGraph::Prepare() {
  if (partition_ != nullptr || !Known(inputs_)) return kOk;
  return Load() && SetOutputs() ? kOk : kError;
}

bool TpuLayerGraph::SetOutputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    tpld_tensor told;
    if (tpld_output(partition_, static_cast<int>(i), &told) != TPLD_OK) {
      Fail(name() + ": " + tpld_last_error());
      return false;
    }
    outputs_[i].SetShape(Shape(told.shape, told.shape + told.rank));
  }
  return true;
}

bool TpuLayerGraph::Reshaped() {
  const auto &known = partition_ == nullptr ? compiled_ : shapes_;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (i >= known.size() || known[i] != inputs_[i].Shape()) return true;
  }
  return false;
}

int TpuLayerGraph::ReSize() {
  if (!Known(inputs_)) return kError;
  std::string before;  // why the dynamic net does not take them
  if (!Reshaped()) return partition_ == nullptr || SetOutputs() ? kOk : kError;
  if (partition_ != nullptr && tpld_is_dynamic(partition_) == 1) {
    std::vector<const int64_t *> shapes;
    std::vector<int> ranks;
    for (const auto &tensor : inputs_) {
      shapes.push_back(tensor.Shape().data());
      ranks.push_back(static_cast<int>(tensor.Shape().size()));
    }
    if (tpld_resize(partition_, shapes.data(), ranks.data()) == TPLD_OK) {
      shapes_.clear();
      for (const auto &tensor : inputs_) shapes_.push_back(tensor.Shape());
      return SetOutputs() ? kOk : kError;
    }  // larger than it was compiled for, or its first extent or size may not change: compiled anew
    before = tpld_last_error();
  }
  if (Compile() && Load() && SetOutputs()) return kOk;
  if (!before.empty()) Fail(LastError() + "; before that: " + before);
  return kError;
}

int TpuLayerGraph::Execute() {
  if (partition_ == nullptr || Reshaped()) {
    Fail(name() + " has not been prepared for the shapes of its inputs");
    return kError;
  }
  std::vector<const void *> from;
  std::vector<void *> to;
  for (auto &tensor : inputs_) from.push_back(tensor.Data().get());
  for (auto &tensor : outputs_) {
    to.push_back(tensor.MutableData());
    if (to.back() == nullptr && tensor.DataSize() > 0) {
      Fail(name() + ": there is no memory for the output " + tensor.Name());
      return kError;
    }
  }
  if (tpld_execute(partition_, from.data(), to.data()) != TPLD_OK) {
    Fail(name() + ": " + tpld_last_error());
    return kError;
  }
  return kOk;
}
}  // namespace tpulayer
