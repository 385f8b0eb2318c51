# SPDX-License-Identifier: Apache-2.0
"""Type stubs of the operators, for editors and type checkers.

    python -m tenon.stubs [DIR] [--plugin FILE.so]...

Writes `ops.pyi`, with a function for each operator of the installed plugins and of the
plugins named by --plugin: inputs, parameters with types and defaults, and the text for
`help()`. Without DIR the file goes into the package; editors find it there. With DIR it
becomes the stub package DIR/tenon-stubs, which adds to the installed package: a project
keeps it beside its plugin, and names DIR in `stubPath` or MYPYPATH.

    >>> from tenon import stubs
    >>> print(stubs.write_signature(operator))  # a dictionary of `tenon show --json`
    def cube(data: Tensor, *, scale: float = 1.0, out: Out = None) -> Array: ...
"""

import argparse
import json
import keyword
import os
import pathlib
import subprocess
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional

from . import _prefix

HEAD = '''\
# Written by `python -m tenon.stubs`; changes will be lost.
from typing import Any, Literal, Optional, Sequence, Union
from numpy.typing import ArrayLike
from . import Array, DType, Symbol

Tensor = Union[Array, Symbol, ArrayLike]
Out = Optional[Union[Array, Sequence[Optional[Array]]]]

def __getattr__(name: str) -> Any: ...  # plugins that are loaded later
'''

TYPES = {"bool": "bool", "int": "int", "float": "float", "string": "str",
         "dtype": "Union[str, DType]", "ints": "Union[int, Sequence[int]]",
         "floats": "Union[float, Sequence[float]]"}


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
    lines = [HEAD]
    for plugin in sorted(plugins, key=lambda each: each["name"]):
        operators = [each for each in plugin["operators"]
                     if "backward_only" not in each["flags"]]
        operators.sort(key=lambda each: each["name"])
        if operators:
            lines += write_plugin(plugin["name"], operators)
    return "\n".join(lines)


def find_target(folder: Optional[str]) -> pathlib.Path:
    """The file to write; makes the stub package if a folder is named."""
    if folder is None:
        return pathlib.Path(__file__).resolve().with_name("ops.pyi")
    package = pathlib.Path(folder, "tenon-stubs")
    package.mkdir(parents=True, exist_ok=True)
    # Type checkers look into the installed package for the other modules.
    (package / "py.typed").write_text("partial\n")
    return package / "ops.pyi"


def main(arguments: List[str]) -> int:
    """Writes the stub, and prints the path."""
    parser = argparse.ArgumentParser(
        prog="python -m tenon.stubs", description="Writes type stubs of the operators.")
    parser.add_argument("folder", nargs="?", metavar="DIR",
                        help="make the stub package DIR/tenon-stubs; default: into the package")
    parser.add_argument("--plugin", action="append", default=[], metavar="FILE.so",
                        help="a plugin that is in no folder of plugins")
    options = parser.parse_args(arguments)
    text = write_stub(read_plugins(options.plugin))
    try:
        target = find_target(options.folder)
        target.write_text(text)
    except OSError as error:
        sys.exit(f"tenon.stubs: cannot write {error.filename}: {error.strerror}; "
                 "name a folder: python -m tenon.stubs DIR")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
