"""Embeds each line of standard input, a JSON array of texts, with Braid's default encoder; writes float32 as base64."""

from __future__ import annotations

import base64
import json
import sys

from braid.app import application
from braid.models import EmbeddingType


def main() -> None:
    """Embed until standard input ends."""
    library = application()
    encoder = library.encoder_for(library.model_for(EmbeddingType.GENERAL), threads=2)
    for line in sys.stdin:
        texts: list[str] = json.loads(line)
        sys.stdout.write(base64.b64encode(b"".join(encoder.encode(texts))).decode("ascii") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
