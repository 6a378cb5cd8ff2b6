"""What is taken from the hub: nothing that could hold code, unless asked for."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import huggingface_hub
import pytest
from braid.errors import ModelError, ModelMissing

from braid_cli.model_export import via_sentence_transformers as export
from tests.tiny_models import write_bert

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = (
    "config.json",
    "model.safetensors",
    "2_Dense/model.safetensors",
    "spiece.model",
    "vocab.txt",
    "pytorch_model.bin",
    "2_Dense/pytorch_model.bin",
    "modeling_custom.py",
    "tf_model.h5",
    "rust_model.ot",
    "flax_model.msgpack",
    "onnx/model.onnx",
    "onnx/config.json",
)


class Hub:
    """Stands in for the hub's client and remembers what it was asked for."""

    def __init__(self, folder: Path, error: Exception | None = None) -> None:
        self.folder, self.error = folder, error
        self.asked: dict[str, Any] = {}

    def __call__(self, source: str, **options: Any) -> str:
        self.asked = {"source": source, **options}
        if self.error:
            raise self.error
        return str(self.folder)

    def taken(self) -> set[str]:
        def any_of(name: str, patterns: list[str]) -> bool:
            return any(fnmatch(name, pattern) for pattern in patterns)

        allowed, ignored = self.asked["allow_patterns"], self.asked["ignore_patterns"]
        return {name for name in PUBLISHED if any_of(name, allowed) and not any_of(name, ignored)}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    stand_in = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", stand_in)
    return stand_in


SAFE = {"config.json", "model.safetensors", "2_Dense/model.safetensors", "spiece.model", "vocab.txt"}


def test_only_numbers_and_words_are_downloaded(hub: Hub, tmp_path: Path) -> None:
    assert export._fetch("microsoft/codebert-base", "3b0952f", allow_checkpoint=False) == tmp_path
    assert (hub.asked["source"], hub.asked["revision"]) == ("microsoft/codebert-base", "3b0952f")
    assert hub.taken() == SAFE


def test_checkpoints_are_downloaded_on_request_and_code_never(hub: Hub) -> None:
    export._fetch("microsoft/codebert-base", None, allow_checkpoint=True)
    assert hub.taken() == SAFE | {"pytorch_model.bin", "2_Dense/pytorch_model.bin"}


def test_a_hub_that_does_not_answer_is_a_missing_model(hub: Hub) -> None:
    hub.error = OSError("no route to host\nand more")
    with pytest.raises(ModelMissing, match=r"some/model: cannot be read from the hub \(no route to host\)"):
        export._fetch("some/model", None, allow_checkpoint=False)


@pytest.mark.parametrize("source", ["./absent", "/absent/model", "../absent", "a/b/c"])
def test_a_path_that_is_not_there_is_not_asked_of_the_hub(hub: Hub, source: str) -> None:
    with pytest.raises(ModelMissing, match="no such folder"):
        export._fetch(source, None, allow_checkpoint=False)
    assert not hub.asked


def test_a_dense_layer_that_is_only_a_pickle_is_refused(tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    export._refuse_checkpoints(tmp_path / "source")
    (tmp_path / "source" / "2_Dense").mkdir()
    (tmp_path / "source" / "2_Dense" / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelError, match=r"2_Dense.pytorch_model\.bin: is a pickle"):
        export._refuse_checkpoints(tmp_path / "source")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="holds no safetensors file"):
        export._refuse_checkpoints(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", [{"type": "evil/code--modeling.Module", "path": ""}]),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling", "path": ""}, {"type": "custom.Module"}]),
        ("modules.json", [{"type": "sentence_transformers.x--y.Pooling"}]),
        ("modules.json", [{"type": "sentence_transformers.models.Router"}]),
        ("modules.json", [{"path": "1_Pooling"}]),
        ("2_Dense/config.json", {"activation_function": "os.abort"}),
        ("config.json", {"sentence_transformers": {"activation_fn": "subprocess.Popen"}}),
        ("config.json", {"sbert_ce_default_activation_function": "os.abort"}),
    ],
)
def test_a_model_that_names_code_of_others_is_refused_before_it_is_read(
    file: str, content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    write_bert(source)
    (source / file).parent.mkdir(exist_ok=True)
    (source / file).write_text(json.dumps(content))
    monkeypatch.setattr(export, "_require_extra", lambda: None)
    monkeypatch.setattr(export, "_encoder", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ModelError, match=r"is not supported: it may be anybody's code"):
        export.export_via_sentence_transformers(str(source), tmp_path / "out", model_id="any")


def test_modules_of_sentence_transformers_are_read(tmp_path: Path) -> None:
    write_bert(tmp_path)
    kinds = ("models.Transformer", "models.Pooling", "sentence_transformer.modules.Normalize")
    (tmp_path / "modules.json").write_text(json.dumps([{"type": f"sentence_transformers.{kind}"} for kind in kinds]))
    (tmp_path / "2_Dense").mkdir(exist_ok=True)
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(activation))
    export._refuse_foreign_code(tmp_path)


@pytest.mark.parametrize("content", ["[1]", "{", "7"])
def test_modules_that_cannot_be_read_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(ModelError, match=r"modules\.json: "):
        export._refuse_foreign_code(tmp_path)
