"""``python -m bench [DATASET-FOLDER …]``: measure on this machine and write the figures beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.main_job import as_markdown, measure, write

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "local" / "demo" / "saltmarrow"


def main(arguments: list[str]) -> None:
    """Measure the named folders, or the demo corpus."""
    runs = [measure(Path(folder)) for folder in arguments or [str(DEMO)]]
    write(runs, HERE)
    sys.stdout.write(as_markdown(runs))


if __name__ == "__main__":
    main(sys.argv[1:])
