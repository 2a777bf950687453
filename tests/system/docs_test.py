"""Every shell command in README and docs runs; every link leads somewhere."""
import re
import subprocess
import unittest

from harness import BUILD, SOURCE, SystemTest, clean_environment

PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md")),
         *sorted((SOURCE / "examples").glob("**/README.md"))]
# They contain this very test, or run in CI on their own.
ELSEWHERE = ("tests/bench/run.sh", "tests/run.sh", "cmake/bootstrap.sh --tests", "cmake --workflow", "examples/quickstart.sh")


def shell_commands(page):
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.S):
        for line in block.splitlines():
            if line.strip() and not line.startswith(ELSEWHERE):
                yield line


class Docs(SystemTest):
    def test_every_command_runs(self):
        # The pages speak of a release build in the source folder: a folder of links stands in for it.
        (self.folder / "build").mkdir()
        (self.folder / "build/release").symlink_to(BUILD)
        for entry in ("plugin_api", "examples", "cmake"):
            (self.folder / entry).symlink_to(SOURCE / entry)
        key, value = self.marker.split("=")
        for page in PAGES:
            for command in shell_commands(page):
                with self.subTest(page=page.name, command=command):
                    result = subprocess.run(["bash", "-c", command], cwd=self.folder, env=clean_environment({key: value}),
                                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
                    self.assertEqual(result.returncode, 0, result.stdout[-1500:] + result.stderr[-3000:])

    def test_the_program_in_the_readme_is_the_example(self):
        example = (SOURCE / "examples/mnist/main.cpp").read_text()
        shown = re.search(r"```cpp\n(.*?)```", (SOURCE / "README.md").read_text(), re.S).group(1)
        for line in shown.splitlines():
            code = line.split("//")[0].strip()
            with self.subTest(line=line):
                self.assertIn(re.sub(r"\W", "", code), re.sub(r"\W", "", example))

    def test_every_link_leads_somewhere(self):
        for page in PAGES:
            prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
            for target in re.findall(r"\]\(([^)#]+)\)", prose):
                if not target.startswith("http"):
                    with self.subTest(page=page.name, target=target):
                        self.assertTrue((page.parent / target).exists())


if __name__ == "__main__":
    unittest.main()
