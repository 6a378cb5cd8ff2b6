"""Encoders and cross-encoders on ONNX Runtime."""
