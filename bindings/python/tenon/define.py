# SPDX-License-Identifier: Apache-2.0
"""Operators that are written in Python, for eager calls, tapes and graphs.

    @tn.operator
    def cube(x, *, scale=1.0):
        "A scaled cube of every element"
        return scale * x ** 3

    @cube.gradient
    def cube_gradient(grad, x, *, scale=1.0):
        return 3 * scale * x ** 2 * grad

    cube(tn.array([1.0, 2.0]), scale=2.0)       # array([ 2., 16.])

The functions get arrays of NumPy, which share the memory of the operands and must not be used after
the return, and return an array or a tuple of arrays. They run on threads of the engine, one at a
time because of Python's lock (the GIL). An exception becomes the error of the call.
"""

import ctypes
import inspect
import json
import re
import traceback

from tenon import _api, _core
from tenon._dtypes import BY_NUMBER, find_dtype
from tenon._objects import inside_operator
from tenon.ops import find_operator

_TYPES = ("f32", "f64", "f16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")
_FAIL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p,
                         ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p)
_COMPUTE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_api.tn_frame))
_NULL_REQUEST = 0
_ABSENT = 1
_OUTPUTS = 1  # TN_OPERAND_OUT
_INT, _FLOAT = 2, 3  # TN_FIELD_INT, TN_FIELD_FLOAT
_PLUGIN = -11  # TN_PLUGIN, for exceptions of other types

_defined = {}  # by name; operators live as long as the runtime


# --------------------------------------------------------------------- manifest

def _param_type(name, default):
    """The manifest's type of a parameter, by its default."""
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, int):
        return "int"
    if isinstance(default, float):
        return "float"
    if isinstance(default, str):
        return "string"
    if isinstance(default, (tuple, list)):
        return "floats" if any(isinstance(each, float) for each in default) else "ints"
    raise TypeError(f"parameter `{name}`: its default {default!r} must be a bool, int, float, str "
                    "or a tuple of numbers, which decides its type")


def _read_signature(function, method):
    """The names of inputs and the parameters with defaults, of a forward function."""
    inputs, params = [], {}
    given = list(inspect.signature(function).parameters.values())
    for each in given[1:] if method else given:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise TypeError(f"{function.__name__}: *{each.name} is not possible; name each input "
                            "and parameter")
        if each.kind is each.KEYWORD_ONLY:
            if each.default is each.empty:
                raise TypeError(f"{function.__name__}: the parameter `{each.name}` needs a "
                                "default, which decides its type")
            params[each.name] = each.default
        else:
            inputs.append(each.name)
    if not inputs:
        raise TypeError(f"{function.__name__} has no input; an operator needs at least one")
    return inputs, params


def _list_needs(function, operator):
    """The operands that a gradient function reads, as the manifest names them."""
    given = list(inspect.signature(function).parameters.values())
    needs = {}
    for each in given[1:] if operator._is_class else given:
        if each.kind is each.KEYWORD_ONLY:
            continue
        name = each.name
        if name == "grad" and len(operator.outputs) == 1:
            needs[name] = f"grad.{operator.outputs[0]}"
        elif name.startswith("grad_") and name[5:] in operator.outputs:
            needs[name] = f"grad.{name[5:]}"
        elif name in operator.inputs or name in operator.outputs:
            needs[name] = name
        else:
            possible = [*(f"grad_{each}" for each in operator.outputs), *operator.inputs,
                        *operator.outputs]
            if len(operator.outputs) == 1:
                possible.insert(0, "grad")
            raise TypeError(f"{function.__name__}: there is no operand `{name}`; a gradient reads "
                            f"some of {', '.join(possible)}")
    return needs


# ------------------------------------------------------------------------ calls

def _as_numpy(tensor):
    """An array of NumPy on the memory of an operand."""
    import numpy
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    dtype = BY_NUMBER[tensor.dtype].numpy
    n = int(numpy.prod(shape, dtype=numpy.int64))
    if n == 0:
        return numpy.empty(shape, dtype)
    memory = (ctypes.c_char * (n * dtype.itemsize)).from_address(tensor.data)
    return numpy.frombuffer(memory, dtype).reshape(shape)


def _report(frame, operator, error):
    """Stores the text of an exception as that of the call; returns its code."""
    where = traceback.extract_tb(error.__traceback__)
    place = f" ({where[-1].filename}:{where[-1].lineno})" if where else ""
    code = getattr(error, "code", 0) or _PLUGIN
    text = f"{operator.name}: {type(error).__name__}: {error}{place}"
    host = ctypes.cast(frame.contents.host, ctypes.POINTER(_api.tn_host)).contents
    fail = ctypes.cast(host.fail, _FAIL)
    return fail(ctypes.cast(frame, ctypes.c_void_p), code, b"define.py", 0, b"%s",
                text.encode("utf-8", "replace"))


class Operator:
    """An operator that is defined by functions of Python; call it like those of tn.ops."""

    def __init__(self, function, name, outputs, shape, dtypes, dtype):
        self._is_class = inspect.isclass(function)
        self._object = function() if self._is_class else None
        self._forward = function.forward if self._is_class else function
        self._infer = getattr(function, "infer_shape", None) if self._is_class else shape
        self._gradient = None
        self.__name__ = name or function.__name__.lower()
        self.__doc__ = function.__doc__
        self.outputs = tuple(outputs)
        self.inputs, self.params = _read_signature(self._forward, self._is_class)
        self._dtypes = dtypes or {}
        self._dtype = dtype
        self._function = None
        if self._is_class and hasattr(function, "backward"):
            self._set_gradient(function.backward)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.__name__):
            raise ValueError(f"the name {self.__name__!r} of an operator must be lower-case "
                             "letters, digits and _; pass name=")

    @property
    def name(self):
        """The full name, as "host.cube"."""
        return f"host.{self.__name__}"

    def gradient(self, function):
        """Decorates the function that computes the gradients of the inputs. Its arguments are
        operands by name: `grad` or `grad_<output>`, inputs and outputs; only those are kept for
        it. It returns a gradient for each input, None for zeros."""
        if self._function is not None:
            raise ValueError(f"{self.name} has been used already; define its gradient before its "
                             "first call")
        self._set_gradient(function)
        return function

    def _set_gradient(self, function):
        self._needs = _list_needs(function, self)
        self._slope_params = self.params.keys() & inspect.signature(function).parameters.keys()
        self._gradient = function

    def infer_shape(self, function):
        """Decorates the function that computes the shapes of the outputs from those of the inputs
        and the parameters: a tuple, or a tuple of tuples for several outputs."""
        self._infer = function
        return function

    def __call__(self, *args, **named):
        return self._get_function()(*args, **named)

    def __repr__(self):
        return f"<operator {self.name}, written in Python>"

    # ----------------------------------------------------------- the definition

    def _get_function(self):
        if self._function is None:
            self._define()
            self._function = find_operator(self.name)
        return self._function

    def _make_manifest(self):
        """The manifest as JSON, which is YAML."""
        summary = (self.__doc__ or f"Computes {self.__name__}").strip().splitlines()[0].rstrip(".")
        summary = summary[:1].upper() + summary[1:]
        types = {}
        for each in self.inputs:
            types[each] = self._dtypes.get(each, "T")
        shape = {"c": "infer"} if self._infer else "broadcast"
        out = "T" if "T" in types.values() else types[self.inputs[0]]
        kernel = {"device": "cpu", "forward": "forward", "flags": ["reentrant"]}
        text = {
            "opgen": 1, "op": self.__name__, "summary": summary,
            "params": [{"name": key, "type": _param_type(key, value), "default": value}
                       for key, value in self.params.items()],
            "dtypes": {"T": list(_TYPES)} if "T" in types.values() else {},
            "inputs": [{"name": key, "dtype": value, "layout": "contiguous"}
                       for key, value in types.items()],
            "outputs": [{"name": key, "dtype": str(self._dtype or out), "shape": shape,
                         "layout": "contiguous"} for key in self.outputs],
            "kernels": [kernel],
        }
        if self._gradient:
            needs = list(self._needs.values())
            kernel["backward"] = "backward"
            text["gradient"] = {"kernel": "backward", "needs": {each: needs
                                                                for each in self.inputs}}
        return json.dumps({key: value for key, value in text.items() if value})

    def _define(self):
        functions = {"forward": self._compute_forward}
        if self._gradient:
            functions["backward"] = self._compute_backward
        if self._infer:
            functions["infer"] = self._compute_shapes
        self._kept = [(name.encode(), _COMPUTE(function)) for name, function in functions.items()]
        entries = (_api.tn_host_kernel * len(self._kept))(*[
            _api.tn_host_kernel(name=name, compute=function) for name, function in self._kept])
        kernels = _api.tn_host_kernels(n=len(self._kept), v=entries)
        _core.release_in_calls()
        found = ctypes.c_void_p()
        _api.tn_operator_define(_core.runtime_handle(), self._make_manifest(),
                                ctypes.byref(kernels), ctypes.byref(found))
        desc = _api.tn_operator_desc(found).contents
        self._fields = [(each.contents.name.decode(), each.contents.type, each.contents.offset)
                        for each in desc.params[:desc.n_params]]
        self._n = len(self.inputs)
        _defined[self.name] = self

    # -------------------------------------------------------------------- calls

    def _read_params(self, address):
        return {name: _READERS[kind](address + offset) for name, kind, offset in self._fields}

    def _run(self, function, *args, **named):
        with inside_operator():
            return function(self._object, *args, **named) if self._is_class else \
                function(*args, **named)

    def _compute_forward(self, frame):
        try:
            f = frame.contents
            params = self._read_params(f.params)
            found = self._run(self._forward, *[_as_numpy(f.in_[i]) for i in range(self._n)],
                              **params)
            self._store(f, found, self.outputs, "forward")
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            return _report(frame, self, error)

    def _store(self, f, found, names, what):
        """Writes results into the outputs of a call."""
        import numpy
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(names):
            raise TypeError(f"{what} returned {len(found)} arrays instead of {len(names)}")
        for i, (name, value) in enumerate(zip(names, found)):
            if f.req[i] == _NULL_REQUEST:
                continue
            to = _as_numpy(f.out[i])
            if value is None and what != "forward":
                to[...] = 0
                continue
            value = numpy.asarray(value)
            if value.shape != to.shape and value.size != 1:
                raise ValueError(f"{what} returned shape {value.shape} for `{name}`, which has "
                                 f"shape {to.shape}")
            to[...] = value

    def _compute_backward(self, frame):
        try:
            f = frame.contents
            n_out = len(self.outputs)
            names = [*(f"grad.{each}" for each in self.outputs), *self.inputs, *self.outputs]
            named = {}
            for argument, need in self._needs.items():
                i = names.index(need)
                absent = f.in_flags[i] & _ABSENT
                named[argument] = None if absent else _as_numpy(f.in_[i])
            for i, each in enumerate(self.outputs):
                key = "grad" if n_out == 1 else f"grad_{each}"
                if key in named and named[key] is None:
                    named[key] = 0.0
            params = {key: value for key, value in self._read_params(f.params).items()
                      if key in self._slope_params}
            found = self._run(self._gradient, **named, **params)
            self._store(f, found, self.inputs, "the gradient")
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            return _report(frame, self, error)

    def _compute_shapes(self, frame):
        try:
            f = frame.contents
            shapes = []
            for i in range(self._n):
                tensor = f.in_[i]
                if tensor.ndim < 0 or any(tensor.shape[k] < 0 for k in range(tensor.ndim)):
                    return 0  # not known yet
                shapes.append(tuple(tensor.shape[k] for k in range(tensor.ndim)))
            found = self._run(self._infer, *shapes, **self._read_params(f.params))
            several = len(self.outputs) > 1
            host = ctypes.cast(f.host, ctypes.POINTER(_api.tn_host)).contents
            for i, shape in enumerate(found if several else (found,)):
                sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
                code = host.set_shape(frame, _OUTPUTS, i, len(shape), sizes)
                if code:
                    return code
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            return _report(frame, self, error)


def _read_list(address, kind):
    """A tn_ints or tn_floats."""
    values = ctypes.POINTER(kind).from_address(address)
    n = ctypes.c_int64.from_address(address + ctypes.sizeof(ctypes.c_void_p)).value
    return tuple(values[i] for i in range(n))


_READERS = {  # of members of a struct of parameters, by TN_FIELD_*
    1: lambda at: bool(ctypes.c_int32.from_address(at).value),
    2: lambda at: ctypes.c_int64.from_address(at).value,
    3: lambda at: ctypes.c_double.from_address(at).value,
    4: lambda at: (ctypes.c_char_p.from_address(at).value or b"").decode(),
    6: lambda at: _read_list(at, ctypes.c_int64),
    7: lambda at: _read_list(at, ctypes.c_double),
}


def operator(function=None, *, name=None, outputs=("out",), shape=None, dtypes=None, dtype=None):
    """Makes an operator of a function, or of a class with the methods `forward`, `infer_shape` and
    `backward`.

    Positional arguments of `forward` are inputs, keyword-only ones are parameters with the types of
    their defaults. `outputs`: names of the results. `shape`: a function of the inputs' shapes and
    the parameters; without one, results have the shape to which the inputs broadcast. `dtypes`:
    types of inputs by name, if they do not all have the same; `dtype`: that of the results.

        @tn.operator(shape=lambda x: x[:1], dtype="i64")
        def count_positive(x):
            return (x > 0).sum(axis=1)
    """
    if dtypes:
        dtypes = {key: find_dtype(value).name for key, value in dtypes.items()}
    if dtype is not None:
        dtype = find_dtype(dtype).name

    def decorate(found):
        return Operator(found, name, outputs, shape, dtypes, dtype)

    return decorate if function is None else decorate(function)


def formula(expression, name=None, **params):
    """An operator of a formula, without a compiler. Names in the expression that are no parameters
    are its inputs, in the order of appearance; the parameters are numbers, with their defaults. The
    gradient is derived. It computes slower than a compiled operator.

        cube = tn.formula("scale*data^3", scale=2.0)
        cube(tn.array([1.0, 2.0]))          # array([ 2., 16.])

    A text with `op:` is a whole manifest of one operator, without `name` and parameters.
    """
    found = ctypes.c_void_p()
    runtime = _core.runtime_handle()
    if re.search(r"^\s*op:", expression, re.M):
        if name is not None or params:
            raise TypeError("a manifest has its own name and parameters; pass the text alone")
        _api.tn_operator_define(runtime, expression, None, ctypes.byref(found))
    else:
        values = (_api.tn_value * max(len(params), 1))(*map(_make_value, params, params.values()))
        what = _api.tn_formula(n=len(params), expression=expression, name=name, params=values)
        _api.tn_formula_define(runtime, ctypes.byref(what), ctypes.byref(found))
    return find_operator(_api.tn_operator_name(found).partition("@")[0])


def _make_value(key, number):
    """A number as a value of the library."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"the parameter `{key}` of a formula is a number, not {number!r}")
    value = _api.tn_value(key=key)
    if isinstance(number, int) and key == "axis":
        value.type, value.as_.i = _INT, number
    else:
        value.type, value.as_.f = _FLOAT, float(number)
    return value
