"""``braid tune``: fits the fusion parameters on judged questions to a file, which ``braid.settings`` reads."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads annotations
from shlex import quote
from typing import Annotated

import typer
from braid.errors import InvalidRequest
from braid.settings.configuration_files import FITTED_FILE
from rich.text import Text

from braid_cli.commands.evaluation import Asked, ir_datasets_folder
from braid_cli.evaluation.metrics import METRICS
from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, Engine
from braid_cli.question_validation import check_tenant
from braid_cli.terminal import EXIT_FAILED, complain, examples, open_application, out, print_json, progress

app = typer.Typer()


@app.command(epilog=examples("braid tune my-data", "braid tune my-data other-data --metric recall@5 --out fitted.json"))
def tune(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Dataset folders with queries.jsonl and qrels, ids of ir_datasets, or files of judged questions, "
            "exported from the explorer.",
            metavar="DIR...",
        ),
    ],
    *,
    metric: Annotated[str, typer.Option(help=f"Metric to fit: {', '.join(METRICS)}.", metavar="METRIC")] = "ndcg@10",
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.", min=2, max=20, metavar="N")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.", metavar="N")] = 20_240_501,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write. Default: the one that BRAID_FITTED_WEIGHTS names, else fitted.json in BRAID_HOME.",
            metavar="FILE",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write it even if not better on held-out questions.", metavar=FLAG)
    ] = False,
    tenant: Asked = DEFAULT_TENANT,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Fit the fusion parameters on judged questions, and write them to the file that searches read.

    Each question is searched once; fitting only repeats the fusion of its hits. Cross-validation measures the gain on
    held-out questions. If it is no better than the parameters in use, nothing is written and the exit code is 1.

    The file applies to all tenants of the store, in every process that starts after that. Removing it restores the
    defaults; a file that it replaces is kept beside it, with the suffix .before.
    """
    from braid_cli.datasets.ir_dataset import judged_folder
    from braid_cli.tuning.run import tune_folders, write
    from braid_cli.tuning.show import show_tuning

    check_tenant(tenant)
    if metric not in METRICS:
        raise InvalidRequest.of("--metric", f"{metric!r} is none of {', '.join(METRICS)}")
    application = open_application(engine)
    with (
        progress("Ingesting", quiet=as_json) as ingesting,
        progress("Asking", quiet=as_json) as asking,
        progress("Fitting", quiet=as_json) as fitting,
    ):
        tuning = tune_folders(
            [judged_folder(folder, ir_datasets_folder()) for folder in folders],
            application,
            tenant_id=tenant,
            metric=metric,
            folds=folds,
            seed=seed,
            on_ingest=ingesting,
            on_question=asking,
            on_fit=fitting,
        )
    path = target or application.settings.fitted_weights or application.settings.home / FITTED_FILE
    refusal = None if force else tuning.refusal()
    if refusal is None:
        before = write(tuning, path)
    if as_json:
        print_json({**tuning.as_json(), "written": None if refusal else str(path)})
    else:
        show_tuning(out, tuning)
    if refusal is not None:
        complain(f"nothing written: {refusal}")
        raise typer.Exit(EXIT_FAILED)
    if not as_json:
        undo = f"`mv {quote(str(before))} {quote(str(path))}`" if before else f"`rm {quote(str(path))}`"
        out.print(Text(f"written to {path}"), soft_wrap=True)
        told = f"it applies to all tenants of this store, once a running server is restarted; {undo} undoes it"
        out.print(Text(told), soft_wrap=True)
