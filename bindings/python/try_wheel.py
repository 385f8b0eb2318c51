# SPDX-License-Identifier: Apache-2.0
"""Uses a wheel as its readers would, in an empty environment and an empty folder.

    try_wheel.py WHEEL

Nothing of the source tree is in its way; the pages whose code runs are copied. A new plugin
is built twice by the wheel's own opgen, headers and pkg-config file: by meson, and by one
call of the compiler. Prints a line for each step, and ends with the first failure.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

ARRAYS = """
import numpy as np, tenon as tn
x = tn.array([[1, 2], [3, 4]], dtype="f32")
y = (x * x + 1).numpy()
np.testing.assert_array_equal(y, [[2, 5], [10, 17]])
np.testing.assert_allclose(tn.ops.elemwise.sinh(tn.array([0.0, 1.0])).numpy(),
                           [0, 1.1752012], rtol=1e-6)
x.attach_grad()
with tn.record():
    z = x * x * x
z.backward()
np.testing.assert_allclose(x.grad.numpy(), [[3, 12], [27, 48]], rtol=1e-6)
"""

PLUGIN = """
import sys
import numpy as np, tenon as tn
tn.load(sys.argv[1])
x = tn.array([1.0, 2.0, 3.0])
np.testing.assert_array_equal(tn.ops.acme.cube(x, a=1.0).numpy(), [1, 4, 9])
"""

BINDING = """opgen: 1
op: erf
summary: Error function
inputs:
  - {name: x, dtype: f64}
outputs:
  - {name: out, dtype: f64, shape: x}
binding:
  library: libm.so.6
  symbol: erf
  returns: {c: double, to: out}
  map: x
  thread: any
  args:
    - {c: double, pass: x}
gradient: {none: true, why: No operator has the derivative}
examples:
  - {name: zero, x: [0], out: [0]}
"""


class Environment:
    """An environment with the wheel alone, in a folder of its own."""

    def __init__(self, wheel, folder):
        self.folder = folder
        self.bin = folder / "env/bin"
        self.variables = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(folder)}
        # pip may have to use another address of PyPI.
        self.variables.update({key: value for key, value in os.environ.items()
                               if key.startswith(("PIP_", "SSL_", "REQUESTS_"))
                               or key.lower().endswith("_proxy")})
        self.run(sys.executable, "-m", "venv", folder / "env")
        self.run("pip", "install", "-q", "--disable-pip-version-check", wheel)
        prefix = self.run("python", "-m", "tenon", "prefix").strip()
        self.variables["PKG_CONFIG_PATH"] = f"{prefix}/lib/pkgconfig"

    def run(self, *command):
        """What the command prints; its failure ends this program."""
        done = subprocess.run([str(each) for each in command], cwd=self.folder, text=True,
                              env=self.variables, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"try_wheel.py: exit {done.returncode} of {' '.join(map(str, command))}\n"
                     f"{done.stdout}")
        return done.stdout

    def expect(self, text, *command):
        """Fails unless the command prints that line."""
        found = self.run(*command).strip()
        if found != text:
            sys.exit(f"try_wheel.py: {' '.join(map(str, command))}\n"
                     f"expected: {text}\nfound:    {found}")


def try_programs(env):
    env.expect("[0, 1.1752012]", "tenon", "run", "elemwise.sinh", "[0, 1]")
    # libtenon-manifest opens the libyaml and libffi of the wheel.
    manifest = env.folder / "libm" / "erf.yaml"
    manifest.parent.mkdir()
    manifest.write_text(BINDING)
    env.expect("0", "tenon", "run", "libm.erf", "f64:0", "--plugin", manifest)
    inside = pathlib.Path(env.run("python", "-m", "tenon", "prefix").strip())
    if env.folder.resolve() not in inside.resolve().parents:
        sys.exit(f"try_wheel.py: the prefix {inside} is outside of the environment")
    stubs = pathlib.Path(env.run("python", "-m", "tenon.stubs", "typings").strip())
    for stub in (env.folder / stubs / "ops.pyi", inside.parent / "ops.pyi"):
        if "def sinh(data: Tensor" not in stub.read_text():
            sys.exit(f"try_wheel.py: {stub} does not have elemwise.sinh")
    print("programs: tenon with a manifest, python -m tenon, python -m tenon.stubs")


def try_arrays(env):
    env.run("python", "-c", ARRAYS)
    print("arrays: an expression, an operator and a gradient")


def try_plugins(env):
    env.run("opgen", "new", "acme.cube")
    project = env.folder / "acme"
    env.run("meson", "setup", project / "build", project)
    env.run("meson", "compile", "-C", project / "build")
    env.run("meson", "test", "-C", project / "build")
    env.run("python", "-c", PLUGIN, project / "build/acme.so")
    print("plugins: opgen new, built by meson; its tests pass; Python loads it")
    generated = env.folder / "generated"
    env.run("opgen", "generate", project / "plugin.yaml", "-o", generated)
    flags = env.run("pkg-config", "--cflags", "tenon").split()
    flags += env.run("pkg-config", "--variable=plugin_cflags", "tenon").split()
    env.run("cc", "-O2", "-shared", "-fPIC", *flags, *sorted(generated.glob("*.c")),
            "-o", env.folder / "acme.so", "-lm")
    env.run("python", "-c", PLUGIN, env.folder / "acme.so")
    print("plugins: the same by pkg-config and cc")


def try_pages(env):
    """Runs the code of the pages for Python, the tutorials among them."""
    root = HERE.parents[1]
    copy = env.folder / "pages"
    shutil.copytree(root / "docs", copy / "docs")
    tests = copy / "bindings/python/tests"
    tests.mkdir(parents=True)
    shutil.copy(HERE / "tests/test_pages.py", tests)
    pytest = re.search(r"^pytest==.*", (HERE / "requirements.txt").read_text(), re.M)[0]
    env.run("pip", "install", "-q", "--disable-pip-version-check", pytest)
    last = env.run("pytest", "-q", tests).strip().splitlines()[-1]
    print(f"pages: {last}")


def try_tutorials(env):
    tests = pathlib.Path(__file__).resolve().parent / "tests" / "test_tutorials.py"
    for page in ("python-modeller.md", "python-author.md"):
        folder = env.folder / page.partition(".")[0]
        folder.mkdir()
        env.run("python", tests, "--run", page, folder)
    print("tutorials: both pages for Python")


def main(wheel):
    wheel = pathlib.Path(wheel).resolve()
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        env = Environment(wheel, folder)
        try_programs(env)
        try_arrays(env)
        try_plugins(env)
        try_pages(env)
        try_tutorials(env)
    finally:
        shutil.rmtree(folder)
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
