"""Two nodes, simulated or started one by one, train to the weights of one process with the joined batch, over every wire."""
import os
import shutil
import signal
import socket
import time
import unittest

import torch
from safetensors.torch import load_file, save_file

from harness import COHORT, MNIST, MPIRUN, NUMERICS, TORCHRUN, Result, SystemTest
from rank_death_test import ENDLESS, ranks_of

USER, PEER = 2, 4
NODES, RANKS = 2, 4
STEPS, BATCH, FEATURES = 20, 4, 784
SPREAD = [COHORT, "run", f"--nnodes={NODES}", f"--nproc-per-node={RANKS // NODES}"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NodesTest(SystemTest):
    def make_data(self, steps=STEPS):
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(steps, RANKS, BATCH, FEATURES, generator=generator)
        y = torch.randint(0, 10, (steps, RANKS, BATCH), generator=generator)
        save_file({"x": x, "y": y}, self.folder / "data.safetensors")
        save_file({"x": x.reshape(steps, 1, RANKS * BATCH, FEATURES), "y": y.reshape(steps, 1, RANKS * BATCH)},
                  self.folder / "joined.safetensors")

    def program(self, out, strategy="ddp", data="data", steps=STEPS, more=()):
        return [NUMERICS, "--model=mlp_small", f"--strategy={strategy}", f"--data-from={self.folder / data}.safetensors",
                f"--steps={steps}", "--dtype=float64", "--optimizer=sgd_momentum", "--lr=0.01", "--threads=1", "--seed=3",
                f"--save-final={self.folder / out}.safetensors", "--timeout=60s",
                f"--summary-json={self.folder / out}.json", *more]

    def train(self, launcher, out, collective, environment=None):
        more = [f"--collective={collective}"] if collective else []
        self.succeed([*launcher, *self.program(out, more=more)], {**ONE_THREAD, **(environment or {})})
        return self.weights(out)

    def weights(self, out):
        summary = self.summary(f"{out}.json")
        self.assertEqual((summary["world_size"], summary["num_nodes"]), (RANKS, NODES))
        self.assertEqual(len(summary["weights_sha256"]), RANKS)
        self.assertEqual(len(set(summary["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(self.folder / f"{out}.safetensors"), summary

    def single(self):
        self.succeed(self.program("single", "single", "joined"), ONE_THREAD)
        return load_file(self.folder / "single.safetensors")

    def compare(self, got, wanted):
        for name, tensor in wanted.items():
            difference = (got[name] - tensor).norm() / max(tensor.norm(), 1e-12)
            self.assertLessEqual(difference.item(), 1e-9, name)


class Nodes(NodesTest):
    def test_simulated_nodes_train_to_the_weights_of_the_joined_batch_on_every_wire(self):
        self.make_data()
        wanted = self.single()
        wires = {"": "hier(shm,gloo)", "gloo": "gloo", "hier,node=gloo": "hier(gloo,gloo)",
                 "sim,over=shm,bandwidth=10Gbit,latency=10us": "sim(shm)",
                 "hier,across=sim,,over=gloo,,bandwidth=1Gbit": "hier(shm,sim)"}
        for number, (collective, name) in enumerate(wires.items()):
            with self.subTest(collective=collective):
                got, summary = self.train(SPREAD, f"nodes{number}", collective)
                self.assertEqual(summary["collective"], name)
                self.compare(got, wanted)

    def test_gloo_and_shm_give_the_same_bits(self):
        self.make_data()
        spread, _ = self.train(SPREAD, "gloo", "gloo")
        self.succeed([COHORT, "run", "-n", str(RANKS), *self.program("shm", more=["--collective=shm"])], ONE_THREAD)
        together = load_file(self.folder / "shm.safetensors")
        for name, tensor in spread.items():
            self.assertTrue(torch.equal(tensor, together[name]), name)

    def test_the_log_says_which_wire_was_chosen_and_why(self):
        self.make_data(2)
        result = self.succeed([*SPREAD, *self.program("log", steps=2)], ONE_THREAD)
        self.assertIn("distributed_backend=hier(shm,gloo)", result.stderr)
        self.assertIn("Using collective hier: not shm (shm connects the ranks of one machine", result.stderr)

    def one_by_one(self, commands, environment):
        processes = [self.start(command, {**ONE_THREAD, **environment}) for command in commands]
        for process in processes:
            stdout, stderr = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, str(Result(process.returncode, stdout, stderr)))

    def test_nodes_started_one_by_one_find_each_other(self):
        self.make_data()
        wanted = self.single()
        port = free_port()
        for launcher in ("cohort run", "torchrun"):
            with self.subTest(launcher=launcher):
                commands = []
                for node in reversed(range(NODES)):
                    if launcher == "cohort run":
                        start = [*SPREAD, f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port}"]
                    else:
                        start = [*TORCHRUN, "--no-python", f"--nnodes={NODES}", f"--nproc-per-node={RANKS // NODES}",
                                 f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port + 1}"]
                    commands.append([*start, *self.program("apart")])
                self.one_by_one(commands, {})
                got, summary = self.weights("apart")
                self.assertEqual(summary["collective"], "hier(shm,gloo)")
                self.compare(got, wanted)

    def test_mpirun_on_two_hosts_needs_and_takes_an_address(self):
        self.make_data()
        # As mpirun sets them on two hosts with two slots each.
        place = ("OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % 2)) "
                 "OMPI_COMM_WORLD_NODE_RANK=$((OMPI_COMM_WORLD_RANK % 2)) exec \"$@\"")
        launcher = [*MPIRUN, "-np", str(RANKS), "sh", "-c", place, "sh"]
        self.fail_with(USER, [*launcher, *self.program("mpi")], "MASTER_ADDR")
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        got, summary = self.train(launcher, "mpi", "", address)
        self.assertEqual(summary["collective"], "hier(shm,gloo)")
        self.compare(got, self.single())


class BadNodes(NodesTest):
    def refused(self, code, collective, *texts, environment=None, launcher=SPREAD):
        self.make_data(2)
        command = [*launcher, *self.program("bad", steps=2, more=[f"--collective={collective}", "--timeout=5s"])]
        return self.fail_with(code, command, *texts, environment=environment)

    def test_wires_that_cannot_serve_are_refused_in_a_sentence(self):
        self.refused(USER, "shm", "shm connects the ranks of one machine")
        self.refused(USER, "hier,across=shm", "shm connects the ranks of one machine")
        self.refused(USER, "gloo,iface=eht7", "'eht7' does not exist", "lo (127.0.0.1)")
        self.refused(USER, "hier,across=gloo,,iface=eht7", "'eht7' does not exist")
        self.refused(USER, "hier,across=glu", "there is no collective 'glu'")
        self.refused(USER, "hier,acros=gloo", "acros", "across")
        self.refused(USER, "sim,over=sim", "over")
        self.refused(USER, "sim,bandwidth=0", "bandwidth")

    def test_an_address_that_leads_nowhere_is_named(self):
        self.make_data(2)
        port = free_port()
        for address in ("no-such-host.invalid", "127.0.0.1"):
            with self.subTest(address=address):
                self.fail_with(PEER, [*SPREAD, "--node-rank=1", f"--master-addr={address}", f"--master-port={port}",
                                      *self.program("bad", steps=2, more=["--timeout=2s"])], address, "MASTER_ADDR")

    def test_a_port_in_use_on_the_first_node(self):
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.make_data(2)
            self.fail_with(USER, [*SPREAD, "--node-rank=0", "--master-addr=127.0.0.1", f"--master-port={port}",
                                  *self.program("bad", steps=2)], str(port))


class DeadNodes(SystemTest):
    def strike(self, victim, signal_number, collective, timeout):
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        process = self.start([*SPREAD, MNIST, f"--collective={collective}", f"--timeout={timeout}s", "--log-dir=logs", *ENDLESS])
        log = self.folder / "logs/rank-0.log"
        deadline = time.monotonic() + 60
        while "All distributed processes registered" not in (log.read_text() if log.exists() else ""):
            self.assertLess(time.monotonic(), deadline, "the ranks did not come together")
            time.sleep(0.02)
        time.sleep(1)
        pid = ranks_of(self.marker)[victim]
        os.kill(pid, signal_number)
        begin = time.monotonic()
        try:
            _, stderr = process.communicate(timeout=40)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.assertLess(time.monotonic() - begin, timeout + 5, stderr)
        for line in stderr.splitlines():
            if "error:" in line:
                self.assertRegex(line.split("error:", 1)[1], rf"\(pid {pid}\b", "who complains complains about the victim")
        return process.returncode, stderr

    def test_a_killed_rank_is_named_on_its_node_and_on_the_other(self):
        for collective, victim in (("gloo", 3), ("hier", 3), ("hier", 0)):
            with self.subTest(collective=collective, victim=victim):
                code, stderr = self.strike(victim, signal.SIGKILL, collective, 60)
                self.assertEqual(code, 128 + signal.SIGKILL, stderr)

    def test_a_stopped_rank_is_named_at_the_deadline(self):
        for collective, victim in (("gloo", 0), ("hier", 3)):
            with self.subTest(collective=collective, victim=victim):
                code, stderr = self.strike(victim, signal.SIGSTOP, collective, 3)
                self.assertEqual(code, 4, stderr)


if __name__ == "__main__":
    unittest.main()
