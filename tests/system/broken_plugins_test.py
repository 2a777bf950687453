"""A plugin that makes one mistake: its job ends with the right code, and every rank says in one sentence what is wrong.

Mistakes that are found while a plugin is loaded are in runtime/host/plugin_host and bad_input_test.py, those of what it calls and when in
runtime/host/rank, crashes in plugin_crash_test.py. Here are those that take real processes, and the exit codes.
"""
import re
import signal
import subprocess

import harness
from harness import MNIST, SOURCE, SystemTest

USER, FAILED, REFUSED = 2, 1, 3
TRAIN = ["--strategy=ddp", "--devices=2", "--max-steps=3", "--barebones", "--threads=1"]
ENDED = re.compile(r"error: rank \d \(pid \d+\) on .* (ended with exit code|was ended by signal)")  # the launcher's own line


class BrokenPluginsTest(SystemTest):
    @classmethod
    def setUpClass(cls):
        cls.plugin = cls.class_folder() / "cohort_broken.so"
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", SOURCE / "tests/support/plugins/broken.c", "-o",
                        cls.plugin], check=True)

    def command(self, mistake, *arguments):
        return [MNIST, f"--plugin={self.plugin}", f"--layer=broken,case={mistake}", *TRAIN, *arguments]

    def fail_of(self, mistake, code, *words, arguments=()):
        """Trains with the mistake. A rank says these words in one line, and no rank has two; returns how the job ended."""
        with self.subTest(mistake=mistake):
            result = self.fail_with(code, self.command(mistake, *arguments))
            lines = [line for line in result.stderr.splitlines() if "error: " in line and not ENDED.search(line)]
            self.assertIn(len(lines), (1, 2), str(result))
            self.assertTrue(any(all(word in line for word in words) for line in lines), str(result))
            return result


class Refused(BrokenPluginsTest):
    def test_a_layer_without_its_mistake_trains(self):
        self.succeed(self.command(""))

    def test_a_create_without_a_message_is_named(self):
        self.fail_of("create_without_words", FAILED, "strategy 'broken', create: INTERNAL, without a message; ask the plugin's authors")

    def test_a_plan_of_nothing_is_told_with_the_way_out(self):
        self.fail_of("plan_of_nothing", USER, "plans 0 x 0 x 1 processes, replicas and parts", "for 2 devices", "ask for other devices, or tell its author")

    def test_a_layer_that_answers_any_extension_is_refused(self):
        for mistake in ("zeros_for_any_id", "text_for_any_id"):
            self.fail_of(mistake, REFUSED, "layer 'broken' answers the unknown extension", "must return null for ids that it does not know")

    def test_a_configure_model_that_goes_no_further_is_refused(self):
        self.fail_of("configure_not_below", USER, "configure_model: layer 'broken' does not call the inherited one",
                     "call configure_model of the layer below")


class OneRank(BrokenPluginsTest):
    """Nobody waits for the timeout, which is 300 s."""

    def test_another_plan_of_buckets_is_refused_with_a_table(self):
        result = self.fail_of("other_plan", USER, "the strategy plans different buckets on different ranks; its plan_buckets has to do the same")
        self.assertRegex(result.stderr, r"rank 0: flags 0\n.*rank 1: flags 1\n")

    def test_a_layout_that_one_rank_alone_asks_for_is_named(self):
        self.fail_of("layout_alone", USER, "ranks wait for each other in different operations",
                     "rank 0 called all_reduce min of uint64[2]", "comparing the ranks' plans of buckets",
                     "rank 1 called all_reduce mean of float32", "let every rank call the same operations")


class Lanes(BrokenPluginsTest):
    def test_a_crash_on_a_lane_names_plugin_and_lane(self):
        self.fail_of("crash_on_lane", 128 + signal.SIGABRT,
                     f"error: plugin file '{self.plugin}' crashed with SIGABRT in its thread 'lane broken'; ask its authors")

    def test_a_step_of_the_optimizer_on_a_lane_is_refused(self):
        self.fail_of("step_on_lane", USER, "step 1, end_step", "strategy 'broken' called optimizer/1.step on the lane 'broken'",
                     "call it in a slot of the step thread")


class InFull(BrokenPluginsTest):
    def test_services_refuse_what_cannot_be(self):
        for mistake, code, *words in (
                ("unknown_kind", USER, "plan_buckets: buckets/1.want: unknown kind 1048576; take a COHORT_BUCKET_ constant"),
                ("state_without_name", USER, "plan_buckets: buckets/1.want: STATE and OPTIM need a name"),
                ("state_of_two_types", USER, "plan_buckets: buckets/1.want: STATE 'broken/memory' is wanted twice, with different types"),
                ("view_of_nothing", USER, "layout_ready: buckets/1.view of bucket 0: there is no such buffer; ask for it with want"),
                ("no_communicator", USER, "step 1, end_step: the communicator is null", "leave the operation out on such ranks"),
                ("unknown_root", USER, "step 1, end_step: ", "shm broadcast: root 99 of 2 ranks"),
                ("no_memory", USER, "step 1, end_step: ", "all_reduce was given no memory"),
                ("unknown_optimizer", USER, "step 1, end_step: optimizer/1: no optimizer 7; count() gives 1"),
                ("unknown_parameter", USER, "step 1, end_step: optimizer/1: no parameter 12345; params/1 counts them"),
                ("weight_of_nothing", FAILED, "step 1, end_step: params/1: there is no parameter of this index; ask count()"),
                ("foreign_memory", USER, "'broken' gave memory/1.release memory that it does not have from memory/1.alloc"),
                ("unknown_lane", USER, "step 1, end_step: lane/1: there is no lane 9; create() gives numbers"),
                ("lane_in_step", USER, "step 1, end_step: lane/1.create: call it in configure_model or layout_ready"),
                ("unknown_ticket", USER, "lane 'default' has no ticket 1000000", "wait for a ticket of this lane")):
            self.fail_of(mistake, code, *words)

    def test_odd_answers_are_shown(self):
        self.fail_of("odd_code", FAILED, "step 1, end_step: status 4711, without a message; ask the plugin's authors")
        self.fail_of("negative_code", FAILED, "step 1, end_step: status -7, without a message; ask the plugin's authors")
        self.fail_of("control_characters", FAILED, r"step 1, end_step: \x1b[31mred\x0d\x0a\x07 second line")
        self.fail_of("long_message", FAILED, "step 1, end_step: " + 6000 * "x")

    def test_a_table_that_is_none_is_refused_with_autotune_too(self):
        self.fail_of("text_for_any_id", REFUSED, "layer 'broken' answers the unknown extension", arguments=["--autotune=best.toml"])

    def test_a_barrier_of_one_rank_alone_is_named(self):
        self.fail_of("barrier_alone", USER, "ranks differ in operation", "rank 0 called barrier", "rank 1 called all_reduce mean of float32")

    def test_a_layout_that_one_rank_alone_asks_for_is_named_over_gloo(self):
        self.fail_of("layout_alone", USER, "ranks wait for each other in different operations", arguments=["--collective=gloo"])

    def test_weights_that_one_rank_changes_are_found_at_the_end(self):
        self.fail_of("drift", FAILED, "after step 3 the ranks have different weights: rank 1 from rank 0 in 1 of 8 parameters",
                     "first in 'conv1.weight'", "look for what a rank does alone")

    def test_a_collective_that_is_not_installed_is_passed_over_with_a_line(self):
        result = self.succeed(self.command("carrier_pigeon"))
        self.assertRegex(result.stderr, r"Using collective \w+: not carrier_pigeon \(it is not installed\)")


if __name__ == "__main__":
    harness.main(at_once=2)
