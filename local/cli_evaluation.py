"""``braid eval``: how good retrieval is on judged questions."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer

from local.terminal import AsJson, Engine, examples, open_engines, out, print_json, progress

if TYPE_CHECKING:
    from braid.wiring import Wired

    from local.evaluation.failures import Failure
    from local.evaluation.run import Evaluation

EVALUATE_EPILOG = examples(
    "braid eval my-data",
    "braid eval my-data --by kind --failures 20",
    "braid eval my-data --json | jq .runs.braid",
)


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(help="Dataset folder that has queries.jsonl and qrels/test.tsv as well.", metavar="DIR"),
    ],
    *,
    by: Annotated[
        str | None,
        typer.Option(
            help="Break the figures down by a field of the questions' metadata, such as kind, type or hops, or by the "
            "intent that was read from them.",
            metavar="FIELD",
        ),
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            "--failures",
            help="Show so many of the questions that were answered worst: what should have come, where it stood, what "
            "came instead and why.",
            min=0,
            metavar="N",
        ),
    ] = 0,
    save: Annotated[
        Path | None, typer.Option(help="Write the figures to this file as well, as JSON.", metavar="FILE")
    ] = None,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Measure retrieval on judged questions: each strand alone, vectors and words, each fusion, the default.

    The folder is ingested once, apart from what you ingested yourself.
    """
    from local.evaluation.failures import failures
    from local.evaluation.run import evaluate_folder
    from local.evaluation.show import show_evaluation, show_failures, show_groups

    failed: list[Failure] = []

    def look(evaluation: Evaluation, own: Wired) -> None:
        failed.extend(failures(evaluation, own, at_most=worst))

    with (
        progress("Ingesting", quiet=as_json) as ingesting,
        progress("Asking", quiet=as_json) as asking,
    ):
        evaluation = evaluate_folder(folder, open_engines(engine), on_ingest=ingesting, on_question=asking, then=look)
    if by is not None:
        evaluation.groups(by)  # refuses a field that no question has, before anything is written or printed
    figures = evaluation.as_json() | ({"failures": [one.as_json() for one in failed]} if worst else {})
    if save is not None:
        save.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(figures)
        return
    show_evaluation(out, evaluation)
    if by is not None:
        show_groups(out, evaluation, by)
    if worst:
        show_failures(out, failed)
