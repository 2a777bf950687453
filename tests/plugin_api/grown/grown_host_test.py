"""Plugins of one minor version of the ABI on hosts of the next one, and the reverse: they train with the same numbers and bytes.

Two copies of the host are built: today's, and one with headers to which grow_headers.py has added what a later version may add. The
plugins of today are those of the build in COHORT_BUILD, as they are.
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "system"))

import harness  # noqa: E402
from harness import BUILD, PLUGINS, SystemTest  # noqa: E402
from hosts import Host  # noqa: E402

EXAMPLES = [BUILD / "tests/examples/diloco/cohort_diloco.so", BUILD / "tests/plugin_api/cohort_rendezvous_layer.so",
            *(BUILD / f"tests/examples/plugins/built/cohort_{name}.so" for name in ("powersgd", "tcp_collective"))]
TWO_NODES = ("--ranks=4", "--nodes=2")
ONE_BUCKET = "--bucket-size=0"
ADAM = "--optimizer=adam"
SIM = "sim,over=shm,bandwidth=unlimited,latency=1us"
# Strategy, collective and further flags.
JOBS = (
    ("single", "shm", "--ranks=1"),
    ("ddp", "shm"),
    ("ddp", "shm", "--layer=rendezvous_layer"),
    ("ddp", "shm", "--layer=powersgd"),
    ("ddp,compression=bf16", "shm", "--ranks=3"),
    ("ddp", "gloo"),
    ("ddp", "tcp_collective"),
    ("ddp", SIM, "--ranks=3"),
    ("ddp", "hier,node=shm,across=gloo", *TWO_NODES),
    ("dp", "shm", "--ranks=1", "--replicas=2"),
    ("ddp2", "shm", "--replicas=2"),
    ("balanced,parts=1", "shm"),
    ("sharded", "shm", ADAM, "--ranks=3"),
    ("sharded", "hier,node=shm,across=sim,,over=shm,,latency=1us", *TWO_NODES),
    ("horovod", "shm"),
    ("horovod,op=adasum", "shm", ONE_BUCKET),
    ("bagua:gradient_allreduce", "shm"),
    ("bagua:bytegrad,hierarchical=true", SIM, *TWO_NODES),
    ("bagua:decentralized", "shm", "--ranks=3", ONE_BUCKET),
    ("bagua:low_precision_decentralized", "shm"),
    ("bagua:qadam,warmup_steps=2", "shm", ADAM),
    ("bagua:async,warmup_steps=100", "shm"),
    ("diloco,every=2", "shm", "--ranks=3"),
)
REBUILT = ("cpu", "shm", "hier", "sim", "single", "dp", "ddp", "ddp2", "sharded", "horovod", "bagua", "balanced")


class GrownHost(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = BUILD / "tests/grown_host"  # the same each time, so that the compiler's cache finds what it has compiled
        shutil.rmtree(folder, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.today, cls.grown = Host(folder / "today"), Host(folder / "grown")
        cls.grown.grow()
        cls.needs_grown = ["-DCOHORT_TARGET_ABI=COHORT_ABI_VERSION"]
        cls.runs_on_today = [*cls.needs_grown, f"-DCOHORT_RUNS_ON_ABI={cls.today.abi}u"]
        cls.today.build()
        cls.grown.build(REBUILT, cls.runs_on_today)
        cls.watch = f"--plugin={cls.grown.plugin('watch.cpp', *cls.runs_on_today)}"
        cls.results_of_today = {}

    def command(self, host, strategy, collective, *flags, folders=(PLUGINS,)):
        return [host.toy_training, f"--strategy={strategy}", f"--collective={collective}", *flags,
                *(f"--plugin={file}" for file in EXAMPLES), *(f"--plugin-dir={folder}" for folder in folders)]

    def results(self, host, *job, **folders):
        """Returns what a training has printed about each rank."""
        printed = self.succeed(self.command(host, *job, **folders)).stdout
        self.assertRegex(printed, r"^rank 0: [0-9a-f]{8,} .*[0-9]+ bytes\n")
        return printed

    def expected(self, job):
        """Returns what today's plugins do on today's host."""
        if job not in self.results_of_today:
            self.results_of_today[job] = self.results(self.today, *job)
        return self.results_of_today[job]

    def newer(self, *flags):
        return f"--plugin={self.grown.plugin('newer.c', *flags)}"

    def test_plugins_of_today_train_alike_on_a_grown_host(self):
        for job in JOBS:
            with self.subTest(job=job):
                self.assertEqual(self.results(self.grown, *job), self.expected(job))

    def test_plugins_of_today_pass_on_structs_of_the_host_or_of_their_own(self):
        for job in JOBS:
            strategy, collective, *flags = job
            if "shm" not in collective:
                continue
            with self.subTest(job=job):
                watched = collective.replace("shm", "watch")
                self.assertEqual(self.results(self.grown, strategy, watched, self.watch, "--layer=watch", *flags), self.expected(job))

    def test_a_grown_host_reads_no_further_than_a_plugin_of_today_says(self):
        flags = (f"--plugin={self.today.plugin('long_objects.c')}", "--layer=long_objects", "--accelerator=long_objects")
        self.assertEqual(self.results(self.grown, "ddp", "watch", self.watch, *flags, "--layer=watch"),
                         self.results(self.today, "ddp", "shm", *flags))

    def test_settings_of_a_plugin_of_today_are_tuned_on_a_grown_host(self):
        found = self.folder / "found.toml"
        self.results(self.grown, "bagua:gradient_allreduce", SIM, *TWO_NODES, f"--autotune={found}")
        self.assertIn("Found by --autotune", found.read_text())

    def test_grown_plugins_that_can_do_without_their_additions_train_alike_on_todays_host(self):
        for job in JOBS:
            with self.subTest(job=job):
                self.assertEqual(self.results(self.today, *job, folders=(self.grown.plugins, PLUGINS)), self.expected(job))

    def test_optional_additions_are_left_out_on_todays_host(self):
        plain = self.results(self.today, "ddp", "shm", self.newer(), "--layer=newer")  # COHORT_TARGET_ABI hides the additions
        for addition, left_out in (((), ""), (["-DFILLS_SLOT"], "leaves out slots of its strategy\n"),
                                   (["-DHAS_KIND"], "leaves out a component of the kind ")):
            with self.subTest(addition=addition):
                run = self.succeed(self.command(self.today, "ddp", "shm", self.newer(*self.runs_on_today, *addition), "--layer=newer"))
                self.assertEqual(run.stdout, plain)
                self.assertIn(left_out, run.stderr)

    def test_a_new_slot_of_a_plugin_is_called_on_a_grown_host(self):
        layers = ("--layer=newer", self.watch, "--layer=watch")
        plain = self.results(self.grown, "ddp", "shm", self.newer(*self.runs_on_today), *layers)
        filled = self.results(self.grown, "ddp", "shm", self.newer(*self.runs_on_today, "-DFILLS_SLOT"), *layers)
        self.assertEqual(filled.count(" new_slot_called=1"), 2 * 2)  # in each training, on each rank
        self.assertEqual(filled.replace(" new_slot_called=1", ""), plain)

    def test_additions_that_todays_host_cannot_leave_out_are_refused_by_name(self):
        for flags, sentence in (
                (self.needs_grown, "; update cohort, or build the plugin with the headers of cohort "),
                ([*self.runs_on_today, "-DHAS_FLAG"], "of its cohort_strategy_vt, which this cohort does not know"),
                ([*self.runs_on_today, "-DHAS_OPTION"], "and alternatives as in int[1..]|auto; or update cohort"),
                ([*self.runs_on_today, "-DFILLS_FIELD"], f"build the plugin with a COHORT_TARGET_ABI of 0x{self.today.abi:x} or less")):
            with self.subTest(flags=flags):
                self.fail_with(1, self.command(self.today, "ddp", "shm", self.newer(*flags), "--layer=newer"), sentence)


if __name__ == "__main__":
    harness.main()
