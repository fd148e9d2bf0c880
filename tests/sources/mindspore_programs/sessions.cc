// Models of MindSpore Lite in one process, step by step. Reads lines, answers each with `ok ...` or `error TEXT`:
//   layer TYPE                          Custom primitives of this type are layers of the user's
//   build NAME PATH KIND CONFIG         KIND: ms or mindir; CONFIG: of the delegate, - for the framework's kernels
//   resize NAME SHAPE ...               of all inputs in their order, such as 1x3x8x8
//   predict NAME TIMES                  ok NANOSECONDS of the fastest
//   overhead NAME TIMES                 ok LEAST MEDIAN nanoseconds of a call above those that libbmrt takes
//   compare NAME OTHER                  ok LARGEST DIFFERENCE over LARGEST VALUE of the outputs
//   first NAME                          ok the first element of the first output, which is of floats
//   destroy NAME
//   together TIMES NAME NAME ...        predict each in a thread of its own
//   cycles THREADS TIMES PATH KIND CONFIG   build, predict, destroy in each thread
//   core PROGRAM                        ok when a partition beside the framework runs too
//   usage                               ok RESIDENT_KB OPEN_FILES
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "include/api/context.h"
#include "include/api/model.h"
#include "tpulayer_delegate.h"
#include "tpulayer_mindspore.h"

namespace {
using mindspore::MSTensor;
using Words = std::vector<std::string>;

struct Session {
  mindspore::Model model;
  std::shared_ptr<tpulayer::TpuLayerDelegate> delegate;
  std::vector<MSTensor> outputs;
};
using Sessions = std::map<std::string, std::unique_ptr<Session>>;

std::string failed(const std::string &what) { return "error " + what + tpulayer::LastError(": "); }

std::string build(Session *s, const std::string &path, const std::string &kind, const std::string &config) {
  auto context = std::make_shared<mindspore::Context>();
  context->SetThreadNum(1);
  auto device = std::make_shared<mindspore::CPUDeviceInfo>();
  device->SetEnableFP16(false);
  context->MutableDeviceInfo().push_back(device);
  if (config != "-") {
    tpulayer::Config parsed;
    const std::string wrong = tpulayer::ParseConfig(config, &parsed);
    if (!wrong.empty()) return "error " + wrong;
    s->delegate = std::make_shared<tpulayer::TpuLayerDelegate>(parsed);
    tpulayer::Attach(context, s->delegate);
  }
  const auto type = kind == "ms" ? mindspore::kMindIR_Lite : mindspore::kMindIR;
  const auto built = s->model.Build(path, type, context);
  tpulayer::Attach(context, nullptr);
  if (built != mindspore::kSuccess) return failed("not built");
  size_t taken = 0;
  if (s->delegate) {
    for (const auto &verdict : s->delegate->Verdicts()) taken += verdict.partition >= 0;
  }
  return "ok " + std::to_string(taken);
}

void fill(MSTensor *tensor) {
  const auto count = static_cast<size_t>(tensor->ElementNum());
  for (size_t i = 0; i < count; ++i) {
    const int value = static_cast<int>((i * 2654435761u >> 12) % 1024);
    if (tensor->DataType() == mindspore::DataType::kNumberTypeFloat32) {
      static_cast<float *>(tensor->MutableData())[i] = static_cast<float>(value) / 512 - 1;
    } else {
      static_cast<int32_t *>(tensor->MutableData())[i] = value % 2;
    }
  }
}

std::string predict(Session *s, int times) {
  auto inputs = s->model.GetInputs();
  for (auto &input : inputs) fill(&input);
  long long best = -1;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (s->model.Predict(inputs, &s->outputs) != mindspore::kSuccess) return failed("not run");
    const auto taken = std::chrono::steady_clock::now() - start;
    const long long ns = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
    best = best < 0 ? ns : std::min(best, ns);
  }
  return "ok " + std::to_string(best);
}

std::string overhead(Session *s, int times) {
  auto inputs = s->model.GetInputs();
  std::vector<long long> found;
  for (int i = 0; i < times; ++i) {
    tpld_counters_info before{}, after{};
    tpld_counters(nullptr, &before);
    const auto start = std::chrono::steady_clock::now();
    if (s->model.Predict(inputs, &s->outputs) != mindspore::kSuccess) return failed("not run");
    const auto taken = std::chrono::steady_clock::now() - start;
    tpld_counters(nullptr, &after);
    const auto inside = (after.wall_ns - before.wall_ns) - (after.copy_wall_ns - before.copy_wall_ns);
    found.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count() -
                    static_cast<long long>(inside));
  }
  std::sort(found.begin(), found.end());
  return "ok " + std::to_string(found[0]) + " " + std::to_string(found[found.size() / 2]);
}

std::string resize(Session *s, const Words &shapes) {
  std::vector<std::vector<int64_t>> wanted;
  for (const auto &word : shapes) {
    wanted.emplace_back();
    std::istringstream stream(word);
    for (std::string extent; std::getline(stream, extent, 'x');) wanted.back().push_back(std::stoll(extent));
  }
  return s->model.Resize(s->model.GetInputs(), wanted) == mindspore::kSuccess ? "ok" : failed("not resized");
}

std::string compare(Session *one, Session *two) {
  double worst = 0;
  for (auto &want : one->outputs) {
    const auto found = std::find_if(two->outputs.begin(), two->outputs.end(),
                                    [&](MSTensor &tensor) { return tensor.Name() == want.Name(); });
    if (found == two->outputs.end() || found->Shape() != want.Shape()) return "error other outputs";
    double largest = 1e-30, away = 0;
    for (int64_t i = 0; i < want.ElementNum(); ++i) {
      const double a = static_cast<const float *>(want.Data().get())[i];
      const double b = static_cast<const float *>(found->Data().get())[i];
      largest = std::max(largest, std::abs(a));
      away = std::isnan(a - b) ? INFINITY : std::max(away, std::abs(a - b));
    }
    worst = std::max(worst, away / largest);
  }
  return "ok " + std::to_string(worst);
}

std::string cycles(int times, const Words &model) {
  for (int i = 0; i < times; ++i) {
    Session session;
    std::string said = build(&session, model[0], model[1], model[2]);
    if (said.compare(0, 2, "ok") == 0) said = predict(&session, 1);
    if (said.compare(0, 2, "ok") != 0) return said + " in cycle " + std::to_string(i);
  }
  return "ok";
}

// The first answer that is none.
template <typename Work>
std::string threads(size_t count, const Work &work) {
  std::vector<std::string> said(count);
  std::vector<std::thread> running;
  for (size_t i = 0; i < count; ++i) running.emplace_back([&, i] { said[i] = work(i); });
  for (auto &thread : running) thread.join();
  const auto bad = std::find_if(said.begin(), said.end(), [](const auto &s) { return s.compare(0, 2, "ok") != 0; });
  return bad == said.end() ? "ok" : *bad;
}

std::string core(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  tpld_partition *partition = nullptr;
  if (tpld_load(0, program.data(), program.size(), nullptr, &partition) != TPLD_OK) {
    return std::string("error ") + tpld_last_error();
  }
  std::vector<std::vector<char>> buffers;
  std::vector<const void *> from;
  std::vector<void *> to;
  tpld_tensor told;
  for (int i = 0; i < tpld_input_num(partition); ++i) {
    tpld_input(partition, i, &told);
    buffers.emplace_back(told.bytes);
    from.push_back(buffers.back().data());
  }
  for (int i = 0; i < tpld_output_num(partition); ++i) {
    tpld_output(partition, i, &told);
    buffers.emplace_back(told.bytes);
    to.push_back(buffers.back().data());
  }
  const bool good = tpld_execute(partition, from.data(), to.data()) == TPLD_OK;
  tpld_destroy(partition);
  return good ? "ok" : std::string("error ") + tpld_last_error();
}

std::string usage() {
  long pages = 0, resident = 0, files = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  if (DIR *folder = opendir("/proc/self/fd")) {
    while (readdir(folder)) ++files;
    closedir(folder);
  }
  return "ok " + std::to_string(resident * (sysconf(_SC_PAGESIZE) / 1024)) + " " + std::to_string(files);
}

std::string answer(Sessions *all, const Words &w) {
  const auto session = [&](size_t i) { return all->at(w.at(i)).get(); };
  if (w[0] == "layer") return tpulayer::RegisterLayer(w.at(1)) ? "ok" : "error not registered";
  if (w[0] == "build") {
    auto made = std::make_unique<Session>();
    const std::string said = build(made.get(), w.at(2), w.at(3), w.at(4));
    if (said.compare(0, 2, "ok") == 0) (*all)[w.at(1)] = std::move(made);
    return said;
  }
  if (w[0] == "resize") return resize(session(1), Words(w.begin() + 2, w.end()));
  if (w[0] == "predict") return predict(session(1), std::stoi(w.at(2)));
  if (w[0] == "overhead") return overhead(session(1), std::stoi(w.at(2)));
  if (w[0] == "compare") return compare(session(1), session(2));
  if (w[0] == "first") {
    return "ok " + std::to_string(*static_cast<const float *>(session(1)->outputs.at(0).Data().get()));
  }
  if (w[0] == "destroy") return all->erase(w.at(1)) ? "ok" : "error no such model";
  if (w[0] == "together") {
    return threads(w.size() - 2, [&](size_t i) { return predict(session(2 + i), std::stoi(w[1])); });
  }
  if (w[0] == "cycles") {
    const Words model(w.begin() + 3, w.end());
    return threads(static_cast<size_t>(std::stoi(w.at(1))), [&](size_t) { return cycles(std::stoi(w[2]), model); });
  }
  if (w[0] == "core") return core(w.at(1));
  return w[0] == "usage" ? usage() : "error unknown word";
}
}  // namespace

int main() {
  Sessions sessions;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream stream(line);
    const Words words{std::istream_iterator<std::string>(stream), {}};
    std::string said;
    try {
      said = words.empty() ? "error an empty line" : answer(&sessions, words);
    } catch (const std::exception &error) {
      said = std::string("error ") + error.what();
    }
    for (char &c : said) c = c == '\n' ? ' ' : c;
    printf("%s\n", said.c_str());
    fflush(stdout);
  }
  return 0;
}
