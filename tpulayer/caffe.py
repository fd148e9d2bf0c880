"""Layers that Caffe does not have: what files in a workspace's folder `caffe` import.

`caffe_layer` registers a function for a type of layer; the function gets a `CaffeLayer`, reads its fields
(`Message` is one of its messages) and adds layers of the TPU to the graph.
"""

from user_layers.caffe.layer import CaffeLayer
from user_layers.caffe.message import Message
from user_layers.caffe.own import caffe_layer

__all__ = ["CaffeLayer", "Message", "caffe_layer"]
