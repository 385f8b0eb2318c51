# SPDX-License-Identifier: Apache-2.0
"""Reads the contract of a function from its comment.

The sentences that count are those of CONTRIBUTING.md, "Comments of public
functions": ownership of results, parameters that may be NULL, lengths of
arrays, codes, and the thread tag at the end.
"""

import re

TAGS = ("any", "load", "worker", "host-thread", "job")
TAG = re.compile(r"\[(%s)\]" % "|".join(TAGS))
RELEASED = re.compile(r"[Tt]he caller (?:releases|closes) \*?(\w+)")
BORROWED = re.compile(r"Borrowed ((?:until|from|as long as) [^.]*(?:\.\w[^.]*)*)\.(?:\s|$)")
CONSTANT = re.compile(r"(?:^|\. )Constant\.")
RETAINED = re.compile(r"Adds an owner; returns `(\w+)`")
CODE = re.compile(r"\bTN_[A-Z_]+\b")


def one_line(text):
    return " ".join(text.split())


def thread_tag(comment):
    """The last tag of a comment; None without one."""
    found = TAG.findall(comment)
    return found[-1] if found else None


def is_pointer(kind):
    return "*" in kind or kind == "function"


class Contract:
    """The contract of one function. `structs` and `opaque` know the types, and
    `codes` the names of all result codes."""

    def __init__(self, name, function, comment, types, in_kernel=False):
        # All memory that a kernel gets belongs to its call.
        self.in_kernel = in_kernel
        self.name, self.function = name, function
        self.text, self.types = one_line(comment), types
        self.faults = []

    def base(self, kind):
        return re.sub(r"\bconst\b|\*", "", kind).strip()

    def carries_pointer(self, kind):
        """True if a result of this type refers to memory or to an object."""
        if is_pointer(kind):
            return True
        fields = self.types.structs.get(self.base(kind), [])
        return any(self.carries_pointer(each["type"]) for each in fields)

    def direction(self, parameter):
        """in, out, or inout: from the type and the name of a parameter."""
        kind = parameter["type"]
        stars = kind.count("*")
        constant = kind.startswith("const ") and stars == 1
        if stars == 0 or constant or kind == "function":
            return "in"
        if self.base(kind) in self.types.functions:
            return "in"
        if stars == 1 and self.base(kind) in self.types.opaque | {"void"}:
            return "out" if self.fills(parameter) else "in"
        if stars > 1 and "*const *" in kind:
            return "in"
        if parameter["name"] == "io":
            return "inout"
        sized = stars == 1 and self.types.structs.get(
            self.base(kind), [{"name": ""}])[0]["name"] == "struct_size"
        return "inout" if sized else "out"

    def fills(self, parameter):
        """An untyped buffer that the function writes."""
        return (self.base(parameter["type"]) == "void"
                and parameter["name"] in ("data", "out", "to")
                and re.search(r"copies them out", self.text) is not None)

    def is_nullable(self, parameter):
        name = re.escape(parameter["name"])
        pointers = [each for each in self.function["parameters"]
                    if is_pointer(each["type"])]
        if len(pointers) == 1 and re.search(
                r"\bNULL is allowed", self.text):
            return True
        return re.search(rf"`\*?{name}` (?:(?:is|may be) )?NULL\b"
                         rf"|`{name}` and `\w+` may be NULL"
                         rf"|`\w+` and `{name}` may be NULL",
                         self.text) is not None

    def length(self, i):
        """The parameter that has the number of entries, or a text."""
        all_of = self.function["parameters"]
        name, kind = all_of[i]["name"], all_of[i]["type"]
        stated = re.search(rf"`{re.escape(name)}` has ([^.,;]*?) entries"
                           r"( as [^.,;]*)?", self.text)
        if stated:
            return stated[1] + (stated[2] or "")
        if not is_pointer(kind) or kind == "function":
            return None
        names = [each["name"] for each in all_of]
        after = names[i + 1] if i + 1 < len(names) else None
        if f"n_{name}" in names:
            return f"n_{name}"
        if after in ("n", "bytes"):
            return after
        if i and names[i - 1] == "ndim" and name == "shape":
            return "ndim"
        return None

    def ownership(self, name, kind):
        """Of a result or an `out` parameter that refers to something."""
        released = [each for each in RELEASED.findall(self.text)
                    if each in (name, "it")]
        if RETAINED.search(self.text) or released:
            return {"ownership": "new"}
        borrowed = BORROWED.search(self.text)
        if borrowed:
            return {"ownership": "borrowed", "lifetime": borrowed[1]}
        if CONSTANT.search(self.text):
            return {"ownership": "borrowed", "lifetime": "constant"}
        if self.in_kernel:
            return {"ownership": "borrowed", "lifetime": "until the call ends"}
        self.faults.append(
            f"{self.name}: the comment does not say who owns `{name}` ({kind}); "
            "write \"The caller releases *out.\", \"Borrowed until ...\" or "
            "\"Constant.\"")
        return {}

    def is_taken(self, i):
        first = i == 0 and re.search(r"_(?:release|close)$", self.name)
        name = self.function["parameters"][i]["name"]
        return bool(first) or f"Takes `{name}`" in self.text

    def read_parameter(self, i):
        parameter = self.function["parameters"][i]
        kind = parameter["type"]
        if not is_pointer(kind):
            return
        parameter["direction"] = self.direction(parameter)
        if self.is_nullable(parameter):
            parameter["nullable"] = True
        length = self.length(i)
        if length:
            parameter["length"] = length
        if self.is_taken(i):
            parameter.update(direction="in", ownership="taken")
        elif parameter["direction"] == "in":
            parameter["ownership"] = "borrowed"
        elif parameter["name"] != "io":
            pointee = re.sub(r"\*$", "", kind).strip()
            if self.carries_pointer(pointee):
                parameter.update(self.ownership(parameter["name"], pointee))

    def failure(self, inline):
        kind = self.function["result"]
        if kind == "tn_code" and self.types.must_use(self.name, inline):
            return "code"
        if kind == "int32_t" and self.in_kernel:
            return "code"
        if is_pointer(kind) and re.search(
                r"\bNULL (?:if|after|for a|until)|\bor NULL\b|, or\s+NULL",
                self.text):
            return "null"
        return "never"

    def read(self, inline):
        """Completes the description of the function in place."""
        function = self.function
        for i in range(len(function["parameters"])):
            self.read_parameter(i)
        kind = function["result"]
        function["failure"] = self.failure(inline)
        function["result"] = {"type": kind}
        if self.carries_pointer(kind):
            function["result"].update(self.ownership("result", kind))
        codes = [code for code in dict.fromkeys(CODE.findall(self.text))
                 if code in self.types.codes and code != "TN_OK"]
        if codes and function["failure"] == "code":
            function["codes"] = codes
        tag = thread_tag(self.text)
        if tag is None:
            self.faults.append(f"{self.name}: the comment has no thread tag; "
                               "end it with [any], [host-thread] ...")
        else:
            function["threads"] = tag
        return function
