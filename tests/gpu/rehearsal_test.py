"""tests/gpu/first_look.sh in a folder that tests/gpu/pack.sh has made, moved elsewhere, on the CPU and on the device without
hardware: rows that need no GPU pass, and a fault that is planted in a program fails the rows of that fault and no others.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/gpu/first_look"), str(SOURCE / "tests/bench/driver")]
import training_data  # noqa: E402
from machine import library_path  # noqa: E402
from training import TWO_RANKS  # noqa: E402

BUILD = pathlib.Path(os.environ.get("COHORT_BUILD", SOURCE / "build/release"))
FAKE_PLUGINS = "tests/examples/fake_device/plugins"
STAND_INS = (FAKE_PLUGINS, "tests/support/nccl_stand_in/lib")
HANG = 300
STEPS = "--steps=4"

# Rows that a device cannot try; any other row that is skipped fails the rehearsal.
ON_NCCL = {"faults: a killed rank, nccl",
           *(f"training: {strategy}, 2 ranks, nccl" for strategy in (*TWO_RANKS, "ddp, --graph"))}
SKIPPED = {
    "cpu": {"rates: kernels beside a copy of 1 MiB", "first: steps replayed by --graph", "first: steps replayed by --graph, adam", "collectives: nccl, 1 rank",
            "collectives: nccl, 2 ranks on one GPU", *ON_NCCL, "faults: no memory", "memory: MiB of sharded beside ddp, Adam, 2 ranks",
            "memcheck: compute-sanitizer finds nothing in the kernels"},
    "fake": {"facts: GB/s of a copy by torch", *ON_NCCL,
             "memcheck: compute-sanitizer finds nothing in the kernels"},
}

# Stands in for a program. Each line of FILE.faults has a pattern of arguments and what to do if a call has them.
STAND_IN = """#!/usr/bin/env bash
while IFS=$'\\t' read -r pattern action; do
  if [[ " $* " =~ $pattern ]]; then eval "$action"; fi
done <"$0.faults"
exec "$0.real" "$@"
"""
LESS = 'set -- "${@/--lr=0.01/--lr=0.0095}"'  # each update is 5 % too small
CRASH = "kill -SEGV $$"
NO_TEST = 'printf "[  PASSED  ] 0 tests.\\n"; exit 0'
RANK_0_FAILS = 'if [ "$SLURM_PROCID" = 0 ]; then "$0.real" "$@"; exit 1; fi'

# (part: row, program, pattern, what it does instead)
FAULTS = {
    "cpu": (
        ("facts: the programs start", "mnist", "--help", "exit 1"),
        ("kernels: every kernel against its formula", "accelerator_suite", ".", NO_TEST),
        ("first: single, 30 steps", "cohort_numerics", "/single.safetensors", LESS),
        ("first: begun on the device, resumed on the CPU", "cohort_numerics", "/resumed.safetensors", 'set -- "${@/--resume=*/}"'),
        ("first: mnist learns", "mnist", "--epochs=1", 'set -- "${@/--epochs=1/--epochs=0}"'),
        ("faults: a label out of range", "cohort_numerics", "bad_label", "exit 0"),
        ("faults: a killed rank", "cohort_numerics", "--max-epochs=1000000", RANK_0_FAILS),
        ("training: bagua:bytegrad, 1 rank", "cohort_numerics", "/found.*--strategy=bagua:bytegrad.*--devices=1", LESS),
        ("training: sharded, 2 ranks, shm", "cohort_numerics", "/found.*--strategy=sharded.*shm", LESS),
        ("training: ddp, 2 ranks, gloo", "cohort_numerics", "/found.*--strategy=ddp .*gloo", CRASH),
        ("steps: ms of a step: mlp_small", "cohort_numerics", "mlp_small-4-1-None.*--bare=true", "exit 1"),
        ("workers: ms of a step with batches of 256 samples: mlp_small", "cohort_numerics", "--workers=4", "exit 1"),
        ("large: the same, 2 ranks", "cohort_numerics", "table_4mib.*--strategy=ddp", 'set -- "$@" --lr=0.5'),
        ("precisions: ms of a step in each precision: mlp_small", "cohort_numerics", "--precision=bf16-true", "exit 1"),
    ),
    "fake": (
        ("kernels: every kernel against its formula", "accelerator_suite_on_fake_device", ".", CRASH),
        ("rates: kernels beside a copy of 1 MiB", "kernel_rates_on_fake_device", ".", 'printf "{}"; exit 2'),
        ("first: steps replayed by --graph", "cohort_numerics", "/graph_sgd_momentum.safetensors", LESS),
        ("first: steps replayed by --graph, adam", "cohort_numerics", "/graph_adam.safetensors", LESS),
        ("first: adamw", "cohort_numerics", "/adamw.safetensors", LESS),
        ("first: clipped gradients", "cohort_numerics", "/clipped.safetensors", 'set -- "${@/--gradient-clip-val=0.5/--gradient-clip-val=0.25}"'),
        ("first: a bare loop of LibTorch", "cohort_numerics", "/bare.safetensors", LESS),
        ("first: 16-mixed", "cohort_numerics", "--precision=16-mixed --log", "exit 0"),
        ("collectives: nccl, 1 rank", "collective_suite_on_fake_device", "Ranks/./1", NO_TEST),
        ("collectives: nccl, 2 ranks on one GPU", "collective_suite_on_fake_device", "--under-launcher", NO_TEST),
        ("faults: more devices than there are", "cohort_numerics", "--devices=99", "exit 2"),
        ("faults: no memory", "cohort_numerics", "table_4mib-3-1", '[ -z "${FAKE_DEVICE_MIB:-}" ] || exit 1'),
        ("memory: MiB of sharded beside ddp, Adam, 2 ranks", "cohort_numerics", "--strategy=sharded.*summary-json",
         'set -- "${@/--strategy=sharded/--strategy=ddp}"'),
        ("large: one weight of more than 4 MiB, 1 rank", "cohort_numerics", "table_4mib.*--strategy=single", "exit 139"),
        ("steps: ms of a step: mlp_small, --graph", "cohort_numerics", "step-times.*--graph", CRASH),
    ),
}


class Rehearsal(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-rehearsal-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run(["tests/gpu/pack.sh", f"--build={BUILD}", f"--to={cls.folder / 'packed'}"], cwd=SOURCE, check=True)
        cls.carried = cls.folder / "carried"
        (cls.folder / "packed").rename(cls.carried)
        for folder in STAND_INS:
            shutil.copytree(BUILD / folder, cls.carried / folder)
        for program in (BUILD / "tests").glob("*_on_fake_device"):
            shutil.copy(program, cls.carried / "tests")

    def copy(self):
        """Returns a copy of the folder that a test may change."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "copy"
        return shutil.copytree(self.carried, folder, copy_function=os.link)

    def plant(self, folder, *faults):
        for _, program, pattern, action in faults:
            file = next(path for path in (folder / "bin" / program, folder / "tests" / program) if path.exists())
            if not file.with_name(f"{program}.real").exists():
                file.rename(file.with_name(f"{program}.real"))
                file.write_text(STAND_IN)
                file.chmod(0o755)
            with open(file.with_name(f"{program}.faults"), "a", encoding="utf-8") as lines:
                lines.write(f"{pattern}\t{action}\n")

    def start(self, folder, *arguments):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "COHORT_", "LD_"))}
        environment |= {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "OUT": str(folder / "out")}
        return subprocess.Popen(["bash", folder / "tests/gpu/first_look.sh", *arguments], cwd="/", env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def look(self, folder, *arguments):
        """Returns the exit code, the rows by name, and what was printed."""
        started = self.start(folder, *arguments)
        try:
            text, _ = started.communicate(timeout=HANG)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
        return started.returncode, self.rows(folder), text

    def rows(self, folder):
        file = folder / "out/results.json"
        return {f"{row['part']}: {row['what']}": row for row in json.loads(file.read_text())["rows"]} if file.exists() else {}

    def named(self, rows, result):
        return {name for name, row in rows.items() if row["result"] == result}

    def check_all(self, accelerator):
        code, rows, text = self.look(self.copy(), f"--accelerator={accelerator}", STEPS)
        self.assertEqual(code, 0, text)
        self.assertEqual(self.named(rows, "skipped"), SKIPPED[accelerator], text)
        self.assertGreater(len(self.named(rows, "ok")), 25, text)

    def check_faults(self, accelerator):
        folder, faults = self.copy(), FAULTS[accelerator]
        self.plant(folder, *faults)
        parts = dict.fromkeys(row.split(":")[0] for row, *_ in faults)
        code, rows, text = self.look(folder, f"--accelerator={accelerator}", STEPS, *parts)
        self.assertEqual(self.named(rows, "failed"), {row for row, *_ in faults}, text)
        self.assertEqual(code, 1)
        return rows

    def test_all_rows_pass_on_the_cpu(self):
        self.check_all("cpu")

    def test_all_rows_pass_on_the_device_without_hardware(self):
        self.check_all("fake")

    def test_faults_on_the_cpu_fail_their_rows_alone(self):
        rows = self.check_faults("cpu")
        found = rows["steps: ms of a step: mlp_small"]["found"]
        self.assertRegex(found.pop("LibTorch loop"), "^FAILED: exit codes")
        self.assertEqual({"cohort single", "cohort ddp", "torch loop", "torch DDP"}, set(found))
        for name, milliseconds in found.items():  # one that fails costs the others nothing
            self.assertGreater(milliseconds, 0, name)

    def test_faults_on_the_device_fail_their_rows_alone(self):
        self.check_faults("fake")

    def test_a_library_that_is_missing_is_named(self):
        folder = self.copy()
        (folder / "lib/libcohort_trainer.so.0").unlink()
        code, rows, text = self.look(folder, "--accelerator=cpu", "facts")
        self.assertEqual((code, self.named(rows, "failed")), (1, {"facts: every library is found", "facts: the programs start"}), text)
        self.assertIn("libcohort_trainer.so.0 => not found", rows["facts: every library is found"]["found"])

    def test_a_part_that_hangs_ends_at_its_limit(self):
        folder = self.copy()
        self.plant(folder, ("", "accelerator_suite", ".", "sleep 600"))
        code, rows, text = self.look(folder, "--accelerator=cpu", "--limit=5", "kernels", "memcheck")
        self.assertEqual(code, 1)
        self.assertEqual(self.named(rows, "failed"), {"kernels: every kernel against its formula"}, text)
        self.assertIn("it was not done in the time of this part", text)
        self.assertEqual(len(self.named(rows, "skipped")), 1, "the part behind it is tried")

    def test_what_the_time_does_not_reach_is_said(self):
        code, rows, text = self.look(self.copy(), "--accelerator=cpu", "--seconds=0", "kernels")
        self.assertEqual((code, set(rows)), (1, self.named(rows, "not reached")), text)

    def test_results_are_there_when_the_program_is_killed(self):
        folder, hanging = self.copy(), self.folder / "hanging"
        self.plant(folder, ("", "accelerator_suite", ".", f"echo $$ >{hanging}.new; mv {hanging}.new {hanging}; exec sleep 600"))
        started = self.start(folder, "--accelerator=cpu", "facts", "kernels")
        ends = time.monotonic() + HANG
        while not hanging.exists() and time.monotonic() < ends:
            time.sleep(0.05)
        os.killpg(started.pid, signal.SIGKILL)
        os.kill(int(hanging.read_text()), signal.SIGKILL)
        started.communicate()
        self.assertEqual(len(self.named(self.rows(folder), "ok")), 3)

    def test_another_torch_is_refused(self):
        folder = self.copy()
        (folder / "packed.json").unlink()  # a link to that of the other tests
        (folder / "packed.json").write_text('{"torch": "2.10.0+cu126"}')
        code, rows, text = self.look(folder, "--accelerator=cpu", "facts")
        self.assertEqual((code, rows), (1, {}))
        self.assertIn("the programs are built for torch 2.10.0+cu126, and python3 here has 2.11.0", text)


class Checkout(unittest.TestCase):
    def test_programs_of_a_build_are_looked_at(self):
        with tempfile.TemporaryDirectory() as folder:
            look = subprocess.run([sys.executable, SOURCE / "tests/gpu/first_look", f"--build={BUILD}", "--accelerator=cpu",
                                   f"--out={folder}", "facts"], capture_output=True, text=True, check=False)
            self.assertEqual(look.returncode, 0, look.stdout + look.stderr)
            self.assertEqual(len(json.loads((pathlib.Path(folder) / "results.json").read_text())["rows"]), 3)


class StepTimes(unittest.TestCase):
    def waits(self, *flags):
        """Returns how often a training of six steps has waited for the device."""
        (self.folder / "report").unlink(missing_ok=True)
        subprocess.run([BUILD / "bin/cohort_numerics", f"--plugin-dir={BUILD / FAKE_PLUGINS}", "--accelerator=fake", "--devices=1",
                        "--barebones", "--threads=1", "--model=mlp_small", f"--data-from={self.data}", *flags], check=True,
                       capture_output=True, cwd=self.folder, env={**os.environ, "FAKE_DEVICE_REPORT": str(self.folder / "report")})
        return int((self.folder / "report").read_text().split()[0].removeprefix("waits="))

    def test_the_mean_begins_and_ends_without_work_on_the_device(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = pathlib.Path(folder)
            self.data = training_data.write(self.folder / "data.safetensors", "mlp_small", 6, 1)
            of_one = 3  # streams: that of the steps, of the copies and of the lane
            self.assertEqual(self.waits("--step-times=times.json"), self.waits() + 2 * of_one)
            times = json.loads((self.folder / "times.json").read_text())
        self.assertEqual(len(times["step_ms"]), 5)
        self.assertGreater(times["mean_ms"], 0)


class LibraryPath(unittest.TestCase):
    def test_libraries_of_wheels_beside_torch_are_in_it(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            for name in ("torch/lib", "nvidia/nccl/lib", "nvidia/cu13/lib"):
                (site / name).mkdir(parents=True)
            found = library_path(pathlib.Path("/build"), site / "torch", "/given").split(":")
        self.assertEqual(found, ["/build/lib", str(site / "torch/lib"), str(site / "nvidia/cu13/lib"), str(site / "nvidia/nccl/lib"),
                                 "/given"])


class Script(unittest.TestCase):
    def builds(self, *arguments):
        """Returns whether the script calls cmake, which is here a program that fails."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name, line in (("cmake", f"touch {folder}/called; exit 1"), ("python3", "exit 0")):
                (folder / name).write_text(f"#!/bin/sh\n{line}\n")
                (folder / name).chmod(0o755)
            subprocess.run([SOURCE / "tests/gpu/first_look.sh", *arguments], check=False, capture_output=True,
                           env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            return (folder / "called").exists()

    def test_it_builds_what_it_looks_at_unless_that_is_named(self):
        self.assertTrue(self.builds("--accelerator=cpu"))
        self.assertFalse(self.builds("--accelerator=cpu", "--build=elsewhere"))
        self.assertFalse(self.builds("--build", "elsewhere", "facts"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
