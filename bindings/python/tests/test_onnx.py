# SPDX-License-Identifier: Apache-2.0
"""ONNX models: small ones, made here. Expected values come from NumPy and by hand."""

import concurrent.futures

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

import tenon as tn  # noqa: E402
import tenon.onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx_models import draw, port, make_model, make_dense, run_both  # noqa: E402
from tenon.onnx.windows import Window  # noqa: E402


# ----------------------------------------------------------------------- models

def test_a_model_computes_as_numpy():
    model, weights = make_dense()
    x = draw(2, 3)
    y = run_both(model, {"x": x})["y"]
    np.testing.assert_allclose(y, np.maximum(x @ weights["w"] + weights["b"], 0), rtol=1e-5)


def test_a_model_has_names_shapes_and_types():
    model = tn.onnx.load(make_dense()[0])
    assert [repr(each) for each in model.inputs] == ["Port('x', f32, ['N', 3])"]
    assert [repr(each) for each in model.outputs] == ["Port('y', f32, ['N', 4])"]


def test_a_call_takes_inputs_by_place_and_by_name():
    model = tn.onnx.load(make_dense()[0])
    x = draw(1, 3)
    np.testing.assert_array_equal(model(x).numpy(), model(x=tn.array(x)).numpy())
    with pytest.raises(TypeError, match="1 inputs, not 2"):
        model(x, x)
    with pytest.raises(TypeError, match="`x` was passed twice"):
        model(x, x=x)


def test_each_set_of_shapes_has_one_program():
    model = tn.onnx.load(make_dense()[0])
    for batch in (1, 2, 1, 2, 5):
        assert model(draw(batch, 3)).shape == (batch, 4)
    assert len(model._programs) == 3


def test_results_of_an_earlier_run_stay():
    model, weights = make_dense()
    loaded = tn.onnx.load(model)
    first = loaded(np.zeros((1, 3), "f4"))
    loaded(draw(1, 3))
    np.testing.assert_array_equal(first.numpy()[0], np.maximum(weights["b"], 0))


def test_threads_share_a_model():
    model, weights = make_dense()
    loaded = tn.onnx.load(model)

    def check(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.uniform(-1, 1, (rng.integers(1, 4), 3)).astype("f4")
            wanted = np.maximum(x @ weights["w"] + weights["b"], 0)
            np.testing.assert_allclose(loaded(x).numpy(), wanted, rtol=1e-4, atol=1e-6)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(4)))


@pytest.mark.parametrize("feeds, text", [
    ({}, "the input `x` is missing"),
    ({"x": np.zeros((1, 3), "f4"), "z": 1}, "no input `z`; it has 'x'"),
    ({"x": np.zeros((1, 3), "f8")}, "elements of f32, not f64"),
    ({"x": np.zeros((1, 4), "f4")}, r"the shape \['N', 3\], not \[1, 4\]")])
def test_wrong_inputs_are_named(feeds, text):
    with pytest.raises(tn.onnx.OnnxError, match=text):
        tn.onnx.load(make_dense()[0]).run(feeds)


# ------------------------------------------------------------- shapes and values

def test_arithmetic_of_shapes_is_folded():
    """The model flattens all axes but the first by Shape, Gather and Concat."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]),
             helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
             helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
             helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
             helper.make_node("Reshape", ["x", "shape"], ["y"])]
    weights = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    model = make_model(nodes, [port("x", ["A", "B", "C"])], [port("y", ["A", "D"])], weights)
    x = draw(2, 3, 4)
    np.testing.assert_array_equal(run_both(model, {"x": x})["y"], x.reshape(2, 12))


def test_shapes_that_depend_on_elements_run_eagerly():
    model = make_model([helper.make_node("NonZero", ["x"], ["y"])], [port("x", [4])],
                       [port("y", [1, "n"], TensorProto.INT64)])
    x = np.array([0, 2, 0, 3], "f4")
    np.testing.assert_array_equal(tn.onnx.load(model)(x).numpy(), [[1, 3]])
    with pytest.raises(tn.onnx.NeedsElements, match="node `y`: NonZero.*depends on elements"):
        tn.onnx.load(model, "graph")(x)


def test_small_integer_inputs_become_constants_of_a_program():
    branches = [helper.make_graph([helper.make_node(kind, ["x"], [kind])], kind, [],
                                  [port(kind, [3])]) for kind in ("Neg", "Abs")]
    nodes = [helper.make_node("Equal", ["rate", "wanted"], ["c"]),
             helper.make_node("If", ["c"], ["y"], then_branch=branches[0],
                              else_branch=branches[1])]
    model = make_model(nodes, [port("x", [3]), port("rate", [], TensorProto.INT64)],
                       [port("y", [3])], {"wanted": np.array(16000)})
    x = np.array([1, -2, 3], "f4")
    loaded = tn.onnx.load(model, "graph")
    assert loaded(x, np.array(16000)).numpy().tolist() == [-1, 2, -3]
    assert loaded(x, np.array(8000)).numpy().tolist() == [1, 2, 3]


def test_a_loop_runs_as_often_as_an_input_says():
    """state = 2*state + 1, and each state is an output."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["s", "two"], ["d"]),
         helper.make_node("Add", ["d", "one"], ["s_out"]),
         helper.make_node("Identity", ["s_out"], ["row"]),
         helper.make_node("Identity", ["c"], ["c_out"])],
        "body", [port("i", [], TensorProto.INT64), port("c", [], TensorProto.BOOL), port("s", [1])],
        [port("c_out", [], TensorProto.BOOL), port("s_out", [1]), port("row", [1])])
    nodes = [helper.make_node("Loop", ["n", "", "start"], ["last", "rows"], body=body)]
    model = make_model(nodes, [port("n", [], TensorProto.INT64), port("start", [1])],
                       [port("last", [1]), port("rows", ["n", 1])],
                       {"one": np.array([1], "f4"), "two": np.array([2], "f4")})
    outputs = run_both(model, {"n": np.array(4), "start": np.zeros(1, "f4")})
    assert outputs["last"].tolist() == [15]
    assert outputs["rows"].tolist() == [[1], [3], [7], [15]]


def test_a_scan_adds_along_the_reverse_direction():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["s_out"]),
         helper.make_node("Identity", ["s_out"], ["row"])],
        "body", [port("s", [2]), port("x", [2])], [port("s_out", [2]), port("row", [2])])
    nodes = [helper.make_node("Scan", ["start", "xs"], ["last", "rows"], body=body,
                              num_scan_inputs=1, scan_input_directions=[1])]
    model = make_model(nodes, [port("start", [2]), port("xs", [3, 2])],
                       [port("last", [2]), port("rows", [3, 2])])
    outputs = run_both(model, {"start": np.zeros(2, "f4"),
                               "xs": np.array([[1, 2], [3, 4], [5, 6]], "f4")})
    assert outputs["last"].tolist() == [9, 12]
    assert outputs["rows"].tolist() == [[5, 6], [8, 10], [9, 12]]


def make_scan(steps):
    """state = 0.5*state + x*w, with a weight of the outer graph; the output is 2*state."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["s", "half"], ["a"]),
         helper.make_node("MatMul", ["x", "w"], ["b"]),
         helper.make_node("Add", ["a", "b"], ["s_out"]),
         helper.make_node("Mul", ["s_out", "k"], ["row"])],
        "body", [port("s", [1, 3]), port("x", [1, 2])],
        [port("s_out", [1, 3]), port("row", [1, 3])])
    nodes = [helper.make_node("Abs", ["two"], ["k"]),
             helper.make_node("Scan", ["start", "xs"], ["last", "rows"], body=body,
                              num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1],
                              scan_output_axes=[1], scan_output_directions=[1])]
    weights = {"w": draw(2, 3), "half": np.array(0.5, "f4")}
    model = make_model(nodes, [port("start", [1, 3]), port("xs", [1, steps, 2]), port("two", [])],
                       [port("last", [1, 3]), port("rows", [1, steps, 3])], weights)
    return model, weights["w"]


@pytest.mark.parametrize("steps", [3, 40])
def test_a_scan_is_one_loop_of_a_graph(steps):
    model, w = make_scan(steps)
    xs, state, rows = draw(1, steps, 2), draw(1, 3), []
    feeds = {"start": state, "xs": xs, "two": np.array(-2, "f4")}
    outputs = run_both(model, feeds)
    for step in reversed(range(steps)):
        state = 0.5 * state + xs[:, step] @ w
        rows.insert(0, 2 * state)
    np.testing.assert_allclose(outputs["last"], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs["rows"], np.stack(rows, axis=1), rtol=1e-5, atol=1e-6)
    loaded = tn.onnx.load(model, "graph")
    build = loaded.build_graph({n: ("f32", a.shape) for n, a in feeds.items()})[0]
    assert len(build.graph.nodes) < 30


def test_a_long_loop_counts_its_steps():
    """state = state + i, 100 times."""
    body = helper.make_graph(
        [helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
         helper.make_node("Add", ["s", "f"], ["s_out"]),
         helper.make_node("Identity", ["c"], ["c_out"]),
         helper.make_node("Neg", ["s"], ["row"])],
        "body", [port("i", [], TensorProto.INT64), port("c", [], TensorProto.BOOL), port("s", [])],
        [port("c_out", [], TensorProto.BOOL), port("s_out", []), port("row", [])])
    nodes = [helper.make_node("Loop", ["n", "yes", "start"], ["last", "rows"], body=body)]
    model = make_model(nodes, [port("start", [])], [port("last", []), port("rows", [100])],
                       {"n": np.array(100), "yes": np.array(True)})
    outputs = run_both(model, {"start": np.array(7, "f4")})
    assert outputs["last"] == 7 + 99 * 100 / 2
    assert outputs["rows"].tolist() == [-7 - k * (k - 1) / 2 for k in range(100)]


def test_a_sequence_is_a_list():
    nodes = [helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=0)]
    output = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, [2])
    model = make_model(nodes, [port("x", [3, 2])], [output])
    x = draw(3, 2)
    parts = tn.onnx.load(model)(x)
    assert [each.numpy().tolist() for each in parts] == x.tolist()


# --------------------------------------------------------------------- operators

def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def compute_lstm(x, w, r, b, h, c):
    """The cell of ONNX, gates in the order i, o, f, c."""
    rows = []
    for step in x:
        i, o, f, g = np.split(step @ w.T + h @ r.T + b[:len(w)] + b[len(w):], 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.stack(rows), h, c


@pytest.mark.parametrize("lengths", [None, [5, 5], [5, 3]])
def test_lstm_computes_as_numpy(lengths):
    steps, batch, width, hidden = 5, 2, 3, 4
    w, r, b = draw(1, 4 * hidden, width), draw(1, 4 * hidden, hidden), draw(1, 8 * hidden)
    x, h, c = draw(steps, batch, width), draw(1, batch, hidden), draw(1, batch, hidden)
    weights = {"w": w, "r": r, "b": b}
    names = ["x", "w", "r", "b", "lengths" if lengths else "", "h", "c"]
    if lengths:
        weights["lengths"] = np.array(lengths, np.int32)
    nodes = [helper.make_node("LSTM", names, ["y", "h_out", "c_out"], hidden_size=hidden)]
    ranks = {"y": 4, "h_out": 3, "c_out": 3}
    model = make_model(nodes, [port("x", x.shape), port("h", h.shape), port("c", c.shape)],
                       [port(name, ["a"] * rank) for name, rank in ranks.items()], weights)
    outputs = run_both(model, {"x": x, "h": h, "c": c})
    for k, n in enumerate(lengths or [steps] * batch):
        y, last, cell = compute_lstm(x[:n, k:k + 1], w[0], r[0], b[0], h[0, k:k + 1], c[0, k:k + 1])
        np.testing.assert_allclose(outputs["y"][:n, 0, k], y[:, 0], rtol=1e-5, atol=1e-6)
        assert not outputs["y"][n:, 0, k].any()
        np.testing.assert_allclose(outputs["h_out"][0, k], last[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(outputs["c_out"][0, k], cell[0], rtol=1e-5, atol=1e-6)


def compute_gru(x, w, r, b, h):
    """The cell of ONNX with its default: h is multiplied by r before the product."""
    size, rows = h.shape[1], []
    for step in x:
        wz, wr, wn = np.split(step @ w.T + b[:3 * size], 3, axis=1)
        rz, rr, rn = np.split(r, 3)
        bz, br, bn = np.split(b[3 * size:], 3)
        z, gate = sigmoid(wz + h @ rz.T + bz), sigmoid(wr + h @ rr.T + br)
        h = (1 - z) * np.tanh(wn + (gate * h) @ rn.T + bn) + z * h
        rows.append(h)
    return np.stack(rows), h


@pytest.mark.parametrize("steps", [4, 30])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_gru_computes_as_numpy(steps, direction):
    w, r, b = draw(1, 12, 3), draw(1, 12, 4), draw(1, 24)
    x, h = draw(steps, 2, 3), draw(1, 2, 4)
    nodes = [helper.make_node("GRU", ["x", "w", "r", "b", "", "h"], ["y", "last"], hidden_size=4,
                              direction=direction)]
    model = make_model(nodes, [port("x", x.shape), port("h", h.shape)],
                       [port("y", [steps, 1, 2, 4]), port("last", [1, 2, 4])],
                       {"w": w, "r": r, "b": b})
    outputs = run_both(model, {"x": x, "h": h})
    order = slice(None, None, -1 if direction == "reverse" else 1)
    y, last = compute_gru(x[order], w[0], r[0], b[0], h[0])
    np.testing.assert_allclose(outputs["y"][:, 0], y[order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs["last"][0], last, rtol=1e-5, atol=1e-6)


def test_stft_without_a_window_is_in_a_graph():
    nodes = [helper.make_node("STFT", ["x", "step", "", "length"], ["y"])]
    weights = {"step": np.array(8), "length": np.array(16)}
    model = make_model(nodes, [port("x", [1, 64, 1])], [port("y", [1, 7, 9, 2])], weights)
    x = draw(1, 64, 1)
    y = run_both(model, {"x": x})["y"]
    frames = np.stack([x[0, k:k + 16, 0] for k in range(0, 49, 8)])
    found = y[0, ..., 0] + 1j * y[0, ..., 1]
    np.testing.assert_allclose(found, np.fft.rfft(frames), rtol=1e-4, atol=1e-5)


def test_asymmetric_padding_of_a_convolution():
    x, w = draw(1, 1, 4, 4), draw(1, 1, 3, 3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 0, 0, 2])]
    model = make_model(nodes, [port("x", x.shape)], [port("y", [1, 1, 3, 4])], {"w": w})
    y = run_both(model, {"x": x})["y"]
    padded = np.pad(x[0, 0], ((1, 0), (0, 2)))
    wanted = [[(padded[i:i + 3, j:j + 3] * w[0, 0]).sum() for j in range(4)] for i in range(3)]
    np.testing.assert_allclose(y[0, 0], wanted, rtol=1e-5, atol=1e-6)


def test_no_window_of_a_pool_begins_in_the_last_padding():
    window = Window([2], [3], [1], [0], [1])
    assert window.count_windows([3], ceil=True) == [1]
    assert window.count_windows([4], ceil=True) == [2]


def test_a_quantised_product_has_exact_sums():
    a, b = np.array([[200, 3]], np.uint8), np.array([[100], [7]], np.uint8)
    nodes = [helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])]
    model = make_model(nodes, [port("a", [1, 2], TensorProto.UINT8)],
                       [port("y", [1, 1], TensorProto.INT32)],
                       {"b": b, "az": np.array(10, np.uint8), "bz": np.array(5, np.uint8)})
    assert run_both(model, {"a": a})["y"].tolist() == [[190 * 95 - 7 * 2]]


def test_packed_integers_wrap_as_in_onnx():
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4),
             helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)]
    model = make_model(nodes, [port("x", [5])], [port("z", [5])], opset=21)
    x = np.array([-9, -8, 7, 8, 2.7], "f4")
    assert run_both(model, {"x": x})["z"].tolist() == [7, -8, 7, -8, 2]


def test_a_norm_over_an_even_number_of_channels():
    x = draw(1, 4, 2, 1)
    nodes = [helper.make_node("LRN", ["x"], ["y"], size=2, alpha=0.5, beta=0.75, bias=2.0)]
    y = run_both(make_model(nodes, [port("x", x.shape)], [port("y", x.shape)]), {"x": x})["y"]
    squares = np.pad(x * x, ((0, 0), (0, 1), (0, 0), (0, 0)))
    sums = squares[:, :-1] + squares[:, 1:]
    np.testing.assert_allclose(y, x / (2 + 0.25 * sums) ** 0.75, rtol=1e-5)


def test_old_forms_of_top_k_and_sum():
    nodes = [helper.make_node("TopK", ["x"], ["v", "i"], k=2, axis=1),
             helper.make_node("Sum", ["v", "v", "v"], ["y"])]
    model = make_model(nodes, [port("x", [1, 4])],
                       [port("y", [1, 2]), port("i", [1, 2], TensorProto.INT64)], opset=7)
    outputs = run_both(model, {"x": np.array([[3, 9, 1, 5]], "f4")})
    assert outputs["y"].tolist() == [[27, 15]]
    assert outputs["i"].tolist() == [[1, 3]]


def test_classes_are_drawn_by_their_probabilities():
    nodes = [helper.make_node("Multinomial", ["x"], ["y"], sample_size=20)]
    model = make_model(nodes, [port("x", [2, 3])], [port("y", [2, 20], TensorProto.INT32)])
    x = np.log(np.array([[1e-9, 1, 1e-9], [1, 1e-9, 1]], "f4"))
    y = tn.onnx.load(model)(x).numpy()
    assert (y[0] == 1).all() and set(y[1]) <= {0, 2}


def make_trees(kind, **attributes):
    """Two trees: x[0] <= 0.5 is leaf 1, otherwise x[1] > 2 is leaf 3 or 4; and one leaf."""
    nodes = [helper.make_node(
        kind, ["x"], ["y"] if kind.endswith("Regressor") else ["label", "y"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "LEAF"],
        nodes_featureids=[0, 0, 1, 0, 0, 0], nodes_values=[0.5, 0.0, 2.0, 0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 3, 0, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0, 0], **attributes)]
    outputs = [port("y", ["N", 2])]
    if len(nodes[0].output) == 2:
        outputs.append(port("label", ["N"], TensorProto.INT64))
    return make_model(nodes, [port("x", ["N", 2])], outputs, domains=["ai.onnx.ml"])


@pytest.mark.parametrize("kind, attributes, x, wanted", [
    ("Scaler", {"offset": [1.0, 2.0], "scale": [2.0, 0.5]}, [[3, 4], [0, 0]], [[4, 1], [-2, -1]]),
    ("Normalizer", {"norm": "L1"}, [[1, -3], [0, 0]], [[0.25, -0.75], [0, 0]]),
    ("Normalizer", {"norm": "L2"}, [[3, -4]], [[0.6, -0.8]]),
    ("Normalizer", {}, [[2, -4]], [[0.5, -1]]),
    ("Imputer", {"imputed_value_floats": [5.0, 6.0], "replaced_value_float": 7.0},
     [[7, 1], [2, 7]], [[5, 1], [2, 6]]),
    ("LinearRegressor", {"coefficients": [1.0, 2.0], "intercepts": [0.5]}, [[1, 1], [3, 0]],
     [[3.5], [3.5]]),
    ("LabelEncoder", {"keys_floats": [1.0, 2.0], "values_floats": [10.0, 20.0],
                      "default_float": -3.0}, [[2, 1], [9, 2]], [[20, 10], [-3, 20]])])
def test_classical_operators(kind, attributes, x, wanted):
    nodes = [helper.make_node(kind, ["x"], ["y"], domain="ai.onnx.ml", **attributes)]
    model = make_model(nodes, [port("x", ["N", 2])], [port("y", ["N", "M"])])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    y = run_both(model, {"x": np.array(x, "f4")})["y"]
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


def test_a_linear_classifier_chooses_the_best_class():
    nodes = [helper.make_node("LinearClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml",
                              coefficients=[1.0, 0.0, 0.0, 1.0, -1.0, -1.0],
                              intercepts=[0.0, 0.0, 1.0], classlabels_ints=[5, 6, 7])]
    model = make_model(nodes, [port("x", ["N", 2])],
                       [port("label", ["N"], TensorProto.INT64), port("y", ["N", 3])],
                       domains=["ai.onnx.ml"])
    outputs = run_both(model, {"x": np.array([[2, 1], [0, 3], [0, 0]], "f4")})
    assert outputs["label"].tolist() == [5, 6, 7]
    assert outputs["y"].tolist() == [[2, 1, -2], [0, 3, -2], [0, 0, 1]]


ROWS = np.array([[0.5, 9], [0.6, 3], [0.6, 2]], "f4")  # leaves 1, 3 and 4 of the first tree


def test_trees_add_the_votes_of_leaves():
    model = make_trees("TreeEnsembleRegressor", n_targets=2, target_treeids=[0, 0, 0, 0, 1],
                       target_nodeids=[1, 1, 3, 4, 0], target_ids=[0, 1, 0, 1, 1],
                       target_weights=[1.0, 2.0, 3.0, 4.0, 0.25], base_values=[10.0, 20.0])
    wanted = [[11, 22.25], [13, 20.25], [10, 24.25]]
    assert run_both(model, {"x": ROWS})["y"].tolist() == wanted


def test_trees_vote_for_classes():
    model = make_trees("TreeEnsembleClassifier", class_treeids=[0, 0, 0, 1],
                       class_nodeids=[1, 3, 4, 0], class_ids=[0, 1, 0, 1],
                       class_weights=[1.0, 1.0, 0.5, 0.75], classlabels_int64s=[7, -7])
    outputs = run_both(model, {"x": ROWS})
    assert outputs["label"].tolist() == [7, -7, -7]
    assert outputs["y"].tolist() == [[1, 0.75], [0, 1.75], [0.5, 0.75]]


def test_a_function_of_the_model_gets_the_attributes_of_its_node():
    inner = helper.make_node("LeakyRelu", ["v"], ["w"])
    inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope",
                                               type=onnx.AttributeProto.FLOAT))
    function = helper.make_function("here", "Bend", ["v"], ["w"], [inner],
                                    [helper.make_opsetid("", 18)], ["slope"])
    nodes = [helper.make_node("Bend", ["x"], ["y"], domain="here", slope=0.5)]
    model = make_model(nodes, [port("x", [2])], [port("y", [2])], domains=["here"],
                       functions=[function])
    assert run_both(model, {"x": np.array([-4, 4], "f4")})["y"].tolist() == [-2, 4]


def test_an_old_opset_is_converted():
    nodes = [helper.make_node("Add", ["x", "b"], ["y"], axis=0, broadcast=1)]
    model = make_model(nodes, [port("x", [2, 3])], [port("y", [2, 3])],
                       {"b": np.array([1, 2], "f4")}, opset=6)
    y = run_both(model, {"x": np.zeros((2, 3), "f4")})["y"]
    assert y.tolist() == [[1, 1, 1], [2, 2, 2]]
