// Custom primitives. The framework infers shapes and picks a kernel before a delegate is asked, and refuses a Custom
// primitive that it knows neither of: both are registered for layers of the user's. The kernel only stands there until
// the delegate takes it.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "converter_layers.h"
#include "include/api/kernel.h"
#include "include/api/status.h"
#include "primitive.h"
#include "text.h"
#include "tpulayer_mindspore.h"

// Exported by the runtime; the wheel leaves out the headers that declare them.
namespace mindspore {
namespace kernel {
class KernelInterface {
 public:
  virtual ~KernelInterface() = default;
  virtual Status Infer(std::vector<MSTensor> *inputs, std::vector<MSTensor> *outputs, const schema::Primitive *what);
  virtual Status Infer(std::vector<MSTensor> *inputs, std::vector<MSTensor> *outputs, const schema::Primitive *what,
                       const Kernel *kernel);
};
Status KernelInterface::Infer(std::vector<MSTensor> *, std::vector<MSTensor> *, const schema::Primitive *) {
  return kSuccess;
}
Status KernelInterface::Infer(std::vector<MSTensor> *inputs, std::vector<MSTensor> *outputs,
                              const schema::Primitive *primitive, const Kernel *) {
  return Infer(inputs, outputs, primitive);
}
}  // namespace kernel

namespace registry {
using Text = std::vector<char>;
class MS_API RegisterKernelInterface {
 public:
  using Creator = std::function<std::shared_ptr<kernel::KernelInterface>()>;
  static Status CustomReg(const Text &provider, const Text &type, const Creator creator);
};
class MS_API RegisterKernel {
 public:
  using Creator = std::function<std::shared_ptr<kernel::Kernel>(const std::vector<MSTensor> &,
                                                                const std::vector<MSTensor> &,
                                                                const schema::Primitive *, const Context *)>;
  static Status RegCustomKernel(const Text &arch, const Text &provider, DataType data_type, const Text &type,
                                const Creator creator);
};
}  // namespace registry
}  // namespace mindspore

namespace tpulayer {
namespace {
using mindspore::MSTensor;

// What the converter was told: "1x8;4" in the attribute kShapes.
std::vector<std::vector<int64_t>> ToldShapes(const mindspore::schema::Primitive *primitive) {
  const std::string all = Attributes(primitive), key = std::string("\"") + kShapes + "\":\"";
  const size_t start = all.find(key);
  std::vector<std::vector<int64_t>> shapes;
  if (start == std::string::npos) return shapes;
  const size_t from = start + key.size();
  std::istringstream words(all.substr(from, all.find('"', from) - from));
  for (std::string word; std::getline(words, word, ';');) {
    shapes.emplace_back();
    std::istringstream extents(word);
    for (std::string extent; std::getline(extents, extent, 'x');) shapes.back().push_back(atoll(extent.c_str()));
  }
  return shapes;
}

// Shapes as the model's file says; where it says none, those that the converter was told or those of the first input.
class LayerShapes : public mindspore::kernel::KernelInterface {
 public:
  mindspore::Status Infer(std::vector<MSTensor> *inputs, std::vector<MSTensor> *outputs,
                          const mindspore::schema::Primitive *primitive) override {
    const auto told = ToldShapes(primitive);
    for (size_t i = 0; i < outputs->size(); ++i) {
      auto &output = (*outputs)[i];
      const auto &shape = output.Shape();
      const bool known = !shape.empty() && std::none_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; });
      if (!known && i < told.size()) {
        output.SetShape(told[i]);
      } else if (!known && !inputs->empty()) {
        output.SetShape((*inputs)[0].Shape());
      }
      if (output.DataType() == mindspore::DataType::kTypeUnknown && !inputs->empty()) {
        output.SetDataType((*inputs)[0].DataType());
      }
    }
    return mindspore::kSuccess;
  }
};

class LayerKernel : public mindspore::kernel::Kernel {
 public:
  LayerKernel(const std::string &layer, const std::vector<MSTensor> &inputs, const std::vector<MSTensor> &outputs)
      : layer_(layer) {
    type_ = static_cast<mindspore::schema::PrimitiveType>(PrimitiveTagOf("Custom"));
    set_inputs(inputs);
    set_outputs(outputs);
  }
  int Prepare() override { return Refuse(); }
  int Execute() override { return Refuse(); }
  int ReSize() override { return Refuse(); }

 private:
  int Refuse() {
    Fail("the layer " + layer_ + " runs on the TPU alone, and the delegate did not take it");
    return -1;
  }
  std::string layer_;
};
}  // namespace

bool RegisterLayer(const std::string &layer) {
  static std::mutex mutex;
  static std::set<std::string> known;
  std::lock_guard<std::mutex> lock(mutex);
  if (known.count(layer) > 0) return true;
  const mindspore::registry::Text provider = {'t', 'p', 'u'}, cpu = {'C', 'P', 'U'};
  const mindspore::registry::Text type(layer.begin(), layer.end());
  const auto shapes = [] { return std::make_shared<LayerShapes>(); };
  const auto kernel = [layer](const std::vector<MSTensor> &inputs, const std::vector<MSTensor> &outputs,
                              const mindspore::schema::Primitive *, const mindspore::Context *) {
    return std::make_shared<LayerKernel>(layer, inputs, outputs);
  };
  bool good = !(mindspore::registry::RegisterKernelInterface::CustomReg(provider, type, shapes) != mindspore::kSuccess);
  for (const auto data : {mindspore::DataType::kNumberTypeFloat32, mindspore::DataType::kNumberTypeInt32}) {
    const auto status = mindspore::registry::RegisterKernel::RegCustomKernel(cpu, provider, data, type, kernel);
    good = good && !(status != mindspore::kSuccess);
  }
  if (good) known.insert(layer);
  return good;
}
}  // namespace tpulayer
