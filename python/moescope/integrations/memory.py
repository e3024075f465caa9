# SPDX-License-Identifier: Apache-2.0
"""Lines about current memory: of each GPU as its allocator sees it, and of the process."""
import resource
from typing import Optional

GB = 1 << 30


def gpu_lines(step: int) -> list[str]:
    """`[Step N] GPU i: Allocated/Reserved/Peak GB` for each device this process has used."""
    import torch

    if not torch.cuda.is_available():
        return []
    lines = []
    for device in range(torch.cuda.device_count()):
        reserved = torch.cuda.memory_reserved(device)
        if reserved == 0 and device != torch.cuda.current_device():
            continue  # of another rank
        lines.append(f"[Step {step}] GPU {device}: "
                     f"Allocated: {torch.cuda.memory_allocated(device) / GB:.2f} GB, "
                     f"Reserved: {reserved / GB:.2f} GB, "
                     f"Peak: {torch.cuda.max_memory_allocated(device) / GB:.2f} GB")
    return lines


def resident_bytes() -> Optional[int]:
    """Current memory of the process; None if the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None


def host_line(step: int) -> str:
    now = resident_bytes()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (f"[Step {step}] Host: Resident: {'n/a' if now is None else f'{now / GB:.2f} GB'}, "
            f"Peak: {peak / GB:.2f} GB")
