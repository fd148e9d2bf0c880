"""Models of other frameworks in ONNX's words: what an operation means exists once, in the ONNX converters."""
