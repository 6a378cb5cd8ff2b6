"""What the encoder promises whatever the model: order, length, truncation, batches, errors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from braid.app import Application
from braid.engines.onnx import encoders
from braid.engines.onnx.encoders import OnnxEncoder
from braid.engines.onnx.model_files import Precision, describe_file, open_model, read_manifest
from braid.engines.onnx.session import read_tokenizer
from braid.errors import ConfigurationError, ModelError, ModelMissing, ModelTampered
from braid.ports.encoder import Encoder
from braid.settings import Settings
from braid.understanding.encoder_windows import parts

from braid_cli.model_export.from_safetensors import export_direct
from tests.tiny_models import INSTRUCTION, SENTENCES, WORDS, write_bert, write_modules, write_t5

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    write_bert(folder)
    write_modules(folder)
    return folder


@pytest.fixture(scope="module")
def folder(source: Path) -> Path:
    return export_direct(source, source.parent / "tiny-encoder", model_id="tiny-encoder", force=True)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> OnnxEncoder:
    return OnnxEncoder.load(folder)


def arrays(vectors: Sequence[bytes]) -> np.ndarray[Any, Any]:
    return np.stack([np.frombuffer(vector, "<f4") for vector in vectors])


def many(count: int) -> list[str]:
    chance = np.random.default_rng(4)
    return [" ".join(chance.choice(WORDS, size=chance.integers(0, 41))) for _ in range(count)]


@pytest.mark.parametrize("at_once", [encoders._READ_AT_ONCE, 50])
def test_it_says_where_the_tokens_of_a_text_end_however_long_it_is(
    encoder: OnnxEncoder, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "_READ_AT_ONCE", at_once)
    text = "The outage was caused by a deploy. " * 40
    words = [word.end() for word in re.finditer(r"\w+|\.", text)]
    assert encoder.token_ends(text) == words
    assert encoder.token_ends("") == []
    assert encoder.token_ends("x" * 120)[-1] == 120


def test_the_parts_of_a_long_text_are_read_whole(encoder: OnnxEncoder) -> None:
    text = "the outage was caused by a deploy of checkout service. " * 30
    cut = list(parts(text, "the outage", encoder.token_ends(text), encoder.max_tokens))
    assert len(cut) > 5
    assert max(len(encoder.token_ends(part.text)) for part in cut) <= encoder.max_tokens
    # What stands behind the window makes no difference to the first vector: it is that of the first part.
    assert encoder.encode([text]) == encoder.encode([cut[0].text])


def test_it_is_an_encoder_and_knows_its_space(encoder: OnnxEncoder) -> None:
    assert isinstance(encoder, Encoder)
    assert (encoder.model_id, encoder.space, encoder.dimension) == ("tiny-encoder", "tiny_encoder", 32)


def test_every_vector_has_length_one_even_of_no_text(encoder: OnnxEncoder) -> None:
    vectors = encoder.encode(["", "   ", "?", "the outage", "words it never saw", "\U0001f600", "the " * 9_000])
    assert {len(vector) for vector in vectors} == {32 * 4}
    np.testing.assert_allclose(np.linalg.norm(arrays(vectors), axis=1), 1, atol=1e-5)


def test_a_tokenizer_that_panics_is_an_error_like_others(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    tokenizer = json.loads((broken / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    manifest = json.loads((broken / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"] = [describe_file(broken / file["name"]).model_dump() for file in manifest["files"]]
    (broken / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    encoder = OnnxEncoder.load(broken)
    with pytest.raises(ModelError, match="its tokenizer failed"):
        encoder.encode(["a text"])
    with pytest.raises(ModelError, match="its tokenizer failed"):
        encoder.token_ends("a text")


def test_no_texts_make_no_vectors(encoder: OnnxEncoder) -> None:
    assert encoder.encode([]) == []


def test_vectors_come_in_the_order_of_the_texts_whatever_their_batches(encoder: OnnxEncoder) -> None:
    texts = many(200)
    alone = arrays([encoder.encode([text])[0] for text in texts])
    np.testing.assert_allclose(arrays(encoder.encode(texts)), alone, atol=2e-6)


def test_more_threads_make_the_same_vectors(folder: Path, encoder: OnnxEncoder) -> None:
    texts = many(40)
    both = arrays(OnnxEncoder.load(folder, threads=2).encode(texts)), arrays(encoder.encode(texts))
    np.testing.assert_allclose(*both, atol=2e-6)


def test_text_beyond_the_limit_does_not_count(encoder: OnnxEncoder) -> None:
    within = " ".join(["outage"] * 22)  # and two special tokens
    assert encoder.encode([within + " march"]) == encoder.encode([within])
    assert encoder.encode([within[:-7] + " march"]) != encoder.encode([within])


def test_progress_is_told_after_every_batch_and_ends_at_all(encoder: OnnxEncoder) -> None:
    told: list[tuple[int, int]] = []
    encoder.encode(many(300), on_progress=lambda done, total: told.append((done, total)))
    assert len(told) > 2
    assert told == sorted(set(told))
    assert told[-1] == (300, 300)


def test_an_instruction_changes_the_vector_and_its_surrounding_space_does_not(encoder: OnnxEncoder) -> None:
    plain = encoder.encode(["the outage"])
    told = encoder.encode(["the outage"], instruction=INSTRUCTION)
    assert told != plain
    assert encoder.encode(["the outage"], instruction=f" {INSTRUCTION} ") == told


def test_an_instruction_stands_before_the_text_as_words_of_its_own(encoder: OnnxEncoder) -> None:
    assert encoder.encode(["outage"], instruction="the checkout") == encoder.encode(["the checkout outage"])


def test_an_instruction_that_leaves_no_room_is_refused(tmp_path: Path) -> None:
    write_t5(tmp_path / "source")
    write_modules(tmp_path / "source", include_prompt=False, max_tokens=10)
    encoder = OnnxEncoder.load(export_direct(tmp_path / "source", tmp_path / "tiny", model_id="tiny"))
    with pytest.raises(ConfigurationError, match="leaves no room for a text within the 10 tokens"):
        encoder.encode(["the outage"], instruction="query " * 30)
    assert np.isfinite(arrays(encoder.encode(["the outage"], instruction="query " * 8))).all()


def test_int8_gives_a_text_the_same_vector_in_any_company(source: Path, tmp_path: Path) -> None:
    folder = export_direct(source, tmp_path / "tiny", model_id="tiny", precision=Precision.INT8)
    encoder = OnnxEncoder.load(folder)
    texts = many(20)
    assert encoder.encode(texts) == [encoder.encode([text])[0] for text in texts]


def test_int8_is_near_fp32(source: Path, encoder: OnnxEncoder, tmp_path: Path) -> None:
    folder = export_direct(source, tmp_path / "tiny", model_id="tiny", precision=Precision.INT8)
    both = arrays(OnnxEncoder.load(folder).encode(SENTENCES)), arrays(encoder.encode(SENTENCES))
    cosines = (both[0] * both[1]).sum(axis=1)
    assert cosines.min() > 0.97
    assert cosines.max() < 1 - 1e-6


def test_threads_may_share_it(encoder: OnnxEncoder) -> None:
    texts = many(30)
    expected = encoder.encode(texts)
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(encoder.encode(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_missing_model_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="braid models export"):
        OnnxEncoder.load(tmp_path / "absent")


def replace_graph(folder: Path, target: Path, change: Any) -> Path:
    """Copy a folder with another graph that its manifest vouches for."""
    shutil.copytree(folder, target)
    model = onnx.load(str(target / "model.onnx"))
    change(model)
    onnx.save_model(model, str(target / "model.onnx"))
    manifest = open_model(folder).manifest
    files = (describe_file(target / "model.onnx"), describe_file(target / "tokenizer.json"))
    listed = manifest.model_copy(update={"files": files})
    (target / "manifest.json").write_text(listed.model_dump_json(), encoding="utf-8")
    return target


def test_a_graph_that_cannot_be_loaded_is_refused(folder: Path, tmp_path: Path) -> None:
    def break_it(model: onnx.ModelProto) -> None:
        model.graph.node[1].op_type = "NoSuchOperator"

    with pytest.raises(ModelTampered, match="cannot be loaded"):
        OnnxEncoder.load(replace_graph(folder, tmp_path / "broken", break_it))


def test_a_graph_with_other_inputs_than_its_manifest_is_refused(folder: Path, tmp_path: Path) -> None:
    def rename(model: onnx.ModelProto) -> None:
        model.graph.input[0].name = "ids"
        model.graph.node[0].input[0] = "ids"

    with pytest.raises(ModelTampered, match="graph takes"):
        OnnxEncoder.load(replace_graph(folder, tmp_path / "broken", rename))


def test_padding_and_truncation_of_the_tokenizers_file_are_not_obeyed(
    source: Path, folder: Path, encoder: OnnxEncoder, tmp_path: Path
) -> None:
    target = replace_graph(folder, tmp_path / "padded", lambda _: None)
    shutil.copy(source / "tokenizer.json", target / "tokenizer.json")
    manifest = read_manifest(target)
    files = (describe_file(target / "model.onnx"), describe_file(target / "tokenizer.json"))
    (target / "manifest.json").write_text(
        manifest.model_copy(update={"files": files}).model_dump_json(), encoding="utf-8"
    )
    assert json.loads((target / "tokenizer.json").read_text(encoding="utf-8"))["padding"]
    assert OnnxEncoder.load(target).encode(SENTENCES) == encoder.encode(SENTENCES)
    tokenizer = read_tokenizer(open_model(target))
    assert tokenizer.padding is None
    assert tokenizer.truncation is None


def test_an_output_that_is_not_finite_is_an_error(folder: Path, tmp_path: Path) -> None:
    def poison(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            if len(tensor.dims) == 2:
                values = np.full(tuple(tensor.dims), np.nan, dtype=np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))

    encoder = OnnxEncoder.load(replace_graph(folder, tmp_path / "broken", poison))
    with pytest.raises(ModelError, match="tiny-encoder: output is not finite"):
        encoder.encode(["the outage"])


def test_a_tokenizer_that_knows_more_words_than_the_model_is_an_error(folder: Path, tmp_path: Path) -> None:
    def shrink(model: onnx.ModelProto) -> None:
        table = next(tensor for tensor in model.graph.initializer if tensor.dims and tensor.dims[0] == len(WORDS) + 4)
        values = onnx.numpy_helper.to_array(table)[:6]
        table.CopyFrom(onnx.numpy_helper.from_array(values, table.name))

    encoder = OnnxEncoder.load(replace_graph(folder, tmp_path / "broken", shrink))
    with pytest.raises(ModelError, match="model tiny-encoder:"):
        encoder.encode(["rebuild index"])


def test_importing_the_module_imports_no_runtime() -> None:
    code = (
        "import sys, braid.engines.onnx.encoders; "
        "print([name for name in ('numpy', 'onnxruntime', 'tokenizers', 'onnx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout.strip() == "[]"


def test_batches_that_run_at_once_give_the_same_vectors_in_the_same_order(encoder: OnnxEncoder) -> None:
    texts = many(300)
    told: list[int] = []
    assert encoder.for_bulk(3).encode(texts, on_progress=lambda done, _of: told.append(done)) == encoder.encode(texts)
    assert told == sorted(told)
    assert told[-1] == 300


def test_as_many_batches_run_at_once_as_asked_for_and_no_thread_stays(
    encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, run = threading.Barrier(3), OnnxEncoder._run
    texts = many(300)
    batches = len(encoders._length_batches(tokenised(encoder, texts)))
    waits = iter([True] * 3 + [False] * batches)

    def held(self: OnnxEncoder, batch: Sequence[encoders.TokenisedText]) -> list[bytes]:
        if next(waits):
            together.wait(60)
        return run(self, batch)

    monkeypatch.setattr(OnnxEncoder, "_run", held)
    threads = threading.active_count()
    encoder.for_bulk(3).encode(texts)
    assert threading.active_count() == threads


def test_a_batch_that_fails_beside_others_fails_the_whole(
    encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def broken(_: OnnxEncoder, batch: Sequence[encoders.TokenisedText]) -> list[bytes]:
        begun.append(len(batch))
        raise ModelError("broken")

    texts = many(2_000)
    monkeypatch.setattr(OnnxEncoder, "_run", broken)
    with pytest.raises(ModelError, match="broken"):
        encoder.for_bulk(2).encode(texts)
    assert len(begun) <= 2 * encoders._BEGUN_A_THREAD < len(encoders._length_batches(tokenised(encoder, texts)))


def test_many_texts_and_questions_share_the_weights_unless_threads_share_a_batch(folder: Path, tmp_path: Path) -> None:
    tiny = open_model(folder).manifest.dimension
    application = Application(Settings(home=tmp_path, models_dir=folder.parent))
    model = application.models()[0].model_copy(update={"id": "tiny-encoder", "dimension": tiny})
    question, many_texts, more = (application.encoder_for(model, threads=threads) for threads in (None, 8, 12))
    assert isinstance(question, OnnxEncoder)
    assert isinstance(many_texts, OnnxEncoder)
    assert isinstance(more, OnnxEncoder)
    assert (question._at_once, many_texts._at_once, more._at_once) == (1, 8, 8)
    assert many_texts._loaded is question._loaded
    assert more._loaded.session.get_session_options().intra_op_num_threads == 5
    assert more.encode(many(20)) == question.encode(many(20))


def tokenised(encoder: OnnxEncoder, texts: Sequence[str]) -> list[encoders.TokenisedText]:
    encodings = encoder._loaded.tokenizer.encode_batch(list(texts))
    return [encoders.TokenisedText(index, one.ids, one.type_ids) for index, one in enumerate(encodings)]
