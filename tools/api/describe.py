#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the public headers as data: sdk/api.json.

    tools/api/describe.py [ROOT]            writes ROOT/sdk/api.json
    tools/api/describe.py --print [ROOT]    prints it

Names, types and texts come from the headers; sizes, offsets and values from a
program that $CC or cc compiles. `docs/reference/api-json.md` has the format. A
comment without a required sentence is an error.
"""

import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import contract
import declarations
import headers
import layout

SCHEMA = 1
INCLUDE = pathlib.Path("sdk/include")
# Groups of headers, by their folder below tenon/.
GROUPS = {"": "tenon", "plugin": "plugin", "kernel": "kernel", "draft": "draft"}
# Headers of other libraries; all other functions are in libtenon.
LIBRARIES = {"graph.h": "tenon-graph", "program.h": "tenon-graph",
             "data.h": "tenon-data",
             "comm.h": "tenon-parallel", "kvstore.h": "tenon-parallel"}
# A text that a compiler can compute: numbers, texts and names of constants.
CONSTANT = re.compile(r"^(?:\"[^\"]*\"|[\s()|+*<>-]|0x[0-9a-fA-F]+[uUlL]*|"
                      r"\d+[uUlL]*|TN_DTYPE_MAKE\([^)]*\)|"
                      r"TN_[A-Z0-9_]+)+$")
# A header that includes the kernel library. Structs and constants of these are
# compiled into plugins, and are no interface: only functions are listed.
OF_KERNELS = re.compile(r'#include "tenon/kernel/')


@dataclasses.dataclass
class Types:
    """The known types, for contracts."""
    structs: dict  # name -> fields
    opaque: set
    codes: set
    fallible: set  # functions that are TN_MUST_USE
    functions: set  # names of types of functions

    def must_use(self, name, inline):
        return inline or name in self.fallible


def group_of(name):
    return GROUPS.get(name.split("/")[0] if "/" in name else "")


def read_headers(root):
    """{name below tenon/: (text of its head, groups)}."""
    folder = root / INCLUDE / "tenon"
    return {name: headers.read_header((folder / name).read_text())
            for name in sorted(path.relative_to(folder).as_posix()
                               for path in folder.rglob("*.h"))
            if group_of(name)}


class Api:
    """Collects the descriptions of all headers."""

    def __init__(self, root, found):
        self.found = found
        # Headers with structs and constants.
        self.measured = [name for name in found if group_of(name) != "kernel"
                         and not OF_KERNELS.search((
                             root / INCLUDE / "tenon" / name).read_text())]
        self.functions, self.structs, self.enums = [], [], []
        self.constants, self.types, self.handles = [], [], []
        self.faults = []

    def entries(self):
        """(header, comment, entry) of every public name, in order."""
        for name, (_, groups) in self.found.items():
            for group in groups:
                for entry in group.entries:
                    if is_public(entry):
                        yield name, group, entry

    def read(self):
        for name, group, entry in self.entries():
            where = {"header": f"tenon/{name}", "group": group_of(name)}
            read = getattr(self, f"read_{entry.kind}", None)
            if read and (entry.kind == "function" or name in self.measured):
                read(name, where, group, entry)
        self.read_contracts()
        return self

    # ----------------------------------------------------------- declarations

    def read_function(self, name, where, group, entry):
        helper = where["group"] in ("kernel", "draft")
        if helper and contract.thread_tag(group.comment) is None:
            return
        found, function = declarations.read_function(entry.text)
        inline = "TN_API" not in entry.source
        head = {"name": found, **where}
        if not inline:
            head["library"] = LIBRARIES.get(name, "tenon")
        self.functions.append((head, function, group.comment, inline,
                               "TN_MUST_USE" in entry.source))

    def read_struct(self, _, where, group, entry):
        fields, note = declarations.read_struct(entry.text)
        self.structs.append({
            "name": entry.name, **where, "doc": join(group.comment, note),
            "grows": fields[0]["name"] == "struct_size", "fields": fields})

    def read_enumerator(self, _, where, group, entry):
        last = self.enums[-1] if self.enums else None
        if last is None or last["source"] is not entry.source:
            head = re.match(r"\s*(?:typedef )?enum\s*\w*\s*\{\s*/\*(.*?)\*/",
                            entry.source, re.S)
            tail = re.search(r"\}\s*\w*;\s*$", entry.source)
            note = " ".join(headers.plain_comment(
                f"/*{head[1]}*/").split()) if head else ""
            if tail and entry.source.count("\n") == 0:
                note = note or group.entries[-1].note
            last = {**where, "doc": join(group.comment, note), "values": [],
                    "source": entry.source}
            self.enums.append(last)
        value = {"name": entry.name}
        if entry.note and entry.note not in last["doc"]:
            value["doc"] = entry.note
        last["values"].append(value)

    def read_macro(self, _, where, group, entry):
        body = re.match(r"#\s*define\s+\w+\s+(.*)$", entry.text, re.S)
        if "(" in entry.name or not body or not CONSTANT.match(
                body[1].replace("\\\n", " ")):
            return
        self.constants.append({"name": entry.name, **where,
                               "doc": join(group.comment, entry.note)})

    def read_type(self, _, where, group, entry):
        doc = entry.note or group.comment
        if declarations.is_opaque(entry.text):
            if all(entry.name != each["name"] for each in self.handles):
                self.handles.append({"name": entry.name, **where, "doc": doc})
            return
        self.types.append({**declarations.read_typedef(entry.text), **where,
                           "doc": doc})

    # -------------------------------------------------------------- contracts

    def known_types(self):
        structs = {each["name"]: each["fields"] for each in self.structs}
        self.handles = [each for each in self.handles
                        if each["name"] not in structs]
        return Types(structs, {each["name"] for each in self.handles},
                     {value["name"] for each in self.enums
                      for value in each["values"]
                      if any(v["name"] == "TN_OK" for v in each["values"])},
                     {head["name"] for head, *_, must in self.functions
                      if must},
                     {each["name"] for each in self.types
                      if each["type"] == "function"})

    def read_contracts(self):
        types = self.known_types()
        functions = []
        for head, function, comment, inline, _ in self.functions:
            found = contract.Contract(
                head["name"], function, comment, types,
                in_kernel=head["group"] in ("kernel", "draft"))
            functions.append({**head, "doc": comment, **found.read(inline)})
            self.faults += found.faults
        self.functions = functions
        for each in self.structs:
            self.read_members(each["fields"], each["doc"])
        self.name_releases()

    def read_members(self, fields, comment):
        """The thread tags of members that are functions."""
        for field in fields:
            tag = contract.thread_tag(field.get("doc", ""))
            tag = tag or contract.thread_tag(comment)
            if "function" in field and tag:
                field["function"]["threads"] = tag
            self.read_members(field.get("fields", []), comment)

    def name_releases(self):
        """The functions that add and remove an owner of each handle."""
        for handle in self.handles:
            kind = f"{handle['name']} *"
            for each in self.functions:
                first = each["parameters"][:1]
                if not first or first[0]["type"] != kind:
                    continue
                if first[0].get("ownership") == "taken" and len(
                        each["parameters"]) == 1:
                    handle["release"] = each["name"]
                if each["name"].endswith("_retain"):
                    handle["retain"] = each["name"]


def join(comment, note):
    return "\n\n".join(part for part in (comment, note) if part)


def is_public(entry):
    name = entry.name.split("(")[0]
    return name.lower().startswith("tn_") and not name.startswith("tn__")


# ------------------------------------------------------------------ measuring

PRINT = """static void print_text(const char *name, const char *text) {
  printf("%s \\"%s\\"\\n", name, text);
}
static void print_int(const char *name, long long value) {
  printf("%s %lld\\n", name, value);
}
static void print_word(const char *name, unsigned long long value) {
  printf("%s %llu\\n", name, value);
}
#define PRINT(x) _Generic((x), char *: print_text, const char *: print_text, \\
                          unsigned long: print_word, \\
                          unsigned long long: print_word, \\
                          default: print_int)(#x, x)
"""


def questions(api):
    """(key, C expression) of every number that a compiler knows."""
    for each in api.structs:
        name = each["name"]
        yield f"size:{name}", f"sizeof({name})"
        yield f"align:{name}", f"_Alignof({name})"
        for path, _ in members(each["fields"]):
            yield f"offset:{name}.{path}", f"offsetof({name}, {path})"
            yield f"size:{name}.{path}", f"sizeof((({name} *)0)->{path})"


def members(fields, before=""):
    """(path, field) of every field, also of those in unions."""
    for field in fields:
        path = before + field["name"]
        yield path, field
        yield from members(field.get("fields", []), path + ".")


def names_of_values(api):
    for each in api.enums:
        yield from (value["name"] for value in each["values"])
    yield from dict.fromkeys(each["name"] for each in api.constants)


def measure(root, api):
    """{key: number or text} of sizes, offsets and values on this machine."""
    lines = ["#include <stdio.h>",
             *(f"#include <tenon/{name}>" for name in api.measured), PRINT, "int main(void) {"]
    lines += [f'printf("{key} %zu\\n", {text});'
              for key, text in questions(api)]
    lines += [f"PRINT({name});" for name in names_of_values(api)]
    lines += ["return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "numbers.c"
        source.write_text("\n".join(lines) + "\n")
        program = pathlib.Path(folder) / "numbers"
        run = [*shlex.split(os.environ.get("CC") or "cc"), "-std=c11", "-w",
               "-D_GNU_SOURCE", "-I", root / INCLUDE, source, "-o",
               program]
        done = subprocess.run(run, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the program of sizes does not compile:\n"
                             f"{done.stderr}")
        text = subprocess.run([program], check=True, capture_output=True,
                              text=True).stdout
    return dict(line.split(" ", 1) for line in text.splitlines())


def value_of(text):
    return text[1:-1] if text.startswith('"') else int(text)


def fill(api, numbers):
    """Writes the measured numbers into the descriptions."""
    for each in api.structs:
        name = each["name"]
        each["size"] = int(numbers[f"size:{name}"])
        each["align"] = int(numbers[f"align:{name}"])
        for path, field in members(each["fields"]):
            field["offset"] = int(numbers[f"offset:{name}.{path}"])
            field["size"] = int(numbers[f"size:{name}.{path}"])
    for each in api.enums:
        for value in each["values"]:
            value["value"] = int(numbers[value["name"]])
    names = [each["name"] for each in api.constants]
    for each in api.constants:
        if names.count(each["name"]) == 1:
            each["value"] = value_of(numbers[each["name"]])


def ordered(each, keys):
    """The entry with these keys first; an empty text is left out."""
    found = {key: each[key] for key in keys if key in each}
    found.update((key, value) for key, value in each.items()
                 if key not in found)
    return {key: value for key, value in found.items() if value != ""}


def ordered_fields(fields):
    keys = ("name", "type", "offset", "size", "count", "since", "doc",
            "function", "fields")
    for each in fields:
        if "fields" in each:
            each["fields"] = ordered_fields(each["fields"])
    return [ordered(each, keys) for each in fields]


def subjects(enum):
    """Types and fields that the comment of an enum names: `tn_job.flags`."""
    return re.findall(r"\btn_\w+(?:\.\w+)?", enum["doc"].split(":")[0])


def describe(root):
    """(description, faults) of the headers below `root`."""
    api = Api(root, read_headers(root)).read()
    fill(api, measure(root, api))
    version = {each["name"]: each.get("value") for each in api.constants}
    for each in api.structs:
        each["fields"] = ordered_fields(each["fields"])
    for each in api.enums:
        del each["source"]
        each["values"] = [ordered(value, ("name", "value", "doc"))
                          for value in each["values"]]
    constants = [each for each in api.constants if "value" in each]
    return {
        "schema": SCHEMA,
        "version": version["TN_VERSION"],
        "abi": f"{version['TN_ABI_MAJOR']}.{version['TN_ABI_MINOR']}",
        "machines": ["x86-64", "aarch64"],
        "error_text": "tn_error_text",
        "headers": [{"name": f"tenon/{name}", "group": group_of(name),
                     "doc": headers.subject_of(head)}
                    for name, (head, _) in api.found.items()],
        "handles": [ordered(each, ("name", "retain", "release"))
                    for each in api.handles],
        "functions": [ordered(each, (
            "name", "header", "group", "library", "threads", "failure",
            "codes", "result", "parameters")) for each in api.functions],
        "structs": [ordered(each, ("name", "header", "group", "size", "align",
                                   "grows", "doc", "fields"))
                    for each in api.structs],
        "types": [ordered(each, ("name", "header", "group", "type"))
                  for each in api.types],
        "enums": [ordered({**each, "of": subjects(each)},
                          ("header", "group", "of", "doc", "values"))
                  for each in api.enums],
        "constants": [ordered(each, ("name", "value", "header"))
                      for each in constants],
    }, api.faults


def main(arguments):
    printed = arguments[:1] == ["--print"]
    rest = arguments[printed:]
    root = pathlib.Path(rest[0] if rest else
                        pathlib.Path(__file__).parents[2]).resolve()
    found, faults = describe(root)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    text = layout.text_of(found)
    if printed:
        print(text, end="")
    else:
        (root / "sdk" / "api.json").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
