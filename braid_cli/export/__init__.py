"""Making model folders: from safetensors directly, or through sentence-transformers' ONNX export."""
