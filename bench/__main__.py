"""``python -m bench [DATASET-FOLDER …]`` or ``python -m bench MEASUREMENT …``: measure, write figures to ``bench/``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "braid_cli" / "demo" / "saltmarrow"
SIZES = "1000,10000,100000"


def main(arguments: list[str]) -> None:
    """Measure what is named first; or the named folders, or the demo corpus."""
    if not {"-h", "--help"} & set(arguments):
        _make_models()
    if arguments and arguments[0] in MEASUREMENTS:
        MEASUREMENTS[arguments[0]](arguments[1:])
        return
    _of_folders("main_job", arguments)


def _make_models() -> None:
    """Make the models that are missing, for the processes of a measurement too; ends with one line if one cannot be."""
    from braid.app import Application
    from braid.errors import BraidError
    from braid.settings import Settings

    try:
        with (
            tempfile.TemporaryDirectory(prefix="braid-bench-") as home,
            closing(Application(Settings(home=Path(home)))) as application,
        ):
            application.make_models()
    except BraidError as error:
        sys.exit(f"bench: {error}")


def _of_folders(name: str, arguments: list[str]) -> None:
    """Measure what a module of this package does with folders."""
    module = import_module(f"bench.{name}")
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=module.__doc__, epilog=f"Other measurements: {', '.join(MEASUREMENTS)}."
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", type=Path, default=[DEMO])
    measured = module.measure(parser.parse_args(arguments).folders)
    _write(name, measured, module.as_markdown(measured))


def _write(name: str, measured: Sequence[Any], page: str) -> None:
    """Write figures for machines and for people, and print the latter."""
    figures = json.dumps([dataclasses.asdict(each) for each in measured], indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(figures + "\n", encoding="utf-8")
    (HERE / f"{name}.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _finding(arguments: list[str]) -> None:
    from bench import finding

    parser = argparse.ArgumentParser(prog="python -m bench finding", description=finding.__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="datasets that finding_labels.json knows")
    parser.add_argument("--spacy", metavar="PACKAGE", help="an installed spaCy pipeline, measured beside the rules")
    options = parser.parse_args(arguments)
    named = finding.measure(options.folders, options.spacy)
    _write("finding", named, finding.as_markdown(named))


def _confidence(folders: list[str]) -> None:
    from bench import confidence

    sys.stdout.write(confidence.fit_and_report([Path(folder) for folder in folders], HERE))


def _fairness(engines: list[str]) -> None:
    from bench import fairness

    sys.stdout.write(fairness.command(engines, HERE, lambda text: print(text, file=sys.stderr, flush=True)))


def _profile(arguments: list[str]) -> None:
    from bench import profile

    profile.command(arguments)


def _growth(arguments: list[str]) -> None:
    from bench import growth

    growth.command(arguments)


def _load(arguments: list[str]) -> None:
    from bench import load, load_server

    parser = argparse.ArgumentParser(prog="python -m bench load", description=load.__doc__)
    parser.add_argument("seconds", nargs="?", type=int, default=load.SECONDS, help="of each step (%(default)s)")
    parser.add_argument("--engine", choices=load_server.ENGINES, default=load_server.ENGINES[0], help="(%(default)s)")
    parser.add_argument("--users", default=",".join(map(str, load.USERS)), help="steps, with commas (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for load.json and load.md")
    options = parser.parse_args(arguments)
    try:
        users = [int(count) for count in options.users.split(",")]
    except ValueError:
        parser.error(f"--users {options.users}: not whole numbers with commas between")
    run = load.measure(options.engine, users, options.seconds)
    load.write(run, options.out)
    sys.stdout.write(load.as_markdown([run]))


def _peers(arguments: list[str]) -> None:
    from bench.peers import run

    parser = argparse.ArgumentParser(prog="python -m bench peers", description=run.__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="dataset folders with judged questions")
    parser.add_argument("--only", default=",".join(run.PEERS), help="libraries, with commas between (%(default)s)")
    parser.add_argument("--again", action="store_true", help="measure also what stands in peers.json")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for peers.json and peers.md")
    options = parser.parse_args(arguments)
    if unknown := set(names := options.only.split(",")) - set(run.PEERS):
        parser.error(f"--only {', '.join(sorted(unknown))}: none of {', '.join(run.PEERS)}")
    known = run.measure(options.folders, options.out, names, _say, again=options.again)
    sys.stdout.write(run.as_markdown(known))


def _engines(arguments: list[str]) -> None:
    from bench import engines, engines_report

    parser = argparse.ArgumentParser(prog="python -m bench engines", description=engines.__doc__)
    parser.add_argument("--sizes", default=SIZES, help="numbers of records, with commas between (%(default)s)")
    parser.add_argument("--embedded-only", action="store_true", help="start no servers, and so need no Java")
    parser.add_argument(
        "--out", type=Path, default=HERE, help="folder of engines.json, .md and .svg, which are added to"
    )
    options = parser.parse_args(arguments)
    try:
        sizes = sorted({int(size) for size in options.sizes.split(",")})
    except ValueError:
        parser.error(f"--sizes {options.sizes}: not whole numbers with commas between")
    if sizes[0] < engines.SMALLEST:
        parser.error(f"--sizes {options.sizes}: below {engines.SMALLEST}")

    for size in sizes:
        # After each: the largest takes longest, and should it fail the others are not lost.
        runs = engines_report.add(engines.measure(size, _say, deployed=not options.embedded_only), options.out)
    sys.stdout.write(engines_report.as_markdown(runs))


def _writes(arguments: list[str]) -> None:
    from bench import engines, writes, writes_report

    parser = argparse.ArgumentParser(prog="python -m bench writes", description=writes.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEMO, help="dataset whose texts are embedded")
    parser.add_argument("--texts", type=int, default=1_000, help="how many of them; 0 leaves that out (%(default)s)")
    parser.add_argument("--sizes", default=SIZES, help="numbers of records, embedded; empty for none (%(default)s)")
    parser.add_argument("--deployed", default="1000,10000", help="the same on servers (%(default)s)")
    parser.add_argument(
        "--out", type=Path, default=HERE, help="folder for writes.json and writes.md, which are added to"
    )
    options = parser.parse_args(arguments)

    def keep(**changed: object) -> None:
        # After each part, and beside what other runs found.
        writes.write(dataclasses.replace(writes.read(options.out), **changed), options.out)  # type: ignore[arg-type]

    if options.texts:
        texts, beside = writes.beside_embedding(options.folder, options.texts, _say)
        keep(dataset=options.folder.resolve().name, texts=texts, beside=beside)
    for engine, given in ((engines.EMBEDDED, options.sizes), (engines.DEPLOYED, options.deployed)):
        for size in map(int, filter(None, given.split(","))):
            found: dict[str, writes_report.Took] = {}
            for name, took in writes.growing(size, _say, deployed=engine == engines.DEPLOYED):
                found[name] = took
                known = writes.read(options.out).growing
                sizes = {**known.get(engine, {}), size: dict(found)}
                keep(growing={**known, engine: dict(sorted(sizes.items()))})
    sys.stdout.write(writes_report.as_markdown(writes.read(options.out)))


MEASUREMENTS: dict[str, Callable[[list[str]], None]] = {
    "confidence": _confidence,
    "engines": _engines,
    "facts": partial(_of_folders, "facts"),
    "fairness": _fairness,
    "finding": _finding,
    "growth": _growth,
    "linking": partial(_of_folders, "linking"),
    "load": _load,
    "peers": _peers,
    "planner": partial(_of_folders, "planner"),
    "profile": _profile,
    "writes": _writes,
}

if __name__ == "__main__":
    main(sys.argv[1:])
