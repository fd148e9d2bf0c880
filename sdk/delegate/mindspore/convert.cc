// Converts models with MindSpore Lite's converter: convert LAYERS KIND FROM TO [KIND FROM TO ...]
// LAYERS: a file with lines OPERATION<tab>ATTRIBUTE<tab>TEXT for operations that are layers of the user's, or "".
// KIND: onnx:ms, onnx:mindir, tflite:ms or tflite:mindir; TO without an ending, which the converter adds.
// A line `done N` or `failed N` on stderr for each; exit code 1 when one failed.
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "converter_layers.h"
#include "include/api/status.h"
#include "include/api/types.h"
#include "include/registry/converter_context.h"
#include "tpulayer_mindspore.h"

namespace mindspore {
struct ConverterPara;
// Exported by libmindspore_converter.so, declared in no header of the wheel.
class MS_API Converter {
 public:
  Converter();
  ~Converter() = default;
  void SetSaveType(ModelType type);
  Status Convert(converter::FmkType framework, const std::vector<char> &model, const std::vector<char> &output,
                 const std::vector<char> &weights);

 private:
  std::shared_ptr<ConverterPara> data_;
};
}  // namespace mindspore

int main(int count, char **words) {
  if (count < 5 || (count - 2) % 3 != 0) {
    fprintf(stderr, "usage: %s LAYERS KIND FROM TO [KIND FROM TO ...]\n", words[0]);
    return 2;
  }
  std::map<std::string, tpulayer::LayerAttributes> layers;
  std::ifstream file(words[1]);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    layers[line.substr(0, first)][line.substr(first + 1, second - first - 1)] = line.substr(second + 1);
  }
  for (const auto &layer : layers) {
    tpulayer::ParseAsLayer(layer.first, layer.second);
    tpulayer::RegisterLayer(layer.second.at("type"));
  }
  int failed = 0;
  for (int i = 2; i + 2 < count; i += 3) {
    const std::string kind = words[i], from = words[i + 1], to = words[i + 2];
    mindspore::Converter converter;
    converter.SetSaveType(kind.find(":ms") != std::string::npos ? mindspore::kMindIR_Lite : mindspore::kMindIR);
    const bool onnx = kind.compare(0, 4, "onnx") == 0;
    const auto status = converter.Convert(
        onnx ? mindspore::converter::kFmkTypeOnnx : mindspore::converter::kFmkTypeTflite,
        std::vector<char>(from.begin(), from.end()), std::vector<char>(to.begin(), to.end()), {});
    const bool good = !(status != mindspore::kSuccess);
    failed += !good;
    fprintf(stderr, "%s %d\n", good ? "done" : "failed", i / 3);  // 2, 5, ... are 0, 1, ...
  }
  return failed ? 1 : 0;
}
