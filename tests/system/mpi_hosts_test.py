"""Open MPI's own placing of ranks on hosts, over a real ssh server: what it tells the ranks, and what they need besides."""
import os
import pathlib
import shlex
import shutil
import signal
import unittest

import harness
from harness import COHORT, MNIST, MPIRUN, PLUGINS, SystemTest, processes_marked
from rank_death_test import ENDLESS
from ssh_hosts import HOSTS, SSHD, serve_class

USER = 2
JOB = ["--max-steps=20", "--epochs=1", "--limit-val-batches=2", "--limit-test-batches=2", "--seed=7", "--strategy=ddp",
       "--summary-json=summary.json"]
# Both hosts are this machine, and its shared memory cannot tell them apart: MPI_Allreduce itself crashes.
OVER_TCP = ["--mca", "btl", "self,tcp"]


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
@unittest.skipUnless(SSHD, "no ssh server: cmake/bootstrap.sh --tests installs one")
class MpiHostsTest(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        serve_class(cls)

    def nothing_is_left_behind(self):
        super().nothing_is_left_behind()
        self.wait_until(lambda: not self.hosts.agents(), "the daemons of mpirun have ended")
        self.assertEqual(self.hosts.temporary_files(), [], "temporary files left behind on the hosts")

    def mpirun(self, slots, *options, address=True):
        place = ["-x", f"MASTER_ADDR={HOSTS[0]}", "-x", f"MASTER_PORT={self.reserve_port()}"] if address else []
        return [*MPIRUN, "--mca", "plm_rsh_args", f"-p {self.hosts.port}", "-np", str(slots * len(HOSTS)),
                "--host", ",".join(f"{host}:{slots}" for host in HOSTS), "-x", "OMP_NUM_THREADS=1",
                "-x", self.marker.split("=")[0], *OVER_TCP, *place, *options]

    def digest(self, launcher, *arguments):
        self.succeed([*launcher, MNIST, *JOB, *arguments], self.hosts.environment(OMP_NUM_THREADS="1"))
        digests = set(self.summary()["weights_sha256"])
        self.assertEqual(len(digests), 1, "ranks ended with different weights")
        return digests.pop()

    def gives_the_bits_of_one_machine(self, slots, wires):
        wanted = self.digest([COHORT, "run", "-n", str(2 * slots)], "--collective=shm")
        for flag, name in wires.items():
            with self.subTest(slots=slots, wire=name):
                got = self.digest(self.mpirun(slots), *([flag] if flag else []))
                summary = self.summary()
                self.assertEqual((summary["collective"], summary["num_nodes"]), (name, 2))
                if "hier" not in name or slots == 1:  # a sum of sums is another order
                    self.assertEqual(got, wanted)


class MpiHosts(MpiHostsTest):
    def test_ranks_on_two_hosts_need_an_address_and_say_how_to_give_it(self):
        self.fail_with(USER, [*self.mpirun(1, address=False), MNIST, *JOB], "set MASTER_ADDR and MASTER_PORT", "mpirun -x", "mpiexec -genv",
                       environment=self.hosts.environment())

    def test_one_rank_on_each_of_two_hosts_gives_the_bits_of_one_machine(self):
        self.gives_the_bits_of_one_machine(1, {"": "hier(shm,gloo)"})

    def test_what_decided_a_rank_s_place_is_shown(self):
        for by, node_ranks in (("slot", [0, 0, 1, 1]), ("node", [0, 1, 0, 1])):
            with self.subTest(by=by):
                show = f"echo $OMPI_COMM_WORLD_RANK `{shlex.quote(COHORT)} env | grep node_rank`"
                shown = self.succeed([*self.mpirun(2, "--map-by", by), "sh", "-c", show], self.hosts.environment())
                places = sorted(line.split()[:3] for line in shown.stdout.splitlines())
                self.assertEqual(places, [[str(rank), "node_rank", str(node)] for rank, node in enumerate(node_ranks)], str(shown))


class InFull(MpiHostsTest):
    def test_every_wire_between_hosts_gives_the_bits_of_one_machine(self):
        for slots in (1, 2):
            self.gives_the_bits_of_one_machine(slots, {"": "hier(shm,gloo)", "--collective=gloo": "gloo"})

    @unittest.skipUnless((PLUGINS / "cohort_mpi.so").exists(), "built without MPI")
    def test_mpi_between_hosts_gives_the_bits_of_one_machine(self):
        for slots in (1, 2):
            self.gives_the_bits_of_one_machine(slots, {"--collective=mpi": "mpi"})

    def test_a_hostfile_places_ranks_alike(self):
        hostfile = self.folder / "hosts"
        hostfile.write_text("".join(f"{host} slots=2\n" for host in HOSTS))
        launcher = self.mpirun(2)
        at = launcher.index("--host")
        launcher[at:at + 2] = ["--hostfile", hostfile]
        self.digest(launcher, "--collective=gloo")
        self.assertEqual(self.summary()["num_nodes"], 2)

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "there is no mpiexec.hydra: cmake/bootstrap.sh --tests installs it")
    def test_the_mpiexec_of_mpich_gives_the_bits_of_one_machine(self):
        ssh = self.folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec "{self.hosts.command}" -p {self.hosts.port} "$@"\n')
        ssh.chmod(0o755)
        for slots in (1, 2):
            with self.subTest(slots=slots):
                launcher = ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", ssh, "-hosts", ",".join(HOSTS), "-ppn", str(slots),
                            "-n", str(2 * slots), "-genv", "MASTER_ADDR", HOSTS[0], "-genv", "MASTER_PORT", str(self.reserve_port())]
                got = self.digest(launcher, "--collective=gloo")
                self.assertEqual(self.summary()["num_nodes"], 2)
                self.assertEqual(got, self.digest([COHORT, "run", "-n", str(2 * slots)], "--collective=shm"))

    def test_hosts_with_unequal_ranks_are_refused(self):
        launcher = self.mpirun(2)
        launcher[launcher.index("-np") + 1] = "3"
        self.fail_with(USER, [*launcher, MNIST, *JOB], "fewer ranks", environment=self.hosts.environment())

    def test_a_killed_rank_ends_the_ranks_of_both_hosts(self):
        process = self.start([*self.mpirun(1), MNIST, "--strategy=ddp", "--timeout=30s", "--log-dir=logs", *ENDLESS],
                             self.hosts.environment())
        self.wait_until_step(process, 20)
        pids = [pid for pid in processes_marked(self.marker) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "mnist\n"]
        self.assertEqual(len(pids), 2)
        os.kill(pids[1], signal.SIGKILL)
        result = self.finish(process)
        self.assertNotEqual(result.code, 0)
        self.assertIn(f"pid {pids[1]}", result.stderr, str(result))


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
class Binding(SystemTest):
    def test_threads_follow_the_cores_that_mpirun_binds_to(self):
        cores = len(os.sched_getaffinity(0))
        for binding, usable in (("core", 1), ("none", cores)):
            with self.subTest(binding=binding):
                shown = self.succeed([*MPIRUN, "--bind-to", binding, "-np", "1", COHORT, "env"]).stdout
                self.assertRegex(shown, rf"usable_cores +{usable}\n")

    def test_more_ranks_than_cores_get_one_thread_each(self):
        ranks = 2 * len(os.sched_getaffinity(0))
        shown = self.succeed([*MPIRUN, "-np", str(ranks), COHORT, "env"]).stdout
        threads = [line.split()[1] for line in shown.splitlines() if line.startswith("threads_per_rank")]
        self.assertEqual(threads, ["1"] * ranks)


if __name__ == "__main__":
    harness.main(at_once=2)  # they wait for much of their time
