# SPDX-License-Identifier: Apache-2.0
"""moescope: where time, memory and tokens go in language models and mixtures of experts.

Names are imported on first use, so `import moescope` costs nothing: it loads neither torch nor the
C library.
"""
import importlib
from typing import Any

# name: the module that has it
_HOME = {
    "__version__": "version",
    **dict.fromkeys(("start", "stop"), "runs"),
    **dict.fromkeys(("step", "range", "ranged", "request", "mark", "counter", "info",
                     "recording", "run_dir"), "api"),
    **dict.fromkeys(("MoescopeError", "LibraryNotFound", "LibraryMismatch", "StartError",
                     "NoExpertsFound", "UnknownRouter", "BadDimensions", "ProfilerClosed",
                     "NotCaptured", "ToolError"), "errors"),
    "MoEProfiler": "routing.profiler",
    **dict.fromkeys(("register_router", "unregister_router", "find_routers"), "routing.detect"),
    "SimpleRouterWrapper": "routing.wrapper",
    **dict.fromkeys(("SimpleBenchmark", "quick_profile"), "routing.benchmark"),
    "profile": "torchlike.profile",
    "record_function": "torchlike.ranges",
    "tensorboard_trace_handler": "torchlike.export",
    **dict.fromkeys(("schedule", "ProfilerAction", "ProfilerActivity"), "torchlike.schedule"),
    **dict.fromkeys(("MoescopeProfilerCallback", "MoescopeMemoryCallback", "ProfilerCallback",
                     "SimpleGPUMemoryCallback"), "integrations.transformers"),
    "LightningCallback": "integrations.lightning",
    "AccelerateProfiler": "integrations.accelerate",
    **dict.fromkeys(("add_arguments", "callbacks_from_arguments"), "integrations.arguments"),
    **dict.fromkeys(("AdvancedGPUProfiler", "ProfilerContext", "profile_function"),
                    "gpu_profiler.advanced"),
    **dict.fromkeys(("log_to", "log_run"), "logs.live"),
    **dict.fromkeys(("Run", "show"), "notebook"),
    "memory_snapshot": "memory.allocator",
    "model_memory": "memory.parts",
    "record_memory": "memory.history",
    "MoEModelConfig": "minimal.config",
    **dict.fromkeys(("MoEMinimalLLM", "train_moe_model"), "minimal.choice"),
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'moescope' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
