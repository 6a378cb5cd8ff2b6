"""Exported models against sentence-transformers itself. Needs the extra ``export``: run with ``make test-export``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the extra `export`")

import torch
import transformers
from braid.engines.onnx.encoders import OnnxCrossEncoder, OnnxEncoder
from braid.engines.onnx.model_files import ModelKind, Precision
from braid.errors import ModelError, ModelMissing
from sentence_transformers import CrossEncoder, SentenceTransformer

from braid_cli.model_export.default_model import default_weights
from braid_cli.model_export.from_safetensors import export_direct
from braid_cli.model_export.via_sentence_transformers import export_via_sentence_transformers
from tests.tiny_models import INSTRUCTION, SENTENCES, write_bert, write_modules, write_roberta, write_t5

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = [
    # Warnings of the libraries under comparison, about themselves.
    pytest.mark.filterwarnings("ignore"),
]

REAL_TEXTS = (
    "Which service caused the outage on 3 March?",
    "def parse(line: str) -> Record:",
    "Zürich – naïve café, 東京 😀",
    "a",
    "The archive keeps every incident, its causes and what was done about them. " * 60,
)


def direct(source: Path, out: Path, **options: Any) -> Path:
    return export_direct(source, out, model_id="under-test", **options)


def through_sentence_transformers(source: Path, out: Path, **options: Any) -> Path:
    return export_via_sentence_transformers(str(source), out, model_id="under-test", **options)


EXPORTERS = pytest.mark.parametrize("export", [direct, through_sentence_transformers])


def cosines(encoder: OnnxEncoder, source: Path, texts: Sequence[str], instruction: str = "") -> np.ndarray[Any, Any]:
    ours = np.stack([np.frombuffer(vector, "<f4") for vector in encoder.encode(texts, instruction=instruction)])
    reference = SentenceTransformer(str(source), device="cpu")
    prompt = f"{instruction} " if instruction else None
    theirs = reference.encode(list(texts), prompt=prompt, normalize_embeddings=True)
    assert theirs.shape == ours.shape
    result: np.ndarray[Any, Any] = (ours * theirs).sum(axis=1)
    return result


def bert(folder: Path) -> None:
    write_bert(folder)
    write_modules(folder)


def bert_by_first_token(folder: Path) -> None:
    write_bert(folder)
    write_modules(folder, pooling="cls")


def codebert(folder: Path) -> None:
    write_roberta(folder)


def instructor(folder: Path) -> None:
    write_t5(folder)
    write_modules(folder, include_prompt=False, dense=16)


def gated_t5(folder: Path) -> None:
    write_t5(folder, gated=True)
    write_modules(folder)


@EXPORTERS
def test_all_minilm_has_the_vectors_of_sentence_transformers(export: Callable[..., Path], tmp_path: Path) -> None:
    encoder = OnnxEncoder.load(export(default_weights(), tmp_path / "model"))
    assert cosines(encoder, default_weights(), REAL_TEXTS).min() >= 0.9999


@EXPORTERS
@pytest.mark.parametrize("write", [bert, bert_by_first_token, codebert, instructor, gated_t5])
def test_a_tiny_model_has_the_vectors_of_sentence_transformers(
    export: Callable[..., Path], write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path / "source")
    encoder = OnnxEncoder.load(export(tmp_path / "source", tmp_path / "model"))
    for instruction in ("", INSTRUCTION):
        assert cosines(encoder, tmp_path / "source", SENTENCES, instruction).min() >= 0.9999, instruction


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
        ("ModernBert", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}),
    ],
)
def test_a_model_that_is_not_written_directly_has_the_vectors_of_sentence_transformers(
    architecture: str, options: dict[str, int], tmp_path: Path
) -> None:
    bert(tmp_path / "source")  # tokenizer and modules
    config = getattr(transformers, f"{architecture}Config")(vocab_size=1000, pad_token_id=0, **options)
    getattr(transformers, f"{architecture}Model")(config).save_pretrained(tmp_path / "source")
    encoder = OnnxEncoder.load(through_sentence_transformers(tmp_path / "source", tmp_path / "model"))
    assert cosines(encoder, tmp_path / "source", [*SENTENCES, "a"]).min() >= 0.9999


@EXPORTERS
@pytest.mark.parametrize("write", [write_bert, write_roberta])
def test_a_cross_encoder_has_the_scores_of_sentence_transformers(
    export: Callable[..., Path], write: Callable[..., Any], tmp_path: Path
) -> None:
    write(tmp_path / "source", labels=1)
    folder = export(tmp_path / "source", tmp_path / "model", kind=ModelKind.CROSS_ENCODER)
    ours = OnnxCrossEncoder.load(folder).rerank("the outage ?", SENTENCES, timeout_s=30)
    reference = CrossEncoder(str(tmp_path / "source"), device="cpu")
    theirs = reference.predict([("the outage ?", text) for text in SENTENCES])
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_int8_through_sentence_transformers_stays_close(tmp_path: Path) -> None:
    folder = through_sentence_transformers(default_weights(), tmp_path / "model", precision=Precision.INT8)
    encoder = OnnxEncoder.load(folder)
    assert cosines(encoder, default_weights(), REAL_TEXTS).min() >= 0.95


def test_a_pickled_checkpoint_is_read_only_on_request(tmp_path: Path) -> None:
    source = tmp_path / "source"
    codebert(source)
    torch.save(SentenceTransformer(str(source), device="cpu")[0].auto_model.state_dict(), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="--allow-checkpoint"):
        through_sentence_transformers(source, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    encoder = OnnxEncoder.load(through_sentence_transformers(source, tmp_path / "model", allow_checkpoint=True))
    assert cosines(encoder, source, SENTENCES).min() >= 0.9999


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="absent: no such folder"):
        through_sentence_transformers(tmp_path / "absent", tmp_path / "model")
