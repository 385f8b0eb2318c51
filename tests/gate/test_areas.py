# SPDX-License-Identifier: Apache-2.0
"""Areas of this build: each folder is one, and the names are not ambiguous.

    test_areas.py SOURCE_ROOT BUILD_ROOT
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import areas  # noqa: E402
import tap  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])
TESTS, TARGETS = areas.read_build(BUILD)


def test(name, *suites):
    """A test of meson, as its introspection describes it."""
    return {"name": name, "suite": [f"lab:{suite}" for suite in suites],
            "depends": [f"{name}@exe", "lib@sha"]}


LAB = [test("sums", "engine"), test("waits", "engine", "nn"),
       test("learns", "nn")]
LAB_FILES = {"sums@exe": ["/b/t/sums"], "waits@exe": ["/b/t/waits"],
             "learns@exe": ["/b/t/learns"], "lib@sha": ["/b/core/lib.so"]}


def names(*arguments):
    return [each["name"] for each in areas.select(LAB, *arguments)]


def a_suite_selects_all_its_tests():
    tap.equal(names(["nn"], []), ["waits", "learns"])


def a_name_selects_one_test():
    tap.equal(names(["learns"], []), ["learns"])


def several_areas_select_each_test_once():
    tap.equal(names(["nn", "engine", "waits"], []),
              ["waits", "learns", "sums"])


def no_area_selects_all_but_the_excluded_ones():
    tap.equal(names([], ["engine"]), ["learns"])


def files_are_those_of_the_selected_tests_only():
    found = areas.files_of(areas.select(LAB, ["sums"], []), LAB_FILES, "/b")
    tap.equal(found, ["core/lib.so", "t/sums"])


def an_unknown_area_is_refused_with_the_nearest_and_the_list():
    try:
        areas.select(LAB, ["engin"], [])
    except areas.Unknown as refusal:
        text = str(refusal)
    assert "there is no area 'engin'; did you mean 'engine'?" in text, text
    assert "Areas: api binding call choice engine" in text, text


def every_folder_of_the_sources_is_an_area():
    suites, _ = areas.names_of(TESTS)
    folders = [path.name for parent in ("core", "plugins", "tools")
               for path in (SOURCE / parent).iterdir()
               if path.is_dir() and path.name != "__pycache__"]
    tap.equal(sorted(set(folders) - set(suites) - set(areas.WITHIN)), [])
    tap.equal(sorted(set(areas.WITHIN.values()) - set(suites)), [])
    tap.equal(sorted(set(areas.WITHIN) & set(suites)), [])
    tap.equal(sorted(set(areas.WITHIN) - set(folders)), [])


def the_graph_needs_no_other_plugin_than_tensor():
    found = areas.files_of(areas.select(TESTS, ["graph"], []), TARGETS, BUILD)
    tap.equal([file for file in found if file.startswith("plugins/")],
              ["plugins/tensor/tensor.so"])


def the_engine_needs_no_plugin():
    found = areas.files_of(areas.select(TESTS, ["engine"], []), TARGETS, BUILD)
    tap.equal([file for file in found if not file.startswith("tests/engine/")],
              [])


def installed_files_are_built_for_a_test_that_installs():
    info = json.loads((BUILD / "meson-info/intro-targets.json").read_text())
    installed = {each["id"] for each in info
                 if each["installed"] and each["build_by_default"]}
    needs = {each["name"]: set(each["depends"]) for each in TESTS}
    for name in "install", "docs", "new", "kernels_for":
        tap.equal(sorted(installed - needs.get(name, installed)), [], name)


def no_two_tests_have_one_name():
    every = [each["name"] for each in TESTS]
    tap.equal(sorted(each for each in set(every) if every.count(each) > 1), [])


def no_test_has_the_name_of_another_suite():
    suites, _ = areas.names_of(TESTS)
    tap.equal([each["name"] for each in TESTS if each["name"] in suites
               and each["name"] not in areas.suites_of(each)], [])


tap.run([a_suite_selects_all_its_tests, a_name_selects_one_test,
         several_areas_select_each_test_once,
         no_area_selects_all_but_the_excluded_ones,
         files_are_those_of_the_selected_tests_only,
         an_unknown_area_is_refused_with_the_nearest_and_the_list,
         every_folder_of_the_sources_is_an_area,
         the_graph_needs_no_other_plugin_than_tensor,
         the_engine_needs_no_plugin,
         installed_files_are_built_for_a_test_that_installs,
         no_two_tests_have_one_name,
         no_test_has_the_name_of_another_suite])
