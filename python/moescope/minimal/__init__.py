# SPDX-License-Identifier: Apache-2.0
"""A small MoE language model and its training, with a profiler: on PyTorch, else on tinymoe."""
