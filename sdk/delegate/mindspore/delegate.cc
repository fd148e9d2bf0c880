#include <algorithm>
#include <cstdlib>
#include <utility>

#include "graph.h"
#include "model.h"
#include "primitive.h"
#include "text.h"
#include "tpulayer_delegate.h"
#include "tpulayer_mindspore.h"

namespace tpulayer {
constexpr int kWeights = 4, kDynamic = 6;  // QUANT_WEIGHT, QUANT_DYNAMIC

struct TpuLayerDelegate::Parts {
  size_t operations = 0, delegated = 0, partitions = 0;
  tpld_counters_info before{};
};

// Whether integers of 8 bits are among these of which nobody says what they stand for.
static bool Unscaled(const std::vector<Tensor> &tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor &tensor) {
    const std::string type = TypeName(tensor);
    return (type == "int8" || type == "uint8") && tensor.QuantParams().empty();
  });
}

TpuLayerDelegate::TpuLayerDelegate(const Config &config) : config_(config), parts_(std::make_shared<Parts>()) {}
TpuLayerDelegate::~TpuLayerDelegate() = default;

std::string ParseConfig(const std::string &text, Config *config) {
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, end - start);
    start = end + 1;
    const size_t sign = word.find('=');
    const std::string key = word.substr(0, sign), value = sign == std::string::npos ? "" : word.substr(sign + 1);
    if (key == "workspace") {
      config->workspace = value;
      continue;
    }
    char *rest = nullptr;
    const long number = strtol(value.c_str(), &rest, 10);
    if (value.empty() || *rest != '\0' || number < 0 || number > 1 << 20) return word + ": expected NAME=NUMBER";
    if (key == "device") {
      config->device = static_cast<int>(number);
    } else if (key == "opt" && number <= 2) {
      config->opt = static_cast<int>(number);
    } else if (key == "dynamic" && number <= 1) {
      config->dynamic = number == 1;
    } else if (key == "least") {
      config->least = static_cast<int>(number);
    } else if (key == "most") {
      config->most = static_cast<int>(number);
    } else {
      return word + ": known are device, opt (0 to 2), dynamic (0, 1), least, most and workspace";
    }
  }
  return "";
}

mindspore::Status TpuLayerDelegate::Init() {
  if (tpld_open_device(config_.device) != TPLD_OK) {
    Fail(std::string("the framework's kernels do everything: ") + tpld_last_error());
    return mindspore::kLiteNotSupport;
  }
  std::string reply, wrong;
  if (!Ask(Request(config_, "divide", ""), "", &reply, &wrong)) {
    Fail("the framework's kernels do everything: " + wrong);
    return mindspore::kLiteNotSupport;
  }
  tpld_counters(nullptr, &parts_->before);
  return mindspore::kSuccess;
}

bool TpuLayerDelegate::Asked(const Model &model, std::vector<std::string> *told) const {
  const Message message = model.Told();
  std::string reply, wrong;
  if (!Ask(Request(config_, "divide", message.Json("model")), message.data(), &reply, &wrong)) {
    Fail("the compiler does not say what the TPU can do: " + wrong);
    return false;
  }
  for (size_t start = 0; start < reply.size();) {
    const size_t end = std::min(reply.find('\0', start), reply.size());
    told->push_back(reply.substr(start, end - start));
    start = end + 1;
  }
  if (told->size() == model.operations().size()) return true;
  Fail("the compiler answered for " + std::to_string(told->size()) + " operations");
  return false;
}

mindspore::Status TpuLayerDelegate::Build(mindspore::DelegateModel<mindspore::schema::Primitive> *given) {
  std::vector<Operation> operations;
  verdicts_.clear();
  for (auto it = given->BeginKernelIterator(); it != given->EndKernelIterator(); ++it) {
    auto *kernel = *it;
    // Kernel::type() is a byte; operations that only the runtime knows have larger tags, cut to those of others, and
    // no primitive of that tag.
    const void *primitive = given->GetPrimitive(kernel);
    const bool real = PrimitiveTag(primitive) == static_cast<int>(kernel->type());
    Operation operation;
    operation.kind = real ? PrimitiveName(PrimitiveTag(primitive)) : "of the runtime's own";
    operation.name = kernel->name();
    operation.attributes = real ? Attributes(primitive) : "{}";
    operation.inputs = kernel->inputs();
    if (operation.kind == "InstanceNorm" && !operation.inputs.empty()) {
      // The runtime takes transposes around it away; which axis the channels are is then in the tensor's format alone.
      const auto format = std::to_string(static_cast<int>(operation.inputs[0].format()));
      operation.attributes.replace(operation.attributes.size() - 1, 1, ",\"format\":" + format + "}");
    }
    operation.outputs = kernel->outputs();
    // Integers whose scales the tensors do not tell (schema::QuantType, which the wheel has no header of).
    const int quantized = static_cast<int>(kernel->quant_type());
    const char *why = "";
    if (quantized == kWeights) {
      why = "its weights alone are quantized";
    } else if (quantized == kDynamic) {
      why = "it is quantized by scales of each run";
    } else if (quantized != 0 && (Unscaled(operation.inputs) || Unscaled(operation.outputs))) {
      why = "it is quantized, and not all of its tensors have scales";
    }
    verdicts_.push_back({operation.name, operation.kind, why, -1});
    operations.push_back(std::move(operation));
  }
  const Model model(std::move(operations), given->outputs());
  std::vector<std::string> told;  // of each operation: the number of its piece, or a minus and why it is in none
  if (!Asked(model, &told)) {  // the framework's kernels do everything, as where Init finds no compiler
    for (auto &verdict : verdicts_) verdict.why = LastError();
    parts_->operations = verdicts_.size();
    parts_->delegated = parts_->partitions = 0;
    return mindspore::kSuccess;
  }
  for (size_t i = 0; i < told.size(); ++i) {
    const std::string obstacle = verdicts_[i].why.empty() ? model.Obstacle(i) : verdicts_[i].why;
    if (!obstacle.empty()) told[i] = "-" + obstacle;
    if (told[i][0] == '-') verdicts_[i].why = told[i].substr(1);
  }
  parts_->operations = verdicts_.size();
  parts_->delegated = parts_->partitions = 0;
  auto it = given->BeginKernelIterator();
  for (size_t from = 0, to = 0; from < told.size(); from = to) {
    to = from + 1;
    if (told[from][0] != '-') {
      while (to < told.size() && told[to] == told[from]) ++to;
    }
    const auto length = static_cast<std::ptrdiff_t>(to - from);
    const std::string why = told[from][0] == '-' ? verdicts_[from].why : Unwanted(to - from);
    const int number = static_cast<int>(parts_->partitions);
    std::unique_ptr<TpuLayerGraph> graph;
    if (why.empty()) {
      graph = std::make_unique<TpuLayerGraph>("tpulayer_" + std::to_string(number), model.Part(from, to), config_);
    }
    if (graph != nullptr && graph->Compile()) {
      for (size_t i = from; i < to; ++i) verdicts_[i].partition = number;
      parts_->delegated += to - from;
      ++parts_->partitions;
      it = given->Replace(it, it + length, graph.release());
    } else {  // the framework's kernels do it, and the reason is told
      for (size_t i = from; i < to; ++i) verdicts_[i].why = graph == nullptr ? why : LastError();
      it += length;
    }
  }
  return mindspore::kSuccess;
}

std::string TpuLayerDelegate::Unwanted(size_t operations) const {
  if (config_.most > 0 && parts_->partitions >= static_cast<size_t>(config_.most)) return "there are enough partitions";
  return operations < static_cast<size_t>(config_.least) ? "its run is too short" : "";
}

std::string TpuLayerDelegate::Notes() const {
  std::string out = "note\toperations\t" + std::to_string(parts_->delegated) + "\t" +
                    std::to_string(parts_->operations) + "\t" + std::to_string(parts_->partitions) + "\n";
  for (const auto &verdict : verdicts_) {
    std::string why = verdict.why;
    for (char &c : why) c = c == '\n' || c == '\t' ? ' ' : c;
    const bool kept = verdict.partition < 0;
    out += std::string("note\t") + (kept ? "kept" : "taken") + "\t" + verdict.kind + "\t" + verdict.name + "\t" +
           (kept ? why : std::to_string(verdict.partition)) + "\n";
  }
  tpld_counters_info now{};
  if (tpld_counters(nullptr, &now) == TPLD_OK) {
    const auto &was = parts_->before;
    const auto row = [&](const char *name, uint64_t value) {
      out += "note\tcounter\t" + std::string(name) + "\t" + std::to_string(value) + "\n";
    };
    row("runs", now.runs - was.runs);
    row("commands", now.commands - was.commands);
    row("cycles", now.cycles - was.cycles);
    row("ns", now.ns - was.ns);
    row("bytes_in", now.bytes_in - was.bytes_in);
    row("bytes_out", now.bytes_out - was.bytes_out);
    row("wall_ns", now.wall_ns - was.wall_ns);
    row("copy_wall_ns", now.copy_wall_ns - was.copy_wall_ns);
  }
  return out;
}
}  // namespace tpulayer
