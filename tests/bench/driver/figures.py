"""Figures of interleaved rounds, and how they are written."""
import statistics
import time
from dataclasses import dataclass

from processes import Failed


@dataclass(frozen=True)
class Figure:
    """What was measured in several rounds, each with a minimum and a median."""
    least: float   # of everything
    median: float  # of the rounds' medians
    best: float    # the least of the rounds' medians: what a quiet moment gives


@dataclass(frozen=True)
class Plan:
    rounds: int   # at most
    seconds: int  # for all of them


def rounds_of(results):
    count = min(map(len, results.values()), default=0)
    return f"{count} round" + ("s" if count != 1 else "")


def figure(rounds):
    """From (minimum, median) of each round."""
    medians = [median for _, median in rounds]
    return Figure(min(least for least, _ in rounds), statistics.median(medians), min(medians))


def interleave(contestants, plan, measure, say):
    """Calls measure(contestant) for all, round by round, so that a slow minute of the machine meets all of them.

    Begins no round that would end after the plan's time, except for the first. Returns {name: results of its rounds} and
    {name: why it was left out}.
    """
    results, left_out = {}, {}
    begun = time.monotonic()
    for done in range(plan.rounds):
        if done > 0 and (time.monotonic() - begun) * (done + 1) / done > plan.seconds:
            break
        for contestant in contestants:
            if contestant.name in left_out:
                continue
            say(f"round {done + 1} of {plan.rounds}: {contestant.name}")
            try:
                results.setdefault(contestant.name, []).append(measure(contestant))
            except Failed as failure:
                left_out[contestant.name] = str(failure)
                results.pop(contestant.name, None)
    return results, left_out


def number(value):
    """Three significant digits, thousands separated."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3g}"


def size_name(nbytes):
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def table(head, rows):
    """A Markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
