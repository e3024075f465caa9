# SPDX-License-Identifier: Apache-2.0
"""PyTorch under `moescope run`, without a changed line: steps, phases and operations.

`moescope run` puts the folder `on_path` first on PYTHONPATH. Python then runs its sitecustomize.py,
which waits for torch to be imported and calls program.install().
"""
