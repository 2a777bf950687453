#!/usr/bin/env python3
"""The rules of the code base as a test: who may include whom, sizes, banned words, formatting.

    tests/tidy/tidy_test.py          checks the files that git tracks; without git, all but what is built
A rule that is broken prints file, line and the way out.
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE_ENDINGS = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}
MAX_FILE_LINES = 400
MAX_PUBLIC_HEADER_LINES = 150
MAX_INSTALLED_HEADERS = 40  # of the runtime: each is a promise to programs
MAX_FUNCTION_LINES = 70
MAX_COLUMNS = 120
SIZES = pathlib.Path(__file__).with_name("sizes.txt")
MAX_SLACK_LINES = 40


def files_that_git_tracks():
    """None where this tree is no checkout: an archive, which may lie within another checkout, or a git that refuses its owner."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    try:
        if pathlib.Path(git("rev-parse", "--show-toplevel").rstrip("\n")) == ROOT:
            return [ROOT / name for name in git("ls-files", "-z").split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        pass
    return None


def files_of_an_archive():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in {".git", ".cache", "__pycache__"} and
                      not (folder == str(ROOT) and name == "build")]
        yield from (pathlib.Path(folder) / name for name in sorted(names) if name != "compile_commands.json")


FILES = [path for path in files_that_git_tracks() or files_of_an_archive() if path.is_file()]
SOURCES = [path for path in FILES if path.suffix in SOURCE_ENDINGS]


def name(path):
    return str(path.relative_to(ROOT))


def within(path, *folders):
    return any(name(path).startswith(folder + "/") for folder in folders)


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


@functools.cache
def includes_of(path):
    """(line number, included path, is it in angle brackets)"""
    return list(each_include_of(path))


def each_include_of(path):
    for number, line in enumerate(lines_of(path), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(2), match.group(1) == "<"


def code_of(path):
    """Lines without comments and string contents, so that words in them do not count."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    result = []
    for line in text.splitlines():
        line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        result.append(re.sub(r"//.*", "", line))
    return result


def code_lines(path):
    """How many lines are neither blank nor only comment: these make nothing more complicated."""
    return sum(1 for line in code_of(path) if line.strip())


# Headers of LibTorch that take seconds to parse, for each file that is compiled by itself.
SLOW_HEADERS = re.compile(r"torch/(torch|types|data|serialize|nn|csrc/jit/api|csrc/autograd/custom_function)\b.*|torch/optim/"
                          r"(?!optimizer[.]h|schedulers/lr_scheduler[.]h).*|ATen/(ATen|Functions|DLConvertor)[.]h")


PUBLIC_FOLDERS = list(ROOT.glob("runtime/*/include"))  # installed
INTERNAL_FOLDERS = list(ROOT.glob("runtime/*/internal"))  # for the libraries of the runtime alone
INTERNAL_HEADERS = {str(path.relative_to(folder)) for folder in INTERNAL_FOLDERS for path in folder.rglob("*.hpp")}


def slow_header_of(source, sources):
    """Returns the first of SLOW_HEADERS that a source includes, itself or by headers of ours; None if there is none."""
    seen, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        for _, include, angled in includes_of(path):
            if SLOW_HEADERS.fullmatch(include):
                return include
            folders = [*PUBLIC_FOLDERS, *INTERNAL_FOLDERS] if angled else [sources]
            found = [folder / include for folder in folders if (folder / include).is_file() and folder / include not in seen]
            seen.update(found)
            waiting += found
    return None


def is_torch(include):
    return include.startswith(("torch/", "ATen/", "c10/"))


def folders_used_in(sources):
    """For each folder in the sources of a library, the others there that its files include."""
    used = {}
    for path in SOURCES:
        if sources not in path.parents or path.parent == sources:
            continue
        folder = path.relative_to(sources).parts[0]
        included = {include.split("/")[0] for _, include, angled in includes_of(path) if not angled and "/" in include}
        used.setdefault(folder, set()).update(other for other in included if other != folder and (sources / other).is_dir())
    return used


def circles_of(used):
    """Each circle once, from its first folder back to it."""
    circles = []

    def follow(path):
        for other in sorted(used.get(path[-1], ())):
            if other == path[0]:
                circles.append([*path, other])
            elif other > path[0] and other not in path:
                follow([*path, other])

    for folder in sorted(used):
        follow([folder])
    return circles


def plugin_names():
    return sorted({path.parent.name for path in FILES
                   if within(path, "plugins") and path.name == "CMakeLists.txt" and len(path.relative_to(ROOT).parts) == 4})


class Tidy(unittest.TestCase):
    maxDiff = None

    def assert_none(self, problems, mend):
        if problems:
            self.fail("\n".join(problems[:40]) + f"\n=> {mend}")

    def test_there_is_something_to_check(self):
        self.assertGreater(len(SOURCES), 500, "the list of files is wrong: nearly all of the tree is missing")

    # ---- who may include whom

    def check_includes(self, folder, is_allowed, mend):
        problems = [f"{name(path)}:{number}: {include}" for path in SOURCES if within(path, folder)
                    for number, include, angled in includes_of(path) if not is_allowed(path, include, angled)]
        self.assert_none(problems, mend)

    def test_folders_of_a_library_do_not_include_each_other_in_a_circle(self):
        problems = []
        for sources in sorted(folder for pattern in ("runtime/*/src", "plugins/*/*/src") for folder in ROOT.glob(pattern)):
            problems += [f"{name(sources)}: {' -> '.join(circle)}" for circle in circles_of(folders_used_in(sources))]
        self.assert_none(problems, "move a file down to the folder that needs it, or make it a folder of its own")

    def test_circles_of_folders_are_found(self):
        self.assertEqual(circles_of({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}), [["a", "b", "c", "a"]])
        self.assertEqual(circles_of({"a": {"b", "c"}, "b": {"c"}}), [])

    def test_only_listed_sources_include_headers_that_parse_slowly(self):
        problems = []
        for library in ("core", "trainer"):
            folder = ROOT / "runtime" / library
            listed = re.search(r"SEES_MODULE ([^)]*)\)", (folder / "CMakeLists.txt").read_text()).group(1).split()
            for source in sorted((folder / "src").rglob("*.cpp")):
                place = str(source.relative_to(folder / "src"))
                slow = slow_header_of(source, folder / "src")
                if slow and not any(re.match(pattern, place) for pattern in listed):
                    problems.append(f"{name(source)}: {slow}")
        self.assert_none(problems, "include what it needs alone (ATen/core/Tensor.h, ATen/ops/...), or add the source to SEES_MODULE "
                                   "of the library's CMakeLists.txt")

    def test_the_plugin_api_includes_only_stddef_and_stdint(self):
        self.check_includes("plugin_api", lambda _, include, angled: not angled or include in ("stddef.h", "stdint.h"),
                            "the C contract includes nothing but <stddef.h>, <stdint.h> and itself")

    def test_the_sdk_needs_the_plugin_api_and_the_standard_library_only(self):
        self.check_includes("sdk", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or include.startswith(("cohort/api/", "cohort/sdk/"))),
                            "sdk may use plugin_api and std only")

    def test_plugins_never_include_the_runtime_or_a_sibling(self):
        self.check_includes("plugins", lambda _, include, angled: ".." not in include and
                            (not include.startswith("cohort/") or include.startswith(("cohort/api/", "cohort/sdk/"))),
                            "a plugin uses sdk and its own library")

    def test_the_host_knows_neither_libtorch_nor_the_other_libraries(self):
        self.check_includes("runtime/host", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or
                             include.startswith(("cohort/api/", "cohort/host/", "cohort/sdk/"))),
                            "host uses plugin_api and the sdk's headers only")
        self.check_includes("runtime/launch", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or include.startswith(("cohort/host/", "cohort/launch/"))),
                            "launch uses host only")
        self.check_includes("runtime/nodes", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or
                             include.startswith(("cohort/host/", "cohort/launch/", "cohort/nodes/"))),
                            "nodes uses host and launch only")
        self.check_includes("runtime/submit", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or
                             include.startswith(("cohort/host/", "cohort/launch/", "cohort/submit.hpp"))),
                            "submit uses host and launch only")
        self.check_includes("runtime/diagnosis", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or
                             include.startswith(("cohort/diagnosis/", "cohort/host/", "cohort/sdk/dtype.hpp"))),
                            "diagnosis uses host only")
        self.check_includes("runtime/cli", lambda _, include, angled: not is_torch(include) and
                            (not include.startswith("cohort/") or
                             include.startswith(("cohort/api/", "cohort/host/", "cohort/launch/", "cohort/nodes/",
                                                 "cohort/submit.hpp"))),
                            "the command line tool uses host, launch, nodes and submit only")

    def test_memory_knows_libtorchs_allocator_and_nothing_of_ours(self):
        self.check_includes("runtime/memory", lambda _, include, angled: include.startswith(("c10/core/", "cohort/memory/")) or
                            not is_torch(include) and not include.startswith("cohort/"),
                            "memory uses c10's allocators only")

    def test_the_core_knows_nothing_of_the_trainer(self):
        trainer = {path.name for path in SOURCES if within(path, "runtime/trainer/include", "runtime/metric_kinds")}
        self.check_includes("runtime/core", lambda _, include, angled: pathlib.Path(include).name not in trainer or
                            not include.startswith("cohort/"), "data flows trainer -> core -> host")
        self.check_includes("runtime/metric_kinds", lambda _, include, angled: not include.startswith("cohort/") or
                            include.startswith(("cohort/metric", "cohort/host/error.hpp")),
                            "metric kinds use the class Metric only")
        self.check_includes("runtime/trainer/src", lambda _, include, angled: include != "cohort/metric_kinds.hpp",
                            "the trainer knows no kind of metric")

    def test_libtorch_and_the_abi_meet_only_in_the_tensor_bridge(self):
        problems = []
        for path in SOURCES:
            if not within(path, "runtime/core", "runtime/trainer", "runtime/metric_kinds") or "tensor_bridge" in path.parts:
                continue
            includes = [include for _, include, _ in includes_of(path)]
            if any(is_torch(include) for include in includes) and any(i.startswith("cohort/api/") for i in includes):
                problems.append(name(path))
        self.assert_none(problems, "include the ABI's tensors through src/tensor_bridge")

    def test_examples_use_public_headers_only(self):
        self.check_includes("examples", lambda _, include, angled: "src/" not in include and include not in INTERNAL_HEADERS,
                            "examples show what users may do")

    def test_the_runtime_installs_few_headers(self):
        for folder in PUBLIC_FOLDERS:
            self.check_includes(name(folder), lambda _, include, angled: include not in INTERNAL_HEADERS,
                                "an installed header includes installed headers only; declare the class, or move the header to include/")
        installed = [path for path in SOURCES if any(folder in path.parents for folder in PUBLIC_FOLDERS)]
        self.assertLessEqual(len(installed), MAX_INSTALLED_HEADERS, "what only the runtime needs belongs into internal/")

    def test_plugin_names_stand_only_where_the_selection_is_made(self):
        words = re.compile(r'"(%s)[":]' % "|".join(map(re.escape, plugin_names())))
        problems = []
        for path in SOURCES:
            if not within(path, "runtime") or name(path) == "runtime/host/src/selection/names.hpp":
                continue
            for number, line in enumerate(lines_of(path), 1):
                if words.search(re.sub(r"//.*", "", line)):
                    problems.append(f"{name(path)}:{number}: {line.strip()}")
        self.assert_none(problems, "names of plugins belong in host/src/selection/names.hpp: those that are chosen without a user")

    # ---- what code may not do

    def check_words(self, pattern, folders, excepted, mend):
        word = re.compile(pattern)
        problems = [f"{name(path)}:{number}: {line.strip()}" for path in SOURCES if within(path, *folders)
                    and not any(part in path.parts for part in excepted)
                    for number, line in enumerate(code_of(path), 1) if word.search(line)]
        self.assert_none(problems, mend)

    def test_only_options_and_environment_read_the_environment(self):
        self.check_words(r"\b(secure_)?getenv\b|\benviron\b", ["runtime", "plugins", "sdk"], ["options", "environment"],
                         "read variables in host/src/options or host/src/environment and pass the values on")

    def test_libraries_never_end_the_process_or_print(self):
        self.check_words(r"(?<![\w.>:])(?<!void )(exit|abort|_Exit|quick_exit)\s*\(|std::(abort|exit|terminate|cout(?!\.flush\())\b",
                         ["runtime", "plugins", "sdk"], ["cli"],
                         "throw an Error, or return a status; results go to standard output in programs only")

    def test_libraries_have_no_mutable_globals(self):
        self.check_words(r"^(static|inline|thread_local)\s+(?!const|inline const|constexpr|_Thread_local const)[\w:<>,\s*&]+\s\w+(\s*=|;|\{)",
                         ["runtime", "plugins", "sdk"], ["cli"], "pass a context object")

    def test_nothing_is_marked_as_unfinished(self):
        mark = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
        problems = [f"{name(path)}:{number}" for path in SOURCES for number, line in enumerate(lines_of(path), 1)
                    if mark.search(line)]
        self.assert_none(problems, "finish it, or open an issue")

    def test_no_path_of_one_machine_is_in_the_tree(self):
        path_word = re.compile(r"(?<![\w./$}])/(work|root|farm|home/[a-z]+)/")
        problems = []
        for path in FILES:
            if path.suffix in {".gz", ".png", ".safetensors"} or path == pathlib.Path(__file__).resolve():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                if path_word.search(line):
                    problems.append(f"{name(path)}:{number}: {line.strip()[:100]}")
        self.assert_none(problems, "use a path relative to the tree")

    # ---- sizes

    def test_files_and_public_headers_are_small(self):
        problems = []
        for path in SOURCES:
            public = {"include", "internal"} & set(path.parts) and not within(path, "tests")
            # The contract that a public header explains is not counted.
            count = code_lines(path) if public else len(lines_of(path))
            limit = MAX_PUBLIC_HEADER_LINES if public else MAX_FILE_LINES
            if count > limit:
                problems.append(f"{name(path)}: {count} lines, at most {limit}")
        self.assert_none(problems, "split the file by subject")

    def test_lines_are_short(self):
        problems = [f"{name(path)}:{number}: {len(line)} columns" for path in SOURCES
                    for number, line in enumerate(lines_of(path), 1) if len(line) > MAX_COLUMNS]
        self.assert_none(problems, f"at most {MAX_COLUMNS} columns")

    def test_functions_fit_on_a_screen(self):
        problems = []
        for path in SOURCES:
            if path.suffix not in {".c", ".cpp", ".hpp", ".cu", ".cuh"}:
                continue
            opened = None
            for number, line in enumerate(lines_of(path), 1):
                # Formatted code: a function body at namespace or class level begins and ends at its indentation.
                if opened is None and re.match(r"^(  )?[\w~].*\)( const)?( noexcept)?( override)?( final)? \{$", line) \
                        and not re.match(r"^\s*(if|for|while|switch|namespace|else)\b", line):
                    opened = (number, len(line) - len(line.lstrip()))
                elif opened and re.match(r"^ {%d}\}" % opened[1], line):
                    if number - opened[0] + 1 > MAX_FUNCTION_LINES:
                        problems.append(f"{name(path)}:{opened[0]}: {number - opened[0] + 1} lines")
                    opened = None
        self.assert_none(problems, f"at most {MAX_FUNCTION_LINES} lines in a function")

    def test_folders_grow_only_on_purpose(self):
        sizes = {}
        for line in SIZES.read_text().splitlines():
            if line and not line.startswith("#"):
                folder, lines = line.split()
                sizes[folder] = int(lines)
        problems = []
        for path in SOURCES:
            if within(path, "runtime", "plugins", "plugin_api", "sdk") and not within(path, *sizes):
                problems.append(f"{name(path)}: no line of tests/tidy/sizes.txt counts it; add its folder")
        for folder, limit in sizes.items():
            count = sum(code_lines(path) for path in SOURCES if within(path, folder))
            if count > limit:
                problems.append(f"{folder}: {count} lines of code, {limit} in tests/tidy/sizes.txt; simplify, or raise the "
                                "number in a commit that says for which feature")
            elif count < limit - MAX_SLACK_LINES:
                problems.append(f"{folder}: only {count} lines of code, {limit} in tests/tidy/sizes.txt; lower the number")
        self.assert_none(problems, "folders grow with features only")

    # ---- form

    def test_headers_open_with_their_purpose(self):
        problems = []
        for path in SOURCES:
            if path.suffix in {".h", ".hpp", ".cuh"} and not within(path, "tests"):
                first = lines_of(path)[0]
                if not first.startswith(("//", "/*")):
                    problems.append(name(path))
        self.assert_none(problems, "begin with a comment: purpose, ownership, thread rule")

    def test_every_test_file_is_named_after_its_subject(self):
        problems = [name(path) for path in SOURCES if path.suffix == ".cpp" and "TEST(" in path.read_text() and
                    not path.name.endswith("_test.cpp") and not within(path, "tests/conformance", "tests/support")]
        self.assert_none(problems, "call it <subject>_test.cpp")

    def test_code_is_formatted(self):
        tool = shutil.which("clang-format")
        self.assertIsNotNone(tool, "clang-format is missing: run cmake/bootstrap.sh --tests")
        formatted = [str(path) for path in SOURCES if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"}]
        result = subprocess.run([tool, "--dry-run", "--Werror", *formatted], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr[:4000] + "\n=> run clang-format -i on these files")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
