# SPDX-License-Identifier: Apache-2.0
"""Symbols: outputs of nodes of a graph. Operators of Python on them add nodes.

    x = tn.var("x")
    y = tn.ops.nn.fully_connected(2 * x, num_hidden=4, name="fc1")
    y.eval(x=[[1.0, 2.0]], fc1_weight=w, fc1_bias=b)
"""

from __future__ import annotations

import ctypes
import numbers

from tenon import _api, _core, graph as _graph, _values
from tenon._binding import encode

# Of two symbols, of a symbol and a number, of a number and a symbol.
_ARITHMETIC = {
    "add": ("elemwise.add", "elemwise.add_scalar", "elemwise.add_scalar"),
    "sub": ("elemwise.sub", "elemwise.sub_scalar", "elemwise.rsub_scalar"),
    "mul": ("elemwise.mul", "elemwise.mul_scalar", "elemwise.mul_scalar"),
    "truediv": ("elemwise.div", "elemwise.div_scalar", "elemwise.rdiv_scalar"),
    "mod": ("elemwise.mod", "elemwise.mod_scalar", "elemwise.rmod_scalar"),
    "pow": ("elemwise.power", "elemwise.power_scalar", "elemwise.rpower_scalar"),
    "floordiv": ("elemwise.floor_divide", None, None),
    "matmul": ("tensor.dot", None, None),
}
# The same without the third, and the result is bool.
_COMPARISONS = {
    "eq": ("elemwise.is_equal", "elemwise.equal_scalar"),
    "ne": ("elemwise.is_not_equal", "elemwise.not_equal_scalar"),
    "lt": ("elemwise.is_less", "elemwise.lesser_scalar"),
    "le": ("elemwise.is_less_equal", "elemwise.lesser_equal_scalar"),
    "gt": ("elemwise.is_greater", "elemwise.greater_scalar"),
    "ge": ("elemwise.is_greater_equal", "elemwise.greater_equal_scalar"),
}


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


class Symbol:
    """One output of a node of a graph.

    `+ - * / % **` of two symbols need equal shapes, so that unknown dimensions follow from each
    other in both directions; `tn.ops.elemwise.broadcast_add` and its relatives broadcast. With a
    number they compute in the element type of the symbol. Comparisons and `//` broadcast.

        d = a * b + b * c
        d.infer_shape(a=(2, None), c=(None, 3)).arguments["b"]    # (2, 3)
    """

    __slots__ = ("_graph", "_node", "_index", "__weakref__")
    _tenon_symbol = True  # for tenon._core: a call with a symbol becomes a node of a graph
    __array_ufunc__ = None  # so that `numpy_array * symbol` asks the symbol, and is an error
    __iter__ = None
    __hash__ = object.__hash__

    def __init__(self, name, shape=None, dtype=None, **attributes):
        made = _graph.var(name, shape, dtype, **attributes)
        self._place(made._graph, made._node, made._index)

    @classmethod
    def _at(cls, graph, node, index=0):
        made = object.__new__(cls)
        made._place(graph, node, index)
        return made

    def _place(self, graph, node, index):
        self._graph, self._node, self._index = graph, node, index
        graph._symbols[id(self)] = self
        graph._size = max(graph._size, node)

    @property
    def _entry(self):
        return _api.tn_entry(node=self._node, index=self._index)

    # -------------------------------------------------------------- questions

    @property
    def graph(self) -> _graph.Graph:
        """The graph that has the node."""
        return self._graph

    @property
    def name(self) -> str:
        """Name of the node."""
        return self._graph._read_name(_api.TN_GRAPH_NODES, self._node)

    @property
    def output_name(self) -> str:
        """Name of the output, as `"fc1_output"`; of a variable its name."""
        return self._graph._get_output_name(self)

    @property
    def operator(self) -> str | None:
        """Full name of the operator that the node calls, or None."""
        return self._graph._do("tn_graph_operator", self._node)

    @property
    def index(self) -> int:
        """Number of the output among those of its node."""
        return self._index

    @property
    def children(self) -> list[Symbol | None]:
        """The symbols that the node reads: inputs, then states. None for an absent input."""
        return self._graph._get_children(self._node)

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Shape by the last inference of its graph: a tuple with None for an unknown dimension,
        or None if the number of dimensions is unknown."""
        return _values.read_shape(self._graph._get_sig(self))

    @property
    def dtype(self) -> str | None:
        """Element type by the last inference of its graph, as "f32", or None."""
        return _values.read_dtype(self._graph._get_sig(self))

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of the node, as a dict of texts; see set_attribute."""
        return self._graph._get_attributes(self._node)

    def set_attribute(self, key: str, value: object) -> Symbol:
        """Sets an attribute of the node; None removes it. Returns the symbol.

            y.set_attribute("group", "left")
        """
        text = None if value is None else encode(
            str(int(value)) if isinstance(value, bool) else str(value))
        self._graph._do("tn_graph_attribute_set", self._node, encode(key), text)
        return self

    # ------------------------------------------------- graphs with this head

    def infer_shape(self, **shapes) -> _graph.Shapes:
        """Shapes of the graph that computes this symbol: Graph.infer_shape."""
        return self._to_graph().infer_shape(**shapes)

    def infer_shape_partial(self, **shapes) -> _graph.Shapes:
        """The same, with None for everything unknown: Graph.infer_shape_partial."""
        return self._to_graph().infer_shape_partial(**shapes)

    def bind(self, arguments: dict | list | None = None, **settings) -> _graph.Program:
        """A program that computes this symbol: Graph.bind."""
        return self._to_graph().bind(arguments, **settings)

    def eval(self, **arrays) -> _core.Array:
        """Computes the symbol once, with an array for each variable, and returns an Array.

            (tn.var("x") * 2).eval(x=[1.0, 2.0])
        """
        return self._to_graph().eval(**arrays)[0]

    def gradient(self, of: Symbol | list[Symbol],
                 weight: Symbol | None = None) -> Symbol | tuple[Symbol, ...]:
        """The gradient with respect to one symbol, or a tuple for a list: Graph.gradient."""
        several = isinstance(of, (list, tuple))
        made = self._graph.gradient([self], of if several else [of],
                                    None if weight is None else [weight])
        return made if several else made[0]

    def _to_graph(self):
        return _graph.Graph([self])

    def __call__(self, **replacements):
        """The same computation with variables replaced by other symbols.

            network(data=encoder)    # `network` reads `encoder` instead of the variable `data`
        """
        return _graph.replace_variables(self, replacements)

    # -------------------------------------------------------------- operators

    def _combine(self, kind, other, swapped=False):
        both, right, left = _ARITHMETIC[kind]
        if isinstance(other, Symbol):
            pair = (other, self) if swapped else (self, other)
            return _graph.call_symbols(both, pair, {})
        scalar = left if swapped else right
        if scalar is None or not _is_number(other):
            return NotImplemented
        return _graph.call_symbols(scalar, (self,), {"scalar": float(other)})

    def _compare(self, kind, other):
        both, scalar = _COMPARISONS[kind]
        if isinstance(other, Symbol):
            return _graph.call_symbols(both, (self, other), {})
        if not _is_number(other):
            return NotImplemented
        made = _graph.call_symbols(scalar, (self,), {"scalar": float(other)})
        return _graph.call_symbols("elemwise.cast", (made,), {"dtype": "bool"})

    def __neg__(self):
        return _graph.call_symbols("elemwise.negative", (self,), {})

    def __pos__(self):
        return self

    def __abs__(self):
        return _graph.call_symbols("elemwise.abs", (self,), {})

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise TypeError("a symbol cannot be pickled without its graph: pickle tn.Graph(symbol)")

    def __bool__(self):
        raise TypeError("a symbol has no value, so it is neither true nor false; bind its graph "
                        "to arrays, and look at the result")

    def __len__(self):
        raise TypeError("a symbol has no length before its graph is bound; see infer_shape")

    def __repr__(self):
        shape, dtype = self.shape, self.dtype
        facts = " ".join(each for each in (dtype, format_shape(shape)) if each)
        return f"<Symbol {self.output_name}{': ' + facts if facts else ''}>"

    def _repr_svg_(self):
        return self._to_graph()._repr_svg_()


def format_shape(shape):
    """"(2, ?)" of (2, None), "" of None."""
    if shape is None:
        return ""
    return "(" + ", ".join("?" if each is None else str(each) for each in shape) + ")"


def _add_methods():
    def make_methods(kind):
        return (lambda self, other: self._combine(kind, other),
                lambda self, other: self._combine(kind, other, swapped=True))

    for kind in _ARITHMETIC:
        forward, backward = make_methods(kind)
        setattr(Symbol, f"__{kind}__", forward)
        setattr(Symbol, f"__r{kind}__", backward)
    for kind in _COMPARISONS:
        setattr(Symbol, f"__{kind}__",
                lambda self, other, kind=kind: self._compare(kind, other))


_add_methods()
