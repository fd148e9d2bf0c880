// The converter's registries of parsers and of shapes are in the wheel's libraries; the headers that declare them are
// not. What is declared here is as much of them as is called.
#include "converter_layers.h"

#include <functional>
#include <memory>
#include <new>
#include <set>
#include <sstream>
#include <vector>

#include "include/api/kernel.h"
#include "include/api/status.h"
#include "include/registry/converter_context.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx
namespace caffe {
class LayerParameter;
}
namespace tensorflow {
class NodeDef;
}
namespace tflite {
struct OperatorT;
struct SubGraphT;
struct ModelT;
}  // namespace tflite

namespace mindspore {
namespace ops {
// A pointer to a table of virtual functions and a std::shared_ptr; Custom is the same with functions of its own.
class BaseOperator {
 public:
  explicit BaseOperator(const std::string &name);
  virtual ~BaseOperator();

 private:
  char room_[120];  // more than it has
};
class Custom : public BaseOperator {
 public:
  void set_type(const std::string &type);
  void set_attr(const std::map<std::string, std::vector<uint8_t>> &attributes);
};
// As the framework's api::SharedPtr, which holds a std::shared_ptr and nothing else.
struct BaseOperatorPtr {
  std::shared_ptr<BaseOperator> held;
  ~BaseOperatorPtr() {}
};
}  // namespace ops

namespace converter {
class NodeParser {
 public:
  virtual ~NodeParser() = default;
  virtual ops::BaseOperatorPtr Parse(const onnx::GraphProto &, const onnx::NodeProto &) { return {}; }
  virtual ops::BaseOperatorPtr Parse(const caffe::LayerParameter &, const caffe::LayerParameter &) { return {}; }
  virtual ops::BaseOperatorPtr Parse(const tensorflow::NodeDef &,
                                     const std::map<std::string, const tensorflow::NodeDef *> &,
                                     std::vector<std::string> *, int *) {
    return {};
  }
  virtual ops::BaseOperatorPtr Parse(const std::unique_ptr<tflite::OperatorT> &,
                                     const std::unique_ptr<tflite::SubGraphT> &,
                                     const std::unique_ptr<tflite::ModelT> &) {
    return {};
  }
};
}  // namespace converter

namespace registry {
class MS_API NodeParserRegistry {
 public:
  NodeParserRegistry(converter::FmkType framework, const std::vector<char> &operation,
                     const std::shared_ptr<converter::NodeParser> &parser);
};
}  // namespace registry
}  // namespace mindspore

namespace tpulayer {
namespace {
class LayerParser : public mindspore::converter::NodeParser {
 public:
  explicit LayerParser(const LayerAttributes &attributes) : attributes_(attributes) {}

  mindspore::ops::BaseOperatorPtr Parse(const onnx::GraphProto &, const onnx::NodeProto &) override {
    auto made = std::make_shared<mindspore::ops::BaseOperator>("Custom");
    auto *custom = static_cast<mindspore::ops::Custom *>(made.get());
    std::map<std::string, std::vector<uint8_t>> texts;
    for (const auto &item : attributes_) {
      if (item.first == "type") continue;
      texts[item.first] = std::vector<uint8_t>(item.second.begin(), item.second.end());
    }
    custom->set_type(attributes_.at("type"));
    custom->set_attr(texts);
    return {made};
  }

 private:
  LayerAttributes attributes_;
};
}  // namespace

void ParseAsLayer(const std::string &operation, const LayerAttributes &attributes) {
  const std::vector<char> name(operation.begin(), operation.end());
  const mindspore::registry::NodeParserRegistry registered(mindspore::converter::kFmkTypeOnnx, name,
                                                           std::make_shared<LayerParser>(attributes));
}
}  // namespace tpulayer
