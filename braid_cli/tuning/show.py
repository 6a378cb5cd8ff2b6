"""Renders a fit on a terminal: held-out scores before and after, and the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models.enums_and_scalars import on_one_line
from rich import box
from rich.table import Table
from rich.text import Text

from braid_cli.evaluation.show import SIGNIFICANCE, format_p, format_score

if TYPE_CHECKING:
    from rich.console import Console

    from braid_cli.evaluation.metrics import Figures
    from braid_cli.tuning.run import Tuning


def show_tuning(console: Console, tuning: Tuning) -> None:
    """Print the scores on held-out questions before and after the fit, and the parameters."""
    title = f"{tuning.metric} on held-out questions, {tuning.folds} folds"
    console.print(Text(title, style="bold"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("dataset")
    for heading in ("questions", "before", "after", "Δ", "95 % interval", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    # With a single dataset, the row of all would repeat it.
    for one in tuning.compared if len(tuning.compared) > 2 else tuning.compared[:1]:  # noqa: PLR2004 - it and all
        change, chance = one.change.means[tuning.metric], one.change.p[tuning.metric]
        low, high = one.change.intervals[tuning.metric]
        style = ("green" if change > 0 else "red") if chance < SIGNIFICANCE else "dim"
        table.add_row(
            Text(on_one_line(one.name)),
            str(one.questions),
            _with_interval(one.before, tuning.metric),
            _with_interval(one.after, tuning.metric),
            Text(format_score(change, signed=True), style=style),
            f"{format_score(low, signed=True)} {format_score(high, signed=True)}",
            format_p(chance),
            style="bold" if one is tuning.compared[-1] else "",
        )
    console.print(table)
    _show_parameters(console, tuning)


def _with_interval(figures: Figures, metric: str) -> Text:
    low, high = figures.intervals[metric]
    return Text(format_score(figures.means[metric])).append(f" ±{format_score((high - low) / 2)}", style="dim")


def _show_parameters(console: Console, tuning: Tuning) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("parameter")
    for heading in ("before", "after", "of the folds"):
        table.add_column(heading, justify="right", no_wrap=True)
    before, after = tuning.before.model_dump(), tuning.after.model_dump()
    for name, value in before.items():
        of_folds = sorted(float(getattr(one, name)) for one in tuning.by_fold)
        spread = f"{of_folds[0]:g}" if of_folds[0] == of_folds[-1] else f"{of_folds[0]:g} to {of_folds[-1]:g}"
        same = after[name] == value
        table.add_row(name, f"{value:g}", Text(f"{after[name]:g}", style="dim" if same else "bold"), spread)
    console.print(table)
    notes = "after: fitted on all questions; of the folds: fitted on all but one fold each"
    console.print(Text(notes, style="dim"))
