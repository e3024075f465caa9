# SPDX-License-Identifier: Apache-2.0
"""Kernels of moescope against those of torch.profiler, for the same steps.

moescope records the whole program; what is not part of the steps (set-up, warm-up) is in a second
run of the same program without steps, and is subtracted by name: the steps remain.
"""


def by_name(kernels):
    """{name: (count, time_ns)} of `moescope kernels --json`."""
    return {row["name"]: (row["count"], row["time_ns"] or 0) for row in kernels["rows"]}


def steps_alone(whole, setup):
    left = {}
    for name, (count, time_ns) in whole.items():
        before, before_ns = setup.get(name, (0, 0))
        if count != before:
            left[name] = (count - before, time_ns - before_ns)
    return left


def is_kernel(name):
    """torch.profiler lists copies and sets among the device's events."""
    return not name.startswith(("Memcpy", "Memset"))


def differences(ours, theirs):
    """What differs, by name: {name: (ours, theirs)} counts; empty if nothing does."""
    names = set(ours) | set(theirs)
    return {name: (ours.get(name, (0, 0))[0], theirs.get(name, (0, 0))[0]) for name in names
            if ours.get(name, (0, 0))[0] != theirs.get(name, (0, 0))[0]}


def total_ns(kernels):
    return sum(time_ns for _, time_ns in kernels.values())
