# SPDX-License-Identifier: Apache-2.0
"""Writes tenon/_api.py: the public headers as tables for ctypes.

    python3 generate_api.py API.json OUT.py

API.json is share/tenon/api.json of an installed Tenon (sdk/api.json in the sources;
docs/how-to/language-bindings.md describes it). The tables have the host API, and the structs of
the plugin ABI, which operators in Python need. tenon/_binding.py makes objects of ctypes from
them.
"""

import json
import keyword
import sys

GROUPS = ("tenon", "plugin")
SIZES = {"char": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4,
         "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "double": 8, "size_t": 8}

HEAD = '''\
# Written by generate_api.py from the headers of Tenon {version}; do not edit.
"""Constants, structs and functions of Tenon's C library, by their names in C.

    from tenon import _api
    graph = ctypes.c_void_p()
    _api.tn_graph_create(runtime, ctypes.byref(graph))

An attribute is made when it is first used (tenon/_binding.py).
"""

from tenon._binding import Binding

VERSION = {version!r}
'''


def spell_type(item):
    """A type of C as text; a function as ("function", result, parameters, is variadic)."""
    function = item.get("function")
    if item["type"] != "function" or function is None:
        return item["type"]
    parameters = tuple(spell_type(each) for each in function["parameters"])
    return ("function", function["result"], parameters, function.get("variadic", False))


def count_elements(field, sizes):
    """Length of an array in a struct."""
    base = field["type"]
    size = 8 if base.endswith("*") else sizes[base]
    return field["size"] // size


def spell_field(field, sizes):
    """(name, type), (name, type, count) of an array, or (name, fields) of a union.

    A name that Python reserves, as `in`, gets an underscore at its end.
    """
    name = field["name"] + ("_" if keyword.iskeyword(field["name"]) else "")
    if field["type"] == "union":
        return (name, tuple(spell_field(each, sizes) for each in field["fields"]))
    if "count" in field:
        return (name, spell_type(field), count_elements(field, sizes))
    return (name, spell_type(field))


def collect_types(api):
    """Names for numbers, and types of functions."""
    names, callbacks = {}, {}
    for each in api["types"]:
        if each["group"] not in GROUPS:
            continue
        if each["type"] == "function":
            callbacks[each["name"]] = spell_type(each)
        else:
            names[each["name"]] = each["type"]
    return names, callbacks


def collect_constants(api):
    constants = {each["name"]: each["value"] for each in api["constants"]
                 if each["group"] in GROUPS}
    for enum in api["enums"]:
        if enum["group"] in GROUPS:
            constants.update((each["name"], each["value"]) for each in enum["values"])
    return constants


def collect_structs(api, names):
    sizes = dict(SIZES)
    sizes.update((each["name"], each["size"]) for each in api["structs"])
    sizes.update((name, SIZES[of]) for name, of in names.items())
    return {each["name"]: (each["grows"],) + tuple(spell_field(field, sizes)
                                                   for field in each["fields"])
            for each in api["structs"] if each["group"] in GROUPS}


def collect_functions(api):
    """(library, failure, result, parameters ...) of each function of a library."""
    return {each["name"]: (each["library"], each["failure"], each["result"]["type"])
            + tuple(spell_type(parameter) for parameter in each["parameters"])
            for each in api["functions"] if each["group"] == "tenon" and "library" in each}


def write_table(file, name, table):
    file.write(f"\n{name} = {{\n")
    for key, value in table.items():
        file.write(f"{key!r}: {value!r},\n")
    file.write("}\n")


def write_module(api, file):
    names, callbacks = collect_types(api)
    file.write(HEAD.format(version=api["version"]))
    file.write(f"HANDLES = {tuple(each['name'] for each in api['handles'])!r}\n")
    write_table(file, "TYPES", names)
    write_table(file, "CONSTANTS", collect_constants(api))
    write_table(file, "CALLBACKS", callbacks)
    write_table(file, "STRUCTS", collect_structs(api, names))
    write_table(file, "FUNCTIONS", collect_functions(api))
    file.write("\n__getattr__ = Binding(globals()).resolve\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[2].strip())
    with open(sys.argv[1], encoding="utf-8") as file:
        api = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        write_module(api, file)


if __name__ == "__main__":
    main()
