"""``braid demo``: a guided tour, on the demo corpus."""

from __future__ import annotations

import typer

from braid_cli.terminal import examples, open_application, out, progress

app = typer.Typer()


@app.command(epilog=examples("braid demo"))
def demo() -> None:
    """Ingest the demo corpus, answer questions about it, and measure.

    It is stored for tenants of its own, saltmarrow, pellworth and wrenfield, which `braid delete tenant` deletes.

    The deployed handlers answer, on this machine and without a network; with the extra ``workflow``, which a clone has,
    the deployed state machine runs them.
    """
    from braid_cli.demo.tour import tour

    tour(out, open_application(), progress)
