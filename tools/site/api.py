# SPDX-License-Identifier: Apache-2.0
"""Writes a page of the site for each public header, in MyST Markdown.

The C domain of Sphinx gets every name, so that the search finds it and pages
can refer to it. A declaration that the domain cannot read, such as a template,
is entered by its name alone.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))

import headers  # noqa: E402
from sphinx.domains.c import (  # noqa: E402
    DefinitionError, DefinitionParser)

GROUPS = (  # folder below tenon/, title, subject
    ("", "Host API", "for programs that embed the library"),
    ("plugin", "Plugin ABI", "for plugins"),
    ("kernel", "Kernel library", "functions for kernels, headers only"),
    ("math", "Mathematical functions", "for kernels, headers only"),
    ("kernel/math", "Mathematical functions", "for kernels, headers only"),
    ("test", "Tests of plugins", "programs that opgen writes use them"),
    ("draft", "Draft", "interfaces that may still change"),
)
ROLES = {"function": "func", "struct": "struct", "union": "union",
         "enum": "enum", "enumerator": "enumerator", "type": "type",
         "macro": "macro", "var": "var"}


class Config:
    c_id_attributes = c_paren_attributes = c_extra_keywords = []
    c_allow_pre_v3 = False


def is_public(entry):
    return entry.name.lower().startswith("tn")


def base_name(entry):
    return entry.name.split("(")[0]


def signature(entry):
    """The declaration for the C domain, or None if it cannot read it."""
    if entry.kind in ("struct", "union", "enum"):
        text, kind = entry.name, entry.kind
    elif entry.kind == "macro":
        text, kind = entry.name, "macro"
    elif entry.kind == "enumerator":
        text, kind = entry.text, "enumerator"
    elif entry.kind == "type":
        text, kind = entry.text.removeprefix("typedef ").rstrip(" ;"), "type"
        text = re.sub(r"^(struct|union) (\w+) (\w+)$", r"\3", text)
    else:
        text = entry.text.rstrip(" ;")
        text = headers.ATTRIBUTE.sub("", text).strip()
        kind = "function" if entry.kind == "function" else "member"
    try:
        parser = DefinitionParser(text, location=None, config=Config())
        parser.parse_declaration(kind, kind)
        parser.skip_ws()
        parser.assert_end()
    except (DefinitionError, AssertionError):
        return None
    return kind, text


def escape(text):
    """Text as Markdown; code in backticks stays."""
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([\\*<>|_])", r"\\\1", part)
                   for i, part in enumerate(parts))


def is_code(line):
    return line.startswith("  ")


def markdown(comment, link):
    """A comment as paragraphs, lists, and code where it is indented."""
    out, lines, i = [], comment.splitlines(), 0
    in_list = False
    while i < len(lines):
        line = lines[i]
        in_list = line.startswith("- ") or (in_list and is_code(line))
        if is_code(line) and not in_list:
            block = []
            while i < len(lines) and (is_code(lines[i]) or not lines[i]):
                block.append(lines[i])
                i += 1
            text = "\n".join(block).rstrip()
            out.append(f"\n```c\n{text}\n```\n")
            continue
        heading = re.match(r"([A-Z][A-Z ]{4,})(?:\.? |$)", line)
        begins = line.startswith("- ") and out and not out[-1].startswith(
            ("- ", "  "))
        if (heading or begins) and out[-1:] != [""]:
            out.append("")
        out.append(link(escape(line)))
        i += 1
    return "\n".join(out)


class Pages:
    """All headers, and the pages of them."""

    def __init__(self, root):
        self.root = root
        self.headers = {}  # "plugin/op.h" -> (head, groups)
        include = root / "sdk" / "include" / "tenon"
        for path in sorted(include.rglob("*.h")) + sorted(
                include.rglob("*.cuh")):
            self.headers[str(path.relative_to(include))] = headers.read_header(
                path.read_text())
        self.roles, self.owner = {}, {}
        for name, entry in self.entries():
            base = base_name(entry)
            known = self.roles.get(base)
            # A struct counts more than the name that announces it.
            if known is None or (known == "type" and entry.kind in (
                    "struct", "union")):
                self.owner[base] = (name, entry)
                self.roles[base] = ROLES[entry.kind]

    def entries(self):
        """(header, entry) of every public name."""
        for name, (_, groups) in self.headers.items():
            for group in groups:
                for entry in group.entries:
                    if is_public(entry):
                        yield name, entry

    def link(self, text):
        """Names of the API in a text, as references."""
        def reference(found):
            name = found[0].replace("\\_", "_")
            role = self.roles.get(name)
            if role is None or self.domain(*self.owner[name]) is None:
                return found[0]
            return "{c:%s}`%s`" % (role, name)
        parts = re.split(r"(`[^`\n]*`)", text)
        pattern = re.compile(r"(?<![\w\\])(?:tn|TN)(?:\\_\w+?)+(?![\w\\])")
        return "".join(part if i % 2 else pattern.sub(reference, part)
                       for i, part in enumerate(parts))

    def domain(self, header, entry):
        """Directive and signature if this entry is the one that counts."""
        if self.owner[base_name(entry)][1] is not entry:
            return None
        if header.endswith(".cuh"):
            return "macro", base_name(entry)
        return signature(entry) or ("macro", base_name(entry))

    def entry_text(self, header, entry, comment):
        """An entry with the comment of its group, if it is the last of it."""
        body = ""
        found = self.domain(header, entry)
        shown = found is None or (entry.kind in ("struct", "union")
                                  or found[0] != ROLES[entry.kind].replace(
                                      "func", "function").replace(
                                          "var", "member"))
        if entry.kind == "macro" and "\n" not in entry.text:
            shown = True
        if entry.kind == "macro" and entry.text.count("\n") > 12:
            shown = False
        if shown and entry.text:
            body += f"```c\n{entry.text}\n```\n\n"
        if entry.note:
            body += self.link(escape(entry.note)) + "\n\n"
        body += comment
        if found is None:
            return body
        directive, text = found
        return (f"``````{{c:{directive}}} {text}\n\n{body.strip()}\n"
                "``````\n\n")

    def group_text(self, header, group):
        if group.title:
            return f"## {group.title[0].upper()}{group.title[1:]}\n\n"
        comment = markdown(group.comment, self.link) if group.comment else ""
        entries = [each for each in group.entries if is_public(each)]
        if not entries:
            return comment + "\n\n"
        if comment and entries[0].kind == "enumerator":
            return comment + "\n\n" + "".join(
                self.entry_text(header, each, "") for each in entries)
        text = "".join(self.entry_text(header, each, "")
                       for each in entries[:-1])
        return text + self.entry_text(header, entries[-1], comment) + "\n\n"

    def page(self, name):
        head, groups = self.headers[name]
        subject = headers.subject_of(head)
        text = f"# {name}\n\n`#include <tenon/{name}>`\n\n"
        text += markdown(subject[:1].upper() + subject[1:], self.link) + "\n\n"
        text += "".join(self.group_text(name, group) for group in groups)
        return text

    def summary(self, name):
        head = " ".join(self.headers[name][0].split("\n\n")[0].split())
        head = headers.subject_of(head)
        first = re.split(r"(?<=[.:])\s", head, maxsplit=1)[0].rstrip(".:")
        return escape(first)

    def index(self):
        text = ("# C API\n\nA page for each public header, made from its "
                "comments. Every name is also in the index\nof the site and "
                "in its search.\n\n")
        folders = {}
        for name in self.headers:
            folders.setdefault(name.rpartition("/")[0], []).append(name)
        known = {folder: (title, subject) for folder, title, subject in GROUPS}
        order = [folder for folder, *_ in GROUPS if folder in folders]
        order += [folder for folder in folders if folder not in known]
        for folder in order:
            title, subject = known.get(folder, (folder, "headers"))
            text += f"## {title}: {subject}\n\n"
            text += "".join(f"- [{name}]({page_name(name)}): "
                            f"{self.summary(name)}\n"
                            for name in folders[folder]) + "\n"
        return text


def page_name(header):
    return header.replace("/", "-") + ".md"


def write_pages(root, folder):
    folder.mkdir(parents=True)
    pages = Pages(root)
    for name in pages.headers:
        (folder / page_name(name)).write_text(pages.page(name))
    (folder / "README.md").write_text(pages.index())
