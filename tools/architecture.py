#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/architecture.svg from the sources: the rooms of src as floors of a house.

Who uses whom comes from the includes (check_includes.py), what a room is from the list in
docs/design.md, what is in it from its folders. A room is above everything it uses; one with much space
above it is drawn as a tower beside the floors. Colours say in which program a room ends up.

usage: architecture.py [ROOT]           writes the picture
       architecture.py --check [ROOT]   exits 1 when the picture is not what the sources give
"""
import pathlib
import re
import sys
import textwrap
from xml.sax.saxutils import escape

import check_includes

WIDTH, MARGIN, GAP, TOWER = 1120, 24, 10, 172
NAME, TEXT, CHIP = 21, 16, 23  # heights of a line
PAD = 12
CHARACTER = 6.25  # the mean width of one, at 12 pixels
TOWER_FLOORS = 4  # free floors above a room that make it a tower

# What a room without users is linked into.
PROGRAMS = {"probe": "libmoescope.so", "cmd": "moescope", "tinymoe": "tinymoe",
            "load": "moescope-load, moescope-calibrate"}
COLOURS = {"both": ("#dbeafe", "#1d4ed8"), "probe": ("#ffedd5", "#c2410c"),
           "cmd": ("#dcfce7", "#15803d"), "own": ("#f1f5f9", "#475569"), "out": ("#ffffff", "#94a3b8")}
FONT = "font-family='-apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


class Room:
    """A room of src: what it is, what it uses, and where it is drawn."""

    def __init__(self, root, name, what):
        self.name, self.what = name, what
        self.uses, self.users = set(), set()
        folder = root / "src" / name
        self.parts = sorted(p.name for p in folder.iterdir() if p.is_dir() and any(p.rglob("*.[ch]")))
        self.floor = 0
        self.top = 0  # the highest floor that it reaches; above floor only for a tower
        self.programs = set()

    def lines(self, width):
        """Its texts, wrapped: (what it is, folders inside, what it uses)."""
        columns = int((width - 2 * PAD) / CHARACTER)
        what = textwrap.wrap(self.what, columns)
        rows, taken = [], 0.0
        for part in self.parts:
            size = len(part) * CHARACTER + 20
            if not rows or taken + size > width - 2 * PAD:
                rows.append([])
                taken = 0.0
            rows[-1].append(part)
            taken += size
        uses = textwrap.wrap("uses " + ", ".join(sorted(self.uses)), columns) if self.uses else []
        return what, rows, uses

    def height(self, width):
        what, rows, uses = self.lines(width)
        return 2 * PAD + NAME + TEXT * (len(what) + len(uses)) + CHIP * len(rows)


def descriptions(root):
    """room: the first clause of its line in the list of docs/design.md."""
    text = (root / "docs" / "design.md").read_text(encoding="utf-8")
    listed = re.search(r"^## The house\n\n```\n(.*?)^```$", text, re.M | re.S).group(1)
    found = {}
    for name, what in re.findall(r"^src/(\S+)/ +(.*(?:\n {8,}\S.*)*)", listed, re.M):
        found[name] = re.split("[:;]", " ".join(what.split()))[0].replace("`", "")
    return found


def drawn(room):
    """The probe's floors are parts of one room here."""
    return "probe" if room.startswith("probe/") else room


def read(root):
    """The rooms with their arrows."""
    said = descriptions(root)
    names = list(dict.fromkeys(map(drawn, check_includes.ROOMS)))
    lacking = [name for name in names if name not in said]
    if lacking:
        sys.exit(f"docs/design.md: the list of 'The house' does not say what src/{lacking[0]}/ is")
    rooms = {name: Room(root, name, said[name]) for name in names}
    for source in sorted((root / "src").rglob("*.[ch]")):
        room = drawn(check_includes.room_of(root, source))
        for line in source.read_text(encoding="utf-8").splitlines():
            match = check_includes.INCLUDE.match(line)
            target = match and check_includes.resolve(root, source, match.group(1), match.group(2))
            into = target and drawn(check_includes.room_of(root, target))
            if into in rooms and room in rooms and into != room:
                rooms[room].uses.add(into)
                rooms[into].users.add(room)
    return rooms


def arrange(rooms):
    """Floors, towers and programs. Rooms that neither use nor are used stay on floor 0."""
    pending = set(rooms)
    while pending:
        ready = {n for n in pending if not rooms[n].uses & pending}
        if not ready:
            sys.exit("these rooms use each other in a circle: " + ", ".join(sorted(pending)))
        for name in ready:
            rooms[name].floor = 1 + max((rooms[u].floor for u in rooms[name].uses), default=0)
        pending -= ready
    highest = max(room.floor for room in rooms.values())
    for room in sorted(rooms.values(), key=lambda room: -room.floor):
        limit = min((rooms[u].floor for u in room.users), default=highest + 1) - 1
        if not room.uses and not room.users:
            room.floor = 0
        elif limit - room.floor < TOWER_FLOORS:
            room.floor = limit  # as near to its users as they allow
        room.top = max(room.floor, limit if room.floor else 0)
    for name in PROGRAMS:
        reached, waiting = set(), [name]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting.extend(rooms[one].uses)
        for one in reached:
            rooms[one].programs.add(name)
    return highest


def colours(room):
    if {"probe", "cmd"} <= room.programs:
        return COLOURS["both"]
    return COLOURS[next((name for name in ("probe", "cmd") if name in room.programs), "own")]


def text(x, y, words, size=12, fill="#334155", weight="normal", anchor="start"):
    return (f"<text x='{x:.0f}' y='{y:.0f}' font-size='{size}' fill='{fill}' font-weight='{weight}' "
            f"text-anchor='{anchor}'>{escape(words)}</text>")


def box(x, y, width, height, paint, dashed=False):
    return (f"<rect x='{x:.0f}' y='{y:.0f}' width='{width:.0f}' height='{height:.0f}' rx='8' "
            f"fill='{paint[0]}' stroke='{paint[1]}' stroke-opacity='0.55'"
            + (" stroke-dasharray='4 3'" if dashed else "") + "/>")


def draw_room(room, x, y, width, height):
    paint = colours(room)
    what, rows, uses = room.lines(width)
    yield box(x, y, width, height, paint)
    left, at = x + PAD, y + PAD + 14
    yield text(left, at, room.name, 15, paint[1], "bold")
    if room.name in PROGRAMS and not PROGRAMS[room.name] == room.name:
        # Next to the name if there is room; a tower has it below.
        words = "→ " + PROGRAMS[room.name]
        if (len(room.name) + len(words)) * 9 < width - 2 * PAD:
            yield text(x + width - PAD, at, words, 12, paint[1], anchor="end")
        else:
            at += TEXT
            yield text(left, at, words, 12, paint[1])
    at += NAME - 2
    for line in what:
        yield text(left, at, line)
        at += TEXT
    for row in rows:
        across = left
        for part in row:
            size = len(part) * CHARACTER + 14
            yield (f"<rect x='{across:.0f}' y='{at - 11:.0f}' width='{size:.0f}' height='18' rx='9' "
                   f"fill='#ffffff' fill-opacity='0.8'/>")
            yield text(across + size / 2, at + 2, part, 11, paint[1], anchor="middle")
            across += size + 6
        at += CHIP
    for line in uses:
        yield text(left, at, line, 11, "#64748b")
        at += TEXT


def draw(rooms, highest):
    """The lines of the picture."""
    towers = [room for room in rooms.values() if room.top > room.floor > 0]
    left = [t for t in towers if "cmd" not in t.programs]
    right = [t for t in towers if "cmd" in t.programs]
    floors = {f: [r for r in rooms.values() if r.floor == f and r not in towers]
              for f in range(highest + 1)}

    def sides(floor):
        """How many towers are on each side of a floor."""
        return [sum(t.floor <= floor <= t.top for t in side) for side in (left, right)]

    def span(floor):
        a, b = sides(floor)
        return (MARGIN + a * (TOWER + GAP), WIDTH - MARGIN - b * (TOWER + GAP))

    def width_of(floor):
        a, b = span(floor)
        return (b - a - GAP * (len(floors[floor]) - 1)) / max(1, len(floors[floor]))

    heights = {f: max((r.height(width_of(f)) for r in floors[f]), default=0) for f in floors}
    body = [text(MARGIN, MARGIN + 14, "The house of moescope", 18, "#0f172a", "bold"),
            text(MARGIN, MARGIN + 34, "A room uses only rooms below it. Made from the sources by "
                 "tools/architecture.py.", 12, "#64748b")]
    at = MARGIN + 52
    # Who stands on top.
    a, b = span(highest)
    for x, width, title, words in (
            (MARGIN, a - MARGIN - GAP, "your program", "calls moescope.h"),
            (a, WIDTH - MARGIN - a, "python/moescope",
             "the library by ctypes, the tool for everything that is read back; and you, at the shell")):
        if width > 0:
            body += [box(x, at, width, 50, COLOURS["out"], True),
                     text(x + PAD, at + 20, title, 14, "#334155", "bold"),
                     text(x + PAD, at + 38, words, 12, "#64748b")]
    at += 50 + GAP
    tops = {}
    for floor in range(highest, -1, -1):
        if floor == 0:
            at += GAP
        tops[floor] = at
        x, width = span(floor)[0] if floor else MARGIN, width_of(floor)
        for room in sorted(floors[floor], key=lambda r: (r.programs == {"cmd"}, r.name)):
            body += draw_room(room, x, at, width, heights[floor])
            x += width + GAP
        at += heights[floor] + GAP
    for side, start, step in ((left, MARGIN, 1), (right, WIDTH - MARGIN - TOWER, -1)):
        for number, tower in enumerate(side):
            bottom = tops[tower.floor] + heights[tower.floor]
            body += draw_room(tower, start + step * number * (TOWER + GAP), tops[tower.top], TOWER,
                              bottom - tops[tower.top])
    x = MARGIN
    at += 8
    for name, words in (("probe", "in libmoescope.so, injected into your program"), ("cmd", "in the tool, moescope"),
                        ("both", "in both"), ("own", "programs of their own")):
        body += [box(x, at, 16, 16, COLOURS[name]), text(x + 22, at + 12.5, words)]
        x += 22 + len(words) * CHARACTER + 28
    at += 16 + MARGIN
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {at:.0f}' width='{WIDTH}' "
            f"height='{at:.0f}' {FONT}>\n<!-- SPDX-License-Identifier: Apache-2.0; made by tools/architecture.py -->\n"
            f"<rect width='{WIDTH}' height='{at:.0f}' rx='12' fill='#ffffff'/>\n" + "\n".join(body) + "\n</svg>\n")


def main():
    words = sys.argv[1:]
    check = "--check" in words
    given = [word for word in words if word != "--check"]
    root = pathlib.Path(given[0] if given else pathlib.Path(__file__).parent.parent).resolve()
    rooms = read(root)
    picture = draw(rooms, arrange(rooms))
    path = root / "docs" / "architecture.svg"
    if not check:
        path.write_text(picture, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != picture:
        print("docs/architecture.svg is not what the sources give; run tools/architecture.py and look at it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
