# SPDX-License-Identifier: Apache-2.0
"""Plots as files: every name, both formats and themes, well-formed, and failures in one sentence."""

import csv
import os
import pathlib
import shutil
import stat
import struct
import xml.etree.ElementTree as ElementTree

from cli import Skip, check, environment, equal, main, moescope, one_sentence, record, test

DATA = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "h200-windows")
NSIGHT = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "ncu-h200" / "known-kernels.csv")
NAMES = ["memory", "steps", "kernels", "api", "experts", "heatmap", "k_histogram", "flops",
         "latency", "timeline", "speed_of_light", "roofline", "flame", "heap", "sheet", "dashboard"]
SVG = "{http://www.w3.org/2000/svg}"


def can_draw():
    r = moescope("plot", "--list")
    if r.status == 1 and "no cairo" in r.err:
        raise Skip("built without cairo")
    equal(r.status, 0, r)
    return r


def png_size(path):
    data = pathlib.Path(path).read_bytes()
    equal(data[:8], b"\x89PNG\r\n\x1a\n", path)
    equal(data[-8:-4], b"IEND", path)
    return struct.unpack(">II", data[16:24])


def texts(path):
    return [t.text for t in ElementTree.parse(path).getroot().iter(SVG + "text")]


def has(found, words):
    check(any(words in text for text in found), f"no {words!r}", found)


@test
def a_build_without_cairo_says_so():
    if "no cairo" not in moescope("plot", "--list").err:
        raise Skip("built with cairo")
    run = record()
    for command in (["plot", "--list"], ["plot", run, "steps"], ["report", run, "--plots", "p"]):
        one_sentence(moescope(*command), 1, "this build has no cairo", "libcairo2-dev")
    equal(os.path.exists("p"), False)


@test
def the_list_names_every_plot():
    lines = can_draw().out.splitlines()
    equal([line.split()[0] for line in lines], NAMES)
    check(all(len(line.split()) > 2 for line in lines), lines)


@test
def report_draws_all_of_them():
    can_draw()
    run = record()
    r = moescope("report", run, "--plots", "pictures", "--plot-format", "both", "--plot-theme",
                 "both")
    equal(r.status, 0, r)
    check("Steps" in r.out, r.out[:400])
    check(r.err.endswith(f"moescope: wrote {4 * len(NAMES)} plots to pictures.\n"), r.err)
    equal(sorted(os.listdir("pictures")),
          sorted(f"{name}{theme}.{suffix}" for name in NAMES for theme in ("", "-dark")
                 for suffix in ("png", "svg")))
    for name in NAMES:
        size = {"sheet": (1600, 1000), "dashboard": (1920, 1080)}.get(name, (1200, 700))
        for theme in ("", "-dark"):
            equal(png_size(f"pictures/{name}{theme}.png"), size, name)
            root = ElementTree.parse(f"pictures/{name}{theme}.svg").getroot()
            equal((root.get("width"), root.get("height")), (str(size[0]), str(size[1])))
            smallest = min(float(t.get("font-size")) for t in root.iter(SVG + "text"))
            check(smallest >= 11, name, smallest)
    has(texts("pictures/steps.svg"), "6 steps, median")
    has(texts("pictures/heatmap.svg"), "2 layers;")
    # 2 batches of 16 tokens, 6 steps, 2 layers, all with two experts.
    has(texts("pictures/k_histogram.svg"), "384")
    has(texts("pictures/flops.svg"), "mean ")
    has(texts("pictures/kernels.svg"), "no data: no device records in this run")


@test
def texts_stay_on_the_page_and_apart():
    can_draw()
    for run, place in ((DATA, "p"), (record(), "q")):
        equal(moescope("report", run, "--plots", place, "--plot-format", "svg").status, 0)
    for name in [f"{place}/{name}" for place in "pq" for name in NAMES]:
        root = ElementTree.parse(f"{name}.svg").getroot()
        width, height = float(root.get("width")), float(root.get("height"))
        boxes = []
        for t in root.iter(SVG + "text"):
            size, length, x = (float(t.get(k)) for k in ("font-size", "textLength", "x"))
            x -= length * {None: 0, "middle": 0.5, "end": 1}[t.get("text-anchor")]
            y = float(t.get("y"))
            check(x >= 0 and x + length <= width and size <= y <= height, name, t.text)
            boxes.append((x, y - 0.75 * size, x + length, y, t.text))
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                check(a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1],
                      name, a, b)


@test
def windows_are_marked():
    can_draw()
    for name in ("kernels", "timeline", "dashboard"):
        equal(moescope("plot", DATA, name, "-o", "a.svg").status, 0)
        has(texts("a.svg"), "sampled: 200 windows, 16.1% of the run")


@test
def one_plot():
    can_draw()
    run = record()
    r = moescope("plot", run, "steps")
    equal((r.status, r.out, r.err), (0, "", "moescope: wrote steps.png.\n"))
    equal(png_size("steps.png"), (1200, 700))
    check(stat.S_IMODE(os.stat("steps.png").st_mode) & 0o044 == 0o044 & ~os.umask(0o022), "mode")
    equal(moescope("plot", run, "steps", "--scale", "2", "-o", "two.png").status, 0)
    equal(png_size("two.png"), (2400, 1400))
    equal(moescope("plot", "experts", "--layer", "1", "-o", "e.svg", "--theme", "dark").status, 0)
    has(texts("e.svg"), "Expert utilisation, layer 1")
    equal(moescope("plot", run, "steps", "--steps", "2:4", "-o", "s.svg").status, 0)
    has(texts("s.svg"), "3 steps, median")
    r = moescope("plot", run, "steps", "-o", "-", "--format", "svg")
    equal(r.status, 0, r.err)
    ElementTree.fromstring(r.out.encode())
    # The same run gives the same file.
    moescope("plot", run, "steps", "-o", "again.svg")
    equal(pathlib.Path("again.svg").read_text(encoding="utf-8"), r.out)


@test
def failures_are_one_sentence():
    can_draw()
    run = record()
    one_sentence(moescope("plot", run, "stepz"), 2, "no plot 'stepz'", "'steps'")
    one_sentence(moescope("plot"), 2, "which plot?")
    one_sentence(moescope("plot", "none.mscope", "steps"), 1, "none.mscope")
    one_sentence(moescope("plot", run, "steps", "-o", "missing/a.png"), 1,
                 "cannot write 'missing/a.png'")
    one_sentence(moescope("plot", run, "steps", "--scale", "9"), 2, "--scale")
    one_sentence(moescope("report", run, "--plot-theme", "dark"), 2, "--plots DIR")
    one_sentence(moescope("report", run, run, "--plots", "p"), 2, "one run at a time")
    pathlib.Path("file").touch()
    for place in ("file", "missing/deeper"):
        one_sentence(moescope("report", run, "--plots", place), 1, place)
    one_sentence(moescope("report", "none.mscope", "--plots", "p"), 1, "none.mscope")
    check(not os.path.exists("p"), "made a directory")
    check(not os.path.exists("missing"), "made a directory")
    equal([p for p in os.listdir(".") if p.endswith(".png")], [])


@test
def nothing_is_left_of_a_plot_that_failed():
    can_draw()
    run = record()
    os.mkdir("place")
    os.mkdir("place/api.png")  # a file cannot take its place
    r = moescope("report", run, "--plots", "place")
    equal(r.status, 1, r)
    check("place/api.png" in r.err, r.err)
    equal([p for p in os.listdir("place") if "png." in p], [])


@test
def without_the_library_or_fonts_it_says_so():
    can_draw()
    run = record()
    one_sentence(moescope("plot", run, "steps", env=environment(MOESCOPE_CAIRO="/none.so")), 1,
                 "cairo", "libcairo2")
    one_sentence(moescope("report", run, "--plots", "p",
                          env=environment(MOESCOPE_CAIRO="/none.so")), 1, "libcairo2")
    check(not os.path.exists("p"), "made a directory")
    pathlib.Path("fonts.conf").write_text(
        "<?xml version='1.0'?><fontconfig><dir>/none</dir><cachedir>cache</cachedir></fontconfig>",
        encoding="utf-8")
    r = moescope("plot", run, "steps", env=environment(FONTCONFIG_FILE=os.path.abspath("fonts.conf")))
    equal(r.status, 0, r)
    check("no font is installed" in r.err and "fonts-dejavu-core" in r.err, r.err)
    equal(png_size("steps.png"), (1200, 700))


@test
def an_empty_run_still_has_its_files():
    can_draw()
    r = moescope("run", "-q", "-o", "empty.mscope", "--", "true")
    equal(r.status, 0, r)
    r = moescope("report", "empty.mscope", "--plots", "p", "--plot-format", "svg")
    equal(r.status, 0, r)
    equal(len(os.listdir("p")), len(NAMES))
    for name in NAMES:
        has(texts(f"p/{name}.svg"), "no data: ")


@test
def bars_of_counters_are_as_long_as_nsight_compute_says():
    can_draw()
    shutil.copy(NSIGHT, "ncu.csv")
    equal(moescope("plot", "ncu.csv", "speed_of_light", "-o", "a.svg").status, 0)
    found = texts("a.svg")
    has(found, "10 of 10 kernels, by the time of their launches; not counted: SM, L2")
    equal((found.count("bound by memory"), found.count("bound by tensor")), (3, 3))
    root = ElementTree.parse("a.svg").getroot()
    at = {t.text: float(t.get("x")) for t in root.iter(SVG + "text") if t.text in ("0", "100")}
    lengths = {}
    for bar in root.iter(SVG + "rect"):
        if float(bar.get("x")) == at["0"]:
            length = 100 * float(bar.get("width")) / (at["100"] - at["0"])
            lengths.setdefault(bar.get("fill"), []).append(length)
    launches = list(csv.DictReader(pathlib.Path("ncu.csv").open(encoding="utf-8")))[1:]
    wanted = []
    for metric in ("sm__pipe_tensor_cycles_active", "dram__throughput"):
        kernels = {}
        for launch in launches:
            share = float(launch[metric + ".avg.pct_of_peak_sustained_elapsed"])
            kernels.setdefault(launch["Kernel Name"], []).append(share)
        wanted.append(sorted(sum(of) / len(of) for of in kernels.values()))
    pixel = 100 / (at["100"] - at["0"])
    for bars, shares in zip(lengths.values(), wanted, strict=True):
        equal(len(bars), len(shares))
        check(all(abs(bar - max(share, pixel)) < 0.02 for bar, share in zip(sorted(bars), shares)), bars, shares)


if __name__ == "__main__":
    main()
