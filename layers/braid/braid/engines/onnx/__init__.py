"""Encoder and cross-encoder on ONNX Runtime, and the model folders that they load."""
