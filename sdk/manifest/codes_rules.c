/* SPDX-License-Identifier: Apache-2.0
 * codes_rules.c: explanations of E0051 and on: gradients, kernels and examples.
 * Text only.
 */
#include <stddef.h>

#include "codes.h"

const tnm_code tnm_codes_rules[] = {
    TNM_CODE("E0051", "an operand that does not fit here",
             "Keys of `forward` are outputs, keys of a gradient and items of "
             "`stop` are inputs, and\nan input is either differentiated or "
             "stopped.",
             "  gradient:\n    formula: {data: grad.out, label: 0}\n"
             "    stop: [label]",
             "  gradient:\n    formula: {data: grad.out}\n    stop: [label]"),
    TNM_CODE("E0052", "a differentiable input has no gradient",
             "Every input of a floating type is either given a gradient or "
             "listed in `stop`. An\ninput that is forgotten would train as if "
             "its gradient were zero.",
             "  gradient:\n    kernel: backward\n    needs:\n"
             "      data: [grad.out, weight]",
             "  gradient:\n    kernel: backward\n    needs:\n"
             "      data: [grad.out, weight]\n"
             "      weight: [grad.out, data]"),
    TNM_CODE(
        "E0053", "a need that is nothing",
        "A gradient may need `grad.<output>`, an input or an output by its "
        "value, or only\n`shape(...)` of one. Other operands are freed before "
        "the backward call.",
        "  needs: {data: [grad, dta]}",
        "  needs: {data: [grad.out, shape(data)]}"),
    TNM_CODE("E0054", "a gradient of no kind, or of two",
             "A gradient is exactly one of `auto: true`, `formula`, `graph`, "
             "`kernel: backward` and\n`none: true`, beside `stop` and, with "
             "`none`, `why`.",
             "  gradient: {stop: [label]}",
             "  gradient: {stop: [label], formula: {data: grad.out}}"),
    TNM_CODE("E0055", "no kernel can be generated from the formula",
             "Generated kernels compute element by element, on operands of "
             "one shape, or on inputs of\nany shapes if the outputs are "
             "`broadcast`. With `axes` they compute every type but u64.\n"
             "Optional, variadic, counted and dynamic operands and auxiliary "
             "states need a kernel of\nyour own.",
             "  inputs: [{name: a, dtype: T}, {name: b, dtype: T}]\n"
             "  outputs: [{name: out, dtype: T, shape: a}]\n"
             "  forward: {out: a + b}",
             "  inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"
             "  outputs: [{name: out, dtype: T, shape: a}]\n"
             "  forward: {out: a + b}"),
    TNM_CODE("E0056", "an output has no formula",
             "`forward` gives a formula for every output, hidden ones too.",
             "  outputs: [{name: out, ...}, {name: mask, ...}]\n"
             "  forward: {out: max(data, 0)}",
             "  outputs: [{name: out, ...}, {name: mask, ...}]\n"
             "  forward: {out: max(data, 0), mask: data > 0}"),
    TNM_CODE("E0057", "`backward` and the gradient contradict each other",
             "With `gradient: {kernel: backward}`, every kernel with a "
             "`forward` has a `backward`,\nand where formulas make the "
             "forward kernel, one is listed that has it. An operator\nwithout "
             "gradient has none.",
             "  gradient: {kernel: backward, needs: {data: [grad.out]}}\n"
             "  kernels: [{device: cpu, forward: nn_pool}]",
             "  gradient: {kernel: backward, needs: {data: [grad.out]}}\n"
             "  kernels: [{device: cpu, forward: nn_pool, backward: "
             "nn_pool_backward}]"),
    TNM_CODE("E0058", "a kernel without a function",
             "A kernel has `forward`, `backward`, or both.",
             "  kernels: [{device: cpu}]",
             "  kernels: [{device: cpu, forward: nn_pool}]"),
    TNM_CODE("E0059", "a kernel that cannot write",
             "`writes` lists the requests that a kernel handles itself. "
             "`write` is always "
             "part of it: the host\nlowers `add` and `inplace` to it, not the "
             "other way round.",
             "  writes: [add]", "  writes: [write, add]"),
    TNM_CODE("E0060", "the operator of `kernels_for` was not found",
             "Kernels for another plugin's operator are compiled against its "
             "parameters, so opgen\nneeds its manifests or its built file.",
             "  opgen check plugins/cudnn",
             "  opgen check --with plugins/nn plugins/cudnn"),
    TNM_CODE("W0061", "an argument may be too narrow",
             "The function of a binding takes an integer that is narrower than "
             "the values of the\nexpression. Nothing is cut off: such a call "
             "returns TN_OUT_OF_RANGE. A parameter's `min` and `max`\nlimit "
             "its values; sizes may be up to 2^31 - 1 without a warning.",
             "  - {c: int16, pass: size(out)}",
             "  - {c: int32, pass: size(out)}"),
    TNM_CODE("E0062", "lists that are not a tensor",
             "Data of examples are nested lists of numbers; the lists of one "
             "level have equal\nlength.",
             "  data: [[1, 2], [3]]", "  data: [[1, 2], [3, 4]]"),
    TNM_CODE("E0063", "an example names something unknown",
             "Keys of an example are operands, beside `name`, `params`, `grad` "
             "and `tol`; keys of\n`params` are parameters.",
             "  - {name: one, data: [1], output: [1]}",
             "  - {name: one, data: [1], out: [1]}"),
    TNM_CODE("E0064", "an example lacks an input",
             "Examples are run, so they give every input that is not optional.",
             "  - {name: one, out: [1]}",
             "  - {name: one, data: [1], out: [1]}"),
    TNM_CODE(
        "E0065", "a function without a derivative",
        "`gradient: auto` differentiates the formulas of `forward`. The "
        "derivative of trigamma is\nnot a function of the language: so far the "
        "slopes of lgamma and gamma go.",
        "  forward: {out: trigamma(data)}\n  gradient: auto",
        "  forward: {out: trigamma(data)}\n  gradient: none"),
    TNM_CODE("W0066", "a derivative that is 0 between jumps",
             "`floor`, `ceil`, `round`, `rint`, `trunc`, `sign` and "
             "comparisons are constant between\ntheir jumps: nothing is "
             "learned through them. The condition of `select` is not meant\n"
             "to be differentiated and gives no warning.",
             "  forward: {out: floor(data)}\n  gradient: auto",
             "  forward: {out: floor(data)}\n"
             "  gradient: {formula: {data: 0}}"),
    TNM_CODE("E0067", "nothing to differentiate",
             "`gradient: auto` needs the formulas of `forward`; opgen does not "
             "know\nthe function of a hand-written kernel.",
             "  kernels: [{device: cpu, forward: acme_cube_cpu}]\n"
             "  gradient: auto",
             "  forward: {out: data^3}\n  gradient: auto"),
    TNM_CODE("E0068", "a formula that has no meaning for integers",
             "A formula is defined for every type that the operator allows. "
             "Among whole numbers there\nare `+ - * / %`, comparisons, `abs "
             "sign min max mod clip select`, and `^` with a whole\nexponent "
             "that is not negative. Numbers are whole and have 32 bits, or 64 "
             "where u32,\ni64 and u64 are computed; those in u64 are not "
             "negative.",
             "  dtypes: {T: [f32, i32]}\n  forward: {out: exp(data)}",
             "  dtypes: {T: [f32, f64]}\n  forward: {out: exp(data)}"),
    TNM_CODE("E0069", "a graph that is none",
             "`gradient: {graph: ...}` contains calls of operators, "
             "`plugin.operator(tensors,\nparameter=value)`, and tensors: "
             "`grad.<output>`, inputs and outputs. Text is in\ndouble quotes. "
             "Arithmetic is written as calls, or as a `formula`.",
             "  graph: {x: 2*grad.out}",
             "  graph: {x: 'elemwise.mul_scalar(grad.out, scalar=2)'}"),
    TNM_CODE("E0070", "the parameters of an example are refused",
             "The operator itself refuses the values, with the message that "
             "follows: one that is\nrequired may be missing.",
             "  params: [{name: k, type: int}]\n"
             "  examples: [{name: one, data: [1], out: [1]}]",
             "  params: [{name: k, type: int}]\n"
             "  examples: [{name: one, params: {k: 1}, data: [1], out: [1]}]"),
    TNM_CODE("E0071", "an example's shape is not the inferred one",
             "`check` infers the shapes of outputs from the inputs of an "
             "example. Either the rule\nor the example is wrong; gradients "
             "have the shape of their operands.",
             "  shape: [N]\n  examples: [{name: two, data: [1, 2], out: [1]}]",
             "  shape: [N]\n  examples: [{name: two, data: [1, 2], out: [1, "
             "2]}]"),
    TNM_CODE(
        "E0072", "the inputs of an example do not fit the operator",
        "Their shapes or types contradict the rules of the operator or its "
        "`require`.",
        "  inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"
        "  examples: [{name: two, a: [1, 2], b: [1], out: [2, 3]}]",
        "  inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"
        "  examples: [{name: two, a: [1, 2], b: [1, 1], out: [2, 3]}]"),
    TNM_CODE("E0073", "the host refuses the operator",
             "`check` registers every operator as a host does. Mistakes that "
             "only the host finds, such\nas defaults with contradictory "
             "lengths, are reported with the host's words.",
             "  - {name: kernel, type: ints, rank: 2, default: [3, 3]}\n"
             "  - {name: stride, type: ints, rank: kernel, default: 1}\n"
             "  - {name: pad, type: ints, rank: stride, default: [0, 0, 0]}",
             "  - {name: kernel, type: ints, rank: 2, default: [3, 3]}\n"
             "  - {name: stride, type: ints, rank: kernel, default: 1}\n"
             "  - {name: pad, type: ints, rank: stride, default: 0}"),
    TNM_CODE("E0074", "two things that would have one name in C",
             "opgen makes names of C from those of a manifest: `has_a` beside "
             "a parameter `a` that\nmay be None, `FOO_IN_X` for an input "
             "`x` of `foo`. Files are named after manifests,\nbeside "
             "plugin.gen.c, cuda.gen.c and PLUGIN_test.gen.c.",
             "  - {name: a, type: int, optional: true, default: None}\n"
             "  - {name: has_a, type: bool, default: false}",
             "  - {name: a, type: int, optional: true, default: None}\n"
             "  - {name: use_a, type: bool, default: false}"),
    TNM_CODE("E0075", "a call that the operator does not take",
             "The graph of a gradient calls an operator of the same plugin, or "
             "of one after\n`--with`, which does not exist, has another "
             "interface, other inputs, other parameters or\nother shapes; or "
             "the result has another shape than the input. Operators of\n"
             "plugins that are not given are looked at when the gradient is "
             "computed.",
             "  graph: {x: acme.scale(grad.out, factor=2)}  # it has `by`",
             "  graph: {x: 'acme.scale(grad.out, by=2)'}"),
    {NULL, NULL}};
