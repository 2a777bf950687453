"""The bench's driver: its arithmetic, what it does with a contestant that fails, and that everything it starts still runs."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

BENCH = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("COHORT_BUILD", BENCH.parents[1] / "build/dev"))
sys.path.insert(0, str(BENCH / "driver"))

from figures import Figure, Plan, figure, interleave, number  # noqa: E402
from goals import Goal  # noqa: E402
from processes import Failed, Process, run_together  # noqa: E402
import all_reduce  # noqa: E402
import curves  # noqa: E402
import plot  # noqa: E402
import training  # noqa: E402
from trainers import Outcome  # noqa: E402


class Named:
    def __init__(self, name):
        self.name = name


class Figures(unittest.TestCase):
    def test_a_figure_has_the_least_the_median_of_medians_and_the_best_round(self):
        self.assertEqual(figure([(3, 10), (1, 30), (2, 20)]), Figure(least=1, median=20, best=10))

    def test_numbers_have_three_digits(self):
        self.assertEqual([number(value) for value in (0.1284, 4.664, 14.028, 49323.4, None)],
                         ["0.128", "4.66", "14.03", "49,323", "-"])

    def test_rounds_take_turns_and_a_contestant_that_fails_is_left_out_with_its_reason(self):
        calls = []

        def measure(contestant):
            calls.append(contestant.name)
            if contestant.name == "b" and len(calls) > 2:
                raise Failed("no memory")
            return len(calls)

        results, left_out = interleave([Named("a"), Named("b")], Plan(3, 60), measure, lambda text: None)
        self.assertEqual(calls, ["a", "b", "a", "b", "a"])
        self.assertEqual(results, {"a": [1, 3, 5]})
        self.assertEqual(left_out, {"b": "no memory"})

    def test_the_first_round_is_measured_even_where_there_is_no_time(self):
        results, _ = interleave([Named("a")], Plan(3, 0), lambda contestant: 1, lambda text: None)
        self.assertEqual(results, {"a": [1]})


class Goals(unittest.TestCase):
    def test_a_goal_is_met_on_its_own_side_of_the_limit(self):
        self.assertIn("goal <= 1.15: 1.08 **met**", Goal("step", 1.15, 1.08).line())
        self.assertIn("goal <= 1.15: 1.2 **missed**", Goal("step", 1.15, 1.2).line())
        self.assertIn("goal >= 8: 9 **met**", Goal("Gloo", 8, 9.0, at_least=True).line())
        self.assertIn("goal <= 1: **not measured**", Goal("step", 1, None).line())

    def test_being_ahead_of_every_peer_is_decided_where_the_lead_is_smallest(self):
        times = {all_reduce.OURS: (1, 8), "OpenMPI": (2, 10), "Gloo ring": (9, 9), all_reduce.FLOOR: (0.5, 5)}
        figures = {name: {n: Figure(us, us, us) for n, us in zip((1024, 65536), pair)} for name, pair in times.items()}
        goal = all_reduce.ahead_goal(figures, all_reduce.OURS, 2, (1024, 65536))
        self.assertAlmostEqual(goal.value, 8 / 9)
        self.assertIn("64 KiB, of Gloo ring", goal.detail)

    def test_processes_side_by_side_lose_the_warm_up_of_each(self):
        outcome = Outcome(step_ms=[9, 1, 2, 8, 3, 4], seconds_to_first_step=1, peak_rss_mib=[100, 100])
        self.assertEqual(training.measured_steps(outcome, warm_up=1, total=4), [[1, 2], [3, 4]])

    def test_the_slower_of_two_processes_is_taken_step_by_step(self):
        outcome = Outcome(step_ms=[9, 1, 7, 2, 8, 3, 4, 5], seconds_to_first_step=1, peak_rss_mib=[100, 100])
        rows = training.rows_of_results({training.ALONE: [outcome]}, warm_up=1, total=5)
        self.assertEqual(rows[training.ALONE].step_ms.median, 3.5)  # of 1, 7, 2 and 3, 4, 5
        self.assertEqual(rows[training.SLOWER].step_ms.median, 5)


class Curves(unittest.TestCase):
    def test_a_distance_is_a_part_of_what_the_seeds_spread_over(self):
        seeds = [[3.0, 2.0], [3.2, 2.2], [2.8, 2.1]]  # spread over 0.4 and 0.2
        self.assertAlmostEqual(curves.distance([3.1, 2.0], seeds), 0.05 / 0.3)
        self.assertEqual(curves.distance(seeds[0], seeds), 0)


class Plots(unittest.TestCase):
    def test_every_series_has_a_line_and_its_name_and_larger_is_higher(self):
        root = xml.etree.ElementTree.fromstring(plot.lines(["a", "b"], {"slow & sure": [10, 1000], "fast": [10, 20]}, "steps"))
        tags = {tag: list(root.iter("{http://www.w3.org/2000/svg}" + tag)) for tag in ("polyline", "text")}
        ends = [float(line.get("points").split()[-1].split(",")[1]) for line in tags["polyline"]]
        self.assertEqual(len(ends), 2)
        self.assertLess(ends[0], ends[1])
        self.assertLessEqual({"steps", "a", "b", "slow & sure", "fast"}, {text.text for text in tags["text"]})


class Processes(unittest.TestCase):
    def test_a_failure_names_the_program_its_code_and_its_last_words(self):
        with self.assertRaisesRegex(Failed, "sh ended with code 3: no such core"):
            run_together([Process(["sh", "-c", "echo no such core >&2; exit 3"])])

    def test_when_one_fails_the_others_are_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            pid_file = pathlib.Path(folder, "pid")
            waits = f"echo $$ > {pid_file}; exec sleep 60"
            fails = f"while [ ! -s {pid_file} ]; do sleep 0.01; done; exit 1"
            with self.assertRaises(Failed):
                run_together([Process(["sh", "-c", waits]), Process(["sh", "-c", fails])])
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid_file.read_text()), 0)


    def test_a_driver_that_is_ended_leaves_nothing_running(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "bench").mkdir()
            program = build / "bench/dispatch"
            program.write_text(f"#!/bin/sh\necho $$ > {folder}/pid\nexec sleep 60\n")
            program.chmod(0o755)
            driver = subprocess.Popen([sys.executable, BENCH / "driver", f"--build={build}", "overhead"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pid_file = build / "pid"
            while not (pid_file.exists() and pid_file.read_text().strip()):
                self.assertIsNone(driver.poll())
                time.sleep(0.01)
            driver.terminate()
            self.assertEqual(driver.wait(timeout=30), 128 + signal.SIGTERM)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid_file.read_text()), 0)


class QuickRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder, "results.json")
            cls.run_ = subprocess.run([sys.executable, BENCH / "driver", f"--build={BUILD}", "--quick", f"--json={results}"],
                                      capture_output=True, text=True, timeout=240)
            cls.results = json.loads(results.read_text()) if results.exists() else None

    def test_every_section_runs_without_the_python_peers(self):
        self.assertEqual(self.run_.returncode, 0, self.run_.stderr[-3000:])
        self.assertEqual(set(self.results), {"machine", "overhead", "codec", "all-reduce", "training", "launch", "replicas",
                                             "parts", "algorithms", "accuracy", "precision", "curves", "scale"})

    def test_no_contestant_that_was_built_is_left_out(self):
        self.assertNotIn("left out", self.run_.stdout)
        for name in (all_reduce.OURS, all_reduce.FLOOR, all_reduce.OPEN_MPI, training.OURS, training.ALONE):
            self.assertIn(f"| {name} |", self.run_.stdout)

    def test_all_reduce_took_time_at_every_size(self):
        for by_size in self.results["all-reduce"]["figures"]["2 ranks"].values():
            for times in by_size.values():
                self.assertGreater(times["least"], 0)
                self.assertLessEqual(times["least"], times["median"])

    def test_an_unknown_section_is_refused_with_the_known_ones(self):
        run = subprocess.run([sys.executable, BENCH / "driver", f"--build={BUILD}", "speed"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("unknown section speed; choose from overhead, codec, all-reduce, training, launch", run.stderr)


if __name__ == "__main__":
    unittest.main()
