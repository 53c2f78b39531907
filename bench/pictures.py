"""The figures of docs/figures.md: which measured figures each shows, and in which words. One function a part of bench/run.

A picture is None while its part was not measured. What a part left out is missing from the picture, and named beneath it.
"""

import dataclasses

from draw import Bar, Panel, Row, svg, three

SIDES = {"ours": "shufflefs", "other": "plain files and others"}
POINTED = {"other": "on plain files or shards", "ours": "through the mount"}
LOADERS = {
    "libshuffleload": "libshuffleload, in Python",
    "torchvision": "torchvision, DataLoader",
    "webdataset": "WebDataset",
    "dali-file": "DALI, file reader",
    "dali-webdataset": "DALI, webdataset reader",
    "tf.data": "tf.data",
}
BATCHES = {
    "libjpeg-turbo alone, region and DCT scaling": ("limit", "libjpeg-turbo alone"),
    "libshuffleload, a rank's folder": ("ours", "libshuffleload, folder"),
    "libshuffleload, rank-0.tar": ("ours", "libshuffleload, stream"),
    "ffcv": ("other", "FFCV"),
    "dali": ("other", "DALI, file reader"),
    "torchvision": ("other", "torchvision, DataLoader"),
    "webdataset": ("other", "WebDataset"),
}


class Measured:
    """What bench/run wrote with --json, or several of these together."""

    def __init__(self, told):
        self.parts, self.figures, self.left_out = told["parts"], told["figures"], told["left_out"]

    def sections(self, part):
        """Titles, in the order in which they were measured."""
        return list(dict.fromkeys(one["section"] for one in self.figures if one["part"] == part))

    def named(self, part, section):
        """The figures of a section, by name, and its whole title, of which `section` is the beginning."""
        found = [one for one in self.figures if one["part"] == part and one["section"].startswith(section)]
        return {one["name"]: one["values"] for one in found}, found[0]["section"] if found else ""


@dataclasses.dataclass
class Picture:
    title: str
    legend: dict
    panels: list
    ratios: str = ""

    def svg(self):
        return svg(self.title, self.panels, self.legend)

    def table(self):
        """The same as text."""
        lines = []
        for panel in self.panels:
            columns = max(len(row.bars) for row in panel.rows)
            heads = list(self.legend.values()) if columns > 1 else [panel.unit]
            heads = [f"{head}, {panel.unit}" for head in heads] if columns > 1 else heads
            heads += [self.ratios] if self.ratios else []
            lines += ["", f"| {panel.title} | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
            for row in panel.rows:
                cells = [row.label, *(bar.text for bar in row.bars), *([row.note.removeprefix("x ")] if self.ratios else [])]
                lines.append("| " + " | ".join(cells) + " |")
        return lines[1:]


POINTED_TITLE = "Loaders pointed at the mount, "


def pointed(measured, where, words):
    """Each loader on plain files and through the mount, and the ratio."""
    figures, title = measured.named("peers", POINTED_TITLE + where)
    rows = []
    for loader, label in LOADERS.items():
        ratios = figures.get(f"{loader}, on the mount / on files")
        if ratios:
            bars = [Bar("other", figures[f"{loader} on files"]), Bar("ours", figures[f"{loader} on the mount"])]
            rows.append(Row(label, bars, f"x {three(ratios)}"))
    if not rows:
        return None
    panels = [Panel(title.partition(": ")[2], "images/s", rows)]
    return Picture(POINTED_TITLE + words, POINTED, panels, "mount / plain")


def peers_warm(measured):
    return pointed(measured, "page cache warm", "page cache warm")


def peers_cold(measured):
    return pointed(measured, "from the local disk, cold", "from a cold local disk")


def peers_slow(measured):
    for section in measured.sections("peers"):
        where = section.removeprefix(POINTED_TITLE).partition(": ")[0]
        if where.endswith("ms a read"):
            return pointed(measured, where, f"storage that takes {where}")
    return None


def panel(measured, part, section, title, unit, sides, most=None):
    """A bar a row. `sides`: name -> (kind, label). None when nothing of it was measured."""
    figures, _ = measured.named(part, section)
    rows = [Row(label, [Bar(kind, figures[name])]) for name, (kind, label) in sides.items() if name in figures]
    return Panel(title, unit, rows, most) if rows else None


def picture(title, legend, panels):
    panels = [one for one in panels if one]
    return Picture(title, legend, panels) if panels else None


def batches(measured):
    title = "RandomResizedCrop 224, flip, float32, page cache warm"
    one = panel(measured, "loader", "Photographs to batches", title, "images/s", BATCHES)
    legend = {"ours": "libshuffleload, through the mount", "other": "others, on files of their own", "limit": "decoding alone"}
    return picture("Photographs to batches", legend, [one])


def files(measured):
    figures, _ = measured.named("photographs", "Photographs, one reader")
    plain = [name for name in figures if name.startswith("plain files (") and name.endswith(", warm")]
    disk = plain[0].removesuffix(", warm") if plain else "plain files"
    states = {
        "a fresh mount, its shards or image in the page cache": ("first touch", "first touch", ("squashfuse_ll", "ratarmount")),
        "warm: all was read before": ("warm", "later passes", (disk, "squashfuse_ll", "ratarmount")),
        "from a cold local disk": ("from storage", "from storage", (disk,)),
    }
    panels = []
    for title, (which, theirs, others) in states.items():
        sides = {f"shufflefs, {which}": ("ours", "shufflefs")}
        for name in others:
            state = which if name == disk else theirs
            sides[f"{name}, {state}"] = ("other", name)
        panels.append(panel(measured, "photographs", "Photographs, one reader", title, "files/s", sides))
    return picture("Files a second, one reader", SIDES, panels)


def waiting(measured):
    sides = {
        "plain files, GPU utilisation": ("other", "plain files, shuffled"),
        "listed, GPU utilisation after 100 ms": ("ours", "shufflefs, listed folder"),
        "fixed paths after a switch, GPU utilisation after 100 ms": ("ours", "shufflefs, fixed paths"),
        "plain files (ext4) in the page cache, GPU utilisation": ("limit", "all in the page cache"),
    }
    unit = "% of the time at work, not waiting"
    panels = []
    for section in measured.sections("slow"):
        for working, works in (("computing", "computes"), ("sleeping", "sleeps")):
            title = section.removeprefix("Slow storage: ").replace("works", works)
            own = {f"{working}, {name}": side for name, side in sides.items()}
            panels.append(panel(measured, "slow", section, title, unit, own, 100))
    legend = {"ours": "shufflefs", "other": "plain files", "limit": "plain files on the local disk"}
    return picture("A reader on slow storage", legend, panels)


def blocks(measured):
    sides = {"order=torch": ("other", "order=torch"), "order=block": ("ours", "order=block")}
    panels = []
    for section in measured.sections("block"):
        title = section.partition(": photographs, ")[2].replace("as they come", "reading ahead")
        panels.append(panel(measured, "block", section, title, "files/s", sides))
    return picture("Blocks beside torch's order", {"ours": "order=block", "other": "order=torch"}, panels)


def python(measured):
    sides = {
        "C": ("limit", "in C"),
        "python": ("ours", "in Python"),
        "python, numpy": ("ours", "as numpy's arrays"),
        "python, torch": ("ours", "as torch's tensors"),
    }
    titles = {"ready": "batches that were all made before", "made meanwhile": "batches that are made meanwhile"}
    panels = [
        panel(measured, "python", f"A batch in Python and in C, {state}:", title, "us of processor time a batch", sides)
        for state, title in titles.items()
    ]
    return picture("Taking a batch", {"ours": "in Python", "limit": "in C"}, panels)


#: In the page's order: its name, which part of bench/run it is of, and how it is made.
PICTURES = {
    "peers-warm": ("peers", peers_warm),
    "peers-cold": ("peers", peers_cold),
    "peers-slow": ("peers", peers_slow),
    "batches": ("loader", batches),
    "files": ("photographs", files),
    "waiting": ("slow", waiting),
    "blocks": ("block", blocks),
    "python": ("python", python),
}
