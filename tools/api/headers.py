# SPDX-License-Identifier: Apache-2.0
"""Reads a C header into groups of declarations with their comments.

The headers of Tenon are formatted by clang-format and are documented by
comments before declarations, so a scanner of the top level is enough. It reads
each branch of an `#if`, and expands only macros of the same header that define
functions. A macro that the header undefines is not public.
"""

import dataclasses
import re

BANNER = re.compile(r"/\* -{3,} (.*?) ?\*/")
GUARD = re.compile(r"TENON_\w+_(?:H|CUH)_$")
LINKAGE = re.compile(r"^#ifdef __cplusplus\n(?:extern \"C\" \{|\})[^\n]*\n#endif"
                     r"[^\n]*\n", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)|"
                       r"__launch_bounds__\([^)]*\)|alignas\([^)]*\)|"
                       r"__align__\([^)]*\)|TN_API |TN_MUST_USE |"
                       r"TN_PRINTF\([^)]*\)|TN_KERNEL_ONCE |TN_KERNEL_COMMON |"
                       r"TN_KERNEL_BODY |\bextern |\bstatic |\binline ")
INVOCATION = re.compile(r"[A-Z][A-Z0-9_]*\([^;{}]*\)\s*$")


@dataclasses.dataclass
class Entry:
    """One declared name. `text` is the declaration without a function body."""
    kind: str  # function, struct, union, enum, enumerator, type, macro, var
    name: str
    text: str
    note: str = ""  # the comment on the line of the declaration
    source: str = ""  # the whole declaration with its comments


@dataclasses.dataclass
class Group:
    """Declarations that share a comment; or only a comment, or a title."""
    comment: str = ""
    entries: list = dataclasses.field(default_factory=list)
    title: str = ""


def plain_comment(text):
    """The lines of a comment without its marks."""
    if text.startswith("//"):
        return text[2:].strip()
    lines = text[2:-2].splitlines()
    lines = [re.sub(r"^ \* ?", "", line) if i else line[1:]
             for i, line in enumerate(lines)]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def end_of_declaration(text, at):
    """The position after a declaration, and that of its body or -1."""
    depth, body, i = 0, -1, at
    while i < len(text):
        comment = COMMENT.match(text, i)
        if comment:
            i = comment.end()
            continue
        c = text[i]
        if c in "\"'":
            i = re.compile(r"(?:\\.|[^\\%s])*%s" % (c, c)).match(
                text, i + 1).end()
            continue
        if c in "({[":
            if c == "{" and depth == 0 and is_function(text[at:i]):
                body = i
            depth += 1
        elif c in ")}]":
            depth -= 1
            if c == "}" and depth == 0 and body >= 0:
                return i + 1, body
        elif c == ";" and depth == 0:
            return i + 1, -1
        elif c == "\n" and depth == 0 and INVOCATION.match(text[at:i]):
            return i, -1
        i += 1
    return len(text), body


def is_function(head):
    head = COMMENT.sub("", head).strip()
    return ("(" in head and "=" not in head.split("(")[0]
            and not head.startswith(("typedef", "enum")))


def name_before(text):
    """The identifier that a parenthesis follows."""
    found = re.search(r"(\w+)\s*\(", text)
    return found[1] if found else ""


def typedef_name(text):
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", text)
    if pointer:
        return pointer[1]
    if "(" in text:
        return name_before(text)
    return re.search(r"(\w+)(?:\[[^]]*\])*\s*;$", text)[1]


def enumerators(body):
    """Entries of the names in braces. A comment belongs to the name before it,
    or, if it has a line of its own, to the name after it."""
    found, waiting = [], ""
    pieces = re.split(r"(/\*.*?\*/)", body, flags=re.S)
    for i, piece in enumerate(pieces):
        if piece.startswith("/*"):
            note = " ".join(plain_comment(piece).split())
            own_line = (re.search(r"\n *$", pieces[i - 1])
                        and re.match(r" *\n", pieces[i + 1]))
            if own_line:
                waiting = note
            elif found and not found[-1].note:
                found[-1].note = note
            continue
        for each in piece.split(","):
            match = re.match(r"(\w+)\s*(?:=\s*(.*))?$", each.strip(), re.S)
            if match:
                found.append(Entry("enumerator", match[1],
                                   " ".join(each.split()), waiting))
                waiting = ""
    return found


def entries_of(text, body):
    """Entries of one declaration; none for a name that is only announced."""
    whole = text
    text = COMMENT.sub("", text if body < 0 else text[:body]).strip()
    bare = ATTRIBUTE.sub("", text).strip()
    if re.match(r"(?:typedef )?enum\b[^;{]*\{", bare):
        inner = whole[whole.index("{") + 1:whole.rindex("}")]
        found = enumerators(inner)
        if bare.startswith("typedef"):
            found.insert(0, Entry("enum", typedef_name(bare), ""))
        return found
    record = re.match(r"(?:typedef )?(struct|union)\s*(\w*)[^;{(]*\{", bare)
    if record and not is_function(bare.split("{")[0]):
        name = (typedef_name(re.sub(r"\{.*\}", "", bare, flags=re.S))
                if bare.startswith("typedef") else record[2])
        return [Entry(record[1], name, whole.strip())]
    if re.match(r"(?:struct|union|class) \w+;$", bare):
        return []
    if bare.startswith("typedef"):
        return [Entry("type", typedef_name(bare), " ".join(bare.split()))]
    if body >= 0 or is_function(bare):
        return [Entry("function", name_before(bare),
                      " ".join(bare.rstrip(";").split()))]
    variable = re.search(r"(\w+)(?:\[[^]]*\])*\s*(?:=.*)?;$", bare, re.S)
    if variable:
        return [Entry("var", variable[1], bare.split("=")[0].strip(" ;"))]
    return []


def macro_of(text):
    """The entry of a `#define`; None for the guard of a header."""
    found = re.match(r"#\s*define\s+(\w+)(\([^)]*\))?", text)
    if not found or GUARD.match(found[1]):
        return None
    comment = COMMENT.search(text)
    note = ""
    if comment and "\\\n" not in text:
        note = " ".join(plain_comment(comment[0]).split())
    return Entry("macro", found[1] + (found[2] or ""),
                 COMMENT.sub("", text).rstrip(), note)


def arguments_of(call):
    """(name, arguments) of an invocation of a macro."""
    name, _, rest = call.strip().partition("(")
    rest = rest[:rest.rindex(")")]
    found, depth = [""], 0
    for c in rest:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return name, [each.strip() for each in found]


def expand(macros, call):
    """The declarations that an invocation defines; "" if it is unknown."""
    name, arguments = arguments_of(call)
    definition = macros.get(name)
    head = re.match(r"#\s*define\s+\w+\(([^)]*)\)(.*)", definition or "", re.S)
    if not head:
        return ""
    text = COMMENT.sub("", head[2].replace("\\\n", " "))
    for parameter, value in zip(head[1].split(","), arguments):
        text = re.sub(rf"(?:##\s*)?\b{parameter.strip()}\b(?:\s*##)?|"
                      rf"##\s*{parameter.strip()}\b",
                      lambda _, v=value: v, text)
    return re.sub(r"\s*##\s*", "", text)


class Reader:
    def __init__(self, text, macros=None):
        # The definitions of all macros of the header.
        self.macros = macros if macros is not None else {}
        self.private = set(re.findall(r"^#\s*undef (\w+)", text, re.M))
        self.text = LINKAGE.sub("", text)
        self.at = 0
        self.groups = []
        self.pending = None  # a comment that waits for its declaration
        self.open = False  # the next declaration continues the last group

    def flush(self):
        if self.pending is not None:
            self.groups.append(Group(comment=self.pending))
        self.pending, self.open = None, False

    def add(self, entries):
        if not entries:
            return
        if self.pending is not None or not self.open:
            self.groups.append(Group(comment=self.pending or ""))
        self.groups[-1].entries += entries
        self.pending, self.open = None, True

    def read_comment(self):
        found = COMMENT.match(self.text, self.at)
        line = self.text[self.text.rfind("\n", 0, self.at) + 1:self.at]
        banner = BANNER.match(found[0])
        if banner:
            self.flush()
            self.groups.append(Group(title=banner[1]))
        elif line.strip() and self.open:
            last = self.groups[-1].entries[-1]
            last.note = " ".join(plain_comment(found[0]).split())
        else:
            self.flush()
            self.pending = plain_comment(found[0])
        self.at = found.end()

    def read_directive(self):
        found = re.compile(r"(?:[^\n]*\\\n)*[^\n]*(?:/\*(?:(?!\*/).)*\*/)?",
                           re.S).match(self.text, self.at)
        text = found[0]
        if text.count("/*") > text.count("*/"):
            end = self.text.index("*/", self.at) + 2
            text = self.text[self.at:end]
        self.at += len(text)
        if re.match(r"#\s*define\b", text):
            macro = macro_of(text)
            if macro is None:
                return
            name = macro.name.split("(")[0]
            self.macros[name] = text
            self.add([] if name in self.private else [macro])

    def read_declaration(self):
        end, body = end_of_declaration(self.text, self.at)
        text = self.text[self.at:end]
        if INVOCATION.match(text.strip()):
            inner = Reader(expand(self.macros, text), self.macros).read()
            self.add([each for group in inner for each in group.entries])
            self.at = end
            return
        entries = entries_of(text, body - self.at if body >= 0 else -1)
        for each in entries:
            each.source = text
        self.add(entries)
        self.at = end

    def read(self):
        while self.at < len(self.text):
            rest = self.text[self.at:self.at + 2]
            if rest[0].isspace():
                blank = re.compile(r"\s+").match(self.text, self.at)
                if blank[0].count("\n") > 1:
                    self.flush()
                self.at = blank.end()
            elif rest in ("/*", "//"):
                self.read_comment()
            elif rest[0] == "#":
                self.read_directive()
            elif rest[0] in "};":
                self.at += 1
            else:
                self.read_declaration()
        self.flush()
        return self.groups


def subject_of(head):
    """The first comment of a header without the name of its file."""
    return re.sub(r"^[\w./]+: ", "", head)


def read_header(text):
    """(text of the first comment, groups)."""
    first = COMMENT.match(text)
    head = plain_comment(first[0])
    head = re.sub(r"^SPDX[^\n]*\n", "", head)
    return head, Reader(text[first.end():]).read()
