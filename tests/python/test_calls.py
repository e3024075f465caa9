# SPDX-License-Identifier: Apache-2.0
"""`moescope run --calls` beside PyTorch: a training with workers that load its data does the same as without."""
import os
import subprocess
import sys

import pytest

from moescope import _library

pytest.importorskip("torch")
PATIENCE_S = 600
PROGRAM = """
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(32, generator=g), torch.randn(4, generator=g)

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(2):
        for x, y in DataLoader(Numbers(), batch_size=8, num_workers=2):
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(repr(loss.item()))
"""


def start(words, folder):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    return done.returncode, done.stdout, done.stderr


def test_losses_are_equal(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    program = [sys.executable, "train.py"]
    plain = start(program, tmp_path)
    assert plain[0] == 0 and len(plain[1].split()) == 24, plain
    run = str(tmp_path / "a.mscope")
    assert start([_library.tool_path(), "run", "-q", "-o", run, "--calls", "all", "--", *program], tmp_path) == plain
    names = {row["name"] for row in _library.table("calls", run)["rows"]}
    assert {"read", "write", "poll", "pthread_mutex_lock"} <= names
