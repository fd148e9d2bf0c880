// Stands for the header that the wheel leaves out: what include/api/kernel.h and delegate.h name of it. The
// tag of a primitive is that of the union PrimitiveType; attributes are read by primitive.cc.
#pragma once
#include <cstdint>

namespace mindspore {
namespace schema {
struct Primitive;
enum PrimitiveType : uint8_t { PrimitiveType_NONE = 0 };
enum QuantType : int32_t { QuantType_QUANT_NONE = 0 };
}  // namespace schema
}  // namespace mindspore
