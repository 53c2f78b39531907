"""Bars as SVG: panels below each other, each with an axis of its own from 0, rows of one or more bars, the median as the bar's
length and as text, least and most as a line across its end. Colours follow the reader's light or dark scheme, text is text.

Knows what bars look like and nothing of what they mean.
"""

import dataclasses
import math
import statistics
from xml.sax.saxutils import escape, quoteattr

from measure import number

WIDTH, LEFT, RIGHT, EDGE = 820, 210, 190, 14
BAR, BAR_GAP, ROW_GAP = 15, 3, 12
HEAD, AXIS, PANEL_GAP, LEGEND = 26, 40, 18, 24
TICKS_MOST = 6

# Kinds of bars: ours, what it is held against, and limits of both. Colours by Okabe and Ito, that all eyes tell apart.
LIGHT = {
    "ours": "#0072b2",
    "other": "#e69f00",
    "limit": "#999999",
    "paper": "#ffffff",
    "ink": "#1f2328",
    "grid": "#d8dee4",
    "pale": "#59636e",
}
DARK = {
    "ours": "#56b4e9",
    "other": "#e69f00",
    "limit": "#8b949e",
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "grid": "#30363d",
    "pale": "#9198a1",
}


@dataclasses.dataclass
class Bar:
    kind: str
    values: list

    @property
    def text(self):
        return three(self.values)


@dataclasses.dataclass
class Row:
    label: str
    bars: list
    note: str = ""


@dataclasses.dataclass
class Panel:
    title: str
    unit: str
    rows: list
    most: float | None = None

    @property
    def height(self):
        return HEAD + sum(row_height(row) for row in self.rows) + AXIS


def row_height(row):
    return len(row.bars) * (BAR + BAR_GAP) - BAR_GAP + ROW_GAP


def three(values):
    """Median (least - most)."""
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({number(min(values))} - {number(max(values))})"


def tick(most):
    """1, 2 or 5 times a power of ten, for up to TICKS_MOST steps."""
    power = 10 ** math.floor(math.log10(most / TICKS_MOST))
    return next(step * power for step in (1, 2, 5, 10) if most / (step * power) <= TICKS_MOST)


def style(colours):
    fills = "".join(f".{name}{{fill:{colours[name]}}}" for name in ("ours", "other", "limit", "paper"))
    lines = "".join(f".{name}{{stroke:{colours[name]}}}" for name in ("grid", "ink"))
    return f"text{{fill:{colours['ink']}}}text.pale{{fill:{colours['pale']}}}{fills}{lines}"


def text(x, y, content, anchor="start", name="", size=12):
    named = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{named}>{escape(content)}</text>'


def draw_axis(panel, top, bottom, scale, most):
    lines, step = [], tick(most)
    for at in range(int(most / step + 1e-9) + 1):
        x = LEFT + at * step * scale
        lines.append(f'<path class="{"ink" if at == 0 else "grid"}" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
        lines.append(text(x, bottom + 15, f"{at * step:,g}", "middle", "pale", 11))
    lines.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 31, panel.unit, "middle", "pale", 11))
    return lines


def draw_bar(bar, y, scale):
    median, least, most = statistics.median(bar.values), min(bar.values), max(bar.values)
    middle = y + BAR / 2
    lines = [f'<rect class="{bar.kind}" x="{LEFT}" y="{y:.1f}" width="{median * scale:.2f}" height="{BAR}"/>']
    if len(bar.values) > 1:
        from_x, to_x = LEFT + least * scale, LEFT + most * scale
        ends = "".join(f"M{x:.1f} {middle - 4:.1f}v8" for x in (from_x, to_x))
        lines.append(f'<path class="ink" fill="none" d="M{from_x:.1f} {middle:.1f}H{to_x:.1f}{ends}"/>')
    lines.append(text(LEFT + most * scale + 6, middle + 4, bar.text, name="value"))
    return lines


def draw_panel(panel, y):
    most = panel.most or max(max(bar.values) for row in panel.rows for bar in row.bars) * 1.02
    scale = (WIDTH - LEFT - RIGHT) / most
    top = y + HEAD
    bottom = top + sum(row_height(row) for row in panel.rows)
    lines = ['<g class="panel">', text(EDGE, y + 15, panel.title, size=13)]
    lines += draw_axis(panel, top, bottom, scale, most)
    at = top + ROW_GAP / 2
    for row in panel.rows:
        middle = at + (row_height(row) - ROW_GAP) / 2
        lines.append(text(LEFT - 8, middle + (-3 if row.note else 4), row.label, "end"))
        if row.note:
            lines.append(text(LEFT - 8, middle + 12, row.note, "end", "pale", 11))
        for k, bar in enumerate(row.bars):
            lines += draw_bar(bar, at + k * (BAR + BAR_GAP), scale)
        at += row_height(row)
    return [*lines, "</g>"]


def draw_legend(legend, y):
    lines, x = [], EDGE
    for kind, words in legend.items():
        lines.append(f'<rect class="{kind}" x="{x}" y="{y}" width="12" height="12"/>')
        lines.append(text(x + 18, y + 10.5, words))
        x += 40 + 7 * len(words)
    return lines


def svg(title, panels, legend):
    """A whole file. `legend`: kind of bar -> words."""
    y = EDGE + LEGEND + 22
    body = [text(EDGE, EDGE + 13, title, size=15), *draw_legend(legend, EDGE + 26)]
    for panel in panels:
        body += draw_panel(panel, y)
        y += panel.height + PANEL_GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img" '
            f'font-family="system-ui, sans-serif" aria-label={quoteattr(title)}>',
            f"<title>{escape(title)}</title>",
            f"<style>{style(LIGHT)}@media (prefers-color-scheme: dark){{{style(DARK)}}}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            *body,
            "</svg>",
            "",
        ]
    )
