# SPDX-License-Identifier: Apache-2.0
"""Runs through the nodes of a model, with a builder that computes or builds a graph."""

from typing import Any, Callable, Dict, List, Optional, Sequence

import onnx
from onnx import defs, numpy_helper

from . import _tenon, folding, plugins, types
from .builder import Builder
from .errors import OnnxError, Unsupported
from .node import Node
from .registry import find_converter
from .values import TensorSequence, Value, make_constant

_ONNX_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
_MOST_NESTED = 64
# Errors that wrong attributes, shapes and numbers of inputs cause in converters.
_DAMAGES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError)


class Scope:
    """Values by name; names of an outer graph are visible in a nested one."""

    def __init__(self, outer: Optional["Scope"] = None) -> None:
        self.values: Dict[str, Any] = {}
        self.outer = outer

    def find(self, name: str) -> Any:
        """Returns the value of a name, or raises OnnxError."""
        scope: Optional[Scope] = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise OnnxError(f"no node, input or initializer before it has the name `{name}`")


class Interpreter:
    """Runs graphs with one builder. `opsets` has the version of each domain."""

    def __init__(
        self,
        build: Builder,
        opsets: Dict[str, int],
        functions: Optional[Dict[tuple, onnx.FunctionProto]] = None,
    ) -> None:
        self.build = build
        self.opsets = opsets
        self.functions = functions or {}
        self.depth = 0
        # Sees errors of nodes; true if it has stored outputs, and the run continues.
        self.on_refusal: Optional[Callable[[Unsupported, onnx.NodeProto, Scope], bool]] = None

    def with_builder(self, build: Builder) -> "Interpreter":
        """Returns an interpreter of the same model with another builder."""
        inner = Interpreter(build, self.opsets, self.functions)
        inner.depth = self.depth
        return inner

    # ------------------------------------------------------------------ graphs

    def run_graph(
        self, graph: onnx.GraphProto, inputs: Sequence[Any], outer: Optional[Scope] = None
    ) -> List[Any]:
        """Runs a nested graph on the values of its inputs; returns those of its outputs."""
        scope = Scope(outer)
        self.add_initializers(graph, scope)
        if len(inputs) > len(graph.input):
            count = len(graph.input)
            raise OnnxError(f"graph `{graph.name}` has {count} inputs, not {len(inputs)}")
        for info, value in zip(graph.input, inputs):
            scope.values[info.name] = value
        return self.run_nodes(graph, scope)

    def run_nodes(
        self, graph: onnx.GraphProto, scope: Scope, wanted: Optional[Sequence[bool]] = None
    ) -> List[Any]:
        """Runs the nodes of a graph whose inputs are in the scope.

        `wanted` says which outputs are needed; the others are None.
        """
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise OnnxError(f"graphs and functions are nested more than {_MOST_NESTED} deep")
        try:
            last = find_last_uses(graph)
            for index, proto in enumerate(graph.node):
                self.run_node(proto, scope)
                for name in last.get(index, ()):
                    scope.values.pop(name, None)
            wanted = wanted or [True] * len(graph.output)
            return [scope.find(o.name) if w else None for o, w in zip(graph.output, wanted)]
        finally:
            self.depth -= 1

    def add_initializers(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Adds the constants of a graph to a scope."""
        for tensor in graph.initializer:
            scope.values[tensor.name] = make_constant(read_tensor(tensor), name=tensor.name)
        if graph.sparse_initializer:
            raise Unsupported("sparse initializers")

    # ------------------------------------------------------------------- nodes

    def run_node(self, proto: onnx.NodeProto, scope: Scope) -> None:
        """Runs one node and stores its outputs."""
        inputs = [scope.find(name) if name else None for name in proto.input]
        opset = self.opsets.get(proto.domain, self.opsets.get("", 0) if not proto.domain else 1)
        node = Node(proto, opset, self.build, self)
        node.scope = scope
        if hasattr(self.build, "node_name"):
            self.build.node_name = node.name
        try:
            outputs = self.convert(node, inputs)
        except Unsupported as error:
            self.refuse(_place_error(error, node), proto, scope)
            return
        except _tenon.CoreError as error:
            self.refuse(Unsupported(str(error), node.name, node.operator, opset), proto, scope)
            return
        except OnnxError:
            raise
        except _DAMAGES as error:
            text = str(error) or type(error).__name__
            place = f"node `{node.name}`: {node.operator} (opset {opset})"
            raise OnnxError(f"{place}: {text}") from error
        if not isinstance(outputs, (tuple, list)) or isinstance(outputs, TensorSequence):
            outputs = (outputs,)
        for name, value in zip(proto.output, outputs):
            if name:
                scope.values[name] = value

    def refuse(self, error: Unsupported, proto: onnx.NodeProto, scope: Scope) -> None:
        """Raises the error, unless a report continues without the node."""
        if self.on_refusal is None or not self.on_refusal(error, proto, scope):
            raise error

    def convert(self, node: Node, inputs: List[Any]) -> Any:
        """Chooses how to convert a node: constants, converter, function, or plugin."""
        proto = node.proto
        folded = folding.fold(node, inputs)
        if folded is not None:
            return folded
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        function = self.functions.get((domain, proto.op_type))
        if function is not None:
            return self.run_function(function, node, inputs)
        found = find_converter(domain, proto.op_type, node.opset)
        if found is not None:
            return found(node, *inputs)
        if domain in _ONNX_DOMAINS:
            return self.run_schema(node, inputs)
        return plugins.convert_custom(node, inputs)

    # --------------------------------------------------------------- functions

    def run_function(
        self, function: onnx.FunctionProto, node: Node, inputs: Sequence[Any]
    ) -> List[Any]:
        """Runs the body of a function in place of its node."""
        scope = Scope()
        for index, name in enumerate(function.input):
            scope.values[name] = inputs[index] if index < len(inputs) else None
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update(node.attributes)
        body = onnx.GraphProto(name=function.name)
        body.node.extend(_bind_attributes(n, attributes) for n in function.node)
        body.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
        opsets = {entry.domain: entry.version for entry in function.opset_import}
        inner = Interpreter(self.build, {**self.opsets, **opsets}, self.functions)
        inner.depth = self.depth
        del body.output[node.n_outputs :]
        wanted = [node.has_output(index) for index in range(len(body.output))]
        return inner.run_nodes(body, scope, wanted)

    def run_schema(self, node: Node, inputs: Sequence[Any]) -> List[Any]:
        """Runs the function that ONNX defines for the type of the node."""
        proto = node.proto
        if any(isinstance(value, Value) and value.dtype == types.STRING for value in inputs):
            raise node.refuse("Tenon has no strings")
        try:
            schema = defs.get_schema(proto.op_type, node.opset, proto.domain)
        except defs.SchemaError as error:
            raise node.refuse("this version of onnx does not know the operator") from error
        function = onnx.FunctionProto()
        if schema.has_context_dependent_function:
            text = _context_function(schema, node, inputs)
        elif schema.has_function:
            text = schema.function_body
            text = text if isinstance(text, bytes) else text.SerializeToString()
        else:
            raise node.refuse("no operator of the plugins computes it")
        if not text:
            raise node.refuse("no operator of the plugins computes it")
        function.ParseFromString(text)
        if not function.opset_import:
            function.opset_import.add(domain="", version=self.opsets.get("", node.opset))
        function.attribute_proto.extend(
            a.default_value for a in schema.attributes.values() if a.default_value.name
        )
        return self.run_function(function, node, inputs)


def _place_error(error: Unsupported, node: Node) -> Unsupported:
    """Adds the node to an error of a builder."""
    if error.node:
        return error
    return type(error)(error.kind, node.name, node.operator, node.opset)


def _context_function(schema: Any, node: Node, inputs: Sequence[Any]) -> bytes:
    """Returns the function that ONNX makes for the types of these inputs."""
    described = []
    for value in inputs:
        info = onnx.TypeProto()
        if isinstance(value, Value):
            info = onnx.helper.make_tensor_type_proto(
                types.number_of_type(value.dtype), list(value.shape)
            )
        described.append(info.SerializeToString())
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    version = max(versions) if versions else schema.since_version
    return schema.get_context_dependent_function_with_opset_version(
        version, node.proto.SerializeToString(), described
    )


def _bind_attributes(proto: onnx.NodeProto, attributes: Dict[str, Any]) -> onnx.NodeProto:
    """Copies a node of a function, with the attributes of the caller in it."""
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            found = attributes.get(attribute.ref_attr_name)
            if found is not None:
                bound = copy.attribute.add()
                bound.CopyFrom(found)
                bound.name = attribute.name
            continue
        bound = copy.attribute.add()
        bound.CopyFrom(attribute)
        for graph in [bound.g] if bound.HasField("g") else list(bound.graphs):
            nodes = [_bind_attributes(inner, attributes) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return copy


def read_tensor(tensor: onnx.TensorProto) -> Any:
    """Returns the elements of a tensor as an array of NumPy."""
    try:
        return numpy_helper.to_array(tensor)
    except (*_DAMAGES, RuntimeError) as error:
        raise OnnxError(f"tensor `{tensor.name}` is damaged: {error}") from error


def find_last_uses(graph: onnx.GraphProto) -> Dict[int, List[str]]:
    """Returns, for each node, the names that no later node and no output needs."""
    kept = {info.name for info in graph.output} | {t.name for t in graph.initializer}
    last: Dict[str, int] = {}
    for index, proto in enumerate(graph.node):
        for name in list_names(proto):
            last[name] = index
        for name in proto.output:
            last.setdefault(name, index)
    result: Dict[int, List[str]] = {}
    for name, index in last.items():
        if name and name not in kept:
            result.setdefault(index, []).append(name)
    return result


def list_names(proto: onnx.NodeProto) -> List[str]:
    """Returns the names that a node reads, also in its nested graphs."""
    names = list(proto.input)
    for attribute in proto.attribute:
        graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        for graph in graphs:
            names.extend(info.name for info in graph.output)
            for inner in graph.node:
                names.extend(list_names(inner))
    return names


