"""A plugin author's day: a few lines of C, compiled with the headers of plugin_api alone, train as a free layer."""
import json
import subprocess

import harness
from harness import COHORT, MNIST, SOURCE, SystemTest

EXAMPLE = SOURCE / "examples/plugins/rendezvous_layer"


class PluginAuthor(SystemTest):
    def setUp(self):
        super().setUp()
        source = next(EXAMPLE.glob("*.c"))
        self.plugin = self.folder / f"cohort_{source.stem}.so"
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", str(source), "-o", str(self.plugin)], check=True)
        self.layer = source.stem

    def test_the_layer_overrides_one_step_and_trains(self):
        result = self.succeed([MNIST, "--devices=2", f"--plugin={self.plugin}", f"--layer={self.layer}", "--max-steps=5",
                               "--epochs=1", "--summary-json=summary.json"])
        summary = self.summary()
        self.assertEqual(summary["layers"][-1], self.layer)
        self.assertEqual(len(set(summary["weights_sha256"])), 1)
        self.assertIn("init_dist_connection", (EXAMPLE / f"{self.layer}.c").read_text())
        self.assertIn("rank", result.stderr)

    def test_a_layer_that_hands_out_addresses_is_followed_by_every_rank(self):
        port = self.reserve_port()
        source = (EXAMPLE / f"{self.layer}.c").read_text()
        edited = self.folder / f"{self.layer}.c"
        edited.write_text(source.replace("  return s->super", f"  args->master_port = {port};\n  return s->super", 1))
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", edited, "-o", self.plugin], check=True)
        for command in ([MNIST, "--devices=2"], [COHORT, "run", "-n", "2", MNIST]):
            with self.subTest(command=command[0]):
                self.succeed([*command, f"--plugin={self.plugin}", f"--layer={self.layer}", "--max-steps=2", "--epochs=1",
                              "--timeout=20s"])

    def test_info_shows_which_layer_fills_which_slot(self):
        result = self.succeed([COHORT, "plugins", "info", "ddp", f"--plugin={self.plugin}", f"--layer={self.layer}", "--json"])
        text = json.dumps(json.loads(result.stdout))
        self.assertIn("init_dist_connection", text)
        plain = self.succeed([COHORT, "plugins", "info", "ddp", f"--plugin={self.plugin}", f"--layer={self.layer}"]).stdout
        slots = {words[0]: words[-1] for line in plain.splitlines() if len(words := line.split()) >= 2}
        self.assertEqual(slots.get("init_dist_connection"), self.layer, plain)
        self.assertEqual(slots.get("optimizer_step"), "base", plain)
        self.assertEqual(slots.get("reduce_bucket"), "ddp", plain)


if __name__ == "__main__":
    harness.main()
