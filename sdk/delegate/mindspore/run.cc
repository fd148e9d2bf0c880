// Runs models with MindSpore Lite: run JOBS. Lines of the file, words separated by tabs:
//   model PATH ms|mindir         a new job
//   threads N                    of the framework's own kernels (1)
//   resize NAME 1x3x8x8          the shape of an input, for all that follows
//   input NAME FILE              raw bytes of an input
//   repeat N                     runs that are timed (1)
//   delegate SPEC                the TPU runs what it can; SPEC: see tpulayer_mindspore.h
//   layer NAME                   Custom primitives of this type are layers of the user's
//   go PREFIX                    do it; output number I is written to PREFIX.I
// Answers on stdout: `input NAME TYPE SHAPE`, `output NAME TYPE SHAPE`, `time NANOSECONDS` for each run,
// `note ...` of the delegate, then `end`; or `error TEXT` in place of what could not be done.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "include/api/context.h"
#include "include/api/model.h"
#include "tpulayer_mindspore.h"

namespace {
using mindspore::MSTensor;
using Shape = std::vector<int64_t>;

struct Job {
  std::string model, kind, delegate, prefix;
  int threads = 1, repeat = 1;
  std::map<std::string, Shape> shapes;
  std::map<std::string, std::string> inputs;
  std::vector<std::string> layers;
};

std::vector<std::string> split(const std::string &line, char mark) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, mark);) words.push_back(word);
  return words;
}

std::string shown(const Shape &shape) {
  std::string text;
  for (int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

void tell(const char *what, const MSTensor &tensor) {
  printf("%s\t%s\t%d\t%s\n", what, tensor.Name().c_str(), static_cast<int>(tensor.DataType()),
         shown(tensor.Shape()).c_str());
}

std::string run(const Job &job) {
  auto context = std::make_shared<mindspore::Context>();
  context->SetThreadNum(job.threads);
  auto device = std::make_shared<mindspore::CPUDeviceInfo>();
  device->SetEnableFP16(false);
  for (const auto &layer : job.layers) {
    if (!tpulayer::RegisterLayer(layer)) return "the runtime does not take the layer " + layer;
  }
  context->MutableDeviceInfo().push_back(device);
  std::shared_ptr<tpulayer::TpuLayerDelegate> delegate;
  if (!job.delegate.empty()) {
    tpulayer::Config config;
    const std::string wrong = tpulayer::ParseConfig(job.delegate, &config);
    if (!wrong.empty()) return wrong;
    delegate = std::make_shared<tpulayer::TpuLayerDelegate>(config);
    tpulayer::Attach(context, delegate);
  }
  mindspore::Model model;
  const auto type = job.kind == "ms" ? mindspore::kMindIR_Lite : mindspore::kMindIR;
  const auto built = model.Build(job.model, type, context);
  tpulayer::Attach(context, nullptr);
  if (built != mindspore::kSuccess) {
    std::string why = "the model cannot be built";
    if (delegate) {
      why += tpulayer::LastError(": ");
      for (const auto &verdict : delegate->Verdicts()) {
        if (verdict.kind == "Custom" && !verdict.why.empty()) why += "; " + verdict.name + ": " + verdict.why;
      }
    }
    return why;
  }
  if (!job.shapes.empty()) {
    auto inputs = model.GetInputs();
    std::vector<Shape> shapes;
    for (auto &input : inputs) {
      const auto found = job.shapes.find(input.Name());
      shapes.push_back(found == job.shapes.end() ? input.Shape() : found->second);
    }
    if (model.Resize(inputs, shapes) != mindspore::kSuccess) {
      return "the model cannot be resized" + (delegate ? tpulayer::LastError(": ") : "");
    }
  }
  auto inputs = model.GetInputs();
  for (auto &input : inputs) {
    tell("input", input);
    const auto found = job.inputs.find(input.Name());
    if (found == job.inputs.end()) return "input " + input.Name() + " is not given";
    std::ifstream file(found->second, std::ios::binary);
    std::vector<char> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (data.size() != input.DataSize()) {
      return "input " + input.Name() + " has " + std::to_string(input.DataSize()) + " bytes, " +
             std::to_string(data.size()) + " are given";
    }
    memcpy(input.MutableData(), data.data(), data.size());
  }
  std::vector<MSTensor> outputs;
  for (int i = 0; i < job.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (model.Predict(inputs, &outputs) != mindspore::kSuccess) {
      return "the model cannot be run" + (delegate ? tpulayer::LastError(": ") : "");
    }
    const auto taken = std::chrono::steady_clock::now() - start;
    printf("time\t%lld\n",
           static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    tell("output", outputs[i]);
    std::ofstream file(job.prefix + "." + std::to_string(i), std::ios::binary);
    file.write(static_cast<const char *>(outputs[i].Data().get()),
               static_cast<std::streamsize>(outputs[i].DataSize()));
    if (!file.flush()) return "output " + outputs[i].Name() + " cannot be written";
  }
  if (delegate) printf("%s", delegate->Notes().c_str());
  return "";
}
}  // namespace

int main(int count, char **words) {
  std::ifstream file(count == 2 ? words[1] : "");
  if (!file) {
    fprintf(stderr, "usage: %s JOBS\n", words[0]);
    return 2;
  }
  Job job;
  for (std::string line; std::getline(file, line);) {
    const auto w = split(line, '\t');
    if (w.size() < 2) continue;
    if (w[0] == "model" && w.size() == 3) {
      job = Job();
      job.model = w[1];
      job.kind = w[2];
    } else if (w[0] == "threads") {
      job.threads = std::stoi(w[1]);
    } else if (w[0] == "repeat") {
      job.repeat = std::stoi(w[1]);
    } else if (w[0] == "layer") {
      job.layers.push_back(w[1]);
    } else if (w[0] == "delegate") {
      job.delegate = w[1];
    } else if (w[0] == "resize" && w.size() == 3) {
      for (const auto &extent : split(w[2], 'x')) job.shapes[w[1]].push_back(std::stoll(extent));
    } else if (w[0] == "input" && w.size() == 3) {
      job.inputs[w[1]] = w[2];
    } else if (w[0] == "go") {
      job.prefix = w[1];
      std::string wrong = run(job);
      for (char &c : wrong) c = c == '\n' ? ' ' : c;
      printf(wrong.empty() ? "end\n" : "error\t%s\n", wrong.c_str());
      fflush(stdout);
    } else {
      fprintf(stderr, "unknown line: %s\n", line.c_str());
      return 2;
    }
  }
  return 0;
}
