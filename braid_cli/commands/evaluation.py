"""``braid eval``: measures retrieval on judged questions."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer
from braid.settings import read_settings

from braid_cli.options import DEFAULT_TENANT, AsJson, Engine, Graph
from braid_cli.question_validation import check_tenant
from braid_cli.terminal import examples, open_application, out, print_json, progress

if TYPE_CHECKING:
    from braid.app import Application

    from braid_cli.evaluation.run import Evaluation
    from braid_cli.evaluation.worst_questions import Failure

app = typer.Typer()
Asked = Annotated[
    str, typer.Option("--tenant", "-t", help="Tenant whose data answers the questions of a file.", metavar="NAME")
]


@app.command(
    name="eval",
    epilog=examples(
        "braid eval my-data",
        "braid eval my-data --by kind --failures 20",
        "braid eval my-data --questions held-back --by kind",
        "braid eval beir/scifact/test",
        "braid eval judged-acme.jsonl --tenant acme",
        "braid eval my-data --json | jq .runs.braid",
    ),
)
def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Dataset folder with queries.jsonl and qrels, in BEIR's format; the id of a dataset of ir_datasets, "
            "if that is installed; or a file of judged questions, exported from the explorer.",
            metavar="DIR",
        ),
    ],
    *,
    by: Annotated[
        str | None,
        typer.Option(
            help="Break the figures down by a metadata field of the questions, such as kind, type or hops, or by "
            "their intent.",
            metavar="FIELD",
        ),
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            help="Use the questions of this subfolder of DIR, with its own queries.jsonl and qrels.",
            metavar="NAME",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Judgements to use: the name of a file in qrels. Default: test, or the only one.", metavar="NAME"
        ),
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            "--failures",
            help="Show up to N questions whose first five results lack a relevant record, the worst first: expected "
            "results, their ranks at each stage, and the results returned instead, with reasons.",
            min=0,
            metavar="N",
        ),
    ] = 0,
    save: Annotated[
        Path | None, typer.Option(help="Also write the figures to this file, as JSON.", metavar="FILE")
    ] = None,
    tenant: Asked = DEFAULT_TENANT,
    graph: Graph = None,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Measure retrieval on judged questions: each strand alone, vectors and words, each fusion, the default.

    A folder is ingested once, into stores of its own. The questions of a file are answered from the tenant's stored
    data.
    """
    from braid_cli.datasets.ir_dataset import judged_folder
    from braid_cli.evaluation.run import evaluate_folder, evaluate_stored
    from braid_cli.evaluation.show import show_evaluation, show_failures, show_groups
    from braid_cli.evaluation.worst_questions import failures

    check_tenant(tenant)
    folder = judged_folder(folder, ir_datasets_folder())
    failed: list[Failure] = []

    def diagnose(evaluation: Evaluation, own: Application) -> None:
        failed.extend(failures(evaluation, own, at_most=worst))

    with (
        progress("Ingesting", quiet=as_json) as ingesting,
        progress("Asking", quiet=as_json) as asking,
    ):
        application = open_application(engine, graph)
        evaluation = (
            evaluate_stored(folder, tenant, application, on_question=asking, on_evaluated=diagnose)
            if folder.is_file()
            else evaluate_folder(
                folder,
                application,
                questions=questions,
                split=split,
                on_ingest=ingesting,
                on_question=asking,
                on_evaluated=diagnose,
            )
        )
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
        show_failures(out, failed, at_most=worst)


def ir_datasets_folder() -> Path:
    """Return the folder for datasets converted from ir_datasets."""
    return read_settings().home / "eval" / "ir_datasets"
