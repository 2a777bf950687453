"""Which strategy runs, what is said about it, and the table of what combines."""
import json
import re

import harness
from harness import COHORT, MNIST, PLUGINS, SOURCE, SystemTest

SHORT = ["--epochs=1", "--max-steps=1", "--limit-val-batches=0", "--limit-test-batches=0"]


class Strategies(SystemTest):
    def mnist(self, *arguments, code=0):
        result = self.run_program([MNIST, *SHORT, "--summary-json=summary.json", *arguments])
        self.assertEqual(result.code, code, result)
        return result.stderr

    def test_the_table_in_the_docs_is_what_the_command_prints(self):
        page = (SOURCE / "docs/strategies.md").read_text()
        shown = re.search(r"```text\n(.*?)```", page, re.S).group(1)
        if not (PLUGINS / "cohort_cuda.so").exists():  # then nothing can use a GPU
            column = shown.index(" gpu ") + 1
            lines = shown.split("\n")
            for number in range(1, lines.index("")):
                lines[number] = lines[number][:column] + lines[number][column:column + 3].replace("yes", "-  ") + \
                    lines[number][column + 3:]
            shown = "\n".join(lines)
        printed = self.run_program([COHORT, "strategies"]).stdout
        self.assertEqual(shown, printed, "put the output of `cohort strategies` into docs/strategies.md")

    def test_every_promised_strategy_is_installed(self):
        listed = {entry["name"]: entry["state"] for entry in json.loads(self.succeed([COHORT, "strategies", "--json"]).stdout)}
        for name in ("single", "dp", "ddp", "ddp_spawn", "ddp2", "horovod", "bagua", "sharded", "balanced"):
            self.assertEqual(listed.get(name), "installed")

    def test_older_spellings_train_and_say_what_to_write_today(self):
        log = self.mnist("--nb-gpu-nodes=1", "--devices=2")
        self.assertEqual(log.count("--nb-gpu-nodes is an older spelling; write --num-nodes=1"), 1, log)
        self.assertIn("the default beside --nb-gpu-nodes", log)

    def test_an_older_dp_on_several_nodes_becomes_ddp_with_a_warning(self):
        log = self.mnist("--distributed-backend=dp", "--nb-gpu-nodes=2")
        self.assertIn("Using strategy ddp: strategy 'dp' cannot train on 2 nodes (--nb-gpu-nodes): its replicas are threads", log)
        summary = self.summary()
        self.assertEqual((summary["strategy"], summary["world_size"], summary["num_nodes"]), ("ddp", 2, 2))

    def test_dp_on_several_nodes_is_refused_with_the_way_out(self):
        log = self.mnist("--strategy=dp", "--num-nodes=2", code=2)
        self.assertIn("--strategy: strategy 'dp' cannot train on 2 nodes (--num-nodes)", log)
        self.assertIn("choose --strategy=ddp2 or ddp", log)

    def test_devices_times_nodes_are_the_world(self):
        self.mnist("--accelerator", "cpu", "--devices", "2", "--strategy", "ddp", "--num-nodes", "2", "--limit-train-batches=1")
        summary = self.summary()
        self.assertEqual((summary["world_size"], summary["num_nodes"]), (4, 2))

    def test_gpus_that_the_machine_lacks_are_refused_by_the_flag_that_asked(self):
        result = self.run_program([MNIST, "--gpus=99"])
        self.assertEqual(result.code, 2, result)
        self.assertIn("--gpus", result.stderr)


if __name__ == "__main__":
    harness.main()
