"""Models of Caffe, `.prototxt` with `.caffemodel`: read, and their layers in ONNX's words."""
