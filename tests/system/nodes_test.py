"""Two nodes, simulated or started one by one, train to the weights of one process with the joined batch, over every wire."""
import os
import signal
import socket

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import COHORT, MNIST, MPIRUN, NUMERICS, TORCHRUN, SystemTest, connections_of
from rank_death_test import ENDLESS, ranks_of

USER, PEER = 2, 4
NODES, RANKS = 2, 4
STEPS, BATCH, FEATURES = 20, 4, 784
SPREAD = [COHORT, "run", f"--nnodes={NODES}", f"--nproc-per-node={RANKS // NODES}"]
THIN = [COHORT, "run", f"--nnodes={NODES}", "--nproc-per-node=1"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class NodesTest(SystemTest):
    trained_alone = None  # the weights of one process: the same in all tests

    def make_data(self, steps=STEPS, ranks=RANKS):
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(steps, ranks, BATCH, FEATURES, generator=generator)
        y = torch.randint(0, 10, (steps, ranks, BATCH), generator=generator)
        save_file({"x": x, "y": y}, self.folder / "data.safetensors")
        save_file({"x": x.reshape(steps, 1, ranks * BATCH, FEATURES), "y": y.reshape(steps, 1, ranks * BATCH)},
                  self.folder / "joined.safetensors")

    def program(self, out, strategy="ddp", data="data", steps=STEPS, timeout="60s", more=()):
        return [NUMERICS, "--model=mlp_small", f"--strategy={strategy}", f"--data-from={self.folder / data}.safetensors",
                f"--steps={steps}", "--dtype=float64", "--optimizer=sgd_momentum", "--lr=0.01", "--threads=1", "--seed=3",
                f"--save-final={self.folder / out}.safetensors", f"--timeout={timeout}",
                f"--summary-json={self.folder / out}.json", *more]

    def train(self, launcher, out, collective, environment=None):
        more = [f"--collective={collective}"] if collective else []
        self.log = self.succeed([*launcher, *self.program(out, more=more)], {**ONE_THREAD, **(environment or {})}).stderr
        return self.weights(out)

    def weights(self, out):
        summary = self.summary(f"{out}.json")
        self.assertEqual((summary["world_size"], summary["num_nodes"]), (RANKS, NODES))
        self.assertEqual(len(summary["weights_sha256"]), RANKS)
        self.assertEqual(len(set(summary["weights_sha256"])), 1, "ranks ended with different weights")
        return load_file(self.folder / f"{out}.safetensors"), summary

    def single(self):
        if NodesTest.trained_alone is None:
            self.succeed(self.program("single", "single", "joined"), ONE_THREAD)
            NodesTest.trained_alone = load_file(self.folder / "single.safetensors")
        return NodesTest.trained_alone

    def compare(self, got, wanted):
        for name, tensor in wanted.items():
            difference = (got[name] - tensor).norm() / max(tensor.norm(), 1e-12)
            self.assertLessEqual(difference.item(), 1e-9, name)


    def train_on(self, wires):
        self.make_data()
        for number, (collective, name) in enumerate(wires.items()):
            with self.subTest(collective=collective):
                got, summary = self.train(SPREAD, f"nodes{number}", collective)
                self.assertEqual(summary["collective"], name)
                self.compare(got, self.single())

    def train_one_by_one(self, commands):
        """The nodes are started in this order."""
        for process in [self.start([*command, *self.program("apart")], ONE_THREAD) for command in commands]:
            result = self.finish(process, 120)
            self.assertEqual(result.code, 0, str(result))
        got, summary = self.weights("apart")
        self.assertEqual(summary["collective"], "hier(shm,gloo)")
        self.compare(got, self.single())

    def refuse(self, collective, *texts):
        self.make_data(2, ranks=NODES)
        self.fail_with(USER, [*THIN, *self.program("bad", steps=2, timeout="30s", more=[f"--collective={collective}"])], *texts)

    def strike(self, victim, signal_number, collective):
        # A kill is noticed at once; only a stop waits for the deadline.
        timeout = 5 if signal_number == signal.SIGSTOP else 300
        logs = f"logs-{collective}-{victim}"
        process = self.start([*SPREAD, MNIST, f"--collective={collective}", f"--timeout={timeout}s", f"--log-dir={logs}", *ENDLESS])
        self.wait_until_step(process, 1, f"{logs}/version_0/metrics.csv")
        pid = ranks_of(self.marker)[victim]
        os.kill(pid, signal_number)
        result = self.finish(process)
        self.assertEqual(result.code, PEER if signal_number == signal.SIGSTOP else 128 + signal_number, str(result))
        for line in result.stderr.splitlines():
            if "error:" in line:
                self.assertRegex(line.split("error:", 1)[1], rf"\(pid {pid}\b", "who complains complains about the victim")


class Nodes(NodesTest):
    def test_simulated_nodes_train_to_the_weights_of_the_joined_batch(self):
        self.train_on({"": "hier(shm,gloo)"})
        self.assertIn("distributed_backend=hier(shm,gloo)", self.log)
        self.assertIn("Using collective hier: not shm (it connects the ranks of one machine", self.log)

    def test_nodes_started_one_by_one_find_each_other(self):
        self.make_data()
        address = ["--master-addr=127.0.0.1", f"--master-port={self.reserve_port()}"]
        self.train_one_by_one([[*SPREAD, f"--node-rank={node}", *address] for node in (1, 0)])

    def test_wires_that_cannot_serve_are_refused_in_a_sentence(self):
        self.refuse("shm", "it connects the ranks of one machine")
        self.refuse("hier,across=gloo,,iface=eht7", "'eht7' does not exist", "lo (127.0.0.1)")

    def test_an_address_that_leads_nowhere_is_named(self):
        self.make_data(2, ranks=NODES)
        port = self.reserve_port()
        for address, code, text in (("no-such-host.invalid", USER, "MASTER_ADDR 'no-such-host.invalid' cannot be resolved"),
                                    ("127.0.0.1", PEER, "rank 0 of this job did not come within 2 s: it does not run on this machine")):
            with self.subTest(address=address):
                self.fail_with(code, [*THIN, "--node-rank=1", f"--master-addr={address}", f"--master-port={port}",
                                      *self.program("bad", steps=2, timeout="2s", more=["--insecure"])], text)

    def test_a_port_in_use_on_the_first_node(self):
        self.make_data(2, ranks=NODES)
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            self.fail_with(USER, [*THIN, "--node-rank=0", "--master-addr=node0", f"--master-port={port}",
                                  *self.program("bad", steps=2)], str(port))

    def test_a_killed_rank_is_named_on_its_node_and_on_the_other(self):
        self.strike(3, signal.SIGKILL, "hier")


class InFull(NodesTest):
    """More wires, launchers, refusals and victims."""

    def test_simulated_nodes_train_to_the_weights_of_the_joined_batch_on_every_wire(self):
        self.train_on({"gloo": "gloo", "hier,node=gloo": "hier(gloo,gloo)",
                       "sim,over=shm,bandwidth=10Gbit,latency=10us": "sim(shm)",
                       "hier,across=sim,,over=gloo,,bandwidth=1Gbit": "hier(shm,sim)"})

    def test_gloo_and_shm_give_the_same_bits(self):
        self.make_data()
        spread, _ = self.train(SPREAD, "gloo", "gloo")
        self.succeed([COHORT, "run", "-n", str(RANKS), *self.program("shm", more=["--collective=shm"])], ONE_THREAD)
        together = load_file(self.folder / "shm.safetensors")
        for name, tensor in spread.items():
            self.assertTrue(torch.equal(tensor, together[name]), name)

    def test_nodes_that_torchrun_starts_one_by_one_find_each_other(self):
        self.make_data()
        torchrun = [*TORCHRUN, "--no-python", f"--nnodes={NODES}", f"--nproc-per-node={RANKS // NODES}",
                    "--master-addr=127.0.0.1", f"--master-port={self.reserve_port()}"]
        self.train_one_by_one([[*torchrun, f"--node-rank={node}"] for node in (1, 0)])

    def test_mpirun_on_two_hosts_needs_and_takes_an_address(self):
        self.make_data()
        # As mpirun sets them on two hosts with two slots each.
        place = ("OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % 2)) "
                 "OMPI_COMM_WORLD_NODE_RANK=$((OMPI_COMM_WORLD_RANK % 2)) exec \"$@\"")
        launcher = [*MPIRUN, "-np", str(RANKS), "sh", "-c", place, "sh"]
        self.fail_with(USER, [*launcher, *self.program("mpi")], "MASTER_ADDR")
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.reserve_port())}
        got, summary = self.train(launcher, "mpi", "", address)
        self.assertEqual(summary["collective"], "hier(shm,gloo)")
        self.compare(got, self.single())

    def test_other_wires_that_cannot_serve_are_refused_in_a_sentence(self):
        self.refuse("hier,across=shm", "it connects the ranks of one machine")
        self.refuse("gloo,iface=eht7", "'eht7' does not exist", "lo (127.0.0.1)")
        self.refuse("hier,across=glu", "there is no collective 'glu'")
        self.refuse("hier,acros=gloo", "acros", "across")
        self.refuse("sim,over=sim", "over")
        self.refuse("sim,bandwidth=0", "bandwidth")

    def test_hier_connects_a_rank_to_one_of_each_other_node(self):
        for collective, connections in (("hier", 2 * (NODES - 1)), ("gloo", 2 * (RANKS - 1))):
            with self.subTest(collective=collective):
                logs = f"logs-{collective}"
                process = self.start([*SPREAD, MNIST, f"--collective={collective}", "--strategy=sharded", f"--log-dir={logs}", *ENDLESS])
                self.wait_until_step(process, 1, f"{logs}/version_0/metrics.csv")
                found = {rank: connections_of(pid) for rank, pid in ranks_of(self.marker).items()}
                process.terminate()
                self.finish(process)
                self.assertEqual(found, dict.fromkeys(range(RANKS), connections))

    def test_killed_ranks_of_both_nodes_are_named_on_both(self):
        for collective, victim in (("gloo", 3), ("hier", 0)):
            with self.subTest(collective=collective, victim=victim):
                self.strike(victim, signal.SIGKILL, collective)

    def test_a_stopped_rank_is_named_at_the_deadline(self):
        for collective, victim in (("gloo", 0), ("hier", 3)):
            with self.subTest(collective=collective, victim=victim):
                self.strike(victim, signal.SIGSTOP, collective)


if __name__ == "__main__":
    harness.main()
