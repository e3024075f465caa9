# SPDX-License-Identifier: Apache-2.0
"""The binding against include/moescope.h, as a C compiler sees it: every structure with every field,
every function with its arguments, every constant. Nothing is listed here; a field that is new in the
header fails until the binding has it."""
import ctypes
import json
import os
import re
import shutil
import subprocess

import pytest

from moescope import _library
from moescope.memory import history

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include", "moescope.h")
# Python has a callable of its own for it.
NOT_BOUND = {"moescope_set_step_function"}
# What a type is, as text: f8, p8, i4, u4; an enumeration is an int of ctypes, whatever its sign.
KINDS = """
#define SIGN(x) _Generic((x), int8_t: "i", int16_t: "i", int32_t: "i", int64_t: "i", \\
	uint8_t: "u", uint16_t: "u", uint32_t: "u", uint64_t: "u", \\
	float: "f", double: "f", default: "p")
"""


def header():
    with open(HEADER, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def declared(text):
    """A declaration as (type, name)."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split())).groups()
    return kind.strip(), name


def structures():
    """structure: its fields as (type, name)."""
    def fields(body):
        for line in filter(str.strip, body.split(";")):
            first, *others = line.split(",")
            kind, name = declared(first)
            yield from ((kind, word.strip()) for word in [name, *others])
    return {name: list(fields(body)) for name, body in
            re.findall(r"^struct moescope_(\w+) \{(.*?)^\};", header(), re.M | re.S)}


def functions():
    """function: the type of its result, and those of its arguments."""
    found = {}
    for result, name, words in re.findall(r"^MOESCOPE_API ([\w ]+[ *])(moescope_\w+)\(([^)]*)\);",
                                          header(), re.M):
        arguments = [] if words == "void" else [declared(word)[0] for word in words.split(",")]
        found[name] = result.strip(), arguments
    return found


def kind_in_c(kind):
    """C code that prints the kind of a type."""
    if kind == "void":
        return 'printf("\\"void\\"");'
    if kind.startswith("enum ") and "*" not in kind:
        return f'printf("\\"i%zu\\"", sizeof({kind}));'
    return f'printf("\\"%s%zu\\"", SIGN(({kind})0), sizeof({kind}));'


def kind_in_python(kind):
    if kind is None:
        return "void"
    if kind in (ctypes.c_char_p, ctypes.c_void_p) or issubclass(kind, ctypes._Pointer):
        return f"p{ctypes.sizeof(kind)}"
    sign = ("f" if kind in (ctypes.c_float, ctypes.c_double) else
            "u" if kind(-1).value > 0 else "i")
    return f"{sign}{ctypes.sizeof(kind)}"


@pytest.fixture(scope="module")
def seen_by_c(tmp_path_factory):
    """Runs statements of C that print; what they printed, as JSON."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("header")

    def run(statements):
        source = folder / "print.c"
        source.write_text(f'#include "{os.path.abspath(HEADER)}"\n#include <stddef.h>\n#include <stdio.h>\n'
                          f"{KINDS}\nint main(void) {{\n" + "\n".join(statements) + "\nreturn 0; }\n")
        subprocess.run(["cc", "-std=gnu11", "-o", folder / "print", source], check=True)
        return json.loads(subprocess.run([folder / "print"], capture_output=True, text=True,
                                         check=True).stdout)
    return run


def listed(statements):
    """Statements that print, as a JSON list."""
    return ["printf(\"[\");", *[word for s in statements for word in (s, "printf(\",\");")][:-1],
            "printf(\"]\");"]


def bound_structures():
    """The structures of the binding by the name that they have in C."""
    return {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): value
            for name, value in vars(_library).items()
            if isinstance(value, type) and issubclass(value, ctypes.Structure)
            and value not in (ctypes.Structure, _library.Sized)}


def test_every_structure_is_bound():
    assert sorted(bound_structures()) == sorted(structures())
    assert len(structures()) >= 9


@pytest.mark.parametrize("name", sorted(structures()))
def test_fields_of(name, seen_by_c):
    """Name, offset, size and kind of each, in order; and the size of the whole."""
    python = bound_structures()[name]
    fields = structures()[name]
    struct = f"struct moescope_{name}"
    in_c = seen_by_c(listed(
        [f'printf("%zu", sizeof({struct}));']
        + [line for kind, field in fields
           for line in (f'printf("[\\"{field}\\", %zu, %zu, ", offsetof({struct}, {field}), '
                        f'sizeof((({struct} *)0)->{field})); {kind_in_c(kind)} printf("]");',)]))
    assert in_c == [ctypes.sizeof(python)] + [
        [field, getattr(python, field).offset, getattr(python, field).size, kind_in_python(kind)]
        for field, kind in python._fields_]


def test_every_function_is_bound_with_its_arguments(seen_by_c):
    wanted = functions()
    assert sorted(_library.FUNCTIONS) == sorted(set(wanted) - NOT_BOUND)
    names = sorted(_library.FUNCTIONS)
    in_c = seen_by_c(listed(["\n".join(listed(map(kind_in_c, [wanted[name][0], *wanted[name][1]])))
                             for name in names]))
    for name, kinds in zip(names, in_c):
        result, arguments = _library.FUNCTIONS[name]
        assert [kind_in_python(kind) for kind in [result, *arguments]] == kinds, name


def test_pointers_to_structures_name_the_right_one():
    """A pointer is a pointer to C's ABI; this is about what it leads to."""
    for name, (_, arguments) in functions().items():
        if name in NOT_BOUND:
            continue
        for said, bound in zip(arguments, _library.FUNCTIONS[name][1]):
            to = re.fullmatch(r"(?:const )?struct moescope_(\w+) \*", said)
            if to and to.group(1) in structures():
                assert bound._type_ is bound_structures()[to.group(1)], (name, said)


def test_constants(seen_by_c):
    """Of the enumerations and slots that the binding names."""
    names = {**{f"MOESCOPE_{n}": getattr(_library, n) for n in (
        "FORWARD", "BACKWARD", "OPTIMIZER", "DATA", "PREFILL", "DECODE", "RECOMPUTE", "EVALUATION",
        "SLOT_PADDING", "SLOT_UNUSED", "SLOT_DROPPED", "I32", "I64", "F32", "F16", "BF16", "UNKNOWN",
        "OFF", "COUNTS", "STEPS", "TRACE", "FULL")},
        "MOESCOPE_PHASE_NONE": _library.NO_PHASE,
        **{f"MOESCOPE_EVENT_{n}": getattr(history, n) for n in ("ALLOC", "FREE", "RESERVE", "RELEASE")},
        **{f"MOESCOPE_MEMORY_{use.upper()}": value for use, value in _library.MEMORY_USES.items()}}
    in_c = seen_by_c(listed([f'printf("%lld", (long long){name});' for name in names]))
    assert in_c == [ctypes.c_longlong(value).value for value in names.values()]
    # None was forgotten: the enumerations have no others, but one for programs that keep their own account.
    enums = re.findall(r"^enum moescope_\w+ \{(.*?)^\};", header(), re.M | re.S)
    of_enums = {word for body in enums for word in re.findall(r"\bMOESCOPE_\w+", body)}
    assert of_enums - set(names) == {"MOESCOPE_EVENT_BEFORE"}
