#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the pages of the site in a folder, for Sphinx.

    stage.py SOURCE_ROOT BUILD_ROOT FOLDER

The folder gets the pages of docs/, the rules for contributors, a page for each
public header, the operators by `opgen docs`, and the pages of commands and
codes. Each README.md becomes an index.md, and its links in order become the
contents of the site.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import api

ROOT, BUILD, FOLDER = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
OPGEN = BUILD / "tools" / "opgen" / "opgen"
TENON = BUILD / "tools" / "tenon" / "tenon"
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
# Pages outside of docs/, and their places in the site.
OUTSIDE = {"README.md": "about.md", "CONTRIBUTING.md": "contributing/rules.md",
           "CHANGELOG.md": "contributing/changes.md",
           "SECURITY.md": "contributing/security.md"}


def output(*command):
    done = subprocess.run(list(map(str, command)), check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"stage.py: failed: {' '.join(map(str, command))}\n"
                 f"{done.stderr}")
    return done.stdout


def staged_place(path):
    """The place in the site of a file of the checkout; None if it has none."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if not path.startswith("docs/"):
        return None
    path = path.removeprefix("docs/")
    return re.sub(r"README\.md$", "index.md", path)


def stage_page(source):
    """Copies a page; its links lead to the places in the site. A link to a file
    without a page becomes the name of the file."""
    place = pathlib.PurePosixPath(staged_place(source))

    def moved(found):
        target = os.path.normpath(os.path.join(os.path.dirname(source),
                                               found[1]))
        if (ROOT / target).is_dir() and target.startswith("docs"):
            target += "/README.md"
        new = staged_place(target)
        if new is None:
            return f"](https://tenon.invalid/{target})"
        return f"]({os.path.relpath(new, place.parent)}{found[2] or ''})"
    text = LINK.sub(moved, (ROOT / source).read_text())
    text = re.sub(r"\[([^]]*)\]\(https://tenon\.invalid/([^)]*)\)",
                  lambda m: m[1] if m[1] == f"`{m[2]}`" else f"{m[1]} (`{m[2]}`)",
                  text)
    target = FOLDER / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def stage_docs():
    for path in sorted((ROOT / "docs").rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix == ".md":
            stage_page(name)
        elif path.suffix == ".svg":
            target = FOLDER / staged_place(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    for name in OUTSIDE:
        stage_page(name)


def stage_operators():
    folder = FOLDER / "reference" / "operators"
    folder.mkdir(parents=True)
    text = ("# Operators\n\nThe operators of the plugins of Tenon, by "
            "`opgen docs`.\n\n")
    for manifest in sorted((ROOT / "plugins").glob("*/plugin.yaml")):
        name = manifest.parent.name
        built = BUILD / "plugins" / name / f"{name}.so"
        command = [OPGEN, "docs", manifest.parent, "--pages", folder / name]
        for other in sorted((ROOT / "plugins").glob("*/plugin.yaml")):
            if other != manifest and "kernels_for" in "".join(
                    each.read_text() for each in manifest.parent.glob("*.yaml")):
                command += ["--with", other]
        if built.exists():
            command += ["--plugin", built]
        output(*command)
        first = (folder / name / "README.md").read_text().split("\n")[2]
        text += f"- [{name}]({name}/README.md): {first}\n"
    (folder / "README.md").write_text(text)


def stage_commands():
    folder = FOLDER / "reference" / "commands"
    folder.mkdir(parents=True)
    text = ("# Command line\n\nThe words and options of the programs, from "
            "their own tables; `--help` and the manual\npages print the "
            "same.\n\n")
    for program in (TENON, OPGEN):
        tables = folder / f"{program.name}.json"
        tables.write_text(output(program, "--commands"))
        (folder / f"{program.name}.md").write_text(output(
            sys.executable, ROOT / "tools" / "pages" / "pages.py", "markdown",
            tables))
        summary = json.loads(tables.read_text())["summary"]
        text += f"- [{program.name}]({program.name}.md): {summary}\n"
        tables.unlink()
    (folder / "dev.md").write_text(
        "# dev\n\nThe script of the checkout that builds, tests and "
        f"measures.\n\n```text\n{output(ROOT / 'dev', 'help')}```\n")
    text += "- [dev](dev.md): builds and tests a checkout\n"
    (folder / "README.md").write_text(text)


def stage_codes():
    """The long texts of all codes of opgen."""
    text = ("# Codes of opgen\n\nThe code of each message of opgen, as "
            "`opgen explain CODE` prints it. E is an error, W a\nwarning.\n\n")
    for code in output(OPGEN, "explain").split():
        title, _, rest = output(OPGEN, "explain", code).partition("\n")
        rest = re.sub(r"(?m)^(  .*(?:\n(?:  .*|))*)",
                      lambda m: f"```yaml\n{m[1].rstrip()}\n```\n\n", rest)
        text += f"## {title}\n\n{rest.strip()}\n\n"
    (FOLDER / "reference" / "codes.md").write_text(text)


# Pages that are made, and the page of docs/ that they follow.
MADE = {"reference/index.md": ["api/README.md", "operators/README.md",
                               "commands/README.md", "codes.md"],
        "contributing/index.md": ["rules.md", "changes.md", "security.md"]}


def contents_of(index):
    """Pages that an index links to, in order, without those of others."""
    text = index.read_text()
    name = str(index.relative_to(FOLDER))
    found = []
    for target, _ in LINK.findall(text):
        path = pathlib.Path(os.path.normpath(index.parent / target))
        own = (path.parent == index.parent or path.name in (
            "index.md", "README.md") and path.parent.parent == index.parent
            or (name, path.name) == ("concepts/index.md", "glossary.md"))
        if name == "index.md" and path.name == "glossary.md":
            own = False
        if own and path.suffix == ".md" and path != index:
            found.append(os.path.relpath(path, index.parent))
    found += MADE.get(name, [])
    if name == "index.md":
        found.append("about.md")
    return list(dict.fromkeys(found))


def add_contents():
    for made in FOLDER.rglob("README.md"):
        made.rename(made.parent / "index.md")
    for page in FOLDER.rglob("*.md"):
        text = page.read_text()
        page.write_text(re.sub(r"\]\(((?:[^)#:\s]*/)?)README\.md", r"](\1index.md",
                               text))
    for index in FOLDER.rglob("index.md"):
        pages = [re.sub(r"README\.md$", "index.md", each)
                 for each in contents_of(index)]
        lines = "\n".join(re.sub(r"\.md$", "", each) for each in pages)
        with index.open("a") as file:
            file.write(f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{lines}\n"
                       "```\n")


def all_files():
    """{path: (content, times)} of the folder."""
    return {path: (path.read_bytes(), (path.stat().st_atime_ns,
                                       path.stat().st_mtime_ns))
            for path in FOLDER.rglob("*") if path.is_file()}


def restore_times(before):
    """Sphinx reads only pages that are newer than its last run."""
    for path, (content, _) in all_files().items():
        if path in before and before[path][0] == content:
            os.utime(path, ns=before[path][1])


def main():
    before = all_files()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    stage_docs()
    api.write_pages(ROOT, FOLDER / "reference" / "api")
    stage_operators()
    stage_commands()
    stage_codes()
    add_contents()
    restore_times(before)


if __name__ == "__main__":
    main()
