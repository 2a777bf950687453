"""What the system tests share: running built programs as a user would, and checking that nothing is left behind.

The build folder comes in COHORT_BUILD. Programs run in a clean environment: no launcher's variables, a temporary folder of the
test's own.
"""
import argparse
import contextlib
import fnmatch
import io
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COHORT_BUILD", SOURCE / "build/release"))
BIN = BUILD / "bin"
PLUGINS = BUILD / "lib/cohort/plugins"
LIBTORCH = (BUILD / "lib/cohort/libtorch").resolve()
COHORT, MNIST, NUMERICS = (str(BIN / name) for name in ("cohort", "mnist", "cohort_numerics"))
FAKE_DEVICE = [f"--plugin-dir={BUILD / 'tests/examples/fake_device/plugins'}", "--accelerator=fake"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
# Open MPI 4.1 now and then takes the room below the stack for its table of the machine, and crashes as it starts.
MPI_START = {"OMPI_MCA_rtc_hwloc_vmhole": "none"}
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_", "NODE_RANK", "MASTER_", "OMPI_", "PMIX_", "TORCHELASTIC_", "GROUP_",
                      "ROLE_", "COHORT_", "SLURM_", "HOROVOD_", "PMI_", "MPI_LOCAL", "JSM_", "LSB_", "PBS_", "PET_",
                      "OMP_NUM_THREADS")
SHARED_MEMORY = pathlib.Path("/dev/shm")
HANG = 180  # seconds after which something that a test waits for is taken to hang, on a machine with four times the work it can do

# A shell ignores it for what it runs in the background, and programs started from there would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)


class DeadlinePassed(AssertionError):
    """Something that a test waits for did not come: tests/run_again.py tries once more, alone."""


class Result:
    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.stdout[-3000:]}\n--- stderr\n{self.stderr[-6000:]}"


def clean_environment(extra=None):
    environment = {key: value for key, value in os.environ.items()
                   if key == "COHORT_DEPS_DIR" or not key.startswith(LAUNCHER_VARIABLES)}
    environment.update(MPI_START)
    environment["OMP_WAIT_POLICY"] = "passive"  # threads that spin while they wait take the cores from the tests beside this one
    environment.update(extra or {})
    return environment


def launcher_of(ranks, nodes=1):
    """Returns what starts a command on so many ranks. A program that starts them by itself loads LibTorch once more, in the process that
    watches over them."""
    return [] if ranks == 1 else [COHORT, "run", f"--nnodes={nodes}", f"--nproc-per-node={ranks // nodes}", "--"]


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


def runs_program(pid, program):
    """Returns whether a process runs this program; one that has ended runs none."""
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program)
    except OSError:
        return False


def children_of(pid):
    """Returns the processes that this one has started; none where it has ended."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    """Returns the processes that this one has started, and theirs."""
    return [found for child in children_of(pid) for found in (child, *descendants(child))]


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it may end by itself just now
            os.kill(pid, signal.SIGKILL)


def is_listening(port):
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines() + pathlib.Path("/proc/net/tcp6").read_text().splitlines()
    fields = [line.split() for line in lines]
    return any(field[1].endswith(f":{port:04X}") and field[3] == "0A" for field in fields)


def connections_of(pid):
    """Returns how many TCP connections a process has."""
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    standing = {f"socket:[{row[9]}]" for row in rows if row[3] == "01"}
    links = []
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it has just been closed
            links.append(os.readlink(descriptor))
    return sum(link in standing for link in links)


def rendezvous_of(pid):
    """Returns whether a rank 0 listens on its socket of this machine, and how many ranks have connected to it."""
    own = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(link))
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    rows = [row for row in rows if len(row) > 7 and row[7].startswith("@cohort-") and f"socket:[{row[6]}]" in own]
    return any(row[3] == "00010000" for row in rows), sum(row[5] == "03" for row in rows)


@contextlib.contextmanager
def reserved_port():
    """A port that the system gives to nobody by itself, and that a program can listen on that allows reuse, as all servers do."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("0.0.0.0", 0))  # never listens: that would take the port from the program
        yield holder.getsockname()[1]


def is_used(file):
    """Whether a process has it mapped or open."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"{file}\n" in (process / "maps").read_text():
                return True
            if any(os.path.realpath(link) == str(file) for link in (process / "fd").iterdir()):
                return True
        except OSError:
            continue
    return False


def abandoned_memory(before):
    """Entries of /dev/shm that are not among those of before, belong to this user, and are used by no process."""
    new = [SHARED_MEMORY / name for name in set(os.listdir(SHARED_MEMORY)) - before]
    return sorted(file.name for file in new if owner_of(file) == os.geteuid() and not is_used(file) and file.exists())


def owner_of(file):
    try:
        return file.lstat().st_uid
    except OSError:
        return None  # it is gone


class SystemTest(unittest.TestCase):
    maxDiff = None
    seconds_to_end = 60  # that processes may take to end once the test is over
    seconds_to_clean = 60  # a neighbour's job may be the one that is about to remove its shared memory
    may_leave = ("torchelastic_*", "torchinductor_*")  # in the temporary folder: those of torchrun and of torch, once it is imported

    @classmethod
    def class_folder(cls):
        """Returns a folder that is removed after the tests of this class."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-class-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.marker = "TEST_MARKER_OF_COHORT=" + uuid.uuid4().hex
        self.shm_before = set(os.listdir(SHARED_MEMORY))
        self.ports, self.seed = [], None
        self.addCleanup(self.nothing_is_left_behind)

    def nothing_is_left_behind(self):
        """Fails where a process, temporary file, open port or shared memory of this test is left, and ends the processes."""
        marked = self.wait_while(lambda: processes_marked(self.marker), self.seconds_to_end)
        kill(marked)
        self.assertEqual(marked, [], "processes left behind")
        self.assertEqual([port for port in self.ports if is_listening(port)], [], "ports left open")
        files = [file.name for file in self.temporary.iterdir()
                 if not any(fnmatch.fnmatch(file.name, pattern) for pattern in self.may_leave)]
        self.assertEqual(files, [], "temporary files left behind")
        memory = self.wait_while(lambda: abandoned_memory(self.shm_before), self.seconds_to_clean)
        self.assertEqual(memory, [], "shared memory left behind, by this test or by one beside it")

    def wait_while(self, what, seconds):
        """Returns what there still is when it is nothing, or after this time."""
        deadline = time.monotonic() + seconds
        while (found := what()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def wait_until(self, condition, what, process=None, seconds=HANG):
        """Returns what the condition does once that is true. Fails where the process ends first, or nothing comes of it."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if process is not None and process.poll() is not None:
                self.fail(f"it ended before this was so: {what}\n{self.finish(process)}")
            if time.monotonic() > deadline:
                raise DeadlinePassed(self.with_seed(f"not so within {seconds} s: {what}"))
            time.sleep(0.01)
        return found

    def wait_until_step(self, process, step, table="logs/version_0/metrics.csv"):
        """Blocks until the table that rank 0 writes at the end of every epoch holds this step or a later one."""
        def steps():
            try:
                names, *rows = (self.folder / table).read_text().splitlines()
            except (OSError, ValueError):
                return False
            return rows and float(rows[-1].split(",")[names.split(",").index("step")]) >= step
        return self.wait_until(steps, f"step {step} is in {table}", process)

    def reserve_port(self):
        """Returns a port that belongs to this test until it ends; in the end nobody may listen there."""
        context = reserved_port()
        port = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        self.ports.append(port)
        return port

    def chance(self):
        """Returns a source of random numbers with a new seed each time, or that of COHORT_TEST_SEED; failures name the seed."""
        self.seed = int(os.environ.get("COHORT_TEST_SEED") or random.SystemRandom().randrange(2**31))
        print(f"{self.id()}: COHORT_TEST_SEED={self.seed}", file=sys.stderr, flush=True)
        return random.Random(self.seed)

    def _formatMessage(self, msg, standardMsg):
        return super()._formatMessage(self.with_seed(msg), standardMsg)

    def fail(self, msg=None):
        super().fail(self.with_seed(msg))

    def with_seed(self, message):
        seed = getattr(self, "seed", None)
        return message if seed is None else f"{message or ''} [COHORT_TEST_SEED={seed}]"

    def environment(self, extra=None):
        """That of programs of this test."""
        key, value = self.marker.split("=")
        return clean_environment({key: value, "TMPDIR": str(self.temporary), **(extra or {})})

    def start(self, command, environment=None, **options):
        outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.DEVNULL, cwd=self.folder,
                                env=self.environment(environment), **{**outputs, **options})

    def run_program(self, command, environment=None, timeout=300):
        return self.finish(self.start(command, environment), timeout)

    def finish(self, process, timeout=HANG):
        """Returns how the process ended. Fails where it does not within this time, and then ends it and its ranks."""
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill([process.pid, *processes_marked(self.marker)])
            stdout, stderr = process.communicate()
            raise DeadlinePassed(self.with_seed(f"{process.args} did not end within {timeout} s\n{Result('none', stdout, stderr)}"))
        return Result(process.returncode, stdout, stderr)

    def succeed(self, command, environment=None, timeout=300):
        result = self.run_program(command, environment, timeout)
        self.assertEqual(result.code, 0, str(result))
        return result

    def fail_with(self, code, command, *texts, environment=None, timeout=HANG):
        result = self.run_program(command, environment, timeout)
        self.assertEqual(result.code, code, str(result))
        for text in texts:
            self.assertIn(text, result.stderr, str(result))
        return result

    def summary(self, name="summary.json"):
        return json.loads((self.folder / name).read_text())


def patterns_of(program, text):
    """The tests of a program that only the tier `all` runs: the lines `PROGRAM:Class` and `PROGRAM:Class.test_name`."""
    entries = [re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines() if not line.startswith("#")]
    return [entry.split(":", 1)[1] for entry in entries if entry.startswith(program + ":")]


def of_tier(tier, names, patterns):
    """The tests of a tier, from the names of all and the patterns of those that are only in the tier `all`."""
    stale = [pattern for pattern in patterns if not any(matches(name, pattern) for name in names)]
    if stale:
        raise SystemExit(f"tests/only_all.txt names tests that there are not: {', '.join(stale)}")
    if tier == "every":
        return names
    return [name for name in names if any(matches(name, pattern) for pattern in patterns) == (tier == "all")]


def matches(name, pattern):
    return name == pattern or name.startswith(pattern + ".")


def names_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names_of(test)
        else:
            yield test.id().removeprefix("__main__.")


def skips_of(program, result):
    """One line for each test that was skipped; a class is named where all of it was."""
    for test, reason in result.skipped:
        name = re.sub(r"setUpClass \((.*)\)|(\S+).*", r"\1\2", test.id())
        yield f"SKIPPED {program}:{name.removeprefix('__main__.')}: {reason}"


def run_tests(names, stream):
    suite = unittest.defaultTestLoader.loadTestsFromNames(names, sys.modules["__main__"])
    return unittest.TextTestRunner(stream, verbosity=2).run(suite)


def run_apart(names):
    """Runs tests in a process of its own. Returns whether they went well, what they wrote and their skips."""
    text = io.StringIO()
    result = run_tests(names, text)
    return result.wasSuccessful(), text.getvalue(), list(skips_of(program_name(), result))


def program_name():
    return "system_" + pathlib.Path(sys.argv[0]).stem


def pieces_of(names, count):
    """The tests of each class in at most so many pieces, so that what a class sets up is set up once in each."""
    classes = {}
    for name in names:
        classes.setdefault(name.split(".")[0], []).append(name)
    return [piece for tests in classes.values() for number in range(count) if (piece := tests[number::count])]


def run_at_once(names, at_once):
    all_well, skips = True, []
    with multiprocessing.get_context("fork").Pool(at_once, maxtasksperchild=1) as pool:
        for went_well, text, skipped in pool.imap_unordered(run_apart, pieces_of(names, at_once)):
            print(re.sub(r"Ran \d+ tests? .*\n", "", text), file=sys.stderr, flush=True)
            all_well = all_well and went_well
            skips += skipped
    print(f"Ran {len(names)} tests", file=sys.stderr)
    return all_well, skips


def main(at_once=1):
    """Runs the tests of this program: all, those of a tier, or those that are named.

    With `at_once` several run at a time, in processes of their own: for tests that wait for much of their time. Those that are
    named on the command line run one after another."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tier", choices=("quick", "all", "every"), default="every",
                        help="quick; all: what tests/only_all.txt keeps out of quick; every: both")
    parser.add_argument("names", nargs="*", metavar="Class.test_name")
    wanted = parser.parse_args()
    names = list(names_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    patterns = patterns_of(program_name(), (SOURCE / "tests/only_all.txt").read_text())
    names = wanted.names or of_tier(wanted.tier, names, patterns)
    if not names:
        raise SystemExit(f"{program_name()} has no tests in the tier {wanted.tier}")
    if at_once > 1 and not wanted.names:
        all_well, skips = run_at_once(names, at_once)
    else:
        result = run_tests(names, sys.stderr)
        all_well, skips = result.wasSuccessful(), list(skips_of(program_name(), result))
    for line in skips:
        print(line, file=sys.stderr)
    sys.exit(0 if all_well else 1)
