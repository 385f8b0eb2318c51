/* SPDX-License-Identifier: Apache-2.0
 * codes_lints.c: explanations of E0080 and on, about built plugins and
 * bindings, and of W0101 and on, about manifests that are valid but could be
 * better. Text only.
 */
#include <stddef.h>

#include "codes.h"

const tnm_code tnm_codes_lints[] = {
    TNM_CODE("E0080", "a built plugin that this host does not load",
             "`check` loads it as a host does, in a process of its own, and "
             "repeats the reason.",
             "  opgen check acme.so       # linked without plugin.gen.c",
             "  opgen check acme.so       # linked with all that opgen wrote"),
    TNM_CODE("E0081", "a symbol that a plugin exports besides its entry",
             "Two plugins that export the same name would take each other's "
             "function. A plugin\nexports `tn_plugin_entry` alone.",
             "  float helper(float x) { return x; }",
             "  static float helper(float x) { return x; }"),
    TNM_CODE("E0082", "an example that cannot be computed",
             "The plugin was given the inputs of the example and refused "
             "them, crashed, or did not\nend.",
             "  if (n == 0) abort();", "  if (n == 0) return TN_OK;"),
    TNM_CODE("E0083", "an example that comes out otherwise",
             "The plugin computes something else than the manifest states. "
             "`tol` of the example is\nthe tolerance; without it, 1e-9 in "
             "f64, 1e-5 in f32, 1e-2 in f16 and bf16. So a stated\nvalue of "
             "an operator in f64 needs at least ten digits.",
             "  - {name: two, data: [2], out: [3]}     # out: 2*data",
             "  - {name: two, data: [2], out: [4]}"),
    TNM_CODE("E0084", "a built plugin of other manifests",
             "Its note holds other tables than the manifests that were given "
             "with it, or is of a\nplugin that none of them describes, so that "
             "nothing of it would be compared with them.",
             "  opgen check plugins/acme old/acme.so",
             "  ninja && opgen check plugins/acme build/acme.so"),
    TNM_CODE("E0085", "code beside a binding",
             "A manifest with a `binding` is loaded as it is: nothing is "
             "compiled. So the operator has\nno `forward`, no `kernels`, no "
             "shape hook, and a gradient only as a `graph` of calls;\nand all "
             "operators of its plugin are bound.",
             "  binding: {library: libm.so.6, ...}\n"
             "  forward: {out: sin(data)}",
             "  forward: {out: sin(data)}"),
    TNM_CODE(
        "E0086", "not a type of an argument",
        "A call does not check its prototype of C, so types have a "
        "fixed width: int8 int16\nint32 int64 uint8 uint16 uint32 uint64 "
        "float double, and pointers to them; text is const\nchar*. `long` and "
        "`size_t` differ between machines; write the fixed type.",
        "  - {c: int, pass: size(out)}", "  - {c: int32, pass: size(out)}"),
    TNM_CODE("E0087", "an argument that its type does not hold",
             "A tensor goes into a pointer to its element type, to `const` if "
             "it is an input. A float\nparameter goes into float or double, "
             "text into const char*, lists of integers into\npointers to const "
             "integers, everything else into integers. There is no conversion\n"
             "that a reader would not see.",
             "  inputs: [{name: x, dtype: f32}]\n"
             "  args: [{c: const double*, pass: x}]",
             "  inputs: [{name: x, dtype: f32}]\n"
             "  args: [{c: const float*, pass: x}]"),
    TNM_CODE("E0088", "an operand that a binding cannot have",
             "Each argument is one tensor of a shape that is known before the "
             "call, and every output\nis passed or returned by the function.",
             "  outputs: [{name: out, ...}]\n"
             "  args: [{c: const float*, pass: x}]",
             "  outputs: [{name: out, ...}]\n"
             "  args: [{c: const float*, pass: x}, {c: float*, pass: out}]"),
    TNM_CODE("E0089", "a binding without an example",
             "The examples of a bound operator are run in a process of their "
             "own before it is enabled:\na wrong prototype then ends that "
             "process and not the host. So there must be one, with an\noutput.",
             "  binding: {library: libblas.so.3, symbol: cblas_saxpy, ...}",
             "  binding: {library: libblas.so.3, symbol: cblas_saxpy, ...}\n"
             "  examples: [{name: doc, x: [1, 2], y: [1, 1], out: [2, 3]}]"),
    TNM_CODE(
        "E0090", "groups that say nothing of gradients of gradients",
        "`linear` lists groups of inputs: if all of a group are multiplied by "
        "a "
        "number, and the\nothers stay, so is every output. Tenon derives "
        "gradients of gradients from it, of any\norder. Every input that is "
        "differentiated is in one or more, and its gradient then\nreads "
        "neither an output nor the value of another of its group. It goes "
        "with\n`kernel: backward`, and the operator has no `aux`.",
        "  gradient:\n    kernel: backward\n    needs:\n"
        "      data: [grad.out, weight]\n      weight: [grad.out, data]\n"
        "    linear: [data, weight]",
        "  gradient:\n    kernel: backward\n    needs:\n"
        "      data: [grad.out, weight]\n      weight: [grad.out, data]\n"
        "    linear: [[data], [weight]]"),
    TNM_CODE("E0091", "register kernels of a kernel that is not elementwise",
             "`registers` names a function that offers register kernels "
             "(tenon/draft/registers.h): functions\nthat pass the results of "
             "one block on "
             "in registers. An elementwise kernel of\nthe CPU can have them.",
             "  kernels: [{device: cpu, forward: nn_gate, "
             "registers: nn_gate_registers}]",
             "  kernels: [{device: cpu, forward: nn_gate, "
             "registers: nn_gate_registers, flags: [elementwise]}]"),
    TNM_CODE(
        "E0092", "a kernel for the cpu that is `async`",
        "A kernel that is `async` returns when its work is in the queue of its "
        "device, and\nreaders of its results follow in that queue. The cpu has "
        "none: a call is\nover when its function "
        "returns, and readers of its outputs run then. Work is shared out\n"
        "with `parallel_for`, which returns when all of it is done. A kernel "
        "that waits for a\nnetwork or another process has the flag `later`.",
        "  kernels: [{device: cpu, forward: nn_gate, flags: [async]}]",
        "  kernels: [{device: cpu, forward: nn_gate, flags: [reentrant]}]"),
    TNM_CODE(
        "E0093", "an example of a view that is none",
        "`view: data` says of an output that its elements are those of `data`, "
        "in their order:\na program then computes nothing, nor the gradient "
        "that a kernel would make, which is\nthat of the output. An operator "
        "that moves or changes elements, or whose gradient is\nanother, and "
        "can work in the memory of an input, says `inplace: data`.",
        "  outputs: [{name: out, dtype: T, shape: {c: turned}, view: data}]\n"
        "  examples: [{name: two, data: [[1, 2], [3, 4]], out: [[1, 3], [2, "
        "4]]}]",
        "  outputs: [{name: out, dtype: T, shape: {c: turned}, inplace: "
        "data}]\n"
        "  examples: [{name: two, data: [[1, 2], [3, 4]], out: [[1, 3], [2, "
        "4]]}]"),
    TNM_CODE("E0094", "a type to compute in that is too narrow",
             "`compute` under `dtypes` names the type that formulas compute in "
             "at least: f32, f64,\ni32, i64 or u64. Every type that the "
             "variable may be must fit: f16 and bf16 compute in\nf32 by "
             "themselves, u32 in i64, and floats beside i64 or u64 in f64.",
             "  dtypes: {T: [f32, f64], compute: {T: f32}}",
             "  dtypes: {T: [f32, f64], compute: {T: f64}}"),
    TNM_CODE("E0095", "memory that cannot be shared",
             "`inplace` of a gradient lists operands of the backward call that "
             "may give it their\nmemory: `grad.<output>`, inputs and outputs. "
             "A gradient must read the elements of each, or\nthe call does "
             "not have them, and the types are the same. `inplace` of a kernel "
             "lists\nthe pairs that it supports, if it does not support all of "
             "the operator's.",
             "  gradient: {kernel: backward, needs: {data: [grad.out]},\n"
             "             inplace: {data: data}}",
             "  gradient: {kernel: backward, needs: {data: [grad.out]},\n"
             "             inplace: {data: grad.out}}"),
    TNM_CODE("E0096", "packed elements with any strides",
             "Elements of f4e2m1, i4, u4, i2 and u2 share bytes: the first one "
             "is in the lowest bits\nof a byte. Arrays of them are always "
             "dense, and an operand that may be one says so.",
             "  inputs: [{name: data, dtype: i4}]",
             "  inputs: [{name: data, dtype: i4, layout: contiguous}]"),
    TNM_CODE("E0097", "inputs that no rule relates",
             "Every call may give an operator tensors of any shapes that its "
             "rules allow. If no rule\nnames two inputs, or an input and a "
             "state, the kernel gets them in shapes that do not\nfit, and "
             "may read and write outside of their memory. Shapes are related "
             "by a dimension of\none name, by `shape` that names an operand, "
             "by a condition in `require`, by a function,\nand by "
             "broadcasting. An input of any shape beside any other says "
             "`independent: true`:\nthe kernel itself compares all that it "
             "relies on.",
             "  inputs: [{name: data, dtype: T}, {name: of, dtype: T}]\n"
             "  outputs: [{name: out, dtype: T, shape: data}]",
             "  inputs: [{name: data, dtype: T}, {name: of, dtype: T, shape: "
             "data}]\n"
             "  outputs: [{name: out, dtype: T, shape: data}]"),
    TNM_CODE("E0098", "a formula over a storage type",
             "Types such as f8e4m3fn and i4 store numbers, and nothing is "
             "computed in them. A formula\nneither reads nor writes an operand "
             "that may have one. A kernel that is written by hand\nconverts "
             "the elements (tenon/kernel/storage.h); `elemwise.cast` converts "
             "whole arrays.",
             "  dtypes: {T: [f32, f8e4m3fn]}\n"
             "  forward: {out: 2*data}",
             "  dtypes: {T: [f32, f64]}\n"
             "  forward: {out: 2*data}"),
    TNM_CODE(
        "E0099", "a kernel that cannot complete `later`",
        "A kernel with the flag `later` may return before its call is "
        "complete, and reports the\ncompletion with host->complete "
        "(tenon/plugin/call.h). Programs call elementwise kernels\nand "
        "reductions part by part, so each part is complete when its "
        "function returns. A\ncall that is `async` or `capturable` is complete "
        "when its queue has executed it.",
        "  kernels: [{device: cpu, forward: acme_receive, "
        "flags: [later, elementwise]}]",
        "  kernels: [{device: cpu, forward: acme_receive, "
        "flags: [later, reentrant]}]"),
    TNM_CODE("W0101", "lint `doc`: an operator without `doc`",
             "The summary describes it in a line; `doc` describes edge cases, "
             "and the reasons to\nuse it. It is the text of the manual.",
             "  summary: Rectifier",
             "  summary: Rectifier\n  doc: Is `max(data, 0)`; NaN stays NaN."),
    TNM_CODE("W0102", "lint `param-doc`: a parameter without `doc`",
             "Its name says too little to readers of the manual.",
             "  - {name: a, type: float, default: 1}",
             "  - {name: a, type: float, default: 1, doc: Slope below zero}"),
    TNM_CODE("W0103", "lint `operand-doc`: an operand without `doc`",
             "Off unless asked for: for many operators a name says enough.",
             "  inputs: [{name: data, dtype: T}]",
             "  inputs: [{name: data, dtype: T, doc: Any shape}]"),
    TNM_CODE("W0104", "lint `example`: an operator without an example",
             "Examples are tests on every device and type, and are shown in "
             "the manual.",
             "  forward: {out: 2*data}",
             "  forward: {out: 2*data}\n"
             "  examples: [{name: two, data: [2], out: [4]}]"),
    TNM_CODE("W0105", "lint `example-params`: a parameter that no example sets",
             "Off unless asked for. A parameter that always has its default "
             "is not tested.",
             "  - {name: two, data: [2], out: [4]}",
             "  - {name: two, params: {a: 3}, data: [2], out: [6]}"),
    TNM_CODE("W0106", "lint `example-grad`: a gradient that no example shows",
             "Off unless asked for: gradients are checked numerically, too.",
             "  - {name: two, data: [2], out: [4]}",
             "  - {name: two, data: [2], out: [4], grad: {out: [1], data: "
             "[2]}}"),
    TNM_CODE(
        "W0107", "lint `gradient-why`: no gradient, and no reason",
        "A request for the gradient reports the reason; \"not yet\" and \"it "
        "is zero almost\neverywhere\" are different answers.",
        "  gradient: none", "  gradient: {none: true, why: it is a step}"),
    TNM_CODE("W0108", "lint `param-unused`: a parameter that nothing reads",
             "Found where every use can be seen: in operators that are "
             "generated from formulas.",
             "  params: [{name: a, type: float, default: 1, doc: Slope}]\n"
             "  forward: {out: 2*data}",
             "  params: [{name: a, type: float, default: 1, doc: Slope}]\n"
             "  forward: {out: a*data}"),
    TNM_CODE("W0109", "lint `dtype-unused`: a type variable of no operand",
             "Kernels have a set of types per variable; one that no operand "
             "has decides nothing.",
             "  dtypes: {T: [f32], U: [i32]}\n"
             "  inputs: [{name: data, dtype: T}]",
             "  dtypes: {T: [f32]}\n  inputs: [{name: data, dtype: T}]"),
    TNM_CODE("W0110", "lint `dim-unused`: a dimension that is named once",
             "Off unless asked for: a name may just say that there is a "
             "dimension.",
             "  inputs: [{name: data, dtype: T, shape: [N, C]}]\n"
             "  outputs: [{name: out, dtype: T, shape: [C]}]",
             "  inputs: [{name: data, dtype: T, shape: [N, C]}]\n"
             "  outputs: [{name: out, dtype: T, shape: [N, C]}]"),
    TNM_CODE("W0111", "lint `name-style`: an odd name",
             "`a__b` and `a_` read like names of a compiler's.",
             "  op: leaky__relu", "  op: leaky_relu"),
    TNM_CODE("W0112", "lint `deprecated-use`: nothing to use instead",
             "`use` names an operator of this plugin that does not exist.",
             "  deprecated: {since: 2, use: nn.pol}",
             "  deprecated: {since: 2, use: nn.pool}"),
    TNM_CODE("W0113", "lint `since`: an operator without `since`",
             "Off unless asked for: without it an operator counts as old as "
             "the plugin.",
             "  op: pool", "  op: pool\n  since: 2"),
    TNM_CODE("W0114", "lint `undetermined`: what nothing in a call says",
             "Shapes and types of outputs follow from those of inputs and from "
             "parameters. A\ndimension or type variable that no input has "
             "follows from nothing: a call has to be\ngiven its outputs. Nor "
             "does it follow how long two packs of one input are, `[A..., "
             "B...]`,\nunless another shape or a list of parameters tells.",
             "  inputs: [{name: data, dtype: T, shape: [N]}]\n"
             "  outputs: [{name: out, dtype: T, shape: [M]}]",
             "  params: [{name: m, type: int}]\n"
             "  inputs: [{name: data, dtype: T, shape: [N]}]\n"
             "  outputs: [{name: out, dtype: T, shape: [m]}]"),
    TNM_CODE("W0115", "lint `uncomputed`: an operator that nothing computes",
             "It has no `forward`, no `binding`, and no kernel with a "
             "`forward`: every call fails\nunless another plugin has kernels "
             "for it (`kernels_for`).",
             "  op: cube\n  outputs: [{name: out, dtype: T, shape: data}]",
             "  op: cube\n  outputs: [{name: out, dtype: T, shape: data}]\n"
             "  forward: {out: data^3}"),
    {NULL, NULL}};
