"""``braid context``: builds a model's context from conversation, stored records, and past decisions and tool calls."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from braid.errors import InvalidRequest
from braid.models import ContextRole, Kind, Ranking
from braid.models.enums_and_scalars import on_one_line
from braid.retrieval.context.message_selection import Context, ContextSource, message_text
from braid.retrieval.context.text_fences import unfenced
from rich.table import Table
from rich.text import Text

from braid_cli.options import DEFAULT_TENANT, AsJson, AsOf, Tenant, Where, any_of
from braid_cli.question_validation import check_known, of_option, question, unusable_models
from braid_cli.terminal import complain, examples, out, print_json, read_input

if TYPE_CHECKING:
    from braid.retrieval.context.message_selection import ContextScores
    from rich.console import Console

app = typer.Typer()
_OPTIONS = {"query": "TEXT", "tenant_id": "--tenant", "task_id": "--task", "tool_name": "--tool"}
_FROM = {
    ContextSource.WORKING_STATE.value: "the conversation",
    ContextSource.SEMANTIC.value: "what is stored",
    ContextSource.EPISODIC.value: "what was decided and done",
}
_SHOWN_CHARACTERS = 300
_MAX_BYTES = 50_000_000


@app.command(
    epilog=examples(
        "braid context 'Why did checkout fail?' -t saltmarrow --messages chat.json",
        "braid context 'Why did checkout fail?' -t saltmarrow --messages - --task t-7 --json < chat.jsonl",
    )
)
def context(
    text: Annotated[str, typer.Argument(help="The next question, 1 to 10,000 characters.", metavar="TEXT")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    messages: Annotated[
        Path | None,
        typer.Option(
            "--messages",
            "-m",
            help="The conversation so far, oldest message first: a JSON array or JSON Lines; - reads standard input.",
            metavar="FILE",
            allow_dash=True,
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only episodes of this task.", metavar="ID")] = None,
    tool: Annotated[str | None, typer.Option(help="Only episodes of this tool.", metavar="NAME")] = None,
    as_of: AsOf = None,
    where: Where = None,
    working_state: Annotated[
        bool, typer.Option("--working-state/--no-working-state", help="Whether to use the conversation.")
    ] = True,
    semantic: Annotated[
        bool, typer.Option("--semantic/--no-semantic", help="Whether to search the stored records.")
    ] = True,
    episodic: Annotated[
        bool, typer.Option("--episodic/--no-episodic", help="Whether to search past decisions and tool calls.")
    ] = True,
    ranking: Annotated[
        Ranking,
        typer.Option(help=f"Ranking profile: {any_of(Ranking)}.", metavar="RANKING"),
    ] = Ranking.RECENCY,
    role: Annotated[
        ContextRole | None,
        typer.Option(
            help=f"Role of messages with retrieved text: {any_of(ContextRole)}. Default: BRAID_CONTEXT_ROLE.",
            metavar="ROLE",
        ),
    ] = None,
    untrusted: Annotated[bool, typer.Option("--untrusted", help="Include untrusted records.", metavar="")] = False,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Lowest score that is shown, 0 to 1; 0 shows all that is found. Default: BRAID_CONTEXT_MIN_FINAL, "
            "else 0.5.",
            metavar="SCORE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a model's context from the conversation, stored records, and past decisions and tool calls."""
    from braid.app import application
    from braid.retrieval.context.building import build_context

    conversation = read_messages(messages) if messages is not None else []
    asked = question({"text": text, "tenant_id": tenant, "as_of": as_of})
    memory = application()
    check_known(tenant, memory)
    for problem in unusable_models(asked, memory) if semantic else []:
        complain(f"without {problem}", style="yellow")
    try:
        built = build_context(
            text,
            conversation,
            task,
            tenant_id=tenant,
            memory=memory,
            tool_name=tool,
            working_state=working_state,
            semantic=semantic,
            episodic=episodic,
            ranking=ranking,
            role=role,
            untrusted=untrusted,
            metadata=where or (),
            as_of=asked.as_of,
            min_score=min_score,
        )
    except InvalidRequest as error:
        raise of_option(error, _OPTIONS | {"filters": "--where", "metadata": "--where"}) from None
    if as_json:
        print_json(built.model_dump(mode="json"))
        return
    show(out, built, min_score=memory.context_limits.min_final if min_score is None else min_score)


def read_messages(file: Path) -> list[dict[str, Any]]:
    """Read the messages of a conversation: one JSON array, or one JSON object a line.

    Raises InvalidRequest if it is neither; the message names the file, and the line or the message's number.
    """
    place, raw = read_input(file, _MAX_BYTES)
    if len(raw) > _MAX_BYTES:
        raise InvalidRequest.of("--messages", f"{place} is longer than {_MAX_BYTES:,} bytes")
    if raw.lstrip().startswith(b"["):
        read = _json(raw, place)
        entries = [(f"{place}: message {number}", entry) for number, entry in enumerate(read, start=1)]
    else:
        lines = enumerate(raw.splitlines(), start=1)
        entries = [(f"{place}:{number}", _json(line, f"{place}:{number}")) for number, line in lines if line.strip()]
    for where, entry in entries:
        if not isinstance(entry, dict):
            raise InvalidRequest.of("--messages", f"{where} is not a JSON object")
    return [entry for _, entry in entries]


def _json(raw: bytes, place: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        problem = "is not UTF-8"
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON: {error}"
    raise InvalidRequest.of("--messages", f"{place} {problem}")


def show(console: Console, built: Context, *, min_score: float) -> None:
    """Print the chosen messages with their scores, or how many were found below the lowest score that is shown."""
    for lost in built.degraded:
        console.print(Text(f"degraded: without {_FROM.get(lost, lost)} ({lost})", style="bold yellow"))
    if not built.enabled:
        console.print(Text("switched off by BRAID_CONTEXT_ENABLED: the conversation as it came", style="yellow"))
    if not built.messages:
        below = f" {built.metrics.found} found, all below the score {min_score:g}: --min-score 0 shows them."
        console.print(Text(f"Nothing to show.{below if built.metrics.found else ''}", style="yellow"))
        return
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim")
    for heading in ("score", "from", "role", "text"):
        table.add_column(heading, no_wrap=heading != "text", overflow="fold")
    for message, scores in zip_longest(built.messages, built.scores):
        table.add_row(*_row(message, scores))
    console.print(table)
    figures = built.metrics
    if built.enabled:
        console.print(Text(f"kept {figures.kept} of the {figures.found} found", style="dim"))


def _row(message: dict[str, Any], scores: ContextScores | None) -> tuple[Text, Text, Text, Text]:
    said = message_text(message)
    if scores and scores.source is not ContextSource.WORKING_STATE and "fence" in message["metadata"]:
        said = unfenced(said, message["metadata"]["fence"])
    # The excerpt of a fact is its first sentence, or the first name of a set.
    if scores and scores.source is ContextSource.SEMANTIC and message["metadata"]["kind"] != Kind.FACT.value:
        said = message["metadata"]["excerpt"]
    text = " ".join(on_one_line(said).split())
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
    return (
        Text(f"{scores.final:.3f}" if scores else "", style="bold"),
        Text(scores.source.value if scores else ""),
        Text(on_one_line(str(message.get("role", "")))),
        Text(cut),
    )
