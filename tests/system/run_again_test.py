"""What ended by its deadline runs once more, alone; what is wrong stays red."""
import subprocess
import sys
import xml.etree.ElementTree

from harness import SOURCE, SystemTest, main

SCRIPT = SOURCE / "tests/run_again.py"
SLOW_ONCE = "[ -e tried ] && exit 0; touch tried; sleep 60"
WAITED_ONCE = "[ -e waited ] && exit 0; touch waited; printf 'FAIL: test_it\\nharness.DeadlinePassed: not so within 60 s\\n'; exit 1"
TWO_REASONS = ("printf 'FAIL: test_it\\nDeadlinePassed: not so within 60 s\\nFAIL: test_other\\nAssertionError: 1 != 2\\n'; exit 1")


class RunAgain(SystemTest):
    def run_twice(self, **entries):
        """Runs these shell commands by ctest, then what ended by its deadline; returns that run and the status of each entry."""
        lines = []
        for name, command in entries.items():
            quoted = command.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'add_test({name} sh -c "{quoted}")\nset_tests_properties({name} PROPERTIES TIMEOUT 1)\n')
        (self.folder / "CTestTestfile.cmake").write_text("".join(lines))
        junit = self.folder / "junit.xml"
        subprocess.run(["ctest", "--test-dir", self.folder, "--output-junit", junit, "--timeout", "1"], capture_output=True, check=False)
        result = self.run_program([sys.executable, SCRIPT, self.folder, junit])
        return result, {entry.get("name"): entry.get("status") for entry in xml.etree.ElementTree.parse(junit).getroot().iter("testcase")}

    def test_what_passes_alone_makes_the_run_green(self):
        result, status = self.run_twice(slow=SLOW_ONCE, waited=WAITED_ONCE)
        self.assertEqual(result.code, 0, str(result))
        self.assertIn("passed alone: slow", result.stdout)
        self.assertEqual(status, {"slow": "run", "waited": "run"})
        self.assertIn("DeadlinePassed", (self.folder / "passed_alone/waited.txt").read_text())

    def test_what_is_wrong_stays_red(self):
        result, status = self.run_twice(slow=SLOW_ONCE, wrong="exit 1", two=TWO_REASONS, crash="kill -SEGV $$")
        self.assertEqual(result.code, 1, str(result))
        self.assertEqual(status, {"slow": "run", "wrong": "fail", "two": "fail", "crash": "fail"})

    def test_what_is_slow_alone_as_well_stays_red(self):
        result, status = self.run_twice(slow="sleep 60")
        self.assertEqual((result.code, status), (1, {"slow": "fail"}))
        self.assertIn("failed alone: slow", result.stdout)


if __name__ == "__main__":
    main()
