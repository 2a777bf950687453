"""Goals and what became of them."""
from dataclasses import dataclass

from figures import number


@dataclass(frozen=True)
class Goal:
    text: str
    limit: float
    value: float     # None: not measured
    unit: str = ""
    at_least: bool = False
    detail: str = ""

    @property
    def met(self):
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def line(self):
        sign = ">=" if self.at_least else "<="
        unit = f" {self.unit}" if self.unit else ""
        verdict = {True: "met", False: "missed", None: "not measured"}[self.met]
        value = "" if self.value is None else f"{number(self.value)}{unit} "
        detail = f" ({self.detail})" if self.detail else ""
        return f"- {self.text}: goal {sign} {self.limit:g}{unit}: {value}**{verdict}**{detail}"

    def as_json(self):
        return {"goal": self.text, "limit": self.limit, "at_least": self.at_least, "value": self.value, "unit": self.unit,
                "met": self.met, "detail": self.detail}


@dataclass
class Section:
    """What one part of the bench found: Markdown, goals, and the figures for the JSON file."""
    title: str
    text: str
    goals: list
    data: dict

    def markdown(self):
        goals = "\n".join(goal.line() for goal in self.goals)
        return "\n\n".join(part for part in (f"## {self.title}", self.text, goals) if part)


def notes(left_out):
    return "\n".join(f"- left out: {name}: {why}" for name, why in left_out.items())
