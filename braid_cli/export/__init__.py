"""Exports models to model folders of ONNX graph, tokenizer and manifest.

``direct`` exports from safetensors with ``bert``, ``t5``, ``head`` and ``graph``, without PyTorch;
``via_sentence_transformers`` exports any model of the hub; ``default_model`` exports the laptop's default model, from a
package. ``folder`` writes the model folder.
"""
