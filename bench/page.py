# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of a page from saved results of benches.

    page.py FOLDER [--check]

FOLDER has performance.md, and data/NAME.json as samples.py writes it. The page has
a line `<!-- bench: NAME -->` before the tables of a bench, and `<!-- end -->` after
them. All text between these lines is replaced if there is data of that bench.
Tables without data remain as a person wrote them. --check changes nothing, and
fails if the page differs from the data.
"""

import json
import pathlib
import re
import sys

BLOCK = re.compile(r"^<!-- bench: (\w+) -->\n(.*?)^<!-- end -->\n", re.S | re.M)


class Problem(Exception):
    """The page and the data do not fit; the text states the remedy."""


def cell_text(cell):
    """A cell, whose text must not end it."""
    return cell.replace("|", "\\|")


def table_lines(table):
    """One table, with its title as a sentence."""
    def line(cells):
        return "| " + " | ".join(map(cell_text, cells)) + " |"
    return [f"{table['title']}:", "", line(table["head"]),
            "|" + "---|" * len(table["head"]), *map(line, table["rows"]), ""]


def block_text(data):
    """The machine, the date and the tables of one bench."""
    lines = ["", f"{data['machine']}, {data['processors']} processors, "
             f"{data['date']}, commit `{data['commit']}`.", ""]
    for table in data["tables"]:
        lines += table_lines(table)
    return "\n".join(lines) + "\n"


def fill_page(page, every):
    """The page with the tables of `every`, {bench: data}."""
    blocks = [name for name, _ in BLOCK.findall(page)]
    for name in every:
        if blocks.count(name) != 1:
            raise Problem(
                f"performance.md has {blocks.count(name)} blocks for "
                f"data/{name}.json; write one: <!-- bench: {name} --> and "
                "<!-- end -->, each on its own line")

    def filled(block):
        if block[1] not in every:
            return block[0]
        return (f"<!-- bench: {block[1]} -->\n{block_text(every[block[1]])}"
                "<!-- end -->\n")
    return BLOCK.sub(filled, page)


def read_data(folder):
    """{bench: data} of a folder, which may be missing."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(folder.glob("*.json"))}


def main(folder, *options):
    """Writes the page, or compares it."""
    folder = pathlib.Path(folder)
    path = folder / "performance.md"
    page = path.read_text(encoding="utf-8")
    found = fill_page(page, read_data(folder / "data"))
    if "--check" not in options:
        path.write_text(found, encoding="utf-8")
    elif found != page:
        raise Problem(f"{path} differs from its data; run: "
                      f"python3 bench/page.py {folder}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Problem as problem:
        sys.exit(f"page.py: {problem}")
