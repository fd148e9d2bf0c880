// Stands for a MindSpore Lite that honours Context::SetDelegate: as much of its public classes as it takes to build a
// .ms model, to offer it to the delegate, and to run it where the delegate took every operation. It has no kernels.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>

#include "include/api/context.h"
#include "include/api/delegate.h"
#include "include/api/model.h"

namespace mindspore {
// ---- tensors and what they are told about
class MSTensor::Impl {
 public:
  std::vector<char> name, data;
  enum DataType type = DataType::kTypeUnknown;
  std::vector<int64_t> shape;
};

MSTensor::MSTensor() : impl_(std::make_shared<Impl>()) {}
MSTensor::MSTensor(std::nullptr_t) {}
MSTensor::MSTensor(const std::shared_ptr<Impl> &impl) : impl_(impl) {}
MSTensor::~MSTensor() = default;
std::vector<char> MSTensor::CharName() const { return impl_->name; }
enum DataType MSTensor::DataType() const { return impl_->type; }
const std::vector<int64_t> &MSTensor::Shape() const { return impl_->shape; }
int64_t MSTensor::ElementNum() const {
  return std::accumulate(impl_->shape.begin(), impl_->shape.end(), int64_t{1}, std::multiplies<int64_t>());
}
size_t MSTensor::DataSize() const {
  const bool wide = impl_->type == DataType::kNumberTypeInt64;
  return static_cast<size_t>(ElementNum()) * (wide ? 8 : 4);
}
std::shared_ptr<const void> MSTensor::Data() const {
  return impl_->data.empty() ? nullptr : std::shared_ptr<const void>(impl_, impl_->data.data());
}
void *MSTensor::MutableData() {
  impl_->data.resize(DataSize());
  return impl_->data.data();
}
void MSTensor::SetShape(const std::vector<int64_t> &shape) { impl_->shape = shape; }
void MSTensor::SetDataType(enum DataType type) { impl_->type = type; }
std::vector<QuantParam> MSTensor::QuantParams() const { return {}; }
mindspore::Format MSTensor::format() const { return mindspore::Format::NHWC; }

struct Status::Data {
  enum StatusCode code;
};
Status::Status() : Status(kSuccess) {}
Status::Status(enum StatusCode code, const std::vector<char> &) : data_(new Data{code}) {}
bool Status::operator==(enum StatusCode other) const { return data_->code == other; }
bool Status::operator!=(enum StatusCode other) const { return data_->code != other; }

struct Context::Data {
  std::vector<std::shared_ptr<DeviceInfoContext>> devices;
  std::shared_ptr<Delegate> delegate;
};
Context::Context() : data_(std::make_shared<Data>()) {}
void Context::SetThreadNum(int32_t) {}
void Context::SetDelegate(const std::shared_ptr<Delegate> &delegate) { data_->delegate = delegate; }
std::shared_ptr<Delegate> Context::GetDelegate() const { return data_->delegate; }
std::vector<std::shared_ptr<DeviceInfoContext>> &Context::MutableDeviceInfo() { return data_->devices; }
struct DeviceInfoContext::Data {};
DeviceInfoContext::DeviceInfoContext() = default;
void CPUDeviceInfo::SetEnableFP16(bool) {}

// ---- the file: a flatbuffer, of which a few fields are read
namespace {
template <typename T>
T at(const char *place) {
  T value;
  memcpy(&value, place, sizeof value);
  return value;
}
const char *field(const char *table, int number) {
  const char *vtable = table - at<int32_t>(table);
  const int entry = 4 + 2 * number;
  const uint16_t step = entry < at<uint16_t>(vtable) ? at<uint16_t>(vtable + entry) : 0;
  return step ? table + step : nullptr;
}
const char *follow(const char *place) { return place + at<uint32_t>(place); }
std::vector<uint32_t> numbers(const char *place) {
  if (!place) return {};
  const char *vector = follow(place);
  std::vector<uint32_t> out(at<uint32_t>(vector));
  if (!out.empty()) memcpy(out.data(), vector + 4, out.size() * 4);
  return out;
}
std::vector<const char *> tables(const char *place) {
  std::vector<const char *> out;
  const char *vector = follow(place);
  for (uint32_t i = 0; i < at<uint32_t>(vector); ++i) out.push_back(follow(vector + 4 + 4 * i));
  return out;
}
std::vector<char> bytes(const char *place) {
  if (!place) return {};
  const char *vector = follow(place);
  return std::vector<char>(vector + 4, vector + 4 + at<uint32_t>(vector));
}

// An operation that no delegate took.
class Untaken : public kernel::Kernel {
 public:
  explicit Untaken(const char *primitive) {
    type_ = static_cast<schema::PrimitiveType>(*reinterpret_cast<const uint8_t *>(field(primitive, 0)));
  }
  int Prepare() override { return -1; }
  int Execute() override { return -1; }
  int ReSize() override { return -1; }
};
}  // namespace

class ModelImpl {
 public:
  ~ModelImpl() {
    for (auto *kernel : kernels) delete kernel;
  }
  std::vector<char> file;
  std::shared_ptr<Delegate> delegate;
  std::vector<MSTensor> tensors, inputs, outputs;
  std::vector<kernel::Kernel *> kernels;
  std::map<kernel::Kernel *, const schema::Primitive *> primitives;
};

Model::Model() : impl_(std::make_shared<ModelImpl>()) {}
Model::~Model() = default;

Status Model::Build(const std::vector<char> &path, ModelType type, const std::shared_ptr<Context> &context) {
  std::ifstream stream(std::string(path.begin(), path.end()), std::ios::binary);
  impl_->file.assign(std::istreambuf_iterator<char>(stream), {});
  if (type != kMindIR_Lite || impl_->file.size() < 8) return kLiteError;
  const char *root = follow(impl_->file.data());
  for (const char *table : tables(field(root, 7))) {
    auto tensor = std::make_shared<MSTensor::Impl>();
    tensor->name = bytes(field(table, 9));
    tensor->type = static_cast<enum DataType>(at<int32_t>(field(table, 1)));
    for (uint32_t extent : numbers(field(table, 2))) tensor->shape.push_back(static_cast<int32_t>(extent));
    tensor->data = bytes(field(table, 6));
    impl_->tensors.emplace_back(tensor);
  }
  const auto listed = [&](const char *place) {
    std::vector<MSTensor> out;
    for (uint32_t index : numbers(place)) out.push_back(impl_->tensors[index]);
    return out;
  };
  impl_->inputs = listed(field(root, 3));
  impl_->outputs = listed(field(root, 4));
  for (const char *table : tables(field(root, 6))) {
    const char *primitive = follow(field(table, 2));
    auto *node = new Untaken(primitive);
    const auto name = bytes(field(table, 0));
    node->set_name(std::string(name.begin(), name.end()));
    node->set_inputs(listed(field(table, 3)));
    node->set_outputs(listed(field(table, 4)));
    impl_->primitives[node] = reinterpret_cast<const schema::Primitive *>(primitive);
    impl_->kernels.push_back(node);
  }
  impl_->delegate = context->GetDelegate();
  if (impl_->delegate) {
    const auto nodes = impl_->kernels;
    const Status ready = impl_->delegate->Init();
    if (ready == kSuccess) {
      LiteDelegateGraph graph(&impl_->kernels, impl_->inputs, impl_->outputs, impl_->primitives, SCHEMA_CUR);
      if (impl_->delegate->Build(&graph) != kSuccess) return kLiteError;
      for (auto *node : nodes) {
        if (std::find(impl_->kernels.begin(), impl_->kernels.end(), node) == impl_->kernels.end()) delete node;
      }
    } else if (ready != kLiteNotSupport) {
      return ready;
    }
  }
  for (auto *kernel : impl_->kernels) {
    if (kernel->Prepare() != 0) return kLiteError;
  }
  return kSuccess;
}

std::vector<MSTensor> Model::GetInputs() { return impl_->inputs; }

Status Model::Resize(const std::vector<MSTensor> &inputs, const std::vector<std::vector<int64_t>> &shapes) {
  for (size_t i = 0; i < inputs.size(); ++i) MSTensor(inputs[i]).SetShape(shapes[i]);
  for (auto *kernel : impl_->kernels) {
    if (kernel->ReSize() != 0) return kLiteError;
  }
  return kSuccess;
}

Status Model::Predict(const std::vector<MSTensor> &, std::vector<MSTensor> *outputs, const MSKernelCallBack &,
                      const MSKernelCallBack &) {
  for (auto *kernel : impl_->kernels) {
    if (kernel->Execute() != 0) return kLiteError;
  }
  *outputs = impl_->outputs;
  return kSuccess;
}

// ---- the registries, which the delegate fills with the user's layers
namespace kernel {
class KernelInterface;
}
namespace registry {
using Text = std::vector<char>;
struct MS_API RegisterKernelInterface {
  static Status CustomReg(const Text &, const Text &, const std::function<std::shared_ptr<kernel::KernelInterface>()>);
};
Status RegisterKernelInterface::CustomReg(const Text &, const Text &,
                                          const std::function<std::shared_ptr<kernel::KernelInterface>()>) {
  return kSuccess;
}
struct MS_API RegisterKernel {
  using Creator = std::function<std::shared_ptr<kernel::Kernel>(const std::vector<MSTensor> &,
                                                                const std::vector<MSTensor> &,
                                                                const schema::Primitive *, const Context *)>;
  static Status RegCustomKernel(const Text &, const Text &, DataType, const Text &, const Creator);
};
Status RegisterKernel::RegCustomKernel(const Text &, const Text &, DataType, const Text &, const Creator) {
  return kSuccess;
}
}  // namespace registry
}  // namespace mindspore
