"""A Session and a Trainer on real ranks equal plain computations over all ranks' data (session_program.cpp)."""
import unittest

import harness
from harness import BUILD, FAKE_DEVICE, MPIRUN, PLUGINS, SystemTest

PROGRAM = str(BUILD / "tests/session_program")


class SessionTest(SystemTest):
    def passes(self, *commands):
        for command in commands:
            with self.subTest(command=command):
                self.assertIn("all checks passed", self.succeed(command).stdout)


class Session(SessionTest):
    def test_one_rank_computes_what_one_process_would(self):
        self.passes([PROGRAM, "--devices=1"])

    def test_ranks_do_so_with_every_gradient_made_in_memory_of_the_wire(self):
        self.passes([PROGRAM, "--devices=2", "--collective=shm", "--bucket-size=1"])

    def test_ranks_do_so_over_a_wire_without_shared_memory(self):
        self.passes([PROGRAM, "--devices=2", "--collective=gloo"])

    @unittest.skipUnless((PLUGINS / "cohort_mpi.so").exists(), "built without MPI")
    def test_ranks_under_mpirun_do_so_too(self):
        self.passes([*MPIRUN, "-np", "2", PROGRAM, "--collective=mpi", "--bucket-size=1"])

    def test_ranks_on_devices_do_so_too(self):
        self.passes([PROGRAM, "--devices=2", "--bucket-size=1", *FAKE_DEVICE], [PROGRAM, "--devices=1", *FAKE_DEVICE])

    def test_deterministic_ranks_do_too(self):
        self.passes([PROGRAM, "--devices=3", "--deterministic"])

    def test_parameters_unfrozen_late_are_trained_where_weights_differ(self):
        self.passes([PROGRAM, "--devices=2", "--strategy=bagua:decentralized", "--only=freezing"])

    def test_a_finished_loop_ends_with_the_same_weights_whatever_is_averaged(self):
        self.passes([PROGRAM, "--devices=2", "--strategy=bagua:async,sync_interval_ms=100", "--only=own_loop"])


class InFull(SessionTest):
    def test_two_to_four_ranks_compute_what_one_process_would(self):
        self.passes(*([PROGRAM, f"--devices={devices}"] for devices in (2, 3, 4)))

    def test_parameters_unfrozen_late_are_trained_where_weights_differ(self):
        self.passes([PROGRAM, "--devices=2", "--strategy=bagua:async", "--only=freezing"],
                    [*MPIRUN, "-np", "2", PROGRAM, "--strategy=horovod,op=adasum", "--only=freezing"])

    def test_a_finished_loop_ends_with_the_same_weights_whatever_is_averaged(self):
        self.passes(*([PROGRAM, "--devices=2", f"--strategy=bagua:{strategy}", "--only=own_loop"]
                      for strategy in ("decentralized", "low_precision_decentralized", "bytegrad")))


if __name__ == "__main__":
    harness.main()
