"""Grows headers of the plugin ABI as a later minor version would.

    grow_headers.py FROM TO     FROM: a folder like plugin_api/include; TO: the grown copy, a new folder

Every struct with a struct_size gets a field `grown` at its end, and every table of functions gets a slot of that name; both are hidden
from plugins with an older COHORT_TARGET_ABI. Kinds, uses, flags and services get one more, named GROWN. If C++ code defines
COHORT_GROWN_HOST, each struct that it makes for plugins has COHORT_GROWN_VALUE in the field.
"""
import pathlib
import re
import shutil
import sys

FEWEST_STRUCTS = 32  # structs never leave the ABI: fewer means that this program no longer finds them
STRUCT = re.compile(r"typedef struct (\w+) \{\n(.*?)\} \1;\n", re.DOTALL)
SIZE_FIELD = re.compile(r"^  uint32_t struct_size;", re.MULTILINE)
MADE_BY_PLUGINS = {"cohort_component", "cohort_job_info", "cohort_parts_1", "cohort_plugin", "cohort_step_graphs", "cohort_tunable_1"}

ADDITIONS = """
/* Additions of a later minor version. */
#define COHORT_GROWN_VALUE 0x6e776f7267a5c3e1u
#if defined(__cplusplus) && defined(COHORT_GROWN_HOST)
#define COHORT_GROWN_BY_HOST = COHORT_GROWN_VALUE
#else
#define COHORT_GROWN_BY_HOST
#endif
#define COHORT_GROWN_ID "cohort.grown/1"
"""


class CannotGrow(Exception):
    """The headers are not written as this program expects."""


def replace_once(text, pattern, replacement, file):
    """Returns the text with the one place that matches the pattern replaced."""
    changed, count = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise CannotGrow(f"{file}: {count} places match {pattern!r}, and one should")
    return changed


def is_table(name):
    return name.endswith("_vt") or name.startswith("cohort_kernels_")


def new_member(name):
    if is_table(name):
        owner = "struct cohort_accelerator" if name.startswith("cohort_kernels_") else "struct " + name.removesuffix("_vt")
        return f"  cohort_status (*grown)({owner}* self) COHORT_NOEXCEPT;\n"
    return f"  uint64_t grown{'' if name in MADE_BY_PLUGINS else ' COHORT_GROWN_BY_HOST'};\n"


def grow_structs(text, target):
    """Returns the text with the structs grown, and their names. `target` is the COHORT_TARGET_ABI that sees the new members."""
    names = []

    def grow(match):
        name, body = match.groups()
        if not SIZE_FIELD.search(body):
            return match.group()
        names.append(name)
        return f"typedef struct {name} {{\n{body}#if COHORT_TARGET_ABI >= {target}u\n{new_member(name)}#endif\n}} {name};\n"
    return STRUCT.sub(grow, text), names


def numbers(text, prefix):
    """Returns the values of the constants with this prefix."""
    found = [int(value) for value in re.findall(rf"#define {prefix}\w+\s+(?:\\\s+)?(\d+)u?\b", text)]
    if not found:
        raise CannotGrow(f"no constant is called {prefix}...")
    return found


def grow_version(text):
    """Returns version.h with the next minor version, and that version as a number."""
    major, minor = (int(re.search(rf"#define COHORT_ABI_{part} (\d+)u", text).group(1)) for part in ("MAJOR", "MINOR"))
    text = replace_once(text, r"^#define COHORT_ABI_MINOR \d+u$", f"#define COHORT_ABI_MINOR {minor + 1}u", "version.h")
    return text, (major << 16) + minor + 1


def constants(everything):
    """Returns definitions of the next numbers."""
    following = [(prefix, f"{max(numbers(everything, prefix)) + 1}") for prefix in ("COHORT_KIND_", "COHORT_USE_")]
    following += [(prefix, f"{2 * max(numbers(everything, prefix))}u") for prefix in ("COHORT_STEP_", "COHORT_STRATEGY_")]
    return "".join(f"#define {prefix}GROWN {value}\n" for prefix, value in following)


def grow(source, copy):
    """Writes the grown copy of a folder of headers. Returns the names of the grown structs."""
    shutil.copytree(source, copy)
    files = sorted(pathlib.Path(copy).glob("cohort/api/**/*.h"))
    texts = {file: file.read_text() for file in files}
    everything = "".join(texts.values())
    version = pathlib.Path(copy) / "cohort/api/version.h"
    texts[version], target = grow_version(texts[version])
    texts[version] = replace_once(texts[version], r"\n#endif\n\Z", ADDITIONS + constants(everything) + "\n#endif\n", "version.h")
    names = []
    for file, text in texts.items():
        grown, found = grow_structs(text, target)
        names += found
        file.write_text(grown)
    declared = len(SIZE_FIELD.findall(everything))
    if len(names) != declared or len(names) < FEWEST_STRUCTS:
        raise CannotGrow(f"{len(names)} structs were grown; {declared} have a struct_size, and there are at least {FEWEST_STRUCTS}")
    return names


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(*grow(*sys.argv[1:]), sep="\n")
