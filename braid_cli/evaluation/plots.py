"""Plots of an evaluation: recall at each rank, quality against latency, and reliability of confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braid_cli.evaluation.configurations import DEFAULT

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from braid_cli.evaluation.calibration import Reliability
    from braid_cli.evaluation.run import Evaluation, Row

SIZE = (14.5, 4.4)
"""Width and height in inches: the width of a page, with readable labels."""
DOTS = 110
"""Resolution of PNG files, in dots per inch."""
INK, FAINT = "#222222", "#d9d9d9"
# Okabe and Ito's palette, which is safe for colour-blind readers; dashes and markers differ as well.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f", "#8c6d31")
DASHES = ("-", "--", "-.", ":")
TICKS = (1, 2, 5, 10, 15, 20)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")


def draw(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write ``NAME.svg`` and ``NAME.png``, reproducibly: the same figures give the same files.

    Parameters
    ----------
    evaluation
        The figures.
    folder
        Folder to write to; created if it does not exist.

    Returns
    -------
    list of Path
        The written files.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    fixed: dict[Any, Any] = {"svg.hashsalt": "braid", "svg.fonttype": "none", "font.size": 9, "axes.edgecolor": INK}
    with mpl.rc_context(fixed):
        figure = Figure(figsize=SIZE, layout="constrained")
        curve, speed, sureness = figure.subplots(1, 3)
        _draw_curves(curve, evaluation)
        _draw_speed(speed, evaluation)
        _draw_reliability(sureness, evaluation.confidence)
        figure.suptitle(f"{evaluation.dataset}, {len(evaluation.questions)} questions", fontweight="bold")
        handles, labels = curve.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False)
        written = [folder / f"{evaluation.file_name}.svg", folder / f"{evaluation.file_name}.png"]
        figure.savefig(written[0], metadata={"Date": None, "Creator": None})
        figure.savefig(written[1], dpi=DOTS, metadata={"Software": None})
    return written


def _style(number: int, row: Row) -> dict[str, Any]:
    if row.name == DEFAULT:
        return {"color": INK, "linewidth": 2.6, "zorder": 3, "marker": "*", "markersize": 10}
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linewidth": 1.4,
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5,
    }


def _draw_curves(axes: Axes, evaluation: Evaluation) -> None:
    for number, row in enumerate(evaluation.rows):
        ranks = range(1, len(row.figures.curve) + 1)
        shown = [position for position, rank in enumerate(ranks) if rank in TICKS]
        axes.plot(ranks, row.figures.curve, label=row.name, markevery=shown, **_style(number, row))
    axes.set(xlabel="rank k", ylabel="recall@k", ylim=(0, 1.02), title="How much is found among the first k")
    axes.set_xticks(TICKS)
    _plain(axes)


def _draw_speed(axes: Axes, evaluation: Evaluation) -> None:
    for number, row in enumerate(evaluation.rows):
        style = _style(number, row)
        value, (low, high) = row.figures.means["ndcg@10"], row.figures.intervals["ndcg@10"]
        axes.errorbar(
            [row.latency(50)],
            [value],
            yerr=[[max(0.0, value - low)], [max(0.0, high - value)]],
            fmt=style["marker"],
            color=style["color"],
            markersize=12 if row.name == DEFAULT else 6,
            capsize=2,
            elinewidth=0.8,
        )
    axes.set(xlabel="one question, p50 in ms", ylabel="nDCG@10 and its 95 % interval", title="Quality against latency")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    _plain(axes)


def _draw_reliability(axes: Axes, confidence: Reliability | None) -> None:
    axes.plot([0, 1], [0, 1], color=FAINT)
    if confidence:
        bins = confidence.bins()
        most = max(each.weight for each in bins)
        sizes = [20 + 180 * each.weight / most for each in bins]
        axes.plot([each.confidence for each in bins], [each.answered for each in bins], color=INK, linewidth=1)
        axes.scatter([each.confidence for each in bins], [each.answered for each in bins], s=sizes, color=COLOURS[0])
    axes.set(xlabel="confidence, by tenths", ylabel="share answered", title="Confidence against what is answered")
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
