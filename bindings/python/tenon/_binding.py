# SPDX-License-Identifier: Apache-2.0
"""Makes ctypes objects from the tables of tenon/_api.py, each at its first use.

Functions raise the exception of the code that C returns. ctypes releases Python's lock (the GIL)
during every call.
"""

import ctypes
import os
import threading

from tenon import _errors, _prefix

_NUMBERS = {
    "void": None, "char": ctypes.c_char, "float": ctypes.c_float, "double": ctypes.c_double,
    "int8_t": ctypes.c_int8, "uint8_t": ctypes.c_uint8, "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t,
}


def encode(value):
    """UTF-8 bytes of a text or path. C ends a text at its first NUL, so none may be inside."""
    if not isinstance(value, (str, bytes)):
        value = os.fspath(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if b"\0" in value:
        raise ValueError(f"the text {value[:40]!r} contains a NUL character, which ends a text "
                         "in C; remove it")
    return value


class Text(ctypes.c_char_p):
    """`const char *` as a parameter: accepts str, bytes, paths and None."""

    @classmethod
    def from_param(cls, value):
        if value is None or isinstance(value, ctypes.c_char_p):
            return value
        return ctypes.c_char_p(encode(value))


class Struct(ctypes.Structure):
    """A struct of C. One that may grow gets its struct_size; texts may be str."""

    _grows = False
    _texts = frozenset()  # names of the fields of type `const char *`

    def __init__(self, *values, **fields):
        super().__init__(*values, **{
            name: encode(value) if name in self._texts and value is not None else value
            for name, value in fields.items()})
        if self._grows:
            self.struct_size = ctypes.sizeof(self)


def _decode_result(value, function, arguments):
    return None if value is None else value.decode("utf-8", "replace")


def _point(kind, stars):
    for _ in range(stars):
        kind = ctypes.POINTER(kind)
    return kind


class Binding:
    """Resolves the names of one module of tables."""

    def __init__(self, tables):
        self._tables = tables
        self._types = {name: _NUMBERS[of] for name, of in tables["TYPES"].items()}
        self._types.update(_NUMBERS)
        self._structs = {}
        self._open = []  # structs that have no fields yet
        self._libraries = {}
        self._lock = threading.RLock()

    def resolve(self, name):
        """The attribute `name`, for __getattr__ of the module."""
        with self._lock:
            value = self._make(name)
            while self._open:
                self._complete(self._open[0])
        self._tables[name] = value
        return value

    def _make(self, name):
        tables = self._tables
        if name in tables["FUNCTIONS"]:
            return self._make_function(name, *tables["FUNCTIONS"][name][:3],
                                       tables["FUNCTIONS"][name][3:])
        if name in tables["CONSTANTS"]:
            return tables["CONSTANTS"][name]
        if name in tables["STRUCTS"]:
            return self._complete(name)
        if name in tables["CALLBACKS"]:
            return self._make_callback(tables["CALLBACKS"][name])
        if name in tables["TYPES"]:
            return self._types[name]
        raise AttributeError(f"Tenon {tables['VERSION']} has no `{name}` in its public headers")

    # ------------------------------------------------------------- functions

    def open_library(self, name):
        """The library "tenon-graph"; libtenon is the one that is loaded already, if any is."""
        if name not in self._libraries:
            if name != "tenon":
                self.open_library("tenon")
            file = f"lib{name}.so.0"
            mode = os.RTLD_NOW | os.RTLD_GLOBAL
            try:
                loaded = ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            except OSError:
                loaded = ctypes.CDLL(_prefix.library(file), mode=mode)
            self._libraries[name] = loaded
        return self._libraries[name]

    def _make_function(self, name, library, failure, result, parameters):
        function = self.open_library(library)[name]
        function.argtypes = [self._get_parameter(each) for each in parameters]
        function.restype = self._get_type(result)
        if failure == "code":
            function.errcheck = self._check_code
        elif result == "const char *":
            function.errcheck = _decode_result
        return function

    def _check_code(self, code, function, arguments):
        if code:
            get_text = self._tables.get("tn_error_text") or self.resolve("tn_error_text")
            raise _errors.make_error(code, get_text())
        return code

    # ----------------------------------------------------------------- types

    def _get_parameter(self, spelled):
        return Text if spelled == "const char *" else self._get_type(spelled)

    def _make_callback(self, spelled):
        _, result, parameters, variadic = spelled
        if variadic:
            return ctypes.c_void_p
        return ctypes.CFUNCTYPE(self._get_type(result),
                                *[self._get_type(each) for each in parameters])

    def _get_type(self, spelled):
        """The ctypes type of "const tn_entry *". Structs in it may still lack their fields."""
        if not isinstance(spelled, str):
            return self._make_callback(spelled)
        base = spelled.replace("const ", "").replace("struct ", "").split(" ")[0]
        stars = spelled.count("*")
        if base in self._tables["CALLBACKS"]:
            return self._make_callback(self._tables["CALLBACKS"][base])
        if base == "char" and stars and spelled.startswith("const"):
            return _point(ctypes.c_char_p, stars - 1)
        if base in self._types and base != "void":
            return _point(self._types[base], stars)
        if base in self._tables["STRUCTS"]:
            kind = self._declare(base) if stars else self._complete(base)
            return _point(kind, stars)
        return _point(ctypes.c_void_p, stars - 1) if stars else None

    # --------------------------------------------------------------- structs

    def _declare(self, name):
        """The class of a struct, perhaps without fields: structs may point to each other."""
        if name not in self._structs:
            grows = self._tables["STRUCTS"][name][0]
            self._structs[name] = type(name, (Struct,), {"_grows": grows})
            self._open.append(name)
        return self._structs[name]

    def _complete(self, name):
        kind = self._declare(name)
        if name in self._open:
            self._open.remove(name)
            kind._fields_ = [self._make_field(name, each)
                             for each in self._tables["STRUCTS"][name][1:]]
            kind._texts = frozenset(each[0] for each in kind._fields_
                                    if each[1] is ctypes.c_char_p)
        return kind

    def _make_field(self, owner, field):
        name, spelled = field[:2]
        if isinstance(spelled, tuple) and spelled[0] != "function":
            fields = [self._make_field(owner, each) for each in spelled]
            return name, type(f"{owner}_{name}", (ctypes.Union,), {"_fields_": fields})
        kind = self._get_type(spelled)
        return name, kind * field[2] if len(field) > 2 else kind
