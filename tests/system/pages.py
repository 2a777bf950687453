"""The pages that users read: their blocks of code and their commands."""
import re

from harness import SOURCE

PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md")),
         *sorted((SOURCE / "examples").glob("**/README.md")), *sorted((SOURCE / "tests").glob("**/README.md"))]


def blocks(page, language):
    """All blocks of a language in a page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (SOURCE / page).read_text(), re.S | re.M)


def only_block(page, language, heading):
    """The one block of a language below the heading that begins so."""
    sections = re.split(r"^(?=## )", (SOURCE / page).read_text(), flags=re.M)
    found = [block for section in sections if section.startswith(heading)
             for block in re.findall(rf"^```{language}\n(.*?)^```", section, re.S | re.M)]
    if len(found) != 1:
        raise LookupError(f"{page} has {len(found)} blocks of {language} below {heading}")
    return found[0]


def shell_commands(page):
    """The lines of all blocks of shell commands, in order."""
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]
