# SPDX-License-Identifier: Apache-2.0
"""The forward rows of ../ops.h by ONNX Runtime, with one thread. Prints the
same lines as ops.c.

    onnx_ops.py OPS [-- PART ...]    OPS is the program of ops.c

Each row is a model of one node; its inputs and outputs are bound to existing
memory. The weights of a convolution are constants, as in all its models, and
are laid out beforehand. The figures include the microseconds that Python needs
for the call. Rows that it has no operator for are left out.
"""

import json
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

SECONDS, BATCHES = 0.2, 5  # of each figure, as ops.c and measure_cpu
OPSET, IR_VERSION = 21, 10
FLOATS, INDICES = TensorProto.FLOAT, TensorProto.INT64


class Node:
    """An operator with its attributes. `constants` are inputs by their place;
    with `weights`, the second one of the row is a constant, too."""

    def __init__(self, op, outputs=1, constants=None, weights=False,
                 **attributes):
        self.op = op
        self.outputs = [f"out{i}" for i in range(outputs)]
        self.constants = constants or {}
        self.weights = weights
        self.attributes = attributes

    def keep(self, arrays):
        """Takes the inputs of the row; returns those that a run is given."""
        if self.weights:
            self.constants[1] = arrays.pop(1)
        return arrays


def window(n):
    """Of a pool of width n[0], step n[1] and padding n[2]."""
    return {"kernel_shape": [n[0]] * 2, "strides": [n[1]] * 2,
            "pads": [n[2]] * 4}


def reduction(op):
    """Along axis n[0]."""
    return lambda n: Node(op, constants={1: np.array([n[0]])}, keepdims=0)


# The counterparts of the functions of torch_ops.cpp, by the numbers of the
# row.
MAKERS = {
    "convolution": lambda n: Node("Conv", weights=True, strides=[n[0]] * 2,
                                  pads=[n[1]] * 4, group=n[2]),
    "deconvolution": lambda n: Node("ConvTranspose", weights=True,
                                    strides=[n[0]] * 2, pads=[n[1]] * 4),
    "deformable": lambda n: Node("DeformConv", weights=True,
                                 pads=[n[1]] * 4),
    "grid_sample": lambda n: Node("GridSample"),
    "max_pool": lambda n: Node("MaxPool", **window(n)),
    "avg_pool": lambda n: Node("AveragePool", **window(n)),
    "softmax": lambda n: Node("Softmax", axis=1),
    "log_softmax": lambda n: Node("LogSoftmax", axis=1),
    "batch_norm": lambda n: Node("BatchNormalization", 3, training_mode=1,
                                 epsilon=1e-3),
    "layer_norm": lambda n: Node("LayerNormalization", 3, epsilon=1e-5),
    "dropout": lambda n: Node("Dropout", 2, {1: np.float32(0.5),
                                             2: np.array(True)}),
    "cross_entropy": lambda n: Node("SoftmaxCrossEntropyLoss",
                                    reduction="sum"),
    "embedding": lambda n: Node("Gather"),
    "sum": reduction("ReduceSum"),
    "amax": reduction("ReduceMax"),
    "argmax": lambda n: Node("ArgMax", axis=n[0], keepdims=0),
    "cumsum": lambda n: Node("CumSum", constants={1: np.array(n[0])}),
    "logsumexp": reduction("ReduceLogSumExp"),
    "topk": lambda n: Node("TopK", 2, {1: np.array([n[0]])}),
    "matmul": lambda n: Node("MatMul"),
    "einsum_scores": lambda n: Node("Einsum", equation="bhqd,bhkd->bhqk"),
    "einsum_turned": lambda n: Node("Einsum", equation="bji,jbk->kbi"),
    "dft": lambda n: Node("DFT"),
    "transpose": lambda n: Node("Transpose", perm=[1, 0]),
    "channels_last": lambda n: Node("Transpose", perm=[0, 2, 3, 1]),
    "concat": lambda n: Node("Concat", axis=n[0]),
    "scatter_add": lambda n: Node("ScatterElements", axis=0, reduction="add"),
    "index_add": lambda n: Node("ScatterND", reduction="add"),
    "uniform": lambda n: Node("RandomUniform", shape=[n[0]]),
    "normal": lambda n: Node("RandomNormal", shape=[n[0]]),
    "group_norm": lambda n: Node("GroupNormalization", num_groups=n[0],
                                 epsilon=1e-5),
    "instance_norm": lambda n: Node("InstanceNormalization", epsilon=1e-3),
    "l2_norm": lambda n: Node("LpNormalization", axis=n[0]),
    "lrn": lambda n: Node("LRN", size=n[0], alpha=1e-4, beta=0.75, bias=2.0),
    "det": lambda n: Node("Det"),
}


def inputs(row):
    """The inputs of the node, drawn from [-1, 1) or below the limit."""
    draw = np.random.default_rng(1)
    arrays = [draw.random(shape, np.float32) * 2 - 1 for shape in row["in"]]
    if row["index_limit"]:
        at = row["index_at"]
        arrays[at] = draw.integers(row["index_limit"], size=row["in"][at])
    # Gather has the table first.
    return arrays[::-1] if row["torch"] == "embedding" else arrays


def model(node, arrays):
    """Bytes of a graph of the node."""
    free = iter(range(len(arrays)))
    places = range(len(arrays) + len(node.constants))
    names = [f"constant{i}" if i in node.constants else f"in{next(free)}"
             for i in places]
    graph = helper.make_graph(
        [helper.make_node(node.op, names, node.outputs, **node.attributes)],
        node.op,
        [helper.make_tensor_value_info(
            f"in{i}", INDICES if array.dtype == np.int64 else FLOATS,
            array.shape) for i, array in enumerate(arrays)],
        [helper.make_empty_tensor_value_info(name) for name in node.outputs],
        [numpy_helper.from_array(np.asarray(array), f"constant{i}")
         for i, array in node.constants.items()])
    return helper.make_model(
        graph, ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)]).SerializeToString()


def open_session(content):
    """With one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    return ort.InferenceSession(content, options,
                                providers=["CPUExecutionProvider"])


def bind(session, node, arrays):
    """The memory of inputs and outputs; a run finds their sizes."""
    fed = {f"in{i}": array for i, array in enumerate(arrays)}
    found = session.run(node.outputs, fed)
    binding = session.io_binding()
    for name, array in fed.items():
        binding.bind_ortvalue_input(
            name, ort.OrtValue.ortvalue_from_numpy(array))
    for name, array in zip(node.outputs, found):
        binding.bind_ortvalue_output(
            name, ort.OrtValue.ortvalue_from_numpy(array))
    return binding


def timed(once, times):
    """Nanoseconds of processor time of so many calls."""
    begin = time.process_time_ns()
    for _ in range(times):
        once()
    return time.process_time_ns() - begin


def least(once):
    """Nanoseconds of a call, the least of five batches after one call that does
    not count; together they take SECONDS or more."""
    times = 1
    once()
    while timed(once, times) < 1e9 * SECONDS / BATCHES:
        times *= 2
    return min(timed(once, times) for _ in range(BATCHES)) / times


def run_row(row):
    """Prints its line."""
    node = MAKERS[row["torch"]](row["n"])
    arrays = node.keep(inputs(row))
    try:
        session = open_session(model(node, arrays))
        binding = bind(session, node, arrays)
    except Exception as error:  # its own have no other class in common
        print(f"SKIPPED {row['name']}: {error}", file=sys.stderr)
        return
    ns = least(lambda: session.run_with_iobinding(binding))
    print(f"forward/{row['name']} {ns / 1e3:.2f}", flush=True)


def main():
    """All rows that are wanted."""
    listed = subprocess.run([sys.argv[1], "--inputs"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    parts = sys.argv[3:] or [""]
    for row in map(json.loads, listed.splitlines()):
        if row["torch"] in MAKERS and any(p in row["name"] for p in parts):
            run_row(row)


if __name__ == "__main__":
    main()
