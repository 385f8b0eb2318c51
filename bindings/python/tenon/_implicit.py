# SPDX-License-Identifier: Apache-2.0
"""Symbols without a graph of their own.

`tn.var("x")` makes an implicit graph with one variable. An operator on symbols of several implicit
graphs moves the nodes of all into the largest one; the symbols follow. A graph that the user has
made takes in implicit ones in the same way, but two such graphs are never joined.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import threading

from tenon import _operators, graph as _graph

_scopes = threading.local()
_counters = collections.defaultdict(itertools.count)


def _list_needs(node):
    """Positions of the nodes that a node of the JSON of a graph needs."""
    entries = [each for key in ("inputs", "states") for each in node.get(key, ()) if each]
    return [each[0] for each in entries] + node.get("after", []) + (
        [node["of"]] if "of" in node else [])


def drop_unused(text, heads):
    """The JSON of a graph with these symbols as heads, without the nodes that they do not need."""
    whole = json.loads(text)
    nodes = whole["nodes"]
    used, ready = set(), [each._node for each in heads]
    while ready:
        i = ready.pop()
        if i not in used:
            used.add(i)
            ready += _list_needs(nodes[i])
    order = sorted(used)
    numbers = {old: new for new, old in enumerate(order)}
    for node in (nodes[i] for i in order):
        for key in ("inputs", "states"):
            if key in node:
                node[key] = [each and [numbers[each[0]], *each[1:]] for each in node[key]]
        if "after" in node:
            node["after"] = [numbers[each] for each in node["after"]]
        if "of" in node:
            node["of"] = numbers[node["of"]]
    return json.dumps({"tenon": whole["tenon"], "nodes": [nodes[i] for i in order],
                       "heads": [[numbers[each._node], each._index] for each in heads]})


@contextlib.contextmanager
def scope(prefix="", **attributes):
    """Sets attributes, and the begin of automatic names, of symbols that are made inside of it,
    on this thread. Scopes add up.

        with tn.graph.scope(prefix="encoder_", group="left"):
            y = tn.ops.nn.fully_connected(x, num_hidden=4)
    """
    before = getattr(_scopes, "value", ("", {}))
    _scopes.value = (before[0] + prefix, {**before[1], **attributes})
    try:
        yield
    finally:
        _scopes.value = before


def add_scope(attributes):
    """The attributes of a new node, with those of the scopes around it."""
    return {**getattr(_scopes, "value", ("", {}))[1], **attributes}


def var(name: str, shape: tuple | None = None, dtype: object = None, **attributes) -> _graph.Symbol:
    """A symbol for a variable without a graph. Variables with one name are one variable as soon as
    an operator joins them.

        a, b = tn.var("a"), tn.var("b")
        y = a * b + 1
    """
    graph = _graph.Graph()
    graph._is_implicit = True
    return graph.variable(name, shape, dtype, **attributes)


def join_symbols(symbols):
    """The graph of all symbols; implicit ones are moved into one."""
    for each in symbols:
        if not isinstance(each, _graph.Symbol):
            raise TypeError(f"expected symbols, found a {type(each).__name__}; the heads of a "
                            "graph are results of operators on symbols")
    graphs = list({id(each._graph): each._graph for each in symbols}.values())
    if not graphs:
        raise ValueError("a graph without symbols cannot be made from them: pass at least one")
    explicit = [each for each in graphs if not each._is_implicit]
    if len(explicit) > 1:
        raise ValueError("the symbols belong to different graphs; use Graph.compose to join them")
    target = explicit[0] if explicit else max(graphs, key=lambda each: each._size)
    for each in graphs:
        if each is not target:
            target._absorb(each)
    return target


def call_symbols(op, inputs, params):
    """Adds a call of an operator to the graph of its inputs: operator functions that get symbols
    end here. `params` has parameters, inputs by name, `name` and `attributes`."""
    inputs = list(inputs)
    if "out" in params:
        raise TypeError(f"{op}: `out` is for arrays; a program chooses where results of symbols "
                        "are, see `outputs` of Graph.bind")
    if params.get("name", 0) is None:
        params = {key: value for key, value in params.items() if key != "name"}
    with _graph._LOCK:
        symbols = [each for each in (*inputs, *params.values())
                   if isinstance(each, _graph.Symbol)]
        graph = join_symbols(symbols) if symbols else _graph.Graph()
        if not symbols:
            graph._is_implicit = True
        if graph._is_implicit and "name" not in params:
            stem = _operators.find_operator(op).stem
            params = {**params, "name": f"{getattr(_scopes, 'value', ('',))[0]}{stem}."
                                        f"{next(_counters[stem])}"}
        return graph.call(op, *inputs, **params)


def replace_variables(symbol, replacements):
    """The computation of a symbol, with variables replaced by other symbols."""
    if not replacements:
        return symbol
    inner = _graph.Graph(symbol)
    with _graph._LOCK:
        outer = join_symbols(list(replacements.values()))
        return outer.compose(inner, replacements)[0]
