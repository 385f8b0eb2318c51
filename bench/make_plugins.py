# SPDX-License-Identifier: Apache-2.0
"""100 plugins of 50 operators each, from manifests, through opgen and gcc.

They are made once per build folder; a newer opgen makes them anew.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess

PLUGINS = 100
OPERATORS = 50
SDK = pathlib.Path(__file__).resolve().parents[1] / "sdk" / "include"

PLUGIN = """\
opgen: 1
plugin: {name}
release: 1
summary: Plugin number {number} of a measurement
license: Apache-2.0
operators: [all.yaml]
"""

FAMILY = """\
opgen: 1
family: all
since: 1
doc: Adds and multiplies; the numbers do not matter.
params:
  - {name: scale, type: float, default: 1, doc: Factor}
  - {name: times, type: int, default: 1, min: 1, max: 9, doc: Repetitions}
dtypes: {T: [f32]}
inputs:
  - {name: x, dtype: T, doc: First operand}
  - {name: y, dtype: T, shape: x, doc: Second operand}
outputs: [{name: out, dtype: T, shape: x, inplace: x}]
gradient:
  formula: {x: grad.out*scale, y: grad.out*times}
each:
"""

MEMBER = """\
  - op: op{number:02}
    summary: Operator number {number}
    forward: {{out: x*scale + y*times + {number}}}
"""


def write(folder, number):
    """The manifests of one plugin."""
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(
        PLUGIN.format(name=folder.name, number=number))
    (folder / "all.yaml").write_text(
        FAMILY + "".join(MEMBER.format(number=i) for i in range(OPERATORS)))


def compile_plugin(opgen, folder):
    """manifests -> C -> a shared object, as the build of a plugin does it."""
    binary = folder / f"{folder.name}.so"
    subprocess.run([opgen, "generate", folder / "plugin.yaml", "-o", folder],
                   check=True)
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", "-I", SDK,
         "-I", folder, *sorted(folder.glob("*.gen.c")), "-o", binary, "-lm",
         f"-Wl,--version-script={folder / 'plugin.gen.map'}", "-Wl,-z,now"],
        check=True)
    return binary


def make(build, folder):
    """Paths of all plugins, made if they are missing or older than opgen."""
    opgen = build / "tools" / "opgen" / "opgen"
    done = folder / "done"
    folders = [folder / f"many{i:03}" for i in range(PLUGINS)]
    if not done.exists() or done.stat().st_mtime < opgen.stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        for number, each in enumerate(folders):
            write(each, number)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda each: compile_plugin(opgen, each), folders))
        done.touch()
    return [each / f"{each.name}.so" for each in folders]
