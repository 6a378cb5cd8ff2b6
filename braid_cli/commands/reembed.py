"""``braid reembed``: re-embeds outdated records, or migrates the index to another model profile."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer
from braid import reembedding
from braid.errors import InvalidRequest, TakenOver
from braid.reembedding import JobKind, Phase, Place, RecallQuestion, RunBudget, Status
from braid.reembedding.running_jobs import Progress
from rich.table import Table

from braid_cli.options import FLAG, AsJson, Engine, tenant_option
from braid_cli.question_validation import check_known, check_tenant
from braid_cli.terminal import EXIT_FAILED, counted, examples, open_application, out, print_json, progress

if TYPE_CHECKING:
    from braid.ports.message_queue import Queue
    from braid.ports.reembedding import MigrationState
    from braid.reembedding import ReembeddingJob, Services

app = typer.Typer()
_SPENT = "the budget is spent: the next run goes on"


@app.command(
    epilog=examples(
        "braid reembed --dry-run",
        "braid reembed --tenant saltmarrow --budget 1000",
        "braid reembed --model-profile instructor",
        "braid reembed --status",
        "braid reembed --rollback",
        "braid reembed --tenant acme --index own --engine aws",
    )
)
def reembed(
    *,
    model_profile: Annotated[
        str | None,
        typer.Option(help="Migrate the index to this profile, and switch once verified.", metavar="NAME"),
    ] = None,
    tenant: Annotated[str | None, tenant_option("Only this tenant's outdated records, or its index.")] = None,
    index: Annotated[
        Place | None, typer.Option(help="Move the tenant to an index of its own, or to the shared one (OpenSearch).")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Maximum of records in this run.", metavar="N", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="Maximum of seconds of this run.", metavar="S", min=0)] = None,
    judged: Annotated[
        list[Path] | None,
        typer.Option(help="Dataset folder, named after its tenant, whose questions verify a migration.", metavar="DIR"),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Accepted loss of recall in a migration.", metavar="X", min=0, max=1)
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Only re-embed the records in the queue.", metavar=FLAG)
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count outdated records.", metavar=FLAG)] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show the jobs and their progress.", metavar=FLAG)] = (
        False
    ),
    pause: Annotated[
        bool, typer.Option("--pause", help="Pause the running job, until the next run by hand.", metavar=FLAG)
    ] = False,
    rollback: Annotated[
        bool,
        typer.Option("--rollback", help="Return to the previous profile, or abandon a migration.", metavar=FLAG),
    ] = False,
    drop_previous: Annotated[
        bool, typer.Option("--drop-previous", help="Delete the vectors or index kept for a rollback.", metavar=FLAG)
    ] = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Re-embed outdated records: too many schema versions behind, or without a vector of the active models.

    An interrupted run is resumed by the next one. Questions are answered throughout.
    """
    _one_at_a_time(queue, dry_run, status, pause, rollback, drop_previous)
    if tenant is not None:
        check_tenant(tenant)
    application = open_application(engine)
    if tenant is not None:
        check_known(tenant, application)
    # All cores, as in ``braid ingest``: this process does nothing else. ``reembed_texts_per_s`` can limit the load.
    services = replace(application.reembedding, encoder_for=partial(application.encoder_for, threads=os.cpu_count()))
    bounds = RunBudget(texts=budget, seconds=seconds)
    if status:
        _show_jobs(services, as_json=as_json)
    elif dry_run:
        _show_outdated(services, tenant, as_json=as_json)
    elif rollback:
        _show_served(reembedding.rollback(services, tenant), services, tenant, as_json=as_json)
    elif drop_previous:
        _show_served(reembedding.drop_previous(services, tenant), services, tenant, as_json=as_json)
    elif pause:
        _pause(services, as_json=as_json)
    elif queue:
        _drain_queue(services, application.queue, bounds, as_json=as_json)
    else:
        job = reembedding.plan(services, profile=model_profile, tenant=tenant, move_tenant=index)
        _run(services, job, bounds, judged or [], tolerance, as_json=as_json)


def _one_at_a_time(*chosen: bool) -> None:
    if sum(chosen) > 1:
        raise InvalidRequest("--queue, --dry-run, --status, --pause, --rollback, --drop-previous: one at a time")


def _pause(services: Services, *, as_json: bool) -> None:
    running = [job.name for job in reembedding.status(services) if job.status is Status.RUNNING]
    if not running:
        raise InvalidRequest("--pause: no job is running")
    for name in running:
        _show_job(reembedding.pause(services, name), as_json=as_json)


def _drain_queue(services: Services, queue: Queue, budget: RunBudget, *, as_json: bool) -> None:
    done = reembedding.drain(services, queue, budget=budget)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        out.print(
            f"{counted(done.written, 'record')} of the queue embedded again, {len(done.lost):,} changed meanwhile"
        )


def _run(
    services: Services,
    job: ReembeddingJob,
    budget: RunBudget,
    judged: list[Path],
    tolerance: float | None,
    *,
    as_json: bool,
) -> None:
    questions = [question for folder in judged for question in _questions(folder)]
    with progress("Embedding again", quiet=as_json) as update:

        def on_progress(now: ReembeddingJob) -> None:
            update(min(now.written, now.total), max(1, now.total))

        try:
            job = reembedding.run_to_end(
                services, job, budget=budget, on_progress=on_progress, questions=questions, tolerance=tolerance
            )
        except TakenOver as error:
            raise InvalidRequest(f"{error}; this run has stopped") from error
    _show_job(job, as_json=as_json)
    if job.status is Status.FAILED:
        raise typer.Exit(EXIT_FAILED)


def _questions(folder: Path) -> list[RecallQuestion]:
    from braid_cli.datasets.dataset import read_dataset

    judged = read_dataset(folder, folder.name, judged=True).judged
    return [
        RecallQuestion(tenant_id=folder.name, text=each.query.text, relevant=tuple(each.relevant))
        for each in judged
        if each.relevant
    ]


def _show_outdated(services: Services, tenant: str | None, *, as_json: bool) -> None:
    found: dict[str, dict[str, int]] = {}
    for tenants in reembedding.tenant_pages(services, tenant):
        found |= {name: reembedding.outdated(services, name) for name in tenants}
    if as_json:
        print_json({"outdated": found})
        return
    for name, counts in found.items():
        reasons = [f"{count:,} {_reason(reason)}" for reason, count in counts.items() if count]
        out.print(f"[bold]{name}[/]: {', '.join(reasons) or 'nothing is outdated'}")


def _reason(reason: str) -> str:
    return "too many schema versions behind" if reason == "schema" else f"without a vector of {reason}"


def _show_jobs(services: Services, *, as_json: bool) -> None:
    jobs = reembedding.status(services)
    serving = services.migration.serving()
    if as_json:
        print_json(
            {
                "active_profile": services.active_profile(),
                "next_profile": serving.next,
                "previous_profile": serving.previous,
                "jobs": [Progress.of(job).model_dump(mode="json") for job in jobs],
            }
        )
        return
    _show_served(serving, services, as_json=False)
    table = Table("job", "status", "phase", "done", "a second", "left", "updated", box=None, pad_edge=False)
    for job in jobs:
        table.add_row(
            job.name if job.kind is JobKind.REFRESH or job.moves_tenant else f"{job.name} to {job.profile}",
            job.status.value,
            job.phase.value,
            f"{job.written:,} of {job.total:,}",
            "" if job.rate is None else f"{job.rate:.1f}",
            _left(job),
            f"{job.updated_at:%Y-%m-%d %H:%M:%S}",
        )
    if jobs:
        out.print(table)


def _left(job: ReembeddingJob) -> str:
    if job.eta_s is None or not job.open:
        return ""
    minutes, seconds = divmod(round(job.eta_s), 60)
    return f"{minutes // 60:d} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes:d} min {seconds:02d} s"  # noqa: PLR2004 - an hour


def _show_job(job: ReembeddingJob, *, as_json: bool) -> None:
    if as_json:
        print_json(Progress.of(job).model_dump(mode="json"))
        return
    rate = "" if job.rate is None else f", {job.rate:.0f} a second"
    lost = f", {job.lost:,} changed meanwhile and left" if job.lost else ""
    out.print(f"{job.name}: {job.status.value}; {job.written:,} of {counted(job.total, 'record')} embedded{rate}{lost}")
    if job.check is not None:
        out.print(
            f"  recall of {counted(job.check.asked, 'question')}: {job.check.recall_before:.3f} before, "
            f"{job.check.recall_after:.3f} after; {job.check.overlap:.0%} of the answers are the same"
        )
    if job.message:
        out.print(f"  {job.message}", markup=False)
    for each in job.set_aside:
        out.print(f"  set aside: {each.tenant}/{each.record_id}: {each.error}", markup=False)
    if job.status is Status.RUNNING and job.phase is not Phase.DONE:
        out.print(f"  {_SPENT}")


def _show_served(serving: MigrationState, services: Services, tenant: str | None = None, *, as_json: bool) -> None:
    active = serving.active or services.profile
    if as_json:
        print_json({"active_profile": active, "next_profile": serving.next, "previous_profile": serving.previous})
        return
    if tenant is not None:
        beside = "a move is open" if serving.next else "no other index of it is kept"
        out.print(f"[bold]{tenant}[/]: {'the index before is kept' if serving.previous else beside}")
        return
    beside = f"; a move to {serving.next} is open" if serving.next else ""
    beside = f"; {serving.previous} is kept for a roll-back" if serving.previous else beside
    out.print(f"questions are embedded by profile [bold]{active}[/]{beside}")
