"""What the system tests share: running built programs as a user would, and checking that nothing is left behind.

The build folder comes in COHORT_BUILD. Programs run in a clean environment: no launcher's variables, one temporary folder.
"""
import contextlib
import io
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COHORT_BUILD", SOURCE / "build/dev"))
BIN = BUILD / "bin"
PLUGINS = BUILD / "lib/cohort/plugins"
COHORT, MNIST, NUMERICS = (str(BIN / name) for name in ("cohort", "mnist", "cohort_numerics"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
# Open MPI 4.1 now and then takes the room below the stack for its table of the machine, and crashes as it starts.
MPI_START = {"OMPI_MCA_rtc_hwloc_vmhole": "none"}
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_", "NODE_RANK", "MASTER_", "OMPI_", "PMIX_", "TORCHELASTIC_", "GROUP_",
                      "ROLE_", "COHORT_", "SLURM_", "HOROVOD_", "OMP_NUM_THREADS")

# A shell ignores it for what it runs in the background, and programs started from there would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Result:
    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.stdout[-3000:]}\n--- stderr\n{self.stderr[-6000:]}"


def clean_environment(extra=None):
    environment = {key: value for key, value in os.environ.items()
                   if key == "COHORT_DEPS_DIR" or not key.startswith(LAUNCHER_VARIABLES)}
    environment.update(MPI_START)
    environment.update(extra or {})
    return environment


def processes_marked(marker):
    """Processes whose environment holds the marker."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if marker.encode() in (entry / "environ").read_bytes() and (entry / "stat").read_text().split()[2] != "Z":
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


class SystemTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.marker = "TEST_MARKER_OF_COHORT=" + uuid.uuid4().hex
        self.shm_before = set(os.listdir("/dev/shm"))
        self.addCleanup(self.nothing_is_left_behind)

    def nothing_is_left_behind(self):
        deadline = time.monotonic() + 3
        while processes_marked(self.marker) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = processes_marked(self.marker)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself just now
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes left behind")
        new = {entry for entry in set(os.listdir("/dev/shm")) - self.shm_before if "cohort" in entry}
        self.assertEqual(new, set(), "shared memory left behind")

    def start(self, command, environment=None, **options):
        key, value = self.marker.split("=")
        return subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.DEVNULL, cwd=self.folder,
                                env=clean_environment({key: value, **(environment or {})}), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **options)

    def run_program(self, command, environment=None, timeout=120):
        process = self.start(command, environment)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            self.fail(f"{command} did not end within {timeout} s\n{Result('none', stdout, stderr)}")
        return Result(process.returncode, stdout, stderr)

    def succeed(self, command, environment=None, timeout=120):
        result = self.run_program(command, environment, timeout)
        self.assertEqual(result.code, 0, str(result))
        return result

    def fail_with(self, code, command, *texts, environment=None, timeout=60):
        result = self.run_program(command, environment, timeout)
        self.assertEqual(result.code, code, str(result))
        for text in texts:
            self.assertIn(text, result.stderr, str(result))
        return result

    def summary(self, name="summary.json"):
        return json.loads((self.folder / name).read_text())


def run_one(name):
    text = io.StringIO()
    suite = unittest.defaultTestLoader.loadTestsFromName(name, sys.modules["__main__"])
    result = unittest.TextTestRunner(text, verbosity=2).run(suite)
    return result.wasSuccessful(), text.getvalue()


def names_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names_of(test)
        else:
            yield test.id().removeprefix("__main__.")


def main(at_once):
    """For tests that wait for much of their time: several run at once, each in a process with a folder and marker of its own.
    Tests named on the command line run one after another."""
    if len(sys.argv) > 1:
        unittest.main()
    names = list(names_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    all_well = True
    with multiprocessing.get_context("fork").Pool(at_once, maxtasksperchild=1) as pool:
        for went_well, text in pool.imap_unordered(run_one, names):
            print(text, file=sys.stderr, flush=True)
            all_well = all_well and went_well
    sys.exit(0 if all_well else 1)
