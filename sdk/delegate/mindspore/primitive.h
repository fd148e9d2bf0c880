// A primitive's attributes, read from its flatbuffer by the table of generated/primitives.h.
#pragma once

#include <string>

namespace tpulayer {
// The tag that a primitive holds, 0 for nullptr.
int PrimitiveTag(const void *primitive);
// The name of a tag, "" for an unknown one.
std::string PrimitiveName(int tag);
// The tag of a name, 0 for an unknown one.
int PrimitiveTagOf(const std::string &name);
// A JSON object with the attributes of a primitive.
std::string Attributes(const void *primitive);
}  // namespace tpulayer
