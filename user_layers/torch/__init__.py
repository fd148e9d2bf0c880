"""Exported PyTorch programs: read, and written in ONNX's words."""
