"""Exports models to model folders of ONNX graph, tokenizer and manifest.

``from_safetensors`` exports from safetensors with ``bert``, ``t5``, ``pooling_head`` and ``onnx_graph_builder``,
without PyTorch; ``via_sentence_transformers`` exports any model of the hub; ``default_model`` exports the laptop's
default model, from a package. ``model_folder`` writes the model folder.
"""
