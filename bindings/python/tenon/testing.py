# SPDX-License-Identifier: Apache-2.0
"""Checks of operators, for the tests of their authors. A failed one is an AssertionError.

    tn.load("acme.so")
    x = tn.testing.random_array((3, 4))
    tn.testing.check_forward("acme.cube", [x], lambda x: 2 * x ** 3, scale=2)
    tn.testing.check_numeric_gradient("acme.cube", [x], scale=2)
    tn.testing.check_consistency("acme.cube", [x], scale=2)

Operators are passed by name, as a function of tn.ops, or as any function of arrays; parameters by
name. Inputs are NumPy arrays, lists, numbers or arrays, in a list, or in a dict by name.
"""

import contextlib
import ctypes
import inspect
import itertools
import json

import numpy as np

from tenon import _core, autograd
from tenon._dtypes import BY_NAME, find_dtype
from tenon._errors import DtypeError, NotFoundError, UnsupportedError
from tenon.ops import find_operator

# rtol and atol, by the element type; other types are compared exactly.
TOLERANCES = {"f64": (1e-9, 1e-12), "f32": (1e-5, 1e-6), "f16": (2e-3, 1e-3), "bf16": (2e-2, 1e-2)}
_SHOWN = 5  # most elements that a message names

# ------------------------------------------------------------------- comparison


def _get_dtype_name(value):
    if isinstance(value, _core.Array):
        return value.dtype.name
    return find_dtype(value.dtype).name if isinstance(value, (np.ndarray, np.generic)) else None


def find_tolerances(*values):
    """rtol and atol that fit the least precise of these arrays; of lists and numbers nothing is
    known.

        tn.testing.find_tolerances(tn.ones(3, "f16"))    # (0.002, 0.001)
    """
    known = [TOLERANCES.get(_get_dtype_name(each), (0.0, 0.0)) for each in values]
    return max(rtol for rtol, _ in known), max(atol for _, atol in known)


def to_numpy(value):
    """The elements as a NumPy array of a type that NumPy computes with: bf16 becomes float32.

        tn.testing.to_numpy(tn.ones(3, "bf16")).dtype    # dtype('float32')
    """
    if isinstance(value, _core.Array):
        low = value.dtype.name == "bf16" or value.dtype.kind == "storage"
        return (value.astype("f32") if low else value).numpy()
    return np.asarray(value)


def _find_differences(found, expected, rtol, atol, equal_nan):
    """Which elements differ too much, and the differences."""
    exact = found.dtype.kind in "iub" and expected.dtype.kind in "iub"
    # Python's integers have all bits of i64 and u64.
    left, right = [each.astype(object) + 0 if exact else each.astype(np.float64)
                   for each in (found, expected)]
    with np.errstate(all="ignore"):
        same = np.asarray(left == right, bool)
        if equal_nan and not exact:
            same |= np.isnan(left) & np.isnan(right)
        size = np.abs(left - right).astype(np.float64)
        size = np.where(np.isnan(size), np.inf, size)
        allowed = atol + rtol * np.abs(expected.astype(np.float64))
        allowed = np.where(np.isfinite(allowed), allowed, 0)
    return ~same & (size > allowed), size, allowed


def _format_number(value):
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _describe_element(index, found, expected, size, allowed):
    place = ", ".join(map(str, index)) + ("," if len(index) == 1 else "")
    return (f"({place}): found {_format_number(found[index].item())}, expected "
            f"{_format_number(expected[index].item())}, "
            f"difference {size[index]:.3g}, allowed {allowed[index]:.3g}")


def assert_close(found, expected, rtol=None, atol=None, name="the result", equal_nan=True):
    """Fails unless |found - expected| <= atol + rtol*|expected| for all elements.

    Tolerances that are omitted follow from the element types: TOLERANCES. Shapes must be equal,
    but `expected` may be a number. The message has the number of wrong elements, the worst one
    with its index and both values, and the tolerance.

        tn.testing.assert_close(tn.exp(x), np.exp(x.numpy()))
    """
    known = find_tolerances(found, expected)
    rtol = known[0] if rtol is None else rtol
    atol = known[1] if atol is None else atol
    found, expected = to_numpy(found), to_numpy(expected)
    if expected.ndim == 0:
        expected = np.broadcast_to(expected, found.shape)
    if found.shape != expected.shape:
        raise AssertionError(f"{name} has shape {found.shape}, but {expected.shape} is expected")
    wrong, size, allowed = _find_differences(found, expected, rtol, atol, equal_nan)
    n_wrong = int(np.count_nonzero(wrong))
    if n_wrong == 0:
        return
    with np.errstate(all="ignore"):
        excess = np.where(wrong, size - allowed, -np.inf)
    order = np.argsort(-excess, axis=None, kind="stable")[:min(n_wrong, _SHOWN)]
    lines = [_describe_element(tuple(int(i) for i in np.unravel_index(each, found.shape)),
                               found, expected, size, allowed) for each in order]
    raise AssertionError(
        f"{name} differs from the expected values in {n_wrong} of {found.size} elements; "
        f"rtol={rtol:g}, atol={atol:g}\n  worst at {lines[0]}"
        + "".join(f"\n  also at {each}" for each in lines[1:]))


# ------------------------------------------------------------------------ inputs

def random_array(shape, dtype="f32", low=-1.0, high=1.0, seed=0):
    """An array of random numbers from low to high; the same ones for the same seed.

        tn.testing.random_array((3, 4), "f64", low=0.5)
    """
    dtype = find_dtype(dtype)
    values = np.random.default_rng(seed).uniform(low, high, shape)
    if not dtype.is_float:
        values = np.floor(values).astype(np.int64)
    return _core.convert(values).astype(dtype, copy=False)


def list_devices():
    """The devices of this machine, as "cpu(0)" and "cuda(1)".

        tn.testing.check_consistency("acme.cube", [x], devices=tn.testing.list_devices())
    """
    from tenon import _api
    found, entry = [], _api.tn_device_entry()
    with contextlib.suppress(NotFoundError):
        for i in itertools.count():
            _api.tn_device_at(_core.runtime_handle(), i, ctypes.byref(entry))
            found += [f"{entry.name.decode()}({number})" for number in range(entry.count)]
    return found


class _Call:
    """An operator with its inputs and parameters, to be called several times."""

    def __init__(self, op, inputs, params):
        self.function = find_operator(op) if isinstance(op, str) else op
        operator = getattr(self.function, "__self__", None)
        self.operator = operator if hasattr(operator, "json") else None
        self.name = op if isinstance(op, str) else getattr(op, "__name__", "function")
        self.params = params
        self.named = hasattr(inputs, "keys")
        self.keys = list(inputs) if self.named else list(range(len(inputs)))
        self.values = [self._freeze(each)
                       for each in (inputs.values() if self.named else inputs)]
        self.whole = json.loads(self.operator.json) if self.operator else None
        self.labels = self._name_inputs()

    @staticmethod
    def _freeze(value):
        """A copy, so that states do not change from call to call."""
        return None if value is None else _core.convert(value).copy() if not isinstance(
            value, _core.Array) else value.copy()

    def _name_inputs(self):
        if self.named:
            return [str(each) for each in self.keys]
        names = []
        if self.whole:
            names = [each["name"] for each in self.whole["inputs"] + self.whole["aux"]]
            if any("variadic" in each["flags"] for each in self.whole["inputs"]):
                names = []
        else:
            try:
                names = list(inspect.signature(self.function).parameters)
            except (TypeError, ValueError):
                pass
        return [names[i] if i < len(names) else str(i) for i in self.keys]

    def is_state(self, i):
        return bool(self.whole) and self.labels[i] in [each["name"] for each in self.whole["aux"]]

    def find_floats(self):
        """Positions of the inputs that may have a gradient."""
        return [i for i, each in enumerate(self.values)
                if each is not None and each.dtype.is_float and not self.is_state(i)]

    def find_position(self, key):
        for i, label in enumerate(self.labels):
            if key in (label, self.keys[i]):
                return i
        raise ValueError(f"{self.name} has no input {key!r}; its inputs are "
                         f"{', '.join(self.labels)}")

    def convert(self, dtype, device=None):
        """The same call with inputs of floats in another type, on another device."""
        made = object.__new__(_Call)
        made.__dict__.update(self.__dict__)
        made.values = [
            each if each is None else
            (each.astype(dtype) if dtype and each.dtype.is_float else each).to(device or each.device)
            for each in self.values]
        return made

    def copy_inputs(self):
        return [None if each is None else each.copy() for each in self.values]

    def run(self, values, **more):
        """The outputs, a list."""
        if self.named:
            found = self.function(**dict(zip(self.keys, values)), **self.params, **more)
        else:
            found = self.function(*values, **self.params, **more)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    def name_outputs(self, count):
        if self.whole and len(self.whole["outputs"]) >= count:
            names = [each["name"] for each in self.whole["outputs"]
                     if "hidden" not in each["flags"]]
            if len(names) == count:
                return [f"`{each}` of {self.name}" for each in names]
        return [f"output {i} of {self.name}" if count > 1 else f"the result of {self.name}"
                for i in range(count)]


def _as_list(values):
    return list(values) if isinstance(values, (tuple, list)) else [values]


# ----------------------------------------------------------------------- forward

def check_forward(op, inputs, expected, rtol=None, atol=None, layouts=True, **params):
    """Compares the results of an operator with expected values.

    `expected`: the values, in a list if there are several outputs; or a function of the inputs as
    NumPy arrays. None skips an output. The operator is called three times: plainly, with `out`,
    and with inputs that are not contiguous, unless `layouts` is False. Its inputs must keep their
    values.

        tn.testing.check_forward("elemwise.square", [[1.0, 2.0]], [1, 4])
        tn.testing.check_forward("elemwise.square", [x], lambda x: x * x)
    """
    call = _Call(op, inputs, params)
    if callable(expected):
        wide = [None if each is None else to_numpy(each) for each in call.values]
        expected = expected(**dict(zip(call.keys, wide))) if call.named else expected(*wide)
        expected = _as_list(expected)
    elif not isinstance(expected, tuple):
        expected = _as_list(expected) if _has_several(call) else [expected]
    values = call.copy_inputs()
    found = call.run(values)
    _compare_outputs(call, found, expected, rtol, atol, "")
    for i, each in enumerate(values):
        if each is not None and not call.is_state(i):
            assert_close(each, call.values[i], 0, 0, f"{call.name} changed its input "
                         f"`{call.labels[i]}`, which")
    if call.operator is not None:
        out = [_core.empty(each.shape, each.dtype.number, each.device) for each in found]
        call.run(call.copy_inputs(), out=out[0] if len(out) == 1 else tuple(out))
        _compare_outputs(call, out, expected, rtol, atol, ", with `out`,")
    if layouts:
        again = call.run([_spread_elements(each) for each in call.values])
        _compare_outputs(call, again, expected, rtol, atol, ", of inputs that are not contiguous,")


def _has_several(call):
    return len(call.run(call.copy_inputs())) > 1


def _spread_elements(array):
    """The same elements in every second place."""
    if array is None or array.ndim == 0 or array.dtype.kind == "storage" or array.dtype.bits < 8:
        return array if array is None else array.copy()
    wide = _core.empty(array.shape[:-1] + (2 * array.shape[-1],), array.dtype.number, array.device)
    view = wide[..., ::2]
    view[...] = array
    return view


def _compare_outputs(call, found, expected, rtol, atol, how):
    if len(found) != len(expected):
        raise AssertionError(f"{call.name} has {len(found)} outputs, but {len(expected)} are "
                             "expected")
    for name, value, right in zip(call.name_outputs(len(found)), found, expected):
        if right is not None:
            # The inputs limit how precise the expected values of a function are.
            known = find_tolerances(value)
            assert_close(value, right, known[0] if rtol is None else rtol,
                         known[1] if atol is None else atol, name + how)


# ---------------------------------------------------------------------- backward

def _differentiate(call, weights, requests, train=True, before=None):
    """The outputs, and the gradients of the sum of outputs times weights."""
    values = call.copy_inputs()
    for i, each in requests.items():
        values[i].attach_grad(each)
        if before is not None:
            values[i].grad = before[i].copy()
    with autograd.record(train):
        outputs = call.run(values)
        weights = weights(outputs) if callable(weights) else weights
        # An output that does not depend on the inputs is not on the tape, so 0*input is added.
        zero = (values[min(requests)] * 0).sum()
        heads = [None if weight is None or not each.dtype.is_float else each + zero.astype(
            each.dtype, copy=False) for each, weight in zip(outputs, weights)]
    used = [i for i, each in enumerate(heads) if each is not None]
    autograd.backward([heads[i] for i in used], [_core.convert(weights[i]) if not isinstance(
        weights[i], _core.Array) else weights[i] for i in used])
    return outputs, [_read_gradient(each) if i in requests else None
                     for i, each in enumerate(values)]


def _read_gradient(array):
    """Zeros if the tape has not seen the array."""
    return array * 0 if array.grad is None else array.grad


def check_backward(op, inputs, head_gradients, expected, rtol=None, atol=None, **params):
    """Compares the gradients of an operator with expected values.

    `head_gradients`: the gradient of each output, in a list if there are several. `expected`: one
    for each input, in a list or a dict by name, None to skip one; or a function of the head
    gradients and the inputs as NumPy arrays that returns them. Gradients are computed with the
    request "write", then with "add" onto ones.

        tn.testing.check_backward("elemwise.square", [[1.0, 2.0]], [1.0, 10.0], [[2, 40]])
        tn.testing.check_backward("elemwise.mul", [x, y], dz, lambda dz, x, y: [dz * y, dz * x])
    """
    call = _Call(op, inputs, params)
    weights = _as_list(head_gradients) if _has_several(call) else [head_gradients]
    if callable(expected):
        expected = expected(*[None if each is None else to_numpy(each)
                              for each in weights + call.values])
    if hasattr(expected, "keys"):
        by_place = {call.find_position(key): value for key, value in expected.items()}
        expected = [by_place.get(i) for i in range(len(call.values))]
    expected = _as_list(expected)
    if len(expected) != len(call.values):
        raise AssertionError(f"{call.name} has {len(call.values)} inputs, but {len(expected)} "
                             "gradients are expected; pass None for an input without one")
    wanted = [i for i, each in enumerate(expected) if each is not None]
    for request in ("write", "add"):
        ones = {i: call.values[i] * 0 + 1 for i in wanted} if request == "add" else None
        _, found = _differentiate(call, weights, dict.fromkeys(wanted, request), before=ones)
        how = "" if request == "write" else " added to 1"
        for i in wanted:
            right = to_numpy(expected[i])
            known = find_tolerances(found[i])
            assert_close(found[i], right if request == "write" else right + 1,
                         known[0] if rtol is None else rtol, known[1] if atol is None else atol,
                         f"the gradient of `{call.labels[i]}` of {call.name}{how}")


# --------------------------------------------------------------- numeric gradients

def _make_weights(outputs, seed):
    """A weight for each element of the outputs: not equal, and none near 0."""
    rng = np.random.default_rng(seed)
    return [(rng.uniform(0.5, 1.5, each.shape) * rng.choice([-1, 1], each.shape))
            if each.dtype.is_float else None for each in outputs]


class _Quotients:
    """Difference quotients of the weighted sum of the outputs."""

    def __init__(self, call, weights, eps, seed, train):
        self.call, self.weights, self.eps, self.seed, self.train = call, weights, eps, seed, train

    def _compute_outputs(self, i, index, value):
        values = self.call.copy_inputs()
        moved = to_numpy(self.call.values[i]).copy()
        moved[index] = value
        values[i] = _core.convert(moved).astype(values[i].dtype, copy=False).to(values[i].device)
        _core.seed(self.seed)
        with autograd.record(self.train):
            outputs = self.call.run(values)
        return [to_numpy(each).astype(np.float64) for each in outputs], float(
            to_numpy(values[i])[index])

    def find(self, i, index, sides=(1, -1)):
        """The quotient by one element of input i; 0 among the sides is the point itself."""
        x = float(to_numpy(self.call.values[i])[index])
        eps = self.eps * max(1.0, abs(x))
        (above, high), (below, low) = (self._compute_outputs(i, index, x + side * eps)
                                       for side in sides)
        total = sum(float(((a - b) * w).sum())
                    for a, b, w in zip(above, below, self.weights) if w is not None)
        return total / (high - low)


def check_numeric_gradient(op, inputs, wrt=None, eps=None, rtol=None, atol=None, points=60,
                           seed=0, train=True, **params):
    """Compares the gradients of an operator with difference quotients.

    All inputs of floats are converted to f64, or to f32 if the operator has no f64, and the loss
    is the sum of the outputs with random weights. `wrt`: names or numbers of the inputs to check;
    all of them if omitted. At most `points` elements of each input are moved, by `eps`, in both
    directions. Random operators get the same `seed` in each call. Choose inputs that are not near
    a kink, such as 0 of relu.

        tn.testing.check_numeric_gradient("nn.softmax", [x], axis=-1)
        tn.testing.check_numeric_gradient(lambda x, w: tn.tanh(x @ w), [x, w])
    """
    call, outputs = _convert_to_precise(_Call(op, inputs, params), train, seed)
    precise = all(each.dtype.name == "f64" for each in outputs if each.dtype.is_float)
    eps = (1e-5 if precise else 1e-2) if eps is None else eps
    rtol = (1e-5 if precise else 2e-2) if rtol is None else rtol
    atol = (1e-7 if precise else 5e-3) if atol is None else atol
    places = call.find_floats() if wrt is None else [
        call.find_position(each) for each in _as_list(wrt)]
    if not places or not any(each.dtype.is_float for each in outputs):
        raise ValueError(f"{call.name} has no gradient to check here: it needs an input and an "
                         "output of floats")
    weights = _make_weights(outputs, seed)
    like = [None if each is None else _core.convert(each).astype(out.dtype, copy=False).to(
        out.device) for each, out in zip(weights, outputs)]
    _core.seed(seed)
    _, found = _differentiate(call, like, dict.fromkeys(places, "write"), train)
    quotients = _Quotients(call, weights, eps, seed, train)
    for i in places:
        _compare_gradient(call, i, to_numpy(found[i]), quotients, points, rtol, atol)


def _convert_to_precise(call, train, seed):
    """The call in f64 or f32, and its outputs."""
    for dtype in ("f64", "f32", None):
        made = call.convert(dtype)
        _core.seed(seed)
        try:
            with autograd.record(train):
                outputs = made.run(made.copy_inputs())
            for each in outputs:
                each.wait()
            return made, outputs
        except (DtypeError, UnsupportedError):
            if dtype is None:
                raise
    raise AssertionError("not reached")


def _compare_gradient(call, i, found, quotients, points, rtol, atol):
    rng = np.random.default_rng(i)
    chosen = np.arange(found.size)
    if found.size > points:
        chosen = np.sort(rng.choice(found.size, points, replace=False))
    expected = found.astype(np.float64)
    for each in chosen:
        index = np.unravel_index(each, found.shape)
        expected[index] = quotients.find(i, index)
    try:
        assert_close(found, expected, rtol, atol,
                     f"the gradient of `{call.labels[i]}` of {call.name}")
    except AssertionError as error:
        with np.errstate(all="ignore"):
            size = np.nan_to_num(np.abs(found - expected), nan=np.inf)
        worst = np.unravel_index(np.argmax(size), found.shape)
        above, below = quotients.find(i, worst, (1, 0)), quotients.find(i, worst, (0, -1))
        near = abs(above - below) <= 0.1 * max(abs(above), abs(below)) + 10 * atol
        raise AssertionError(
            f"{error}\n  expected values are difference quotients of {len(chosen)} elements"
            + ("" if near else f"; upwards the worst one is {above:.6g} and downwards "
               f"{below:.6g}, so the input may be at a kink")) from None


# ------------------------------------------------------------------- consistency

def _find_dtypes(call):
    """The types of floats that the operator declares for its first input of floats."""
    if call.whole:
        for each in call.whole["inputs"]:
            if each["dtype_var"] is not None:
                allowed = call.whole["dtype_vars"][each["dtype_var"]]["allowed"]
                return [name for name in ("f64", "f32", "f16", "bf16") if name in allowed]
    return ["f64", "f32"]


def check_consistency(op, inputs, devices=None, dtypes=None, gradients=True, tolerances=None,
                      **params):
    """Compares the results and gradients of an operator on several devices and in several types.

    The first type on the first device is the reference; inputs are rounded so that all types have
    them exactly. `devices`: all of this machine if omitted; `dtypes`: the types of floats that the
    operator declares. `tolerances`: a dict from a type to (rtol, atol). Returns the compared pairs
    of a device and a type.

        tn.testing.check_consistency("nn.softmax", [x], devices=["cpu", "cuda(0)"])
    """
    call = _Call(op, inputs, params)
    devices = list_devices() if devices is None else list(devices)
    dtypes = [find_dtype(each).name for each in (_find_dtypes(call) if dtypes is None else dtypes)]
    for each in sorted(dtypes, key=lambda name: TOLERANCES.get(name, (0, 0)), reverse=True):
        call = call.convert(each)
    pairs = list(itertools.product(devices, dtypes))
    if len(pairs) < 2:
        raise ValueError(f"{call.name} has {len(pairs)} pairs of a device and a type, so there is "
                         "nothing to compare; pass more `devices` or `dtypes`")
    wide = [call.values[i] is not None for i in call.find_floats()]
    weights, first = None, None
    for device, dtype in pairs:
        made = call.convert(dtype, device)
        weights, found = _run_everything(made, weights, gradients and bool(wide), dtypes)
        if first is None:
            first = found
            continue
        known = {**TOLERANCES, **(tolerances or {})}.get(dtype, (0.0, 0.0))
        for name, value in found.items():
            assert_close(value, to_numpy(first[name]), *known, f"{name} on {device} in {dtype}")
    return pairs[1:]


def _run_everything(call, weights, gradients, dtypes):
    """Outputs and gradients by name."""
    def choose(outputs):
        made = weights or _round_weights(_make_weights(outputs, 1), dtypes)
        used.extend(made)
        return [None if each is None else _core.convert(each).astype(out.dtype, copy=False).to(
            out.device) for each, out in zip(made, outputs)]

    used, found = [], {}
    if not gradients:
        outputs, grads = call.run(call.copy_inputs()), []
    else:
        outputs, grads = _differentiate(call, choose, dict.fromkeys(call.find_floats(), "write"))
    found.update(zip(call.name_outputs(len(outputs)), outputs))
    found.update((f"the gradient of `{label}` of {call.name}", each)
                 for label, each in zip(call.labels, grads) if each is not None)
    return used or weights, found


def _round_weights(weights, dtypes):
    """Weights that all types have exactly."""
    for dtype in dtypes:
        weights = [None if each is None else to_numpy(
            _core.convert(each).astype(BY_NAME[dtype], copy=False)).astype(np.float64)
            for each in weights]
    return weights


__all__ = ["TOLERANCES", "assert_close", "check_backward", "check_consistency", "check_forward",
           "check_numeric_gradient", "find_tolerances", "list_devices", "random_array", "to_numpy"]
