"""Figures of the experiments as SVG, readable on a light and a dark ground: grouped bars, curves, rows of dots.

    bars(path, title, unit, [("redeploy 1.3B", [4.8, 5.2])], ["published", "simulated"])
    lines(path, title, ("GPUs", "seconds"), [("reshard", [(16, 0.3), (32, 0.3)])], log=(True, True))
    dots(path, title, [("rows", [(-3.1, True)])], edge=40)
"""

import math
import xml.sax.saxutils

WIDTH = 760
LIGHT = ("#2f6fb0", "#c2571a", "#3c8d40", "#8e4fa8", "#8a8a8a")
DARK = ("#6cb0f0", "#f0965a", "#76c77a", "#c892e0", "#a8a8a8")


def _style():
    def rules(ground, ink, grid, colours):
        return (f".ground{{fill:{ground}}}text{{fill:{ink}}}.grid{{stroke:{grid}}}.axis{{stroke:{ink}}}.ring{{fill:{ground}}}" +
                "".join(f".c{i}{{fill:{colour}}}.s{i}{{stroke:{colour}}}" for i, colour in enumerate(colours)))
    return (f"<style>{rules('#fff', '#222', '#ddd', LIGHT)}.curve{{fill:none;stroke-width:2}}"
            f"@media(prefers-color-scheme:dark){{{rules('#0d1117', '#ddd', '#333', DARK)}}}</style>\n")


def _text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{xml.sax.saxutils.escape(words)}</text>\n'


def _write(path, height, title, body):
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
                    f'font-family="sans-serif">\n{_style()}<rect class="ground" width="100%" height="100%"/>\n'
                    f"{_text(10, 20, title, size=14)}{body}</svg>\n", encoding="utf-8")


def _legend(labels, y):
    """Swatches with names from left to right, in as many rows as it takes; and the height below them."""
    parts, x = [], 10
    for i, label in enumerate(labels):
        wide = 30 + 6.6 * len(label)
        if x + wide > WIDTH and x > 10:
            x, y = 10, y + 18
        parts.append(f'<rect class="c{i}" x="{x:.0f}" y="{y - 9}" width="10" height="10"/>\n{_text(x + 15, y, label)}')
        x += wide
    return "".join(parts), y + 12


def number(value):
    """Three figures, as in 0.31, 4.8, 87.2, 1,490."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(low, high, log):
    """About six round numbers between the two; of a logarithmic axis, powers of ten with 2 and 5 where there is room."""
    if log:
        tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        parts = (1, 2, 5) if len(tens) <= 3 else (1,)
        found = [part * 10.0**ten for ten in tens for part in parts]
        return [at for at in found if low * 0.999 <= at <= high * 1.001]
    step = 10.0 ** math.floor(math.log10((high - low) / 6))
    step *= next(part for part in (1, 2, 5, 10) if (high - low) / (step * part) <= 6)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def bars(path, title, unit, groups, series):
    """`groups` are (label, a value for each of the series, or None)."""
    left, bar, gap = 30 + 6.6 * max(len(label) for label, _ in groups), 12, 12
    high = max(value for _, values in groups for value in values if value is not None)
    scale = (WIDTH - left - 70) / high
    body, top = _legend(series, 42)
    y = top + 8
    for label, values in groups:
        rows = [(i, value) for i, value in enumerate(values) if value is not None]
        body += _text(left - 8, y + bar * len(rows) / 2 + 4, label, "end")
        for i, value in rows:
            body += (f'<rect class="c{i}" x="{left:.1f}" y="{y}" width="{max(value * scale, 1):.1f}" height="{bar - 2}"/>\n' +
                     _text(left + value * scale + 5, y + bar - 3, number(value), size=10))
            y += bar
        y += gap
    bottom = y - gap / 2
    for at in ticks(0, high, False):
        x = left + at * scale
        body = f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>\n' + body
        body += _text(x, bottom + 14, number(at), "middle", 11)
    _write(path, bottom + 40, title, body + _text(left, bottom + 32, unit))


def lines(path, title, axes, curves, log=(False, False), at_x=None):
    """`curves` are (label, points); `axes` the words under the x axis and above the y axis; `at_x` its marks."""
    left, right, height = 70, WIDTH - 20, 300
    legend, top = _legend([label for label, _ in curves], 42)
    top += 22
    bottom = top + height
    points = [point for _, curve in curves for point in curve]
    bounds = [(min(point[i] for point in points), max(point[i] for point in points)) for i in (0, 1)]
    bounds = [(low if logarithmic else min(low, 0), high) for (low, high), logarithmic in zip(bounds, log)]
    if log[1]:  # whole decades
        bounds[1] = tuple(10.0 ** whole(math.log10(end)) for whole, end in zip((math.floor, math.ceil), bounds[1]))

    def share(i, value):
        low, high = bounds[i]
        return math.log(value / low) / math.log(high / low) if log[i] else (value - low) / (high - low)
    across = lambda value: left + (right - left) * share(0, value)  # noqa: E731
    down = lambda value: bottom - height * share(1, value)  # noqa: E731
    body = legend + _text(left, top - 8, axes[1]) + _text((left + right) / 2, bottom + 34, axes[0], "middle")
    for at in at_x or ticks(*bounds[0], log[0]):
        body += (f'<line class="grid" x1="{across(at):.1f}" y1="{top}" x2="{across(at):.1f}" y2="{bottom}"/>\n' +
                 _text(across(at), bottom + 16, number(at), "middle", 11))
    for at in ticks(*bounds[1], log[1]):
        body += (f'<line class="grid" x1="{left}" y1="{down(at):.1f}" x2="{right}" y2="{down(at):.1f}"/>\n' +
                 _text(left - 6, down(at) + 4, number(at), "end", 11))
    body += f'<line class="axis" x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>\n'
    for i, (_, curve) in enumerate(curves):
        places = [(across(x), down(y)) for x, y in curve]
        body += f'<polyline class="curve s{i}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>\n'
        if len(curve) <= 20:
            body += "".join(f'<circle class="c{i}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>\n' for x, y in places)
    _write(path, bottom + 46, title, body)


def dots(path, title, rows, edge):
    """`rows` are (label, dots); a dot is (percent, filled). What is beyond `edge` is drawn at the edge."""
    left, right, step, top = 170, WIDTH - 20, 24, 34
    bottom = top + step * len(rows) + 6
    at = lambda percent: left + (right - left) * (max(-edge, min(edge, percent)) + edge) / (2 * edge)  # noqa: E731
    body = ""
    for percent in range(-edge, edge + 1, 10):
        body += (f'<line class="{"axis" if percent == 0 else "grid"}" x1="{at(percent):.0f}" y1="{top}" x2="{at(percent):.0f}" '
                 f'y2="{bottom}"/>\n' + _text(at(percent), bottom + 16, f"{percent:+d}" if percent else "0", "middle"))
    for index, (label, values) in enumerate(rows):
        y = top + 15 + step * index
        body += _text(left - 10, y + 4, label, "end")
        for percent, filled in values:
            body += (f'<circle class="{"c0" if filled else "ring"} s0" cx="{at(percent):.1f}" cy="{y}" r="4" '
                     'fill-opacity="0.6"/>\n')
    _write(path, bottom + 26, title, body)
