# SPDX-License-Identifier: Apache-2.0
"""sdk/api.json agrees with the headers, and has everything that a generator of
a language binding needs.

    test_api.py SOURCE_ROOT CC LIBTENON LIBTENON_GRAPH
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1]).resolve()
os.environ["CC"] = sys.argv[2]
LIBRARIES = {"tenon": sys.argv[3], "tenon-graph": sys.argv[4],
             "tenon-data": sys.argv[5],
             "tenon-parallel": sys.argv[6]}
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(SOURCE / "tools" / "api"))
sys.dont_write_bytecode = True

import describe  # noqa: E402
import layout  # noqa: E402
import tap  # noqa: E402

TEXT = (SOURCE / "sdk" / "api.json").read_text()
API = json.loads(TEXT)
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
THREADS = {"any", "load", "worker", "host-thread", "job"}
GROUPS = {"tenon", "plugin", "kernel", "draft"}

# Keys of each kind of object, with their types; a key with "?" may be absent.
FUNCTION = {"name": str, "header": str, "group": str, "library?": str,
            "threads": str, "failure": str, "codes?": list, "result": dict,
            "parameters": list, "variadic?": bool, "doc": str}
POINTER = {"result": str, "parameters": list, "variadic?": bool,
           "threads?": str}
PARAMETER = {"name": str, "type": str, "count?": str, "function?": dict,
             "direction?": str, "nullable?": bool, "length?": str,
             "ownership?": str, "lifetime?": str}
FIELD = {"name": str, "type": str, "offset": int, "size": int, "count?": str,
         "since?": str, "doc?": str, "function?": dict, "fields?": list}
STRUCT = {"name": str, "header": str, "group": str, "size": int, "align": int,
          "grows": bool, "doc?": str, "fields": list}
FORMS = {
    "headers": {"name": str, "group": str, "doc": str},
    "handles": {"name": str, "retain?": str, "release?": str, "header": str,
                "group": str, "doc?": str},
    "functions": FUNCTION,
    "structs": STRUCT,
    "types": {"name": str, "header": str, "group": str, "type": str,
              "function?": dict, "doc?": str},
    "enums": {"header": str, "group": str, "of": list, "doc?": str,
              "values": list},
    "constants": {"name": str, "value": (int, str), "header": str,
                  "group": str, "doc?": str},
}
C_TYPES = {"void", "char", "int", "float", "double", "size_t", "function",
           "union", *(f"{sign}int{bits}_t" for sign in ("", "u")
                      for bits in (8, 16, 32, 64))}


def named(kind, name):
    found = [each for each in API[kind] if each["name"] == name]
    assert len(found) == 1, f"{len(found)} {kind} with the name {name}"
    return found[0]


def check_form(where, value, form):
    """Fails unless the object has exactly the keys of its form."""
    known = {key.rstrip("?"): kind for key, kind in form.items()}
    extra = set(value) - set(known)
    missing = {key for key in form if not key.endswith("?")} - set(value)
    assert not extra and not missing, f"{where}: {extra=} {missing=}"
    for key, kind in known.items():
        assert key not in value or isinstance(value[key], kind), (
            f"{where}.{key} is {value[key]!r}")


# ------------------------------------------------------- the file and headers

def the_file_agrees_with_the_headers():
    found, faults = describe.describe(SOURCE)
    tap.equal(faults, [], "comments without a required sentence")
    assert layout.text_of(found) == TEXT, (
        "sdk/api.json is not that of the headers; run ./dev api")


def changed(name, old, new):
    """(description, faults) of the headers with one text replaced."""
    root = FOLDER / "changed"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(SOURCE / "sdk/include", root / "sdk/include")
    path = root / "sdk/include/tenon" / name
    text = path.read_text()
    assert text.count(old) == 1, f"{name} has {text.count(old)} of: {old}"
    path.write_text(text.replace(old, new))
    return describe.describe(root)


def a_changed_header_makes_the_file_out_of_date():
    for name, old, new in (
            ("array.h", "  int64_t step;", "  int64_t stride;"),
            ("tape.h", "TN_TAPE_KEEP = 1u << 0", "TN_TAPE_KEEP = 1u << 5"),
            ("common.h", "/* Frees the text;", "/* Frees a text;"),
            ("array.h", "int64_t tn_array_size(", "int32_t tn_array_size(")):
        found, faults = changed(name, old, new)
        tap.equal(faults, [], new)
        assert layout.text_of(found) != TEXT, f"{new} changes nothing"


def a_comment_without_an_owner_is_refused():
    _, faults = changed("tape.h", "/* An empty tape. The caller releases *out. ",
                        "/* An empty tape. ")
    assert len(faults) == 1 and "tn_tape_create" in faults[0] and (
        "`out`" in faults[0]), faults


def a_comment_without_a_thread_tag_is_refused():
    _, faults = changed("array.h", "/* Number of elements. [any] */",
                        "/* Number of elements. */")
    assert len(faults) == 1 and "tn_array_size" in faults[0] and (
        "thread tag" in faults[0]), faults


# ------------------------------------------------------------------- contents

def every_object_has_its_form():
    tap.equal(API["schema"], 1)
    for kind, form in FORMS.items():
        assert API[kind], f"{kind} is empty"
        for each in API[kind]:
            where = each.get("name", kind)
            check_form(where, each, form)
            assert each["group"] in GROUPS, f"{where}: {each['group']}"
    for function in API["functions"]:
        for parameter in function["parameters"]:
            check_form(function["name"], parameter, PARAMETER)
    for struct in API["structs"]:
        for _, field in describe.members(struct["fields"]):
            check_form(struct["name"], field, FIELD)
            if "function" in field:
                check_form(field["name"], field["function"], POINTER)


def every_type_is_known():
    known = C_TYPES | {each["name"] for kind in ("handles", "structs", "types")
                       for each in API[kind]}

    def check(where, kind):
        base = re.sub(r"\bconst\b|\*|\bunsigned\b", "", kind).strip()
        assert base in known, f"{where} has the unknown type {kind}"

    def check_function(where, function, result):
        check(where, result)
        for each in function["parameters"]:
            check(where, each["type"])

    for each in API["functions"]:
        if each["group"] in ("tenon", "plugin"):
            check_function(each["name"], each, each["result"]["type"])
    for struct in API["structs"]:
        for path, field in describe.members(struct["fields"]):
            check(f"{struct['name']}.{path}", field["type"])
            if "function" in field:
                check_function(path, field["function"],
                               field["function"]["result"])


def every_function_has_a_contract():
    for each in API["functions"]:
        name = each["name"]
        assert each["threads"] in THREADS, name
        assert each["failure"] in ("code", "null", "never"), name
        if each["failure"] == "code":
            assert each["result"]["type"] in ("tn_code", "int32_t"), name
        if "*" in each["result"]["type"]:
            assert each["result"]["ownership"] in ("new", "borrowed"), name
        for parameter in each["parameters"]:
            if "*" not in parameter["type"]:
                continue
            assert parameter["direction"] in ("in", "out", "inout"), name
            if "**" in parameter["type"] and parameter["direction"] == "out":
                assert parameter["ownership"] in ("new", "borrowed"), (
                    f"{name}: {parameter}")
    for struct in API["structs"]:
        for path, field in describe.members(struct["fields"]):
            if "function" in field:
                assert field["function"].get("threads") in THREADS, (
                    f"{struct['name']}.{path} has no thread tag")


def every_handle_that_is_created_can_be_released():
    released = {f"{each['name']} **": each.get("release")
                for each in API["handles"]}
    for each in API["functions"]:
        for parameter in each["parameters"]:
            if parameter.get("ownership") == "new" and (
                    parameter["type"] in released):
                assert released[parameter["type"]], each["name"]


def contracts_are_those_of_the_comments():
    """Read by a person from array.h, graph.h, operator.h and common.h."""
    create = named("functions", "tn_array_create")
    tap.equal((create["threads"], create["failure"], create["library"]),
              ("any", "code", "tenon"))
    tap.equal(create["parameters"], [
        {"name": "rt", "type": "tn_runtime *", "direction": "in",
         "ownership": "borrowed"},
        {"name": "spec", "type": "const tn_spec *", "direction": "in",
         "ownership": "borrowed"},
        {"name": "out", "type": "tn_array **", "direction": "out",
         "ownership": "new"}])
    find = named("functions", "tn_graph_name")
    tap.equal((find["library"], find["codes"], find["threads"]),
              ("tenon-graph", ["TN_NOT_FOUND"], "host-thread"))
    tap.equal(find["parameters"][3:], [
        {"name": "name", "type": "const char **", "direction": "out",
         "ownership": "borrowed", "lifetime": "until the graph is changed"},
        {"name": "entry", "type": "tn_entry *", "direction": "out",
         "nullable": True}])
    text = named("functions", "tn_error_text")
    tap.equal(text["result"], {
        "type": "const char *", "ownership": "borrowed",
        "lifetime": "until the thread's next call of this library"})
    fail = named("functions", "tn_fail")
    tap.equal((fail["variadic"], fail["failure"]), (True, "never"))
    infer = named("functions", "tn_operator_infer")["parameters"]
    tap.equal((infer[1]["nullable"], infer[2]["direction"]), (True, "inout"))
    kernel = named("functions", "tn_kernel_map_run")
    tap.equal((kernel["failure"], kernel["threads"], "library" in kernel),
              ("code", "worker", False))
    values = named("functions", "tn_params_create")["parameters"][1]
    tap.equal((values["name"], values["length"]), ("values", "n"))
    release = named("functions", "tn_array_release")["parameters"][0]
    tap.equal((release["ownership"], release["nullable"]), ("taken", True))


def layouts_are_those_of_the_headers():
    """Offsets computed by hand for machines with pointers of eight bytes."""
    spec = named("structs", "tn_spec")
    tap.equal([(each["name"], each["offset"], each["size"])
               for each in spec["fields"]],
              [("dtype", 0, 4), ("ndim", 4, 4), ("shape", 8, 8)])
    tap.equal((spec["size"], spec["align"], spec["grows"]), (16, 8, False))
    sig = named("structs", "tn_sig")
    tap.equal((sig["size"], sig["fields"][2]["count"]),
              (8 + 16 * 8, "TN_MAX_NDIM"))
    call = named("structs", "tn_backward")
    tap.equal([each["offset"] for each in call["fields"]],
              [0, 4, 8, 16, 32, 48, 64])
    tap.equal((call["size"], call["grows"]), (88, True))


def values_are_those_of_the_headers():
    constants = {each["name"]: each["value"] for each in API["constants"]}
    constants.update((value["name"], value["value"]) for each in API["enums"]
                     for value in each["values"])
    expected = {"TN_F32": 2 + 32 * 256 + 65536, "TN_SHAPE": -6, "TN_OK": 0,
                "TN_BIT_BOOL": 4096, "TN_VERSION": "0.1.0",
                "TN_NONE": 4294967295, "TN_REQ_ADD": 3, "TN_MAX_NDIM": 16,
                "TN_MEMORY_MINIMAL": 1, "TN_TAPE_RECORD": 2}
    tap.equal({name: constants.get(name) for name in expected}, expected)
    request, = [each for each in API["enums"]
                if each["of"] == ["tn_access.mode"]]
    tap.equal([each["name"] for each in request["values"]],
              ["TN_READ", "TN_UPDATE", "TN_OVERWRITE"])


# -------------------------------------------------------- other descriptions

def assertions():
    """A C file that compiles only where the sizes and values are those."""
    skipped = "tenon/gradient.h"  # needs a C library; it has no struct
    lines = [f"#include <{name}>" for name in dict.fromkeys(
        each["header"] for each in API["structs"] + API["enums"])
        if name != skipped]
    for struct in API["structs"]:
        name = struct["name"]
        lines.append(f"_Static_assert(sizeof({name}) == {struct['size']}, "
                     f'"size of {name}");')
        lines += [f"_Static_assert(offsetof({name}, {path}) == "
                  f'{field["offset"]}, "{name}.{path}");'
                  for path, field in describe.members(struct["fields"])]
    for enum in API["enums"]:
        lines += [f'_Static_assert({each["name"]} == {each["value"]}, "");'
                  for each in enum["values"]]
    source = FOLDER / "assertions.c"
    source.write_text("\n".join(lines) + "\n")
    return source


def numbers_hold_on_aarch64():
    clang = shutil.which("clang")
    if clang is None:
        raise tap.Skip("clang is missing: it compiles for another processor")
    tap.output([clang, "--target=aarch64-linux-gnu", "-ffreestanding",
                "-fsyntax-only", "-std=c11", "-I", SOURCE / "sdk/include",
                assertions()])


def numbers_hold_on_x86_64():
    clang = shutil.which("clang")
    if clang is None:
        raise tap.Skip("clang is missing: it compiles for another processor")
    tap.output([clang, "--target=x86_64-linux-gnu", "-ffreestanding",
                "-fsyntax-only", "-std=c11", "-I", SOURCE / "sdk/include",
                assertions()])


def libraries_export_exactly_these_functions():
    for library, path in LIBRARIES.items():
        found = tap.output(["nm", "-D", "--defined-only", path])
        exported = set(re.findall(r" T (tn_[a-z]\w*)", found))
        tap.equal(exported, {each["name"] for each in API["functions"]
                             if each.get("library") == library}, library)


def the_example_of_the_page_runs():
    page = (SOURCE / "docs/how-to/language-bindings.md").read_text()
    code, = re.findall(r"```python\n(.*?)```", page, re.S)
    printed, = re.findall(r"```text\n(.*?)```", page, re.S)
    script = FOLDER / "signatures.py"
    script.write_text(code)
    found = tap.output([sys.executable, script, SOURCE / "sdk/api.json"])
    tap.equal(found, printed, "output")


if __name__ == "__main__":
    with SCRATCH:
        tap.run([the_file_agrees_with_the_headers,
                 a_changed_header_makes_the_file_out_of_date,
                 a_comment_without_an_owner_is_refused,
                 a_comment_without_a_thread_tag_is_refused,
                 every_object_has_its_form, every_type_is_known,
                 every_function_has_a_contract,
                 every_handle_that_is_created_can_be_released,
                 contracts_are_those_of_the_comments,
                 layouts_are_those_of_the_headers,
                 values_are_those_of_the_headers, numbers_hold_on_x86_64,
                 numbers_hold_on_aarch64,
                 libraries_export_exactly_these_functions,
                 the_example_of_the_page_runs])
