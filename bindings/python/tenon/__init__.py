# SPDX-License-Identifier: Apache-2.0
"""Tenon: operators of plugins for arrays, graphs and gradients.

    import tenon as tn

    x = tn.array([[1.0, 2.0], [3.0, 4.0]])
    y = tn.ops.nn.softmax(x * 2, axis=-1)
    print(y.numpy())

Names of operators of the plugins `elemwise` and `tensor` can be used without their plugin:
tn.exp(x) is tn.ops.elemwise.exp(x).
"""

import atexit as _atexit
import importlib as _importlib

from tenon import _core
from tenon._array import (Array, broadcast_shapes, convert_any as _convert_any,
                          make_array as _make_array)
from tenon._dtypes import (BY_NAME as _TYPES, DType, bf16, f16, f32, f64, find_dtype, i8, i16, i32,
                           i64, promote, u8, u16, u32, u64)
from tenon._errors import (BusyError, DeviceError, DtypeError, ExistsError, FileError,
                           IncompleteError, InternalError, InvalidError, NotFoundError,
                           OutOfMemoryError, OutOfRangeError, PluginError, ShapeError, TenonError,
                           UnimplementedError, UnsupportedError)

__version__ = _core.version

# Loaded when they are first used.
_MODULES = ("autograd", "comm", "data", "define", "files", "graph", "kvstore", "onnx", "ops",
            "optim", "program", "progress", "stubs", "testing")
_NAMES = {
    "record": "autograd", "pause": "autograd", "is_recording": "autograd", "grad": "autograd",
    "value_and_grad": "autograd",
    "Graph": "graph", "Symbol": "graph", "var": "graph", "Program": "program",
    "save": "files", "load_arrays": "files",
    "operator": "define", "formula": "define",
}


def _end():
    """Waits for all work at the interpreter's end. Ctrl-C ends the process then."""
    import _signal
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _core.end_runtime()


_atexit.register(_end)


def configure(workers=0, engine="pooled", seed=0, log_levels=None, trust=(), cpus=1, log=None):
    """Sets options of the runtime, before anything else of tenon is used.

    `workers`: threads that compute, the waiting one included (default: the cores). `engine`:
    "pooled", "naive" (everything inside of the call, to find out whether the order causes a
    defect) or "threaded" (nothing inside of the call). `log_levels`: as "engine:debug,info".
    `trust`: "any_folder", "replace", "bindings". `cpus`: devices cpu(0), cpu(1) ...
    `log`: a function of level and line.
    """
    engines = {"pooled": 0, "naive": 1, "threaded": 2}
    rights = {"any_folder": 1, "replace": 2, "bindings": 4}
    if engine not in engines:
        raise ValueError(f"unknown engine {engine!r}; there are {', '.join(engines)}")
    for each in trust:
        if each not in rights:
            raise ValueError(f"unknown right {each!r}; there are {', '.join(rights)}")
    _core.configure(workers, engines[engine], seed, log_levels,
                    sum(rights[each] for each in set(trust)), cpus, log)


def load(path):
    """Loads a plugin, a `.so` file or a manifest with bindings, and returns its operators.

        acme = tn.load("acme.so")
        acme.cube(x)                # the same as tn.ops.acme.cube(x)
    """
    from tenon import ops
    before = {each[0] for each in _core.list_plugins()}
    _core.load_plugin(path)
    name = next(each[0] for each in reversed(_core.list_plugins()) if each[0] not in before)
    try:
        return getattr(ops, name)
    except AttributeError:
        return None  # it has kernels for operators of others only


def unload(name):
    """Unloads a plugin; BusyError names the holders while its operators are in use."""
    from tenon import ops
    _core.unload_plugin(name)
    ops.forget(name)
    for key in [key for key, each in globals().items()
                if isinstance(getattr(each, "__self__", None), _core.Operator)
                and each.__self__.name.startswith(name + ".")]:
        del globals()[key]  # tenon.exp of tenon.ops.elemwise.exp


def plugins():
    """Name, file and summary of each loaded plugin."""
    return _core.list_plugins()


def prepare(operator, *inputs, **arguments):
    """A call to run many times with the same arrays: it checks and allocates once. Call the result
    without arguments; it returns the arrays of the results, which the next run overwrites.
    Dynamic parameters, such as the rate of an optimizer, are changed by set().

        run = tn.prepare(tn.ops.elemwise.add, x, y, out=z)
        run()
    """
    return _core.prepare(operator, *inputs, **arguments)


def wait():
    """Waits for all scheduled work, and raises the first failure since the last wait."""
    _core.wait_all()


def seed(value):
    """Sets the seed of all random operators."""
    _core.seed(value)


# ------------------------------------------------------------------------- arrays

def array(values, dtype=None, device=None):
    """A new array with these elements: a number, lists of numbers, an array of NumPy or of another
    package. Floats of Python become f32, integers i64; arrays keep their type.

        tn.array([[1, 2], [3, 4]], dtype="f32")
    """
    if isinstance(values, Array):
        result = values.copy() if dtype is None else values.astype(dtype)
    else:
        result = _core.convert(values) if dtype is None else _make_array(values, dtype)
    return result if device is None else result.to(device)


def asarray(values, dtype=None):
    """Like array(), but an Array is returned as it is."""
    return _convert_any(values) if dtype is None else _make_array(values, dtype)


def from_dlpack(values):
    """An array that shares the memory of another package's, without a copy."""
    return _core.from_dlpack(values)


def empty(shape, dtype=f32, device=None):
    """A new array; its elements are undefined."""
    return _core.empty(shape, find_dtype(dtype).number, device)


def full(shape, value, dtype=None, device=None):
    """A new array of equal elements."""
    if dtype is None:
        dtype = asarray(value).dtype
    result = empty(shape, dtype, device)
    result[...] = value
    return result


def zeros(shape, dtype=f32, device=None):
    """A new array of zeros."""
    return full(shape, 0, dtype, device)


def ones(shape, dtype=f32, device=None):
    """A new array of ones."""
    return full(shape, 1, dtype, device)


def arange(start, stop=None, step=1, dtype=None, device=None):
    """Numbers from start to stop, without stop, as of NumPy."""
    import numpy
    begin, end = (0, start) if stop is None else (start, stop)
    values = numpy.arange(begin, end, step)
    if dtype is None:
        dtype = i64 if values.dtype.kind in "iu" else f32
    return array(values, dtype, device)


def __getattr__(name):
    if name in _MODULES:
        return _importlib.import_module(f"tenon.{name}")
    if name in _NAMES:
        value = getattr(_importlib.import_module(f"tenon.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if name == "bool":
        return _TYPES["bool"]
    if name in _TYPES:
        return _TYPES[name]
    if name.startswith("_"):
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    from tenon import ops
    for plugin in ("elemwise", "tensor"):
        try:
            value = ops.find_operator(f"{plugin}.{name}")
        except LookupError:
            continue
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tenon' has no attribute {name!r}, and neither have the plugins "
                         "elemwise and tensor an operator of this name")


def __dir__():
    return sorted({*globals(), *_MODULES, *_NAMES} - {"annotations"})
