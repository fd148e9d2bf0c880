// Custom primitives. The framework infers shapes and picks a kernel before a delegate is asked, and refuses a Custom
// primitive that it knows neither of: both are registered for layers of the user's. The kernel only stands there until
// the delegate takes it.
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

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

// Shapes as the model's file says; where it says none, those of the first input.
class LayerShapes : public mindspore::kernel::KernelInterface {
 public:
  mindspore::Status Infer(std::vector<MSTensor> *inputs, std::vector<MSTensor> *outputs,
                          const mindspore::schema::Primitive *) override {
    for (auto &output : *outputs) {
      const auto &shape = output.Shape();
      const bool known = !shape.empty() && std::none_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; });
      if (!known && !inputs->empty()) output.SetShape((*inputs)[0].Shape());
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
  if (!known.insert(layer).second) return true;
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
  return good;
}
}  // namespace tpulayer
