// A primitive's attributes, read from its flatbuffer by the table of generated/primitives.h.
#pragma once

#include <string>

namespace tpulayer {
// The name of a tag, "" for an unknown one.
std::string PrimitiveName(int tag);
// A JSON object with the attributes of a primitive; all of them have their defaults for nullptr.
std::string Attributes(int tag, const void *primitive);
}  // namespace tpulayer
