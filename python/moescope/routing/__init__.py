# SPDX-License-Identifier: Apache-2.0
"""Expert routing of PyTorch models: where the routers are (detect), what they chose (families), how
it reaches the run (capture, device, ops), and what users see (profiler, metrics, wrapper)."""
