"""The mpi collective under a real mpirun: the bits of the other wires, and ends that name who is to blame."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import BUILD, MNIST, MPIRUN, PLUGINS, SystemTest, descendants, runs_program

JOB = ["--max-steps=20", "--epochs=1", "--limit-val-batches=2", "--limit-test-batches=2", "--seed=7",
       "--strategy=ddp", "--summary-json=summary.json"]
MPI_PROGRAM = BUILD / "tests/mpi_program"
FAILING_PROGRAM = BUILD / "tests/failing_program"
ENDLESS = ["--epochs=1000", "--limit-train-batches=3", "--limit-val-batches=1", "--strategy=ddp", "--collective=mpi",
           "--log-dir=logs"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
NO_MPI = None if (PLUGINS / "cohort_mpi.so").exists() else "built without MPI"


# mpirun kills ranks a second after it has told them to end, which is too little for one in the middle of a step on a busy machine.
# It waits for nearly twice this time, whether ranks are left or not.
PATIENT_MPIRUN = [*MPIRUN, "--mca", "odls_base_sigkill_timeout", "3"]


@unittest.skipIf(NO_MPI, NO_MPI)
class MpiTest(SystemTest):
    def weights(self, ranks, *arguments, mpirun=(), environment=None):
        self.succeed([*MPIRUN, *mpirun, "-np", str(ranks), MNIST, *JOB, *arguments], {**ONE_THREAD, **(environment or {})})
        summary = self.summary()
        self.assertEqual(len(set(summary["weights_sha256"])), 1, "ranks ended with different weights")
        return summary["collective"], summary["weights_sha256"][0]

    def trains_to_the_bits_of_shm(self, ranks):
        wire, digest = self.weights(ranks, "--collective=mpi")
        self.assertEqual(wire, "mpi")
        self.assertEqual(digest, self.weights(ranks, "--collective=shm")[1])


class Mpi(MpiTest):
    def test_two_ranks_train_to_the_bits_of_shm(self):
        self.trains_to_the_bits_of_shm(2)

    def test_without_mpirun_it_says_how_to_start(self):
        self.fail_with(2, [MNIST, "--strategy=ddp", "--devices=2", "--collective=mpi"], "start the ranks with mpirun")

    def test_a_program_that_has_initialised_mpi_keeps_it(self):
        result = self.succeed([*MPIRUN, "-np", "2", MPI_PROGRAM, "multiple", "--strategy=ddp", "--collective=mpi"])
        self.assertIn("MPI counts 2", result.stdout)


class MpiInFull(MpiTest):
    def test_four_ranks_train_to_the_bits_of_shm(self):
        self.trains_to_the_bits_of_shm(4)

    def test_its_options_change_how_it_is_done_and_not_what(self):
        plain = self.weights(2, "--collective=mpi")[1]
        self.assertEqual(self.weights(2, "--collective=mpi,threads=serialized")[1], plain)
        self.assertEqual(self.weights(2, "--collective=mpi", mpirun=["--bind-to", "core"])[1], plain)
        self.assertEqual(self.weights(2, "--collective=mpi", mpirun=["--mca", "btl", "self,tcp"])[1], plain)
        self.assertEqual(self.weights(2, "--collective=mpi", "--deterministic")[1],
                         self.weights(2, "--collective=shm", "--deterministic")[1])

    def test_a_program_that_has_initialised_mpi_for_one_thread_is_told_what_to_call(self):
        self.fail_with(2, [*MPIRUN, "-np", "2", MPI_PROGRAM, "--strategy=ddp", "--collective=mpi"], "call MPI_Init_thread")

    def test_two_mpi_libraries_in_one_process_are_named(self):
        library = next(line.split("=> ")[1] for line in
                       subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout.splitlines()
                       if "libmpi.so.40" in line)
        other = self.folder / "libother.so"
        other.write_bytes(pathlib.Path(library).read_bytes().replace(b"libmpi.so.40\0", b"libmpi.so.77\0"))
        self.fail_with(2, [*MPIRUN, "-np", "2", "-x", f"LD_PRELOAD={other}", MNIST, *JOB, "--collective=mpi"],
                       "two MPI libraries are loaded in this process", str(other))

    def test_a_machine_without_mpi_gets_the_reason(self):
        broken = self.folder / "plugins"
        broken.mkdir()
        content = (PLUGINS / "cohort_mpi.so").read_bytes()
        self.assertIn(b"libmpi.so.40", content)
        (broken / "cohort_mpi.so").write_bytes(content.replace(b"libmpi.so.40", b"libmpi.so.99"))
        self.fail_with(3, [*MPIRUN, "-np", "2", MNIST, *JOB, "--collective=mpi", f"--plugin={broken / 'cohort_mpi.so'}"],
                       "libmpi.so.99")


class Job(SystemTest):
    def start_job(self, ranks, *arguments, mpirun=PATIENT_MPIRUN):
        """The process, and its ranks' processes."""
        return self.start_ranks(ranks, [*mpirun, "-np", str(ranks), MNIST, *ENDLESS, *arguments])

    def start_ranks(self, ranks, command):
        shutil.rmtree(self.folder / "logs", ignore_errors=True)  # of the round before, which says that it has registered
        process = self.start(command, ONE_THREAD)

        def pids():
            found = [pid for pid in descendants(process.pid) if runs_program(pid, MNIST)]
            return found if len(found) == ranks else None
        return process, self.wait_until(pids, f"{ranks} ranks run", process)

    def has_registered(self):
        log = self.folder / "logs/rank-0.log"
        return log.exists() and "All distributed processes registered" in log.read_text()


@unittest.skipIf(NO_MPI, NO_MPI)
class SharedMemory(Job):
    NOWHERE = "OMPI_MCA_osc_sm_backing_directory=/nowhere"

    def shares_memory(self, ranks, command):
        """By rank, while the job trains."""
        process, pids = self.start_ranks(ranks, command)
        try:
            self.wait_until_step(process, 3)
            return ["/osc_sm." in pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in pids]
        finally:
            process.terminate()
            self.finish(process)

    def test_ranks_of_one_machine_share_the_memory_of_gradients(self):
        self.assertEqual(self.shares_memory(2, [*MPIRUN, "-np", "2", MNIST, *ENDLESS]), [True, True])

    def test_where_one_rank_has_no_room_none_shares_memory_and_the_job_goes_on(self):
        apart = ["-np", "1", MNIST, *ENDLESS, ":", "-np", "1", "-x", self.NOWHERE, MNIST, *ENDLESS]
        self.assertEqual(self.shares_memory(2, [*MPIRUN, *apart]), [False, False])

    def test_a_machine_with_little_shared_memory_trains_to_the_same_bits(self):
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh"]
        if subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("needs root: mounts a small /dev/shm")
        mpirun = [*MPIRUN, "--mca", "btl", "self,tcp", "-np", "2"]  # MPI's own messages need some of it too
        self.assertEqual(self.shares_memory(2, [*mount, *mpirun, MNIST, *ENDLESS]), [False, False])
        digests = []
        for place in ([], mount):
            self.succeed([*place, *mpirun, MNIST, *JOB, "--collective=mpi"], ONE_THREAD)
            digests += self.summary()["weights_sha256"]
        self.assertEqual(len(set(digests)), 1)


@unittest.skipIf(NO_MPI, NO_MPI)
class DeadRanksTest(Job):
    rounds = int(os.environ.get("COHORT_SOAK_ROUNDS", "3"))

    def kill_one(self, ranks, victim, when_to):
        """Starts a job and kills a rank of it; `when_to` blocks until it is time."""
        process, pids = self.start_job(ranks)
        when_to(process)
        had_registered = self.has_registered()
        os.kill(pids[victim], signal.SIGKILL)
        result = self.finish(process)
        self.assertNotEqual(result.code, 0)
        if had_registered:
            self.assertRegex(result.stderr, rf"rank \d+ \(pid {pids[victim]} on \S+\) is gone")


class DeadRanks(DeadRanksTest):
    def test_a_killed_rank_is_named_before_mpirun_ends_the_job(self):
        self.kill_one(2, 1, lambda process: self.wait_until_step(process, 3))

    def test_a_stopped_rank_is_named_at_the_deadline(self):
        process, pids = self.start_job(3, "--timeout=3s", mpirun=MPIRUN)
        self.wait_until_step(process, 3)
        os.kill(pids[1], signal.SIGSTOP)
        result = self.finish(process)
        self.assertNotEqual(result.code, 0)
        self.assertRegex(result.stderr, rf"rank \d+ \(pid {pids[1]} on \S+\) is stopped")


class DeadRanksInFull(DeadRanksTest):
    def test_a_rank_that_is_killed_at_any_moment_is_named(self):
        chance = self.chance()
        for number in range(self.rounds):
            from_the_start, delay = number % 3 == 2, chance.uniform(0, 2)

            def moment(process):
                if not from_the_start:
                    self.wait_until(self.has_registered, "the ranks have connected", process)
                time.sleep(delay)
            with self.subTest(round=number, from_the_start=from_the_start, delay=delay):
                self.kill_one(2 + number % 3, chance.randrange(2 + number % 3), moment)
            self.nothing_is_left_behind()

    def test_a_rank_that_dies_while_the_others_compare_what_they_will_do_is_named_on_every_wire(self):
        for wire in ("mpi", "shm", "gloo"):
            with self.subTest(wire=wire):
                result = self.run_program([*PATIENT_MPIRUN, "-np", "3", FAILING_PROGRAM, "--strategy=ddp",
                                           f"--collective={wire}", "--how=die"])
                self.assertNotEqual(result.code, 0)
                self.assertRegex(result.stderr, r"rank 1 \(pid \d+ on \S+\) is gone.*comparing the ranks' loop")

    def test_a_rank_that_stops_inside_of_mpi_ends_the_others_and_is_named(self):
        # The dynamic linker takes spaces in LD_PRELOAD for the ends of names, and the build folder may have some.
        library = shutil.copy(BUILD / "tests/libstop_in_split.so", self.folder)
        preloaded = ["-x", f"LD_PRELOAD={library}"]
        for threads in ("multiple", "serialized"):
            with self.subTest(threads=threads):
                result = self.run_program([*PATIENT_MPIRUN, *preloaded, "-np", "3", MNIST, *JOB, "--timeout=4s",
                                           f"--collective=mpi,threads={threads}"])
                self.assertNotEqual(result.code, 0)
                self.assertRegex(result.stderr, r"rank 1 \(pid \d+ on \S+\) is stopped.*MPI does not return from MPI_Comm_split")


if __name__ == "__main__":
    harness.main(at_once=2)  # they wait for much of their time
