# SPDX-License-Identifier: Apache-2.0
"""Printers of gdb for arrays, graphs, variables, operations and errors.

    (gdb) source tenon_gdb.py
    (gdb) print *array
    $1 = array f32 (2,3) on cpu(0), 1 owner: [1, 2, 3, 4, 5, 6]

They read memory only and call no function of the program, so they work on a
program that hangs and on a core file. Debugging information of libtenon is
needed.
"""

import gdb
import gdb.printing

SHOWN = 8  # elements of an array, and nodes of a list
DEVICES = {1: "cpu", 2: "cuda"}
# tn_dtype has the class in the low byte, as in DLPack, and the bits above it.
CLASSES = {0: "i", 1: "u", 2: "f", 4: "bf"}
NARROW = {10: "f8e4m3fn", 11: "f8e4m3fnuz", 12: "f8e5m2", 13: "f8e5m2fnuz",
          14: "f8e8m0", 17: "f4e2m1"}
MODES = ("read", "update", "overwrite")
KINDS = ("variable", "call", "backward", "sum", "zero", "one", "copy", "graph",
         "loop")
CODES = ("TN_OK", "TN_INVALID", "TN_NOT_FOUND", "TN_EXISTS",
         "TN_OUT_OF_MEMORY", "TN_OUT_OF_RANGE", "TN_SHAPE", "TN_DTYPE",
         "TN_INCOMPLETE", "TN_UNSUPPORTED", "TN_UNIMPLEMENTED", "TN_PLUGIN",
         "TN_IO", "TN_DEVICE", "TN_BUSY", "TN_INTERNAL")
LOCK, WRITER, QUEUED, ERROR, FENCE = (1 << bit for bit in range(5))
READERS = 32  # position of their number in tn__var.word


def number(value):
    """An integer, also of an atomic member."""
    return int(value)


def text(value):
    """The string at a char *, or None."""
    return value.string("utf-8", "replace") if number(value) else None


def count(n, noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def code_name(code):
    return CODES[-code] if 0 <= -code < len(CODES) else f"code {code}"


def joined(parts, n):
    return ", ".join(map(str, parts)) + (", ..." if n > SHOWN else "")


# --------------------------------------------------------------------- arrays

def dtype_name(dtype):
    kind, bits = dtype & 0xff, dtype >> 8 & 0xff
    if kind in NARROW:
        return NARROW[kind]
    return "bool" if kind == 6 else f"{CLASSES.get(kind, '?')}{bits}"


def place(tensor):
    kind = number(tensor["device_type"])
    return f"{DEVICES.get(kind, f'device {kind} ')}({number(tensor['device_id'])})"


def read_list(pointer, n):
    return [number(pointer[i]) for i in range(n)]


def element_type(dtype):
    """The type of C that gdb reads elements of, or None."""
    names = {"i8": "signed char", "u8": "unsigned char", "i16": "short",
             "u16": "unsigned short", "i32": "int", "u32": "unsigned int",
             "i64": "long", "u64": "unsigned long", "f32": "float",
             "f64": "double", "bool": "unsigned char"}
    name = names.get(dtype_name(dtype))
    return gdb.lookup_type(name) if name else None


def offsets(shape, strides):
    """Positions of the first elements in row-major order."""
    found, index = [], [0] * len(shape)
    while len(found) < SHOWN and 0 not in shape:
        found.append(sum(i * step for i, step in zip(index, strides)))
        for axis in reversed(range(len(shape))):
            index[axis] += 1
            if index[axis] < shape[axis]:
                break
            index[axis] = 0
        else:
            break
    return found


def elements(tensor, data):
    """The first elements as text, ": [1, 2]", if the host can read them."""
    ndim = number(tensor["ndim"])
    if not data or number(tensor["device_type"]) != 1 or ndim < 0:
        return ""
    kind = element_type(number(tensor["dtype"]))
    if kind is None:
        return ""
    shape = read_list(tensor["shape"], ndim)
    strides = read_list(tensor["strides"], ndim)
    size = 1
    for each in shape:
        size *= each
    pointer = gdb.Value(data).cast(kind.pointer())
    values = [pointer[at] for at in offsets(shape, strides)]
    shown = [f"{float(v):.6g}" if kind.code == gdb.TYPE_CODE_FLT else number(v)
             for v in values]
    return f": [{joined(shown, size)}]"


def tensor_head(tensor):
    ndim = number(tensor["ndim"])
    if ndim < 0:
        return "no shape"
    shape = ",".join(map(str, read_list(tensor["shape"], ndim)))
    return f"{dtype_name(number(tensor['dtype']))} ({shape}) on {place(tensor)}"


class Tensor:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return (f"tensor {tensor_head(self.value)}"
                f"{elements(self.value, number(self.value['data']))}")


class Array:
    def __init__(self, value):
        self.value = value

    def data(self):
        start = number(self.value["block"]["data"])
        return start + number(self.value["offset"]) if start else 0

    def to_string(self):
        tensor = self.value["tensor"]
        owners = count(number(self.value["n_owners"]), "owner")
        data = self.data()
        use = describe_use(self.value["block"]["var"])
        return (f"array {tensor_head(tensor)}, {owners}"
                f"{'' if data else ', no memory yet'}"
                f"{f', {use}' if use != 'unused' else ''}"
                f"{elements(tensor, data)}")


# ------------------------------------------------------ variables, operations

def describe_error(pointer):
    if not number(pointer):
        return "no error"
    error = pointer.dereference()
    message = error["text"].address.cast(
        gdb.lookup_type("char").pointer()).string("utf-8", "replace")
    return f"{code_name(number(error['code']))}: {message}"


def describe_use(var):
    word = number(var["word"])
    parts = []
    if word >> READERS:
        parts.append(count(word >> READERS, "reader"))
    for bit, name in ((WRITER, "a writer"), (QUEUED, "waiting operations"),
                      (LOCK, "locked"), (FENCE, "work of a device")):
        if word & bit:
            parts.append(name)
    if word & ERROR:
        parts.append(describe_error(var["error"]))
    return ", ".join(parts) or "unused"


class Var:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"variable: {describe_use(self.value)}"


class HostVariable:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        owners = count(number(self.value["n_owners"]), "owner")
        of = " of an array" if number(self.value["array"]) else ""
        var = self.value["var"].dereference()
        return f"variable{of}, {owners}: {describe_use(var)}"


class Error:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"error {describe_error(self.value.address)}"


class Token:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        name = text(self.value["name"]) or "without a name"
        missing = number(self.value["wait"])
        state = f"waits for {count(missing, 'grant')}" if missing else "may run"
        return (f"execution of {name}, {state}, "
                f"{count(number(self.value['n_claims']), 'variable')}")


class Operation:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        job = self.value["job"]
        name = text(job["name"]) or "without a name"
        n = number(job["n_access"])
        modes = [MODES[number(job["access"][i]["mode"])]
                 for i in range(min(n, SHOWN))]
        return (f"operation {name}, pushed "
                f"{count(number(self.value['n_pushed']), 'time')}: "
                f"{joined(modes, n) or 'no variable'}")


# --------------------------------------------------------------------- graphs

class Operator:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        state = "" if number(self.value["desc"]) else ", not defined"
        return (f"operator {text(self.value['name'])}, "
                f"{count(number(self.value['kernels']['n']), 'kernel')}{state}")


def describe_node(node):
    kind = number(node["kind"])
    op = f" {text(node['op']['name'])}" if number(node["op"]) else ""
    return (f"{KINDS[kind] if kind < len(KINDS) else kind} "
            f"`{text(node['name'])}`{op}, {count(number(node['n_in']), 'input')}")


class Node:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return describe_node(self.value)


class Graph:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return (f"graph of {count(number(self.value['nodes']['n']), 'node')}, "
                f"{count(number(self.value['n_heads']), 'head')}")

    def children(self):
        kind = gdb.lookup_type("tn__node").pointer()
        nodes = self.value["nodes"]
        for i in range(number(nodes["n"])):
            node = nodes["v"][i].cast(kind).dereference()
            yield f"[{i}]", describe_node(node)


# ------------------------------------------------------------------- register

PRINTERS = {"tn_array": Array, "tn_tensor": Tensor, "tn_graph": Graph,
            "tn__node": Node, "tn__var": Var, "tn_variable": HostVariable,
            "tn__operation": Operation, "tn__token": Token,
            "tn__error": Error, "tn_operator": Operator}


def build():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("tenon")
    for name, printer in PRINTERS.items():
        printers.add_printer(name, f"^{name}$", printer)
    return printers


gdb.printing.register_pretty_printer(None, build(), replace=True)
