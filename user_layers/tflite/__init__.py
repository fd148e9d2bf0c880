"""TFLite models: read into a ForeignModel, and their operations in ONNX's words."""
