// Converts models with MindSpore Lite's converter: convert KIND FROM TO [KIND FROM TO ...]
// KIND: onnx:ms, onnx:mindir, tflite:ms or tflite:mindir; TO without an ending, which the converter adds.
// A line `done N` or `failed N` on stderr for each; exit code 1 when one failed.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "include/api/status.h"
#include "include/api/types.h"
#include "include/registry/converter_context.h"

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
  if (count < 4 || (count - 1) % 3 != 0) {
    fprintf(stderr, "usage: %s KIND FROM TO [KIND FROM TO ...]\n", words[0]);
    return 2;
  }
  int failed = 0;
  for (int i = 1; i + 2 < count; i += 3) {
    const std::string kind = words[i], from = words[i + 1], to = words[i + 2];
    mindspore::Converter converter;
    converter.SetSaveType(kind.find(":ms") != std::string::npos ? mindspore::kMindIR_Lite : mindspore::kMindIR);
    const bool onnx = kind.compare(0, 4, "onnx") == 0;
    const auto status = converter.Convert(
        onnx ? mindspore::converter::kFmkTypeOnnx : mindspore::converter::kFmkTypeTflite,
        std::vector<char>(from.begin(), from.end()), std::vector<char>(to.begin(), to.end()), {});
    const bool good = !(status != mindspore::kSuccess);
    failed += !good;
    fprintf(stderr, "%s %d\n", good ? "done" : "failed", i / 3);
  }
  return failed ? 1 : 0;
}
