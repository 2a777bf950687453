"""The harness itself: each check for what is left behind fails where something is, and every tier has the tests that it should."""
import os
import pathlib
import socket
import sys
import tempfile
import time
import unittest
import unittest.mock

import harness
from harness import SystemTest

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def run(body, test_class=SystemTest):
    """The result of a test that does this, and has little time to clean up."""
    class Test(test_class):
        seconds_to_end = seconds_to_clean = 0.2

        def runTest(self):
            body(self)
    result = unittest.TestResult()
    Test().run(result)
    return result


class LeftBehind(unittest.TestCase):
    def setUp(self):
        # In the place of /dev/shm, where tests beside this one look too.
        self.memory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cohort-test-")))
        self.enterContext(unittest.mock.patch.object(harness, "SHARED_MEMORY", self.memory))

    def complaint(self, body):
        result = run(body)
        self.assertEqual(result.errors, [])
        return "".join(text for _, text in result.failures)

    def test_nothing_is_nothing_to_complain_about(self):
        def clean(test):
            test.reserve_port()
            test.succeed(["sh", "-c", 'touch file "$TMPDIR/file" && rm "$TMPDIR/file"'])
            (test.temporary / "torchelastic_1").mkdir()
        self.assertEqual(self.complaint(clean), "")

    def test_a_process_is_found_and_ended(self):
        started = []

        def start(test):
            started.append(test.start(SLEEP, start_new_session=True))
            test.wait_until(lambda: harness.processes_marked(test.marker), "it runs")
        self.assertIn("processes left behind", self.complaint(start))
        process, = started
        process.communicate(timeout=harness.HANG)
        self.assertEqual(process.returncode, -9)

    def test_a_temporary_file_is_found(self):
        complaint = self.complaint(lambda test: test.succeed(["sh", "-c", 'mkdir "$TMPDIR/cohort-store"']))
        self.assertRegex(complaint, r"(?s)\['cohort-store'\] != \[\].*temporary files left behind")

    def test_shared_memory_that_nobody_uses_is_found(self):
        file = self.memory / "segment"
        complaint = self.complaint(lambda test: file.touch())
        self.assertRegex(complaint, rf"(?s)\['{file.name}'\] != \[\].*shared memory left behind")

    def test_shared_memory_of_a_job_beside_it_is_none_of_its_business(self):
        file = self.memory / "segment"
        with open(file, "w") as used:
            self.assertEqual(self.complaint(lambda test: used.flush()), "")
            before = set(os.listdir(self.memory)) - {file.name}
            self.assertEqual(harness.abandoned_memory(before), [])
        self.assertEqual(harness.abandoned_memory(before), [file.name])

    def test_a_port_on_which_somebody_listens_is_found(self):
        servers = []
        complaint = self.complaint(lambda test: servers.append(socket.create_server(("127.0.0.1", test.reserve_port()))))
        servers.pop().close()
        self.assertIn("ports left open", complaint)


class Waits(unittest.TestCase):
    def complaint(self, body):
        return "".join(text for _, text in run(body).failures)

    def test_a_condition_that_never_holds_is_named(self):
        self.assertIn("not so within 0.1 s: pigs fly", self.complaint(lambda test: test.wait_until(bool, "pigs fly", seconds=0.1)))

    def test_a_process_that_ends_first_is_quoted(self):
        def wait(test):
            test.wait_until(bool, "pigs fly", test.start(["sh", "-c", "echo no wings >&2; exit 7"]))
        complaint = self.complaint(wait)
        self.assertIn("it ended before this was so: pigs fly\nexit code 7", complaint)
        self.assertIn("no wings", complaint)

    def test_a_step_is_seen_in_the_table(self):
        def wait(test):
            (test.folder / "logs/version_0").mkdir(parents=True)
            (test.folder / "logs/version_0/metrics.csv").write_text("epoch,step,loss\n0,5,1.5\n")
            test.wait_until_step(None, 5)
            test.wait_until(lambda: time.sleep(0.1) or True, "time passes")
            self.assertRaises(test.failureException, test.wait_until_step, test.start(["true"]), 6)
        self.assertEqual(self.complaint(wait), "")

    def test_a_program_that_does_not_end_is_ended(self):
        self.assertIn("did not end within 0.1 s", self.complaint(lambda test: test.run_program(["sh", "-c", "sleep 60; true"], timeout=0.1)))


class Chance(unittest.TestCase):
    def test_a_failure_names_the_seed_that_repeats_it(self):
        def fail(test):
            test.assertEqual(test.chance().random(), 2, "a message")
        text = run(fail).failures[0][1]
        self.assertRegex(text, r"a message \[COHORT_TEST_SEED=\d+\]")


class Tiers(unittest.TestCase):
    names = ["Fast.test_a", "Fast.test_b", "Slow.test_a", "Slower.test_a"]
    lines = "# system_x_test:Fast  no\nsystem_x_test:Slow  a reason\nsystem_x_test:Fast.test_b  two  reasons\nsystem_y_test:Fast  x\nz  y\n"

    def test_a_program_has_the_lines_that_name_it(self):
        self.assertEqual(harness.patterns_of("system_x_test", self.lines), ["Slow", "Fast.test_b"])
        self.assertEqual(harness.patterns_of("system_z_test", self.lines), [])

    def test_quick_and_all_have_every_test_between_them(self):
        tiers = {tier: harness.of_tier(tier, self.names, ["Slow", "Fast.test_b"]) for tier in ("quick", "all", "every")}
        self.assertEqual(tiers, {"quick": ["Fast.test_a", "Slower.test_a"], "all": ["Fast.test_b", "Slow.test_a"], "every": self.names})

    def test_a_line_that_names_no_test_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "tests that there are not: Slo, Fast.test_c"):
            harness.of_tier("quick", self.names, ["Slow", "Slo", "Fast.test_c"])

    def test_tests_of_a_class_run_in_as_many_pieces_as_run_at_once(self):
        self.assertEqual(harness.pieces_of(["A.a", "A.b", "A.c", "B.a"], 2), [["A.a", "A.c"], ["A.b"], ["B.a"]])

    def test_skips_are_named_with_their_reason(self):
        class One(SystemTest):
            def runTest(self):
                with self.subTest(wire="mpi"):
                    self.skipTest("no such wire")
        result = unittest.TestResult()
        One().run(result)
        line, = harness.skips_of("system_x_test", result)
        self.assertRegex(line, r"^SKIPPED system_x_test:\S+One\.runTest: no such wire$")

        @unittest.skip("not today")
        class Two(unittest.TestCase):
            def test_it(self):
                pass
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Two).run(result)
        line, = harness.skips_of("system_x_test", result)
        self.assertRegex(line, r"^SKIPPED system_x_test:\S+Two\.test_it: not today$")

        class Three(Two):
            __unittest_skip__ = False

            @classmethod
            def setUpClass(cls):
                raise unittest.SkipTest("nothing to set up")
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Three).run(result)
        line, = harness.skips_of("system_x_test", result)
        self.assertRegex(line, r"^SKIPPED system_x_test:\S+Three: nothing to set up$")


if __name__ == "__main__":
    harness.main()
