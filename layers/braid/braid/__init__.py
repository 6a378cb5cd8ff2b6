"""Braid: one question in, one ranked and cited list out, from vectors, words and a knowledge graph.

Importing it forbids the libraries that report their use to their makers to do so, for the whole process: ONNX Runtime
reads its variable when it is imported, so that this must come before.
"""

import os

__version__ = "0.1.0"

NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
"""Environment variables by which ONNX Runtime and the Hugging Face Hub's client are told to report nothing."""

os.environ.update(NO_TELEMETRY)
