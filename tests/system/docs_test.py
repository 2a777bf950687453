"""Every shell command of the pages works as it is written once the README's two commands have run; every link leads somewhere."""
import os
import re
import shlex
import subprocess

import harness
from harness import BUILD, SOURCE, SystemTest
from pages import PAGES, PLUGIN_PAGES, lay_out_checkout, only_block, shell_commands, whole_plugin

# Commands that this test cannot run, since they install, build or contain this very test; the file that runs them, and as what.
ELSEWHERE = {
    "examples/quickstart.sh": (".ci/run", "\nexamples/quickstart.sh"),
    "tests/run.sh": (".ci/run", "\ntests/run.sh\n"),
    "tests/run.sh -R '^(tidy|lane_test)$'": ("tests/run.sh", '"${arguments[@]}"'),
    "cmake --build build/release --target lane_test": ("tests/run.sh", 'cmake/build.py "$build"'),
    "ctest --test-dir build/release -R lane_test --output-on-failure": ("tests/run.sh", 'ctest --test-dir "$build"'),
    "tests/bench/run.sh": ("tests/bench/CMakeLists.txt", "driver_test.py"),  # the driver of it
    "tests/gpu/pack.sh": ("tests/gpu/rehearsal_test.py", '"tests/gpu/pack.sh"'),  # of what is built already
    "tests/gpu/first_look.sh --accelerator=cpu": ("tests/gpu/rehearsal_test.py", 'check_all("cpu")'),  # what the script runs, packed
    "OUT=results bash packed/tests/gpu/first_look.sh": ("tests/gpu/rehearsal_test.py", '"bash", folder / "tests/gpu/first_look.sh"'),
    "cmake -S examples/plugins/fake_device -B build/fake_device -DCMAKE_PREFIX_PATH=INSTALLED && cmake --build build/fake_device":
        ("tests/system/install_test.py", 'SOURCE / "examples/plugins/fake_device"'),
    "cmake --install build/release --prefix=$HOME/cohort": ("tests/system/package_test.py", '"cmake", "--install", BUILD'),
    "cpack --config build/release/CPackConfig.cmake -G TGZ": ("tests/system/package_test.py", 'pack("TGZ", '),
    "cpack --config build/release/CPackConfig.cmake -G DEB": ("tests/system/package_test.py", 'pack("DEB", '),
    **{command: ("tests/system/package_test.py", "readme_commands()") for command in
       only_block("README.md", "sh", "## Your own project in five minutes").splitlines()},
    **{command: ("tests/system/plugin_pages_test.py", "whole_plugin(page)") for page in PLUGIN_PAGES
       for command in whole_plugin(page)[2:]},
}
HERE = ("cc ", "mpirun ", "build/release/")  # how commands begin that are run here


def program_and_flags(command):
    """`mnist --devices`, `cohort run --nnodes`, ...: what a command shows that others may show as well."""
    words = shlex.split(command)
    program, shown = "", set()
    for word in words:
        if "/bin/" in word or "/tests/" in word:
            program = os.path.basename(word)
            shown.add(program)
        elif word.startswith("-"):
            shown.add(f"{program} {word.split('=')[0]}")
        elif program == "cohort":
            shown.add(f"cohort {word}")
    return shown


def trains_to_the_end(command):
    """Whether it trains for longer than a few steps."""
    return bool(re.search(r"bin/(mnist|contrastive)\b", command)) and not re.search("--max-steps|--help|--print-config|--dry-run", command)


def is_an_entry(command):
    """Whether it runs a suite that entries of ctest run as well, for longer than a training."""
    return "/strategy_suite" in command


def shortened(command):
    """Returns variables by which a command runs as it is written, but for the images that it sees, or the tests of a suite."""
    few = {"COHORT_LIMIT_VAL_BATCHES": "2", "COHORT_LIMIT_TEST_BATCHES": "2"}
    if trains_to_the_end(command):
        few["COHORT_LIMIT_TRAIN_BATCHES"] = "10"  # of each epoch; what is learned is tested elsewhere
    if is_an_entry(command):
        few["GTEST_FILTER"] = "*Exact*"
    return few


def with_each_flag_once(commands):
    """Commands that train for a few steps at most, as few as have every program and flag that all of them have."""
    left = [command for command in commands if not trains_to_the_end(command) and not is_an_entry(command)]
    chosen = {command for command in left if command.startswith("cc ")}  # others need what it makes
    missing = set().union(*map(program_and_flags, left))
    while missing:
        best = max(left, key=lambda command: len(program_and_flags(command) & missing))
        chosen.add(best)
        missing -= program_and_flags(best)
    return [command for command in left if command in chosen]


class Commands(SystemTest):
    def setUp(self):
        super().setUp()
        lay_out_checkout(self.folder)

    def commands(self):
        commands = [command for page in PAGES for command in shell_commands(page) if command not in ELSEWHERE]
        for command in commands:
            without_variables = re.sub(r"^(\w+=\S+ )*", "", command)
            self.assertTrue(without_variables.startswith(HERE), f"say in ELSEWHERE of docs_test.py what runs this: {command}")
        return commands

    def run_all(self, commands):
        for command in commands:
            with self.subTest(command=command):
                result = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment(shortened(command)),
                                        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
                self.assertEqual(result.returncode, 0, result.stdout[-1500:] + result.stderr[-3000:])

    def test_a_command_with_each_flag_runs(self):
        self.run_all(with_each_flag_once(self.commands()))

    def test_every_command_runs(self):
        self.run_all(self.commands())

    def test_commands_that_run_elsewhere_do_so_and_are_shown(self):
        shown = [command for page in PAGES for command in shell_commands(page)]
        for command, (place, text) in ELSEWHERE.items():
            with self.subTest(command=command):
                self.assertIn(command, shown, "no page shows it any more: take it out of ELSEWHERE")
                self.assertIn(text, (SOURCE / place).read_text())
                for program in re.findall(r"\w+_test\b", command):
                    self.assertTrue((BUILD / "tests" / program).exists(), program)


class Pages(SystemTest):
    def test_every_link_leads_somewhere(self):
        for page in PAGES:
            prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
            for target in re.findall(r"\]\(([^)#]+)\)", prose):
                if not target.startswith("http"):
                    with self.subTest(page=page.name, target=target):
                        self.assertTrue((page.parent / target).exists())

    def test_a_function_is_in_the_file_that_its_link_leads_to(self):
        for page in PAGES:
            for names, target in re.findall(r"\[(`[\w:` and]+`)\]\(([^)#]+\.[ch]pp)\)", page.read_text()):
                for name in re.findall(r"(\w+)`", names):
                    with self.subTest(page=page.name, name=name):
                        self.assertRegex((page.parent / target).read_text(), rf"\b{name}\b")


if __name__ == "__main__":
    harness.main()
