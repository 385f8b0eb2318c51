# SPDX-License-Identifier: Apache-2.0
"""Programs: graphs that are ready to run with arrays.

    p = g.bind({"data": images, "label": labels}, request="write")
    p.forward(train=True)
    p.backward()
    print(p.gradients["fc1_weight"])
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import operator
import threading
from collections.abc import Callable

from tenon import _api, _core, _errors, _values
from tenon._binding import encode
from tenon._objects import Handle, inside_operator, make, read_text

ProgramStats = collections.namedtuple("ProgramStats", [
    "n_forward", "n_backward", "n_fused", "pool_bytes", "bound_bytes", "workspace_bytes",
    "own_bytes", "repeated", "n_in_registers"])
ProgramStats.__doc__ = """Size of a program in steps and bytes (tn_program_stats).

    p.stats.pool_bytes    # memory of intermediate results
"""

_REQUESTS = {None: 0, "write": 1, "add": 3}


def _get_request(request):
    try:
        return _REQUESTS[request]
    except (KeyError, TypeError):
        raise ValueError(
            f"the request {request!r} is none of \"write\", \"add\" and None") from None


def _make_array(value, dtype=None):
    """An Array of a value: itself, or a copy of a NumPy array, list or number."""
    if isinstance(value, _core.Array):
        return value
    import tenon
    return tenon.array(value) if dtype is None else tenon.array(value, dtype=dtype)


def _retain(address):
    """An Array for an array that a program lends."""
    return _core.wrap_array(_api.tn_array_retain(address))


class Program:
    """A graph that is bound to arrays; `Graph.bind` makes it.

    - `arguments`: a dict from variables and states to arrays, NumPy arrays or lists; to a shape,
      or to (shape, dtype), for an array that the program creates. Or a list of arrays in the
      order of Graph.arguments. It creates the others as well:
      zeros, or the initial value of a state.
      Element types that follow from nothing are f32.
    - `request`: "write" or "add" for gradients of all arguments of floating-point type, None for
      none. A dict has one for each name, and None for the others.
    - `place`: the device. `groups`: a dict from the attribute `group` of nodes to devices.
    - `memory_budget`: most bytes of intermediate results; results beyond are computed a second
      time. "minimal": as few as possible.
    - `gradients`: a dict of arrays that receive gradients. `outputs`: arrays for the heads.
    - `shared`: a program that lends its memory. `passes`: names of passes that rewrite the
      program. `fuse`, `capture`, `plan`: False, True and False turn off fused steps, turn on
      recorded runs, and turn off the plan of memory (tn_bind in tenon/program.h).

        p = g.bind({"x": (4, 3)}, request={"w": "write"}, memory_budget=1 << 20)
    """

    def __init__(self, graph, arguments=None, request=None, place="cpu", memory_budget=None, *,
                 gradients=None, outputs=None, groups=None, shared=None, passes=(), fuse=True,
                 capture=False, plan=True):
        runtime = _core.runtime_handle()
        arguments, gradients = _name_arguments(graph, arguments), dict(gradients or {})
        requests = request if isinstance(request, dict) else {}
        place_of = _values.make_place(runtime, place)
        keep = []  # arrays and lists that C reads during the call
        how = _api.tn_bind(
            flags=(0 if fuse else _api.TN_BIND_NO_FUSE)
            | (_api.TN_BIND_CAPTURE if capture else 0),
            plan=_api.TN_PLAN_DEFAULT if plan else _api.TN_PLAN_NONE,
            request=_REQUESTS["write"] if gradients and request is None
            else 0 if isinstance(request, dict) else _get_request(request),
            place=place_of, memory=_get_budget(memory_budget))
        names = list(dict.fromkeys([*arguments, *requests, *gradients]))
        made = [_make_argument(name, arguments, gradients, requests, place_of, keep)
                for name in names]
        _set_outputs(how, outputs, keep)
        _set_groups(how, groups or {}, runtime)
        passes = [passes] if isinstance(passes, str) else list(passes)
        how.passes, how.n_passes = _values.make_texts(passes), len(passes)
        how.shared = None if shared is None else _check(shared, Program)._handle.address
        with graph_lock():
            self._adopt(_bind(graph, how, made), graph.arguments, graph.auxiliaries,
                        graph.outputs)
        self._names += [name for name in arguments
                        if name not in self._names and name not in self._states]

    def _adopt(self, address, names, states, outputs):
        self._handle = Handle(address, "tn_program_release")
        self._lock = threading.RLock()
        self._names, self._states, self._output_names = names, states, outputs
        self._lists = {}  # dicts of arrays, made once
        self._monitor = None

    def _do(self, function, *arguments):
        with self._lock:
            return getattr(_api, function)(self._handle.address, *arguments)

    # ------------------------------------------------------------------ runs

    def forward(self, train: bool = False, **inputs) -> list[_core.Array]:
        """Schedules a run and returns the list of outputs, which the next run overwrites.
        Arguments that are passed by name are copied into those of the program first.

            (probabilities,) = p.forward(data=batch)
        """
        with self._lock:
            for name, value in inputs.items():
                self._assign(name, value)
            self._do("tn_program_forward", _api.TN_CALL_TRAIN if train else 0)
            self._raise_from_monitor()
            return self.outputs

    def backward(self, weights: list | _core.Array | None = None) -> None:
        """Schedules the backward part, once after each `forward(train=True)`. `weights` has the
        gradient of each head; it may be omitted for losses.

            p.backward([np.ones((4, 10), "float32")])
        """
        if not self.gradients:
            raise _errors.InvalidError("the program has no gradients; bind its graph with "
                                       "request=\"write\" or \"add\"")
        if weights is not None:
            weights = list(weights) if isinstance(weights, (list, tuple)) else [weights]
            if len(weights) != len(self._output_names):
                raise ValueError(f"the program has {len(self._output_names)} outputs, but "
                                 f"{len(weights)} gradients were passed; pass one for each")
            weights = [None if each is None else _make_array(each) for each in weights]
        with self._lock:
            made = None if weights is None else (ctypes.c_void_p * len(weights))(
                *[None if each is None else each._handle for each in weights])
            self._do("tn_program_backward", made, len(weights or ()))
            self._raise_from_monitor()

    def forward_part(self, steps: int, train: bool = False) -> int:
        """Schedules the first `steps` steps of the forward part; returns how many remain."""
        left = ctypes.c_size_t()
        if operator.index(steps) < 0:
            raise ValueError(f"steps is {steps}; pass a number of steps")
        self._do("tn_program_forward_part", _api.TN_CALL_TRAIN if train else 0,
                 min(steps, 1 << 32), ctypes.byref(left))
        self._raise_from_monitor()
        return left.value

    def _assign(self, name, value):
        if "inputs" not in self._lists:
            self._lists["inputs"] = {**self.auxiliaries, **self.arguments}
        target = self._lists["inputs"].get(name)
        if target is None:
            raise TypeError(f"the program has no argument `{name}`; its arguments are "
                            f"{', '.join([*self._names, *self._states])}")
        source = _make_array(value)
        if source is not target:
            _api.tn_array_copy(target._handle, source._handle)

    # ---------------------------------------------------------------- arrays

    def _get_arrays(self, key, names, kind):
        with self._lock:
            if key not in self._lists:
                found = {}
                for name in names:
                    with contextlib.suppress(_errors.NotFoundError):
                        found[name] = _retain(make(
                            "tn_program_array", self._handle.address, kind, encode(name)))
                self._lists[key] = found
            return dict(self._lists[key])

    @property
    def arguments(self) -> dict[str, _core.Array]:
        """The arrays of the variables, a dict."""
        return self._get_arrays("arguments", self._names, _api.TN_PROGRAM_ARGUMENT)

    @property
    def gradients(self) -> dict[str, _core.Array]:
        """The gradients of the variables that have one, a dict."""
        return self._get_arrays("gradients", self._names, _api.TN_PROGRAM_GRADIENT)

    @property
    def auxiliaries(self) -> dict[str, _core.Array]:
        """The arrays of the states, a dict."""
        return self._get_arrays("auxiliaries", self._states, _api.TN_PROGRAM_AUXILIARY)

    @property
    def outputs(self) -> list[_core.Array]:
        """The arrays of the heads, a list."""
        with self._lock:
            if "outputs" not in self._lists:
                self._lists["outputs"] = [
                    _retain(make("tn_program_output", self._handle.address, i))
                    for i in range(len(self._output_names))]
            return list(self._lists["outputs"])

    @property
    def output_names(self) -> list[str]:
        """Names of the heads."""
        return list(self._output_names)

    # -------------------------------------------------------------- settings

    def set(self, node: str, **params) -> None:
        """Changes dynamic parameters of a node for later runs.

            p.set("dropout1", p=0.2)
        """
        for key, value in params.items():
            made = _api.tn_value(key=key, type=_api.TN_FIELD_STRING)
            made.as_.s = encode(value if isinstance(value, str) else _values.format_value(value))
            self._do("tn_program_set", encode(node), made)

    def reshape(self, **shapes) -> Program:
        """A program for other shapes of some arguments, which shares its memory with this one.
        Arrays of unchanged shapes are the same.

            large = p.reshape(data=(64, 784))
        """
        known = _values.make_list(_api.tn_known, [
            _api.tn_known(name=name, sig=_values.make_sig(shape))
            for name, shape in shapes.items()])
        made = Program.__new__(Program)
        with self._lock:
            made._adopt(make("tn_program_reshape", self._handle.address, known, len(shapes)),
                        list(self._names), list(self._states), list(self._output_names))
            made._lock = self._lock  # the two share memory
        return made

    def monitor(self, function: Callable[[str, object], None] | None) -> None:
        """Calls function(name, value) with each visible output of later runs, as a NumPy array;
        None ends it. Steps then run one by one.

            p.monitor(lambda name, value: print(name, abs(value).mean()))
        """
        failures = []

        def call(_, name, array):
            with inside_operator():
                try:
                    if not failures:
                        function(name.decode(), _read_values(array))
                except BaseException as error:  # raised after the run
                    failures.append(error)

        kept = _api.tn_monitor_fn(call if function else 0)
        with self._lock:
            self._do("tn_program_monitor", kept, None)
            self._monitor = (kept, failures) if function else None

    def _raise_from_monitor(self):
        if self._monitor and self._monitor[1]:
            raise self._monitor[1].pop()

    # ------------------------------------------------------------- questions

    @property
    def stats(self) -> ProgramStats:
        """Steps and bytes, a ProgramStats."""
        found = _api.tn_program_stats()
        self._do("tn_program_stats_get", ctypes.byref(found))
        return ProgramStats(*(getattr(found, each) for each in ProgramStats._fields))

    def text(self, why: bool = False) -> str:
        """The steps as a table; with `why`, also the reasons why calls are not fused."""
        with self._lock:
            return read_text("tn_program_text", self._handle.address, int(why))

    def describe(self) -> dict:
        """The steps and their memory as a dict (tn_program_json)."""
        with self._lock:
            return json.loads(read_text("tn_program_json", self._handle.address))

    def captured(self, part: str = "forward") -> str | None:
        """None if runs of "forward", "train" or "backward" are launched as one, else the reason
        (see `capture` of Program)."""
        parts = {"forward": _api.TN_PART_FORWARD, "train": _api.TN_PART_TRAIN,
                 "backward": _api.TN_PART_BACKWARD}
        if part not in parts:
            raise ValueError(f"the part {part!r} is none of {', '.join(parts)}")
        with self._lock:
            return read_text("tn_program_captured", self._handle.address, parts[part])

    def svg(self) -> str:
        """A picture of the memory, as the text of an SVG file: steps to the right, bytes up."""
        from tenon import _picture
        return _picture.draw_plan(self.describe())

    def _repr_svg_(self):
        return self.svg()

    def __repr__(self):
        stats = self.stats
        return (f"<Program of {stats.n_forward} + {stats.n_backward} steps, "
                f"{stats.pool_bytes} bytes of intermediate results, "
                f"outputs: {', '.join(self._output_names)}>")


# ------------------------------------------------------------------ settings

def graph_lock():
    from tenon import graph
    return graph._LOCK


def _check(value, kind):
    if not isinstance(value, kind):
        raise TypeError(f"expected an object of tenon.{kind.__name__}, not a "
                        f"{type(value).__name__}")
    return value


def _name_arguments(graph, arguments):
    """The dict of arguments; a list has them in the order of the graph."""
    if not isinstance(arguments, (list, tuple)):
        return dict(arguments or {})
    names = graph.arguments
    if len(arguments) > len(names):
        raise ValueError(f"the graph has {len(names)} arguments, but {len(arguments)} arrays were "
                         "passed")
    return dict(zip(names, arguments))


def _get_budget(budget):
    if budget is None:
        return 0
    if budget == "minimal":
        return _api.TN_MEMORY_MINIMAL
    budget = operator.index(budget)
    if budget < 1:
        raise ValueError(f"memory_budget is {budget}; pass a number of bytes, \"minimal\", or None "
                         "for no limit")
    return budget


def _to_place(array, place):
    """The array, or a copy on another device than the cpu."""
    if (place.device_type, place.device_id) in ((0, 0), (_api.TN_DEVICE_CPU, 0)):
        return array
    return _core.wrap_array(make("tn_array_to", array._handle, place))


def _make_argument(name, arguments, gradients, requests, place, keep):
    """The tn_argument of a name; appends its arrays to `keep`."""
    made = _api.tn_argument(name=name, known=_values.make_sig())
    value = arguments.get(name)
    if isinstance(value, tuple) and len(value) == 2 and _values.is_shape(value[0]):
        made.known = _values.make_sig(*value)
    elif isinstance(value, tuple) and _values.is_shape(value):
        made.known = _values.make_sig(value)
    elif value is not None:
        array = value if isinstance(value, _core.Array) else _to_place(_make_array(value), place)
        keep.append(array)
        made.array = array._handle
    if name in gradients:
        keep.append(_check(gradients[name], _core.Array))
        made.gradient = gradients[name]._handle
    if name in requests:
        made.request, made.has_request = _get_request(requests[name]), 1
    return made


def _bind(graph, how, arguments):
    """The address of a new program. Element types that follow from nothing are f32."""
    for attempt in range(2):
        how.arguments = _values.make_list(_api.tn_argument, arguments)
        how.n_arguments = len(arguments)
        try:
            return make("tn_program_bind", graph._handle.address, how)
        except _errors.IncompleteError:
            if attempt or not _set_default_types(graph, arguments):
                raise


def _set_default_types(graph, arguments):
    """Sets f32 where inference finds no type; returns whether there was such an argument."""
    by_name = {each.name.decode(): each for each in arguments}
    types = {name: _values.read_dtype(_get_known(each)) for name, each in by_name.items()}
    found = graph.infer_dtype(**{name: each for name, each in types.items() if each})
    unknown = [name for name, each in found.arguments.items() if each is None]
    for name in unknown:
        if name not in by_name:
            arguments.append(_api.tn_argument(name=name, known=_values.make_sig()))
            by_name[name] = arguments[-1]
        by_name[name].known.dtype = _api.TN_F32
    return bool(unknown)


def _get_known(argument):
    """The tn_sig of an argument or of its array."""
    if not argument.array:
        return argument.known
    tensor = _api.tn_array_tensor(argument.array).contents
    return _api.tn_sig(dtype=tensor.dtype, ndim=-1)


def _set_outputs(how, outputs, keep):
    if outputs is None:
        return
    keep.extend(_check(each, _core.Array) for each in outputs if each is not None)
    how.outputs = (ctypes.c_void_p * max(1, len(outputs)))(
        *[None if each is None else each._handle for each in outputs])
    how.n_outputs = len(outputs)


def _set_groups(how, groups, runtime):
    how.groups = _values.make_list(_api.tn_group, [
        _api.tn_group(name=name, place=_values.make_place(runtime, place))
        for name, place in dict(groups).items()])
    how.n_groups = len(groups)


def _read_values(address):
    """The elements of an array as NumPy array, by the functions that a monitor may call. Element
    types that NumPy does not have become bytes, but bf16 becomes float32."""
    import numpy
    tensor = _api.tn_array_tensor(address).contents
    shape = tuple(tensor.shape[:tensor.ndim]) if tensor.ndim else ()
    code, bits = tensor.dtype & 0xff, tensor.dtype >> 8 & 0xff
    kind = {0: "i", 1: "u", 2: "f", 6: "?"}.get(code)
    name = _api.tn_dtype_name(tensor.dtype)
    if name == "bf16":
        half = numpy.empty(shape, numpy.uint16)
        _api.tn_array_get(address, half.ctypes.data, half.nbytes)
        return (half.astype(numpy.uint32) << 16).view(numpy.float32)
    if kind is None or bits < 8:
        size = 1
        for each in shape:
            size *= each
        shape, made = ((size * bits + 7) // 8,), numpy.dtype("u1")
    else:
        made = numpy.dtype("?" if kind == "?" else f"{kind}{bits // 8}")
    values = numpy.empty(shape, made)
    _api.tn_array_get(address, values.ctypes.data, values.nbytes)
    return values
