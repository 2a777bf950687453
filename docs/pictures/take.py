#!/usr/bin/env python3
"""Takes the pictures of this folder: what programs show in a real terminal (tmux), drawn as SVG.

    docs/pictures/take.py        after examples/quickstart.sh; needs tmux
"""
import html
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = HERE.parent.parent / "build/release/bin"
COLUMNS, ROWS = 110, 30
# Name, command, a text to wait for, seconds to go on after it.
PICTURES = (("training", "mnist --devices=2 --epochs=3 --early-stopping=val_loss", "epoch 0:", 1.0),
            ("results", "mnist --epochs=1 --limit-train-batches=50", "test_loss", 0.5))


def screen_of(command, text, seconds):
    """Returns the lines of the terminal some time after the text has appeared."""
    with tempfile.TemporaryDirectory() as folder:
        tmux = ["tmux", "-S", f"{folder}/socket", "-f", "/dev/null"]
        subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", folder,
                        f"PS1='$ ' PATH={BIN}:$PATH HISTFILE= sh -i"], check=True)
        try:
            subprocess.run([*tmux, "send-keys", f"clear; {command}", "Enter"], check=True)
            deadline = time.monotonic() + 60
            while text not in (shown := subprocess.run([*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout):
                if time.monotonic() > deadline:
                    sys.exit(f"'{command}' did not show '{text}':\n{shown}")
                time.sleep(0.02)
            time.sleep(seconds)
            return subprocess.run([*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout.rstrip().split("\n")
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)


def svg_of(lines):
    width, height, advance = 7.3 * COLUMNS + 24, 16 * len(lines) + 24, 16
    rows = "\n".join(f'<text x="12" y="{24 + advance * i}" xml:space="preserve">{html.escape(line)}</text>'
                     for i, line in enumerate(lines) if line)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" font-family="monospace" font-size="12">\n'
            f'<rect width="100%" height="100%" rx="6" fill="#1e1e1e"/>\n<g fill="#d4d4d4">\n{rows}\n</g>\n</svg>\n')


for name, command, text, seconds in PICTURES:
    (HERE / f"{name}.svg").write_text(svg_of(screen_of(command, text, seconds)))
    print(HERE / f"{name}.svg")
