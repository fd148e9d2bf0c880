// Operations of an ONNX model that are layers of the user's, for the converter.
#pragma once

#include <map>
#include <string>

namespace tpulayer {
// One operation: its attributes, of which `type` names the layer. All are texts.
using LayerAttributes = std::map<std::string, std::string>;

// Make the converter write a Custom primitive with these attributes for every node whose operation has this name. The
// attribute kShapes has the shapes of what it makes, such as "1x8;4": the converter asks for them.
void ParseAsLayer(const std::string &operation, const LayerAttributes &attributes);
constexpr char kShapes[] = "tpulayer_shapes";
}  // namespace tpulayer
