# SPDX-License-Identifier: Apache-2.0
"""Takes C declarations of the public headers apart: types, parameters, fields.

A type is written as C writes it, with one blank before the first star:
`const tn_array *const *`. A pointer to a function has the type `function`, and
its result and parameters as well.
"""

import re

import headers

WORDS = {"const", "struct", "union", "enum", "unsigned", "signed", "long",
         "short", "int", "char"}
POINTER = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w*)\s*\)\s*\(")
TARGET = re.compile(r"#\s*if TN_TARGET_MINOR >= (\d+)")


def normal_type(text):
    """The type with single blanks, `struct` left out: typedefs are used."""
    text = re.sub(r"\b(?:struct|union|enum)\s+", "", " ".join(text.split()))
    text = re.sub(r"\s*\*\s*", "*", text).strip()
    return re.sub(r"\*+(?:const\b\s*\**)*", lambda m: " " + re.sub(
        r"const(?=\*)", "const ", m[0]), text, count=1).strip()


def closing(text, at):
    """The position of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError(f"no closing parenthesis: {text}")


def split_list(text):
    """The parts between commas that are outside of parentheses."""
    return headers.arguments_of(f"f({text})")[1]


def read_parameters(text):
    """(parameters, variadic) of the text between parentheses."""
    parts = [part for part in split_list(text) if part]
    if parts == ["void"]:
        parts = []
    variadic = parts[-1:] == ["..."]
    return [read_variable(part) for part in parts[:len(parts) - variadic]], \
        variadic


def function_type(head, text):
    """The description of a function with this result and these parameters."""
    parameters, variadic = read_parameters(text)
    found = {"result": normal_type(head), "parameters": parameters}
    if variadic:
        found["variadic"] = True
    return found


def read_variable(text):
    """{name, type, ...} of a parameter, a field or a typedef."""
    text = " ".join(text.split())
    pointer = POINTER.search(text)
    if pointer:
        begin = pointer.end() - 1
        return {"name": pointer[1], "type": "function",
                "function": function_type(text[:pointer.start()],
                                          text[begin + 1:closing(text, begin)])}
    size = re.search(r"\[([^]]*)\]$", text)
    if size:
        text = text[:size.start()].rstrip()
    found = re.match(r"(.*?)(\w+)$", text)
    kind, name = (found[1], found[2]) if found else (text, "")
    if not kind.strip() or name in WORDS:
        kind, name = text, ""
    result = {"name": name, "type": normal_type(kind)}
    if size:
        result["count"] = size[1].strip()
    return result


def read_function(text):
    """The description of `type name(parameters)`, without attributes."""
    bare = headers.ATTRIBUTE.sub("", headers.COMMENT.sub("", text)).strip(" ;")
    begin = bare.index("(")
    name = re.search(r"(\w+)\s*$", bare[:begin])[1]
    head = bare[:begin].rstrip()[:-len(name)]
    return name, function_type(head, bare[begin + 1:closing(bare, begin)])


class Body:
    """Reads the fields between the braces of a struct or union."""

    def __init__(self, text):
        self.text, self.at = text, 0
        self.fields, self.note, self.comment = [], "", ""
        self.since = None

    def read_comment(self):
        found = headers.COMMENT.match(self.text, self.at)
        text = " ".join(headers.plain_comment(found[0]).split())
        before = self.text[self.text.rfind("\n", 0, self.at) + 1:self.at]
        if not self.fields and "\n" not in self.text[:self.at]:
            self.note = text
        elif before.strip():
            last = self.fields[-1]
            last["doc"] = (last.get("doc", "") + " " + text).strip()
        else:
            self.comment = text
        self.at = found.end()

    def read_declaration(self):
        end, depth = self.at, 0
        while depth or self.text[end] != ";":
            depth += {"{": 1, "}": -1}.get(self.text[end], 0)
            end += 1
        text, self.at = self.text[self.at:end], end + 1
        inner = re.match(r"\s*(union|struct)\s*\{(.*)\}\s*(\w+)$", text, re.S)
        if inner:
            field = {"name": inner[3], "type": inner[1],
                     "fields": read_fields(inner[2])[0]}
        else:
            bare = headers.ATTRIBUTE.sub("", headers.COMMENT.sub("", text))
            field = read_variable(bare)
        if self.comment:
            field["doc"] = self.comment
        if self.since:
            field["since"] = self.since
        self.fields.append(field)

    def read(self):
        while True:
            blank = re.compile(r"\s*").match(self.text, self.at)
            if blank[0].count("\n") > 1:
                self.comment = ""
            self.at = blank.end()
            if self.at >= len(self.text):
                return
            line = self.text[self.at:].split("\n", 1)[0]
            if line.startswith("/*"):
                self.read_comment()
            elif line.startswith("#"):
                target = TARGET.match(line)
                self.since = f"0.{target[1]}" if target else None
                self.at += len(line)
            else:
                self.read_declaration()


def read_fields(body):
    """(fields, comment after the brace) of the text between the braces."""
    found = Body(body)
    found.read()
    return found.fields, found.note


def read_struct(text):
    return read_fields(text[text.index("{") + 1:text.rindex("}")])


def read_typedef(text):
    """A name for another type, or for a function."""
    text = text.strip(" ;").removeprefix("typedef").strip()
    if "(" in text and not POINTER.search(text):
        name, function = read_function(text)
        return {"name": name, "type": "function", "function": function}
    return read_variable(text)


def is_opaque(text):
    """True for `typedef struct name name;`."""
    return bool(re.match(r"typedef (?:struct|union) (\w+) \1\s*;$", text))
