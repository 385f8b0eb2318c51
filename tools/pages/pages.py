#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a manual page, a page of the site, or a shell completion from the tables of a command.

    pages.py bash|zsh|man|markdown TABLES.json

TABLES.json is the output of `PROGRAM --commands`. The result goes to standard
output.
"""

import json
import re
import sys

GLOBAL = ["--help", "--version", "--commands"]


def completed(option):
    """The option as a shell completes it: "-Wno-NAME" is "-Wno-"."""
    return re.sub(r"(?<=[a-z]-)[A-Z]+$", "", option["name"])


def is_file(option):
    return re.match(r"(FILE|DIR|PATH)", option["value"] or "") is not None


def one_line(text):
    return " ".join(text.split())


# ---------------------------------------------------------------------- bash

BASH = """\
# bash completion for PROGRAM. Made by tools/pages/pages.py.
ARRAYS_PROGRAM() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local words= options= n=$COMP_CWORD
  COMPREPLY=()
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((n == 1)); then
    COMPREPLY=($(compgen -W 'COMMANDS' -- "$cur"))
    return
  fi
FILES  case ${COMP_WORDS[1]} in
CASES  esac
  [[ $cur == -* ]] && words=$options
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _PROGRAM PROGRAM
"""

# For operands that are operators and @files. Bash takes a word that
# begins with @ for the name of a host; it passes the word with its @.
BASH_ARRAYS = """\
_PROGRAM_operators() {
  "$1" list operators 2>/dev/null | sed -n 's/^  *\\([^ @]*\\)@.*/\\1/p'
}

_PROGRAM_files() {
  local name
  while IFS= read -r name; do
    if [[ -d $name ]]; then
      COMPREPLY+=("@$name/")
      compopt -o nospace 2>/dev/null
    else
      COMPREPLY+=("@$(printf %q "$name")")
    fi
  done < <(compgen -f -- "${1#@}")
}

"""
BASH_FILES = """\
  if [[ $2 == @* ]]; then
    _PROGRAM_files "$2"
    return
  fi
"""


def has_arrays(tables):
    return any("operator" in c["operands"] for c in tables["commands"])


def bash_values(option):
    """Words after the option. Without any, the shell offers file names."""
    choices = " ".join(option["choices"])
    return f"        {completed(option)}) words='{choices}'; options=; ;;\n"


def bash_case(command):
    names = " ".join(dict.fromkeys(completed(o) for o in command["options"]))
    first = " ".join(command["words"])
    lines = f"    {command['name']})\n      options='{names}'\n"
    if first:
        lines += f"      ((n == 2)) && words='{first}'\n"
    if command["operands"].startswith("operator"):
        lines += ("      ((n == 2)) && "
                  "words=$(_PROGRAM_operators \"${COMP_WORDS[0]}\")\n")
    valued = [o for o in command["options"] if o["value"]]
    if valued:
        lines += "      case $prev in\n"
        lines += "".join(bash_values(o) for o in valued)
        lines += "      esac\n"
    return lines + "      ;;\n"


def make_bash(tables):
    commands = [c["name"] for c in tables["commands"]] + GLOBAL
    text = BASH.replace("COMMANDS", " ".join(commands))
    text = text.replace("CASES", "".join(map(bash_case, tables["commands"])))
    arrays = has_arrays(tables)
    text = text.replace("ARRAYS", BASH_ARRAYS if arrays else "")
    text = text.replace("FILES", BASH_FILES if arrays else "")
    return text.replace("PROGRAM", tables["program"])


# ----------------------------------------------------------------------- zsh

ZSH_ARRAYS = """\
_PROGRAM_operators() {
  local -a names
  names=(${(f)"$(_call_program operators PROGRAM list operators 2>/dev/null |
    sed -n 's/^  *\\([^ @]*\\)@.*/\\1/p')"})
  compadd -a names
}

_PROGRAM_files() {
  compset -P '*@'
  _files
}

"""

ZSH = """\
#compdef PROGRAM
# zsh completion for PROGRAM. Made by tools/pages/pages.py.
ARRAYS_PROGRAM() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  local -a commands
  commands=(
COMMANDS  )
  _arguments -C '1:command:->command' '*::operand:->operand'
  case $state in
    command) _describe -t commands command commands ;;
    operand)
      case $words[1] in
CASES      esac
      ;;
  esac
}

_PROGRAM "$@"
"""


def zsh_quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_help(text):
    return re.sub(r"([][:\\])", r"\\\1", one_line(text))


def zsh_option(option):
    """An argument of _arguments: '*--plugin=[help]:FILE:_files'."""
    name = completed(option)
    value = option["value"]
    form = name
    if value and name.startswith("--"):
        form += "="
    elif value:
        form += "+"
    elif name.endswith("-"):
        form, value = name + "-", "NAME"
    text = f"*{form}[{zsh_help(option['help'])}]"
    if value:
        action = ""
        if option["choices"]:
            action = f"({' '.join(option['choices'])})"
        elif is_file(option):
            action = "_files"
        text += f":{zsh_help(value)}:{action}"
    return zsh_quote(text)


def zsh_operands(command, arrays):
    """Arguments of _arguments for the operands, in their order."""
    kinds = command["operands"].split()
    first = []
    if command["words"]:
        first = [f"1:word:({' '.join(command['words'])})"]
    elif kinds and kinds[0] == "operator":
        first = ["1:operator:_PROGRAM_operators"]
    rest = ["*:operand:"]
    if "file" in kinds:
        rest = ["*:file:_PROGRAM_files" if arrays else "*:file:_files"]
    return [zsh_quote(text) for text in first + rest]


def zsh_case(command, arrays):
    parts = [zsh_option(o) for o in command["options"]]
    parts += zsh_operands(command, arrays)
    joined = " \\\n            ".join(parts)
    return (f"        {command['name']})\n          _arguments \\\n"
            f"            {joined}\n          ;;\n")


def make_zsh(tables):
    commands = "".join(
        "    " + zsh_quote(f"{c['name']}:{one_line(c['summary'])}") + "\n"
        for c in tables["commands"])
    text = ZSH.replace("COMMANDS", commands)
    arrays = has_arrays(tables)
    text = text.replace("CASES", "".join(
        zsh_case(c, arrays) for c in tables["commands"]))
    text = text.replace("ARRAYS", ZSH_ARRAYS if arrays else "")
    return text.replace("PROGRAM", tables["program"])


# ----------------------------------------------------------------------- man


def roff(text):
    """Text without requests: no line begins with a control character."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def verbatim(text):
    """Lines as they are, in the font of a terminal."""
    return f".PP\n.nf\n{roff(text.rstrip())}\n.fi\n" if text.strip() else ""


def sentence(text):
    return text[0].upper() + one_line(text)[1:] + "."


def man_option(option):
    value = f" \\fI{roff(option['value'])}\\fR" if option["value"] else ""
    return (f".TP\n\\fB{roff(option['name'])}\\fR{value}\n"
            f"{roff(one_line(option['help']))}\n")


def man_command(command, program):
    return (f".SS {program} {roff(command['usage'])}\n"
            f"{roff(sentence(command['summary']))}\n"
            f"{verbatim(command['help'])}"
            f"{''.join(map(man_option, command['options']))}")


def make_man(tables):
    program = tables["program"]
    other = {"tenon": "opgen", "opgen": "tenon"}[program]
    text = (f".\\\" Made by tools/pages/pages.py.\n"
            f".TH {program.upper()} 1 \"\" \"Tenon {tables['version']}\" "
            f"\"Tenon\"\n.nh\n.ad l\n.SH NAME\n{program} \\- {roff(tables['summary'])}\n"
            f".SH SYNOPSIS\n.B {program}\n.I COMMAND\n[options]\n.PP\n"
            f".B {program} COMMAND \\-\\-help\n.PP\n"
            f".B {program} \\-\\-version\n.PP\n.B {program} \\-\\-commands\n"
            ".SH COMMANDS\n")
    text += "".join(man_command(c, program) for c in tables["commands"])
    if tables["files"]:
        text += f".SH FILES\n{roff(tables['files'])}"
    if tables.get("environment"):
        text += f".SH ENVIRONMENT\n{roff(tables['environment'])}"
    status = tables["status"].removeprefix("Status: ")
    text += f".SH EXIT STATUS\n{roff(status)}"
    return text + f".SH SEE ALSO\n.BR {other} (1)\n"


# ------------------------------------------------------------------ Markdown


def plain(text):
    """Text whose characters are no marks."""
    return re.sub(r"([\\*_<>|\[\]`])", r"\\\1", one_line(text))


def fenced(text):
    return f"```text\n{text.rstrip()}\n```\n\n" if text.strip() else ""


def markdown_command(command, program):
    text = (f"## {program} {command['name']}\n\n"
            f"```text\n{program} {command['usage']}\n```\n\n"
            f"{plain(sentence(command['summary']))}\n\n"
            f"{fenced(command['help'])}")
    if command["options"]:
        text += "| option | meaning |\n|---|---|\n"
    for option in command["options"]:
        value = f" {option['value']}" if option["value"] else ""
        text += f"| `{option['name']}{value}` | {plain(option['help'])} |\n"
    return text + "\n"


def make_markdown(tables):
    program = tables["program"]
    status = tables["status"].removeprefix("Status: ")
    text = f"# {program}\n\n{plain(sentence(tables['summary']))}\n\n"
    text += "".join(markdown_command(c, program) for c in tables["commands"])
    if tables["files"]:
        text += f"## Files\n\n{fenced(tables['files'])}"
    if tables.get("environment"):
        text += f"## Environment\n\n{fenced(tables['environment'])}"
    return text + f"## Exit status\n\n{fenced(status)}"


MAKERS = {"markdown": make_markdown, "bash": make_bash, "zsh": make_zsh, "man": make_man}


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        sys.stdout.write(MAKERS[sys.argv[1]](json.load(file)))


if __name__ == "__main__":
    main()
