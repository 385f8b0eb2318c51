/* SPDX-License-Identifier: Apache-2.0
 * codes_form.c: explanations of E0001 to E0029: files, YAML, keys, names,
 * parameters and operands. Text only.
 */
#include <stddef.h>

#include "codes.h"

const tnm_code tnm_codes_form[] = {
    TNM_CODE(
        "E0001", "a file cannot be read",
        "A plugin is plugin.yaml and the files that its `operators` lists, "
        "all in one folder.\nEach must be a regular file of at most 1 MiB. "
        "A path after `--with` must be such a\nfolder, or a built plugin.",
        "  operators: [unray.yaml]     # the file is called unary.yaml",
        "  operators: [unary.yaml]"),
    TNM_CODE(
        "E0002", "a byte or character that no manifest may hold",
        "Manifests are UTF-8 without a byte order mark. Control characters "
        "are refused, also\nas escapes in quotes, because editors, "
        "terminals and C would each read them\ndifferently.",
        "  summary: \"Every\\0 element\"", "  summary: Every element"),
    TNM_CODE(
        "E0003", "a tab character",
        "YAML gives tabs no width, so a line may look indented but not be. "
        "Manifests have blanks\nonly.",
        "  params:\n  <tab>- {name: a, type: float}",
        "  params:\n    - {name: a, type: float}"),
    TNM_CODE(
        "E0004", "the text is not YAML",
        "The most frequent cause is a value that holds `: `, `, `, `#`, or "
        "begins with a\ncharacter that means something to YAML: put it in "
        "double quotes. In expressions,\nwrite `select(c, a, b)` for `c ? a : "
        "b` of C.",
        "  out: data > 0 ? a : b", "  out: select(data > 0, a, b)"),
    TNM_CODE("E0005", "YAML that manifests do without",
             "Anchors, aliases, tags, merge keys and directives make a "
             "manifest mean something else\nthan its text. They are refused. A "
             "pack of dimensions is written `S...`.",
             "  shape: [N, *S]", "  shape: [N, S...]"),
    TNM_CODE(
        "E0006", "a key is given twice",
        "YAML readers keep the first or the last of two equal keys and say "
        "nothing. Here it\nis a mistake, also when a member of a family "
        "repeats a key that the family has.",
        "  - {name: a, type: float, default: 1, default: 2}",
        "  - {name: a, type: float, default: 2}"),
    TNM_CODE(
        "E0007", "a manifest that is too deep or too large",
        "At most 32 levels of nesting, 1000 keys in a mapping, 1000 items "
        "in a list of the\nschema, and 100000 values in a file: reading "
        "takes bounded time and memory.",
        "  data: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]"
        "]]]]]]]]]]",
        "  data: [[[1]]]               # a tensor has at most 16 dimensions"),
    TNM_CODE(
        "E0009", "plugin.yaml does not list the file",
        "A manifest of operators belongs to the plugin.yaml beside it. The "
        "`operators` list there\nfixes their order. The order is ABI: add "
        "new files at the end.",
        "  operators: [unary.yaml]                  # but binary.yaml exists "
        "too",
        "  operators: [unary.yaml, binary.yaml]"),
    TNM_CODE(
        "E0010", "unknown manifest format",
        "`opgen: 1` says how the rest is to be read. A higher number needs "
        "a newer opgen;\nanything else is no format at all.",
        "  opgen: 1.0", "  opgen: 1"),
    TNM_CODE("E0011", "a required key is missing",
             "The message names the mapping and the key; `begins here` marks "
             "the mapping.",
             "  - {name: data}", "  - {name: data, dtype: T}"),
    TNM_CODE(
        "E0012", "unknown key",
        "Keys are never ignored: a misspelt `default` would otherwise make "
        "a parameter\nrequired without a word.",
        "  - {name: a, type: float, defualt: 0}",
        "  - {name: a, type: float, default: 0}"),
    TNM_CODE(
        "E0013", "a value of the wrong form",
        "A list, a mapping or a single value is in the place of another of the "
        "three, or\nthe value is missing. Expressions are single values of "
        "one line.",
        "  inputs: {data: T}", "  inputs:\n    - {name: data, dtype: T}"),
    TNM_CODE(
        "E0014", "an invalid value",
        "The schema, not YAML, decides which values are valid: `yes` is not "
        "`true`, and words are\nfrom a fixed list.",
        "  - {name: mask, dtype: T, optional: yes}",
        "  - {name: mask, dtype: T, optional: true}"),
    TNM_CODE("E0015", "an invalid name",
             "Plugins, operators, parameters and operands are lower case; type "
             "variables and\ndimensions are upper case. Names of parameters "
             "and operands become C and occur in\nexpressions, so keywords and "
             "function names are taken. Functions of yours are C\nidentifiers "
             "that do not begin with `tn_`.",
             "  - {name: register, type: int}", "  - {name: slot, type: int}"),
    TNM_CODE(
        "E0016", "a name is taken",
        "Within an operator, parameters and operands share one set of "
        "names, since\nexpressions name them all; aliases count. Operators "
        "are unique within a plugin.",
        "  params: [{name: scale, type: float}]\n"
        "  inputs: [{name: scale, dtype: T}]",
        "  params: [{name: factor, type: float}]\n"
        "  inputs: [{name: scale, dtype: T}]"),
    TNM_CODE("E0017", "a document that is not exactly one thing",
             "A document defines an operator (`op`), several alike (`family` "
             "and `each`), or adds\nkernels to another plugin's operator "
             "(`kernels_for`).",
             "  opgen: 1\n  op: relu\n  kernels_for: nn.relu@1",
             "  opgen: 1\n  op: relu"),
    TNM_CODE("E0018", "releases that contradict each other",
             "`since` counts releases of the plugin: never above `release` in "
             "plugin.yaml, never\nbelow that of the operator, never decreasing "
             "within a list, because the order is ABI\nand new items are at "
             "the end.",
             "  - {name: a, type: float, since: 2}\n"
             "  - {name: b, type: float, since: 1}",
             "  - {name: b, type: float, since: 1}\n"
             "  - {name: a, type: float, since: 2}"),
    TNM_CODE(
        "E0019", "not a summary",
        "Summaries are printed in lists, under each other: one line, with a "
        "capital, without a full\nstop. Longer text belongs in `doc`.",
        "  summary: computes the sigmoid.",
        "  summary: Sigmoid of every element"),
    TNM_CODE(
        "E0020", "a value that its parameter does not take",
        "A default, or a value in an example, is checked like a user's: "
        "type, range, names of\nan enum, length of a list.",
        "  - {name: stride, type: ints, rank: 2, min: 1, default: [1, 0]}",
        "  - {name: stride, type: ints, rank: 2, min: 1, default: [1, 1]}"),
    TNM_CODE(
        "E0021", "limits that make no sense for the parameter",
        "`min`, `max`, `above`, `below` and `nonzero` belong to numbers, "
        "`values` to enums\nand dtypes, `rank` to lists, `dynamic` to bool, "
        "int and float. `min` is not above\n`max`, and beside neither "
        "`above` nor `below` for the same side.",
        "  - {name: mode, type: string, values: [fast, exact]}",
        "  - {name: mode, type: enum, values: [fast, exact]}"),
    TNM_CODE("E0022", "an invalid rank",
             "`rank` is the length of a list parameter: a number, a range, or "
             "the name of a list\nparameter before it, for the same length.",
             "  - {name: stride, type: ints, rank: kernel}\n"
             "  - {name: kernel, type: ints, rank: 1..3}",
             "  - {name: kernel, type: ints, rank: 1..3}\n"
             "  - {name: stride, type: ints, rank: kernel}"),
    TNM_CODE(
        "E0023", "an unknown type",
        "Types are f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool, the "
        "storage types\nf8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 "
        "i4 u4 i2 u2, the variables of\n`dtypes`, and, for operands, "
        "parameters of type dtype. A kernel accepts a part of the\ntypes of "
        "its operator.",
        "  dtypes: {T: [float32]}", "  dtypes: {T: [f32]}"),
    TNM_CODE("E0024", "operands in the wrong order",
             "Optional inputs come last, or one variadic input does; hidden "
             "outputs and one with\n`count` come last too. So positions mean "
             "the same in every call.",
             "  - {name: bias, dtype: T, optional: true}\n"
             "  - {name: weight, dtype: T}",
             "  - {name: weight, dtype: T}\n"
             "  - {name: bias, dtype: T, optional: true}"),
    TNM_CODE("E0025", "an input that cannot be shared",
             "`inplace`, `view` and `init` of an output name an input of the "
             "same type that is\nnot variadic, `inplace` also a list of such "
             "inputs. `view` says that the output has the\nelements of that "
             "input, in their order, and so that it may take its memory: "
             "`inplace` is\nnot needed beside it.",
             "  - {name: out, dtype: T, shape: data, inplace: dta}",
             "  - {name: out, dtype: T, shape: data, inplace: data}"),
    TNM_CODE(
        "E0026", "an unknown shape",
        "A shape is the name of another operand, a pattern `[N, C, S...]`, "
        "or a hook\n`{c: function}`; of an output also `broadcast` or "
        "`dynamic`, of\nan input `broadcast` if the operator is "
        "`backward_only`. Operands do not\ntake their shapes from each other "
        "in a circle.",
        "  - {name: out, dtype: T, shape: N}",
        "  - {name: out, dtype: T, shape: [N]}"),
    {NULL, NULL}};
