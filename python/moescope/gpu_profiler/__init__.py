# SPDX-License-Identifier: Apache-2.0
"""AdvancedGPUProfiler: a profiler that a program reports to, with figures at any time."""
