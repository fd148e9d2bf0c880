#include "primitive.h"

#include <cstdint>
#include <cstring>

#include "generated/primitives.h"
#include "text.h"

namespace tpulayer {
namespace {
template <typename T>
T At(const uint8_t *place) {
  T value;
  memcpy(&value, place, sizeof value);
  return value;
}

// Where a field of a table is, nullptr when it is left out.
const uint8_t *Slot(const uint8_t *table, int field) {
  const uint8_t *vtable = table - At<int32_t>(table);
  const int entry = 4 + 2 * field;
  if (entry + 2 > At<uint16_t>(vtable)) return nullptr;
  const uint16_t offset = At<uint16_t>(vtable + entry);
  return offset ? table + offset : nullptr;
}

const uint8_t *Follow(const uint8_t *place) { return place + At<uint32_t>(place); }

std::string String(const uint8_t *text) {
  return std::string(reinterpret_cast<const char *>(text + 4), At<uint32_t>(text));
}

template <typename T>
std::string List(const uint8_t *slot) {
  std::string out = "[";
  if (slot) {
    const uint8_t *vector = Follow(slot);
    const uint32_t count = At<uint32_t>(vector);
    for (uint32_t i = 0; i < count; ++i) {
      if (i) out += ",";
      out += Number(static_cast<double>(At<T>(vector + 4 + i * sizeof(T))));
    }
  }
  return out + "]";
}

std::string Longs(const uint8_t *slot) {
  std::string out = "[";
  if (slot) {
    const uint8_t *vector = Follow(slot);
    const uint32_t count = At<uint32_t>(vector);
    for (uint32_t i = 0; i < count; ++i) out += (i ? "," : "") + std::to_string(At<int64_t>(vector + 4 + 8 * i));
  }
  return out + "]";
}

std::string Pairs(const uint8_t *slot) {
  std::string out = "[";
  const uint8_t *rows = slot ? Slot(Follow(slot), 0) : nullptr;
  if (rows) {
    const uint8_t *vector = Follow(rows);
    const uint32_t count = At<uint32_t>(vector);
    for (uint32_t i = 0; i < count; ++i) out += (i ? "," : "") + Longs(Slot(Follow(vector + 4 + 4 * i), 0));
  }
  return out + "]";
}

// A member `"name": value`, or several for attributes with names of their own.
std::string Member(const Field &field, const uint8_t *slot) {
  std::string value;
  switch (field.kind) {
    case 's':
      value = Quoted(slot ? String(Follow(slot)) : "");
      break;
    case 'L':
      value = Longs(slot);
      break;
    case 'I':
      value = List<int32_t>(slot);
      break;
    case 'F':
      value = List<float>(slot);
      break;
    case 'P':
      value = Pairs(slot);
      break;
    case 'A': {
      if (!slot) return "";
      const uint8_t *vector = Follow(slot);
      const uint32_t count = At<uint32_t>(vector);
      for (uint32_t i = 0; i < count; ++i) {
        const uint8_t *item = Follow(vector + 4 + 4 * i);
        const uint8_t *name = Slot(item, 0), *data = Slot(item, 1);
        if (!name) continue;
        value += (value.empty() ? "" : ",") + Quoted(String(Follow(name))) + ":" +
                 Quoted(data ? String(Follow(data)) : "");
      }
      return value;
    }
    case '?':
      value = (slot ? *slot != 0 : field.usual != 0) ? "true" : "false";
      break;
    case 'f':
      value = Number(slot ? static_cast<double>(At<float>(slot)) : field.usual);
      break;
    default: {
      int64_t number = static_cast<int64_t>(field.usual);
      if (slot) {
        number = field.kind == 'b'   ? At<int8_t>(slot)
                 : field.kind == 'i' ? At<int32_t>(slot)
                                     : At<int64_t>(slot);
      }
      value = std::to_string(number);
    }
  }
  return Quoted(field.name) + ":" + value;
}
}  // namespace

int PrimitiveTag(const void *primitive) {
  const uint8_t *tag = primitive ? Slot(static_cast<const uint8_t *>(primitive), 0) : nullptr;
  return tag ? *tag : 0;
}

int PrimitiveTagOf(const std::string &name) {
  for (int i = 0; i < kPrimitiveNum; ++i) {
    if (name == kPrimitives[i].name) return i + 1;
  }
  return 0;
}

std::string PrimitiveName(int tag) { return tag >= 1 && tag <= kPrimitiveNum ? kPrimitives[tag - 1].name : ""; }

std::string Attributes(const void *primitive) {
  const int tag = PrimitiveTag(primitive);
  if (tag < 1 || tag > kPrimitiveNum) return "{}";
  const PrimitiveRow &row = kPrimitives[tag - 1];
  const uint8_t *value = Slot(static_cast<const uint8_t *>(primitive), 1);
  const uint8_t *table = value ? Follow(value) : nullptr;
  std::string out;
  for (int i = 0; i < row.count; ++i) {
    const uint8_t *slot = table ? Slot(table, i) : nullptr;
    const std::string member = Member(row.fields[i], slot);
    if (!member.empty()) out += (out.empty() ? "" : ",") + member;
  }
  return "{" + out + "}";
}
}  // namespace tpulayer
