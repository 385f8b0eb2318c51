# SPDX-License-Identifier: Apache-2.0
"""Graphs and symbols. Expected values come from NumPy and by hand."""

import itertools
import xml.etree.ElementTree

import numpy as np
import pytest

import tenon as tn
from layers import draw, make_chain, make_layer


# ---------------------------------------------------------------- composition

def test_omitted_inputs_become_variables():
    g = make_layer()
    assert g.arguments == ["data", "fc1_weight", "fc1_bias"]
    assert g.auxiliaries == []
    assert g.outputs == ["relu1_output"]
    assert g.nodes == ["data", "fc1_weight", "fc1_bias", "fc1", "relu1"]


def test_states_are_auxiliaries():
    g = tn.Graph()
    out = g.call("nn.batch_norm", g.variable("x"), name="bn")
    g.heads = [out]
    assert g.arguments == ["x", "bn_gamma", "bn_beta"]
    assert g.auxiliaries == ["bn_moving_mean", "bn_moving_var"]


def test_inputs_can_be_passed_by_name():
    g = tn.Graph()
    x, w = g.variable("x"), g.variable("w")
    y = g.call("nn.fully_connected", x, weight=w, bias=None, name="fc", num_hidden=2,
               no_bias=True)
    assert [each.name for each in y.children] == ["x", "w"]
    assert y.operator == "nn.fully_connected@1" and x.operator is None


def test_an_operator_with_several_outputs_gives_a_tuple():
    g = tn.Graph()
    parts = g.call("tensor.split", g.variable("x"), name="s", num_outputs=3, axis=1)
    assert [each.index for each in parts] == [0, 1, 2]
    g.heads = parts
    assert len(g.outputs) == 3 and len(set(g.outputs)) == 3
    assert parts[1].output_name == g.outputs[1]


def test_any_number_of_inputs():
    a, b, c = tn.var("a"), tn.var("b"), tn.var("c")
    y = tn.ops.tensor.concat(a, b, c, dim=0)
    assert y.eval(a=[1.0], b=[2.0], c=[3.0]).numpy().tolist() == [1, 2, 3]
    g = tn.Graph()
    y = g.call("tensor.concat", [g.variable("a"), g.variable("b")], dim=0)
    assert y.eval(a=[1.0], b=[2.0]).numpy().tolist() == [1, 2]


def test_an_unknown_parameter_is_a_type_error_with_a_suggestion():
    g = tn.Graph()
    with pytest.raises(TypeError, match="num_hiden.*did you mean `num_hidden`"):
        g.call("nn.fully_connected", g.variable("x"), num_hiden=3)
    assert g.nodes == ["x"]


@pytest.mark.parametrize("wrong", [np.ones(3), 2.0, "x", [1, 2]])
def test_an_input_that_is_no_symbol_is_refused(wrong):
    g = tn.Graph()
    with pytest.raises(TypeError, match="a graph reads symbols"):
        g.call("elemwise.exp", wrong)


def test_a_symbol_of_another_graph_is_refused():
    other = tn.Graph().variable("x")
    with pytest.raises(ValueError, match="belongs to another graph"):
        tn.Graph().call("elemwise.exp", other)


def test_names():
    g = tn.Graph()
    x = g.variable("x")
    with pytest.raises(tn.ExistsError, match="`?x`?"):
        g.variable("x")
    with g.scope(prefix="enc_", group="left", rate=2):
        y = g.call("elemwise.exp", x)
    z = g.call("elemwise.exp", y)
    assert (y.name, z.name) == ("enc_exp0", "exp0")
    assert y.attributes == {"group": "left", "rate": "2"} and z.attributes == {}
    assert g["enc_exp0_output"].name == y.name
    assert "enc_exp0_output" in g and "exp9_output" not in g
    with pytest.raises(tn.NotFoundError, match="did you mean `exp0_output`"):
        g["exp9_output"]


def test_attributes():
    g = tn.Graph()
    x = g.variable("x", keep=True)
    y = g.call("elemwise.exp", x, name="y", attributes={"group": "a"})
    y.set_attribute("mine", "1").set_attribute("group", None)
    assert x.attributes == {"keep": "1"} and y.attributes == {"mine": "1"}
    assert g.attributes == {"x$keep": "1", "y$mine": "1"}


def test_scopes_of_symbols_without_a_graph():
    with tn.graph.scope(prefix="net_", group="left"), tn.graph.scope(rate="1"):
        y = tn.ops.elemwise.exp(tn.var("x"))
    assert y.name.startswith("net_exp") and y.attributes == {"group": "left", "rate": "1"}


# ---------------------------------------------------------- operators of Python

@pytest.mark.parametrize("compute", [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
    lambda a, b: a % b, lambda a, b: a ** b, lambda a, b: a // b,
    lambda a, b: a + 2, lambda a, b: 2 + a, lambda a, b: a - 2, lambda a, b: 2 - a,
    lambda a, b: a * 3, lambda a, b: 3 * a, lambda a, b: a / 4, lambda a, b: 4 / a,
    lambda a, b: a % 0.75, lambda a, b: 5 % a, lambda a, b: a ** 2, lambda a, b: 2 ** a,
    lambda a, b: -a, lambda a, b: +a, lambda a, b: abs(b - a),
    lambda a, b: np.float32(2) * a + np.int64(1),
    lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b,
    lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < 1.0, lambda a, b: 1.0 < a,
    lambda a, b: a == 1.0, lambda a, b: a != 1.0, lambda a, b: a >= 1.0])
def test_operators_compute_as_numpy(compute):
    a, b = draw(3, 4), draw(3, 4)
    a[0, 0] = b[0, 0] = 1
    expected = compute(a, b)
    found = compute(tn.var("a"), tn.var("b"))
    bound = {name: value for name, value in (("a", a), ("b", b))
             if name in tn.Graph(found).arguments}
    found = found.eval(**bound).numpy()
    assert found.dtype == (expected.dtype if expected.dtype == bool else np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_matrix_product():
    a, b = draw(2, 3), draw(3, 4)
    np.testing.assert_allclose((tn.var("a") @ tn.var("b")).eval(a=a, b=b).numpy(), a @ b,
                               rtol=1e-5)


def test_symbols_with_one_name_are_one_variable():
    y = tn.var("x") * tn.var("x")
    assert tn.Graph(y).arguments == ["x"]
    assert y.eval(x=[3.0]).numpy().tolist() == [9]


def test_symbols_follow_their_nodes_into_another_graph():
    a, b, c = tn.var("a"), tn.var("b"), tn.var("c")
    left, right = a * b, b + c
    y = left - right
    assert {id(each.graph) for each in (a, b, c, left, right)} == {id(y.graph)}
    assert left.eval(a=[2.0], b=[3.0]).numpy().tolist() == [6]
    g = tn.Graph()
    z = g.call("elemwise.exp", y, name="z")
    assert z.graph is g and y.graph is g and a.name == "a"


def test_a_graph_of_symbols_has_only_their_nodes():
    x = tn.var("x")
    unused = tn.ops.elemwise.exp(x, name="unused")
    g = tn.Graph(tn.ops.elemwise.log(x, name="used"))
    assert g.nodes == ["x", "used"] and unused.name == "unused"


def test_asking_a_symbol_keeps_the_heads_of_its_graph():
    g = make_layer()
    assert g["fc1_output"].infer_shape(data=(2, 3)).outputs == {"fc1_output": (2, 4)}
    assert g.outputs == ["relu1_output"]


@pytest.mark.parametrize("wrong, text", [
    (lambda x: bool(x), "neither true nor false"), (lambda x: x + "a", "unsupported operand"),
    (lambda x: np.ones(2) * x, "unsupported operand"), (lambda x: len(x), "no length"),
    (lambda x: list(x), "not iterable"), (lambda x: x // 2, "unsupported operand"),
    (lambda x: tn.ops.elemwise.exp(x, out=1), "`out` is for arrays")])
def test_wrong_uses_of_symbols(wrong, text):
    with pytest.raises(TypeError, match=text):
        wrong(tn.var("x"))


def test_a_long_chain_of_symbols():
    y = tn.var("x")
    for i in range(2000):
        y = y + tn.var(f"v{i}")
    assert len(tn.Graph(y).arguments) == 2001


def test_replaced_variables():
    net = tn.ops.elemwise.exp(tn.var("data"), name="net")
    y = net(data=tn.var("x") * 2)
    np.testing.assert_allclose(y.eval(x=[1.0]).numpy(), [np.exp(2)], rtol=1e-6)
    assert net.eval(data=[0.0]).numpy().tolist() == [1]


# ------------------------------------------------------------------ inference

def test_unknown_dimensions_follow_in_both_directions():
    a, b, c = tn.var("a"), tn.var("b"), tn.var("c")
    d = a * b + b * c
    arguments, outputs, auxiliaries = d.infer_shape(a=(2, None), c=(None, 3))
    assert arguments == {"a": (2, 3), "b": (2, 3), "c": (2, 3)}
    assert list(outputs.values()) == [(2, 3)] and auxiliaries == {}


def test_partial_inference_returns_the_known_part():
    a, b, c = tn.var("a"), tn.var("b"), tn.var("c")
    d = a * b + b * c
    assert d.infer_shape_partial(a=(2, None)).arguments == {
        "a": (2, None), "b": (2, None), "c": (2, None)}
    assert d.infer_shape_partial().arguments == {"a": None, "b": None, "c": None}
    with pytest.raises(tn.IncompleteError, match="`b`"):
        d.infer_shape(a=(2, None))


def test_dimensions_of_variables_merge():
    a, b = tn.var("a", shape=(None, 10)), tn.var("b", shape=(12, None))
    assert (a + b).infer_shape().arguments == {"a": (12, 10), "b": (12, 10)}


def test_a_product_with_an_unknown_batch():
    z = tn.ops.tensor.dot(tn.var("x"), tn.var("y"))
    assert list(z.infer_shape_partial(x=(None, 3, 4), y=(4, 5)).outputs.values()) == [
        (None, 3, 5)]


def test_a_contradiction_names_the_node():
    g = make_layer()
    with pytest.raises(tn.ShapeError, match="fc1") as caught:
        g.infer_shape(data=(100, 3), fc1_weight=(1, 100))
    assert caught.value.node == "fc1"
    assert g.infer_shape(data=(2, 3)).outputs == {"relu1_output": (2, 4)}


def test_element_types_are_inferred():
    g = tn.Graph(tn.ops.nn.fully_connected(tn.var("x"), num_hidden=2, name="fc"))
    assert g.infer_dtype(x="f16").arguments == {
        "x": "f16", "fc_weight": "f16", "fc_bias": "f16"}
    assert g.infer_dtype(x=np.float64).outputs == {"fc_output": "f64"}


@pytest.mark.parametrize("shape, kind, text", [
    ((2, -1), ValueError, "dimension 1"), ("ab", TypeError, "no shape"),
    ((1,) * 17, ValueError, "at most 16"), ((1.5,), TypeError, "no shape"),
    ((1 << 63,), ValueError, "dimension 0")])
def test_wrong_shapes(shape, kind, text):
    with pytest.raises(kind, match=text):
        tn.var("x", shape=shape)


# ------------------------------------------------- nested graphs and gradients

def make_square():
    g = tn.Graph()
    x = g.variable("x")
    g.heads = [g.call("elemwise.mul", x, x, name="square")]
    return g


def test_a_graph_as_a_node():
    g = tn.Graph()
    y = g.embed(make_square(), g.variable("data"), name="block", attributes={"group": "a"})
    z = g.embed(make_square(), x=y, name="block2")
    g.heads = [z]
    assert g.arguments == ["data"] and y.attributes == {"group": "a"}
    assert g.bind({"data": [2.0]}).forward()[0].numpy().tolist() == [16]


@pytest.mark.parametrize("by_list", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop(by_list, reverse):
    step = tn.Graph()
    x, h, k = step.variable("x"), step.variable("h"), step.variable("k")
    new = step.call("elemwise.add", step.call("elemwise.mul", h, k), x)
    step.heads = [new, step.call("elemwise.negative", new)]
    g = tn.Graph()
    xs, h0, factor = g.variable("xs"), g.variable("h0"), g.variable("factor")
    if by_list:
        last, outputs = g.loop(step, ["x"], ["h"], {"x": xs, "h": h0, "k": factor},
                               reverse=reverse)
    else:
        last, outputs = g.loop(step, {"x": xs}, {"h": h0}, {"k": factor}, reverse=reverse)
    g.heads = [last, outputs]
    values = np.array([[1], [2], [3]], np.float32)
    p = g.bind({"xs": values, "h0": [10.0], "factor": [2.0]}, request="write")
    found = [each.numpy() for each in p.forward(train=True)]
    state, expected = np.array([10.0]), np.zeros((3, 1))
    for t in (2, 1, 0) if reverse else (0, 1, 2):
        state = state * 2 + values[t]
        expected[t] = -state
    np.testing.assert_allclose(found[0], state)
    np.testing.assert_allclose(found[1], expected)
    p.backward([np.ones(1, np.float32), np.zeros((3, 1), np.float32)])
    assert p.gradients["h0"].numpy().tolist() == [8]


def test_gradients_as_symbols_and_their_gradients():
    x = tn.var("x")
    y = x * x * x
    dx = y.gradient(x)
    (ddx,) = dx.gradient([x])
    assert y.eval(x=[2.0]).numpy().tolist() == [8]
    assert dx.eval(x=[2.0]).numpy().tolist() == [12]
    assert ddx.eval(x=[2.0]).numpy().tolist() == [12]


def test_weights_of_gradients():
    x, w = tn.var("x"), tn.var("w")
    y = x * x
    dx = y.gradient(x, weight=w)
    assert dx.eval(x=[3.0], w=[10.0]).numpy().tolist() == [60]
    with pytest.raises(ValueError, match="1 heads, but 2 weights"):
        y.graph.gradient([y], [x], [w, w])


def test_gradients_by_name():
    g = tn.Graph()
    x = g.variable("x")
    g.heads = [g.call("elemwise.square", x, name="y")]
    g.backward(["x"])
    g.heads = [g["x@GRAD"]]
    assert g.bind({"x": [3.0]}).forward()[0].numpy().tolist() == [6]
    with pytest.raises(tn.ExistsError):
        g.heads = [g["y_output"]]
        g.backward(["x"])


def test_composed_graphs():
    g = tn.Graph()
    code = g.call("elemwise.exp", g.variable("x"), name="code")
    other = tn.Graph()
    other.heads = [other.call("elemwise.log", other.variable("z"), name="decoded")]
    (y,) = g.compose(other, {"z": code})
    g.heads = [y]
    assert g.arguments == ["x"]
    np.testing.assert_allclose(g.bind({"x": [2.0]}).forward()[0].numpy(), [2], rtol=1e-6)


@pytest.mark.parametrize("wrong, kind", [
    (lambda g, p: g.bind({1: 2}), TypeError), (lambda g, p: g.bind(request={1: None}), TypeError),
    (lambda g, p: g.call("elemwise.exp", name=1), TypeError),
    (lambda g, p: g.call("elemwise.exp", attributes={1: 2}), TypeError),
    (lambda g, p: g.variable(1), TypeError), (lambda g, p: g[1], TypeError),
    (lambda g, p: g.variable("\ud800"), ValueError), (lambda g, p: g.variable("a\0"), ValueError),
    (lambda g, p: g.bind(groups={1: "cpu"}), TypeError),
    (lambda g, p: g.bind(groups="left"), ValueError),
    (lambda g, p: g.bind(passes=[1]), TypeError), (lambda g, p: g.depends(1, 2), TypeError),
    (lambda g, p: g.infer_shape(data=1), TypeError), (lambda g, p: g.apply(1), TypeError),
    (lambda g, p: g.from_json(np.ones(2)), TypeError),
    (lambda g, p: g.from_json("{\0}"), ValueError),
    (lambda g, p: g.bind(memory_budget=object()), TypeError),
    (lambda g, p: g.bind({"data": (2, 3)}, request="write").backward([]), ValueError),
    (lambda g, p: p.forward_part("a"), TypeError), (lambda g, p: p.forward_part(-1), ValueError),
    (lambda g, p: p.forward_part(1 << 70), int), (lambda g, p: p.set(1, lr=2), TypeError),
    (lambda g, p: p.forward(data=object()), TypeError), (lambda g, p: p.reshape(data=1), TypeError)])
def test_objects_of_wrong_types(wrong, kind):
    g = make_layer()
    p = g.bind({"data": (2, 3)})
    if kind is int:
        assert isinstance(wrong(g, p), int)
    else:
        with pytest.raises(kind):
            wrong(g, p)


@pytest.mark.parametrize("wrong", [
    lambda g: g.embed("block"), lambda g: g.loop(None, ["x"]), lambda g: g.compose(3)])
def test_a_graph_is_needed(wrong):
    with pytest.raises(TypeError, match="needs a graph"):
        wrong(tn.Graph())


def test_order_without_data():
    g = tn.Graph()
    x = g.variable("x")
    a, b = g.call("elemwise.exp", x, name="a"), g.call("elemwise.log", x, name="b")
    g.depends(b, a)
    g.heads = [b]
    assert g.bind({"x": [1.0]}).stats.n_forward == 2


# --------------------------------------------------------- files, passes, texts

def test_a_graph_survives_text_and_file(tmp_path):
    g = make_layer()
    g["fc1_output"].set_attribute("group", "left")
    path = tmp_path / "größe.json"
    g.save(path)
    for again in (tn.Graph.load(path), tn.Graph.from_json(g.to_json()), g.copy()):
        assert again.to_json() == g.to_json()
        assert again["fc1_output"].attributes == {"group": "left"}
    with pytest.raises(tn.TenonError, match="no_such.json"):
        tn.Graph.load(tmp_path / "no_such.json")
    with pytest.raises(tn.InvalidError):
        tn.Graph.from_json("{}")


def test_passes():
    assert {"infer", "flatten"} <= set(tn.graph.list_passes())
    g = tn.Graph()
    g.heads = [g.embed(make_square(), g.variable("data"), name="block")]
    assert g.apply("flatten").nodes == ["data", "block/square"]
    with pytest.raises(tn.NotFoundError, match="no.such"):
        g.apply("no.such")


def test_texts():
    g = make_layer()
    assert repr(g) == "<Graph of 2 calls and 3 variables, heads: relu1_output>"
    g.infer_shape_partial()
    assert repr(g["fc1_output"]) == "<Symbol fc1_output: f32 (?, 4)>"
    assert repr(tn.var("x")) == "<Symbol x>"
    assert "relu1_output" in repr(g.bind({"data": (2, 3)}))


# ------------------------------------------------------------------- pictures

SVG = "{http://www.w3.org/2000/svg}"


def list_boxes(picture):
    """(left, top, width, height) of each rectangle."""
    root = xml.etree.ElementTree.fromstring(picture)
    return [tuple(float(each.get(key)) for key in ("x", "y", "width", "height"))
            for each in root.iter(f"{SVG}rect")]


def test_a_picture_has_each_node_in_a_box_of_its_own():
    x = tn.var("data")
    y = tn.ops.nn.batch_norm(tn.ops.nn.fully_connected(x, num_hidden=4, name="fc"), name="bn")
    g = tn.Graph(y + tn.ops.elemwise.exp(x, name="long"))
    g.infer_shape(data=(2, 4))
    picture = g.svg()
    texts = {each.text for each in xml.etree.ElementTree.fromstring(picture).iter(f"{SVG}text")}
    assert set(g.nodes) <= texts and "nn.fully_connected (2,4)" in texts
    boxes = list_boxes(picture)
    assert len(boxes) == len(g.nodes)
    for one, two in itertools.combinations(boxes, 2):
        assert one[1] != two[1] or one[0] + one[2] < two[0] or two[0] + two[2] < one[0]
    tops = dict(zip([each.text for each in xml.etree.ElementTree.fromstring(picture).iter(
        f"{SVG}text") if each.text in g.nodes], [each[1] for each in boxes]))
    assert tops["data"] < tops["fc"] < tops["bn"] and tops["long"] > tops["data"]


def test_pictures_of_no_node_and_of_too_many():
    assert "an empty graph" in tn.Graph().svg()
    assert "a graph of 904 nodes" in make_chain(301)._repr_svg_()


def test_a_picture_of_the_memory():
    p = make_chain(8).bind({"x": (32, 64)}, request="write")
    boxes = list_boxes(p.svg())
    assert len(boxes) >= len(p.describe()["storages"])
    assert "a program without memory" in tn.var("x").bind({"x": (2,)}).svg()
