"""The same program under every launcher gives the same bits, and every launcher's variables are understood."""
import pathlib
import unittest

from harness import COHORT, MNIST, MPIRUN, TORCHRUN, SystemTest

# Without IPv6 there is no such address.
WITH_IPV6 = ["0:0:0:0:0:0:0:1"] if pathlib.Path("/proc/net/if_inet6").exists() else []
JOB = ["--max-steps=20", "--epochs=1", "--limit-val-batches=2", "--limit-test-batches=2", "--seed=7",
       "--summary-json=summary.json"]


class Launchers(SystemTest):
    def weights(self, command, environment=None):
        self.succeed(command, environment)
        summary = self.summary()
        self.assertEqual(summary["world_size"], 2)
        self.assertEqual(summary["steps"], 20)
        self.assertEqual(summary["collective"], "shm")
        digests = summary["weights_sha256"]
        self.assertEqual(len(digests), 2)
        self.assertEqual(digests[0], digests[1], "ranks ended with different weights")
        (self.folder / "summary.json").unlink()
        return digests[0]

    def test_all_launchers_train_to_the_same_bits(self):
        one_thread = {"OMP_NUM_THREADS": "1"}
        started = {
            "the program itself": self.weights([MNIST, "--strategy=ddp", "--devices=2", *JOB], one_thread),
            "forks of the program": self.weights([MNIST, "--devices=2", *JOB], one_thread),
            "cohort run": self.weights([COHORT, "run", "-n", "2", MNIST, *JOB], one_thread),
            "torchrun": self.weights([*TORCHRUN, "--no-python", "--nproc-per-node=2", "--standalone", MNIST, *JOB], one_thread),
            "torchrun with a static address": self.weights(
                [*TORCHRUN, "--no-python", "--nproc-per-node=2", "--nnodes=1", "--master-addr=127.0.0.1",
                 "--master-port=29876", MNIST, *JOB], one_thread),
            "mpirun": self.weights([*MPIRUN, "-np", "2", MNIST, *JOB], one_thread),
        }
        self.assertEqual(len(set(started.values())), 1, started)

    def test_the_log_tells_who_registered(self):
        result = self.succeed([MNIST, "--devices=2", *JOB])
        for line in ("GPU available: False, used: False", "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2",
                     "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2", "distributed_backend=shm",
                     "All distributed processes registered. Starting with 2 processes", "-" * 100):
            self.assertIn(line, result.stderr.splitlines(), str(result))
        self.assertRegex(result.stderr, r"(?m)^  \| Name +\| Type +\| Params")

    def test_a_new_user_gets_ddp_spawn_for_two_devices_and_is_told_why(self):
        result = self.succeed([MNIST, "--devices=2", *JOB])
        self.assertEqual(self.summary()["strategy"], "ddp_spawn")
        self.assertIn("Using strategy ddp_spawn: 2 devices on one node", result.stderr)

    def test_two_programs_of_one_mpirun_job_find_each_other_anew(self):
        twice = f"'{MNIST}' {' '.join(JOB)} && '{MNIST}' {' '.join(JOB)}"
        self.succeed([*MPIRUN, "-np", "2", "sh", "-c", twice])
        self.assertEqual(self.summary()["world_size"], 2)

    def test_ranks_meet_at_the_address_that_the_shell_names(self):
        for address in ("127.0.0.2", "localhost", "::1", *WITH_IPV6):
            with self.subTest(address=address):
                for strategy in ("ddp", "ddp_spawn"):
                    self.succeed([MNIST, f"--strategy={strategy}", "--devices=2", *JOB], environment={"MASTER_ADDR": address})

    def test_simulated_nodes_are_told_apart(self):
        self.succeed([COHORT, "run", "--nnodes=2", "--nproc-per-node=1", MNIST, *JOB])
        summary = self.summary()
        self.assertEqual((summary["num_nodes"], summary["collective"]), (2, "hier(shm,gloo)"))
        # Simulated nodes share the cores of this machine.
        threads = [self.threads_of(*more) for more in (["-n", "2"], ["--nnodes=2", "--nproc-per-node=1"])]
        self.assertEqual(threads[0], threads[1])

    def threads_of(self, *spread):
        self.succeed([COHORT, "run", *spread, MNIST, *JOB])
        return self.summary()["threads"]


if __name__ == "__main__":
    unittest.main()
