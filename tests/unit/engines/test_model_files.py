"""A model folder is read only when it is exactly what its manifest says."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from braid.engines.onnx import model_files
from braid.engines.onnx.external_data import external_tensor
from braid.engines.onnx.model_files import ModelKind, open_model
from braid.errors import ModelMissing, ModelTampered
from onnx import TensorProto, helper, numpy_helper

from braid_cli.model_export.from_safetensors import export_direct
from tests.tiny_models import write_bert

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    write_bert(root / "source")
    return export_direct(root / "source", root / "tiny", model_id="tiny")


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "tiny")


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def relist(folder: Path) -> None:
    """List the files as they now are, as one who tampers with both would."""
    names = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
    files = [
        {
            "name": name,
            "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
            "size": (folder / name).stat().st_size,
        }
        for name in names
    ]
    rewrite(folder, files=files)


def test_an_untouched_folder_opens(folder: Path) -> None:
    assert open_model(folder, ModelKind.ENCODER).manifest.id == "tiny"


def test_a_missing_folder_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"absent: is not a model folder .*braid models export"):
        open_model(tmp_path / "absent")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_says_how_to_make_it(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelMissing, match=rf"{name}: .*braid models export"):
        open_model(folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_one_changed_byte_is_found(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelTampered, match=rf"{name}: SHA-256 is"):
        open_model(folder)


def test_a_change_after_the_first_opening_is_found(folder: Path) -> None:
    open_model(folder)
    content = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(content.replace(b"outage", b"Outage"))
    with pytest.raises(ModelTampered, match="tokenizer"):
        open_model(folder)


def test_a_file_is_hashed_once_a_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_model(folder)
    monkeypatch.setattr(model_files, "_sha256", lambda path: pytest.fail(f"{path} hashed again"))
    open_model(folder)


def test_a_truncated_file_is_found(folder: Path) -> None:
    (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-1])
    with pytest.raises(ModelTampered, match=r"model\.onnx: is \d+ bytes, its manifest says \d+"):
        open_model(folder)


def test_a_file_that_is_not_listed_is_refused(folder: Path) -> None:
    (folder / "model.onnx.data").write_bytes(b"weights")
    with pytest.raises(ModelTampered, match=r"model\.onnx\.data: is not listed"):
        open_model(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pkl", "weights.pt", "code.py", "weights.npy"])
def test_a_listed_file_that_could_hold_code_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps({"a": 1}))
    relist(folder)
    with pytest.raises(ModelTampered, match=rf"{name} is not one of"):
        open_model(folder)


@pytest.mark.parametrize(
    "name", ["../model.onnx", "/etc/passwd.json", "a/b.json", "..", ".hidden.json", "a\\b.json", ""]
)
def test_a_name_that_leads_outside_is_refused(folder: Path, name: str) -> None:
    files = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    rewrite(folder, files=[*files, {"name": name, "sha256": "0" * 64, "size": 0}])
    with pytest.raises(ModelTampered, match=r"files\.2\.name"):
        open_model(folder)


@pytest.mark.parametrize("name", ["model.onnx", "manifest.json"])
def test_a_link_is_refused_even_to_the_right_content(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(ModelTampered, match=rf"{name}: is a link"):
        open_model(folder)


def test_a_linked_manifest_is_not_even_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("{ not a manifest", encoding="utf-8")
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelTampered, match=r"manifest\.json: is a link"):
        open_model(folder)


def test_a_folder_inside_is_refused(folder: Path) -> None:
    (folder / "more").mkdir()
    with pytest.raises(ModelTampered, match="more: is a link or a folder"):
        open_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": []}, r"model\.onnx, tokenizer\.json is not listed"),
        ({"kind": "generator"}, "kind"),
        ({"format": 2}, "format"),
        ({"dimension": 0}, "dimension"),
        ({"max_tokens": 2**64}, "max_tokens"),
        ({"pad_token_id": 2**64}, "pad_token_id"),
        ({"id": "A b"}, "id"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_malformed_manifest_names_its_field(folder: Path, changes: dict[str, Any], message: str) -> None:
    rewrite(folder, **changes)
    with pytest.raises(ModelTampered, match=rf"manifest\.json: .*{message}"):
        open_model(folder)


def test_a_manifest_that_is_not_json_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelTampered, match="not JSON"):
        open_model(folder)


def test_a_model_of_another_kind_is_refused(folder: Path) -> None:
    with pytest.raises(ModelMissing, match="kind encoder, not cross_encoder"):
        open_model(folder, ModelKind.CROSS_ENCODER)


def test_weights_outside_the_graph_are_refused_though_listed(folder: Path, tmp_path: Path) -> None:
    model = onnx.load(str(folder / "model.onnx"))
    onnx.save_model(
        model, str(tmp_path / "model.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    shutil.copy(tmp_path / "model.onnx", folder / "model.onnx")
    relist(folder)
    with pytest.raises(ModelTampered, match=r"model\.onnx: tensor '.*' is stored outside the graph"):
        open_model(folder)


def test_a_graph_that_is_no_graph_is_refused(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"\x3a\xff\xff\xff\xff\x0fnonsense")
    relist(folder)
    with pytest.raises(ModelTampered, match=r"model\.onnx: is not an ONNX graph"):
        open_model(folder)


def external(name: str) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.zeros(3, dtype=np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    return tensor


def graph(**parts: Any) -> onnx.GraphProto:
    return helper.make_graph(parts.get("nodes", []), "g", [], [], parts.get("initializer", []))


def test_weights_outside_are_found_wherever_a_graph_can_hold_them(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"], value=external("in_node"))
    branch = helper.make_node("If", ["x"], ["y"], then_branch=graph(nodes=[constant]), else_branch=graph())
    sparse = onnx.SparseTensorProto(values=external("in_sparse"), dims=[3])
    with_sparse = graph()
    with_sparse.sparse_initializer.append(sparse)
    function = onnx.FunctionProto(name="f", node=[constant])
    training = onnx.TrainingInfoProto(algorithm=graph(initializer=[external("in_training")]))
    models = {
        "in_graph": helper.make_model(graph(initializer=[external("in_graph")])),
        "in_node": helper.make_model(graph(nodes=[branch])),
        "in_sparse": helper.make_model(with_sparse),
        "in_training": helper.make_model(graph()),
    }
    models["in_training"].training_info.append(training)
    with_function = helper.make_model(graph())
    with_function.functions.append(function)
    found = {}
    for name, model in [*models.items(), ("function", with_function)]:
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        found[name] = external_tensor(path)
    assert found == {name: name for name in models} | {"function": "in_node"}


def message(field: int, content: bytes, higher_bits: int = 0) -> bytes:
    """Write a field that holds a message, its number perhaps with bits that ONNX Runtime drops."""
    return b"".join(map(varint, (higher_bits << 32 | field << 3 | 2, len(content)))) + content


def varint(value: int) -> bytes:
    return bytes((value & 127 | 128,)) + varint(value >> 7) if value > 127 else bytes((value,))


@pytest.mark.parametrize("hidden", ["graph", "tensor"])
def test_weights_outside_are_not_hidden_by_a_field_number_that_is_read_in_two_ways(tmp_path: Path, hidden: str) -> None:
    identity = helper.make_node("Identity", ["w"], ["y"])
    taken = helper.make_graph([identity], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])])
    tensor = external("w")
    tensor.external_data[0].value = "weights.json"
    model = helper.make_model(taken, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.ClearField("graph")
    content = taken.SerializeToString() + message(5, tensor.SerializeToString(), hidden == "tensor")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString() + message(7, content, hidden == "graph"))
    (tmp_path / "weights.json").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    session = ort.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert list(session.run(None, {})[0]) == [0, 1, 2]  # so it would be read
    with pytest.raises(ValueError, match="number is too large"):
        external_tensor(tmp_path / "model.onnx")


def test_a_graph_with_its_weights_inside_passes_and_a_broken_one_does_not(folder: Path, tmp_path: Path) -> None:
    assert external_tensor(folder / "model.onnx") is None
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        external_tensor(tmp_path / "empty.onnx")
    content = (folder / "model.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="cut short"):
        external_tensor(tmp_path / "cut.onnx")
