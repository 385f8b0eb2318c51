# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per call from Python: Tenon, NumPy and torch in one process.

    python_calls.py [--numpy-only]

Prints lines `NAME/PEER NANOSECONDS`, of one round: the peers take turns, call by call. The
floor is a call of a function that does nothing.
"""

import contextlib
import sys
import time

import numpy as np

import tenon as tn

torch = None
if "--numpy-only" not in sys.argv:
    with contextlib.suppress(ImportError):
        import torch

SECONDS = 0.002  # of a loop: other processes rarely interrupt a short one
SIZES = (1, 64)
NODES = 100


def measure(call):
    """Nanoseconds of one call, by a loop that takes about SECONDS."""
    def run(count):
        steps = range(count)
        begin = time.perf_counter()
        for _ in steps:
            call()
        return time.perf_counter() - begin

    count = 16
    while run(count) < SECONDS / 8:
        count *= 2
    count = max(1, int(count * SECONDS / max(run(count), 1e-9)))
    return min(run(count) for _ in range(15)) / count * 1e9


def make_adds(n):
    """The calls by name and peer."""
    a, b = np.full(n, 1.5, np.float32), np.full(n, 2.5, np.float32)
    x, y, z = tn.array(a), tn.array(b), tn.zeros(n)
    add, c = tn.ops.elemwise.add, np.zeros(n, np.float32)
    calls = {
        ("new", "tenon"): lambda: add(x, y),
        ("new", "numpy"): lambda: np.add(a, b),
        ("sign", "tenon"): lambda: x + y,
        ("sign", "numpy"): lambda: a + b,
        ("given", "tenon"): lambda: add(x, y, out=z),
        ("given", "numpy"): lambda: np.add(a, b, out=c),
        ("prepared", "tenon"): tn.prepare(add, x, y, out=z),
    }
    if torch:
        p, q, r = torch.from_numpy(a), torch.from_numpy(b), torch.zeros(n)
        calls.update({
            ("new", "torch"): lambda: torch.add(p, q),
            ("sign", "torch"): lambda: p + q,
            ("given", "torch"): lambda: torch.add(p, q, out=r),
        })
        calls.update({(name, "torch_inference"): call for (name, peer), call in calls.items()
                      if peer == "torch"})
    return calls


def make_recorded(n):
    """relu(a + b), recorded, and its gradient."""
    x, y, one = tn.ones(n).attach_grad(), tn.ones(n), tn.ones(n)
    add, relu = tn.ops.elemwise.add, tn.ops.elemwise.relu

    def differentiate():
        with tn.record():
            z = relu(add(x, y))
        z.backward(one)

    calls = {("gradient", "tenon"): differentiate}
    if torch:
        p, q, head = torch.ones(n, requires_grad=True), torch.ones(n), torch.ones(n)

        def differentiate_torch():
            p.grad = None
            torch.relu(torch.add(p, q)).backward(head)

        calls["gradient", "torch"] = differentiate_torch
    return calls


def make_programs(n):
    """100 calls of sin, one after the other: a program, and calls one by one."""
    s = tn.var("x", shape=(n,), dtype="f32")
    for _ in range(NODES):
        s = tn.ops.elemwise.sin(s)
    program = s.bind({"x": tn.ones(n)})
    a, x = np.ones(n, np.float32), tn.ones(n)

    def repeat(call, values):
        for _ in range(NODES):
            values = call(values)

    calls = {
        ("program", "tenon"): program.forward,
        ("eager", "tenon"): lambda: repeat(tn.ops.elemwise.sin, x),
        ("eager", "numpy"): lambda: repeat(np.sin, a),
    }
    if torch:
        p = torch.ones(n)
        calls["eager", "torch"] = calls["eager", "torch_inference"] = lambda: repeat(torch.sin, p)
    return calls


def main():
    if torch:
        torch.set_num_threads(1)
    print(f"floor/python {measure(lambda: None):.3f}")
    for n in SIZES:
        for make in (make_adds, make_recorded, make_programs):
            for (name, peer), call in make(n).items():
                with torch.inference_mode() if peer == "torch_inference" else \
                        contextlib.nullcontext():
                    print(f"{name}/{n}/{peer} {measure(call):.3f}", flush=True)


if __name__ == "__main__":
    main()
