/* SPDX-License-Identifier: Apache-2.0
 * codes_expressions.c: explanations of E0030 to E0049: scalar expressions and
 * shape rules. Text only.
 */
#include <stddef.h>

#include "codes.h"

const tnm_code tnm_codes_expressions[] = {
    TNM_CODE("E0030", "the expression goes on differently",
             "Something else is expected at this place: an operand after an "
             "operator, an operator\nafter an operand, a closing parenthesis.",
             "  out: a*(data + b", "  out: a*(data + b)"),
    TNM_CODE(
        "E0031", "unknown name",
        "Scalar expressions name inputs, parameters and, in gradients, "
        "outputs and\n`grad.<output>`. Shape rules name parameters and the "
        "dimensions that a pattern\nintroduces.",
        "  out: a*dat", "  out: a*data"),
    TNM_CODE("E0032", "a character outside of the language",
             "Expressions are made of names, numbers, `+ - * / % ^ ( ) , .`, "
             "comparisons, and\n`...` in shapes. `^` is the power.",
             "  out: data ** 2", "  out: data ^ 2"),
    TNM_CODE("E0033", "an invalid number",
             "Numbers are decimal, with `.` and an exponent where reals are "
             "meant, and within\nrange.",
             "  out: 0x10*data", "  out: 16*data"),
    TNM_CODE("E0034", "unknown function",
             "The message lists the functions that the place knows; scalar "
             "expressions and shape\nrules have different ones.",
             "  out: sinus(data)", "  out: tanh(data)"),
    TNM_CODE("E0035", "the wrong number of arguments",
             "Each function takes a fixed number of arguments.",
             "  out: select(data > 0, data)",
             "  out: select(data > 0, data, 0)"),
    TNM_CODE("E0036", "comparisons in a chain",
             "`a < b < c` compares the truth of `a < b` with c in C, and means "
             "both in mathematics.\nIt is refused.",
             "  out: 0 < data < 1", "  out: (0 < data) * (data < 1)"),
    TNM_CODE("E0037", "an expression that is too deep or too long",
             "Expressions are bounded, so that reading and compiling them is "
             "too: 4096 names,\nnumbers and operations, 64 levels of "
             "parentheses, calls and powers. So are gradients that\nare "
             "derived, as `opgen show` prints them, with everything written "
             "out. Split it, or\ncompute it in a kernel.",
             "  out: ((((...((((data))))...))))", "  out: data"),
    TNM_CODE("E0038", "a parameter that is not a single number",
             "Scalar expressions take parameters of type bool, int, float and "
             "enum that cannot be\nNone. For a parameter that may be None, "
             "write a kernel: it sees\n`has_<parameter>`.",
             "  params: [{name: k, type: ints, rank: 1}]\n  forward: {out: "
             "k*data}",
             "  params: [{name: k, type: int}]\n  forward: {out: k*data}"),
    TNM_CODE("E0039", "`grad.` where there is no gradient",
             "Only formulas of gradients may use `grad.<output>`, and it names "
             "an output.",
             "  forward: {out: grad.out}",
             "  gradient: {formula: {data: grad.out}}"),
    TNM_CODE(
        "E0040", "too many tensors in one formula",
        "A generated loop keeps one pointer per tensor; beyond 15 a kernel "
        "of your own is the\nbetter place.",
        "  out: x0 + x1 + ... + x15", "  out: x0 + x1 + ... + x14"),
    TNM_CODE(
        "E0041", "a list and a single dimension are confused",
        "In a pattern, `S...` spreads a list over as many dimensions as it "
        "has; without the\ndots an item is one dimension. Only lists can "
        "be spread.",
        "  shape: [N, kernel]          # kernel is of type ints",
        "  shape: [N, kernel...]"),
    TNM_CODE("E0042", "a name for a dimension and for a pack",
             "`N` is one dimension, `S...` introduces a list of them. One name "
             "is one or the other.",
             "  shape: [N, N...]", "  shape: [N, S...]"),
    TNM_CODE("E0043", "not a whole number",
             "Shapes count elements; their arithmetic is that of integers, and "
             "`/` rounds down.",
             "  shape: [N*0.5]", "  shape: [N/2]"),
    TNM_CODE(
        "E0044", "a tensor or parameter that is no integer",
        "Shape rules take parameters of type bool, int, enum and ints, and "
        "of tensors only\ntheir `rank`, `size` and `shape`. A float may be "
        "compared with another parameter or a\nnumber.",
        "  require: [{that: data > 0, say: ...}]",
        "  require: [{that: size(data) > 0, say: ...}]"),
    TNM_CODE("E0045", "rank, size, shape or has of something else",
             "These functions take the name of an operand; `rank` also takes a "
             "list, `has` an\noptional input.",
             "  when: rank(2) >= 2", "  when: rank(data) >= 2"),
    TNM_CODE("E0046", "a list where one integer is wanted",
             "Counts are single integers. Conditions are, or compare lists: "
             "each comparison has to\nhold then.",
             "  that: shape(data)", "  that: rank(data) == 2"),
    TNM_CODE("E0047", "a pattern that is too long",
             "A tensor has at most 16 dimensions.",
             "  shape: [A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q]",
             "  shape: [A, B, S...]"),
    TNM_CODE("E0048", "a division by 0", "The divisor is 0 in every call.",
             "  shape: [N/0]", "  shape: [N/2]"),
    TNM_CODE("E0049", "axes of reductions",
             "A reduction, such as `mean(data, axis)`, has the name of axes as "
             "its second argument.\nThe key `axes` of the operator has this "
             "name: that of one parameter of type int or\nints, or a name with "
             "a constant number. It has no value elsewhere in formulas. One\n"
             "operator has at most 8 reductions, 3 of them inside of each "
             "other.",
             "  forward: {out: data - mean(data, axis)}",
             "  axes: [axis]\n  forward: {out: data - mean(data, axis)}"),
    {NULL, NULL}};
