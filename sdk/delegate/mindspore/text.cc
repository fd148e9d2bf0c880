#include "text.h"

#include <cmath>
#include <cstdio>
#include <mutex>

#include "tpulayer_mindspore.h"

namespace tpulayer {
namespace {
std::mutex error_mutex;  // the framework runs kernels on threads of its own
std::string last_error;
}

std::string Quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char code[8];
      snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";  // as Python's json writes and reads them
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string Shaped(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

void Fail(const std::string &text) {
  {
    std::lock_guard<std::mutex> lock(error_mutex);
    last_error = text;
  }
  fprintf(stderr, "[tpulayer] %s\n", text.c_str());
}

void ForgetError() {
  std::lock_guard<std::mutex> lock(error_mutex);
  last_error.clear();
}

std::string LastError(const std::string &before) {
  std::lock_guard<std::mutex> lock(error_mutex);
  return last_error.empty() ? "" : before + last_error;
}
}  // namespace tpulayer
