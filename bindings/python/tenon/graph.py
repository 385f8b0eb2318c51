# SPDX-License-Identifier: Apache-2.0
"""Graphs of operators, and the programs that run them.

    g = tn.Graph()
    x = g.variable("data", shape=(None, 3))
    h = g.call("nn.fully_connected", x, name="fc1", num_hidden=64)
    g.heads = [g.call("elemwise.relu", h, name="relu1")]
    program = g.bind({"data": images}, request="write")
    program.forward(train=True)

Symbols also work without a graph: `tn.var("data")` and the operators on it. The graph of such
symbols is made as needed: `tn.Graph(y)` is the graph that computes y.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import itertools
import json
import os
import threading
import weakref

from tenon import _api, _core, _errors, _operators, _values
from tenon._binding import encode
from tenon._objects import Handle, make, read_text

Shapes = collections.namedtuple("Shapes", "arguments outputs auxiliaries")
Shapes.__doc__ = """Results of an inference: three dicts from names to shapes (or dtypes).

    arguments, outputs, auxiliaries = g.infer_shape(data=(4, 3))
"""

_LOCK = threading.RLock()  # one thread at a time changes graphs


def _sort_inputs(operator, inputs, params):
    """Entries, their keys or None, and the remaining parameters of a call."""
    if operator.is_variadic and inputs and isinstance(inputs[-1], (list, tuple)):
        inputs = (*inputs[:-1], *inputs[-1])
    by_name = {key: value for key, value in params.items()
               if isinstance(value, Symbol) or key in operator.inputs or key in operator.states}
    params = {key: value for key, value in params.items() if key not in by_name}
    if not by_name:
        return list(inputs), None, params
    if operator.is_variadic and inputs:
        raise TypeError(f"{operator.name} takes any number of inputs, so all of them are passed by "
                        f"position, not by name: {', '.join(by_name)}")
    names = operator.inputs + operator.states
    if len(inputs) > len(names):
        raise TypeError(f"{operator.name} takes {len(names)} inputs and states, but {len(inputs)} "
                        "were passed")
    return list(inputs) + list(by_name.values()), names[:len(inputs)] + list(by_name), params


class Graph:
    """A graph of operators, of the process-wide runtime.

    `tn.Graph()` is empty; `tn.Graph(y)` and `tn.Graph([y, z])` have the nodes that compute these
    symbols.

        g = tn.Graph()
        x = g.variable("x", shape=(2, 3), dtype="f32")
        g.heads = [g.call("elemwise.exp", x, name="y")]
        print(g.arguments, g.infer_shape().outputs)
    """

    def __init__(self, heads=None):
        if heads is None:
            self._adopt(make("tn_graph_create", _core.runtime_handle()))
            return
        heads = [heads] if isinstance(heads, Symbol) else list(heads)
        with _LOCK:
            text = drop_unused(join_symbols(heads).to_json(), heads).encode()
        self._adopt(make("tn_graph_parse", _core.runtime_handle(), text, len(text)))

    def _adopt(self, address):
        self._handle = Handle(address, "tn_graph_release")
        self._symbols = weakref.WeakValueDictionary()  # by id, see _absorb
        self._size = 0  # number of the last node that has had a symbol
        self._is_implicit = False  # the graph of symbols that were made without one

    @classmethod
    def _wrap(cls, address):
        made = cls.__new__(cls)
        made._adopt(address)
        return made

    def _do(self, function, *arguments):
        with _LOCK:
            return getattr(_api, function)(self._handle.address, *arguments)

    # ----------------------------------------------------------- construction

    def variable(self, name: str, shape: tuple | None = None, dtype: object = None,
                 **attributes) -> Symbol:
        """Adds a variable; unknown dimensions of its shape are None.

            x = g.variable("data", shape=(None, 3), dtype="f32")
        """
        sig = None if shape is None and dtype is None else _values.make_sig(shape, dtype)
        entry = _api.tn_entry()
        self._do("tn_graph_variable", encode(name), sig, ctypes.byref(entry))
        made = self._make_symbol(entry)
        for key, value in add_scope(attributes).items():
            made.set_attribute(key, value)
        return made

    def call(self, op: str, *inputs, name: str | None = None, attributes=None,
             **params) -> Symbol | tuple[Symbol, ...]:
        """Adds a call of an operator; returns a symbol, or a tuple if it has several outputs.

        Inputs and states are symbols, by position or by name; None is an absent optional one.
        Omitted ones become variables `<name>_<input>`.

            y = g.call("nn.fully_connected", x, weight=w, name="fc1", num_hidden=64)
        """
        operator = _operators.find_operator(op)
        unknown = [key for key in params if key not in operator.params
                   and key not in operator.inputs and key not in operator.states
                   and not key.startswith("__")]
        entries, keys, params = _sort_inputs(operator, inputs, params)
        text = _values.format_params(params)
        node, entry = _api.tn_graph_node(op=op, params=text, name=name), _api.tn_entry()
        with _LOCK:
            self._set_inputs(node, operator.name, entries, keys, attributes)
            try:
                self._do("tn_graph_call", node, ctypes.byref(entry))
            except _errors.NotFoundError as error:
                if not unknown:
                    raise
                raise TypeError(f"{op}() got an unexpected keyword argument '{unknown[0]}': "
                                f"{error}") from None
            n = len(entries) if operator.is_variadic and keys is None else len(operator.inputs)
            return self._make_symbols(entry, _operators.count_outputs(operator, n, text))

    def embed(self, inner: Graph, *inputs, name: str | None = None, attributes=None,
              **by_name) -> Symbol | tuple[Symbol, ...]:
        """Adds another graph as one node. Its heads are the outputs; its variables the inputs, by
        position or by name.

            y = g.embed(block, x, name="block1")
        """
        count = len(_check_graph(inner, "embed").heads)
        node, entry = _api.tn_embedding(inner=inner._handle.address, name=name), _api.tn_entry()
        with _LOCK:
            self._set_inputs(node, name or "graph", *_merge_by_name(
                inputs, by_name, inner.arguments + inner.auxiliaries), attributes)
            self._do("tn_graph_embed", node, ctypes.byref(entry))
            return self._make_symbols(entry, count)

    def loop(self, step: Graph, sequences: dict[str, Symbol] | list[str], states=(), inputs=(),
             reverse: bool = False, name: str | None = None,
             attributes=None) -> Symbol | tuple[Symbol, ...]:
        """Adds a loop over the step graph: in step t it reads element t of each sequence and the
        states of the step before. Returns the last states, then the collected outputs.

        `sequences` and `states` are dicts from arguments of the step to symbols, and `inputs` one
        of the others. Or they are lists of names, and `inputs` has all symbols, as a dict, or as
        a list in the order of the step's arguments.

            h, all_h = g.loop(step, sequences={"x": xs}, states={"h": h0})
        """
        _check_graph(step, "loop")
        names, by_name = [list(sequences), list(states)], {}
        for each in (sequences, states, inputs):
            if isinstance(each, dict):
                by_name.update(each)
        passed = () if isinstance(inputs, dict) else tuple(inputs)
        node = _api.tn_loop(
            step=step._handle.address, name=name, sequences=_values.make_texts(names[0]),
            states=_values.make_texts(names[1]), n_sequences=len(names[0]),
            n_states=len(names[1]), reverse=bool(reverse))
        entry = _api.tn_entry()
        with _LOCK:
            self._set_inputs(node, name or "loop", *_merge_by_name(
                passed, by_name, step.arguments + step.auxiliaries), attributes)
            self._do("tn_graph_loop", node, ctypes.byref(entry))
            return self._make_symbols(entry, len(step.heads))

    def compose(self, other: Graph,
                replacements: dict[str, Symbol] | None = None) -> tuple[Symbol, ...]:
        """Adds all nodes of another graph; variables of it that `replacements` names become these
        symbols. Returns the heads of `other` in this graph.

            (y,) = encoder.compose(decoder, {"code": encoder.heads[0]})
        """
        _check_graph(other, "compose")
        replacements = replacements or {}
        with _LOCK:
            self._take_in(replacements.values(), "compose")
            entries = self._make_entries(replacements.values())
            heads = (_api.tn_entry * max(1, len(other.heads)))()
            self._do("tn_graph_compose", other._handle.address, _values.make_texts(replacements),
                     entries, len(replacements), heads)
            return tuple(self._make_symbol(each) for each in heads[:len(other.heads)])

    def depends(self, symbol: Symbol, on: Symbol) -> None:
        """Lets the node of `symbol` run after the node of `on`, though it does not read it."""
        self._check(symbol), self._check(on)
        self._do("tn_graph_depends", symbol._node, on._node)

    @contextlib.contextmanager
    def scope(self, prefix=None, **attributes):
        """Sets attributes of all nodes that are added inside of it, and the begin of names that
        the library makes.

            with g.scope(group="left"):
                y = g.call("elemwise.exp", x)
        """
        made = _values.make_attributes(attributes)
        self._do("tn_graph_scope_push", made, len(attributes))
        before = getattr(self, "_prefix", None)
        try:
            if prefix is not None:
                self._set_prefix(prefix)
            yield self
        finally:
            self._set_prefix(before)
            self._do("tn_graph_scope_pop")

    def _set_prefix(self, prefix):
        self._do("tn_graph_prefix", encode(prefix or ""))
        self._prefix = prefix

    def _set_inputs(self, node, name, entries, keys, attributes):
        """Sets inputs and attributes of a struct that describes a new node."""
        self._take_in(entries, name)
        node.in_ = self._make_entries(entries)
        node.n_in = len(entries)
        if keys is not None:
            node.keys = _values.make_texts(keys)
        attributes = add_scope(attributes or {})
        node.attributes = _values.make_attributes(attributes)
        node.n_attributes = len(attributes)

    def _take_in(self, entries, name):
        """Checks the inputs of a call, and moves implicit graphs of theirs into this one."""
        for i, each in enumerate(entries):
            if each is not None and not isinstance(each, Symbol):
                raise TypeError(
                    f"{name}: input {i} is a {type(each).__name__}, and a graph reads symbols: "
                    "make a variable, and bind the array to it; a number can be an operand of "
                    "+ - * / % **")
        for each in entries:
            if each is not None and each._graph is not self and each._graph._is_implicit:
                self._absorb(each._graph)

    def _check(self, symbol):
        if not isinstance(symbol, Symbol):
            raise TypeError(f"expected a symbol, not a {type(symbol).__name__}")
        if symbol._graph is not self:
            raise ValueError(f"the symbol {symbol.output_name} belongs to another graph; use "
                             "Graph.compose to join two graphs")

    def _make_entries(self, symbols):
        """A C list of entries; None becomes an absent input."""
        symbols = list(symbols)
        for each in symbols:
            if each is not None:
                self._check(each)
        none = _api.tn_entry(node=_api.TN_NONE)
        return _values.make_list(_api.tn_entry,
                                 [none if each is None else each._entry for each in symbols])

    def _make_symbol(self, entry):
        return Symbol._at(self, entry.node, entry.index)

    def _make_symbols(self, entry, n):
        made = tuple(Symbol._at(self, entry.node, i) for i in range(n))
        return made[0] if n == 1 else made

    def _absorb(self, other):
        """Moves the nodes and symbols of an implicit graph into this one."""
        symbols = list(other._symbols.values())
        entries = (_api.tn_entry * max(1, len(symbols)))(*[each._entry for each in symbols])
        other._do("tn_graph_heads_set", entries, len(symbols))
        self._do("tn_graph_compose", other._handle.address, None, None, 0, entries)
        other._symbols.clear()
        for symbol, entry in zip(symbols, entries):
            symbol._place(self, entry.node, entry.index)

    # -------------------------------------------------------------- questions

    @property
    def heads(self) -> list[Symbol]:
        """The outputs of the graph, a list of symbols; assign symbols to set them."""
        return [self._make_symbol(entry) for _, entry in self._list(_api.TN_GRAPH_HEADS)]

    @heads.setter
    def heads(self, symbols) -> None:
        symbols = [symbols] if isinstance(symbols, Symbol) else list(symbols)
        with _LOCK:
            self._take_in(symbols, "heads")
            self._do("tn_graph_heads_set", self._make_entries(symbols), len(symbols))

    @property
    def arguments(self) -> list[str]:
        """Names of the variables that the heads depend on, depth first."""
        return [name for name, _ in self._list(_api.TN_GRAPH_ARGUMENTS)]

    @property
    def auxiliaries(self) -> list[str]:
        """Names of the states that the heads depend on."""
        return [name for name, _ in self._list(_api.TN_GRAPH_AUXILIARIES)]

    @property
    def outputs(self) -> list[str]:
        """Names of the heads."""
        return [name for name, _ in self._list(_api.TN_GRAPH_HEADS)]

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes, in an order in which they can be computed."""
        return [name for name, _ in self._list(_api.TN_GRAPH_NODES)]

    @property
    def internals(self) -> dict[str, Symbol]:
        """A dict from the names of all visible outputs to symbols, in order of nodes."""
        return {name: self._make_symbol(entry)
                for name, entry in self._list(_api.TN_GRAPH_INTERNALS)}

    @property
    def attributes(self) -> dict[str, str]:
        """All attributes of all nodes, as a dict from `"<node>$<key>"` to texts."""
        with _LOCK:
            return json.loads(read_text("tn_graph_attributes", self._handle.address))

    def __getitem__(self, name):
        """The symbol of a variable, of an output `"fc1_output"`, or of a gradient `"x@GRAD"`."""
        entry = _api.tn_entry()
        self._do("tn_graph_find", encode(name), ctypes.byref(entry))
        return self._make_symbol(entry)

    __iter__ = None

    def __contains__(self, name):
        try:
            return bool(self[name]._graph)
        except _errors.NotFoundError:
            return False

    def __repr__(self):
        kinds = [each["kind"] for each in json.loads(self.to_json())["nodes"]]
        n = kinds.count("variable")
        return (f"<Graph of {len(kinds) - n} calls and {n} variables, "
                f"heads: {', '.join(self.outputs) or 'none'}>")

    def _list(self, which):
        """(name, entry) of each item of one of the lists TN_GRAPH_*."""
        found, name, entry = [], ctypes.c_char_p(), _api.tn_entry()
        with _LOCK, contextlib.suppress(_errors.NotFoundError):
            for i in itertools.count():
                self._do("tn_graph_name", which, i, ctypes.byref(name), ctypes.byref(entry))
                found.append((name.value.decode(), _api.tn_entry(entry.node, entry.index)))
        return found

    def _read_name(self, which, index):
        name = ctypes.c_char_p()
        with _LOCK:
            self._do("tn_graph_name", which, index, ctypes.byref(name), None)
            return name.value.decode()

    def _get_output_name(self, symbol):
        for name, entry in self._list(_api.TN_GRAPH_INTERNALS):
            if (entry.node, entry.index) == (symbol._node, symbol._index):
                return name
        return f"{symbol.name}[{symbol._index}]"

    def _get_children(self, node):
        found, entry = [], _api.tn_entry()
        with contextlib.suppress(_errors.NotFoundError):
            for i in itertools.count():
                self._do("tn_graph_child", node, i, ctypes.byref(entry))
                found.append(None if entry.node == _api.TN_NONE else self._make_symbol(entry))
        return found

    def _get_attributes(self, node):
        found, pair = {}, _api.tn_attribute()
        with _LOCK, contextlib.suppress(_errors.NotFoundError):
            for i in itertools.count():
                self._do("tn_graph_attribute_at", node, i, ctypes.byref(pair))
                found[pair.key.decode()] = pair.value.decode()
        return found

    def _get_sig(self, symbol):
        sig = _api.tn_sig()
        self._do("tn_graph_sig", symbol._entry, ctypes.byref(sig))
        return sig

    # -------------------------------------------------------------- inference

    def infer_shape(self, **shapes) -> Shapes:
        """Infers all shapes from those of some variables; a Shapes with three dicts.

        A contradiction is a ShapeError with the node. IncompleteError names the variables with
        unknown shapes; infer_shape_partial returns them with None instead.

            g.infer_shape(data=(4, 3)).outputs["fc1_output"]    # (4, 64)
        """
        return self._infer(shapes, {}, read=_values.read_shape, partial=False)

    def infer_shape_partial(self, **shapes) -> Shapes:
        """The same; unknown dimensions are None, and so are shapes without known dimensions."""
        return self._infer(shapes, {}, read=_values.read_shape, partial=True)

    def infer_dtype(self, **dtypes) -> Shapes:
        """Infers all element types from those of some variables: Shapes with dicts of names, and
        None for unknown ones.

            g.infer_dtype(data="f16").arguments["fc1_weight"]    # "f16"
        """
        return self._infer({}, dtypes, read=_values.read_dtype, partial=True)

    def _infer(self, shapes, dtypes, read, partial):
        known = [_api.tn_known(name=name, sig=_values.make_sig(shapes.get(name),
                                                               dtypes.get(name)))
                 for name in {**shapes, **dtypes}]
        with _LOCK:
            lists = [self._list(each) for each in (_api.TN_GRAPH_ARGUMENTS, _api.TN_GRAPH_HEADS,
                                                   _api.TN_GRAPH_AUXILIARIES)]
            incomplete = None
            try:
                self._do("tn_graph_infer", _values.make_list(_api.tn_known, known), len(known))
            except _errors.IncompleteError as error:
                incomplete = error
            found = Shapes(*({name: read(self._get_sig(self._make_symbol(entry)))
                              for name, entry in each} for each in lists))
        if incomplete and not partial and any(
                each is None or None in each for part in found for each in part.values()):
            raise incomplete
        return found

    # -------------------------------------------------------------- gradients

    def gradient(self, heads: list[Symbol], of: list[Symbol],
                 weights: list[Symbol | None] | None = None, stop=()) -> tuple[Symbol, ...]:
        """Adds nodes for the gradients of the sum of `heads` with respect to each of `of`; returns
        a tuple of symbols, which can be differentiated again.

        `weights` has a symbol or None (ones) for each head; `stop` has symbols that gradients do
        not pass.

            (dx,) = g.gradient([y], [x])
        """
        heads, of, stop = list(heads), list(of), list(stop)
        weights = None if weights is None else list(weights)
        if weights is not None and len(weights) != len(heads):
            raise ValueError(f"there are {len(heads)} heads, but {len(weights)} weights; pass one "
                             "for each, or None for ones")
        with _LOCK:
            self._take_in(heads + of + stop + (weights or []), "gradient")
            query = _api.tn_gradient_query(
                heads=self._make_entries(heads), n_heads=len(heads),
                of=self._make_entries(of), n_of=len(of),
                stop=self._make_entries(stop), n_stop=len(stop))
            if weights is not None:
                query.weights = self._make_entries(weights)
            out = (_api.tn_entry * max(1, len(of)))()
            self._do("tn_graph_gradient", query, out)
            return tuple(self._make_symbol(each) for each in out[:len(of)])

    def backward(self, of: list[str] | None = None, stop=()) -> None:
        """Adds the gradients of the heads by name: that of `x` is `g["x@GRAD"]` from then on.

            g.backward(["fc1_weight"])
        """
        names, stop = _api.tn_gradient_names(n_of=0), list(stop)
        if of is not None:
            names.of, names.n_of = _values.make_texts(of), len(of)
        names.stop, names.n_stop = _values.make_texts(stop), len(stop)
        self._do("tn_graph_backward", names)

    # ------------------------------------------------------------------ files

    def to_json(self) -> str:
        """The graph as text, as in the file that `save` writes."""
        with _LOCK:
            return read_text("tn_graph_json", self._handle.address)

    @classmethod
    def from_json(cls, text: str | bytes) -> Graph:
        """Reads the text of to_json."""
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"the JSON of a graph is a text, not a {type(text).__name__}")
        text = encode(text)
        return cls._wrap(make("tn_graph_parse", _core.runtime_handle(), text, len(text)))

    def save(self, path: str | os.PathLike) -> None:
        """Writes the graph to a file, which C programs and `tenon graph` read too.

            g.save("model.json")
        """
        self._do("tn_graph_save", encode(os.fspath(path)))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Graph:
        """Reads a file of `save`.

            g = tn.Graph.load("model.json")
        """
        return cls._wrap(make("tn_graph_load", _core.runtime_handle(), encode(os.fspath(path))))

    def copy(self) -> Graph:
        """A copy that shares nothing with this graph."""
        with _LOCK:
            return self._wrap(make("tn_graph_copy", self._handle.address))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce_ex__(self, protocol):
        return Graph.from_json, (self.to_json(),)

    def apply(self, *passes) -> Graph:
        """A copy, rewritten by passes: "infer", "flatten", and those of plugins.

            flat = g.apply("flatten")
        """
        with _LOCK:
            return self._wrap(make("tn_graph_apply", self._handle.address,
                                   _values.make_texts(passes), len(passes)))

    def describe(self) -> dict:
        """The graph as a dict for programs that show it, with names, shapes and element types
        of all outputs by the last inference (tn_graph_inferred_json)."""
        with _LOCK:
            return json.loads(read_text("tn_graph_inferred_json", self._handle.address))

    # --------------------------------------------------------------- programs

    def bind(self, arguments: dict | list | None = None,
             request: str | dict[str, str | None] | None = None, place: object = "cpu",
             memory_budget: int | str | None = None, **settings) -> Program:
        """A program that computes the heads; Program describes all settings.

            p = g.bind({"data": images, "softmax_label": labels}, request="write")
        """
        return Program(self, arguments, request, place, memory_budget, **settings)

    def eval(self, **arrays) -> list[_core.Array]:
        """Computes the heads once, with an array for each argument; returns a list of Arrays.

            (y,) = g.eval(x=[1.0, 2.0])
        """
        missing = [each for each in self.arguments if each not in arrays]
        if missing:
            raise TypeError(f"no value for {', '.join(missing)}; pass an array for each of "
                            f"{', '.join(self.arguments)}")
        return self.bind(arrays).forward()

    def _repr_svg_(self):
        from tenon import _picture
        return _picture.draw_graph(self.describe())

    def svg(self) -> str:
        """A picture of the graph, as the text of an SVG file. Notebooks show it by themselves."""
        return self._repr_svg_()


def list_passes() -> list[str]:
    """Names of all passes that Graph.apply and bind accept."""
    names, info = [], _api.tn_pass_info()
    with contextlib.suppress(_errors.NotFoundError):
        for i in itertools.count():
            _api.tn_pass_at(_core.runtime_handle(), i, ctypes.byref(info))
            names.append(info.name.decode())
    return names


def _check_graph(value, function):
    if not isinstance(value, Graph):
        raise TypeError(f"Graph.{function} needs a graph, not a {type(value).__name__}")
    return value


def _merge_by_name(inputs, by_name, names):
    """Symbols and their keys, or None if all are passed by position."""
    if not by_name:
        return list(inputs), None
    if len(inputs) > len(names):
        raise TypeError(f"the graph has {len(names)} variables, but {len(inputs)} symbols were "
                        "passed")
    return list(inputs) + list(by_name.values()), names[:len(inputs)] + list(by_name)


from tenon._implicit import (  # noqa: E402, F401  (they need Graph)
    add_scope, call_symbols, drop_unused, join_symbols, replace_variables, scope, var)
from tenon._symbol import Symbol  # noqa: E402  (it needs Graph)
from tenon.program import Program  # noqa: E402
