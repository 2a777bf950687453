"""Ranks find out together where they do not fit together, before they train wrongly or wait for ever."""
import os
import re
import signal
import subprocess

import harness
from harness import BUILD, MNIST, SOURCE, SystemTest, rendezvous_of

PROGRAM = str(BUILD / "tests/agreement_program")
SHORT = ["--epochs=1", "--max-steps=6", "--limit-val-batches=1", "--limit-test-batches=1", "--threads=1"]
SMALL = ["--max-steps=8", "--threads=1"]
USER, FAILED, PEER = 2, 1, 4


class AgreementTest(SystemTest):
    def place(self, rank, world, local_world=None, node=0, port=None):
        local = local_world or world
        return {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % local), "LOCAL_WORLD_SIZE": str(local),
                "NODE_RANK": str(node), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}

    def by_hand(self, commands, places=None):
        """Runs a command for each rank; returns how they ended."""
        port = self.reserve_port()
        places = places or [(rank, len(commands)) for rank in range(len(commands))]
        processes = [self.start(command, self.place(*place, port=port)) for command, place in zip(commands, places)]
        return [self.finish(process) for process in processes]

    def all_end(self, results, code, *texts):
        for result in results:
            self.assertEqual(result.code, code, str(result))
            for text in texts:
                self.assertIn(text, result.stderr, str(result))

    def count_differently(self, wire, places, *texts):
        results = self.by_hand([[MNIST, *SHORT, f"--collective={wire}"]] * len(places), places)
        self.all_end(results, USER, *texts)
        for result in results:
            self.assertEqual(len([line for line in result.stderr.splitlines() if "do not fit together" in line]), 1, str(result))

    def run_program_on(self, ranks, how, *arguments, strategy="ddp"):
        return self.run_program([PROGRAM, f"--strategy={strategy}", f"--devices={ranks}", f"--how={how}", *SMALL, *arguments])

    def wait_for_each_other(self, how, wire, ranks, *texts, different_rank=1):
        """Nobody waits until the deadline, and every rank names both operations."""
        result = self.run_program_on(ranks, how, f"--collective={wire}", "--timeout=1h", f"--different-rank={different_rank}")
        self.assertEqual(result.code, USER, str(result))
        lines = [line for line in result.stderr.splitlines() if "ranks wait for each other in different operations" in line]
        self.assertEqual(len(lines), ranks, str(result))
        for line in lines:
            for text in texts:
                self.assertIn(text, line)

    def drift(self, *arguments):
        result = self.run_program_on(2, "drift", *arguments)
        self.assertEqual(result.code, FAILED, str(result))
        self.assertRegex(result.stderr, r"after step \d+ the ranks have different weights: rank 1 from rank 0 in 1 of 2 parameters, "
                                        r"first in 'fc.weight'")
        return result

    def copy(self, wire):
        result = self.run_program_on(2, "copy", f"--collective={wire}")
        self.assertEqual(result.code, 0, str(result))
        copy = re.search(r"copy (\d+)", result.stderr).group(1)
        self.assertEqual(len(re.findall(rf"process {copy} is a copy \(fork\) of the rank in process \d+", result.stderr)), 1, str(result))

    def layer(self, name, slots):
        """Builds a free layer that fills these slots."""
        path = self.folder / f"cohort_{name}.so"
        source = f"""
#include <cohort/api/cohort.h>
static cohort_status no_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {{
  (void)s; (void)step; (void)bucket; return COHORT_OK;
}}
static cohort_status no_plan(cohort_strategy* s, cohort_bucket_plan* plan) {{ (void)s; (void)plan; return COHORT_OK; }}
static const cohort_strategy_vt vt = {{ .struct_size = sizeof vt, {slots} }};
static const cohort_component component = {{ .struct_size = sizeof component, .kind = COHORT_KIND_STRATEGY, .name = "{name}",
  .summary = "a test", .inherits = "*", .vtable = &vt }};
static const cohort_component* const components[] = {{ &component, 0 }};
const cohort_plugin cohort_plugin_0 = {{ .magic = COHORT_PLUGIN_MAGIC, .struct_size = sizeof(cohort_plugin),
  .abi_built = COHORT_ABI_VERSION, .abi_required = COHORT_RUNS_ON_ABI, .id = "org.example.{name}", .version = "1.0.0",
  .vendor = "Example", .license = "MIT", .components = components }};
const void* const no_warnings[] = {{ no_bucket, no_plan }};
"""
        (self.folder / "layer.c").write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", self.folder / "layer.c", "-o", path], check=True)
        return [f"--plugin={path}", f"--layer={name}"]


class Places(AgreementTest):
    """Ranks that count the job differently are told so before they share any memory."""

    def test_a_rank_that_counts_more_ranks(self):
        self.count_differently("shm", [(0, 2), (1, 3)], "rank 0 counts 2 ranks, rank 1 counts 3 ranks", "WORLD_SIZE")

    def test_a_number_beyond_the_ranks_that_are_counted(self):
        self.count_differently("gloo", [(0, 2), (2, 3)], "rank 0 counts 2 ranks, rank 2 counts 3 ranks")


class PlacesInFull(AgreementTest):
    def test_over_gloo(self):
        self.count_differently("gloo", [(0, 2), (1, 3)], "rank 0 counts 2 ranks, rank 1 counts 3 ranks")

    def test_a_rank_that_counts_fewer_ranks(self):
        for wire in ("shm", "gloo"):
            self.count_differently(wire, [(0, 3), (1, 2)], "rank 0 counts 3 ranks, rank 1 counts 2 ranks")

    def test_other_ranks_that_count_more_ranks(self):
        for wire in ("shm", "gloo"):
            self.count_differently(wire, [(0, 2), (1, 3), (2, 3)], "rank 0 counts 2 ranks")

    def test_other_numbers_of_nodes(self):
        self.count_differently("gloo", [(0, 2), (1, 2, 1, 1)], "rank 0 counts 1 node, rank 1 counts 2 nodes")

    def test_other_runs(self):
        port = self.reserve_port()
        processes = [self.start([MNIST, *SHORT, "--timeout=2s"], {**self.place(rank, 2, port=port), "COHORT_RUN_ID": f"run-{rank}"})
                     for rank in range(2)]
        first, second = [self.finish(process) for process in processes]
        self.all_end([first], PEER, "missing: rank 1")
        self.all_end([second], PEER, "rank 0 of this job did not come", "or has another MASTER_PORT, run or secret")

    def test_two_processes_with_one_number(self):
        results = self.by_hand([[MNIST, *SHORT]] * 3, [(0, 3), (1, 3), (1, 3)])
        self.all_end(results, USER, "two processes say that they are rank 1")


class Restart(AgreementTest):
    """A rank that is killed before all are there is started again by the same command."""

    def restart_one(self, wire):
        port = self.reserve_port()

        def start(rank):
            return self.start([MNIST, *SHORT, f"--collective={wire}"], self.place(rank, 3, port=port))

        first = start(0)
        self.wait_until(lambda: rendezvous_of(first.pid)[0], "rank 0 serves its store", first)
        killed = start(1)
        self.wait_until(lambda: rendezvous_of(first.pid)[1] == 1, "rank 1 has come to the store", killed)
        killed.kill()
        self.assertEqual(killed.wait(), -signal.SIGKILL)
        self.all_end([self.finish(process) for process in (first, start(1), start(2))], 0)

    def test_over_shm(self):
        self.restart_one("shm")


class RestartInFull(Restart):
    def test_over_shm(self):
        for _ in range(3):
            self.restart_one("shm")

    def test_over_gloo(self):
        self.restart_one("gloo")


class Settings(AgreementTest):
    def test_other_clipping_is_refused_before_the_first_step(self):
        results = self.by_hand([[MNIST, *SHORT], [MNIST, *SHORT, "--gradient-clip-val=0.01"]])
        self.all_end(results, USER, "rank 0: gradient-clip-val = none", "rank 1: gradient-clip-val = 0.01")

    def test_another_learning_rate_is_refused_with_optimizer_and_group(self):
        result = self.run_program_on(2, "lr")
        self.assertEqual(result.code, USER, str(result))
        for text in ("rank 0: optimizer 0, group 0: lr = 0.1\n", "rank 1: optimizer 0, group 0: lr = 0.2\n"):
            self.assertEqual(result.stderr.count(text), 2, str(result))

    def test_a_callback_of_one_rank_alone_that_decides_is_refused(self):
        for how, callback in (("early-stopping", "early_stopping"), ("plateau", "schedules")):
            with self.subTest(how=how):
                result = self.run_program_on(2, how)
                self.assertEqual(result.code, USER, str(result))
                for text in ("rank 0: callbacks that decide by a metric = none\n",
                             f"rank 1: callbacks that decide by a metric = {callback} by 'val_loss'\n"):
                    self.assertEqual(result.stderr.count(text), 2, str(result))

    def test_a_parameter_that_is_given_twice_is_named(self):
        result = self.run_program_on(1, "twice")
        self.assertEqual(result.code, USER, str(result))
        self.assertIn("'fc.weight' is given to the optimizers twice", result.stderr)


class SettingsInFull(AgreementTest):
    def test_a_summary_on_one_rank_alone_is_refused_before_the_first_step(self):
        results = self.by_hand([[MNIST, *SHORT, "--summary-json=s.json"], [MNIST, *SHORT]])
        self.all_end(results, USER, "rank 0: summary-json = given", "rank 1: summary-json = none")
        self.assertFalse((self.folder / "s.json").exists())

    def test_options_that_ranks_follow_together_are_refused_over_gloo_too(self):
        for option, shown in (("--log-every-n-steps=7", "log-every-n-steps = 7"), ("--autotune", "autotune = given"),
                              ("--gradient-clip-algorithm=value", 'gradient-clip-algorithm = "value"'),
                              ("--keep-checkpoints=9", "keep-checkpoints = 9")):
            results = self.by_hand([[MNIST, *SHORT, "--collective=gloo"], [MNIST, *SHORT, "--collective=gloo", option]])
            self.all_end(results, USER, f"rank 1: {shown}")

    def test_what_is_each_ranks_own_may_differ(self):
        results = self.by_hand([[MNIST, *SHORT, "--log-dir=a", "--timeout=60s"],
                                [MNIST, *SHORT, "--log-dir=b", "--timeout=50s", "--log-level=error"]])
        self.all_end(results, 0)


class Weights(AgreementTest):
    def test_ranks_that_drift_apart_end_with_1_and_the_parameter(self):
        self.drift("--collective=shm")

    def test_a_layer_that_does_not_average_is_found(self):
        result = self.run_program([MNIST, "--strategy=ddp", "--devices=2", *SHORT, *self.layer("mute", ".reduce_bucket = no_bucket")])
        self.assertEqual(result.code, FAILED, str(result))
        self.assertIn("after step 6 the ranks have different weights: rank 1 from rank 0", result.stderr)


class WeightsInFull(AgreementTest):
    def test_a_checkpoint_of_ranks_that_drifted_apart_is_not_written(self):
        result = self.drift("--collective=gloo", "--checkpoint-dir=c", "--checkpoint-every-n-steps=3")
        self.assertIn("after step 6", result.stderr)
        self.assertEqual([name for name in os.listdir(self.folder / "c") if name.startswith("step-")], ["step-00000003"])

    def test_a_layer_that_wants_no_gradients_is_found(self):
        layer = self.layer("empty", ".plan_buckets = no_plan")
        result = self.run_program([MNIST, "--strategy=ddp", "--devices=2", *SHORT, *layer])
        self.assertEqual(result.code, FAILED, str(result))
        self.assertIn("the ranks have different weights", result.stderr)

    def test_ranks_that_differ_on_purpose_are_left_alone(self):
        for variant in ("decentralized", "low_precision_decentralized", "async"):
            self.succeed([MNIST, f"--strategy=bagua:{variant}", "--devices=2", *SHORT, "--checkpoint-dir=" + variant,
                          "--checkpoint-every-n-steps=3"])


class Deadlocks(AgreementTest):
    def test_a_barrier_of_one_rank_alone(self):
        self.wait_for_each_other("barrier", "shm", 2, "rank 1 called barrier", "rank 0 called all_reduce")


class DeadlocksInFull(AgreementTest):
    def test_a_barrier_over_gloo(self):
        self.wait_for_each_other("barrier", "gloo", 3, "rank 1 called barrier", "ranks 0, 2 called all_reduce")

    def test_a_barrier_among_many_ranks(self):
        self.wait_for_each_other("barrier", "shm", 8, "rank 1 called barrier", "ranks 0, 2, 3, 4, 5, 6, 7 called all_reduce")

    def test_an_all_gather_of_one_rank_alone(self):
        for wire in ("shm", "gloo"):
            self.wait_for_each_other("gather", wire, 2, "rank 0 called all_reduce mean of float32", "of control")

    def test_an_operation_of_the_other_rank(self):
        self.wait_for_each_other("barrier", "shm", 2, "rank 0 called barrier", "rank 1 called all_reduce", different_rank=0)

    def test_one_operation_less_at_the_end(self):
        for wire in ("shm", "gloo"):
            self.wait_for_each_other("leave", wire, 2, "rank 1 called barrier", "rank 0 called all_reduce mean of float32[10]")

    def test_a_rank_that_is_slow_is_never_accused(self):
        result = self.run_program_on(2, "busy", "--timeout=6s")
        self.assertEqual(result.code, 4, str(result))
        self.assertIn("runs but has not failed", result.stderr)


class Data(AgreementTest):
    def test_other_batches_and_samples_are_one_warning_with_the_figures(self):
        result = self.run_program_on(2, "batches")
        self.assertEqual(result.code, 0, str(result))
        warnings = [line for line in result.stderr.splitlines() if "different training data" in line]
        self.assertEqual(len(warnings), 1, str(result))
        self.assertIn("rank 0: 256 samples in batches of 4; rank 1: 100 samples in batches of 8", warnings[0])


class DataInFull(AgreementTest):
    def test_a_stream_on_one_rank_alone_is_refused(self):
        result = self.run_program_on(2, "stream")
        self.assertEqual(result.code, USER, str(result))
        self.assertIn("ranks train on different kinds of data (rank 0: 256 samples in batches of 4; rank 1: a stream)", result.stderr)

    def test_other_batches_end_together_where_ranks_vote_seldom(self):
        result = self.run_program_on(2, "batches", strategy="bagua:decentralized")
        self.assertEqual(result.code, 0, str(result))


class Copies(AgreementTest):
    def test_a_copy_of_a_rank_ends_with_a_sentence_and_the_rank_trains_on(self):
        self.copy("shm")


class CopiesInFull(AgreementTest):
    def test_a_copy_over_gloo(self):
        self.copy("gloo")


if __name__ == "__main__":
    harness.main(at_once=2)
