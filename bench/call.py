# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per call and GB/s of an add, ours and libtorch's.

    call.py BUILD_FOLDER [ROUNDS]

Prints lines `name value unit lowest-highest` and tables of the medians. A
program that may use one thread is pinned to one core.
"""

import ctypes.util
import pathlib
import sys

from samples import CORES, TORCHES, Program, Samples, save, say, table, \
    find_torches

BUILD = pathlib.Path(sys.argv[1]).resolve()
BENCH = BUILD / "bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
PLUGIN = BUILD / "plugins" / "elemwise" / "elemwise.so"


def programs(what, threads):
    """Ours, and libtorch."""
    return [Program("tenon", [BENCH / "call", what, PLUGIN, threads],
                    CORES[threads]),
            *find_torches(BENCH / "peers" / "torch", [what, threads], threads)]


def report(samples, prefix, unit):
    """A line per program and name."""
    for program, name in samples.values:
        low, high = samples.spread(program, name)
        say(f"{prefix}.{name.replace('/', '.')}.{program}",
            samples.median(program, name), unit, f"{low:.1f}-{high:.1f}")


def number(samples, program, name, digits=0):
    """A cell."""
    median = samples.median(program, name)
    return "–" if median is None else f"{median:.{digits}f}"


def calls():
    """Small calls on one thread."""
    samples = Samples()
    samples.collect(programs("call", 1), ROUNDS)
    report(samples, "call", "ns")
    rows = (("direct checked call in C", "direct", None, None),
            ("prepared", "prepared", None, None),
            ("eager, given output", "given", "given", "given_inference"),
            ("eager, new output", "new", "new", "new_inference"),
            ("eager, recorded", "recorded", "recorded", None),
            ("relu(a + b) and its gradient", "gradient", "gradient", None),
            ("sum(a + b) and its gradient", None, "gradient_sum", None))
    def both(program, name):
        return "–" if name is None else " / ".join(
            number(samples, program, f"{name}/{n}") for n in (1, 64))
    inferring = ("torch_tuned", "torch_new")
    table("Nanoseconds per call on 1 / 64 elements, one thread",
          ["call", "tenon", *TORCHES.values(),
           *(f"{TORCHES[each]}, inference" for each in inferring)],
          [[text, both("tenon", ours), *(both(each, theirs)
                                         for each in TORCHES),
            *(both(each, inference) for each in inferring)]
           for text, ours, theirs, inference in rows])


def paired(samples, name):
    """Tenon over the best libtorch, round by round."""
    best = samples.best(name, TORCHES, max)
    return "–" if best is None else "{1:.2f} ({0:.2f}–{2:.2f})".format(
        *samples.ratio(name, "tenon", best))


def rates(threads):
    """An add from 1 K to 16 M floats."""
    samples = Samples()
    samples.collect(programs("add", threads), ROUNDS)
    report(samples, f"add.{threads}", "GB/s")
    sizes = [name.split("/")[1] for name in samples.names("tenon")
             if name.startswith("given/")]
    for kind in ("given", "new"):
        table(f"GB/s of an add of floats, {threads} thread"
              f"{'s' if threads > 1 else ''}; tenon / best torch round by round",
              [f"floats, {kind} output", "tenon", *TORCHES.values(),
               "tenon / best torch", "limit", "limit, non-temporal"],
              [[size, *(number(samples, program, f"{kind}/{size}", 1)
                        for program in ("tenon", *TORCHES)),
                paired(samples, f"{kind}/{size}"),
                number(samples, "tenon", f"limit/{size}", 1),
                number(samples, "tenon", f"limit_nt/{size}", 1)]
               for size in sizes])


def memory():
    """Bytes and time per array."""
    samples = Samples()
    samples.collect([Program("memory", [BENCH / "call", "memory", PLUGIN, 1])],
                    3)
    for program, name in samples.values:
        say(name, samples.median(program, name),
            samples.more[program, name][0])


def bindings():
    """A function of a library, bound by a manifest or wrapped by a compiler."""
    if not any(map(ctypes.util.find_library, ("openblas", "blas"))):
        print("SKIPPED bindings: neither libopenblas.so.0 nor libblas.so.3")
        return
    samples = Samples()
    manifest = BENCH.parents[2] / "plugins" / "blas" / "axpy.yaml"
    wrapper = BENCH / "wrapped" / "wrapped.so"
    samples.collect([Program("tenon", [BENCH / "binding", manifest, wrapper],
                             CORES[1])], ROUNDS)
    report(samples, "binding", "ns")
    table("Nanoseconds per cblas_saxpy on 1 / 64 / 4096 floats, one thread; the "
          "function alone takes " + " / ".join(
              number(samples, "tenon", f"direct/{n}") for n in (1, 64, 4096)),
          ["call", "bound (libffi)", "compiled"],
          [[text, *(" / ".join(number(samples, "tenon", f"{who}{kind}/{n}")
                               for n in (1, 64, 4096))
                    for who in ("bound", "compiled"))]
           for text, kind in (("prepared", "_prepared"),
                              ("eager, given output", "_given"))])


def main():
    """All figures of calls in docs/benchmarks/performance.md."""
    memory()
    calls()
    bindings()
    for threads in CORES:
        rates(threads)
    save("call")


if __name__ == "__main__":
    main()
