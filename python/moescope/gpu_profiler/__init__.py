# SPDX-License-Identifier: Apache-2.0
"""AdvancedGPUProfiler: a profiler that a program tells what it does, with figures at any time."""
