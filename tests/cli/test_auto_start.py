# SPDX-License-Identifier: Apache-2.0
"""How steps of PyTorch are found: what is in a Python under `moescope run`, and what its program sees
of it. With a module named torch that is none; tests/python/test_auto*.py have the real one."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipapp

from cli import MOESCOPE, PATIENCE_S, Skip, check, environment, equal, main, moescope, test

# What a program can see of the path, the modules and the finders.
LOOK = """
import sys
print([path for path in sys.path if "lib/python" not in path])
print(sorted(name for name in sys.modules if "custom" in name or "moescope" in name))
print([type(one).__name__ for one in sys.meta_path if type(one).__name__ != "_Torch"])
print(sys.path_importer_cache.keys() & {path for path in sys.path_importer_cache if "on_path" in path})
print(sys.argv)
"""
WAITS = "import sys; print(any(type(one).__name__ == '_Torch' for one in sys.meta_path))"


def python(*words, **env):
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=PATIENCE_S,
                          env=environment(**env), check=False)
    return done.returncode, done.stdout, done.stderr


def profiled(*words, options=(), program=sys.executable, **env):
    shutil.rmtree("a.mscope", ignore_errors=True)
    r = moescope("run", "-q", "-o", "a.mscope", *options, "--", program, *words, env=environment(**env))
    said = [line for line in r.err.splitlines(True) if not line.startswith("moescope: ")]
    return r.status, r.out, "".join(said)


def notes():
    return json.loads(pathlib.Path("a.mscope", "run.json").read_text(encoding="utf-8"))["notes"]


def folder(name, **files):
    for file, text in files.items():
        path = pathlib.Path(name, f"{file}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return os.path.abspath(name)


@test
def a_program_sees_the_same_as_without():
    script = os.path.join(folder("mine", script=LOOK), "script.py")
    here = folder("here", module="")
    for words in (["-c", LOOK, "x"], [script, "a", "b"], ["-m", "script"]):
        for path in (None, "", here, f"{here}:", f"{here}:{os.path.dirname(script)}"):
            if words[0] != "-m" or (path and "mine" in path):
                equal(profiled(*words, PYTHONPATH=path), python(*words, PYTHONPATH=path))


@test
def the_programs_own_sitecustomize_runs_as_without():
    for text in ("import sys; sys.mine = __file__; print('mine', __name__, __spec__.origin)",
                 "import sys; sys.path.append('/there'); sys.meta_path.append('x'); sys.meta_path.pop()",
                 "raise RuntimeError('broken')", "raise ImportError('no', name='sitecustomize')",
                 "import nosuchmodule", "syntax error"):
        path = folder("custom", sitecustomize=text)
        words = ["-c", LOOK + "print(getattr(sys, 'mine', None))"]
        equal(profiled(*words, PYTHONPATH=path), python(*words, PYTHONPATH=path))
    path = folder("custom", sitecustomize="import sys; sys.exit(3)")
    # Python ends there, with a traceback in which ours has a line.
    equal(profiled("-c", "", PYTHONPATH=path)[:2], python("-c", "", PYTHONPATH=path)[:2])


@test
def it_waits_for_torch_where_python_reads_its_environment():
    equal(profiled("-c", WAITS)[1], "True\n")
    for flag in ("-I", "-E", "-S"):
        equal(profiled(flag, "-c", WAITS)[1], "False\n")
    equal(profiled("-c", WAITS, options=["--no-auto"])[1], "False\n")
    equal(profiled("-P" if sys.version_info >= (3, 11) else "-B", "-c", WAITS)[1], "True\n")


@test
def no_auto_leaves_the_environment_alone():
    words = ["-c", "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('MOESCOPE_AUTO'))"]
    for path in (None, "", "/x:/y"):
        equal(profiled(*words, options=["--no-auto"], PYTHONPATH=path), python(*words, PYTHONPATH=path))
    # a run in a run is left alone if it says so
    inner = moescope("run", "-q", "-o", "out.mscope", "--", MOESCOPE, "run", "-q", "--no-auto", "-o",
                     "in.mscope", "--", sys.executable, "-c", WAITS)
    equal(inner.out, "False\n")


@test
def children_wait_for_torch_too():
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITS!r}])"
    equal(profiled("-c", child)[1], "True\n")
    spawned = ("import multiprocessing\ndef look():\n    " + WAITS.replace("; ", "\n    ")
               + "\nif __name__ == '__main__':\n    process = multiprocessing.get_context('spawn')"
               ".Process(target=look)\n    process.start()\n    process.join()\n")
    equal(profiled(os.path.join(folder("child", spawned=spawned), "spawned.py"))[1], "True\n")


@test
def virtual_environments_and_archives():
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
    equal(profiled("-c", WAITS, program="env/bin/python")[1], "True\n")
    folder("app", __main__=WAITS)
    zipapp.create_archive("app", "app.pyz")
    equal(profiled("app.pyz")[1], "True\n")


@test
def doctor_names_the_torch_of_the_python_in_path():
    def told():
        r = moescope("doctor", "--json", env=environment(PATH=f"{os.path.abspath('env/bin')}:{os.environ['PATH']}"))
        return next(row for row in json.loads(r.out)["rows"] if row["name"] == "PyTorch")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
    version = "%d.%d" % sys.version_info[:2]
    row = told()
    equal((row["state"], row["text"].split(";")[0]), ("ok", f"the python3 in PATH ({version}) has none"))
    info = pathlib.Path("env", "lib", f"python{version}", "site-packages", "torch-2.99.1.dist-info")
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.99.1\n", encoding="utf-8")
    equal(told(), {"name": "PyTorch", "state": "ok", "fix": None,
                   "text": f"torch 2.99.1 in the python3 in PATH ({version}): 'run' finds steps and phases automatically"})


@test
def a_torch_that_is_not_torch_is_imported_as_it_is():
    use = "import torch, sys; print(torch.x, torch.__spec__.loader.__dict__.keys(), torch.__loader__ is " \
          "torch.__spec__.loader, [type(one).__name__ for one in sys.meta_path], " \
          "sorted(name for name in sys.modules if name.startswith('moescope')))"
    for text in ("x = 1", "import torch; x = 2", "raise ImportError('no torch')", "syntax error"):
        path = folder("fake", torch=text)
        equal(profiled("-c", use, PYTHONPATH=path), python("-c", use, PYTHONPATH=path))
        if text.startswith("x"):
            check(notes().startswith("steps and phases of PyTorch are not recorded: "), notes())
            check("\n" not in notes(), notes())
            equal([name for name in os.listdir("a.mscope") if name.endswith(".note")], [])
    equal(profiled("-c", "import torch", PYTHONPATH=folder("none")),
          python("-c", "import torch", PYTHONPATH=folder("none")))


@test
def without_a_place_for_the_note_the_program_runs():
    path = folder("fake", torch="x = 1")
    text = "import os, shutil; shutil.rmtree(os.environ['MOESCOPE_RUN']); import torch; print(torch.x)"
    equal(profiled("-c", text, PYTHONPATH=path)[:2], (0, "1\n"))


@test
def an_older_python_is_told():
    versions = pathlib.Path.home() / ".pyenv" / "versions"
    found = sorted(versions.glob("3.8.*/bin/python3"))
    if not found:
        raise Skip("no Python 3.8 here")
    path = folder("fake", torch="x = 1")
    equal(profiled("-c", "import torch; print(torch.x)", program=str(found[0]), PYTHONPATH=path),
          (0, "1\n", ""))
    check("is too old; use 3.9 or newer" in notes(), notes())


main()
