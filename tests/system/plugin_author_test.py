"""A plugin author's day: a few lines of C, compiled with the headers of plugin_api alone, train as a free layer."""
import json
import re
import socket
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
        edited.write_text(source.replace("  return s->below", f"  args->master_port = {port};\n  return s->below", 1))
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", edited, "-o", self.plugin], check=True)
        for command in ([MNIST, "--devices=2"], [COHORT, "run", "-n", "2", MNIST]):
            with self.subTest(command=command[0]):
                self.succeed([*command, f"--plugin={self.plugin}", f"--layer={self.layer}", "--max-steps=2", "--epochs=1",
                              "--timeout=120s"])

    def test_info_shows_which_layer_fills_which_slot(self):
        result = self.succeed([COHORT, "plugins", "info", "ddp", f"--plugin={self.plugin}", f"--layer={self.layer}", "--json"])
        text = json.dumps(json.loads(result.stdout))
        self.assertIn("init_dist_connection", text)
        plain = self.succeed([COHORT, "plugins", "info", "ddp", f"--plugin={self.plugin}", f"--layer={self.layer}"]).stdout
        slots = {words[0]: words[-1] for line in plain.splitlines() if len(words := line.split()) >= 2}
        self.assertEqual(slots.get("init_dist_connection"), self.layer, plain)
        self.assertEqual(slots.get("optimizer_step"), "base", plain)
        self.assertEqual(slots.get("reduce_bucket"), "ddp", plain)


class LoggerAuthor(SystemTest):
    def setUp(self):
        super().setUp()
        self.plugin = self.folder / "cohort_statsd_logger.so"
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include",
                        SOURCE / "examples/plugins/statsd_logger/statsd_logger.c", "-o", self.plugin], check=True)

    def test_a_logger_in_c_gets_what_is_measured(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(harness.HANG)
            self.succeed([MNIST, "--devices=2", f"--plugin={self.plugin}", "--epochs=1", "--max-steps=4", "--log-every-n-steps=2",
                          f"--logger=statsd_logger,prefix=mnist,port={server.getsockname()[1]}", "--logger=csv", "--log-dir=logs"])
            table = (self.folder / "logs/version_0/metrics.csv").read_text().splitlines()
            names, rows = table[0].split(","), [line.split(",") for line in table[1:]]
            wanted = [(name, float(value)) for row in rows for name, value in zip(names, row)
                      if value and name not in ("step", "epoch")]
            got = []
            for _ in wanted:
                name, value = re.fullmatch(r"mnist\.(\S+):(\S+)\|g", server.recv(1024).decode()).groups()
                got.append((name, float(value)))
        self.assertEqual([name for name, _ in sorted(got)], [name for name, _ in sorted(wanted)])
        for (name, mine), (_, csv) in zip(sorted(got), sorted(wanted)):
            self.assertAlmostEqual(mine, csv, delta=1e-5 * max(1, abs(csv)), msg=name)

    def test_what_is_no_logger_is_refused(self):
        for logger, text in (("tensorbord", "did you mean 'tensorboard'"), ("csv,a=1", "no options"), ("nothing", "there is no logger"),
                             ("statsd_logger,prt=1", "did you mean 'port'"), ("statsd_logger,host=x", "host must be an address"),
                             ("statsd_logger:fast", "no variants"), ("ddp", "there is no logger")):
            with self.subTest(logger=logger):
                self.fail_with(2, [MNIST, f"--plugin={self.plugin}", f"--logger={logger}", "--max-steps=1", "--epochs=1"], text)


if __name__ == "__main__":
    harness.main()
