# SPDX-License-Identifier: Apache-2.0
"""References, memory, threads, the global lock, processes, and the end of the interpreter."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc

import numpy as np
import pytest

import tenon as tn
from tenon import _api, _core

HEAD = "import gc, os, sys, threading, time\nimport numpy as np\nimport tenon as tn\n"


def run_child(code, timeout=120, head=HEAD, **more):
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c",
                           head + textwrap.dedent(code)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout,
                          check=False, **more)


def check_child(code, said="done\n", head=HEAD):
    done = run_child(code, head=head)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    return done.stderr


def count_live_bytes():
    """Bytes of all arrays of the runtime; pools are emptied first."""
    tn.wait()
    gc.collect()
    stats = _api.tn_memory()
    stats.struct_size = ctypes.sizeof(stats)
    place = _api.tn_place()
    place.device_type = 1
    _api.tn_memory_get(_core.runtime_handle(), place, ctypes.byref(stats))
    return stats.live


# --------------------------------------------------------------------------- no leaks

def use_everything(shared):
    """One round of calls of all kinds, and of failures of all kinds."""
    x = tn.array([[1.0, 2.0], [3.0, 4.0]])
    y = (x + 1) * x / 2 - x @ x ** 2
    y[0] = x[1, ::-1]
    y[[0, 1], [1, 0]] = 5
    y += x[:, None].squeeze(1)
    y.numpy(), y.tolist(), repr(y), y[0, 0].item(), y.numpy(copy=False), list(y)
    tn.from_dlpack(np.ones(3)), np.from_dlpack(y), y.__dlpack__(), tn.array(np.ones(3)[::-1])
    tn.ops.tensor.split(x, num_outputs=2, axis=1, out=(None, tn.zeros((2, 1))))
    tn.ops.tensor.concat([x, x], dim=0), tn.ops.tensor.sum(x, axis=[0, 1])
    w = tn.ones(3).attach_grad("add")
    with tn.record():
        z = (w * shared[0] + tn.exp(w)[1:].sum()).sum()
    z.backward()
    w.grad = w.grad * 2
    tn.grad(lambda v: (v * v).sum())(w)
    fail(lambda: x + tn.ones(3), ValueError)
    fail(lambda: x[9], IndexError)
    fail(lambda: x[[9]], IndexError)
    fail(lambda: tn.array([None]), TypeError)
    fail(lambda: tn.array({}), TypeError)
    fail(lambda: tn.zeros((2**40, 2**40)), IndexError)
    fail(lambda: tn.ops.nn.softmax(x, axsi=1), TypeError)
    fail(lambda: tn.ops.nn.softmax(x, axis=[1, 2, "a"]), TypeError)
    fail(lambda: tn.ops.nn.softmax(x, axis=object()), TypeError)
    fail(lambda: tn.ops.nn.softmax(x, out=(x, x)), ValueError)
    fail(lambda: tn.ops.nn.softmax(x, out=[object()]), TypeError)
    fail(lambda: tn.ops.tensor.split(x, num_outputs=2, axis=1, out=(x, 3)), TypeError)
    fail(lambda: tn.ops.tensor.concat(x, tn.ones(5)), ValueError)
    fail(lambda: tn.from_dlpack(np.ones(2, "c8")), tn.TenonError)
    fail(lambda: tn.ones(2).backward(), ValueError)
    fail(lambda: tn.load("/nonexistent.so"), LookupError)
    fail(lambda: tn.ops.tensor.gather_nd(tn.ones((40, 50)).reshape(-1),
                                         tn.full((1, 3000), 10**6)).wait(), IndexError)


def fail(function, error):
    try:
        function()
    except error:
        return
    raise AssertionError("no error")


def run_rounds(n, n_threads):
    errors = []
    shared = [tn.full(3, 2.0)]

    def work():
        try:
            for _ in range(n // n_threads):
                use_everything(shared)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    try:
        tn.wait()  # failures of calls that nobody waited for
    except tn.TenonError:
        pass


def test_thousand_rounds_of_threads_and_exceptions_leak_nothing():
    run_rounds(40, 4)
    counted = [tn.ops.nn.softmax, tn.Array, _core.Tape, tn.f32, tn._errors.ShapeError]
    live = count_live_bytes()
    references = [sys.getrefcount(each) for each in counted]
    tracemalloc.start()
    run_rounds(500, 4)  # Python fills its own caches
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    run_rounds(1000, 4)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert count_live_bytes() == live
    for each, old in zip(counted, references):
        assert abs(sys.getrefcount(each) - old) <= 3, each
    assert after - before < 100_000  # 100 bytes for a round would be one object


def count_references(objects):
    gc.collect()
    return [sys.getrefcount(each) for each in objects]


def test_calls_keep_no_references_to_their_arguments():
    x, y, out = tn.ones(3), np.ones(3), tn.zeros(3)
    axis, name, weights = [0], "f64", tn.ones(3)
    objects = [x, y, out, axis, weights, tn.f64]
    calls = [
        lambda: tn.add(x, x, out=out), lambda: x + y, lambda: y + x, lambda: tn.exp(y, out=(out,)),
        lambda: tn.ops.tensor.sum(x, axis=tuple(axis)), lambda: x.astype(name),
        lambda: x[0], lambda: x[1:], lambda: x[[0, 1]], lambda: x.__setitem__(0, y[0]),
        lambda: x.__setitem__([0, 1], y[:2]), lambda: tn.from_dlpack(y), lambda: np.from_dlpack(x),
        lambda: x == y, lambda: x.reshape(3, 1), lambda: x.numpy(), lambda: x.wait(1),
        lambda: repr(x), lambda: tn.concat(x, x, dim=0), lambda: tn.concat([x, y], dim=0)]
    for _ in range(3):
        for call in calls:
            attempt(call)
    before = count_references(objects)
    for call in calls:
        for _ in range(50):
            attempt(call)
    assert count_references(objects) == before


def attempt(call):
    try:
        call()
    except (tn.TenonError, TypeError, ValueError):
        pass


def test_a_parameter_is_kept_for_the_next_calls_only():
    class Integer(int):
        pass

    gone = [Integer(0) for _ in range(5)]
    for each in gone:
        tn.ops.tensor.sum(tn.ones(3), axis=[each])
    for value in (0, 1, 2):
        attempt(lambda: tn.ops.tensor.sum(tn.ones((1, 1, 3)), axis=value))
    each = None
    count = [sys.getrefcount(gone[i]) for i in range(5)]
    assert count == [count[0]] * 5


def test_memory_of_arrays_is_returned():
    tn.zeros(10)
    before = count_live_bytes()
    held = [tn.zeros((100, 1000)) for _ in range(5)]
    views = [each[1:, ::2] for each in held]
    assert count_live_bytes() >= before + 5 * 400_000
    del held
    assert count_live_bytes() >= before + 5 * 400_000
    taken = [np.from_dlpack(each) for each in views]
    del views
    assert count_live_bytes() >= before + 5 * 400_000
    del taken
    assert count_live_bytes() == before


# --------------------------------------------------------------------- the global lock

def test_other_threads_run_during_a_wait():
    ticks = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    x = tn.ones((600, 600))
    gaps = 0
    for _ in range(5):
        y = x
        for _ in range(6):
            y = (y @ x) * 0.001
        start = time.monotonic()
        y.wait()
        end = time.monotonic()
        gaps += len([each for each in ticks if start < each < end]) > 0 or end - start < 0.02
    stop.set()
    thread.join()
    assert gaps > 0


def test_computing_threads_need_no_lock():
    """Work goes on while this thread holds the global lock all the time."""
    x = tn.ones((400, 400))
    y = x
    for _ in range(8):
        y = (y @ x) * 0.001
    is_done = _api.tn_array_wait_for.__name__ and ctypes.PyDLL(tn._prefix.library("libtenon.so.0"))
    wait = is_done.tn_array_wait_for  # called without releasing the lock
    wait.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    assert wait(y._handle, 60 * 10**9) == 0


def test_two_threads_call_operators_for_a_second():
    end = time.monotonic() + 1.0
    errors, rounds = [], []

    def work(number):
        try:
            x, n = tn.full((3, 50), number, "f32"), 0
            while time.monotonic() < end:
                y = tn.exp(x * 0) + x[1:, None, :1] - number
                assert y.numpy().max() == 1 == y.numpy().min()
                n += 1
            rounds.append(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in (1.0, 2.0)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors and min(rounds) > 5


@pytest.mark.parametrize("engine", ["pooled", "threaded", "naive"])
def test_arrays_of_numpy_are_freed_by_any_thread(engine):
    """NumPy takes the global lock to free them, also in a thread of the engine."""
    check_child(f'''
        import faulthandler
        faulthandler.dump_traceback_later(60, exit=True)
        tn.configure(engine="{engine}")
        end, rounds = time.monotonic() + 2, []
        def work():
            w, n = tn.ones((64, 64)), 0
            while time.monotonic() < end:
                a = tn.from_dlpack(np.ones((64, 64), "f4"))
                y = a @ w + a
                del a
                n += 1
                if n % 500 == 0:
                    assert y[0, 0].item() == 65
            rounds.append(n)
        threads = [threading.Thread(target=work) for _ in range(3)]
        [each.start() for each in threads], [each.join() for each in threads]
        assert len(rounds) == 3 and min(rounds) > 0
        print("done")
    ''')


def test_threads_that_are_first_to_use_tenon_share_one_runtime():
    stderr = check_child('''
        from tenon import _core
        barrier, found = threading.Barrier(8), []
        def work():
            barrier.wait()
            found.append((_core.runtime_handle(), (tn.ones(3) @ tn.ones(3)).item()))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [each.start() for each in threads], [each.join() for each in threads]
        assert len(found) == 8 and len(set(found)) == 1, found
        print("done")
    ''')
    assert "is loaded already" not in stderr


# --------------------------------------------------------------------------- signals

def take_ctrl_c():
    """In the child: a shell ignores SIGINT in programs that it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("use", ["x.wait()", "x.wait(100)", "x.numpy()", "x[0, 0].item()",
                                 "print(x)"])
def test_ctrl_c_ends_a_wait(use):
    child = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + textwrap.dedent(f'''
            x = tn.ones((700, 700))
            for _ in range(2000):
                x = (x @ x) * 0.001
            try:
                print("waits", flush=True)
                {use}
                print("no interrupt")
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            os._exit(0)
        ''')], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
        preexec_fn=take_ctrl_c)
    try:
        assert child.stdout.readline() == "waits\n"
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        said = child.stdout.read()
        assert said.endswith("interrupted\n") and time.monotonic() - start < 20
    finally:
        child.kill()
        child.communicate()


def test_ctrl_c_ends_the_wait_at_the_end():
    child = subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent('''
            x = tn.ones((700, 700))
            for _ in range(3000):
                x = (x @ x) * 0.001
            import atexit
            atexit.register(lambda: print("ends", flush=True))
        ''')], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
        preexec_fn=take_ctrl_c)
    try:
        assert child.stdout.readline() == "ends\n"
        start = time.monotonic()
        while child.poll() is None and time.monotonic() - start < 20:
            child.send_signal(signal.SIGINT)  # an early one ends the function above
            time.sleep(0.1)
        assert child.poll() == -signal.SIGINT
    finally:
        child.kill()
        child.communicate()


# -------------------------------------------------------------------------- processes

def test_a_forked_child_gets_clear_errors():
    check_child('''
        x = tn.ones(3).attach_grad()
        (x + 1).wait()
        child = os.fork()
        if child == 0:
            bad = []
            for use in ("x + 1", "x.numpy()", "tn.zeros(2)", "tn.wait()", "x.wait()", "x[0]",
                        "tn.exp(x)", "tn.exp(np.ones(3))", "x.astype('f64')", "tn.load('a.so')",
                        "x.reshape(3, 1)", "tn.grad(lambda x: x)(x)", "x.__setitem__(0, 1)"):
                try:
                    eval(use)
                    bad.append(use)
                except tn.UnsupportedError as error:
                    if "spawn" not in str(error):
                        bad.append(str(error))
            repr(x), x.shape
            print(bad or "clear", flush=True)
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert (x + 1).tolist() == [2, 2, 2]
        print("done")
    ''', "clear\ndone\n")


def test_a_child_that_is_forked_before_the_first_use_works():
    check_child('''
        child = os.fork()
        x = tn.ones(3) + 1
        assert x.tolist() == [2, 2, 2]
        if child == 0:
            sys.exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        print("done")
    ''')


def find_subinterpreters():
    try:
        import _xxsubinterpreters as module
    except ImportError:
        module = pytest.importorskip("_interpreters", reason="this Python has no subinterpreters")
    return module.__name__


@pytest.mark.parametrize("first", ["import tenon._core, tenon", "pass"])
def test_a_subinterpreter_cannot_import_it(first):
    name = find_subinterpreters()
    check_child(f'''
        {first}
        import {name} as module
        code = """if True:
            import sys
            sys.path[:] = {sys.path!r}
            try:
                import tenon._core
                print("imported")
            except ImportError as error:
                print("subinterpreters" in str(error) or error)
        """
        number = module.create()
        module.run_string(number, code)
        module.destroy(number)
        import tenon
        print(tenon.ones(2).tolist())
    ''', "True\n[1.0, 1.0]\n", head="")


def test_it_is_imported_again_as_the_same_module():
    check_child('''
        x = tn.zeros(3)
        for name in [each for each in sys.modules if each.startswith("tenon")]:
            del sys.modules[name]
        import importlib
        import tenon
        assert tenon.Array is type(x) and (tenon.zeros(3) + x).tolist() == [0, 0, 0]
        importlib.reload(tenon)
        importlib.reload(tenon._core)
        assert tenon.Array is type(x) and (x + 1).tolist() == [1, 1, 1]
        print("done")
    ''')


# ---------------------------------------------------------------- the interpreter's end

END = {
    "pending work": '''
        x = tn.ones((500, 500))
        for _ in range(20):
            x = (x @ x) * 0.001
    ''',
    "pending work of another thread": '''
        def work():
            global y
            y = tn.ones((500, 500))
            for _ in range(10):
                y = (y @ y) * 0.001
        threading.Thread(target=work).start()
    ''',
    "daemon threads that compute": '''
        def work():
            x = tn.ones((50, 50))
            try:
                while True:
                    x = (x @ x) * 0.02 + x[::-1]
                    x[0] = x.numpy()[0]
            except (RuntimeError, ImportError):
                pass
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
    ''',
    "arrays of other packages": '''
        x = tn.from_dlpack(np.ones((500, 500), "f4"))
        y = np.from_dlpack((x @ x) @ x)
        kept = tn.ones(3).__dlpack__()
        import builtins
        builtins.kept = (x, y, x @ x)
    ''',
    "an open recording": '''
        w = tn.ones(3).attach_grad()
        context = tn.record()
        context.__enter__()
        y = w * 2
    ''',
    "a cycle": '''
        x = tn.ones(3)
        class Node: pass
        a = Node(); a.me = a; a.array = x + 1
        sys.modules["sys"].kept = a
    ''',
    "a pending failure": '''
        x = tn.ones((300, 300)) @ tn.ones((300, 300))
        y = tn.ops.tensor.gather_nd(x.reshape(-1), tn.full((1, 5000), 10**7))
    ''',
    "an object that computes when it is freed": '''
        x = tn.ones(3)
        class Late:
            def __del__(self):
                try:
                    x + 1
                except RuntimeError:
                    pass
        late = Late()
        import builtins
        builtins.late = late
    ''',
    "a function that logs": '''
        tn.configure(log_levels="debug", log=lambda level, line: None)
        x = tn.ones((300, 300))
        for _ in range(20):
            x = (x @ x) * 0.001
    ''',
}


@pytest.mark.parametrize("name", sorted(END))
def test_the_interpreter_ends_with(name):
    done = run_child(END[name])
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_uses_after_the_end_are_errors():
    check_child('''
        def late():
            uses = ["x + 1", "1 - x", "x == x", "tn.zeros(2)", "tn.exp(x)", "tn.ops.nn.softmax(x)",
                    "x.sum()", "tn.load('a.so')", "tn.unload('nn')", "tn.array([1.0])",
                    "tn.array(np.ones(2))", "tn.from_dlpack(np.ones(2))", "tn.seed(1)",
                    "tn.configure()", "x[[0]]", "tn.grad(lambda x: x * x)(x)", "softmax(x)",
                    "tn.plugins()", "x.__iadd__(1)", "x ** 2", "-x", "x @ x"]
            bad = []
            for each in uses:
                try:
                    eval(each)
                    bad.append(each)
                except RuntimeError as error:
                    if "has ended" not in str(error):
                        bad.append((each, str(error)))
            for each in ["x.numpy()", "repr(x)", "x.shape", "x[0]", "x.wait()", "tn.wait()",
                         "x.reshape(3, 1)", "np.from_dlpack(x)", "float(x[0])", "x.astype('f64')",
                         "y.backward()", "w.grad"]:
                try:
                    eval(each)
                except RuntimeError:
                    pass
            print(bad or "done")
        import atexit
        atexit.register(late)
        import numpy as np
        import tenon as tn
        softmax = tn.ops.nn.softmax
        x = tn.ones(3)
        -x, x ** 2, x @ x, x + 1, 1 - x
        w = tn.ones(3).attach_grad()
        with tn.record():
            y = w * 2
    ''', head="")
