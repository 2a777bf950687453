"""--profile: the table of phases, and one trace of all ranks on one clock."""
import json
import re
import signal

import harness
from harness import BUILD, COHORT, MNIST, SystemTest

PARAMETERS = 215370
STEPS, WARMUP, TRACED = 20, 3, 10
TRAIN = [MNIST, "--epochs=1", f"--max-steps={STEPS}", "--limit-val-batches=2", "--limit-test-batches=1", "--threads=1",
         "--summary-json=summary.json", f"--profile=trace.json,steps={TRACED},warmup={WARMUP}"]
# One after another in each step of one rank; `callback ...`, `validation` and `checkpoint` may lie in others.
PHASES = ["data", "transfer", "forward", "backward", "waiting for gradients", "optimizer"]


class Event:
    """An event with a duration; times in nanoseconds, which the file has as microseconds."""
    def __init__(self, json):
        self.name, self.category, self.rank, self.thread = json["name"], json["cat"], json["pid"], json["tid"]
        self.begin = round(json["ts"] * 1000)
        self.end = self.begin + round(json["dur"] * 1000)
        self.arguments = json.get("args", {})

    def __repr__(self):
        return f"{self.category} '{self.name}' of rank {self.rank}, thread {self.thread}: {self.begin} .. {self.end}"

    def overlaps(self, other):
        return self.begin < other.end and other.begin < self.end

    def holds(self, other):
        return self.begin <= other.begin and other.end <= self.end


def rows_of(table):
    """The rows of the printed table, each with its count, seconds and share of the loop."""
    found = re.finditer(r"^(\S.*?) +(\d*) +(\d+\.\d{3}) +(\d+\.\d{4}) +(\d+\.\d)(?: .*)?$", table, re.M)
    return {name: (int(count or 0), float(seconds), float(share)) for name, count, seconds, _, share in (row.groups() for row in found)}


class ProfileTest(SystemTest):
    def profile(self, *more, start=(), environment=None):
        self.result = self.succeed([*start, *TRAIN, *more], environment)
        self.read()

    def read(self, file="trace.json"):
        self.trace = json.loads((self.folder / file).read_text())
        self.events = [Event(event) for event in self.trace["traceEvents"] if event["ph"] == "X"]

    def of(self, category, rank=None, name=None):
        return [event for event in self.events if event.category == category and rank in (None, event.rank) and
                name in (None, event.name)]

    def check_format(self, ranks):
        """As "Trace Event Format" says for complete events and metadata, and as Perfetto wants it: events of a thread nest."""
        named = {"process_name": set(), "thread_name": set()}
        for event in self.trace["traceEvents"]:
            self.assertIsInstance(event["name"], str)
            self.assertIsInstance(event["pid"], int)
            self.assertIsInstance(event["tid"], int)
            if event["ph"] == "M":
                self.assertIn(event["name"], (*named, "process_labels", "process_sort_index", "thread_sort_index"))
                named.get(event["name"], set()).add((event["pid"], event["tid"]))
            else:
                self.assertEqual(event["ph"], "X")
                self.assertGreaterEqual(event["dur"], 0)
                self.assertIsInstance(event["ts"], float)
                self.assertIsInstance(event["cat"], str)
        self.assertEqual({process for process, _ in named["process_name"]}, set(range(ranks)))
        self.assertEqual({event.rank for event in self.events}, set(range(ranks)))
        self.assertLessEqual({(event.rank, event.thread) for event in self.events}, named["thread_name"])
        for place in named["thread_name"]:
            self.check_nesting([event for event in self.events if (event.rank, event.thread) == place])

    def check_nesting(self, events):
        around = []
        for event in sorted(events, key=lambda one: (one.begin, -one.end)):
            while around and around[-1].end <= event.begin:
                around.pop()
            if around and not around[-1].holds(event):
                self.fail(f"{event} is neither in nor behind {around[-1]}")
            around.append(event)

    def check_steps(self, ranks):
        names = [f"step {number}" for number in range(WARMUP + 1, WARMUP + TRACED + 1)]
        for rank in range(ranks):
            steps = self.of("step", rank)
            self.assertEqual([step.name for step in steps], names)
            for before, after in zip(steps, steps[1:]):
                self.assertLessEqual(before.end, after.begin)
            phases = sorted((event for event in self.of("phase", rank) if event.name in PHASES and event.thread == 0),
                            key=lambda event: event.begin)
            for before, after in zip(phases, phases[1:]):
                self.assertLessEqual(before.end, after.begin, f"{before} and {after} overlap")
            for step in steps:
                own = {event.name for event in phases if step.holds(event)}
                self.assertLessEqual({"data", "forward", "backward", "optimizer"}, own, step)
            # What no phase has: counting, votes, the calls of callbacks that do nothing.
            # The best step counts: a loaded machine takes the processor away between phases now and then.
            in_phases = [sum(event.end - event.begin for event in phases if step.holds(event)) / (step.end - step.begin) for step in steps]
            self.assertGreater(max(in_phases), 0.95)

    def check_operators(self, ranks):
        for rank in range(ranks):
            operators = {event.name for event in self.of("operator", rank)}
            self.assertLessEqual({"aten::conv2d", "aten::max_pool2d", "aten::cross_entropy_loss"}, operators)
            for event in self.of("operator", rank, "aten::cross_entropy_loss"):
                self.assertTrue(any(forward.holds(event) for forward in self.of("phase", rank)), event)

    def check_communication(self, ranks, operation="all_reduce"):
        """Every bucket is reduced in each step, and no rank ends before all have begun: which needs one clock to be seen."""
        for number in range(TRACED):
            parts = [self.of("step", rank)[number] for rank in range(ranks)]
            buckets = [[event for event in self.of("bucket", rank) if part.holds(event)] for rank, part in enumerate(parts)]
            indices = [[event.arguments["bucket"] for event in of_rank] for of_rank in buckets]
            self.assertTrue(indices[0])
            self.assertEqual(indices, [list(range(len(indices[0])))] * ranks)
            for of_rank in buckets:
                size = sum(event.arguments["bytes"] for event in of_rank)
                self.assertTrue(4 * PARAMETERS <= size < 4 * PARAMETERS + 4096, size)
            for same in zip(*buckets):
                inside = [[event for event in self.of("communication", bucket.rank, operation)
                           if event.thread == bucket.thread and bucket.holds(event)] for bucket in same]
                for of_rank, bucket in zip(inside, same):
                    self.assertTrue(of_rank, bucket)
                    self.assertEqual({event.arguments["purpose"] for event in of_rank}, {bucket.arguments["purpose"]})
                    self.assertGreaterEqual(sum(event.arguments["bytes"] for event in of_rank), bucket.arguments["bytes"])
                for event in same:
                    self.assertTrue(all(event.overlaps(other) for other in same), same)

    def check_table(self, ranks):
        table = self.result.stdout
        self.assertIn(f"Profile of {STEPS} steps", table, str(self.result))
        rows = rows_of(table)
        loop = rows.pop("loop")[1]
        self.assertAlmostEqual(sum(seconds for _, seconds, _ in rows.values()), loop, delta=0.0006 * (len(rows) + 1))
        self.assertAlmostEqual(sum(share for _, _, share in rows.values()), 100, delta=0.06 * len(rows))
        self.assertLess(rows["rest"][2], 10)
        self.assertEqual((rows["forward"][0], rows["optimizer"][0], rows["validation"][0]), (STEPS, STEPS, 2))  # one is tried before
        self.assertEqual("least and most of" in table, ranks > 1)
        return rows, loop

    def check_against_the_summary(self):
        """The loop is the steps, which the summary has timed by itself, and what comes before and behind them."""
        rows, loop = self.check_table(2)
        summary = self.summary()
        steps = 2 * 32 * STEPS / summary["samples_per_second"]
        others = rows["validation"][1] + rows.get("checkpoint", (0, 0.0))[1]
        self.assertLess(steps, loop)
        self.assertLess(loop - others - steps, 0.1 * loop + 0.1)

    def check_all(self, ranks, **of_communication):
        self.check_format(ranks)
        self.check_steps(ranks)
        self.check_operators(ranks)
        self.check_communication(ranks, **of_communication)
        self.check_table(ranks)


class Profile(ProfileTest):
    def test_two_ranks_are_on_one_clock(self):
        self.profile("--devices=2", "--strategy=ddp", "--bucket-size=200KiB")
        self.check_all(2)
        self.check_against_the_summary()
        lanes = {event["pid"] for event in self.trace["traceEvents"] if event["name"] == "thread_name" and
                 event["args"]["name"] == "lane default"}
        self.assertEqual(lanes, {0, 1})
        self.assertIn("Trace of steps 4 to 13, for https://ui.perfetto.dev: ", self.result.stderr)

    def test_forked_ranks_are_on_one_clock(self):
        self.profile("--devices=2", "--strategy=ddp_spawn")
        self.check_all(2)


class InFull(ProfileTest):
    def test_one_rank(self):
        self.profile()
        self.check_format(1)
        self.check_steps(1)
        self.check_operators(1)
        self.check_table(1)

    def test_replicas_have_threads(self):
        self.profile("--devices=2", "--strategy=dp")
        self.check_format(1)
        self.check_operators(1)
        rows, _ = self.check_table(1)
        self.assertIn("other replicas", rows)
        threads = {event["tid"]: event["args"]["name"] for event in self.trace["traceEvents"] if event["name"] == "thread_name"}
        for phase in ("forward", "backward"):
            of_replicas = {threads[event.thread] for event in self.of("phase", 0, phase)}
            self.assertEqual(of_replicas, {"replica 0", "replica 1"})

    def test_other_wires_and_strategies(self):
        for more in (["--collective=gloo"], ["--strategy=sharded", "--collective=shm"], ["--strategy=bagua:bytegrad"]):
            with self.subTest(more=more):
                self.profile("--devices=2", *more)
                self.check_format(2)
                self.check_steps(2)
                self.check_table(2)
                self.assertTrue(self.of("bucket", 1))

    def test_machines_with_clocks_of_their_own(self):
        """The second node's clock is a thousand seconds ahead."""
        port = self.reserve_port()
        node = [COHORT, "run", "--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
        shifted = {"LD_PRELOAD": str(BUILD / "tests/shifted_clock.so")}
        other = self.start([*node, "--node-rank=1", *TRAIN], shifted)
        self.profile(start=[*node, "--node-rank=0"])
        other = self.finish(other)
        self.assertEqual(other.code, 0, str(other))
        self.check_all(2)
        (label,) = [event["args"]["labels"] for event in self.trace["traceEvents"] if event["name"] == "process_labels"]
        set_by, error = map(int, re.fullmatch(r"clock set by (-?\d+) us, right to (\d+) us", label).groups())
        self.assertLessEqual(abs(set_by + 1_000_000_000), error)
        self.assertLess(error, 1_000_000)

    def test_a_second_training_has_a_trace_of_its_own(self):
        self.result = self.succeed([BUILD / "tests/spawn_program", "--strategy=ddp_spawn", "--devices=2",
                                    "--profile=trace.json,warmup=0,steps=2"])
        self.assertEqual(self.result.stdout.count("Profile of "), 2, str(self.result))
        for file in ("trace.json", "trace-fit-2.json"):
            self.read(file)
            self.check_format(2)
            self.assertEqual([step.name for step in self.of("step", 1)], ["step 1", "step 2"])

    def test_a_training_that_a_signal_stops_has_a_profile(self):
        process = self.start([MNIST, "--devices=2", "--epochs=1000", "--log-dir=logs", "--profile=trace.json,steps=4"])
        self.wait_until_step(process, 20)
        process.send_signal(signal.SIGINT)
        self.result = self.finish(process)
        self.assertEqual(self.result.code, 130, str(self.result))
        self.assertIn("\nforward ", self.result.stdout)
        self.read()
        self.check_format(2)
        self.assertEqual(len(self.of("step", 0)), 4)


if __name__ == "__main__":
    harness.main()
