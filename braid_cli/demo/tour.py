"""The tour of ``braid demo``, through the deployed handlers and the deployed state machine.

Without the extra ``workflow`` the stages are called one after another, as by ``braid search``; answers are the same.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from braid.app import Application
from braid.errors import TransientStoreError
from braid.ingestion.documents.ingesting import Options, ingest_documents
from braid.ingestion.documents.progress import FolderDone
from braid.models import Query
from braid.retrieval import pipeline
from rich.text import Text

from braid_cli.answer_rendering import show_answer
from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from braid_cli.demo.schema_change import show_schema_change
from braid_cli.evaluation.configurations import configurations
from braid_cli.evaluation.recording_stages import RecordingStages
from braid_cli.evaluation.run import evaluate
from braid_cli.evaluation.show import show_evaluation
from braid_cli.state_machine.interpreter import Workflow
from braid_cli.state_machine.invoke_endpoint import stage_handlers
from braid_cli.terminal import make_models, print_heading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from braid.ingestion.documents.ingesting import DocumentStore
    from braid.ingestion.documents.progress import Event as FolderEvent
    from braid.models import Answer
    from rich.console import Console

    _Answer = Callable[[Query], Answer]
    Progress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]

CORPUS = Path(__file__).resolve().parent
MAIN_TENANT = "saltmarrow"
TENANTS = (MAIN_TENANT, "pellworth")
FILES_TENANT = "wrenfield"
FILES_QUESTIONS = (
    "Why was Wrenfield Lock closed in March?",
    "Who supplied the piston seals with the stamp SB-17?",
    "What did the trustees decide about seals and windlasses?",
)
"""Questions about files: an e-mail, a table and the minutes of a meeting."""
FOUND_QUESTIONS = (
    ("What stands today where Maud Halloran learnt her work?", "who-is-who/cressing-yard.md"),
    ("What became of the firm that Tobias Quill wrote letters for?", "who-is-who/harnwell-and-pike.md"),
    ("Who uses the place that Orla Fenwick came from?", "who-is-who/skerrow-canal.md"),
)
"""Questions about the same files, each with the answering file, which is reached only through names found in texts."""
SHOWN = 4
FILES_SHOWN = 2

QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "Only the graph knows: no cause of the stoppage shares a word with it.",
        {"text": "What was the root cause of the Lisbon label stoppage?"},
    ),
    ("Plain words and vectors are enough here.", {"text": "What does Wharfinger do?"}),
    ("Code is found by what it does.", {"text": "Which function decides whether a tracking notification is sent?"}),
    ("What holds today …", {"text": "How long does Fairlead keep messages?"}),
    ("… and what held in January 2024.", {"text": "How long does Fairlead keep messages?", "as_of": "2024-01-10"}),
    (
        "Another tenant asks about a storm of the same name, and sees its own.",
        {"text": "What caused the Beacon text storm?", "tenant_id": "pellworth"},
    ),
)
NO_ANSWER = "the search index did not answer in time"
DEGRADED = "What was the root cause of the Lisbon label stoppage?"


def tour(console: Console, application: Application, progress: Progress) -> None:
    """Ingest the demo corpus, answer questions, also without the search index, and measure.

    Parameters
    ----------
    console
        Console to print to.
    application
        Embedded engines and models.
    progress
        Returns a progress bar with a label.
    """
    began = time.perf_counter()
    print_heading(console, "Two companies' incident archives")
    make_models(application)
    for tenant in TENANTS:
        dataset = read_dataset(CORPUS / tenant, tenant)
        with progress(f"Embedding {tenant}") as on_progress:
            done = ingest(dataset, application, on_progress=on_progress)
        state = "unchanged" if done.unchanged else "ingested"
        console.print(
            f"{state} [bold]{tenant}[/]: {len(dataset.records)} records, {len(dataset.relationships)} relationships"
        )
    with _answering(console, application) as (answer, lost):
        for number, (heading, fields) in enumerate(QUESTIONS):
            query = Query.model_validate({"tenant_id": MAIN_TENANT, "top_k": SHOWN} | fields)
            _ask(console, answer, query, heading, legend=number == 0)
        query = Query(text=DEGRADED, tenant_id=MAIN_TENANT, top_k=SHOWN)
        lost.set()
        _ask(console, answer, query, "The search index is down: the graph answers, and says so.", legend=False)
        lost.clear()
        _show_files(console, application, answer)
    console.print()
    print_heading(console, "Measured on the corpus's judged questions")
    judged = read_dataset(CORPUS / MAIN_TENANT, MAIN_TENANT, judged=True).judged
    with progress("Asking") as on_progress:
        ways = configurations(application.settings, brief=True)
        # Embeddings are cached, as no latencies are shown: a question is embedded once for all configurations.
        kept = {"cache_embedding_s": application.settings.cache_embedding_s}
        with closing(Application(application.settings.uncached().model_copy(update=kept))) as fresh:
            measured = evaluate(
                MAIN_TENANT, judged, fresh, configurations=ways, on_progress=on_progress, with_confidence=False
            )
        show_evaluation(console, measured)
    show_schema_change(console, application, CORPUS / TENANTS[1])
    console.print()
    console.print(Text(f"Done in {time.perf_counter() - began:.0f} s. Now ask your own:", style="bold"))
    console.print("  make serve      the same in a browser, with the paths drawn", soft_wrap=True)
    console.print("  braid search 'What caused the Beacon text storm?' -t saltmarrow --explain", soft_wrap=True)
    console.print("  braid ingest YOUR-FOLDER --tenant YOUR-NAME", soft_wrap=True)
    console.print(Text("A folder of documents will do; README.md says what else one may hold.", style="dim"))


def ingest_files(folder: Path, application: DocumentStore) -> FolderEvent:
    """Ingest the folder of files, under a fixed name in every clone, and return the last event."""
    *_, done = ingest_documents(folder, application, tenant_id=FILES_TENANT, options=Options(name=FILES_TENANT))
    return done


def _show_files(console: Console, application: Application, answer: _Answer) -> None:
    """Ingest a folder of files, and answer questions from their texts and by the names found in them."""
    console.print()
    print_heading(console, "A folder of files, and nothing else")
    done = ingest_files(CORPUS / FILES_TENANT, application)
    if isinstance(done, FolderDone):
        state = "ingested" if done.read else "unchanged"
        console.print(f"{state} [bold]{FILES_TENANT}[/]: {done.documents} documents, {done.chunks} chunks")
    for text in FILES_QUESTIONS:
        query = Query(text=text, tenant_id=FILES_TENANT, top_k=FILES_SHOWN)
        _ask(console, answer, query, "", legend=False)
    heading = "Nobody gave a graph: the file that answers is found by a name in another one."
    for text, _ in FOUND_QUESTIONS:
        query = Query(text=text, tenant_id=FILES_TENANT, top_k=FILES_SHOWN)
        _ask(console, answer, query, heading, legend=False)
        heading = ""


def _ask(console: Console, answer: _Answer, query: Query, heading: str, *, legend: bool) -> None:
    console.print()
    if heading:
        print_heading(console, heading, style="dim")
    asked = Text("? ", style="bold cyan").append(query.text, style="bold")
    if query.as_of:
        asked.append(f"  as of {query.as_of:%Y-%m-%d}", style="dim")
    console.print(asked)
    show_answer(console, answer(query), legend=legend)


@contextmanager
def _answering(console: Console, application: Application) -> Iterator[tuple[_Answer, Event]]:
    """Provide the pipeline or workflow that answers, and an event: while it is set, the search fails."""
    lost = Event()

    def losable(search: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: object) -> Any:  # noqa: ANN401 - as the search
            if lost.is_set():
                raise TransientStoreError(NO_ANSWER)
            return search(*given)

        return called

    if find_spec("moto") is None:
        console.print(Text("Called one after another: the state machine needs the extra workflow.", style="dim"))
        stages = RecordingStages(application)
        stages.vector_search = losable(stages.vector_search)  # type: ignore[method-assign]
        yield lambda query: pipeline.answer(query, stages), lost
        return
    handlers = stage_handlers()
    with Workflow({**handlers, "vector_search": losable(handlers["vector_search"])}) as workflow:
        yield workflow.answer, lost
