"""Plots as SVG, drawn by hand: the same figures give the same bytes.

Colours are of a middle tone on no background, so that a page may be light or dark, and differ for every kind of colour
vision; nothing is told by colour alone: lines have marks and labels, bars have rows and numbers.
"""

from html import escape
from math import ceil, floor, log10

INK, FAINT = "#7a7f87", "#7a7f8755"
# By the first word of a peer's group. A group layer is dashed.
COLOURS = {
    "sprag": "#2a83d4",
    "sqlite": "#d55e00",
    "denokv": "#b8860b",
    "fjall": "#00996b",
    "redb": "#b565a7",
    "lmdb": "#8c7a00",
    "floor": "#7a7f87",
}
FONT = 13
LETTER = 7.0
LINE = 17


def short(number):
    """A number as an axis shows it: 40,000 is 40k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def colour(group):
    return COLOURS.get(group.split(" ")[0], "#946b54")


def decimal(number):
    return f"{number:.1f}"


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []
        self.text(12, 22, title, weight="bold", size=15)

    def text(self, x, y, words, anchor="start", weight="normal", size=FONT, turn=False):
        turned = f' transform="rotate(-90 {decimal(x)} {decimal(y)})"' if turn else ""
        self.parts.append(
            f'<text x="{decimal(x)}" y="{decimal(y)}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{INK}"{turned}>{escape(words)}</text>'
        )

    def path(self, points, stroke, width=1.0, dash=""):
        way = "M" + "L".join(f"{decimal(x)} {decimal(y)}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="{way}" fill="none" stroke="{stroke}" stroke-width="{width}"{dashed}/>')

    def bar(self, x, y, width, height, fill, opacity=1.0):
        self.parts.append(
            f'<rect x="{decimal(x)}" y="{decimal(y)}" width="{decimal(width)}" height="{decimal(height)}" fill="{fill}" '
            f'fill-opacity="{opacity}"/>'
        )

    def mark(self, x, y, shape, fill):
        """One of four shapes, by number."""
        forms = (
            ((-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)),
            ((0, -6), (5.5, 4.5), (-5.5, 4.5)),
            ((0, -6), (6, 0), (0, 6), (-6, 0)),
        )
        if shape % 4 == 0:
            self.parts.append(f'<circle cx="{decimal(x)}" cy="{decimal(y)}" r="4.5" fill="{fill}"/>')
            return
        corners = " ".join(f"{decimal(x + dx)},{decimal(y + dy)}" for dx, dy in forms[shape % 4 - 1])
        self.parts.append(f'<polygon points="{corners}" fill="{fill}"/>')

    def svg(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" font-family="sans-serif">'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", *self.parts, "</svg>", ""])


def apart(wanted, gap, lowest):
    """Places near the wanted ones, in the same order, at least `gap` apart, between 0 and `lowest` if they fit there."""
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    down, up = list(wanted), list(wanted)
    for before, index in zip(order, order[1:]):
        down[index] = max(down[index], down[before] + gap)
    for after, index in zip(order[::-1], order[-2::-1]):
        up[index] = min(up[index], up[after] - gap)
    # Both keep the gap, and so does what lies between them.
    found = [(one + other) / 2 for one, other in zip(down, up)]
    for rank, index in enumerate(reversed(order)):
        found[index] = min(found[index], lowest - gap * rank)
    for rank, index in enumerate(order):
        found[index] = max(found[index], gap * rank)
    return found


class Scale:
    """Values to places between two ends of an axis, with round numbers to show at it."""

    def __init__(self, values, start, end, log):
        self.start, self.end, self.log = start, end, log
        if log:
            self.ticks = self.steps(min(values), max(values))
            self.low, self.high = log10(self.ticks[0]), log10(self.ticks[-1])
        else:
            self.ticks = self.even(max(values))
            self.low, self.high = 0.0, self.ticks[-1]

    @staticmethod
    def steps(low, high):
        """1, 2, 5, 10 .. around the values; more than fits is thinned to the powers of ten."""
        powers = range(floor(log10(low)), ceil(log10(high)) + 1)
        every = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        first = max(index for index, tick in enumerate(every) if tick <= low * 1.0001)
        last = min((index for index, tick in enumerate(every) if tick >= high), default=len(every) - 1)
        ticks = every[first : max(last, first + 1) + 1]
        if len(ticks) > 9:
            ticks = [10.0**power for power in powers]
        return ticks

    @staticmethod
    def even(high):
        power = 10.0 ** floor(log10(high or 1))
        step = next(step for step in (power / 5, power / 2, power, 2 * power) if high / step <= 6)
        return [step * index for index in range(ceil(high / step - 1e-9) + 1)]

    def __call__(self, value):
        value = log10(value) if self.log else value
        return self.start + (value - self.low) / ((self.high - self.low) or 1) * (self.end - self.start)


def lines(title, x_label, y_label, series, log_y, x_text=short):
    """One line for each `(name, group, dashed, [(x, y)])` over x in equal steps of its factor; labels stand at the right."""
    left, top, wide, high = 74, 44, 430, max(330, LINE * len(series) + 10)
    names = [f"{name}  {short(points[-1][1])}" for name, _, _, points in series]
    width = left + wide + 44 + LETTER * max(map(len, names)) + 12
    picture = Picture(max(width, LETTER * 1.2 * len(title) + 24), top + high + 54, title)
    xs = sorted({x for _, _, _, points in series for x, _ in points})
    across = Scale(xs, left + 16, left + wide - 16, log=True)
    across.low, across.high = log10(xs[0]), log10(xs[-1])
    up = Scale([y for _, _, _, points in series for _, y in points], top + high, top, log_y)
    for tick in up.ticks:
        picture.path([(left, up(tick)), (left + wide, up(tick))], FAINT)
        picture.text(left - 8, up(tick) + 4, short(tick), "end")
    for x in xs:
        picture.path([(across(x), top + high), (across(x), top + high + 5)], INK)
        picture.text(across(x), top + high + 20, x_text(x), "middle")
    picture.text(left + wide / 2, top + high + 42, x_label, "middle")
    picture.text(18, top + high / 2, y_label, "middle", turn=True)
    ends = [up(points[-1][1]) - top for _, _, _, points in series]
    labels = apart(ends, LINE, high)
    seen = {}
    # Ours last, above the others.
    drawings = sorted(zip(series, labels, names), key=lambda drawing: drawing[0][1].split(" ")[0] == "sprag")
    for (_, group, dashed, points), place, words in drawings:
        family = group.split(" ")[0]
        shape = seen[family] = seen.get(family, -1) + 1
        ours = family == "sprag"
        drawn = [(across(x), up(y)) for x, y in points]
        dash = "2 4" if family == "floor" else "7 4" if dashed else ""
        picture.path(drawn, colour(group), 3 if ours else 1.8, dash)
        for x, y in drawn:
            picture.mark(x, y, shape, colour(group))
        (x, y), edge = drawn[-1], left + wide + 30
        picture.path([(x + 7, y), (left + wide, y), (edge - 8, top + place), (edge, top + place)], colour(group), 0.8)
        picture.mark(edge + 6, top + place, shape, colour(group))
        picture.text(edge + 16, top + place + 4.5, words, weight="bold" if ours else "normal")
    return picture.svg()


def rows(picture, names, top, tall, left):
    """Writes the names of the rows, and a line between them; ours stands out."""
    for index, (name, group) in enumerate(names):
        weight = "bold" if group.startswith("sprag") else "normal"
        picture.text(left - 10, top + tall * (index + 0.5) + 4.5, name, "end", weight)


def spans(title, x_label, marks, peers):
    """For each `(name, group, [value ..])` one row with a mark for each value, on a logarithmic axis."""
    left, top, tall = LETTER * max(len(name) for name, _, _ in peers) + 30, 74, 24
    wide, high = 520, tall * len(peers)
    picture = Picture(max(left + wide + 40, LETTER * 1.2 * len(title) + 24), top + high + 54, title)
    scale = Scale([value for _, _, values in peers for value in values], left, left + wide, log=True)
    for tick in scale.ticks:
        picture.path([(scale(tick), top), (scale(tick), top + high)], FAINT)
        picture.text(scale(tick), top + high + 18, short(tick), "middle")
    picture.text(left + wide / 2, top + high + 42, x_label, "middle")
    for index, mark in enumerate(marks):
        picture.mark(left + 6 + 90 * index, 50, index, INK)
        picture.text(left + 16 + 90 * index, 54.5, mark)
    rows(picture, [(name, group) for name, group, _ in peers], top, tall, left)
    for index, (_, group, values) in enumerate(peers):
        y = top + tall * (index + 0.5)
        picture.path([(scale(min(values)), y), (scale(max(values)), y)], colour(group), 3 if group.startswith("sprag") else 1.5)
        for shape, value in enumerate(values):
            picture.mark(scale(value), y, shape, colour(group))
    return picture.svg()


def bars(title, x_label, kinds, peers):
    """For each `(name, group, [value or None ..])` one bar for each kind, from zero, with its number at the end."""
    left, top, thick = LETTER * max(len(name) for name, _, _ in peers) + 30, 74, 14
    tall = thick * len(kinds) + 10
    wide, high = 460, tall * len(peers)
    picture = Picture(max(left + wide + 80, LETTER * 1.2 * len(title) + 24), top + high + 54, title)
    known = [value for _, _, values in peers for value in values if value is not None]
    scale = Scale(known, left, left + wide, log=False)
    for tick in scale.ticks:
        picture.path([(scale(tick), top), (scale(tick), top + high)], FAINT)
        picture.text(scale(tick), top + high + 18, short(tick), "middle")
    picture.text(left + wide / 2, top + high + 42, x_label, "middle")
    shades = [1.0, 0.45, 0.2]
    for index, kind in enumerate(kinds):
        picture.bar(left + 200 * index, 44, 12, 12, INK, shades[index])
        picture.text(left + 18 + 200 * index, 54.5, kind)
    rows(picture, [(name, group) for name, group, _ in peers], top, tall, left)
    for index, (_, group, values) in enumerate(peers):
        for kind, value in enumerate(values):
            y = top + tall * index + 5 + thick * kind
            if value is None:
                picture.text(left + 6, y + 11, "not known", size=11)
                continue
            picture.bar(left, y, max(scale(value) - left, 1), thick - 2, colour(group), shades[kind])
            picture.text(max(scale(value), left + 1) + 6, y + 11, short(value), size=11)
    return picture.svg()
