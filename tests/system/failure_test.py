"""A rank that fails by itself, or calls something else, is named by the others with what it did."""
import json
import re

import numpy
from safetensors.numpy import save_file

import harness
from harness import BUILD, COHORT, NUMERICS, SystemTest

PROGRAM = str(BUILD / "tests/failing_program")
# A wire and the rank that fails on it. The store of the job is rank 0's.
PLACES, OTHER_PLACES = (("shm", 1), ("gloo", 0)), (("gloo", 1), ("shm", 0))


class FailureTest(SystemTest):
    def fail_everywhere(self, places, how, code, *arguments):
        for wire, failing_rank in places:
            result = self.run_program([PROGRAM, "--strategy=ddp", "--devices=3", f"--collective={wire}", f"--how={how}",
                                       f"--failing-rank={failing_rank}", *arguments])
            self.assertEqual(result.code, code, f"{wire}, rank {failing_rank}: {result}")
            yield failing_rank, result.stderr

    def throw(self, places):
        for failing_rank, stderr in self.fail_everywhere(places, "throw", 1):
            self.assertEqual(len(re.findall(rf"rank {failing_rank} \(pid \d+ on \S+\) failed: training_step, epoch 0, batch 5, rank {failing_rank}: the disk is on fire", stderr)), 2, stderr)
            self.assertEqual(len(re.findall(rf"rank {failing_rank} \(pid \d+\) on \S+ ended with exit code 1", stderr)), 1, stderr)

    def call_in_another_order(self, places):
        for failing_rank, stderr in self.fail_everywhere(places, "order", 2, "--timeout=30s"):
            lines = [line for line in stderr.splitlines() if "ranks differ in operation" in line]
            self.assertEqual(len(lines), 3, stderr)
            for line in lines:
                others = {0: "ranks 1, 2", 1: "ranks 0, 2"}[failing_rank]
                self.assertIn(f"rank {failing_rank} called barrier", line)
                self.assertIn(f"{others} called all_reduce sum of float64[1] for reducing metrics", line)

    def reduce_another_type(self, places):
        for failing_rank, stderr in self.fail_everywhere(places, "type", 2, "--timeout=8s"):
            self.assertIn(f"rank {failing_rank} called all_reduce mean of float64[10]", stderr)
            self.assertIn("called all_reduce mean of float32[10]", stderr)

    def be_busy_for_too_long(self, places):
        for failing_rank, stderr in self.fail_everywhere(places, "busy", 4, "--timeout=4s"):
            self.assertRegex(stderr, rf"rank {failing_rank} \(pid \d+ on \S+\) runs but has not failed")
            self.assertIn("bucket 0 (fc.bias .. fc.weight, 2 parameters)", stderr)

    def notice_late(self, wire):
        result = self.fail_with(1, [PROGRAM, "--strategy=ddp", "--devices=3", f"--collective={wire}", "--how=throw", "--late-rank=2"])
        self.assertEqual(len(re.findall(r"rank 1 \(pid \d+ on \S+\) failed: training_step, epoch 0, batch 5, rank 1: the disk is on fire", result.stderr)), 2, str(result))

    def refuse_deadlines(self, *values):
        for value in values:
            with self.subTest(value=value):
                result = self.fail_with(2, [PROGRAM, f"--timeout={value}"], "timeout")
                self.assertEqual(len(result.stderr.splitlines()), 1, str(result))


class FailedDevice(FailureTest):
    """Memory of a failed device cannot be freed: the rank reports and ends before anything is."""

    def test_a_rank_whose_device_fails_in_a_hook_names_the_hook(self):
        self.device_fails("device", "training_step, epoch 0, batch 5, rank {}: CUDA error: device-side assert triggered")

    def test_a_lost_device_is_known_by_more_than_the_error_of_a_library(self):
        self.device_fails("device-library", "training_step, epoch 0, batch 5, rank {}: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when")

    def test_a_rank_whose_device_fails_elsewhere_is_named_as_well(self):
        self.device_fails("device-outside", "CUDA error: device-side assert triggered")

    def test_a_rank_whose_device_only_refuses_a_call_hears_of_it(self):
        self.device_fails("device-call", "training_step, epoch 0, batch 5, rank {}: CUDA error: operation not permitted", is_told=True)

    def device_fails(self, how, text, is_told=False):
        for failing_rank, stderr in self.fail_everywhere(PLACES, how, 1):
            error = re.escape(text.format(failing_rank))
            self.assertEqual(len(re.findall(rf"rank {failing_rank} \(pid \d+ on \S+\) failed: {error}", stderr)), 2, stderr)
            self.assertNotIn("nothing caught", stderr)
            told = stderr.count("on_exception was called")  # of those that wait for the failed one as well
            self.assertEqual(told, 3 if is_told else {"device": 2, "device-library": 2, "device-outside": 0}[how], stderr)


class EarlyEnd(FailureTest):
    """A step that ends the process is no success, whoever started it."""
    SAID = "error: the program called exit before its work was done"

    def end(self, how, *start, ranks=1):
        result = self.fail_with(1, [*start, f"--how={how}", "--failing-rank=-1", "--summary-json=summary.json"], self.SAID)
        self.assertLessEqual(result.stderr.count(self.SAID), ranks, str(result))
        self.assertFalse((self.folder / "summary.json").exists())
        return result

    def test_exit_on_all_ranks_is_a_failure(self):
        self.end("exit", PROGRAM, "--strategy=single")
        self.end("exit-3", PROGRAM, "--strategy=ddp", "--devices=2", ranks=2)

    def test_exit_on_one_rank_gives_its_code_and_names_it(self):
        result = self.fail_with(1, [PROGRAM, "--strategy=ddp", "--devices=2", "--how=exit"], "[rank 1] " + self.SAID)
        self.assertRegex(result.stderr, r"rank 1 \(pid \d+ on \S+\) is gone")

    def test_a_rank_that_loses_its_files_ends_the_job_with_a_sentence(self):
        for failing_rank, stderr in self.fail_everywhere((("gloo", 1),), "close", 1, "--timeout=30s"):
            self.assertRegex(stderr, rf"rank {failing_rank} \(pid \d+ on \S+\)")


class OtherEarlyEnds(EarlyEnd):
    def test_exit_on_all_ranks_is_a_failure(self):
        for how in ("quick-exit", "exit-in-thread"):
            self.end(how, PROGRAM, "--strategy=single")
        self.end("exit", PROGRAM, "--strategy=ddp_spawn", "--devices=2", ranks=2)
        self.end("exit", COHORT, "run", "-n", "2", PROGRAM, ranks=2)

    def test_exit_on_one_rank_gives_its_code_and_names_it(self):
        result = self.fail_with(1, [PROGRAM, "--strategy=ddp", "--devices=2", "--how=exit", "--failing-rank=0"], self.SAID)
        self.assertRegex(result.stderr, r"rank 0 \(pid \d+ on \S+\) is gone")

    def test_a_rank_that_loses_its_files_ends_the_job_with_a_sentence(self):
        for failing_rank, stderr in self.fail_everywhere((("gloo", 0),), "close", 1, "--timeout=30s"):
            self.assertRegex(stderr, rf"rank {failing_rank} \(pid \d+ on \S+\)")


class Failure(FailureTest):
    def test_a_rank_that_throws_is_named_by_all_with_the_first_line_of_its_error(self):
        self.throw(PLACES)

    def test_a_rank_that_notices_late_still_hears_who_threw(self):
        self.notice_late("gloo")

    def test_another_order_of_operations_is_found_and_ends_all_with_2(self):
        self.call_in_another_order(PLACES[:1])

    def test_another_type_is_found_and_ends_all_with_2(self):
        self.reduce_another_type(PLACES[1:])

    def test_a_rank_that_is_busy_for_too_long_is_named_at_the_deadline(self):
        self.be_busy_for_too_long(PLACES)

    def test_the_last_operations_of_every_rank_are_written_to_the_log_folder(self):
        self.run_program([PROGRAM, "--strategy=ddp", "--devices=2", "--how=throw", "--log-dir=logs"])
        for rank, code in ((0, 4), (1, 1)):
            flight = json.loads((self.folder / f"logs/flight-rank-{rank}.json").read_text())
            self.assertEqual((flight["rank"], flight["exit_code"]), (rank, code))
            buckets = [one for one in flight["operations"] if one["purpose"].startswith("bucket 0 (fc.bias")]
            self.assertEqual([one["number"] for one in buckets], sorted(one["number"] for one in buckets))
            self.assertEqual({(one["operation"], one["dtype"], one["bytes"]) for one in buckets[:5]},
                             {("all_reduce", "float32", buckets[0]["count"] * 4)})
            self.assertEqual({one["status"] for one in buckets[:5]}, {"OK"})


class OtherPlaces(FailureTest):
    """The same on the wires and of the ranks that are left."""

    def test_a_rank_that_throws_is_named_by_all_with_the_first_line_of_its_error(self):
        self.throw(OTHER_PLACES)

    def test_a_rank_that_notices_late_still_hears_who_threw(self):
        self.notice_late("shm")

    def test_another_order_of_operations_is_found_and_ends_all_with_2(self):
        self.call_in_another_order(PLACES[1:] + OTHER_PLACES)

    def test_another_type_is_found_and_ends_all_with_2(self):
        self.reduce_another_type(PLACES[:1] + OTHER_PLACES)

    def test_a_rank_that_is_busy_for_too_long_is_named_at_the_deadline(self):
        self.be_busy_for_too_long(OTHER_PLACES)


class FailedStep(FailureTest):
    """LibTorch's errors have a backtrace of C++, which is of no use to anybody."""

    def test_what_libtorch_refuses_in_an_optimizers_step_is_one_sentence(self):
        result = self.fail_with(1, [PROGRAM, "--strategy=single", "--how=optimizer", "--failing-rank=0"], "optimizer_step", "size of tensor a (2)")
        self.assertNotIn("frame #", result.stderr)
        self.assertNotIn("Exception raised", result.stderr)

    def test_a_sparse_gradient_that_adam_cannot_take_is_told_with_the_way_out(self):
        result = self.fail_with(2, [PROGRAM, "--strategy=single", "--how=sparse"], "'words.weight' has a sparse gradient",
                                "make the Embedding with sparse(false), or choose SGD")
        self.assertNotIn("Exception raised", result.stderr)

    def test_flags_that_look_at_sparse_gradients_say_so_in_one_line(self):
        for flag in ("--gradient-clip-algorithm=value --gradient-clip-val=0.1", "--precision=16-mixed", "--precision=bf16-true"):
            with self.subTest(flag=flag):
                self.refuse_sparse_gradients(flag)

    def test_norms_of_sparse_gradients_are_taken_if_libtorch_has_them(self):
        version = re.search(r"__version__ = '(\d+)\.(\d+)", (BUILD / "lib/cohort/libtorch/version.py").read_text())
        for flag in ("--gradient-clip-val=0.1", "--track-grad-norm=2"):
            with self.subTest(flag=flag):
                if tuple(map(int, version.groups())) < (2, 15):
                    self.refuse_sparse_gradients(flag)
                else:
                    self.succeed([PROGRAM, "--strategy=single", "--how=sparse-sgd", flag])

    def refuse_sparse_gradients(self, flag):
        result = self.fail_with(2, [PROGRAM, "--strategy=single", "--how=sparse-sgd", *flag.split()],
                                "make it with sparse(false), or leave out what looks at them")
        self.assertIn("error: ", result.stderr.splitlines()[-1], str(result))


class FirstNan(FailureTest):
    def test_the_rank_with_the_first_nan_is_named_though_others_have_it_from_there(self):
        result = self.fail_with(1, [PROGRAM, "--strategy=bagua:decentralized", "--devices=2", "--how=nan", "--failing-rank=1"])
        self.assertIn("the training loss is not finite at step 6 on rank 1", result.stderr)


class Deadlines(FailureTest):
    def test_a_time_that_is_no_deadline_is_refused_in_one_sentence(self):
        self.refuse_deadlines("0s", "-1", "9223372036s", "5parsecs")

    def test_others_are_refused_as_well(self):
        self.refuse_deadlines("0", "-5s", "1e9", "nan", "inf", "99999999999999999999s", "87601h", "")

    def test_a_time_in_which_no_host_can_answer_is_refused_as_well(self):
        for value in ("0s", "9223372036s", "87601h"):
            with self.subTest(value=value):
                self.fail_with(2, [COHORT, "run", "-H", "localhost", f"--start-timeout={value}", "true"], "start-timeout")

    def test_the_longest_deadline_works(self):
        self.succeed([PROGRAM, "--timeout=87600h", "--devices=2", "--max-steps=3"])


class Disagreement(SystemTest):
    def test_other_bucket_sizes_stop_all_ranks_with_a_table(self):
        data = self.folder / "data.safetensors"
        save_file({"x": numpy.zeros((2, 2, 4, 32), numpy.float32), "y": numpy.zeros((2, 2, 4), numpy.int64)}, data)
        port = self.reserve_port()
        processes = [self.start([NUMERICS, f"--data-from={data}", f"--bucket-size={size}"],
                                {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
                     for rank, size in enumerate(("1KiB", "25MiB"))]
        for process in processes:
            result = self.finish(process)
            self.assertEqual(result.code, 2, str(result))
            self.assertIn("rank 1: bucket-size 26214400", result.stderr)


if __name__ == "__main__":
    harness.main(at_once=2)
