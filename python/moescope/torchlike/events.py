# SPDX-License-Identifier: Apache-2.0
"""key_averages(): rows by operation, and their table.

Times are microseconds and memory is bytes, as in torch.profiler. What was not measured is None, and
n/a in the table: device time without a device, memory without profile_memory, FLOPs without
with_flops or for an operator without a torch formula.
"""
import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEventAvg

_DEVICES = ("cuda", "device", "xpu", "privateuse1")
_MEASURES = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time",
             "device_time_total", "self_device_time_total", "cpu_memory_usage",
             "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage",
             "flops", "count")
SORT_NAMES = ("key",) + tuple(dict.fromkeys(
    name.replace("device", device) for device in _DEVICES for name in _MEASURES))


def _canonical(name: str) -> str:
    for device in _DEVICES:
        name = name.replace(device, "device")
    return name


class Row:
    """One operation (by shapes or stack, if requested): torch's names, absent values None."""

    def __init__(self, average: "FunctionEventAvg", flags: dict[str, bool], device: bool) -> None:
        def measured(name: str, on: bool) -> Optional[float]:
            return getattr(average, name) if on else None

        self.key: str = average.key
        self.count: int = average.count
        self.cpu_time_total: float = average.cpu_time_total
        self.self_cpu_time_total: float = average.self_cpu_time_total
        self.device_time_total = measured("device_time_total", device)
        self.self_device_time_total = measured("self_device_time_total", device)
        memory = flags["profile_memory"]
        self.cpu_memory_usage = measured("cpu_memory_usage", memory)
        self.self_cpu_memory_usage = measured("self_cpu_memory_usage", memory)
        self.device_memory_usage = measured("device_memory_usage", memory and device)
        self.self_device_memory_usage = measured("self_device_memory_usage", memory and device)
        # torch writes 0 for the operators it has no formula for
        self.flops = measured("flops", flags["with_flops"]) or None
        self.input_shapes = measured("input_shapes", flags["record_shapes"])
        self.stack: list[str] = average.stack or []
        self.is_async: bool = average.is_async

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> Optional[float]:
        return None if self.device_time_total is None else self.device_time_total / self.count

    def __getattr__(self, name: str) -> Any:
        """The spellings cuda_..., xpu_... of the device's values."""
        canonical = _canonical(name)
        if canonical == name or canonical not in _MEASURES:
            raise AttributeError(f"'Row' has no attribute '{name}'")
        return getattr(self, canonical)

    def __repr__(self) -> str:
        return (f"<Row {self.key} count={self.count} cpu_time_total={self.cpu_time_total:.3f} "
                f"self_cpu_time_total={self.self_cpu_time_total:.3f}>")


def time_text(us: Optional[float]) -> str:
    if us is None:
        return "n/a"
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


def bytes_text(count: Optional[float]) -> str:
    if count is None:
        return "n/a"
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def _share(value: Optional[float], total: float) -> str:
    return "n/a" if value is None or total <= 0 else f"{100 * value / total:.2f}%"


def _number(value: Optional[float]) -> str:
    return "n/a" if value is None else f"{value:,.0f}"


def _cut(text: str, width: Optional[int]) -> str:
    return text if width is None or len(text) <= width else text[:max(width - 3, 0)] + "..."


class Averages:
    """Rows in torch's order; sortable as text or HTML."""

    def __init__(self, averages: Sequence["FunctionEventAvg"], flags: dict[str, bool], shapes: bool = False,
                 stacks: int = 0) -> None:
        self.has_device = any(a.self_device_time_total > 0 for a in averages)
        self.flags, self.shapes, self.stacks = flags, shapes, stacks
        self.rows = [Row(a, flags, self.has_device) for a in averages]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def total_average(self) -> dict[str, Optional[float]]:
        """Sums of what does not count twice."""
        sums: dict[str, Optional[float]] = {
            "self_cpu_time_total": sum(r.self_cpu_time_total for r in self.rows)}
        sums["self_device_time_total"] = (
            sum(r.self_device_time_total or 0 for r in self.rows) if self.has_device else None)
        return sums

    def sorted(self, sort_by: Optional[str]) -> list[Row]:
        """Largest first; unmeasured values last."""
        if sort_by is None:
            return list(self.rows)
        if sort_by not in SORT_NAMES:
            raise ValueError(f"sort_by '{sort_by}' is not one of {', '.join(SORT_NAMES)}")
        if sort_by == "key":
            return sorted(self.rows, key=lambda r: r.key)
        name = _canonical(sort_by)

        def largest_first(row: Row) -> tuple[bool, float]:
            value = getattr(row, name)
            return value is None, -(value or 0)
        return sorted(self.rows, key=largest_first)

    def _columns(self, name_width: Optional[int], shape_width: Optional[int],
                 stack_width: Optional[int]) -> list[tuple[str, Callable[[Row], str]]]:
        total = self.total_average()
        cpu = total["self_cpu_time_total"] or 0
        columns: list[tuple[str, Callable[[Row], str]]] = [
            ("Name", lambda r: _cut(r.key, name_width)),
            ("Self CPU %", lambda r: _share(r.self_cpu_time_total, cpu)),
            ("Self CPU", lambda r: time_text(r.self_cpu_time_total)),
            ("CPU total", lambda r: time_text(r.cpu_time_total)),
            ("CPU time avg", lambda r: time_text(r.cpu_time))]
        if self.has_device:
            device = total["self_device_time_total"] or 0
            columns += [("Self CUDA", lambda r: time_text(r.self_device_time_total)),
                        ("Self CUDA %", lambda r: _share(r.self_device_time_total, device)),
                        ("CUDA total", lambda r: time_text(r.device_time_total)),
                        ("CUDA time avg", lambda r: time_text(r.device_time))]
        if self.flags["profile_memory"]:
            columns += [("CPU Mem", lambda r: bytes_text(r.cpu_memory_usage)),
                        ("Self CPU Mem", lambda r: bytes_text(r.self_cpu_memory_usage))]
            if self.has_device:
                columns += [("CUDA Mem", lambda r: bytes_text(r.device_memory_usage)),
                            ("Self CUDA Mem", lambda r: bytes_text(r.self_device_memory_usage))]
        columns.append(("# of Calls", lambda r: str(r.count)))
        if self.flags["with_flops"]:
            columns.append(("Total FLOPs", lambda r: _number(r.flops)))
        if self.shapes:
            columns.append(("Input Shapes", lambda r: _cut(str(r.input_shapes), shape_width)))
        if self.stacks:
            columns.append(("Source Location",
                            lambda r: _cut("; ".join(r.stack[:self.stacks]), stack_width)))
        return columns

    def table(self, sort_by: Optional[str] = None, row_limit: int = 100,
              max_src_column_width: Optional[int] = 75, max_name_column_width: Optional[int] = 55,
              max_shapes_column_width: Optional[int] = 80, header: Optional[str] = None,
              top_level_events_only: bool = False) -> str:
        """Text in the style of torch.profiler; `row_limit` -1 shows all rows."""
        if top_level_events_only:
            raise ValueError("sums have no top level; leave top_level_events_only out, or use "
                             "events().table(top_level_events_only=True)")
        rows = self.sorted(sort_by)
        rows = rows if row_limit < 0 else rows[:row_limit]
        columns = self._columns(max_name_column_width, max_shapes_column_width,
                                max_src_column_width)
        lines = [[name for name, _ in columns]] + [[text(r) for _, text in columns] for r in rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        rule = "  ".join("-" * w for w in widths)
        texts = ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                           for i, (cell, w) in enumerate(zip(line, widths))) for line in lines]
        total = self.total_average()
        foot = [f"Self CPU time total: {time_text(total['self_cpu_time_total'])}"]
        foot.append("Self CUDA time total: " + (
            time_text(total["self_device_time_total"]) if self.has_device
            else "n/a (no device work was recorded)"))
        if len(rows) < len(self.rows):
            foot.append(f"{len(self.rows) - len(rows)} more rows (row_limit)")
        return "\n".join(([header] if header else [])
                         + [rule, texts[0], rule, *texts[1:], rule, *foot]) + "\n"

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        columns = self._columns(None, None, None)
        head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(text(r))}</td>" for _, text in columns)
                       + "</tr>" for r in self.sorted("self_cpu_time_total")[:100])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
