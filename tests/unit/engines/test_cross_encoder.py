"""The cross-encoder against NumPy, and its time budget."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
import pytest
from braid.engines.onnx.encoders import OnnxCrossEncoder, OnnxEncoder
from braid.engines.onnx.model_files import ModelKind, Precision
from braid.engines.onnx.session import TokenisedText
from braid.errors import ModelMissing, RerankFailed
from braid.ports.encoder import Reranker
from tokenizers import Tokenizer

from braid_cli.model_export.from_safetensors import export_direct
from tests.reference_models import bert_hidden
from tests.tiny_models import SENTENCES, write_bert, write_roberta

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "the outage ?"


def export(source: Path, out: Path, **options: Any) -> OnnxCrossEncoder:
    folder = export_direct(source, out, model_id="tiny-reranker", kind=ModelKind.CROSS_ENCODER, **options)
    return OnnxCrossEncoder.load(folder)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> OnnxCrossEncoder:
    root = tmp_path_factory.mktemp("reranker")
    write_bert(root / "source", labels=1)
    return export(root / "source", root / "tiny")


def pair(source: Path, query: str, text: str, limit: int) -> tuple[list[int], list[int]]:
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit, strategy="only_second")
    encoding = tokenizer.encode(query, text)
    return encoding.ids, encoding.type_ids


def logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_bert_scores_pairs_as_in_numpy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_bert(source, labels=1)
    expected = []
    for text in SENTENCES:
        first = bert_hidden(weights, *pair(source, QUERY, text, 40), prefix="bert.")[0]
        pooled = np.tanh(first @ weights["bert.pooler.dense.weight"].T + weights["bert.pooler.dense.bias"])
        expected.append(logistic((pooled @ weights["classifier.weight"].T + weights["classifier.bias"]).item()))
    found = export(source, tmp_path / "tiny").rerank(QUERY, SENTENCES, timeout_s=30)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_roberta_scores_pairs_as_in_numpy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_roberta(source, labels=1)
    expected = []
    for text in SENTENCES:
        ids, _ = pair(source, QUERY, text, 40)
        first = bert_hidden(weights, ids, [0] * len(ids), prefix="roberta.", first_position=2)[0]
        inner = np.tanh(first @ weights["classifier.dense.weight"].T + weights["classifier.dense.bias"])
        logit = inner @ weights["classifier.out_proj.weight"].T + weights["classifier.out_proj.bias"]
        expected.append(logistic(logit.item()))
    found = export(source, tmp_path / "tiny").rerank(QUERY, SENTENCES, timeout_s=30)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_it_is_a_reranker_whose_scores_keep_the_contract(reranker: OnnxCrossEncoder) -> None:
    assert isinstance(reranker, Reranker)
    assert reranker.name == "tiny-reranker"
    scores = reranker.rerank(QUERY, SENTENCES * 4, timeout_s=30)
    assert len(scores) == len(SENTENCES) * 4
    assert all(0 <= score <= 1 for score in scores)
    assert scores[: len(SENTENCES)] == pytest.approx(scores[-len(SENTENCES) :], abs=1e-6)


def test_no_texts_have_no_scores(reranker: OnnxCrossEncoder) -> None:
    assert reranker.rerank(QUERY, [], timeout_s=30) == []


def test_a_long_text_is_cut_and_the_question_is_not(reranker: OnnxCrossEncoder) -> None:
    long = "index " * 500
    # As many words as a question may have: one less would be left if the question were cut too.
    questions = ["outage " * 19 + last for last in ("march", "checkout")]
    first, second = (reranker.rerank(question, [long], timeout_s=30)[0] for question in questions)
    assert first != pytest.approx(second, abs=1e-7)
    assert reranker.rerank(QUERY, [long + " march"], timeout_s=30) == reranker.rerank(QUERY, [long], timeout_s=30)


def test_a_question_that_would_fill_the_window_leaves_half_to_the_text(reranker: OnnxCrossEncoder) -> None:
    question = "outage " * 300
    first, second = reranker.rerank(question, ["march", "checkout"], timeout_s=30)
    assert first != pytest.approx(second, abs=1e-7)
    assert reranker.rerank("outage " * 20, ["march"], timeout_s=30) == pytest.approx([first], abs=1e-7)


def test_int8_scores_stay_close(tmp_path: Path, reranker: OnnxCrossEncoder) -> None:
    write_bert(tmp_path / "source", labels=1)
    small = export(tmp_path / "source", tmp_path / "tiny", precision=Precision.INT8)
    np.testing.assert_allclose(
        small.rerank(QUERY, SENTENCES, timeout_s=30), reranker.rerank(QUERY, SENTENCES, timeout_s=30), atol=0.05
    )


@pytest.mark.parametrize("budget", [0.0, 1e-9])
def test_no_budget_is_a_failure_that_names_the_reranker(reranker: OnnxCrossEncoder, budget: float) -> None:
    with pytest.raises(RerankFailed, match="tiny-reranker: needs more than its"):
        reranker.rerank(QUERY, SENTENCES, timeout_s=budget)


def test_a_run_that_is_under_way_is_told_to_end_when_the_budget_is_spent(
    reranker: OnnxCrossEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless:
        ended = False

        def run(self, outputs: object, feed: object, options: ort.RunOptions) -> None:  # noqa: ARG002 - the runtime's
            for _ in range(10_000):
                if options.terminate:
                    self.ended = True
                    message = "Exiting due to terminate flag being set to true."
                    raise RuntimeError(message)
                threading.Event().wait(0.001)

    endless = Endless()
    monkeypatch.setattr(reranker._loaded, "session", endless)
    with pytest.raises(RerankFailed, match=r"needs more than its 0\.05 s"):
        reranker.rerank(QUERY, SENTENCES, timeout_s=0.05)
    assert endless.ended


def test_the_runtime_ends_a_run_that_is_told_to(reranker: OnnxCrossEncoder) -> None:
    options = ort.RunOptions()
    options.log_severity_level = 4
    options.terminate = True
    loaded = reranker._loaded
    rows = [TokenisedText(0, [2, 5, 3], [0, 0, 0])]
    with pytest.raises(Exception, match="terminate"):
        loaded.session.run([loaded.output], loaded.feed(rows), options)


def test_a_reranker_is_usable_after_it_was_too_slow(reranker: OnnxCrossEncoder) -> None:
    expected = reranker.rerank(QUERY, SENTENCES, timeout_s=30)
    with pytest.raises(RerankFailed):
        reranker.rerank(QUERY, SENTENCES * 50, timeout_s=1e-4)
    assert reranker.rerank(QUERY, SENTENCES, timeout_s=30) == expected


def test_whatever_the_model_raises_is_a_failed_rerank(
    reranker: OnnxCrossEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def run(self, *_: object) -> None:
            message = "boom\nsecond line"
            raise ValueError(message)

    monkeypatch.setattr(reranker._loaded, "session", Broken())
    with pytest.raises(RerankFailed, match=r"tiny-reranker: boom$"):
        reranker.rerank(QUERY, SENTENCES, timeout_s=30)


@pytest.mark.parametrize("output", [np.full((1, 1), np.nan), np.zeros((1, 2)), np.full((1, 1), np.inf)])
def test_an_output_that_is_no_score_is_a_failed_rerank(
    reranker: OnnxCrossEncoder, monkeypatch: pytest.MonkeyPatch, output: np.ndarray[Any, Any]
) -> None:
    class Odd:
        def run(self, *_: object) -> list[np.ndarray[Any, Any]]:
            return [output]

    monkeypatch.setattr(reranker._loaded, "session", Odd())
    with pytest.raises(RerankFailed, match="not one finite number a pair"):
        reranker.rerank(QUERY, ["one text"], timeout_s=30)


def test_an_encoder_is_no_reranker_nor_the_other_way_round(tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    encoder = export_direct(tmp_path / "source", tmp_path / "encoder", model_id="tiny")
    with pytest.raises(ModelMissing, match="kind encoder, not cross_encoder"):
        OnnxCrossEncoder.load(encoder)
    write_bert(tmp_path / "pairs", labels=1)
    pairs = export_direct(tmp_path / "pairs", tmp_path / "reranker", model_id="tiny", kind=ModelKind.CROSS_ENCODER)
    with pytest.raises(ModelMissing, match="kind cross_encoder, not encoder"):
        OnnxEncoder.load(pairs)
