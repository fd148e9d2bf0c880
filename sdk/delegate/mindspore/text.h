// JSON for the compiler, and errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpulayer {
std::string Quoted(const std::string &text);
std::string Number(double value);
std::string Shaped(const std::vector<int64_t> &shape);

// Remember what went wrong, and log it.
void Fail(const std::string &text);
void ForgetError();
}  // namespace tpulayer
