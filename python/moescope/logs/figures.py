# SPDX-License-Identifier: Apache-2.0
"""The scalars of each step of one rank, under names that stay the same.

    moescope/step_ms, tokens, tokens_per_s, forward_ms, backward_ms, optimizer_ms, data_ms
    moescope/layer_3/balance, dropped, idle_experts, confidence
    moescope/gpu_0/memory_used_gb, allocated_gb, reserved_gb

A figure that was not measured is absent. The tool computes them, in one process for all of them; no
other view has every layer of every step.
"""
import json
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

from .. import _library as lib
from .. import errors

# `next_ns`: what is read between two steps belongs to the one that has ended.
_STEPS = """select t.step, s.start_ns, s.next_ns, t.start_ns + t.time_ns, t.time_ns / 1e6, t.tokens,
t.tokens_per_s, t.forward_ns / 1e6, t.backward_ns / 1e6, t.optimizer_ns / 1e6, t.data_ns / 1e6
from step_times t join (select step, start_ns, lead(start_ns) over (order by start_ns) as next_ns
from steps where step > {steps} and {rank}) s using (step)
where t.step > {steps} and {rank} and t.step % {every} = 0 and not t.unfinished
order by t.step;"""
_OF_STEP = ("step_ms", "tokens", "tokens_per_s", "forward_ms", "backward_ms", "optimizer_ms", "data_ms")
_ROUTED = """select step, layer, sum(dropped), sum(confidence_sum) / sum(weighted_tokens) from routing
where step > {routed} and {rank} and step % {every} = 0 group by step, layer;"""
# moescope explain balancedness: the mean over the largest load. The phases of a step count together.
_LOADS = """select step, layer, sum(n) * 1.0 / (count(*) * max(n)), sum(n = 0) from
(select step, layer, expert, sum(load) as n from routing_load
where step > {routed} and {rank} and step % {every} = 0 group by step, layer, expert)
group by step, layer;"""
_READINGS = """select time_ns, device, metric, value / 1e9 from samples
where metric in ('memory_used_bytes', 'allocated_bytes', 'reserved_bytes')
and time_ns > {time} and {rank} order by time_ns;"""
_OF_DEVICE = {"memory_used_bytes": "memory_used_gb", "allocated_bytes": "allocated_gb",
              "reserved_bytes": "reserved_gb"}


class Figures(NamedTuple):
    """Of one step; time: when it ended, in seconds since 1970, or None."""
    step: int
    time: Optional[float]
    values: dict[str, float]


def lowest_rank(run: str) -> Optional[int]:
    """The lowest rank that has steps."""
    found = json.loads(lib.run_tool("sql", run, "--json", "select min(rank) from steps"))["rows"][0][0]
    return None if found is None else int(found)


class Reader:
    """Reads one rank of a run, or a shard, forward: every figure once."""

    def __init__(self, path: str, rank: Optional[int] = None, after: int = -1, since_ns: int = -1) -> None:
        self._path = path
        self._rank = "1" if rank is None else f"rank = {rank}"
        self._steps = self._routed = after  # the last ones that were read
        self._time = since_ns
        self._began: Optional[int] = None

    def read(self, every: int = 1, last: bool = True) -> list[Figures]:
        """What is new, of every n-th step. Unless it is the last time, the newest step is left for
        the next: a device may still have to tell its routing, and the allocator its readings."""
        words = "".join((_STEPS, _ROUTED, _LOADS, _READINGS)).format(
            steps=self._steps, routed=self._routed, time=self._time, rank=self._rank, every=every)
        steps, routed, loads, readings = (
            answer["rows"] for answer in json.loads(lib.run_tool("sql", self._path, "--json", words)))
        if not last:
            steps = steps[:-1]
            newest = max((row[0] for row in routed), default=-1)
            routed, loads = ([row for row in rows if row[0] < newest] for rows in (routed, loads))
        found: dict[int, dict[str, float]] = {}
        for row in steps:
            _add(found, row[0], "", zip(_OF_STEP, row[4:]))
        for step, layer, dropped, confidence in routed:
            _add(found, step, f"layer_{layer}/", (("dropped", dropped), ("confidence", confidence)))
        for step, layer, balance, idle in loads:
            _add(found, step, f"layer_{layer}/", (("balance", balance), ("idle_experts", idle)))
        self._add_readings(found, steps, readings)
        self._steps = max((row[0] for row in steps), default=self._steps)
        self._routed = max((row[0] for row in routed), default=self._routed)
        ends = {row[0]: row[3] for row in steps}
        return [Figures(step, self._wall(ends.get(step)), found[step]) for step in sorted(found)]

    def _add_readings(self, found: dict[int, dict[str, float]], steps: list[Any],
                      readings: list[Any]) -> None:
        """The largest of a step."""
        at = 0
        for step, start, following, *_ in steps:
            while at < len(readings) and readings[at][0] < start:
                self._time = readings[at][0]
                at += 1
            while at < len(readings) and (following is None or readings[at][0] < following):
                self._time, device, metric, value = readings[at]
                name = f"moescope/gpu_{device}/{_OF_DEVICE[metric]}"
                found[step][name] = max(value, found[step].get(name, value))
                at += 1

    def _wall(self, end_ns: Optional[int]) -> Optional[float]:
        if end_ns is None:
            return None
        if self._began is None:
            self._began = lib.table("steps", self._path, "--limit", "1")["run"]["started_realtime_ns"]
        return None if self._began is None else (self._began + end_ns) / 1e9


def _add(found: dict[int, dict[str, float]], step: int, place: str,
         figures: Iterable[tuple[str, Optional[float]]]) -> None:
    values = found.setdefault(step, {})
    for name, value in figures:
        if value is not None:
            values[f"moescope/{place}{name}"] = float(value)


def of_run(run: str, rank: Optional[int]) -> list[Figures]:
    """All steps of one rank of a run; rank None: the lowest."""
    lowest = lowest_rank(run)
    if lowest is None:
        raise errors.NotCaptured(f"'{run}' has no steps, so there is nothing to log; call "
                                 "moescope.step() at the end of each iteration")
    found = Reader(run, lowest if rank is None else rank).read()
    if not found:
        raise ValueError(f"'{run}' has no finished step of rank {lowest if rank is None else rank}; "
                         f"its lowest rank is {lowest}")
    return found
