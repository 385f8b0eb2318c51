# SPDX-License-Identifier: Apache-2.0
"""The cases of test_diff.py: edits of a manifest, the rows that `opgen diff`
prints for each, and its verdict."""

PLUGIN = """\
opgen: 1
plugin: lab
release: 1
summary: Operators of a test
license: Apache-2.0
operators: [op.yaml, other.yaml]
"""
OTHER = """\
opgen: 1
op: first
summary: Twice every element
dtypes: {T: [f32]}
inputs: [{name: data, dtype: T}]
outputs: [{name: out, dtype: T, shape: data}]
forward: {out: 2*data}
gradient: {none: true, why: nobody asked}
---
opgen: 1
op: second
summary: Every element as it is
dtypes: {T: [f32]}
inputs: [{name: data, dtype: T}]
outputs: [{name: out, dtype: T, shape: data}]
forward: {out: data}
gradient: {none: true, why: nobody asked}
"""
OP = """\
opgen: 1
op: mix
summary: Mixture of two arrays
doc: |
  Mixes.
params:
  - {name: mode, type: enum, values: [one, two, three], default: one}
  - {name: a, type: float, default: 0.5, min: 0, max: 1, doc: Share}
  - {name: n, type: int, default: 3}
  - {name: k, type: ints, rank: 1..3, default: [1]}
  - {name: must, type: bool}
dtypes: {T: [f32, f64]}
inputs:
  - {name: x, dtype: T, shape: [N, C]}
  - {name: y, dtype: T, shape: [N, C], layout: contiguous}
  - {name: w, dtype: T, shape: [C], role: weight, optional: true}
outputs:
  - {name: out, dtype: T, shape: [N, C], inplace: x}
aux:
  - {name: mean, dtype: T, shape: [C], init: 0}
require:
  - {that: C > 0, say: there must be a channel}
gradient:
  kernel: backward
  needs:
    x: [grad.out, x]
    y: [grad.out]
    w: [grad.out]
kernels:
  - device: cpu
    forward: lab_mix
    backward: lab_mix_backward
    dtypes: [f32]
    writes: [write]
    flags: [reentrant, deterministic]
"""


class Case:
    """Edits of op.yaml (or of another file, by name) and the expected rows."""

    def __init__(self, name, edits, expected, verdict, old=(), release=2,
                 **files):
        self.name, self.edits, self.expected = name, edits, expected
        self.verdict, self.old, self.release = verdict, old, release
        self.files = files


def mix(kind, text, *snippet):
    return ("lab.mix", kind, text, *snippet)


A = "  - {name: a, type: float, default: 0.5, min: 0, max: 1, doc: Share}\n"
N = "  - {name: n, type: int, default: 3}\n"
K = "  - {name: k, type: ints, rank: 1..3, default: [1]}\n"
LIST = "  - {name: l, type: ints, default: [1]}\n"
MUST = "  - {name: must, type: bool}\n"
DTYPE = "  - {name: d, type: dtype, values: [f32, i4], default: i4}\n"
W = "  - {name: w, dtype: T, shape: [C], role: weight, optional: true}\n"
X = "  - {name: x, dtype: T, shape: [N, C]}\n"
Y = "  - {name: y, dtype: T, shape: [N, C], layout: contiguous}\n"
OUT = "  - {name: out, dtype: T, shape: [N, C], inplace: x}\n"
NEEDS = "    w: [grad.out]\n"
LESS = ("x: [grad.out, x]", "x: [grad.out]")
NO_AUX = ("aux:\n  - {name: mean, dtype: T, shape: [C], init: 0}\n", "")
LINEAR = (NEEDS, NEEDS + "  linear: [[y, w], [x]]\n")
GRADIENT = OP[OP.index("gradient:"):OP.index("kernels:")]
KERNELS = OP[OP.index("kernels:"):]
FORMULA = [(GRADIENT, "gradient:\n  formula: {x: a*grad.out, y: grad.out, "
            "w: 0*grad.out}\n"), (KERNELS, ""),
           NO_AUX,
           ("shape: [C], role: weight, optional: true", "shape: x"),
           ("shape: [N, C], layout: contiguous", "shape: x"),
           ("shape: [N, C], inplace: x", "shape: x, inplace: x"),
           ("shape: [N, C]", "shape: [N, C]"),
           ("gradient:", "forward: {out: a*x + n*y + w}\ngradient:")]

# Rules that name `n`, `y` and `out`, beside names that only look like them.
RULES = """\
opgen: 1
op: mix
summary: Mixture of two arrays
params:
  - {name: n, type: int, default: 3}
dtypes: {T: [f32, f64]}
inputs:
  - {name: x, dtype: T, shape: y}
  - {name: y, dtype: T, shape: [N, C]}
outputs:
  - {name: out, dtype: T, shape: y, inplace: y}
require:
  - {that: size(y)*n > 0 + rank(y), say: one at least}
forward:
  out: x*n + y^2 + 1e2*max(n, 1)
gradient:
  graph:
    x: el.n(grad.out, y, n=n, text="n y", k=1)
    y: n.y@1(n.y(out, y), grad.out, n=n)
"""
# And a gradient that is derived.
AUTO = (RULES[RULES.index("gradient:"):], "gradient: auto\n")
# `n` with this name.
N_TO = [("name: n,", "name: count, alias: n,"), ("*n >", "*count >"),
        ("x*n", "x * count"), ("max(n", "max(count")]
N_GRAPH = [("n=n, text", "n=count, text"), ("out, n=n", "out, n=count")]
Y_TO = [("shape: y}", "shape: z}"), ("name: y", "name: z"),
        ("shape: y, inplace: y", "shape: z, inplace: z"),
        ("size(y)", "size(z)"), ("rank(y)", "rank(z)"), ("y^2", "z^2")]
Y_GRAPH = [("out, y, n", "out, z, n"), ("    y: n.y", "    z: n.y"),
           ("n.y(out, y)", "n.y(out, z)")]
OUT_GRAPH = [("name: out", "name: res"), ("out: x*n", "res: x*n"),
             ("grad.out, y", "grad.res, y"), ("(out, y)", "(res, y)"),
             ("grad.out, n", "grad.res, n")]

# Inputs of one shape, and hand-written kernels.
PLAIN = [(W, ""), (NEEDS, ""), ("shape: [N, C], layout", "shape: x, layout"),
         ("shape: [N, C], inplace", "shape: x, inplace"),
         NO_AUX]

CASES = [
    Case("nothing changed", [], [], "no change", release=1),
    Case("a raised release alone is nothing", [], [], "no change"),
    Case("blanks and order of keys are nothing",
         [("{name: n, type: int, default: 3}",
           "{default: 3, type: int,   name: n}")], [], "no change"),

    # The plugin.
    Case("a release that was not raised",
         [(K, K.replace("rank: 1..3", "rank: 1..4"))],
         [mix("ok", "rank of `k` widened", "rank: @1..4"),
          ("lab", "note", "release is still 1 although the plugin changed")],
         "minor", release=1),
    Case("an operator removed", [],
         [("lab.second", "source", "operator removed")],
         "major", other=[(OTHER[OTHER.index("---"):], "")]),
    Case("an operator added last", [],
         [("lab.third", "ok", "operator added, since 2", "op: @third")],
         "minor", other=[(OTHER[OTHER.index("---"):],
                          OTHER[OTHER.index("---"):]
                          + OTHER[OTHER.index("---"):].replace(
                              "op: second", "op: third\nsince: 2"))]),
    Case("an operator added that says it was there", [],
         [("lab.third", "note", "operator `third` is new, but since 1 says "
           "that release 1 had it", "op: @third")],
         "minor", other=[(OTHER[OTHER.index("---"):],
                          OTHER[OTHER.index("---"):]
                          + OTHER[OTHER.index("---"):].replace(
                              "op: second", "op: third"))]),
    Case("an operator added before others", [],
         [("lab.third", "abi", "operator added before others", "op: @third")],
         "major", other=[("opgen: 1\nop: first",
                          OTHER[OTHER.index("---") + 4:].replace(
                              "op: second", "op: third\nsince: 2")
                          + "---\nopgen: 1\nop: first")]),
    Case("operators in another order", [],
         [("lab.mix", "abi", "operators[0] moved to 2", "op: @mix")], "major",
         plugin=[("[op.yaml, other.yaml]", "[other.yaml, op.yaml]")]),
    Case("an operator of gradients, in any place", [],
         [("lab.aid", "ok", "operator added, since 2", "op: @aid")],
         "minor", other=[("opgen: 1\nop: first",
                          OTHER[OTHER.index("---") + 4:].replace(
                              "op: second",
                              "op: aid\nbackward_only: true\nsince: 2")
                          + "---\nopgen: 1\nop: first")]),
    Case("the words of the plugin", [],
         [("lab", "doc", "summary of the plugin changed"),
          ("lab", "doc", "license changed Apache-2.0 -> MIT")], "compatible",
         plugin=[("of a test", "of tests"), ("Apache-2.0", "MIT")]),

    Case("a plugin of another name", [],
         [("lab2", "source", "plugin renamed lab -> lab2")], "major",
         plugin=[("plugin: lab", "plugin: lab2")]),
    Case("a release lowered", [],
         [("lab", "source", "release lowered 3 -> 2")], "major",
         old_plugin=[("release: 1", "release: 3")]),

    Case("a plugin that requires another", [],
         [("lab", "source", "requires elemwise >=2 now")], "major",
         plugin=[("license: Apache-2.0",
                  'license: Apache-2.0\nrequires: {elemwise: ">=2"}')]),
    Case("a plugin that requires less", [],
         [("lab", "ok", "requires nn >=1 now"),
          ("lab", "ok", "requires elemwise no more")], "minor",
         old_plugin=[("license: Apache-2.0", "license: Apache-2.0\nrequires: "
                      '{elemwise: ">=2", nn: ">=2"}')],
         plugin=[("license: Apache-2.0",
                  'license: Apache-2.0\nrequires: {nn: ">=1"}')]),

    # The heading.
    Case("words", [("Mixture", "Mix"), ("  Mixes.", "  It mixes.")],
         [mix("doc", "summary changed", "summary: @Mix"),
          mix("doc", "doc changed", "doc: @|")], "compatible"),
    Case("a family", [("op: mix", "op: mix\nfamily: mixtures")],
         [mix("doc", "family changed none -> mixtures",
              "family: @mixtures")], "compatible"),
    Case("another family", [("family: sums", "family: linear algebra")],
         [mix("doc", "family changed sums -> linear algebra",
              "family: @linear algebra")], "compatible",
         old=[("op: mix\n", "op: mix\nfamily: sums\n")]),
    Case("no family", [("family: sums\n", "")],
         [mix("doc", "family changed sums -> none", "op: @mix")],
         "compatible", old=[("op: mix\n", "op: mix\nfamily: sums\n")]),
    Case("an interface raised excuses the rest",
         [("op: mix", "op: mix\ninterface: 2"), (N, "")],
         [mix("ok", "interface raised 1 -> 2", "interface: @2"),
          mix("ok", "parameter `n` removed", "@params:")], "minor"),
    Case("an interface lowered", [("interface: 2\n", "")],
         [mix("abi", "interface lowered 2 -> 1", "op: @mix")], "major",
         old=[("op: mix\n", "op: mix\ninterface: 2\n")]),
    Case("another since", [("op: mix", "op: mix\nsince: 2")],
         [mix("doc", "since of the operator changed 1 -> 2", "since: @2"),
          *[mix("doc", f"since of parameter `{p}` changed 1 -> 2",
                f"{{@name: {p}") for p in "mode a n k must".split()],
          *[mix("doc", f"since of input `{p}` changed 1 -> 2",
                f"{{@name: {p},") for p in "x y w".split()],
          mix("doc", "since of output `out` changed 1 -> 2", "{@name: out"),
          mix("doc", "since of state `mean` changed 1 -> 2", "{@name: mean")],
         "compatible"),
    Case("deprecated",
         [("op: mix", "op: mix\ndeprecated: {since: 2, use: lab.first}")],
         [mix("ok", "the operator deprecated since 2; use lab.first",
              "op: @mix")], "minor"),
    Case("no longer deprecated", [("deprecated: {since: 1, use: z}\n", "")],
         [mix("doc", "the operator no longer deprecated", "op: @mix")],
         "compatible",
         old=[("op: mix\n", "op: mix\ndeprecated: {since: 1, use: z}\n")]),
    Case("a deprecation reworded", [("use: z", "use: y")],
         [mix("doc", "deprecation of the operator reworded", "op: @mix")],
         "compatible",
         old=[("op: mix\n", "op: mix\ndeprecated: {since: 1, use: z}\n")]),
    Case("another replaced operator",
         [("op: mix", "op: mix\nreplaces: nn.mix")],
         [mix("model", "replaces changed none -> nn.mix",
              "replaces: @nn.mix")], "major"),
    Case("hidden from users", [("op: mix", "op: mix\nbackward_only: true")],
         [mix("source", "hidden from users now", "backward_only: @true")],
         "major"),
    Case("shown to users", [("backward_only: true\n", "")],
         [mix("ok", "shown to users now", "op: @mix")], "minor",
         old=[("op: mix\n", "op: mix\nbackward_only: true\n")]),

    # Parameters.
    Case("a parameter removed", [(N, "")],
         [mix("source", "parameter `n` removed", "@params:")], "major"),
    Case("a parameter moved", [(A, ""), (K, K + A)],
         [mix("abi", "params[1] `a` moved to 3", "name: @a,")], "major"),
    Case("a parameter added last",
         [(MUST, MUST + "  - {name: z, type: int, default: 7, since: 2}\n")],
         [mix("ok", "parameter `z` added last, default 7, since 2",
              "{@name: z")], "minor"),
    Case("a parameter added last that says it was there",
         [(MUST, MUST + "  - {name: z, type: int, default: 7}\n")],
         [mix("note", "parameter `z` is new, but since 1 says that release 1 "
              "had it", "{@name: z")], "minor"),
    Case("a parameter added last without a default",
         [(MUST, MUST + "  - {name: z, type: string, since: 2}\n")],
         [mix("source", "parameter `z` added without a default", "{@name: z")],
         "major"),
    Case("a parameter added before others",
         [(A, "  - {name: z, type: string, default: s}\n" + A)],
         [mix("abi", "parameter `z` added before others", "{@name: z")],
         "major"),
    Case("a parameter renamed with an alias",
         [("name: n, type: int", "name: count, type: int, alias: n")],
         [mix("ok", "parameter `n` renamed to `count`, the old name an alias",
              "name: @count")], "minor"),
    Case("a parameter renamed without an alias",
         [("name: n, type", "name: count, type")],
         [mix("source", "parameter `n` renamed to `count` without an alias",
              "name: @count")], "major"),
    Case("a parameter renamed with an alias, in formulas", [*N_TO, *N_GRAPH],
         [mix("ok", "parameter `n` renamed to `count`, the old name an alias",
              "name: @count")], "minor", old=[(OP, RULES)]),
    Case("a parameter renamed with an alias, in a derived gradient", N_TO,
         [mix("ok", "parameter `n` renamed to `count`, the old name an alias",
              "name: @count")], "minor", old=[(OP, RULES), AUTO]),
    Case("an input renamed, in formulas and shapes", [*Y_TO, *Y_GRAPH],
         [mix("source", "input `y` renamed to `z`", "name: @z,")], "major",
         old=[(OP, RULES)]),
    Case("an input renamed, in a derived gradient", Y_TO,
         [mix("source", "input `y` renamed to `z`", "name: @z,")], "major",
         old=[(OP, RULES), AUTO]),
    Case("an output renamed, in a graph", OUT_GRAPH,
         [mix("source", "output `out` renamed to `res`", "name: @res,")],
         "major", old=[(OP, RULES)]),
    Case("a graph that calls something else with a renamed parameter",
         [*N_TO, *N_GRAPH, ("el.n(", "el.count(")],
         [mix("ok", "parameter `n` renamed to `count`, the old name an alias",
              "name: @count"),
          mix("model", "gradient of `x` changed el.n(grad.out, y, n=n, "
              "text=\"n y\", k=1) -> el.count(grad.out, y, n=count, "
              "text=\"n y\", k=1)", "x: @el.count")], "major",
         old=[(OP, RULES)]),
    Case("an alias added", [("default: 3}", "default: 3, alias: m}")],
         [mix("ok", "alias `m` of `n` added", "alias: @m")], "minor"),
    Case("an alias removed", [(", alias: m", "")],
         [mix("source", "alias `m` of `n` removed", "{@name: n")], "major",
         old=[("default: 3}", "default: 3, alias: m}")]),
    Case("a parameter of another type",
         [("type: int, default: 3", "type: float, default: 3")],
         [mix("abi", "type of `n` changed int -> float",
              "type: @float, default: 3")], "major"),
    Case("another default", [("default: 3", "default: 4")],
         [mix("model", "default of `n` changed 3 -> 4", "default: @4")],
         "major"),
    Case("the same default written otherwise",
         [("default: 0.5", "default: 0.50")], [], "no change"),
    Case("a default added", [("type: bool}", "type: bool, default: true}")],
         [mix("ok", "parameter `must` has a default now: true",
              "default: @true")], "minor"),
    Case("a default removed", [(", default: 3", "")],
         [mix("source", "parameter `n` has no default any more",
              "{@name: n")], "major"),
    Case("a range narrowed", [("max: 1", "max: 0.6")],
         [mix("model", "max of `a` narrowed 1 -> 0.6", "max: @0.6")],
         "major"),
    Case("a bound that is excluded", [("min: 0, ", "above: 0, ")],
         [mix("model", "min of `a` narrowed 0 -> 0 excluded", "{@name: a")],
         "major"),
    Case("a bound that is not excluded any more",
         [("above: 0, ", "min: 0, ")],
         [mix("ok", "min of `a` widened 0 excluded -> 0", "min: @0")], "minor",
         old=[("min: 0, ", "above: 0, ")]),
    Case("a parameter that may not be 0",
         [("default: 3}", "default: 3, nonzero: true}")],
         [mix("model", "`n` may no longer be 0", "nonzero: @true")], "major"),
    Case("a parameter that may be 0", [(", nonzero: true", "")],
         [mix("ok", "`n` may be 0", "{@name: n")], "minor",
         old=[("default: 3}", "default: 3, nonzero: true}")]),
    Case("a range widened", [("min: 0, ", "")],
         [mix("ok", "min of `a` widened 0 -> none", "{@name: a")], "minor"),
    Case("a bound added", [("default: 3", "default: 3, min: 1")],
         [mix("model", "min of `n` narrowed none -> 1", "min: @1")], "major"),
    Case("a rank narrowed", [("rank: 1..3", "rank: 1..2")],
         [mix("model", "rank of `k` narrowed", "rank: @1..2")], "major"),
    Case("a rank that follows another parameter",
         [("type: ints, default: [1]", "type: ints, rank: k, default: [1]")],
         [mix("model", "rank of `l` follows another parameter now",
              "rank: @k")], "major", old=[(MUST, MUST + LIST)]),
    Case("a rank that no longer follows another parameter",
         [("rank: k, ", "")],
         [mix("ok", "rank of `l` no longer follows another parameter",
              "{@name: l")], "minor",
         old=[(MUST, MUST + LIST.replace("ints,", "ints, rank: k,"))]),
    Case("None allowed", [("default: 3", "optional: true, default: 3")],
         [mix("abi", "parameter `n` may be None now: the struct has a new "
              "member", "optional: @true")], "major"),
    Case("None refused", [("optional: true, ", "")],
         [mix("abi", "parameter `n` may not be None any more", "{@name: n")],
         "major", old=[("default: 3", "optional: true, default: 3")]),
    Case("dynamic", [("default: 3", "default: 3, dynamic: true")],
         [mix("ok", "parameter `n` may change between calls now",
              "dynamic: @true")], "minor"),
    Case("no longer dynamic", [(", dynamic: true", "")],
         [mix("source", "parameter `n` may not change between calls any more",
              "{@name: n")], "major",
         old=[("default: 3", "default: 3, dynamic: true")]),
    Case("an enum value added last", [("two, three]", "two, three, four]")],
         [mix("ok", "value `four` of `mode` added last", "@four]")], "minor"),
    Case("an enum value added before others", [("[one, two", "[one, half, two")],
         [mix("abi", "value `half` of `mode` added before others, which "
              "changes their numbers", "@half,")], "major"),
    Case("an enum value removed", [("two, three]", "two]")],
         [mix("source", "value `three` of `mode` removed", "values: @[")],
         "major"),
    Case("an enum value moved", [("one, two, three]", "two, three, one]")],
         [mix("abi", "value `one` of `mode` moved to 2", "@one]")], "major"),
    Case("types that a dtype parameter takes",
         [("values: [f32, i4]", "values: [i4, u4]")],
         [mix("model", "types of `d` without f32", "values: @[i4"),
          mix("ok", "types of `d` with u4", "values: @[i4")], "major",
         old=[(MUST, MUST + DTYPE)]),
    Case("storage types that a dtype parameter takes, too",
         [("type: dtype, values: [f32, i4], default: i4", "type: dtype, default: f32")],
         [mix("model", "types of `d` without i4", "{@name: d"),
          mix("ok", "types of `d` with f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 "
              "u64 bool", "{@name: d"),
          mix("model", "default of `d` changed i4 -> f32", "default: @f32")],
         "major",
         old=[(MUST, MUST + DTYPE)]),
    Case("the words of a parameter", [("doc: Share", "doc: Portion")],
         [mix("doc", "doc of `a` changed", "doc: @Portion")], "compatible"),
    Case("a deprecated parameter",
         [("doc: Share", "doc: Share, deprecated: {since: 2, use: n}")],
         [mix("ok", "parameter `a` deprecated since 2; use n", "{@name: a")],
         "minor"),

    # Types.
    Case("a type added", [("[f32, f64]", "[f32, f64, f16]")],
         [mix("ok", "types of `T` with f16", "T: @[")], "minor"),
    Case("a type removed", [("[f32, f64]", "[f32]")],
         [mix("model", "types of `T` without f64", "T: @[")], "major"),
    Case("a type variable moved", [("{T: [f32], U: [i32]}",
                                    "{U: [i32], T: [f32]}")],
         [mix("abi", "type variable `U` moved to 0", "U: @["),
          mix("abi", "type variable `T` moved to 1", "T: @[")], "major",
         old=[("{T: [f32, f64]}", "{T: [f32], U: [i32]}"),
              ("name: mean, dtype: T", "name: mean, dtype: U"),
              ("    dtypes: [f32]\n", "")]),
    Case("an operand of another type",
         [("name: mean, dtype: T", "name: mean, dtype: f32")],
         [mix("model", "type of `mean` changed T -> f32", "dtype: @f32")],
         "major"),

    # Inputs.
    Case("an input added last, optional, since",
         [(W, W + "  - {name: m, dtype: T, shape: [C], optional: true, "
           "since: 2}\n"),
          (NEEDS, NEEDS + "    m: [grad.out]\n")],
         [mix("ok", "input `m` added last, optional, since 2", "{@name: m,")],
         "minor"),
    Case("an input added last that says it was there",
         [(W, W + "  - {name: m, dtype: T, shape: [C], optional: true}\n"),
          (NEEDS, NEEDS + "    m: [grad.out]\n")],
         [mix("note", "input `m` is new, but since 1 says that release 1 had "
              "it", "{@name: m,")], "minor"),
    Case("an input added that is not optional",
         [(Y, Y + "  - {name: m, dtype: T, shape: [C], since: 2}\n"),
          ("    y: [grad.out]\n", "    y: [grad.out]\n    m: [grad.out]\n")],
         [mix("source", "input `m` added, not optional", "{@name: m,")],
         "major", old=[(W, ""), (NEEDS, "")]),
    Case("an input added before others",
         [(X, "  - {name: m, dtype: T, independent: true, since: 1}\n" + X),
          (NEEDS, NEEDS + "    m: [grad.out]\n")],
         [mix("abi", "input `m` added before others", "{@name: m,")],
         "major"),
    Case("an input removed", [(W, ""), (NEEDS, "")],
         [mix("source", "input `w` removed", "@inputs:")], "major"),
    Case("inputs moved", [(X + Y, Y + X)],
         [mix("abi", "inputs[1] `y` moved to 0", "name: @y,")], "major"),
    Case("an input renamed", [("name: w,", "name: v,"),
                              (NEEDS, NEEDS.replace("w", "v"))],
         [mix("source", "input `w` renamed to `v`", "name: @v,")], "major"),
    Case("an input that must be given", [(", optional: true", "")],
         [mix("source", "input `w` may not be absent any more", "{@name: w,")],
         "major"),
    Case("an input that may be absent",
         [("role: weight}", "role: weight, optional: true}")],
         [mix("ok", "input `w` may be absent now", "optional: @true")],
         "minor", old=[(", optional: true", "")]),
    Case("any number of inputs", [("optional: true", "variadic: true")],
         [mix("source", "input `w` may not be absent any more", "{@name: w,"),
          mix("abi", "input `w` is any number now", "variadic: @true")],
         "major"),
    Case("exactly one input", [(", variadic: true", "")],
         [mix("abi", "input `w` is exactly one now", "{@name: w,")], "major",
         old=[("optional: true", "variadic: true")]),
    Case("another role", [("role: weight, ", "")],
         [mix("model", "role of `w` changed weight -> data", "{@name: w,")],
         "major"),
    Case("strides that kernels did not expect", [(", layout: contiguous", "")],
         [mix("abi", "input `y` may have any strides now", "{@name: y,")],
         "major"),
    Case("dense where it was not",
         [("shape: [N, C]}\n  - {name: y",
           "shape: [N, C], layout: contiguous}\n  - {name: y")],
         [mix("ok", "input `x` is handed over dense now",
              "layout: @contiguous}\n  - {name: y")], "minor"),
    Case("another shape of an input", [("shape: [C], role", "shape: [N], role")],
         [mix("model", "shape of `w` changed [C] -> [N]",
              "shape: @[N], role")], "major"),
    Case("the words of an input",
         [("optional: true}", "optional: true, doc: Weights}")],
         [mix("doc", "doc of `w` changed", "doc: @Weights")], "compatible"),

    # Outputs and states.
    Case("an output added",
         [(OUT, OUT + "  - {name: more, dtype: T, shape: [C]}\n")],
         [mix("abi", "output `more` added", "{@name: more")], "major"),
    Case("an output removed",
         [("  - {name: more, dtype: T, shape: [C]}\n", "")],
         [mix("source", "output `more` removed", "@outputs:")], "major",
         old=[(OUT, OUT + "  - {name: more, dtype: T, shape: [C]}\n")]),
    Case("an output hidden",
         [("shape: [C]}\naux", "shape: [C], hidden: true}\naux")],
         [mix("source", "output `more` is hidden now", "hidden: @true")],
         "major", old=[(OUT, OUT
                        + "  - {name: more, dtype: T, shape: [C]}\n")]),
    Case("an output shown", [(", hidden: true", "")],
         [mix("source", "output `more` is visible now", "{@name: more")],
         "major", old=[(OUT, OUT + "  - {name: more, dtype: T, shape: [C], "
                        "hidden: true}\n")]),
    Case("another shape of an output",
         [("shape: [N, C], inplace: x", "shape: [N, C + 1]")],
         [mix("model", "shape of `out` changed [N, C] -> [N, C + 1]",
              "shape: @[N, C + 1]"),
          mix("ok", "output `out` does not take the memory of `x` any more",
              "{@name: out")], "major"),
    Case("the same shape written otherwise",
         [("shape: [N, C], inplace", "shape: [N, (C)], inplace")], [],
         "no change"),
    Case("memory shared", [("shape: [N, C]}\naux",
                            "shape: [N, C], inplace: x}\naux")],
         [mix("ok", "output `out` may take the memory of `x` now",
              "inplace: @x")], "minor", old=[(", inplace: x", "")]),
    Case("memory of another input", [("inplace: x", "inplace: y")],
         [mix("abi", "inplace of `out` changed x -> y", "inplace: @y")],
         "major"),
    Case("a view", [("inplace: x", "view: x")],
         [mix("ok", "output `out` is a view of its input now", "view: @x")],
         "minor"),
    Case("a view no more", [("view: x", "inplace: x")],
         [mix("ok", "output `out` is computed now", "{@name: out")],
         "minor", old=[("inplace: x", "view: x")]),
    Case("another beginning", [("inplace: x", "inplace: x, init: x")],
         [mix("model", "init of `out` changed none -> x", "init: @x")],
         "major"),
    Case("another count",
         [("count: n", "count: n + 1")],
         [mix("model", "count of `part` changed", "count: @n + 1")], "major",
         old=[(OUT, "  - {name: part, dtype: T, shape: [N, C], count: n}\n"),
              ("x: [grad.out, x]", "x: [grad.part, x]"),
              ("y: [grad.out]", "y: [grad.part]"),
              ("w: [grad.out]", "w: [grad.part]")]),
    Case("another formula", [("a*x + n*y", "a*x - n*y")],
         [mix("model", "formula of `out` changed a*x + n*y + w -> "
              "a*x - n*y + w", "out: @a*x")], "major", old=FORMULA),
    Case("formulas that compute in a wider type",
         [("{T: [f32, f64]}", "{T: [f32, f64], compute: {T: f64}}")],
         [mix("model", "formulas of `T` compute in its types -> f64",
              "T: @f64")], "major", old=FORMULA),
    Case("formulas that compute in no wider type",
         [("{T: [f32, f64], compute: {T: f64}}", "{T: [f32, f64]}")],
         [mix("model", "formulas of `T` compute in f64 -> its types",
              "dtypes: {@T")], "major",
         old=FORMULA + [("{T: [f32, f64]}",
                         "{T: [f32, f64], compute: {T: f64}}")]),
    Case("blanks in a formula", [("a*x + n*y", "a * x+n*y")], [], "no change",
         old=FORMULA),
    Case("a formula beside the kernels",
         [("require:\n", "forward: {out: x + y}\nrequire:\n")],
         [mix("ok", "output `out` has a formula now", "out: @x + y"),
          mix("ok", "kernel lab.mix.cpu.generated added", "@kernels:")],
         "minor", old=PLAIN),
    Case("no formula beside the kernels any more",
         [("forward: {out: x + y}\n", "")],
         [mix("ok", "output `out` has no formula any more", "op: @mix"),
          mix("source", "kernel lab.mix.cpu.generated removed", "@kernels:")],
         "major", old=[*PLAIN, ("require:\n",
                                "forward: {out: x + y}\nrequire:\n")]),
    Case("a state added",
         [("init: 0}\n", "init: 0}\n  - {name: var, dtype: T, shape: [C]}\n")],
         [mix("model", "state `var` added", "{@name: var")], "major"),
    Case("another initial value", [("init: 0", "init: 1")],
         [mix("model", "initial value of `mean` changed 0 -> 1", "init: @1")],
         "major"),
    Case("a state that only training changes",
         [("init: 0}", "init: 0, changes: training}")],
         [mix("model", "state `mean` changes in training only now",
              "changes: @training")], "major"),
    Case("a state that every call changes", [(", changes: training", "")],
         [mix("model", "state `mean` changes in every call now",
              "{@name: mean")], "major",
         old=[("init: 0}", "init: 0, changes: training}")]),
    Case("a requirement added",
         [("require:\n", "require:\n  - {that: N > 0, say: not empty}\n")],
         [mix("model", "requirement N > 0 added", "{@that: N")], "major"),
    Case("a requirement dropped",
         [("require:\n  - {that: C > 0, say: there must be a channel}\n", "")],
         [mix("ok", "requirement C > 0 dropped", "op: @mix")], "minor"),
    Case("the words of a requirement", [("must be a", "has to be a")],
         [mix("doc", "words of the requirement C > 0 changed",
              "say: @there has")], "compatible"),

    # Gradients and kernels.
    Case("the gradient gone",
         [(GRADIENT, "gradient: {none: true, why: no}\n"),
          ("    backward: lab_mix_backward\n", "")],
         [mix("source", "gradient changed kernel -> none",
              "gradient: {@none"),
          mix("source", "backward kernel lab.mix.cpu removed",
              "@kernels:")], "major"),
    Case("a gradient where there was none",
         [("gradient: {none: true, why: no}\n", GRADIENT),
          ("forward: lab_mix\n",
           "forward: lab_mix\n    backward: lab_mix_backward\n")],
         [mix("ok", "gradient changed none -> kernel", "  @kernel: backward"),
          mix("ok", "backward kernel lab.mix.cpu added", "@kernels:")],
         "minor", old=[(GRADIENT, "gradient: {none: true, why: no}\n"),
                       ("    backward: lab_mix_backward\n", "")]),
    Case("another reason for none", [("why: no}", "why: it jumps}")],
         [mix("doc", "reason for no gradient changed", "gradient: {@none")],
         "compatible", old=[(GRADIENT, "gradient: {none: true, why: no}\n"),
                            ("    backward: lab_mix_backward\n", "")]),
    Case("a gradient stopped",
         [(NEEDS, ""), ("  kernel: backward",
                        "  stop: [w]\n  kernel: backward")],
         [mix("model", "`w` has no gradient any more", "stop: [@w]")],
         "major"),
    Case("a gradient that is not stopped any more",
         [("  stop: [w]\n", ""), ("    y: [grad.out]\n",
                                  "    y: [grad.out]\n" + NEEDS)],
         [mix("ok", "`w` has a gradient now", "  @kernel: backward")],
         "minor", old=[(NEEDS, ""), ("  kernel: backward",
                                     "  stop: [w]\n  kernel: backward")]),
    Case("a gradient that has gradients", [LINEAR],
         [mix("ok", f"gradient of `{x}` has gradients now", "linear: @[[")
          for x in "xyw"], "minor", old=[LESS, NO_AUX]),
    Case("a gradient that has none any more", [LINEAR[::-1]],
         [mix("model", f"gradient of `{x}` has no gradients any more",
              "  @kernel: backward") for x in "xyw"],
         "major", old=[LESS, NO_AUX, LINEAR]),
    Case("a gradient keeps less", [("x: [grad.out, x]", "x: [grad.out]")],
         [mix("abi", "gradient of `x` keeps x no more", "x: @[grad.out]")],
         "major"),
    Case("a gradient keeps more", [("y: [grad.out]", "y: [grad.out, y]")],
         [mix("ok", "gradient of `y` keeps y, too", "y: @[grad.out, y]")],
         "minor"),
    Case("a gradient keeps a shape only",
         [("x: [grad.out, x]", "x: [grad.out, shape(x)]")],
         [mix("abi", "gradient of `x` keeps x no more", "x: @[grad.out, s")],
         "major"),
    Case("another formula of a gradient",
         [("x: a*grad.out", "x: 2*a*grad.out")],
         [mix("model", "gradient of `x` changed a*grad.out -> 2*a*grad.out",
              "x: @2*a")], "major", old=FORMULA),
    Case("a kernel of fewer types",
         [("    writes: [write]", "    dtypes: [f32]\n    writes: [write]")],
         [mix("source", "kernel lab.mix.cpu takes fewer types",
              "@kernels:"),
          mix("source", "backward kernel lab.mix.cpu takes fewer types",
              "@kernels:")], "major",
         old=[("    dtypes: [f32]\n", "")]),
    Case("a kernel of more types", [("    dtypes: [f32]\n", "")],
         [mix("ok", "kernel lab.mix.cpu takes more types", "@kernels:"),
          mix("ok", "backward kernel lab.mix.cpu takes more types",
              "@kernels:")], "minor"),
    Case("a kernel that writes in other ways",
         [("writes: [write]", "writes: [write, add]")],
         [mix("ok", "kernel lab.mix.cpu writes in other ways; the core lowers "
              "the rest", "@kernels:"),
          mix("ok", "backward kernel lab.mix.cpu writes in other ways; the "
              "core lowers the rest", "@kernels:")], "minor"),
    Case("a kernel that works in place in other memory",
         [("inplace: x}", "inplace: [x, y]}")],
         [mix("ok", "kernel lab.mix.cpu works in place in other memory",
              "@kernels:")], "minor",
         old=[("writes: [write]", "writes: [write, inplace]")]),
    Case("a kernel no longer deterministic", [(", deterministic", "")],
         [mix("model", "kernel lab.mix.cpu is not deterministic any more",
              "@kernels:"),
          mix("model", "backward kernel lab.mix.cpu is not deterministic any "
              "more", "@kernels:")], "major"),
    Case("a kernel removed",
         [("  - {device: cuda, forward: lab_cuda, backward: "
           "lab_cuda_backward}\n", "")],
         [mix("source", "kernel lab.mix.cuda removed", "@kernels:"),
          mix("source", "backward kernel lab.mix.cuda removed",
              "@kernels:")], "major",
         old=[(KERNELS, KERNELS + "  - {device: cuda, forward: lab_cuda, "
               "backward: lab_cuda_backward}\n")]),
]
