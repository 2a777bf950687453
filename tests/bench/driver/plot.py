"""A line chart with a logarithmic scale, as SVG."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 420, 60, 270, 40, 50
COLOURS = ["#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#b07aa1", "#9c755f", "#555555"]


def _text(x, y, words, anchor="start", **attributes):
    more = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{more}>{safe}</text>'


def _ticks(least, most):
    """1, 2 and 5 times powers of ten that lie between."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    return [m * 10**p for p in powers for m in (1, 2, 5) if least <= m * 10**p <= most]


def lines(categories, series, title):
    """One line for each of `series` ({name: values above 0, by category}), named at its right end."""
    values = [value for numbers in series.values() for value in numbers]
    low, high = math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05

    def x_of(index):
        return LEFT + (WIDTH - LEFT - RIGHT) * (index / max(1, len(categories) - 1))

    def y_of(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(value) - low) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', _text(LEFT, 22, title, font_weight="bold")]
    for tick in _ticks(10**low, 10**high):
        parts += [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}" stroke="#ddd"/>',
                  _text(LEFT - 8, y_of(tick) + 4, f"{tick:g}", "end")]
    parts += [_text(x_of(i), HEIGHT - BOTTOM + 22, name, "middle") for i, name in enumerate(categories)]
    places = _spread([y_of(numbers[-1]) for numbers in series.values()])
    for (name, numbers), colour, place in zip(series.items(), COLOURS * len(series), places):
        points = " ".join(f"{x_of(i):.1f},{y_of(value):.1f}" for i, value in enumerate(numbers))
        parts += [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  _text(WIDTH - RIGHT + 10, place + 4, name, fill=colour)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _spread(heights, least=16):
    """The same places, moved down where two labels would cover each other."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = list(heights)
    for before, after in zip(order, order[1:]):
        placed[after] = max(placed[after], placed[before] + least)
    return placed
