"""Jobs that survive: failed ranks and lost nodes are started again and end with the weights of a job that nothing happened to."""
import os
import re
import shutil
import signal
import time
import unittest

import harness
from harness import BUILD, COHORT, MNIST, TORCHRUN, SystemTest, kill, processes_marked
from rank_death_test import variables_of
from ssh_hosts import SSHD, serve_class

ROUNDS = int(os.environ.get("COHORT_SOAK_ROUNDS", "3"))
ROWS = 96  # of data_program
DATA_PROGRAM, CHARGPT = str(BUILD / "tests/data_program"), str(BUILD / "bin/chargpt")
ELASTIC = ("ddp", "horovod", "bagua:gradient_allreduce", "bagua:bytegrad", "sharded")


def ranks_of(marker):
    """Returns pid by rank, of the processes that carry the marker and a RANK, whatever has started them."""
    found = {}
    for pid in processes_marked(marker):
        try:
            variables = variables_of(pid)
        except (OSError, UnicodeDecodeError):
            continue  # it has ended
        if "RANK" in variables:
            found[int(variables["RANK"])] = pid
    return found


def ancestors(pid):
    found = []
    while pid > 1:
        found.append(pid)
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            pid = int(re.sub(r".*\) \S ", "", file.read()).split()[0])
    return found


class RestartTest(SystemTest):
    """Trainings with epochs of 12 steps, a checkpoint after each step, and weights that do not depend on who started them."""

    def training(self, folder, *more, steps=40):
        return [MNIST, "--strategy=ddp", f"--max-steps={steps}", "--epochs=1000", "--limit-train-batches=12", "--limit-val-batches=2",
                "--limit-test-batches=1", "--threads=1", "--deterministic", f"--checkpoint-dir={folder}", "--resume=auto",
                "--checkpoint-every-n-steps=1", "--summary-json=summary.json", *more]

    def undisturbed(self, *launcher, **options):
        """Returns the digests of the weights of a job that nothing happens to."""
        self.succeed([*launcher, *self.training("undisturbed", **options)])
        return self.summary()["weights_sha256"]

    def reaches(self, step, folder="ckpt"):
        return any(path.name >= f"step-{step:08}" for path in (self.folder / folder).glob("step-*"))

    def world(self):
        """Returns the number of ranks that have written the newest checkpoint."""
        newest = max((self.folder / "ckpt").glob("step-*"), default=None, key=lambda path: path.name)
        return len(list(newest.glob("rank-*"))) if newest else 0

    def kill_rank(self, process, rank, step):
        self.wait_until(lambda: self.reaches(step), f"step {step} is written", process)
        os.kill(self.wait_until(lambda: ranks_of(self.marker).get(rank), f"rank {rank} runs", process), signal.SIGKILL)

    def goes_on_after_a_kill(self, launcher, says):
        wanted = self.undisturbed(*launcher)
        process = self.start([*launcher, *self.training("ckpt")])
        self.kill_rank(process, 1, 5)
        result = self.finish(process)
        self.assertEqual(result.code, 0, str(result))
        self.assertIn(says, result.stderr)
        self.assertRegex(result.stderr, r"Going on from .*step-000000\d\d: step ")
        self.assertEqual(self.summary()["weights_sha256"], wanted)


class Restarts(RestartTest):
    def test_a_job_whose_rank_is_killed_ends_with_the_right_weights(self):
        self.goes_on_after_a_kill([COHORT, "run", "-n", "2", "--max-restarts=1"], "all ranks are started again (restart 1 of 1)")

    def test_a_job_that_would_begin_anew_is_told_so(self):
        result = self.succeed([COHORT, "run", "-n", "2", "--max-restarts=1", MNIST, "--max-steps=1", "--limit-val-batches=1"])
        self.assertIn("cohort run starts failed ranks again, but they would not go on from the newest checkpoint; give "
                      "--checkpoint-dir=DIR --resume=auto", result.stderr)


class RestartsInFull(RestartTest):
    def test_torchrun_starts_a_killed_worker_again(self):
        self.goes_on_after_a_kill([*TORCHRUN, "--no-python", "--nproc-per-node=2", "--standalone", "--max-restarts=1"], "Going on from")

    def test_torchrun_takes_a_second_node_in_and_goes_on_without_it(self):
        port = self.reserve_port()
        agent = [*TORCHRUN, "--no-python", "--nnodes=1:2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--max-restarts=3",
                 f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-conf=last_call_timeout=1", "--local-addr=127.0.0.1"]
        # Else PyTorch's agents give a node that comes later no address.
        environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
        first = self.start([*agent, *self.training("ckpt", steps=10**6)], environment)
        self.wait_until(lambda: self.reaches(3) and self.world() == 1, "one node trains", first)
        second = self.start([*agent, *self.training("ckpt", steps=10**6)], environment)
        self.wait_until(lambda: self.world() == 2, "two nodes train", first)
        kill([second.pid, *(pid for pid in ranks_of(self.marker).values() if second.pid in ancestors(pid))])
        self.finish(second)
        self.wait_until(lambda: self.world() == 1, "one node trains again", first)
        first.send_signal(signal.SIGTERM)
        self.assertIn("Going on from", self.finish(first).stderr)


class OtherWorldsInFull(RestartTest):
    """Another number of ranks goes on in the middle of an epoch."""

    def test_the_loss_is_that_of_a_training_that_two_ranks_take_to_its_end(self):
        def train(ranks, folder):
            return self.start([COHORT, "run", "-n", ranks, CHARGPT, "--strategy=ddp", "--max-epochs=4", "--threads=1",
                               f"--checkpoint-dir={folder}", "--resume=auto", "--checkpoint-every-n-steps=5",
                               "--summary-json=summary.json"])

        def loss():
            return self.summary()["metrics"]["val_loss"]

        self.assertEqual(self.finish(train(2, "undisturbed"), 300).code, 0)
        wanted = loss()
        for ranks, step in ((2, 75), (1, 105)):
            process = train(ranks, "ckpt")
            self.wait_until(lambda: self.reaches(step), f"step {step} is written", process)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(self.finish(process).code, 128 + signal.SIGTERM)
        result = self.finish(train(2, "ckpt"), 300)
        self.assertRegex(result.stderr, r"Going on from .*: step \d+, epoch 1, batch [1-9]")
        self.assertLess(abs(loss() / wanted - 1), 0.01)

    def seen(self, command, folder):
        """Runs to the end and returns the rows that were read, in the order of the epoch."""
        file = self.folder / folder / "seen"
        self.succeed([*command, f"--folder={folder}", f"--checkpoint-dir={folder}/ckpt", f"--seen={folder}/seen",
                      "--resume=auto", "--threads=1", "--summary-json=summary.json"])
        lines = file.read_text().split()
        file.unlink()
        return [int(line) for line in lines]

    def test_each_sample_counts_once_in_the_epoch(self):
        for strategy in ELASTIC:
            with self.subTest(strategy=strategy):
                folder = strategy.replace(":", "-")
                (self.folder / folder).mkdir()
                rows = []
                for ranks, steps in ((2, 5), (1, 11), (4, 12), (2, 99)):
                    rows += self.seen([COHORT, "run", "-n", ranks, DATA_PROGRAM, f"--strategy={strategy}", "--max-epochs=1",
                                       f"--max-steps={steps}", "--limit-test-batches=0"], folder)
                self.assertEqual(sorted(rows), list(range(ROWS)))
                self.assertEqual((self.summary()["steps"], self.summary()["epochs"]), (14, 1))

    def test_a_stream_says_where_it_can_go_on(self):
        command = [DATA_PROGRAM, "--source=stream", "--checkpoint-dir=ckpt", "--resume=auto", "--threads=1"]
        self.succeed([*command, "--strategy=ddp", "--devices=2", "--max-steps=5"])
        self.fail_with(2, [*command, "--max-steps=9"], "was taken in the middle of epoch 0 of 2 rank(s), and which samples are left",
                       "resume with 2, or from a checkpoint at the end of an epoch")


@unittest.skipUnless(SSHD, "no ssh server: cmake/bootstrap.sh --tests installs one")
class HostsInFull(RestartTest):
    """Nodes are hosts of a real ssh server; one that is gone has a key that nobody knows."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        serve_class(cls)

    def launcher(self, *options, slots=1):
        return [COHORT, "run", *self.hosts.options(slots), "-x", self.marker.split("=")[0], *options]

    def start_job(self, *options, folder="ckpt", **more):
        return self.start([*self.launcher(*options), *self.training(folder, **more)], self.hosts.environment())

    def lose_a_host(self, process):
        """Ends the connection to the host of rank 1; there is no other one from now on."""
        pid = self.wait_until(lambda: ranks_of(self.marker).get(1), "rank 1 runs", process)
        self.hosts.known_hosts.write_text(self.hosts.known_hosts.read_text().splitlines(keepends=True)[0])
        agents = self.wait_until(lambda: [a for a in self.hosts.agents() if a in ancestors(pid)], "its agent runs", process)
        kill(agents)

    def test_two_nodes_become_one_and_two_again_in_an_epoch(self):
        process = self.start_job("--nnodes=1:2", "--max-restarts=3", steps=400)
        self.wait_until(lambda: self.reaches(3), "two nodes train", process)
        self.lose_a_host(process)
        self.wait_until(lambda: self.world() == 1, "one node trains", process)
        self.hosts.write_what_clients_need()
        self.wait_until(lambda: self.world() == 2, "two nodes train again", process)
        result = self.finish(process)
        self.assertEqual(result.code, 0, str(result))
        self.assertIn("answers: the ranks stop, and start again with it", result.stderr)
        self.assertEqual((self.summary()["world_size"], len(set(self.summary()["weights_sha256"]))), (2, 1))

    def test_kills_of_ranks_and_agents_at_random_cost_no_step(self):
        wanted = self.undisturbed(COHORT, "run", "-n", "2")
        chance = self.chance()
        for number in range(ROUNDS):
            with self.subTest(round=number):
                shutil.rmtree(self.folder / "ckpt", ignore_errors=True)
                process = self.start_job("--max-restarts=20")
                for _ in range(chance.randrange(1, 4)):
                    time.sleep(chance.uniform(0, 1.5))
                    victims = [*ranks_of(self.marker).values(), *self.hosts.agents()]
                    if process.poll() is None and victims:
                        kill([chance.choice(victims)])
                result = self.finish(process)
                self.assertEqual(result.code, 0, str(result))
                self.assertEqual(self.summary()["weights_sha256"], wanted, str(result))
                self.nothing_is_left_behind()


if __name__ == "__main__":
    harness.main()
