"""Evaluation: figures equal to independent ones, intervals that repeat, and a folder ingested once."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import ir_measures
import pytest
from braid.errors import DatasetError, InvalidRequest, TransientStoreError
from braid.models import Fusion, Query, RerankerKind
from braid.models.enums_and_scalars import on_one_line
from braid.retrieval import pipeline
from braid.retrieval.pipeline import answer
from braid.retrieval.stages.confidence import Features
from braid.settings import Settings
from ir_measures import RR, R, nDCG
from pydantic import SecretStr
from rich.console import Console

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation import published_figures
from braid_cli.evaluation import run as evaluating
from braid_cli.evaluation.calibration import Asked, Reliability, WithoutRecords, ask
from braid_cli.evaluation.configurations import Configuration, RankedIds, configurations, local_rerankers
from braid_cli.evaluation.metrics import (
    CURVE,
    Difference,
    Figures,
    bootstrap,
    difference,
    percentile,
    randomisation_p,
    score,
)
from braid_cli.evaluation.plots import draw
from braid_cli.evaluation.published_figures import write
from braid_cli.evaluation.run import Evaluation, Row, evaluate, evaluate_folder, evaluate_stored
from braid_cli.evaluation.show import show_evaluation, show_failures, show_groups
from braid_cli.evaluation.worst_questions import Failure, failures
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.app import Application

METRICS = ("recall@2", "recall@5", "recall@10", "ndcg@10", "mrr")
NAMES = [way.name for way in configurations(Settings())]
TOPICS = ("valve", "pump", "turbine", "boiler", "gauge", "fitting")


def test_figures_of_one_question_are_those_worked_out_by_hand() -> None:
    row = score({"q": {"a": 1.0, "b": 0.5, "c": 0.33}}, {"q": {"b": 1, "z": 1}})
    discounted, ideal = 1 / 1.584962500721156, 1 + 1 / 1.584962500721156
    assert row.means == {
        "recall@2": 0.5,
        "recall@5": 0.5,
        "recall@10": 0.5,
        "ndcg@10": pytest.approx(discounted / ideal),
        "mrr": 0.5,
    }


def test_every_figure_is_that_of_ir_measures() -> None:
    dice = random.Random(11)  # noqa: S311 - test data
    documents = [f"d{number}" for number in range(40)]
    run, qrels = {}, {}
    for question in map(str, range(60)):
        ranking = dice.sample(documents, dice.choice((0, 1, 4, 10, 30)))
        run[question] = {one: 1.0 / rank for rank, one in enumerate(ranking, start=1)}
        qrels[question] = {one: dice.choice((1, 1, 2)) for one in dice.sample(documents, dice.randint(1, 15))}
    ties = {one: dice.choice((0.25, 0.5)) for one in dice.sample(documents, 30)}
    run |= {"ties": ties, "not judged": {"d1": 1.0}}
    qrels |= {"ties": dict.fromkeys(documents[::3], 1), "not asked": {"d1": 1}}
    theirs = {"ndcg@10": nDCG @ 10} | {f"recall@{rank}": R @ rank for rank in range(1, CURVE + 1)}
    ours = score(run, qrels)
    means = ir_measures.calc_aggregate(list(theirs.values()), qrels, run)
    for label in ours.means.keys() & theirs.keys():
        assert ours.means[label] == pytest.approx(means[theirs[label]]), label
        each = ir_measures.iter_calc([theirs[label]], qrels, run)
        assert ours.per_query[label] == pytest.approx({one.query_id: one.value for one in each}), label
    assert ours.curve == pytest.approx([means[theirs[f"recall@{rank}"]] for rank in range(1, CURVE + 1)])
    del run["ties"], qrels["ties"]  # whose order is another one where ir-measures takes MS MARCO's reciprocal rank
    assert score(run, qrels).means["mrr"] == pytest.approx(ir_measures.calc_aggregate([RR @ 10], qrels, run)[RR @ 10])


def test_a_question_that_was_not_answered_counts_as_nothing_found() -> None:
    row = score({"q1": {"a": 1.0}, "q2": {}}, {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}})
    assert row.means["recall@5"] == pytest.approx(1 / 3)
    assert row.per_query["mrr"] == {"q1": 1.0, "q2": 0.0, "q3": 0.0}


def test_an_interval_repeats_and_holds_the_mean() -> None:
    chance = random.Random(3)  # noqa: S311 - test data
    values = [chance.random() for _ in range(80)]
    low, high = bootstrap(values)
    assert bootstrap(values) == (low, high)
    assert low < sum(values) / len(values) < high
    assert 0.08 < high - low < 0.20  # 2 × 1.96 × 0.29 / √80 = 0.127


def test_an_interval_of_equal_values_is_that_value_and_of_none_is_nothing() -> None:
    assert bootstrap([0.25] * 9) == (0.25, 0.25)
    assert bootstrap([]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 50, 0.0), ([7.0], 95, 7.0), ([1.0, 2.0, 3.0], 50, 2.0), (list(range(101)), 95, 95.0)],
)
def test_a_percentile_is_read_between_sorted_values(values: list[float], share: int, expected: float) -> None:
    assert percentile(values, share) == expected


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder in which each question names the one record that answers it."""
    folder = tmp_path / "plant"
    (folder / "qrels").mkdir(parents=True)
    files: dict[str, list[dict[str, Any]]] = {
        "corpus": [{"_id": topic, "text": f"the {topic} is checked every week"} for topic in TOPICS],
        "entities": [{"id": f"part:{topic}", "name": topic} for topic in TOPICS],
        "relationships": [{"source": f"part:{topic}", "type": "MENTIONS", "target": topic} for topic in TOPICS],
        "queries": [{"_id": f"q-{topic}", "text": f"When is the {topic} checked?"} for topic in TOPICS[:4]],
    }
    for name, lines in files.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    rows = "".join(f"q-{topic}\t{topic}\t1\n" for topic in TOPICS[:4])
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")
    return folder


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    """Return engines without a model; evaluation opens stores of its own, of the same kind."""
    opened: list[DemoStages] = []

    def make(settings: Settings) -> DemoStages:
        opened.append(DemoStages(settings))
        return opened[-1]

    monkeypatch.setattr(evaluating, "Application", make)
    yield make(Settings(home=tmp_path / "home"))
    for each in opened:
        each.store.close()


def test_a_folder_is_measured_in_every_row(folder: Path, stages: DemoStages) -> None:
    figures = evaluate_folder(folder, stages).as_json()
    assert (figures["dataset"], figures["queries"], figures["degraded"]) == ("plant", 4, 0)
    assert list(figures["runs"]) == NAMES
    for row, values in figures["runs"].items():
        assert list(values) == ["recall@2", "recall@5", "recall@10", "ndcg@10", "mrr"]
        assert values["recall@2"] == 1.0, row
        for name, (low, high) in figures["confidence_95"][row].items():
            assert low <= values[name] <= high
    assert set(figures["latency_ms"]) == {"p50", "p95"}
    assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p95"]
    assert json.loads(json.dumps(figures)) == figures


def test_a_folder_is_ingested_once_and_anew_when_its_content_changes(
    folder: Path, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    encode = WordEncoder.encode

    def counted(self: WordEncoder, texts: Any, **named: Any) -> Any:
        embedded.append(len(texts))
        return encode(self, texts, **named)

    monkeypatch.setattr(WordEncoder, "encode", counted)
    first = evaluate_folder(folder, stages).as_json()["runs"]
    assert max(embedded) == len(TOPICS)
    embedded.clear()
    assert evaluate_folder(folder, stages).as_json()["runs"] == first
    assert max(embedded) == 1
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "text": "one more"}\n')
    embedded.clear()
    evaluate_folder(folder, stages)
    assert max(embedded) == len(TOPICS) + 1


def test_questions_may_change_without_ingesting_again(folder: Path, stages: DemoStages) -> None:
    evaluate_folder(folder, stages)
    told: list[int] = []
    (folder / "queries.jsonl").write_text('{"_id": "q-pump", "text": "Which pump?"}\n', encoding="utf-8")
    assert evaluate_folder(folder, stages, on_ingest=lambda done, _: told.append(done)).as_json()["queries"] == 1
    assert told == []


def test_what_users_ingested_is_left_alone(folder: Path, stages: DemoStages) -> None:
    evaluate_folder(folder, stages)
    assert stages.store.tenants() == []


def test_progress_counts_questions(folder: Path, stages: DemoStages) -> None:
    told: list[tuple[int, int]] = []
    evaluate_folder(folder, stages, on_question=lambda done, all_: told.append((done, all_)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("rows", ["", "query-id\tcorpus-id\tscore\n", "q-pump\tpump\t0\n", "q-nobody\tpump\t1\n"])
def test_a_folder_without_a_judged_question_is_refused_before_it_is_ingested(
    folder: Path, stages: DemoStages, rows: str
) -> None:
    (folder / "qrels" / "test.tsv").write_text(rows, encoding="utf-8")
    with pytest.raises(DatasetError, match=r"plant: no question of queries\.jsonl has a relevant record"):
        evaluate_folder(folder, stages)
    assert not (stages.settings.home / "eval").exists()


def test_a_file_of_judged_questions_measures_what_is_stored_of_a_tenant(
    folder: Path, stages: DemoStages, tmp_path: Path
) -> None:
    ingest(read_dataset(folder, "acme"), stages)
    judged = [
        {"_id": "q1", "text": f"When is the {TOPICS[0]} checked?", "relevant": {TOPICS[0]: 1, TOPICS[1]: 0}},
        {"_id": "q2", "text": "What is nowhere?", "relevant": {TOPICS[2]: 0}},
    ]
    file = tmp_path / "judged-acme.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in judged), encoding="utf-8")
    evaluation = evaluate_stored(file, "acme", stages)
    assert ([question.id for question in evaluation.questions], evaluation.dataset) == (["q1"], "judged-acme")
    assert evaluation.default.figures.means["recall@5"] == 1.0
    assert not (stages.settings.home / "eval").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"_id": "q", "text": "Who?"}', r"judged\.jsonl:1: .*relevant"),
        ('{"_id": "q", "text": "Who?", "relevant": {"a": "much"}}', r"judged\.jsonl:1: .*relevant"),
        ('{"_id": "q", "text": "Who?", "relevant": {"a": 0}}', "no question of it has a relevant record"),
        ("Who?", r"judged\.jsonl:1"),
    ],
)
def test_a_line_that_judges_nothing_is_refused_by_its_place(
    stages: DemoStages, tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "judged.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=said):
        evaluate_stored(tmp_path / "judged.jsonl", "acme", stages)


def test_other_questions_are_asked_of_the_folder_that_was_ingested_already(folder: Path, stages: DemoStages) -> None:
    evaluate_folder(folder, stages)
    shutil.copytree(folder / "qrels", folder / "held-back" / "qrels")
    (folder / "held-back" / "queries.jsonl").write_bytes((folder / "queries.jsonl").read_bytes())
    evaluation = evaluate_folder(folder, stages, questions="held-back")
    assert evaluation.dataset == "plant/held-back"
    assert len(list((stages.settings.home / "eval").iterdir())) == 1


def test_answers_that_lost_a_stage_are_counted_and_distrusted(
    folder: Path, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "LONGEST_WAIT_S", 0.0)
    assert evaluate_folder(folder, stages).degraded == 0
    judged = read_dataset(folder, "eval", judged=True).judged
    (own,) = (stages.settings.home / "eval").iterdir()
    sick = DemoStages(Settings(home=own))

    def fail() -> None:
        raise TransientStoreError("lost")

    sick.faults["graph_expand:expand"] = fail
    evaluation = evaluate("plant", judged, sick)
    assert evaluation.degraded == len(judged)

    sick.healthy()
    failures = [fail, fail]

    def fail_twice() -> None:
        if failures:
            failures.pop()()

    sick.faults["graph_expand:expand"] = fail_twice
    assert evaluate("plant", judged, sick).degraded == 0  # what a busy machine lost was asked again
    sick.store.close()
    console = Console(width=80)
    with console.capture() as capture:
        show_evaluation(console, evaluation)
    assert "4 answers lost a stage" in capture.get()


def test_each_fusion_has_a_row_propagation_last_and_the_default_configuration_ends_the_table() -> None:
    assert NAMES[:5] == ["dense", "lexical", "graph", "hybrid-rrf", "hybrid-weighted"]
    assert {name for name in NAMES if name.startswith("fusion-")} == {f"fusion-{fusion.value}" for fusion in Fusion}
    assert NAMES[-2:] == ["fusion-propagate", "braid"]


def test_a_cross_encoder_has_a_row_where_its_folder_is_and_a_service_that_costs_money_has_none(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, reranker_model="tiny", voyage_api_key=SecretStr("key"))
    assert RerankerKind.ONNX not in local_rerankers(settings)
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    assert RerankerKind.ONNX in local_rerankers(settings)
    assert not {RerankerKind.VOYAGE, RerankerKind.BEDROCK, RerankerKind.NONE} & set(local_rerankers(settings))
    assert "rerank-onnx" in [way.name for way in configurations(settings)]


def test_a_way_of_answering_is_a_name_and_a_function(folder: Path, stages: DemoStages) -> None:
    asked: list[str] = []

    def answer(query: Query, _application: object) -> RankedIds:
        asked.append(query.text)
        return RankedIds(("pump",))

    judged = read_dataset(folder, "eval", judged=True).judged
    made = evaluate("plant", judged, stages, configurations=[Configuration("always", "the pump", answer)])
    assert made.default.figures.means["recall@2"] == 0.25
    assert len(asked) == 5  # the first once more, before anything is measured


def figures_of(values: list[float]) -> Figures:
    per_query = {metric: {f"q{number}": value for number, value in enumerate(values)} for metric in METRICS}
    return Figures(dict.fromkeys(METRICS, sum(values) / len(values)), {}, per_query)


def test_a_difference_is_of_pairs_and_repeats() -> None:
    chance = random.Random(5)  # noqa: S311 - test data
    values = [chance.random() for _ in range(60)]
    better = figures_of([min(1.0, value + 0.05) for value in values])
    made = difference(better, figures_of(values), against="before")
    assert made == difference(better, figures_of(values), against="before")
    # The values differ by far more than the change, which is nevertheless sure: each is compared with its own pair.
    assert made.p["ndcg@10"] < 0.001
    assert made.means["ndcg@10"] == pytest.approx(0.05, abs=0.01)
    low, high = made.intervals["ndcg@10"]
    assert 0 < low <= made.means["ndcg@10"] <= high


def test_chance_is_that_of_all_signs() -> None:
    # Of the sixteen signs of four equal changes, two make as large a difference: 1/8.
    assert randomisation_p([0.1, 0.1, 0.1, 0.1, 0.0]) == pytest.approx(0.125, abs=0.01)
    assert randomisation_p([0.2, -0.2]) == 1.0
    assert randomisation_p([0.0, 0.0]) == randomisation_p([]) == 1.0


def test_each_row_is_compared_with_the_one_before_and_the_default_with_the_best_strand(
    folder: Path, stages: DemoStages
) -> None:
    evaluation = evaluate_folder(folder, stages)
    assert [row.against.against if row.against else None for row in evaluation.rows] == [None, *NAMES[:-1]]
    assert evaluation.against_best
    assert evaluation.against_best.against in {"dense", "lexical", "graph"}
    told = evaluation.as_json()["against_row_before"]["braid"]
    assert (told["row"], told["ndcg@10"]["mean"], told["ndcg@10"]["p"]) == (NAMES[-2], 0.0, 1.0)


def test_figures_are_broken_down_by_what_questions_say_of_themselves(folder: Path, stages: DemoStages) -> None:
    lines = [
        {"_id": f"q-{topic}", "text": f"When is the {topic} checked?", "metadata": metadata}
        for topic, metadata in zip(TOPICS, ({"hops": 2}, {"hops": 2}, {"hops": 3}, {}), strict=False)
    ]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    evaluation = evaluate_folder(folder, stages)
    assert evaluation.fields() == ["hops", "intent"]
    assert evaluation.groups("hops") == {"(none)": ["q-boiler"], "2": ["q-valve", "q-pump"], "3": ["q-turbine"]}
    assert list(evaluation.groups("intent")) == ["temporal"]
    by = evaluation.as_json()["by"]["hops"]
    assert by["2"]["queries"] == 2
    assert by["2"]["runs"]["braid"]["recall@2"] == 1.0
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        show_groups(console, evaluation, "hops")
    assert "ndcg@10 by hops" in capture.get()


def test_a_field_that_no_question_has_is_refused_and_those_that_there_are_named(
    folder: Path, stages: DemoStages
) -> None:
    with pytest.raises(InvalidRequest, match=r"no question of plant says its 'colour'; known are intent"):
        evaluate_folder(folder, stages).groups("colour")


def failed(folder: Path, stages: DemoStages, at_most: int = 9) -> list[Failure]:
    found: list[Failure] = []
    evaluate_folder(
        folder, stages, on_evaluated=lambda evaluation, own: found.extend(failures(evaluation, own, at_most=at_most))
    )
    return found


def test_a_failure_says_where_its_record_stood_and_what_came_instead(folder: Path, stages: DemoStages) -> None:
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("q-pump\tnowhere\t1\n")
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "secret", "title": "Unsaid", "text": "brass"}\n')
        file.write("".join(f'{{"_id": "v{n}", "text": "the valve is checked {n}"}}\n' for n in range(60)))
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("q-valve\tsecret\t1\n")
    valve, pump = sorted(failed(folder, stages), key=lambda one: one.question.id, reverse=True)
    assert [(one.id, one.verdict) for one in pump.relevant] == [("nowhere", "not in the index"), ("pump", "answered")]
    assert dict(valve.relevant[0].strands) == {}
    assert (valve.relevant[0].title, valve.relevant[0].verdict) == ("Unsaid", "no strand found it")
    assert (valve.relevant[1].id, valve.relevant[1].verdict) == ("valve", "answered")
    console = Console(width=90, color_system=None)
    with console.capture() as capture:
        show_failures(console, [valve])
    text = capture.get()
    for said in ("When is the valve checked?", "no strand found it", "Unsaid", "came instead", "vectors #1"):
        assert said in text
    told = json.loads(json.dumps(valve.as_json()))
    assert told["relevant"][0]["verdict"] == "no strand found it"
    assert len(told["instead"]) == 5


def test_what_questions_are_called_and_say_of_themselves_steers_no_terminal_and_is_no_markup(
    folder: Path, stages: DemoStages
) -> None:
    hostile = "\x1b]0;x\x07\u202e[/x]"
    line = {"_id": f"q{hostile}", "text": "When is the valve checked?", "metadata": {"kind": hostile}}
    (folder / "queries.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    judgements = f"query-id\tcorpus-id\tscore\nq{hostile}\tnowhere\u202e\t1\n"
    (folder / "qrels" / "test.tsv").write_text(judgements, encoding="utf-8")
    console = Console(width=90, color_system=None)
    with console.capture() as capture:
        show_groups(console, evaluate_folder(folder, stages), "kind")
        show_failures(console, failed(folder, stages))
    text = capture.get()
    assert text.count("[/x]") == 3
    assert all(on_one_line(line) == line for line in text.splitlines())


def test_judged_records_that_are_not_stored_are_counted_and_the_first_are_named(
    folder: Path, stages: DemoStages
) -> None:
    assert evaluate_folder(folder, stages).not_stored == ()
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("".join(f"q-pump\tnowhere{number}\t1\n" for number in range(7)))
    evaluation = evaluate_folder(folder, stages)
    assert evaluation.as_json()["not_stored"] == [f"nowhere{number}" for number in range(7)]
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        show_evaluation(console, evaluation)
    told = (
        "7 judged records are not stored, and count as not found: nowhere0, nowhere1, nowhere2, nowhere3, nowhere4, …"
    )
    assert told in capture.get()


def test_fewer_failures_than_asked_for_are_all_there_are(folder: Path, stages: DemoStages) -> None:
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("q-pump\tnowhere\t1\n")
    console = Console(width=200, color_system=None)
    for at_most, is_all in ((1, False), (2, True)):
        with console.capture() as capture:
            show_failures(console, failed(folder, stages, at_most), at_most=at_most)
        said = "Every relevant record of the other questions is among the first five." in capture.get()
        assert said is is_all


def test_no_more_failures_are_shown_than_asked_for_and_none_when_all_is_found(folder: Path, stages: DemoStages) -> None:
    assert failed(folder, stages) == []
    console = Console(width=90, color_system=None)
    with console.capture() as capture:
        show_failures(console, [])
    assert "among the first five" in capture.get()
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("".join(f"q-{topic}\tnowhere\t1\n" for topic in TOPICS[:3]))
    assert len(failed(folder, stages, at_most=2)) == 2


def test_figures_are_written_between_their_markers_and_pictures_beside_them(
    folder: Path, stages: DemoStages, tmp_path: Path
) -> None:
    evaluation = evaluate_folder(folder, stages)
    into = tmp_path / "checkout"
    written = write([evaluation], into)
    assert [path.relative_to(into).as_posix() for path in written] == [
        "README.md",
        "docs/evaluation.md",
        "docs/evaluation/plant.svg",
        "docs/evaluation/plant.png",
    ]
    text = written[1].read_text(encoding="utf-8")
    assert text.count("### plant") == 1
    assert "(evaluation/plant.svg)" in text
    assert "| plant (4) |" in written[0].read_text(encoding="utf-8")
    assert written[2].read_text(encoding="utf-8").startswith("<?xml")
    assert written[3].read_bytes().startswith(b"\x89PNG")


def test_questions_in_a_subfolder_have_a_section_and_a_picture_of_their_own(
    folder: Path, stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder / "qrels", folder / "judged" / "qrels")
    (folder / "judged" / "queries.jsonl").write_bytes((folder / "queries.jsonl").read_bytes())
    monkeypatch.setattr(published_figures, "application", lambda: stages)
    published_figures.main([str(folder), "--into", str(tmp_path / "checkout")])
    text = (tmp_path / "checkout" / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("### pl")] == ["### plant", "### plant/judged"]
    heads = "| recall@2 · recall@5 · nDCG@10 | vectors and words | graph found | graph given | graph both |"
    table = text[text.index(heads) :].splitlines()
    assert table[2].startswith("| plant (4) | 1.000 · 1.000 · 1.000 |")
    assert table[3] == "<!-- end evaluation-graphs -->"
    assert (tmp_path / "checkout" / "docs" / "evaluation" / "plant-judged.svg").exists()


def test_the_same_figures_are_drawn_the_same(folder: Path, stages: DemoStages, tmp_path: Path) -> None:
    evaluation = evaluate_folder(folder, stages)
    first, again = (draw(evaluation, tmp_path / name) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def shown(width: int) -> str:
    even = Figures(dict.fromkeys(METRICS, 0.5), dict.fromkeys(METRICS, (0.25, 0.75)), {})
    best = Figures(dict.fromkeys(METRICS, 1.0), dict.fromkeys(METRICS, (1.0, 1.0)), {})
    sure = Difference(
        "before", dict.fromkeys(METRICS, 0.5), dict.fromkeys(METRICS, (0.4, 0.6)), dict.fromkeys(METRICS, 1e-4)
    )
    table = [Row(way.name, way.meaning, even, (3.0,)) for way in configurations(Settings())[:-1]]
    table.append(Row("braid", "by default", best, (3.0, 5.0, 9.0), sure))
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        show_evaluation(console, Evaluation("plant", (), tuple(table), {}, 0))
    return capture.get()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal_and_says_what_its_rows_are(width: int) -> None:
    lines = shown(width).splitlines()
    assert max(map(len, lines)) <= width
    (braid,) = [line for line in lines if line.split()[:1] == ["braid"] and "1.000" in line]
    assert braid.count("1.000") == len(METRICS)
    assert any("vectors alone" in line for line in lines)
    assert any("p50 5 ms, p95" in line for line in lines)


def test_the_best_of_each_column_is_seen_without_colours_and_a_default_that_loses_has_a_hint() -> None:
    (braid,) = [line for line in shown(80).splitlines() if line.split()[:1] == ["braid"] and "1.000" in line]
    assert braid.count("1.000*") == len(METRICS)
    assert "1.000* ±.000" in shown(120)
    assert "* is the best row" in shown(80)
    assert "alone ranks better" not in shown(80)
    worse = Difference(
        "words", dict.fromkeys(METRICS, -0.1), dict.fromkeys(METRICS, (-0.2, 0.0)), dict.fromkeys(METRICS, 0.01)
    )
    console = Console(width=200, color_system=None)
    one = Row(
        "braid", "by default", Figures(dict.fromkeys(METRICS, 0.5), dict.fromkeys(METRICS, (0.4, 0.6)), {}), (3.0,)
    )
    with console.capture() as capture:
        show_evaluation(console, Evaluation("plant", (), (one,), {}, 0, against_best=worse))
    assert "words alone ranks better than the default here: `--failures 20` shows where, `braid tune`" in capture.get()


def test_intervals_are_shown_where_there_is_room() -> None:
    assert ".500 ±.250" in shown(120)
    assert "±" not in shown(80)


def test_differences_are_shown_where_there_is_room() -> None:
    (braid,) = [line for line in shown(80).splitlines() if line.split()[:1] == ["braid"] and "1.000" in line]
    assert braid.split()[-2:] == ["+.500", "<.001"]
    assert "<.001" not in shown(60)


def asked(confidence: float, *, answered: bool, kind: str = "as it is") -> Asked:
    return Asked(kind, confidence, answered, Features(None, None, None, 0.0, 0.0))


def test_reliability_is_worked_out_by_hand() -> None:
    told = Reliability(
        [
            asked(0.9, answered=True),
            asked(0.5, answered=True),
            asked(0.5, answered=False),
            asked(0.1, answered=False, kind="left out"),
            asked(0.1, answered=False, kind="other archive"),
        ]
    )
    # Of the four pairs of an answered and an unanswered weight, three are in order and one is tied.
    assert told.auroc == pytest.approx(3.5 / 4)
    assert [(each.weight, each.confidence, each.answered) for each in told.bins()] == [
        (1.0, pytest.approx(0.1), 0.0),
        (2.0, 0.5, 0.5),
        (1.0, 0.9, 1.0),
    ]
    assert told.calibration_error == pytest.approx((0.1 + 0.0 + 0.1) / 4)


def test_where_nothing_is_answered_or_asked_there_is_no_order_to_judge() -> None:
    assert Reliability([asked(0.5, answered=False)]).auroc is None
    assert Reliability([asked(1.0, answered=True)]).as_json() == {
        "auroc": None,
        "calibration_error": 0.0,
        "bins": [[1.0, 1.0, 1.0]],
    }
    assert Reliability([]).calibration_error == 0.0


def test_each_judged_question_is_asked_as_it_is_without_its_records_and_as_one_of_another_archive(
    folder: Path, stages: DemoStages
) -> None:
    found: list[Asked] = []
    evaluation = evaluate_folder(
        folder, stages, on_evaluated=lambda made, own: found.extend(ask(made.dataset, made.questions[:2], own))
    )
    assert [one.kind for one in found] == ["as it is", "left out", "other archive"] * 2
    assert [one.answered for one in found] == [True, False, False] * 2
    assert found[0].confidence > found[1].confidence
    assert evaluation.confidence
    assert len(evaluation.confidence.asked) == 3 * 4
    assert evaluation.as_json()["confidence"]["auroc"] > 0.5


def test_every_other_question_of_another_archive_is_about_a_name_that_the_judged_one_knows(
    folder: Path, stages: DemoStages
) -> None:
    lines = [{"_id": f"q-{topic}", "text": f"When was the {topic.capitalize()} Hall built?"} for topic in TOPICS[:4]]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    evaluation = evaluate_folder(folder, stages)
    assert evaluation.confidence
    assert [one.kind for one in evaluation.confidence.asked][2::3].count("known name") >= 1


def test_what_is_left_out_is_in_no_strand(folder: Path, stages: DemoStages) -> None:
    def look(evaluation: Evaluation, own: Application) -> None:
        question = evaluation.questions[0]
        (relevant,) = question.relevant
        assert relevant in [result.id for result in answer(question.query, own).results]
        kept = answer(question.query, WithoutRecords(own, {relevant}))
        assert relevant not in [result.id for result in kept.results]
        ranks = [rank for result in kept.results for rank in result.ranks.values()]
        assert 1 in ranks

    evaluate_folder(folder, stages, on_evaluated=look)
