"""``python -m bench [DATASET-FOLDER …]`` or ``python -m bench engines``: measure, and write the figures here."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.main_job import as_markdown, measure, write

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "local" / "demo" / "saltmarrow"
SIZES = "1000,10000,100000"


def main(arguments: list[str]) -> None:
    """Measure the named folders, or the demo corpus; or the engines."""
    if arguments[:1] == ["engines"]:
        _engines(arguments[1:])
        return
    if arguments[:1] == ["planner"]:
        from bench import planner

        cases = planner.measure()
        planner.write(cases, HERE)
        sys.stdout.write(planner.as_markdown(cases))
        return
    if arguments[:1] == ["linking"]:
        from bench import linking

        measured = linking.measure([Path(folder) for folder in arguments[1:]])
        linking.write(measured, HERE)
        sys.stdout.write(linking.as_markdown(measured))
        return
    if arguments[:1] == ["load"]:
        from bench import load

        steps = load.measure(seconds=int(arguments[1]) if arguments[1:] else load.SECONDS)
        load.write(steps, HERE)
        sys.stdout.write(load.as_markdown(steps))
        return
    runs = [measure(Path(folder)) for folder in arguments or [str(DEMO)]]
    write(runs, HERE)
    sys.stdout.write(as_markdown(runs))


def _engines(arguments: list[str]) -> None:
    from bench import engines, engines_report

    parser = argparse.ArgumentParser(prog="python -m bench engines", description=engines.__doc__)
    parser.add_argument("--sizes", default=SIZES, help="numbers of records, with commas between (%(default)s)")
    parser.add_argument("--embedded-only", action="store_true", help="start no servers, and so need no Java")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for engines.json, engines.md and engines.svg")
    options = parser.parse_args(arguments)
    try:
        sizes = sorted({int(size) for size in options.sizes.split(",")})
    except ValueError:
        parser.error(f"--sizes {options.sizes}: not whole numbers with commas between")
    if sizes[0] < engines.SMALLEST:
        parser.error(f"--sizes {options.sizes}: below {engines.SMALLEST}")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    runs: list[engines.SizeFigures] = []
    for size in sizes:
        runs.append(engines.measure(size, say, deployed=not options.embedded_only))
        # After each: the largest takes longest, and should it fail the others are not lost.
        engines_report.write(runs, options.out)
    sys.stdout.write(engines_report.as_markdown(runs))


if __name__ == "__main__":
    main(sys.argv[1:])
