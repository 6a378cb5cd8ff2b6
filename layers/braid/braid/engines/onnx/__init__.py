"""Encoder and cross-encoder on ONNX Runtime, and the model folders that they load.

- ``session``: opens the ONNX Runtime session and the tokenizer of a model folder; ``encoders``: the encoder and the
  cross-encoder, which run them. ``braid.opened_models`` sets the number of threads
- ``model_files``: verifies a model folder; ``external_data``: refuses tensors outside it
"""
