"""Tuning: what is fused offline is what the pipeline answers, and only what is better on held-out questions is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.models import Candidate, Fusion, FusionParameters, Intent, Source, StoredRecord
from braid.ranking.fusion import best_scores
from braid.ranking.scoring import Drift
from braid.retrieval import pipeline
from braid.retrieval.stages.candidates import Ranked
from braid.retrieval.stages.reordering_by_text import Mentions
from braid.retrieval.stages.stage_messages import FuseRequest
from braid.settings import Settings
from braid.settings.configuration_files import Fitted, load_fitted, read_fitted
from rich.console import Console

from braid_cli.datasets.dataset import JudgedQuery, read_dataset
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation import run as evaluating
from braid_cli.tuning import run as tuning
from braid_cli.tuning.captured_questions import CapturedQuestion, Found, capture
from braid_cli.tuning.coordinate_search import TUNED_PARAMETERS, quality, search
from braid_cli.tuning.run import Tuning, assign_folds, tune, tune_folders, write
from braid_cli.tuning.show import show_tuning
from tests.fakes import NOW, hits, plan, query, record, walked
from tests.stages import DEMO, DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEFAULTS = FusionParameters()
OTHERS = (
    DEFAULTS,
    FusionParameters(graph_weight=0.9, vector_weight=0.1, hit_share=0.2),
    FusionParameters(lexical_share=0.8, causal_shift=0.4, entity_shift=0.2, hit_share=1.0),
    FusionParameters(temporal_shift=-0.5, lookup_shift=-0.3, count_shift=0.4, hit_share=0.0),
    FusionParameters(name_weight=1.0, damping=0.5, bridging=1.0, coherence=0.0, lexical_share=0.7),
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("demo"))
    yield stages
    stages.store.close()


def put_first(stages: DemoStages, judged: Sequence[JudgedQuery], parameters: FusionParameters) -> list[list[str]]:
    stages.fitted = Fitted(parameters)
    return [[one.id for one in pipeline.answer(question.query, stages).results] for question in judged]


@pytest.mark.parametrize("method", [None, *Fusion])
def test_what_is_fused_offline_is_what_the_pipeline_answers_whatever_the_parameters(
    stages: DemoStages, method: Fusion | None
) -> None:
    judged = [
        one.model_copy(update={"query": one.query.model_copy(update={"fusion": method})})
        for one in read_dataset(DEMO / "saltmarrow", "saltmarrow", judged=True).judged[::3]
    ]
    captured = capture("saltmarrow", judged, stages)
    answered = [put_first(stages, judged, parameters) for parameters in OTHERS]
    assert [[one.ranking(parameters) for one in captured] for parameters in OTHERS] == answered
    assert len({str(answer) for answer in answered}) >= 3  # or it would be no wonder


def found(number: int, *, by: Source, dataset: str = "made", intent: Intent = Intent.EXPLORATORY) -> CapturedQuestion:
    """Return a question whose one relevant record a single strand puts first."""
    good, bad = ("good", "bad") if by is Source.VECTOR else ("bad", "good")
    text, graph = hits((good, 0.6)), (walked("seed", bad, score=0.6),)
    asked = query(f"question {number}")
    return CapturedQuestion(
        dataset=dataset,
        question=JudgedQuery(id=f"q{number}", query=asked, relevant={"good": 1}, metadata={}),
        found=Found(
            request=FuseRequest(query=asked, plan=plan(intent), trace_id="t", started_at=NOW),
            hits=(text, (), graph),
            texts={Source.VECTOR: best_scores(text), Source.LEXICAL: {}},
            graph=best_scores(graph),
            propagated={},
            read={
                one: Ranked(Candidate(id=one, combined_score=0.5), StoredRecord.of(record(one)), 1, Drift.NONE, 0.5)
                for one in ("good", "bad")
            },
            mentions=Mentions("", ()),
        ),
    )


def test_a_search_turns_to_the_strand_that_is_right() -> None:
    right = [found(number, by=Source.GRAPH) for number in range(10)]
    start = FusionParameters(vector_weight=0.8, graph_weight=0.2)
    assert quality(right, start, "mrr") == 0.5
    made = search(right, start, metric="mrr")
    assert made.graph_weight > 0.5
    assert quality(right, made, "mrr") == 1.0


def test_an_intent_of_its_own_gets_a_shift_of_its_own() -> None:
    mixed = [found(number, by=Source.VECTOR) for number in range(10)]
    mixed += [found(number, by=Source.GRAPH, intent=Intent.LOOKUP) for number in range(10, 20)]
    made = search(mixed, DEFAULTS, metric="mrr")
    assert quality(mixed, made, "mrr") == 1.0
    assert made.lookup_shift < 0


def test_the_same_seed_finds_the_same() -> None:
    mixed = [found(number, by=Source.GRAPH if number % 3 else Source.VECTOR) for number in range(12)]
    assert search(mixed, DEFAULTS, seed=4) == search(mixed, DEFAULTS, seed=4)


def test_what_helps_no_question_is_left_as_it_was() -> None:
    answered = [found(number, by=Source.VECTOR) for number in range(10)]
    start = FusionParameters(vector_weight=0.7, graph_weight=0.3)
    assert search(answered, start) == start


def test_every_value_of_every_knob_makes_parameters_that_are_allowed() -> None:
    for parameter in TUNED_PARAMETERS:
        for value in parameter.values:
            changed = parameter.with_value(DEFAULTS, value)
            assert FusionParameters.model_validate(changed.model_dump()) == changed


def test_each_fold_has_its_share_of_each_dataset() -> None:
    questions = [found(n, by=Source.GRAPH, dataset="a") for n in range(20)]
    questions += [found(n, by=Source.GRAPH, dataset="b") for n in range(11)]
    folds = assign_folds(questions, 5, seed=3)
    for name, least in (("a", 4), ("b", 2)):
        counts = [
            sum(fold == number and one.dataset == name for one, fold in zip(questions, folds, strict=True))
            for number in range(5)
        ]
        assert min(counts) == least
        assert max(counts) - min(counts) <= 1
    assert assign_folds(questions, 5, seed=3) == folds
    assert assign_folds(questions, 5, seed=4) != folds


def test_what_lasts_on_held_out_questions_is_accepted() -> None:
    start = FusionParameters(vector_weight=0.8, graph_weight=0.2)
    made = tune([found(number, by=Source.GRAPH) for number in range(20)], start)
    assert made.refusal() is None
    assert made.compared[-1].after.means["mrr"] == 1.0
    assert made.compared[-1].change.means["mrr"] == pytest.approx(0.5)
    assert len(made.by_fold) == 5


def test_a_question_is_reported_with_parameters_that_were_fitted_without_it() -> None:
    # One question alone wants another weight: what is fitted with it serves it, and what is fitted without does not.
    odd = [found(0, by=Source.GRAPH, intent=Intent.CAUSAL)]
    questions = [*odd, *(found(number, by=Source.VECTOR) for number in range(1, 10))]
    start = FusionParameters(vector_weight=0.9, graph_weight=0.1, causal_shift=0.0)
    made = tune(questions, start, metric="mrr")
    assert quality(odd, made.after, "mrr") == 1.0
    assert made.compared[-1].after.per_query["mrr"]["made/q0"] == 0.5
    refused = made.refusal()
    assert refused
    assert refused.startswith("not better on held-out questions: mrr +0.0000")


def test_nothing_better_is_refused_as_such() -> None:
    start = FusionParameters(vector_weight=0.8, graph_weight=0.2)
    made = tune([found(number, by=Source.VECTOR) for number in range(10)], start)
    assert made.refusal() == "no other parameters are better on these questions than those in force"


def test_one_dataset_is_not_bettered_at_the_cost_of_another() -> None:
    many = [found(number, by=Source.GRAPH, dataset="many") for number in range(60)]
    few = [found(number, by=Source.VECTOR, dataset="few") for number in range(6)]
    made = tune([*many, *few], FusionParameters(vector_weight=0.8, graph_weight=0.2), metric="mrr")
    assert made.compared[-1].change.intervals["mrr"][0] > 0
    assert (made.refusal() or "").startswith("worse on held-out questions of few: mrr -0.5")


def test_fewer_questions_than_folds_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="3 judged questions make no 5 folds"):
        tune([found(number, by=Source.GRAPH) for number in range(3)], DEFAULTS)


def tuned() -> Tuning:
    return tune(
        [found(number, by=Source.GRAPH) for number in range(20)], FusionParameters(vector_weight=0.8, graph_weight=0.2)
    )


def test_what_is_written_is_what_the_system_reads_with_how_it_was_found(tmp_path: Path) -> None:
    made = tuned()
    write(made, tmp_path / "home" / "fitted.json")
    fitted = load_fitted(Settings(home=tmp_path / "home"))
    assert fitted.parameters == made.after
    evidence = read_fitted(tmp_path / "home" / "fitted.json").evidence
    assert evidence["held_out"]["all"]["questions"] == 20
    assert evidence["held_out"]["all"]["difference"]["mean"] > 0
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["fitted.json"]


def test_a_file_that_is_replaced_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    made = tuned()
    assert write(made, path) is None
    first = path.read_bytes()
    path.write_bytes(earlier := first.replace(b"{", b"{ ", 1))
    assert write(made, path) == tmp_path / "fitted.json.before"
    assert (path.read_bytes(), (tmp_path / "fitted.json.before").read_bytes()) == (first, earlier)


def test_the_table_says_what_it_is_worth_on_held_out_questions_and_what_changed() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        show_tuning(console, tuned())
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "ndcg@10 on held-out questions, 5 folds"
    (row,) = [line for line in lines if line.split()[:2] == ["made", "20"]]
    assert "1.000" in row
    (changed,) = [line for line in lines if line.split()[:1] == ["graph_weight"]]
    assert changed.split()[1] == "0.2"


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a way to make engines without a model, whose copies for measuring are of the same kind.

    Of the parameters a few are fitted, on the texts and by asking the graph again.
    """
    opened: list[DemoStages] = []

    def make(settings: Settings) -> DemoStages:
        opened.append(DemoStages(settings))
        return opened[-1]

    monkeypatch.setattr(evaluating, "Application", make)
    few = ("graph_weight", "lexical_share", "damping")
    monkeypatch.setattr(tuning, "TUNED_PARAMETERS", [one for one in TUNED_PARAMETERS if one.name in few])
    yield lambda **settings: make(Settings(home=tmp_path / "home", **settings))
    for each in opened:
        each.store.close()


def test_judged_questions_of_a_file_are_tuned_on_what_is_stored_as_those_of_a_folder_are(
    fresh: Any, tmp_path: Path
) -> None:
    stages = fresh()
    ingest(read_dataset(DEMO / "pellworth", "acme"), stages)
    folder = read_dataset(DEMO / "pellworth", "acme", judged=True)
    lines = [
        {"_id": one.id, "text": one.query.text, "relevant": one.relevant, "metadata": one.metadata}
        for one in folder.judged
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    of_file = tune_folders([file], stages, tenant_id="acme", folds=2)
    of_folder = tune_folders([DEMO / "pellworth"], stages, folds=2)
    assert (of_file.after, of_file.by_fold) == (of_folder.after, of_folder.by_fold)
    (fitted_on,) = of_folder.evidence()["fitted_on"]
    assert (fitted_on["dataset"], fitted_on["questions"]) == ("pellworth", 10)
    assert json.loads(json.dumps(of_folder.as_json())) == of_folder.as_json()


def test_what_an_operator_set_is_not_turned(fresh: Any) -> None:
    made = tune_folders([DEMO / "pellworth"], fresh(lexical_share=0.9), folds=2)
    assert {one.lexical_share for one in (made.before, made.after, *made.by_fold)} == {0.9}
