"""The pages that users read: their blocks of code and their commands."""
import pathlib
import re

from harness import BUILD, SOURCE

PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("**/*.md")),
         *sorted((SOURCE / "examples").glob("**/README.md")), *sorted((SOURCE / "tests").glob("**/README.md"))]

PLUGIN_PAGES = [f"docs/plugins/{kind}.md" for kind in ("strategy", "collective", "accelerator", "logger")]


def blocks(page, language):
    """All blocks of a language in a page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (SOURCE / page).read_text(), re.S | re.M)


def blocks_below(page, language, heading):
    """The blocks of a language below the heading that begins so, in order."""
    sections = re.split(r"^(?=## )", (SOURCE / page).read_text(), flags=re.M)
    return [block for section in sections if section.startswith(heading)
            for block in re.findall(rf"^```{language}\n(.*?)^```", section, re.S | re.M)]


def only_block(page, language, heading):
    """The one block of a language below the heading that begins so."""
    found = blocks_below(page, language, heading)
    if len(found) != 1:
        raise LookupError(f"{page} has {len(found)} blocks of {language} below {heading}")
    return found[0]


def shell_commands(page):
    """The lines of all blocks of shell commands, in order."""
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]


def whole_plugin(page):
    """The plugin that a page of PLUGIN_PAGES begins with: its file, its source, the command that compiles it and the one that trains."""
    compile_it, train = only_block(page, "sh", "## A whole ").splitlines()
    (file,) = re.findall(r"\S+\.c(?:pp)?(?= )", compile_it)
    return file, only_block(page, pathlib.Path(file).suffix[1:], "## A whole "), compile_it, train


def lay_out_checkout(folder):
    """Makes a folder look like the source folder with its build, in which the commands of the pages can write."""
    for entry in SOURCE.iterdir():
        if entry.name not in (".git", "build"):
            (folder / entry.name).symlink_to(entry)
    if BUILD == SOURCE / "build/release":  # of which the pages speak
        (folder / "build").symlink_to(SOURCE / "build")
    else:
        (folder / "build").mkdir()
        (folder / "build/release").symlink_to(BUILD)
