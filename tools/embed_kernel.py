#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recorder's kernel as C strings: embed_kernel.py OUT LAYOUT.h KERNEL.cu [NVCC INCLUDE_DIR]

With nvcc also as PTX, for the oldest architecture that this nvcc supports, which every newer device
runs. Without it, or if it fails, the PTX is empty and the source is compiled at run time.
"""
import os
import subprocess
import sys
import tempfile

from embed_text import c_text

OLDEST = 70, 75, 80, 90


def ptx_of(nvcc: str, include: str, kernel: str) -> str:
    trouble = ""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "kernel.ptx")
        for arch in OLDEST:
            done = subprocess.run([nvcc, "-ptx", f"-arch=compute_{arch}", "-I", include, "-o", out,
                                   kernel], capture_output=True, text=True)
            if done.returncode == 0:
                with open(out) as file:
                    return file.read()
            trouble = done.stderr.strip()
    print(f"embed_kernel.py: nvcc makes no PTX, so the kernel is compiled at run time: {trouble}",
          file=sys.stderr)
    return ""


def main() -> None:
    out, layout, kernel, *compiler = sys.argv[1:]
    texts = {}
    for name, path in (("recorder_layout_text", layout), ("recorder_kernel_text", kernel)):
        with open(path) as file:
            texts[name] = file.read()
    texts["recorder_kernel_ptx"] = ptx_of(*compiler, kernel) if compiler else ""
    with open(out, "w") as file:
        file.write("/* Made from the recorder's kernel by embed_kernel.py. */\n"
                   '#include "probe/routing/recorder_inside.h"\n\n')
        file.write("\n".join(c_text(name, text) for name, text in texts.items()))


if __name__ == "__main__":
    main()
