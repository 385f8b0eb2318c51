# SPDX-License-Identifier: Apache-2.0
"""Type stubs for editors and type checkers.

    python -m tenon.stubs [DIR] [--plugin FILE.so]...

Writes `ops.pyi`, with a function for each operator of the installed plugins and of the
plugins named by --plugin: inputs, parameters with types and defaults, and the text for
`help()`. `_core.pyi` has the methods of arrays, `__init__.pyi` the names of the package.

Without DIR the files go into the package; wheels have them. With DIR they become the stub
package DIR/tenon-stubs: a project keeps it beside its plugin, and names DIR in `stubPath` of
Pyright. mypy reads stub packages in the environment's site-packages only.

    >>> from tenon import stubs
    >>> print(stubs.write_signature(operator))  # a dictionary of `tenon show --json`
    def cube(data: Tensor, *, scale: float = 1.0, out: Out = None) -> Array: ...
"""

import argparse
import importlib.util
import inspect
import json
import keyword
import os
import pathlib
import subprocess
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional

from . import _prefix

NOTE = "# Written by `python -m tenon.stubs`; changes will be lost.\n"
OPERATORS = NOTE + '''\
from typing import Any, Literal, Optional, Sequence, Union
from numpy.typing import ArrayLike
from ._core import Array
from ._dtypes import DType
from .graph import Symbol

Tensor = Union[Array, Symbol, ArrayLike]
Out = Optional[Union[Array, Sequence[Optional[Array]]]]

def __getattr__(name: str) -> Any: ...  # plugins that are loaded later
'''

CORE = NOTE + '''\
from typing import Any, Iterator, Optional, Tuple, Union
import numpy
from ._dtypes import DType

def __getattr__(name: str) -> Any: ...

class Array:
'''

MODULE = NOTE + '''\
from typing import Any
from ._core import Array as Array
from .ops import elemwise as _elemwise, tensor as _tensor

def __getattr__(name: str) -> Any: ...

'''

TYPES = {"bool": "bool", "int": "int", "float": "float", "string": "str",
         "dtype": "Union[str, DType]", "ints": "Union[int, Sequence[int]]",
         "floats": "Union[float, Sequence[float]]"}

# Types of the attributes of arrays, and results of methods that return no array.
PROPERTIES = {"shape": "Tuple[int, ...]", "strides": "Tuple[int, ...]", "size": "int",
              "ndim": "int", "itemsize": "int", "nbytes": "int", "dtype": "DType",
              "device": "str", "grad": "Optional[Array]", "T": "Array", "is_contiguous": "bool"}
RESULTS = {"numpy": "numpy.ndarray", "__array__": "numpy.ndarray", "tolist": "Any",
           "item": "Union[int, float, bool]", "attach_grad": "None", "backward": "None",
           "__len__": "int", "__int__": "int", "__index__": "int", "__hash__": "int",
           "__float__": "float", "__bool__": "bool", "__contains__": "bool", "__str__": "str",
           "__repr__": "str", "__format__": "str", "__setitem__": "None", "__delitem__": "None",
           "__iter__": "Iterator[Array]", "__dlpack__": "Any", "__reduce__": "Any",
           "__dlpack_device__": "Tuple[int, int]"}
# Functions of the module that return an array; results of others are not declared.
MAKERS = ("arange", "array", "asarray", "empty", "from_dlpack", "full", "ones", "zeros")


def write_name(name: str) -> str:
    """A name as Python accepts it: `from` becomes `from_`."""
    return name + "_" if keyword.iskeyword(name) else name


def write_type(param: Dict[str, Any]) -> str:
    """The type of a parameter."""
    if param["type"] == "enum":
        text = f"Literal[{', '.join(json.dumps(each) for each in param['values'])}]"
    else:
        text = TYPES.get(param["type"], "Any")
    return f"Optional[{text}]" if "optional" in param["flags"] else text


def write_default(param: Dict[str, Any]) -> str:
    """The default of a parameter in Python: the core has it as a text."""
    text = param["default_text"]
    if text == "None" and "optional" in param["flags"]:
        return "None"
    if param["type"] == "bool":
        return "True" if text == "true" else "False"
    if param["type"] in ("enum", "string", "dtype"):
        return json.dumps(text)
    try:
        json.loads(text)
    except ValueError:
        return "..."  # such as `inf`
    return text


def write_inputs(operator: Dict[str, Any]) -> Iterator[str]:
    """The inputs and auxiliary states of an operator, as arguments in their order."""
    for each in operator["inputs"] + operator["aux"]:
        if "hidden" in each["flags"]:
            continue
        name = write_name(each["name"])
        if "variadic" in each["flags"] or each["count"] is not None:
            yield f"*{name}: Tensor"
        elif "optional" in each["flags"]:
            yield f"{name}: Optional[Tensor] = None"
        else:
            yield f"{name}: Tensor"


def write_params(operator: Dict[str, Any]) -> Iterator[str]:
    """The parameters of an operator, those without a default first."""
    for param in sorted(operator["params"], key=lambda each: "required" not in each["flags"]):
        text = f"{write_name(param['name'])}: {write_type(param)}"
        yield text if "required" in param["flags"] else f"{text} = {write_default(param)}"


def write_signature(operator: Dict[str, Any]) -> str:
    """The head of an operator's function.

    >>> write_signature(relu)
    'def relu(data: Tensor, *, out: Out = None) -> Array: ...'
    """
    arguments = list(write_inputs(operator))
    if not any(each.startswith("*") for each in arguments):
        arguments.append("*")
    arguments += [*write_params(operator), "out: Out = None"]
    visible = [each for each in operator["outputs"] if "hidden" not in each["flags"]]
    several = len(visible) != 1 or "variadic" in visible[0]["flags"]
    result = "tuple[Array, ...]" if several else "Array"
    return f"def {write_name(operator['name'])}({', '.join(arguments)}) -> {result}: ..."


def write_doc(operator: Dict[str, Any]) -> Iterator[str]:
    """Lines of the text of an operator: its summary, and a line for each argument."""
    yield operator["summary"] + "."
    arguments = operator["inputs"] + operator["aux"] + operator["params"]
    lines = [f"{each['name']}: {each['doc']}" for each in arguments if each["doc"]]
    if lines:
        yield ""
        yield from lines


def write_plugin(name: str, operators: Iterable[Dict[str, Any]]) -> Iterator[str]:
    """Lines of a plugin: a class that has its operators as functions."""
    yield f"class {write_name(name)}:"
    for operator in operators:
        yield "    @staticmethod"
        yield f"    {write_signature(operator)[:-4]}"
        text = "\n".join(write_doc(operator)).replace(chr(34) * 3, chr(39) * 3)
        lines = ("r" + chr(34) * 3 + text).splitlines()
        yield from (f"        {line}".rstrip() for line in lines)
        yield '        """'
    yield ""


def write_parameters(function: Any) -> str:
    """The parameters of a function of the package, without types; `...` for a default that is
    no constant."""
    parameters = []
    for each in inspect.signature(function).parameters.values():
        default = each.default
        if default is not each.empty and not isinstance(
                default, (type(None), bool, int, float, str, tuple)):
            default = ...
        parameters.append(each.replace(annotation=each.empty, default=default))
    text = str(inspect.Signature(parameters))
    return text.replace("=Ellipsis", "=...")


def write_text(thing: Any, margin: str) -> Iterator[str]:
    """The first line of the documentation, or `...` if there is none."""
    line = (inspect.getdoc(thing) or "").partition("\n")[0].replace('"""', "'''")
    if line.endswith(('"', "\\")):
        line += " "  # which would end the text too early
    yield f'{margin}r"""{line}"""' if line else f"{margin}..."


def write_array(array: Any) -> Iterator[str]:
    """Lines of the class Array, from its methods and attributes."""
    for name in sorted(dir(array)):
        member = getattr(array, name)
        if name.startswith("_") and (not name.startswith("__") or not callable(member)
                                     or getattr(object, name, None) is member):
            continue
        if callable(member):
            if name in ("__new__", "__init_subclass__", "__subclasshook__"):
                continue
            ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
            yield (f"    def {name}{write_parameters(member)} -> {RESULTS.get(name, 'Array')}:"
                   + ignore)
        else:
            yield "    @property"
            yield f"    def {name}(self) -> {PROPERTIES.get(name, 'Any')}:"
        yield from write_text(member, "        ")


def write_operators(operators: Iterable[str], taken: Iterable[str]) -> Iterator[str]:
    """Lines for operators that the package offers without their plugin."""
    known = set(taken)
    for plugin in ("elemwise", "tensor"):
        for full in sorted(operators):
            name = full.partition("@")[0].partition(".")[2]
            if full.startswith(plugin + ".") and name not in known:
                known.add(name)
                yield f"{name} = _{plugin}.{name}"


def write_module(module: Any, operators: Iterable[str]) -> Iterator[str]:
    """Lines of __init__.pyi: the names of dir(tenon), and operators."""
    names = [name for name in dir(module) if not name.startswith("_")]
    for name in names:
        if name == "Array":
            continue  # MODULE has it
        if importlib.util.find_spec(f"tenon.{name}") is not None:
            yield f"from . import {name} as {name}"
            continue
        try:
            value = getattr(module, name)
        except (ImportError, AttributeError):
            continue  # a package that it needs is missing
        home = getattr(value, "__module__", "")
        if isinstance(value, module.DType):
            yield f"{name}: DType"
        elif inspect.isfunction(value) and home == "tenon":
            result = "Array" if name in MAKERS else "Any"
            yield f"def {name}{write_parameters(value)} -> {result}:"
            yield from write_text(value, "    ")
        elif home.startswith("tenon.") and hasattr(value, "__name__"):
            yield f"from {home[5:]} import {value.__name__} as {name}"
        else:
            yield f"{name}: Any"
    yield from write_operators(operators, names)


def read_plugins(files: Iterable[str] = ()) -> List[Dict[str, Any]]:
    """The plugins that `tenon list --json` finds, and those in the files."""
    command = [_prefix.program("tenon"), "list", "--json"]
    for file in files:
        command += ["--plugin", os.path.abspath(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"tenon.stubs: `{' '.join(command)}` failed; its message is above")
    return [each["plugin"] for each in json.loads(done.stdout)["plugins"]]


def write_stub(plugins: Iterable[Dict[str, Any]]) -> str:
    """The text of ops.pyi: a class for each plugin that has operators."""
    lines = [OPERATORS]
    for plugin in sorted(plugins, key=lambda each: each["name"]):
        operators = [each for each in plugin["operators"]
                     if "backward_only" not in each["flags"]]
        operators.sort(key=lambda each: each["name"])
        if operators:
            lines += write_plugin(plugin["name"], operators)
    return "\n".join(lines)


def write_package(plugins: Iterable[Dict[str, Any]]) -> Dict[str, str]:
    """The texts of all files, by their names."""
    import tenon
    plugins = list(plugins)
    operators = [f"{plugin['name']}.{operator['name']}" for plugin in plugins
                 for operator in plugin["operators"] if "backward_only" not in operator["flags"]]
    return {"ops.pyi": write_stub(plugins),
            "_core.pyi": CORE + "\n".join([*write_array(tenon.Array), ""]),
            "__init__.pyi": MODULE + "\n".join([*write_module(tenon, operators), ""])}


def write_files(folder: Optional[str], files: Dict[str, str]) -> pathlib.Path:
    """Writes the files into the package, or into a stub package of a folder."""
    package = pathlib.Path(os.path.abspath(__file__)).parent
    if folder is not None:
        package = pathlib.Path(folder, "tenon-stubs")
        package.mkdir(parents=True, exist_ok=True)
        # Type checkers look into the installed package for the other modules.
        (package / "py.typed").write_text("partial\n")
    for name, text in files.items():
        (package / name).write_text(text)
    return package


def main(arguments: List[str]) -> int:
    """Writes the stubs, and prints their folder."""
    parser = argparse.ArgumentParser(
        prog="python -m tenon.stubs", description="Writes type stubs of arrays and operators.")
    parser.add_argument("folder", nargs="?", metavar="DIR",
                        help="make the stub package DIR/tenon-stubs; default: into the package")
    parser.add_argument("--plugin", action="append", default=[], metavar="FILE.so",
                        help="a plugin that is in no folder of plugins")
    options = parser.parse_args(arguments)
    files = write_package(read_plugins(options.plugin))
    try:
        package = write_files(options.folder, files)
    except OSError as error:
        sys.exit(f"tenon.stubs: cannot write {error.filename}: {error.strerror}; "
                 "name a folder: python -m tenon.stubs DIR")
    print(package)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
