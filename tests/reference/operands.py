# SPDX-License-Identifier: Apache-2.0
"""Arrays as C literals, for the scripts here that print cases. An operand is
{{number of dimensions, {sizes}}, {elements}}.
"""

import numpy as np

ABSENT = "{{0, {0}}, {0}}"


def number(x):
    """An element; NAN and INFINITY are macros of math.h."""
    return repr(float(x)).replace("nan", "NAN").replace("inf", "INFINITY")


def plain(x):
    """An element in its own type, without the sign of zero."""
    return repr(x.item() + 0)


def show(array, number=number, most=64):
    """An array of NumPy or torch as an operand, which has at most `most`
    elements; ABSENT for None."""
    if array is None:
        return ABSENT
    if hasattr(array, "detach"):
        array = array.detach().numpy()
    array = np.asarray(array)
    assert array.ndim <= 4 and array.size <= most, array.shape
    dims = ", ".join(map(str, array.shape)) or "0"
    values = ", ".join(map(number, array.ravel())) or "0"
    return f"{{{{{array.ndim}, {{{dims}}}}}, {{{values}}}}}"


def join(operands):
    """Operands as the elements of one array."""
    return "{" + ",\n  ".join(operands) + "}"


def show_list(arrays):
    """Arrays as {their number, {operands}}; {0} for none."""
    return f"{{{len(arrays)}, {join(map(show, arrays))}}}" if arrays else "{0}"
