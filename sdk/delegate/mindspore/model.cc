#include "model.h"

#include <cstdlib>
#include <set>
#include <utility>

#include "text.h"
#include "tpulayer_compiler.h"

namespace tpulayer {
// MSTensor::IsConst() is not exported by the wheel; before anything runs, what has data is a constant.
bool IsConstant(const Tensor &tensor) { return tensor.Data() != nullptr; }

const char *TypeName(const Tensor &tensor) {
  switch (tensor.DataType()) {
    case mindspore::DataType::kNumberTypeBool:
      return "bool";
    case mindspore::DataType::kNumberTypeInt8:
      return "int8";
    case mindspore::DataType::kNumberTypeInt16:
      return "int16";
    case mindspore::DataType::kNumberTypeInt32:
      return "int32";
    case mindspore::DataType::kNumberTypeInt64:
      return "int64";
    case mindspore::DataType::kNumberTypeUInt8:
      return "uint8";
    case mindspore::DataType::kNumberTypeUInt16:
      return "uint16";
    case mindspore::DataType::kNumberTypeUInt32:
      return "uint32";
    case mindspore::DataType::kNumberTypeFloat16:
      return "float16";
    case mindspore::DataType::kNumberTypeFloat32:
      return "float32";
    case mindspore::DataType::kNumberTypeFloat64:
      return "float64";
    default:
      return "";
  }
}

Model::Model(std::vector<Operation> operations, std::vector<Tensor> results)
    : operations_(std::move(operations)), outputs_(results), results_(std::move(results)) {
  for (const auto &operation : operations_) {
    for (const auto &tensor : operation.inputs) ++readers_[tensor.Name()];
  }
  for (const auto &tensor : results_) ++readers_[tensor.Name()];
}

int Model::Readers(const std::string &name) const {
  const auto found = readers_.find(name);
  return found == readers_.end() ? 0 : found->second;
}

Model Model::Part(size_t from, size_t to) const {
  const auto begin = operations_.begin();
  Model part({begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to)}, {});
  std::set<std::string> made, read;
  for (const auto &operation : part.operations_) {
    for (const auto &tensor : operation.inputs) {
      const std::string name = tensor.Name();
      if (!IsConstant(tensor) && !made.count(name) && read.insert(name).second) part.inputs_.push_back(tensor);
    }
    for (const auto &tensor : operation.outputs) {
      const std::string name = tensor.Name();
      made.insert(name);
      if (Readers(name) > part.Readers(name)) part.outputs_.push_back(tensor);
    }
  }
  return part;
}

std::string Model::Obstacle(size_t index) const {
  const Operation &operation = operations_[index];
  for (const auto *tensors : {&operation.inputs, &operation.outputs}) {
    for (const auto &tensor : *tensors) {
      if (!*TypeName(tensor)) return "the type of " + tensor.Name() + " is not one of numbers";
      for (int64_t extent : tensor.Shape()) {
        if (extent < 0) return "the shape of " + tensor.Name() + " is not known before the model runs";
      }
    }
  }
  return "";
}

std::string Message::Held(const void *data, size_t size) {
  data_.resize((data_.size() + 15) / 16 * 16);
  const std::string place = "[" + std::to_string(data_.size()) + "," + std::to_string(size) + "]";
  data_.append(static_cast<const char *>(data), size);
  return place;
}

std::string Message::Scaled(const Tensor &tensor, const std::string &held) {
  const std::string type = TypeName(tensor);
  const auto params = tensor.QuantParams();
  if (params.empty() || type.find("int") == std::string::npos) return "null";  // numbers keep theirs, unused
  std::vector<double> scales;
  std::vector<int64_t> zeros;
  for (const auto &one : params) {
    scales.push_back(one.scale);
    zeros.push_back(one.zero_point);
  }
  const auto array = [&](const std::string &dtype, const std::string &shape, const std::string &place) {
    return "{\"dtype\":" + Quoted(dtype) + ",\"shape\":" + shape + ",\"data\":" + place + "}";
  };
  const std::string count = "[" + std::to_string(params.size()) + "]";
  const std::string stored = held == "null" ? held : array(type, Shaped(tensor.Shape()), held);
  return "{\"dtype\":" + Quoted(type) +
         ",\"scales\":" + array("float64", count, Held(scales.data(), 8 * scales.size())) +
         ",\"zero_points\":" + array("int64", count, Held(zeros.data(), 8 * zeros.size())) +
         ",\"axis\":0,\"stored\":" + stored + "}";
}

size_t Message::Place(const Tensor &tensor) {
  const std::string name = tensor.Name();
  const auto known = places_.emplace(Key(name, tensor.Data().get()), tensors_.size());
  if (known.second) {
    const std::string held = IsConstant(tensor) ? Held(tensor.Data().get(), tensor.DataSize()) : "null";
    const char *type = TypeName(tensor);
    tensors_.push_back({name, *type ? Quoted(type) : "null", held, Scaled(tensor, held), tensor.Shape()});
  }
  return known.first->second;
}

Message Model::Told() const {
  Message message;
  const auto list = [&](const std::vector<Tensor> &tensors) {
    std::string out;
    for (const auto &tensor : tensors) out += (out.empty() ? "" : ",") + std::to_string(message.Place(tensor));
    return "[" + out + "]";
  };
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation &operation = operations_[i];
    const bool told = Obstacle(i).empty();  // else its place alone is: the compiler wants shapes and types
    const std::string inputs = told ? list(operation.inputs) : "[]", outputs = told ? list(operation.outputs) : "[]";
    message.operations_ += std::string(message.operations_.empty() ? "" : ",") + "{\"kind\":" + Quoted(operation.kind) +
                           ",\"name\":" + Quoted(operation.name) + ",\"inputs\":" + inputs + ",\"outputs\":" +
                           outputs + ",\"attributes\":" + operation.attributes + "}";
  }
  message.inputs_ = list(inputs_);
  for (const auto &tensor : inputs_) message.input_places_.push_back(message.Place(tensor));
  message.outputs_ = list(outputs_);
  return message;
}

std::string Message::Json(const std::string &name, const std::vector<Shape> &shapes) const {
  std::map<size_t, const Shape *> given;
  for (size_t i = 0; i < shapes.size(); ++i) given[input_places_[i]] = &shapes[i];
  std::string tensors;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Entry &entry = tensors_[i];
    Shape shape = given.count(i) ? *given[i] : entry.shape;
    if (!shapes.empty() && !given.count(i) && entry.held == "null") shape.assign(shape.size(), -1);
    tensors += std::string(tensors.empty() ? "" : ",") + "{\"name\":" + Quoted(entry.name) + ",\"shape\":" +
               Shaped(shape) + ",\"dtype\":" + entry.type + ",\"data\":" + entry.held + ",\"scaled\":" +
               entry.scaled + "}";
  }
  return "{\"name\":" + Quoted(name) + ",\"tensors\":[" + tensors + "],\"inputs\":" + inputs_ +
         ",\"outputs\":" + outputs_ + ",\"operations\":[" + operations_ + "]}";
}

std::string Request(const Config &config, const std::string &ask, const std::string &models) {
  return "{\"ask\":" + Quoted(ask) + ",\"what\":\"MindSpore\",\"opt\":" + std::to_string(config.opt) +
         ",\"consecutive\":true,\"dynamic\":" + (config.dynamic ? "true" : "false") +
         ",\"workspace\":" + Quoted(config.workspace) + ",\"models\":[" + models + "]}";
}

bool Ask(const std::string &request, const std::string &data, std::string *reply, std::string *wrong) {
  void *bytes = nullptr;
  size_t size = 0;
  if (tpld_ask_compiler(request.c_str(), data.data(), data.size(), &bytes, &size) != TPLD_OK) {
    *wrong = tpld_last_error();
    return false;
  }
  reply->assign(static_cast<const char *>(bytes), size);
  free(bytes);
  return true;
}
}  // namespace tpulayer
