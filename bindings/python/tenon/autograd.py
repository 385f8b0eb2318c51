# SPDX-License-Identifier: Apache-2.0
"""Gradients: record calls on a tape, and compute derivatives, also of derivatives where the
gradients of the operators have gradients themselves.

    w = tn.array([1.0, 2.0]).attach_grad()
    with tn.record():
        loss = (w * w).sum()
    loss.backward()
    w.grad                          # array([2., 4.])

    slope = tn.grad(lambda x: (x ** 3).sum())
    tn.grad(lambda x: slope(x).sum())(tn.array([2.0]))     # array([12.])
"""

import functools

from tenon import _array, _core

_WRITE, _ADD = 1, 3
_KEEP, _RECORD = 1, 2


class record:
    """Records the calls of this thread, so that their results can be differentiated. With
    train=True operators behave as in training: dropout drops, statistics are updated.

        with tn.record() as tape:
            loss = ((w * x - y) ** 2).sum()
    """

    __slots__ = ("_tape", "_before")

    def __init__(self, train=True):
        self._tape = _core.Tape(train=train)

    def __enter__(self):
        self._before = _core.set_recording(self._tape)
        return self._tape

    def __exit__(self, *_):
        _core.set_recording(self._before)
        self._before = None


class pause:
    """Inside of record(): calls are not recorded, so their results are constants.

        with tn.pause():
            target = network(x)
    """

    __slots__ = ("_before",)

    def __enter__(self):
        self._before = _core.set_recording(None)

    def __exit__(self, *_):
        _core.set_recording(self._before)
        self._before = None


def is_recording():
    """Whether calls of this thread are recorded."""
    return _core.get_recording() is not None


def _match_type(gradient, head):
    """An array with the type of the head."""
    if gradient is None or (isinstance(gradient, _array.Array)
                            and gradient._dtype_number == head._dtype_number):
        return gradient
    return _array.convert_any(gradient, head).astype(head.dtype, copy=False)


def backward(heads, gradients=None, keep=False):
    """Computes the gradients of the sum of several arrays; see Array.backward.

        tn.autograd.backward([loss1, loss2])
    """
    tape = heads[0]._tape if len(heads) == 1 else next(
        (each._tape for each in heads if each._tape is not None), None)
    if tape is None:
        raise ValueError("no tape has recorded this array: compute it inside of `with "
                         "tn.record():`, from an array that attach_grad() was called for")
    weights = [None] * len(heads) if gradients is None else [
        _match_type(each, head) for each, head in zip(gradients, heads)]
    watched = [each for each in tape.watched if each._request]
    into, requests = [], []
    for each in watched:
        adds = each._request == _ADD and each.grad is not None
        into.append(each.grad if adds else None)
        requests.append(_ADD if adds else _WRITE)
    if not watched:
        raise ValueError("the tape watches no array; call attach_grad() for parameters before "
                         "they are used")
    found = tape.gradient(list(heads), weights, watched, into, requests, _KEEP if keep else 0)
    for each, gradient in zip(watched, found):
        each.grad = gradient
    if not keep:
        tape.forget_watched()


def value_and_grad(function, argnums=0, train=False):
    """A function that computes `function` and its gradient with respect to some arguments: returns
    (value, gradient), or a tuple of gradients if `argnums` is a tuple. The value is summed if it
    has more than one element. It can be differentiated again.

        value, slope = tn.value_and_grad(loss)(w, x)
    """
    several = isinstance(argnums, (tuple, list))
    numbers = tuple(argnums) if several else (argnums,)

    @functools.wraps(function)
    def compute(*args, **named):
        outer = _core.get_recording()
        tape = outer if outer is not None else _core.Tape(train=train)
        args = list(args)
        for i in numbers:
            # A new array, so that the gradient is that of this use.
            args[i] = _fresh(_array.convert_any(args[i]), outer)
            tape.watch(args[i])
        before = _core.set_recording(tape)
        try:
            value = function(*args, **named)
        finally:
            _core.set_recording(before)
        if not isinstance(value, _array.Array):
            raise TypeError(f"a function to differentiate returns an Array, not a "
                            f"{type(value).__name__}")
        of = [args[i] for i in numbers]
        found = tape.gradient([value], [None], of, [None] * len(of), [_WRITE] * len(of),
                              _RECORD if outer is not None else 0)
        return value, (tuple(found) if several else found[0])

    return compute


def _fresh(array, outer):
    """An array of its own for the argument of a function that is differentiated; as a result of
    the outer tape, so that outer gradients pass."""
    if outer is None:
        return array.copy()
    from tenon.ops import find_operator
    return find_operator("elemwise.copy")(array)


def grad(function, argnums=0, train=False):
    """A function that computes the gradient of `function`; see value_and_grad.

        tn.grad(lambda x: (x ** 3).sum())(tn.array([2.0]))      # array([12.])
    """
    both = value_and_grad(function, argnums, train)

    @functools.wraps(function)
    def compute(*args, **named):
        return both(*args, **named)[1]

    return compute
