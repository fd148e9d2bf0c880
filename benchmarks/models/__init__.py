"""Networks of many architectures as ONNX files, with seeded random weights."""
