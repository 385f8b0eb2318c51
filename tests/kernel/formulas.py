# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of test_formulas: every formula of a plugin as plain C, and
the loops of the CPU for it. A loop of i64 that serves for u64 counts once.

    formulas.py PLAIN.c LOOPS.c FILE.formula.gen.h...

The loops are those of NAME.kernel.gen.c in the folder of each header.
"""

import pathlib
import re
import sys

FUNCTION = re.compile(
    r"^TN_MATH_FN (float|double|u?int(?:32|64)_t) (\w+)\(([^)]*)\) \{\n(.*?)^\}",
    re.MULTILINE | re.DOTALL)
CLASSES = {"float": "TN_F32", "double": "TN_F64", "int32_t": "TN_I32",
           "int64_t": "TN_I64", "uint64_t": "TN_U64"}


class Formula:
    def __init__(self, match):
        self.type, self.name, parameters, self.body = match.groups()
        parts = [part.strip() for part in parameters.split(",")]
        found = re.match(r"const (\w+) \*p$", parts[0])
        self.params = found.group(1) if found else None
        self.inputs = [part for part in parts
                       if part != "void" and not part.startswith("const ")]

    def constant(self):
        """Values of the parameters: no two equal, none special."""
        if not self.params:
            return ""
        names = sorted(set(re.findall(r"\bp->(\w+)", self.body)))
        values = "".join(f".{name} = {2 * k + 3}, "
                         for k, name in enumerate(names))
        return f"static const {self.params} params_{self.name} = {{{values}}};\n"

    def plain(self):
        arguments = ["params"] if self.params else []
        arguments += [f"((const {self.type} *)in[{k}])[i]"
                      for k in range(len(self.inputs))]
        unused = "" if self.inputs else "  (void)in;\n"
        unused += "" if self.params else "  (void)params;\n"
        return (f"void plain_{self.name}(int64_t n, void *out,\n"
                "    const void *const *in, const void *params) {\n"
                f"{unused}"
                "  for (int64_t i = 0; i < n; ++i)\n"
                f"    (({self.type} *)out)[i] =\n"
                f"        {self.name}({', '.join(arguments)});\n"
                "}\n\n")

    def case(self):
        params = f"&params_{self.name}" if self.params else "NULL"
        return (f'    {{"{self.name}", {CLASSES[self.type]}, '
                f"{len(self.inputs)}, {params}, plain_{self.name},\n"
                f"     TN_KERNEL_BODIES({self.loop})}},\n")


def read_formulas(header):
    """The formulas of a header, each with the loop that the kernels' tables
    name for it: both files have them in one order."""
    found = [Formula(match) for match in FUNCTION.finditer(header.read_text())]
    assert found, f"{header.name} has no formulas"
    rows = re.findall(r"\.(\w+) = TN_KERNEL_BODIES\((\w+)\)",
                      source_of(header).read_text())
    loops = [loop for kind, loop in rows
             if not (kind == "u64" and loop.endswith("_i64_loop"))]
    assert len(loops) == len(found), header.name
    for formula, loop in zip(found, loops):
        formula.loop = loop
    return found


def source_of(header):
    return header.with_name(header.name.replace(".formula.gen.h",
                                                ".kernel.gen.c"))


def main():
    plain, loops = (pathlib.Path(path) for path in sys.argv[1:3])
    headers = [pathlib.Path(path).resolve() for path in sys.argv[3:]]
    formulas = []
    for header in headers:
        formulas += read_formulas(header)
    head = '#include "test_formulas.h"\n\n'
    plain.write_text(
        head + "".join(f'#include "{header}"\n' for header in headers) + "\n"
        + "".join(each.plain() for each in formulas))
    sources = [source_of(header) for header in headers]
    loops.write_text(
        head + "".join(f'#include "{source}"\n' for source in sources) + "\n"
        + "".join(each.constant() for each in formulas)
        + "".join(f"plain_formula plain_{each.name};\n" for each in formulas)
        + "\nconst formula_case formula_cases[] = {\n"
        + "".join(each.case() for each in formulas)
        + "};\n\nconst size_t n_formula_cases =\n"
        "    sizeof formula_cases / sizeof *formula_cases;\n")


main()
