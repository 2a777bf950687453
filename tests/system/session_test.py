"""A Session and a Trainer on real ranks equal plain computations over all ranks' data (session_program.cpp)."""
import unittest

from harness import BUILD, MPIRUN, PLUGINS, SystemTest

PROGRAM = str(BUILD / "tests/session_program")


class Session(SystemTest):
    def test_one_to_four_ranks_compute_what_one_process_would(self):
        for devices in (1, 2, 3, 4):
            with self.subTest(devices=devices):
                result = self.succeed([PROGRAM, f"--devices={devices}"])
                self.assertIn("all checks passed", result.stdout)

    def test_ranks_do_so_with_every_gradient_made_in_memory_of_the_wire(self):
        result = self.succeed([PROGRAM, "--devices=2", "--collective=shm", "--bucket-size=1"])
        self.assertIn("all checks passed", result.stdout)

    def test_ranks_do_so_over_a_wire_without_shared_memory(self):
        self.assertIn("all checks passed", self.succeed([PROGRAM, "--devices=2", "--collective=gloo"]).stdout)

    @unittest.skipUnless((PLUGINS / "cohort_mpi.so").exists(), "built without MPI")
    def test_ranks_under_mpirun_do_so_too(self):
        result = self.succeed([*MPIRUN, "-np", "2", PROGRAM, "--collective=mpi", "--bucket-size=1"])
        self.assertIn("all checks passed", result.stdout)

    def test_parameters_unfrozen_late_are_refused_where_weights_are_averaged_too(self):
        for command in ([PROGRAM, "--devices=2", "--strategy=bagua:decentralized"],
                        [PROGRAM, "--devices=2", "--strategy=bagua:async"],
                        [*MPIRUN, "-np", "2", PROGRAM, "--strategy=horovod,op=adasum"]):
            with self.subTest(strategy=command[-1]):
                self.assertIn("all checks passed", self.succeed([*command, "--only=freezing"]).stdout)

    def test_a_finished_loop_ends_with_the_same_weights_whatever_is_averaged(self):
        for strategy in ("async,sync_interval_ms=100", "decentralized", "low_precision_decentralized", "bytegrad"):
            with self.subTest(strategy=strategy):
                result = self.succeed([PROGRAM, "--devices=2", f"--strategy=bagua:{strategy}", "--only=own_loop"])
                self.assertIn("all checks passed", result.stdout)

    def test_deterministic_ranks_do_too(self):
        self.assertIn("all checks passed", self.succeed([PROGRAM, "--devices=3", "--deterministic"]).stdout)


if __name__ == "__main__":
    unittest.main()
