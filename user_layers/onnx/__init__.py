"""ONNX models into graphs."""
