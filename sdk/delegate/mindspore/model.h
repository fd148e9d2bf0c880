// A model, or a run of its operations, as the compiler gets it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "include/api/delegate.h"
#include "tpulayer_mindspore.h"

namespace tpulayer {
using Tensor = mindspore::MSTensor;
using Shape = std::vector<int64_t>;

struct Operation {
  std::string kind, name, attributes;  // attributes: a JSON object
  std::vector<Tensor> inputs, outputs;
};

// A model as JSON and the data of its constants; see user_layers/delegates/serve.py.
class Message {
 public:
  // A MODEL of a request; shapes: of all inputs, where they are others than when the message was made (they may have
  // got other names since). The shapes of what is computed are then left open: -1.
  std::string Json(const std::string &name, const std::vector<Shape> &shapes = {}) const;
  const std::string &data() const { return data_; }

 private:
  friend class Model;
  struct Entry {
    std::string name, type, held, scaled;  // type: JSON; held: [offset, bytes] or null; scaled: JSON or null
    Shape shape;
  };
  size_t Place(const Tensor &tensor);
  // Bytes for the compiler, and [offset, bytes] of them.
  std::string Held(const void *data, size_t size);
  // What integers of a tensor stand for; "null" for any other.
  std::string Scaled(const Tensor &tensor, const std::string &held);

  std::vector<Entry> tensors_;
  using Key = std::pair<std::string, const void *>;  // constants of one name may be several
  std::map<Key, size_t> places_;
  std::vector<size_t> input_places_;
  std::string operations_, inputs_, outputs_, data_;
};

// What is computed is told apart by its name, as the framework does.
class Model {
 public:
  explicit Model(std::vector<Operation> operations, std::vector<Tensor> results);

  const std::vector<Operation> &operations() const { return operations_; }
  // The operations [from, to) as a model of their own: what they read from outside, and what others need.
  Model Part(size_t from, size_t to) const;
  const std::vector<Tensor> &inputs() const { return inputs_; }
  const std::vector<Tensor> &outputs() const { return outputs_; }

  Message Told() const;
  // Why an operation cannot even be asked about: a shape or a type that is not known yet; "" for nothing.
  std::string Obstacle(size_t index) const;

 private:
  int Readers(const std::string &name) const;

  std::vector<Operation> operations_;
  std::vector<Tensor> inputs_, outputs_, results_;
  std::map<std::string, int> readers_;  // how many operations of the whole model read a tensor
};

bool IsConstant(const Tensor &tensor);
// numpy's name of a type, "" for one that it has not.
const char *TypeName(const Tensor &tensor);
// A request about some models, or about none.
std::string Request(const Config &config, const std::string &ask, const std::string &models);
// Ask the compiler; false: *wrong.
bool Ask(const std::string &request, const std::string &data, std::string *reply, std::string *wrong);
}  // namespace tpulayer
