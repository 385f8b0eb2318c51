# SPDX-License-Identifier: Apache-2.0
"""The pages are connected, and the site has every public name.

    test_site.py SOURCE_ROOT CC

Needs neither Sphinx nor Graphviz: `./dev docs` makes the site itself.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1]).resolve()
CC = shlex.split(sys.argv[2])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(SOURCE / "tools" / "api"))
sys.path.insert(0, str(SOURCE / "tools" / "site"))
sys.dont_write_bytecode = True

import tap  # noqa: E402
import headers  # noqa: E402
import pictures  # noqa: E402

INCLUDE = SOURCE / "sdk" / "include"
FENCE = re.compile(r"^( *)```.*?^\1```", re.S | re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")


# ----------------------------------------------------------------------- links

def pages():
    """Every Markdown file of the checkout, tracked or new."""
    done = subprocess.run(
        ["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard", "--", "*.md"], capture_output=True, text=True,
        check=False)
    if done.returncode != 0:  # no checkout: the pages of a release
        return sorted((SOURCE / "docs").rglob("*.md"))
    return [SOURCE / name for name in done.stdout.split("\0")
            if name and (SOURCE / name).is_file()]


def prose(page):
    """A page without code."""
    text = FENCE.sub("", page.read_text())
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


def anchors(page):
    """Anchors of headings, as code hosts and MyST make them."""
    text = FENCE.sub("", page.read_text())
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for title in re.findall(r"^#+ (.*)$", text, re.M):
        title = re.sub(r"\]\([^)]*\)", "]", title).lower()
        found.add(re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-"))
    return found


def links_lead_somewhere():
    n = 0
    for page in pages():
        for link in LINK.findall(prose(page)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            where = f"{page.relative_to(SOURCE)}: {link}"
            assert target.exists(), where
            if anchor and target.suffix == ".md":
                assert anchor in anchors(target), f"{where}: no such heading"
            n += 1
    assert n > 300, n


def every_page_is_listed_by_its_folder():
    for page in sorted((SOURCE / "docs").rglob("*.md")):
        index = page.parent / "README.md"
        if page.name == "README.md":
            index = page.parent.parent / "README.md"
        if page == SOURCE / "docs" / "README.md":
            continue
        listed = {(index.parent / link.partition("#")[0]).resolve()
                  for link in LINK.findall(index.read_text())}
        assert page in listed, (
            f"{index.relative_to(SOURCE)} does not link to "
            f"{page.relative_to(SOURCE)}")


def public_names_on_pages_exist():
    """Pages of history, and those of the bytes and terms of the core, may
    name others."""
    known = set()
    for pattern in ("*.h", "*.cuh"):
        for header in INCLUDE.rglob(pattern):
            known |= set(re.findall(r"\b(?:tn|TN)_\w+", header.read_text()))
    n = 0
    for page in sorted((SOURCE / "docs").rglob("*.md")):
        if page.parent.name == "decisions" or page.name == "status.md":
            continue
        for name in re.findall(r"`((?:tn|TN)_[a-zA-Z0-9]\w*)(?:\(\w*\))?`",
                               page.read_text()):
            assert name in known, (
                f"{page.relative_to(SOURCE)}: no header has `{name}`")
            n += 1
    assert n > 200, n


def error_codes_on_the_page_are_those_of_the_headers():
    codes = {}
    for header in (INCLUDE / "tenon").rglob("*.h"):
        body = re.search(r"\benum \{\s*TN_OK = 0,(.*?)\}", header.read_text(), re.S)
        if body:
            codes = dict(re.findall(r"\b(TN_\w+) = (-\d+)", body[1]))
    page = (SOURCE / "docs" / "reference" / "errors.md").read_text()
    told = dict(re.findall(r"^\| `(TN_\w+)` \| (-\d+) \|", page, re.M))
    assert len(codes) > 10, codes
    tap.equal(told, codes)


def headers_that_pages_name_exist():
    n = 0
    for page in pages():
        if page.parent.name == "decisions" or page.name == "CHANGELOG.md":
            continue
        for name in re.findall(r"\btenon/[\w/]+\.(?:h|cuh)\b",
                               page.read_text()):
            assert (INCLUDE / name).exists(), (
                f"{page.relative_to(SOURCE)}: there is no {name}")
            n += 1
    assert n > 20, n


# -------------------------------------------------------------------- pictures

def pictures_are_drawn_from_their_sources():
    sources = sorted((SOURCE / "docs" / "pictures").glob("*.dot"))
    assert len(sources) > 5, sources
    for source in sources:
        assert pictures.is_current(source), (
            f"{source.name} changed: ./dev docs draws it again")
    tap.equal(sorted(p.stem for p in sources[0].parent.glob("*.svg")),
              sorted(p.stem for p in sources))


def files_that_pictures_name_exist():
    known = {path.name for folder in ("core", "sdk", "tools")
             for path in (SOURCE / folder).rglob("*.c")}
    for source in sorted((SOURCE / "docs" / "pictures").glob("*.dot")):
        text = source.read_text().replace("\\n", " ")
        for name in re.findall(r"\b(?<!\.)(\w+\.c)\b", text):
            assert name in known, f"{source.name}: there is no {name}"


def the_picture_of_the_parts_has_every_folder_of_core():
    text = (SOURCE / "docs" / "pictures" / "architecture.dot").read_text()
    labels = ", ".join(re.findall(r'label="(.*?)\\n', text)).split(", ")
    for folder in (SOURCE / "core").iterdir():
        if folder.is_dir():
            assert folder.name in labels, f"core/{folder.name} is missing"


def every_picture_is_on_a_page():
    shown = set()
    for page in (SOURCE / "docs").rglob("*.md"):
        shown |= set(re.findall(r"pictures/(\w+)\.svg", page.read_text()))
    tap.equal(sorted(shown), sorted(
        p.stem for p in (SOURCE / "docs" / "pictures").glob("*.svg")))


# ----------------------------------------------------------------- public names

def public_headers():
    """All headers of C: those for CUDA need nvcc."""
    return sorted((INCLUDE / "tenon").rglob("*.h"))


def entries_of(header):
    _, groups = headers.read_header(header.read_text())
    return {entry.name.split("(")[0]
            for group in groups for entry in group.entries}


def compile_header(header, *options):
    """The output of the compiler for a file that includes the header."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        name = header.relative_to(INCLUDE)
        file.write(f"#define _GNU_SOURCE 1\n#include <{name}>\n")
        file.flush()
        return tap.output([*CC, "-std=c11", "-w", f"-I{INCLUDE}", *options,
                           file.name])


def functions_of(header):
    """{name: file} of all functions that the compiler sees, by its own list."""
    with tempfile.NamedTemporaryFile("r") as file:
        compile_header(header, "-fsyntax-only", "-aux-info", file.name)
        text = file.read()
    found = re.findall(r"^/\* (\S+?):\d+:\w+ \*/ .*?\b(tn_\w+) \((?!\*)", text, re.M)
    return {name: pathlib.Path(path).resolve() for path, name in found}


def macros_of(header):
    """{name: file} of all macros, by the preprocessor."""
    found, path = {}, None
    for line in compile_header(header, "-E", "-dD").splitlines():
        place = re.match(r'# \d+ "([^"]+)"', line)
        if place:
            path = pathlib.Path(place[1]).resolve()
        gone = re.match(r"#undef (\w+)", line)
        if gone:
            found.pop(gone[1], None)
        name = re.match(r"#define (TN_\w+|tn_\w+)", line)
        if name and path is not None and path.is_file():
            found.setdefault(name[1], path)
    return found


def whole_headers():
    """Headers that programs include. Parts of them do not compile alone."""
    return [each for each in public_headers() if subprocess.run(
        [*CC, "-std=c11", "-w", "-D_GNU_SOURCE", f"-I{INCLUDE}",
         "-fsyntax-only", each], capture_output=True, check=False
    ).returncode == 0]


# The versions of a function for levels of instructions: macros make them of one
# that is listed.
LEVEL = re.compile(r"_(?:avx2|avx512|base)(?:_\w+)?$")


def check_names(find):
    known, n = {}, 0
    for header in whole_headers():
        known[header.resolve()] = entries_of(header)
    for header in list(known):
        for name, path in find(header).items():
            if path not in known or LEVEL.search(name):
                continue
            assert name in known[path], (
                f"{path.relative_to(INCLUDE)}: the page of this header has "
                f"no `{name}`")
            n += 1
    assert n > 200, n


def every_function_has_an_entry():
    if "clang" in tap.output([*CC, "--version"]):
        raise tap.Skip("clang lists no functions (-aux-info); gcc does")
    check_names(functions_of)


def every_macro_has_an_entry():
    check_names(macros_of)


def every_type_and_enumerator_has_an_entry():
    """By their spelling alone: a definition ends in `} name;`, an enumerator
    begins a line of its enum."""
    n = 0
    for header in public_headers():
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        known = entries_of(header)
        names = re.findall(r"^\} (tn_\w+);", text, re.M)
        for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", text, re.S):
            names += [each for each in re.findall(
                r"(?:^|,)\s*(TN_\w+)\b", body)]
        for name in names:
            assert name in known, (
                f"{header.relative_to(INCLUDE)}: the page of this header has "
                f"no `{name}`")
            n += 1
    assert n > 400, n


def every_header_states_its_subject():
    """The list of headers shows it."""
    for header in public_headers():
        head, _ = headers.read_header(header.read_text())
        subject = headers.subject_of(head)
        assert subject != head and not subject.startswith("Part"), (
            f"{header.relative_to(INCLUDE)} begins with no `{header.name}: "
            f"its subject`, but with: {head[:60]}")


def a_missing_name_is_found():
    """The list of the compiler is not that of the site."""
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / "x.h"
        header.write_text("/* x.h: a header. */\n/* Doubles. */\n"
                          "static inline int tn_double(int x) {\n"
                          "  return 2 * x;\n}\n#define TN_X(a) (a)\n"
                          "enum { TN_ONE = 1, /* one */ TN_TWO };\n"
                          "typedef struct tn_pair {\n  int a, b;\n} tn_pair;\n")
        tap.equal(sorted(entries_of(header)),
                  ["TN_ONE", "TN_TWO", "TN_X", "tn_double", "tn_pair"])


if __name__ == "__main__":
    tap.run([links_lead_somewhere, every_page_is_listed_by_its_folder,
             public_names_on_pages_exist,
             error_codes_on_the_page_are_those_of_the_headers,
             headers_that_pages_name_exist,
             pictures_are_drawn_from_their_sources,
             files_that_pictures_name_exist,
             the_picture_of_the_parts_has_every_folder_of_core,
             every_picture_is_on_a_page, every_header_states_its_subject,
             a_missing_name_is_found, every_function_has_an_entry,
             every_macro_has_an_entry, every_type_and_enumerator_has_an_entry])
