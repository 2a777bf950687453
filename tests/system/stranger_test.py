"""Strangers: other users of the machine, and whoever reaches it over the network, neither join a job, nor read its values, nor
end it. Each test has networks of its own, so that what they try meets nothing else."""
import re
import shutil
import sys
import time
import unittest

import harness
from harness import BUILD, MNIST, MPI_START, MPIRUN, SOURCE, TORCHRUN, SystemTest
from ssh_hosts import TwoNetworks, why_no_networks

PROGRAM = str(BUILD / "tests/failing_program")
AS_ANOTHER_USER = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
GREETING_BYTES = 48  # with the refusal
USER = 2
SECRET = "a secret that only the ranks of this job know\n"


@unittest.skipIf(why_no_networks(), why_no_networks())
class StrangerTest(SystemTest):
    def setUp(self):
        super().setUp()
        self.networks = TwoNetworks()
        self.addCleanup(self.networks.stop)
        self.folder.chmod(0o755)
        # Another user has no access to the folder of this one's Python and sources.
        self.stranger = ["/usr/bin/python3", shutil.copy(SOURCE / "tests/system/stranger.py", self.folder)]

    def secret(self, text=SECRET, name="secret"):
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        return {"COHORT_JOB_SECRET_FILE": str(file)}

    def rank(self, rank, nodes, environment, *arguments, address=None, program=(PROGRAM, "--max-steps=30")):
        """Starts one of two ranks: on a machine of its own, or both on the first."""
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": str(2 // nodes), "LOCAL_RANK": str(rank % (2 // nodes)),
                 "MASTER_ADDR": address or ("127.0.0.1" if nodes == 1 else self.networks.addresses[0]), "MASTER_PORT": "29500"}
        return self.start([*self.networks.inside(rank if nodes == 2 else 0), *program, "--timeout=60s", *arguments],
                          {**place, **environment})

    def start_to_end(self, command, **options):
        """Starts a program that ends with the test at the latest."""
        process = self.start(command, **options)
        self.addCleanup(process.kill)
        return process

    def weights(self, nodes, environment, *arguments, pause=0):
        """Returns the weights of both ranks; rank 1 comes after the pause, so that there is time to try something."""
        ranks = []
        for rank in range(2):
            ranks.append(self.rank(rank, nodes, environment, "--summary-json=summary.json", *arguments))
            time.sleep(pause * (1 - rank))
        for result in [self.finish(process) for process in ranks]:
            self.assertEqual(result.code, 0, str(result))
        return self.summary()["weights_sha256"]

    def record(self, environment):
        """Returns a file with what rank 1 says to the store."""
        recording = self.folder / "recording"
        between = self.start_to_end([*self.networks.inside(1), *self.stranger, "record", "29500", self.networks.addresses[0],
                                     str(recording)])
        self.assertEqual(between.stdout.readline(), "ready\n")
        ranks = [self.rank(0, 2, environment), self.rank(1, 2, environment, address=self.networks.addresses[1])]
        for result in [self.finish(process) for process in ranks]:
            self.assertEqual(result.code, 0, str(result))
        self.finish(between)
        self.assertGreater(recording.stat().st_size, 3 * GREETING_BYTES)
        return str(recording)

    def withstand(self, nodes, collective, attempts):
        """Runs job after job while somebody tries everything on the machine of rank 0, until there were so many attempts."""
        environment = self.secret() if nodes == 2 else {}
        recording = [self.record(environment)] if nodes == 2 else []
        wanted = self.weights(nodes, environment, f"--collective={collective}")
        attack = self.start_to_end([*self.networks.inside(0), *AS_ANOTHER_USER, *self.stranger, "attack", str(attempts), *recording])
        self.assertEqual(attack.stdout.readline(), "ready\n")
        deadline = time.monotonic() + 600  # a hang only
        while attack.poll() is None:
            self.assertLess(time.monotonic(), deadline, "the attempts have not come to an end")
            self.assertEqual(self.weights(nodes, environment, f"--collective={collective}", pause=1), wanted)
        most = re.fullmatch(r"most=(\d+)\n", self.finish(attack).stdout)
        self.assertTrue(most and int(most.group(1)) <= GREETING_BYTES, f"a store said more than its greeting: {most}")


class Strangers(StrangerTest):
    def test_they_do_nothing_to_a_job_on_one_machine(self):
        self.withstand(1, "shm", attempts=200)

    def test_they_do_nothing_to_a_job_on_two_machines(self):
        self.withstand(2, "gloo", attempts=200)

    def test_a_rank_without_the_secret_is_refused(self):
        environment = self.secret()
        first = self.rank(0, 2, environment)
        for given in (self.secret("another secret of many characters", "other"), {"COHORT_INSECURE": "1"}):
            result = self.finish(self.rank(1, 2, given))
            self.assertEqual(result.code, USER, str(result))
            self.assertIn("rank 0 refuses this rank, because the two do not have the same job secret; give", result.stderr)
        for process in (first, self.rank(1, 2, environment)):
            result = self.finish(process)
            self.assertEqual(result.code, 0, str(result))
            self.assertEqual("does not know this job's secret tried to join" in result.stderr, process is first, str(result))

    def test_several_machines_need_a_secret_or_trust(self):
        for process in [self.rank(rank, 2, {}) for rank in range(2)]:
            result = self.finish(process)
            self.assertEqual(result.code, USER, str(result))
            self.assertIn("meet without a secret, so that whoever reaches 10.213.77.1 over the network could join", result.stderr)
            self.assertIn("COHORT_JOB_SECRET_FILE (a file with mode 0600", result.stderr)
            self.assertIn("or --insecure", result.stderr)
        self.weights(2, {}, "--insecure")

    def test_jobs_with_different_secrets_share_a_port(self):
        jobs = [self.secret(f"the secret of job number {number}", f"secret{number}") for number in range(2)]
        ranks = [self.rank(rank, 1, environment) for rank in range(2) for environment in jobs]
        for result in [self.finish(process) for process in ranks]:
            self.assertEqual(result.code, 0, str(result))

    def test_a_second_job_on_one_port_is_told(self):
        first = self.rank(0, 1, {})
        self.wait_until(lambda: harness.rendezvous_of(first.pid)[0], "rank 0 serves its store", first)
        result = self.finish(self.rank(0, 1, {}))
        self.assertEqual(result.code, USER, str(result))
        self.assertIn("another rank 0 of the same job runs on this machine; give this job a MASTER_PORT of its own", result.stderr)
        for process in (first, self.rank(1, 1, {})):
            self.assertEqual(self.finish(process).code, 0)


class StrangersInFull(StrangerTest):
    def test_a_thousand_attempts_do_nothing_to_a_job_on_one_machine(self):
        self.withstand(1, "shm", attempts=1000)

    def test_a_thousand_attempts_do_nothing_to_a_job_on_two_machines(self):
        for collective in ("gloo", "hier"):
            with self.subTest(collective=collective):
                self.withstand(2, collective, attempts=1000)

    def test_a_thousand_attempts_do_nothing_to_gloo_on_one_machine(self):
        self.withstand(1, "gloo", attempts=1000)

    def test_gloo_lets_nobody_in_once_all_ranks_are_connected(self):
        few_files = ["prlimit", "--nofile=300", MNIST, "--epochs=6", "--limit-val-batches=1", "--limit-test-batches=1"]
        ranks = [self.rank(rank, 1, {}, "--collective=gloo", program=few_files) for rank in range(2)]
        self.wait_until(lambda: harness.connections_of(ranks[0].pid) >= 2, "the ranks are connected", ranks[0])
        time.sleep(1)
        result = self.finish(self.start([*self.networks.inside(0), *AS_ANOTHER_USER, *self.stranger, "flood", "400"]))
        self.assertEqual(result.stdout, "sockets=2\n")
        for process in ranks:
            self.assertIsNone(process.poll(), "it ended before the flood did")
        for process in ranks:
            result = self.finish(process)
            self.assertEqual(result.code, 0, str(result))

    def test_thousands_of_silent_connections_do_nothing(self):
        environment = self.secret()
        first = self.rank(0, 2, environment)
        crowd = self.start_to_end([*self.networks.inside(1), *self.stranger, "crowd", self.networks.addresses[0], "3000"])
        self.assertEqual(crowd.stdout.readline(), "ready\n")
        for process in (first, self.rank(1, 2, environment)):
            result = self.finish(process)
            self.assertEqual(result.code, 0, str(result))
        crowd.kill()
        crowd.communicate()


class UnderTorchrun(StrangerTest):
    """Its agent's store, which belongs to torchrun, tells where rank 0 is."""

    def rank(self, rank, environment, *arguments):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "GROUP_RANK": str(rank),
                 "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": self.networks.addresses[0], "MASTER_PORT": "29500",
                 "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}
        return self.start([*self.networks.inside(rank), PROGRAM, "--max-steps=30", "--timeout=60s", *arguments], {**place, **environment})

    def test_nodes_meet_with_a_secret_and_without_one_after_a_warning(self):
        for environment, warnings in ((self.secret(), 0), ({}, 1)):
            nodes = [self.start([*self.networks.inside(node), *TORCHRUN, "--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1",
                                 f"--master-addr={self.networks.addresses[0]}", "--master-port=29500", "--no-python", PROGRAM,
                                 "--max-steps=30"],
                                environment) for node in range(2)]
            results = [self.finish(process) for process in nodes]
            for result in results:
                self.assertEqual(result.code, 0, str(result))
            said = [line for result in results for line in result.stderr.splitlines() if "meet without a secret" in line]
            self.assertEqual(len(said), warnings, str(results[0]))

    def test_a_forged_address_is_ignored(self):
        agent = self.start_to_end([*self.networks.inside(0), sys.executable, "-c", AGENT])
        self.assertEqual(agent.stdout.readline(), "ready\n")
        ranks = [self.rank(1, self.secret())]
        self.assertTrue(any("was not written with this job's secret; it is ignored" in line for line in ranks[0].stderr))
        ranks.append(self.rank(0, self.secret()))
        for process in ranks:
            self.assertEqual(self.finish(process).code, 0)
        agent.kill()
        agent.communicate()


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
class UnderMpirun(StrangerTest):
    def test_nodes_meet_with_a_secret_and_without_one_after_a_warning(self):
        reach = self.folder / "reach"  # in the place of ssh: mpirun gives it the host and a command
        reach.write_text(f'#!/bin/sh\nshift\nexec {" ".join(self.networks.inside(1))} sh -c "$*"\n', encoding="utf-8")
        reach.chmod(0o755)
        first, second = self.networks.addresses
        job = [*self.networks.inside(0), *MPIRUN, "--mca", "plm_rsh_agent", reach, "--mca", "btl", "self,tcp", "-np", "2",
               "--host", f"{first}:1,{second}:1", "-x", "OMP_NUM_THREADS=1", "-x", f"MASTER_ADDR={first}", "-x", "MASTER_PORT=29500",
               "-x", self.marker.split("=")[0]]
        for secret, warnings in ((self.secret(), 0), ({}, 1)):
            given = [word for name in secret for word in ("-x", name)]
            result = self.succeed([*job, *given, PROGRAM, "--max-steps=30", "--strategy=ddp"], {**MPI_START, **secret})
            self.assertEqual(result.stderr.count("meet without a secret"), warnings, str(result))


AGENT = """
import threading, torch
store = torch.distributed.TCPStore("0.0.0.0", 29500, is_master=True, wait_for_workers=False)
store.set("cohort/none-29500/rendezvous", "29501 " + "0" * 64)
print("ready", flush=True)
threading.Event().wait()
"""

if __name__ == "__main__":
    harness.main(at_once=2)
