"""Builder of an ONNX graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence

OPSET = 17
"""Old enough for every ONNX Runtime that Braid allows, new enough for LayerNormalization."""
FUSED = "com.microsoft"
"""Domain of ONNX Runtime's fused operators."""


class GraphWriter:
    """Nodes and weights of a graph under construction. Methods that add a tensor return its name.

    Parameters
    ----------
    prefix : str
        Prefix of all new names, so that nodes can be added to an existing graph.
    """

    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._prefix = prefix
        self._count = 0

    def weight(self, value: np.ndarray[Any, Any]) -> str:
        """Add a constant; float values are stored as float32."""
        name = self._name("weight")
        array = value.astype(np.float32) if np.issubdtype(value.dtype, np.floating) else value
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def integers(self, *values: int) -> str:
        """Add a constant one-dimensional int64 tensor."""
        return self.weight(np.asarray(values, dtype=np.int64))

    def number(self, value: float) -> str:
        """Add a constant float32 scalar."""
        return self.weight(np.asarray(value, dtype=np.float32))

    def op(self, kind: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:  # noqa: ANN401
        """Add a node and return its first output."""
        return self.op_all(kind, *inputs, domain=domain, outputs=outputs, **attributes)[0]

    def op_all(self, kind: str, *inputs: str, domain: str = "", outputs: int, **attributes: Any) -> list[str]:  # noqa: ANN401
        """Add a node and return all its outputs."""
        names = [self._name(kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], domain=domain, **attributes))
        return names

    def linear(self, tensor: str, weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any] | None = None) -> str:
        """Add ``tensor @ weight.T + bias``; the weight has shape (outputs, inputs), as in PyTorch."""
        product = self.op("MatMul", tensor, self.weight(weight.T))
        return product if bias is None else self.op("Add", product, self.weight(bias))

    def model(
        self,
        *,
        name: str,
        inputs: Sequence[str],
        output: str,
        shape: Sequence[int | str],
        dtype: int = TensorProto.INT32,
    ) -> onnx.ModelProto:
        """Return the finished model; every input has shape (batch, sequence).

        Raises
        ------
        onnx.checker.ValidationError
            If the graph is inconsistent.
        """
        ends = [helper.make_tensor_value_info(item, dtype, ["batch", "sequence"]) for item in inputs]
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))
        graph = helper.make_graph(self.nodes, name, ends, [result], self.weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        # IR 10 is the newest version that the oldest ONNX Runtime allowed by Braid can read.
        model = helper.make_model(graph, opset_imports=opsets, producer_name="braid", ir_version=10)
        onnx.checker.check_model(model)
        return model

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{self._prefix}{kind}_{self._count}"
