"""Program::init_dist_connection: ranks that the program connects train as others do (connect_program.cpp)."""
import re
import subprocess

import harness
from harness import BUILD, COHORT, MPIRUN, SOURCE, TORCHRUN, SystemTest

PROGRAM = str(BUILD / "tests/connect_program")
EXAMPLE = SOURCE / "examples/plugins/rendezvous_layer/rendezvous_layer.c"
FAILED, USER, PEER = 1, 2, 4
ALONE, TWO = [PROGRAM, "--devices=1"], [PROGRAM, "--devices=2", "--strategy=ddp"]
FORKS = [PROGRAM, "--devices=2", "--strategy=ddp_spawn"]
RUN = [COHORT, "run", "-n", "2", PROGRAM]
UNDER_TORCHRUN = [*TORCHRUN, "--no-python", "--nproc-per-node=2", "--standalone", PROGRAM]
UNDER_MPIRUN = [*MPIRUN, "-np", "2", PROGRAM]


class ConnectTest(SystemTest):
    def program(self, command, *more):
        """Runs it, and returns how it ended and the notes of each rank's function."""
        notes = self.folder / f"notes-{len(list(self.folder.glob('notes-*')))}"
        notes.mkdir()
        result = self.run_program([*command, f"--folder={notes}", "--threads=1", "--summary-json=summary.json", *more],
                                  timeout=harness.HANG)
        return result, {file.name: file.read_text().splitlines() for file in notes.iterdir()}

    def train(self, command, *more):
        result, notes = self.program(command, *more)
        self.assertEqual(result.code, 0, str(result))
        weights = [line for line in result.stdout.splitlines() if line.startswith("weight ")]
        self.assertEqual(len(weights), 8, str(result))
        return result, notes, weights

    def one_call_each(self, ranks):
        return {f"rank-{rank}": [f"{rank} of {ranks}, {rank} of {ranks}, node 0 of 1"] for rank in range(ranks)}

    def layer(self, edit=str):
        """The example that fills this slot alone, and the flags that put it to work."""
        source, plugin = self.folder / EXAMPLE.name, self.folder / f"cohort_{EXAMPLE.stem}.so"
        source.write_text(edit(EXAMPLE.read_text()))
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", source, "-o", plugin], check=True)
        return [f"--plugin={plugin}", f"--layer={EXAMPLE.stem}"]

    def equals_a_run_without(self, command, ranks, *more):
        with self.subTest(command=command, more=more):
            _, notes, wanted = self.train(command, *more)
            self.assertEqual(notes, {})
            before = self.summary()
            for flags in (["--connect=plain"], ["--connect=moved", f"--to-port={self.reserve_port()}"]):
                _, notes, weights = self.train(command, *flags, *more)
                self.assertEqual(notes, self.one_call_each(ranks), flags)
                self.assertEqual(weights, wanted, flags)
                after = self.summary()
                self.assertEqual(after["layers"], [*before["layers"], "program"], flags)
                for key in ("weights_sha256", "strategy", "collective", "world_size", "steps", "bytes_sent_per_step"):
                    self.assertEqual(after[key], before[key], key)

    def refuses(self, code, sentence, command, *flags):
        """A rank says why it ends. None waits for the others: the deadline is far away. Returns all lines of errors."""
        with self.subTest(command=command, flags=flags):
            result, notes = self.program(command, "--timeout=1h", *flags)
            self.assertEqual(result.code, code, str(result))
            self.assertNotIn("weight ", result.stdout)
            lines = [re.sub(r"^\[rank \d+\] ", "", line) for line in result.stderr.splitlines()]
            errors = [line for line in lines if "error: " in line]
            self.assertIn(f"error: init_dist_connection: {sentence}", errors, str(result))
            self.assertTrue(notes and all(len(calls) == 1 for calls in notes.values()), notes)
            return errors

    def one_process_refuses(self, code, sentence, *flags):
        self.assertEqual(len(self.refuses(code, sentence, ALONE, *flags)), 1)


NEVER = "the program's function did not call connect(); call it once, on all ranks"
TWICE = "the ranks are connected already; call connect() once"
THROWN = "the scheduler is on fire"


class Trains(ConnectTest):
    def test_as_without_a_function(self):
        self.equals_a_run_without(ALONE, 1)
        self.equals_a_run_without(TWO, 2)

    def test_in_forks_too(self):
        self.equals_a_run_without(FORKS, 2)

    def test_with_a_loop_of_its_own_too(self):
        self.equals_a_run_without(TWO, 2, "--loop=session")

    def test_what_it_changes_is_where_ranks_meet(self):
        """Ranks that are moved apart do not find each other."""
        result, notes = self.program(TWO, "--connect=moved", f"--to-port={self.reserve_port()}", "--odd-rank=1",
                                     "--timeout=3s")
        self.assertEqual(result.code, PEER, str(result))
        self.assertEqual(notes, self.one_call_each(2))


class LikeALayer(ConnectTest):
    def test_a_layer_that_fills_this_slot_alone_does_the_same(self):
        for command in (TWO, FORKS):
            with self.subTest(command=command):
                port = self.reserve_port()
                moved = f"  args->master_port = {port};\n  return s->below"
                layer = self.layer(lambda source: source.replace("  return s->below", moved, 1))
                _, notes, wanted = self.train(command, *layer)
                self.assertEqual(notes, {})
                by_layer = self.summary()
                _, _, weights = self.train(command, "--connect=moved", f"--to-port={port}")
                by_program = self.summary()
                self.assertEqual(weights, wanted)
                self.assertEqual(by_layer["layers"][:-1], by_program["layers"][:-1])
                self.assertEqual((by_layer["layers"][-1], by_program["layers"][-1]), ("rendezvous_layer", "program"))
                self.assertEqual(by_layer["weights_sha256"], by_program["weights_sha256"])

    def test_the_function_is_above_a_layer(self):
        """The layer sees what the function has changed, in every rank: only rank 0's log comes to the screen."""
        port = self.reserve_port()
        _, notes, _ = self.train(TWO, "--connect=moved", f"--to-port={port}", "--log-dir=logs", *self.layer())
        self.assertEqual(notes, self.one_call_each(2))
        self.assertEqual(self.summary()["layers"][-2:], ["rendezvous_layer", "program"])
        for rank in range(2):
            self.assertIn(f"rendezvous_layer: rank {rank} of 2 meets at 127.0.0.1:{port}",
                          (self.folder / f"logs/rank-{rank}.log").read_text())


class Refusals(ConnectTest):
    def test_a_function_that_does_not_connect(self):
        self.one_process_refuses(USER, NEVER, "--connect=never")
        self.refuses(USER, NEVER, TWO, "--connect=never")

    def test_a_function_that_connects_twice(self):
        self.one_process_refuses(USER, TWICE, "--connect=twice")
        self.refuses(USER, TWICE, TWO, "--connect=twice")

    def test_what_it_throws_ends_the_rank(self):
        self.one_process_refuses(FAILED, THROWN, "--connect=throw")
        self.refuses(FAILED, THROWN, TWO, "--connect=throw")
        self.refuses(FAILED, THROWN, TWO, "--connect=late-throw")

    def test_forks_refuse_it_too(self):
        self.refuses(USER, NEVER, FORKS, "--connect=never")
        self.refuses(FAILED, THROWN, FORKS, "--connect=throw")

    def test_one_rank_alone_keeps_the_others_waiting_for_nothing(self):
        for how, code, sentence in (("never", USER, NEVER), ("twice", USER, TWICE), ("throw", FAILED, THROWN)):
            self.refuses(code, sentence, TWO, f"--connect={how}", "--odd-rank=1")


class InFull(ConnectTest):
    def test_under_other_launchers(self):
        for command in (RUN, UNDER_TORCHRUN, UNDER_MPIRUN):
            self.equals_a_run_without(command, 2)

    def test_with_a_loop_of_its_own(self):
        self.equals_a_run_without(ALONE, 1, "--loop=session")
        self.equals_a_run_without(UNDER_TORCHRUN, 2, "--loop=session")

    def test_over_gloo(self):
        self.equals_a_run_without(TWO, 2, "--collective=gloo")
        self.equals_a_run_without(FORKS, 2, "--collective=gloo")

    def test_one_rank_alone_is_refused_wherever_it_runs(self):
        for command in (FORKS, RUN):
            for how, code, sentence in (("never", USER, NEVER), ("twice", USER, TWICE), ("throw", FAILED, THROWN),
                                        ("late-throw", FAILED, THROWN)):
                for rank in (0, 1):
                    self.refuses(code, sentence, command, f"--connect={how}", f"--odd-rank={rank}")


if __name__ == "__main__":
    harness.main()
