# SPDX-License-Identifier: Apache-2.0
"""The source tarball and the description of the packages. The packages themselves
are built and tried by `./dev dist`.

    test_dist.py SOURCE_ROOT BUILD_ROOT VERSION LIBRARY...

VERSION is that of the project, each LIBRARY one with exported names.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from installed import Installed  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])
VERSION, *LIBRARIES = sys.argv[3:]
PACKAGING = SOURCE / "packaging"
DEBIAN = PACKAGING / "debian"
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
NAME = f"tenon-{VERSION}"
# Removed by debian/rules: debhelper installs its own form of both.
REPLACED = {"/usr/share/doc/tenon/LICENSE", "/usr/share/doc/tenon/CHANGELOG.md"}


def needs_history():
    done = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"],
                          capture_output=True, check=False)
    if done.returncode:
        raise tap.Skip("this source has no git history, so no tarball is made")


def make_tarball(folder, umask=0o022, **env):
    """The path of a tarball of HEAD."""
    return pathlib.Path(tap.output(
        [PACKAGING / "tarball.sh", SOURCE, "HEAD", FOLDER / folder],
        env={**os.environ, **env}, cwd=FOLDER, umask=umask).strip())


def tarball_has_the_tracked_files_and_no_others():
    needs_history()
    tracked = {}
    for line in tap.output(["git", "-C", SOURCE, "ls-tree", "-rz", "HEAD"]
                           ).split("\0")[:-1]:
        (mode, _, blob), name = line.split("\t")[0].split(), line.split("\t")[1]
        tracked[f"{NAME}/{name}"] = (mode, blob)
    assert len(tracked) > 1000, len(tracked)
    found = {}
    with tarfile.open(make_tarball("once")) as tarball:
        for member in tarball:
            if member.isdir():
                continue
            content = (member.linkname.encode() if member.issym() else
                       tarball.extractfile(member).read())
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content)
            mode = ("120000" if member.issym() else
                    "100755" if member.mode & 0o111 else "100644")
            found[member.name] = (mode, blob.hexdigest())
    tap.equal(sorted(set(found) ^ set(tracked)), [], "names in one of both")
    for name, each in tracked.items():
        tap.equal(found[name], each, name)


def same_commit_gives_the_same_bytes():
    """Whatever the settings of the user, the time and the zone."""
    needs_history()
    settings = FOLDER / "gitconfig"
    settings.write_text("[tar]\n  umask = 0077\n[core]\n  autocrlf = true\n")
    first = make_tarball("first", TZ="UTC")
    second = make_tarball("second", 0o077, TZ="Asia/Tokyo", GZIP="-1",
                          GIT_CONFIG_GLOBAL=str(settings))
    tap.equal(second.read_bytes() == first.read_bytes(), True, "same bytes")


def tarball_is_configured_without_git():
    needs_history()
    with tarfile.open(make_tarball("once")) as tarball:
        tarball.extractall(FOLDER)
    tap.output(["meson", "setup", "build", "-Dtests=false"], cwd=FOLDER / NAME,
               env={**os.environ, "GIT_DIR": "/nonexistent"})


def version_of_the_packages_is_that_of_the_project():
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    tap.equal(re.match(r"tenon \(([\d.]+)-\d+\) ", first)[1], VERSION,
              "debian/changelog")


def stanzas():
    """The fields of each package in debian/control; the source is first."""
    found = []
    for text in (DEBIAN / "control").read_text().split("\n\n"):
        fields = re.findall(r"^([\w-]+):((?:.*\n?)(?: .*\n?)*)", text, re.M)
        found.append({name: value.strip() for name, value in fields})
    return found


def packages_have_all_fields_of_a_package():
    source, *packages = stanzas()
    tap.equal(source["Source"], "tenon", "source")
    names = [package["Package"] for package in packages]
    tap.equal(names, ["libtenon0", "libtenon-dev", "tenon-plugins",
                      "tenon-plugins-mpi", "tenon-plugins-cuda", "tenon", "opgen", "tenon-doc"],
              "packages")
    for package in packages:
        for field in ("Architecture", "Depends", "Description"):
            assert package.get(field), f"{package['Package']} has no {field}"
    files = sorted(path.stem for path in DEBIAN.glob("*.install"))
    tap.equal(files, sorted(names), "packages with a list of files")


def build_needs_what_dev_installs():
    """Of need_build in ./dev, except essential packages of every build."""
    body = re.search(r"^need_build\(\) \{\n(.*?)^\}", (SOURCE / "dev").read_text(),
                     re.S | re.M)[1]
    wanted = set(re.findall(r"^ +need \S+ (\S+) ", re.sub(
        r'"(/[^"]*)"', r"\1", body).replace("$(uname -m)", "M"), re.M))
    assert {"meson", "libyaml-dev"} <= wanted, wanted
    declared = {re.split(r"[ :(]", each.strip())[0] for each in
                stanzas()[0]["Build-Depends"].split(",")}
    tap.equal(declared - {"debhelper-compat"}, wanted - {"gcc", "libc6-dev"},
              "Build-Depends")


def installed_files():
    """Of `meson install`, at their places in Debian."""
    root = Installed(BUILD, FOLDER).root
    for path in root.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            continue
        name = str(path.relative_to(root))
        yield "/usr/" + re.sub(r"^lib/", "lib/x86_64-linux-gnu/", name)


def is_of(path, pattern):
    """Whether a file is one of a line in debian/*.install: it, or in it."""
    path = pathlib.PurePosixPath(path)
    return any(each.match("/" + pattern) for each in (path, *path.parents))


def every_installed_file_is_in_one_package():
    patterns = [(path.stem, line.split()[0]) for path in DEBIAN.glob("*.install")
                for line in path.read_text().splitlines()]
    unused = set(patterns)
    files = sorted(installed_files())
    assert len(files) > 200, len(files)
    wrong = []
    for path in files:
        matching = [each for each in patterns if is_of(path, each[1])]
        unused -= set(matching)
        packages = sorted({package for package, _ in matching})
        if path not in REPLACED and len(packages) != 1:
            wrong.append(f"{path} is in {packages or 'no package'}")
    assert not wrong, "\n".join(
        [*wrong, "name each in one packaging/debian/*.install"])
    tap.equal(sorted(unused), [], "lines without an installed file")


def exported_names_are_those_of_the_symbols_file():
    tap.output([sys.executable, PACKAGING / "symbols.py", "--check", VERSION,
                *LIBRARIES])


def licence_is_the_same_in_both_descriptions():
    text = (DEBIAN / "copyright").read_text()
    assert text.startswith("Format: https://www.debian.org/doc/packaging-manuals/"
                           "copyright-format/1.0/\n"), text[:90]
    project = (SOURCE / "meson.build").read_text()
    licence = re.search(r"license: '([^']+)'", project)[1]
    tap.equal(set(re.findall(r"^License: (.*)$", text, re.M)), {licence},
              "licence")


if __name__ == "__main__":
    with SCRATCH:
        tap.run([tarball_has_the_tracked_files_and_no_others,
                 same_commit_gives_the_same_bytes,
                 tarball_is_configured_without_git,
                 version_of_the_packages_is_that_of_the_project,
                 packages_have_all_fields_of_a_package,
                 build_needs_what_dev_installs,
                 every_installed_file_is_in_one_package,
                 exported_names_are_those_of_the_symbols_file,
                 licence_is_the_same_in_both_descriptions])
