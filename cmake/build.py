#!/usr/bin/env python3
"""Builds targets with a bar and the time that is left. What was built before is kept, so an interrupted build resumes.

    cmake/build.py FOLDER TARGET...

A terminal gets one line that moves; a file or a pipe gets a line every half minute. Compilers run side by side as cores and memory allow.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

MEMORY_OF_A_COMPILER = 2.2e9  # bytes, of the largest file
# Relative times of steps by what they make; the first pattern that fits counts.
WEIGHTS = ((r"\.gch$", 40), (r"unity_slow_\d", 25), (r"unity_fast_\d", 15), (r"\.cu\.o$", 8), (r"examples/.*main\.cpp\.o$", 20),
           (r"tests/(system|runtime/trainer|runtime/core|examples)/.*\.o$", 10), (r"_avx\w+\.cpp\.o$", 6), (r"\.o$", 2.5), (r"", 0.2))
STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
BAR = 30


def weight_of(step):
    made = step.split()[-1] if step.split() else ""
    return next(weight for pattern, weight in WEIGHTS if re.search(pattern, made))


def jobs():
    """Returns how many compilers run side by side: one more than cores, since some wait for the disk."""
    available = re.search(r"MemAvailable:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    by_memory = int(int(available.group(1)) * 1024 / MEMORY_OF_A_COMPILER) if available else 1
    return max(1, min(len(os.sched_getaffinity(0)) + 1, by_memory))


def in_words(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class Progress:
    def __init__(self, total):
        self.total = total
        self.done = 0.0
        self.begin = time.monotonic()
        self.shown = self.begin - 20  # the first line of a pipe comes after ten seconds
        self.is_terminal = sys.stdout.isatty()

    def advance(self, weight, number, count):
        """Shows that a step is done, of which ninja says the number and how many there are."""
        self.done += weight
        self.total = max(self.total, self.done + (count - number) * 0.2)  # changed files were not counted before
        now = time.monotonic()
        if not self.is_terminal and now - self.shown < 30 and number != count:
            return
        self.shown = now
        part = min(self.done / self.total, 1)
        elapsed = now - self.begin
        left = in_words(elapsed * (1 - part) / part) + " left" if part > 0.03 and number != count else ""
        bar = "#" * round(BAR * part) + "." * (BAR - round(BAR * part))
        line = f"[{bar}] {number}/{count} steps, {in_words(elapsed)}" + (f", about {left}" if left else "")
        print(f"\r\033[K{line}" if self.is_terminal else line, end="" if self.is_terminal else "\n", flush=True)

    def end_line(self):
        if self.is_terminal:
            print("\r\033[K", end="", flush=True)


def weight_ahead(folder, targets):
    """Returns the weight of all steps whose files are missing. A dry run of ninja ends where CMake looks for new sources."""
    listed = subprocess.run(["ninja", "-C", folder, "-t", "commands", *targets], capture_output=True, text=True, check=False)
    made = set(re.findall(r" -o (\S+)", listed.stdout))
    return sum(weight_of(file) for file in made if not pathlib.Path(folder, file).exists())


def main(folder, targets):
    ninja = ["ninja", "-C", folder, *targets]
    progress = Progress(weight_ahead(folder, targets))
    environment = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    build = subprocess.Popen([*ninja, f"-j{jobs()}"], stdout=subprocess.PIPE, text=True, errors="replace", env=environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ninja ends by it, and removes what is half made
    is_interrupted = False
    for line in build.stdout:
        is_interrupted = is_interrupted or "interrupted by user" in line
        step = STEP.match(line)
        if step:
            progress.advance(weight_of(step.group(3)), int(step.group(1)), int(step.group(2)))
        elif not line.startswith("ninja: Entering directory"):
            progress.end_line()
            print(line, end="", flush=True)
    progress.end_line()
    code = build.wait()
    if is_interrupted:
        print("The same command resumes the build.", flush=True)
        return 128 + signal.SIGINT
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
