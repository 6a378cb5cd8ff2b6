"""Embeds a JSON array of texts from standard input with Braid's default encoder; writes float32 as base64."""

from __future__ import annotations

import base64
import json
import sys

from braid.app import application
from braid.models import EmbeddingType


def main() -> None:
    """Embed what standard input holds."""
    texts: list[str] = json.loads(sys.stdin.buffer.read())
    library = application()
    encoder = library.encoder_for(library.model_for(EmbeddingType.GENERAL), threads=2)
    sys.stdout.write(base64.b64encode(b"".join(encoder.encode(texts))).decode("ascii"))


if __name__ == "__main__":
    main()
