"""`cohort run -H` over a real ssh server: training on two hosts, everything that can be wrong with a host, and what is left behind."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

import harness
from harness import BUILD, COHORT, MNIST, descendants, reserved_port
from nodes_test import ONE_THREAD, PEER, RANKS, USER, NodesTest
from rank_death_test import ENDLESS, ranks_of
from ssh_hosts import HOSTS, SSHD, SshHosts, TwoNetworks, serve_class, make_key, why_no_networks

RANK = str(BUILD / "tests/launch_test_rank")
KILLED = 128 + signal.SIGKILL
SHORT_SILENCE = ["--silence-timeout", "6s"]
NOTICED = 40  # seconds: too little for the silence that is allowed without the option


@unittest.skipUnless(SSHD, "no ssh server: cmake/bootstrap.sh --tests installs one")
class SshTest(NodesTest):
    """One server serves the tests of a class; what a test changes is as before for the next one."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        serve_class(cls, cls.make_hosts)

    @classmethod
    def make_hosts(cls, folder):
        return SshHosts(folder)

    def setUp(self):
        super().setUp()
        self.hosts.write_what_clients_need()
        self.hosts.close_connections()  # of a test before that has cut them off

    def nothing_is_left_behind(self):
        super().nothing_is_left_behind()
        self.assertEqual(self.hosts.temporary_files(), [], "temporary files left behind on the hosts")

    def run_on_hosts(self, *arguments, slots=2, hosts=None, port=None, options=()):
        """Ranks on other hosts carry the marker too, so that they are found where they stay."""
        return [COHORT, "run", *self.hosts.options(slots, hosts, port), "-x", self.marker.split("=")[0], *options, *arguments]

    def start_on_hosts(self, *arguments, **more):
        return self.start(self.run_on_hosts(*arguments, **more), self.hosts.environment(**ONE_THREAD))

    def fails_to_start(self, code, *texts, program=None, **more):
        """One sentence, and no rank has run."""
        trace = self.folder / "a-rank-has-run"
        command = self.run_on_hosts(*([program] if program else ["touch", trace]), **more)
        result = self.fail_with(code, command, *texts, environment=self.hosts.environment())
        self.assertEqual(len(result.stderr.splitlines()), 1, str(result))
        self.assertFalse(trace.exists(), "a rank has run")
        return result

    def when_ranks_run(self, process, count=RANKS):
        self.wait_until(lambda: len(ranks_of(self.marker)) == count, "the ranks run", process)
        return ranks_of(self.marker)

    def start_training(self):
        """The launcher of ranks that train without end, in the midst of it, and the ranks."""
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        process = self.start_on_hosts(MNIST, "--strategy=ddp", "--timeout=30s", "--log-dir=logs", *ENDLESS)
        ranks = self.when_ranks_run(process)
        self.wait_until_step(process, 20)
        return process, ranks

    def when_no_rank_runs(self):
        self.wait_until(lambda: not ranks_of(self.marker), "the ranks have ended")


class TrainingTest(SshTest):
    def trains_to_the_weights_of_the_joined_batch(self, collective, name):
        self.make_data()
        got, summary = self.train(self.run_on_hosts(), f"ssh-{name[:4]}", collective, self.hosts.environment())
        self.assertEqual(summary["collective"], name)
        self.compare(got, self.single())


class Training(TrainingTest):
    def test_two_hosts_train_to_the_weights_of_the_joined_batch(self):
        self.trains_to_the_weights_of_the_joined_batch("", "hier(shm,gloo)")

    def test_output_comes_back_and_goes_to_files_by_rank(self):
        result = self.succeed(self.run_on_hosts("sh", "-c", "echo out $RANK $ADDED; echo err $RANK >&2; pwd", options=[
            "--output-filename", "files", "-x", "ADDED=it's two words", "--start-timeout", "30"]), self.hosts.environment())
        for rank in range(RANKS):
            self.assertIn(f"out {rank} it's two words\n", result.stdout)
            self.assertIn(f"err {rank}\n", result.stderr)
            self.assertEqual((self.folder / f"files/rank.{rank}/stdout").read_text(),
                             f"out {rank} it's two words\n{self.folder}\n")

    def test_horovodruns_spelling_runs_on_this_machine_too(self):
        result = self.succeed([COHORT, "run", "-np", "4", "--output-filename", "files", "sh", "-c", "echo rank $RANK"])
        self.assertEqual(sorted(result.stdout.splitlines()), [f"rank {rank}" for rank in range(4)])
        self.assertEqual((self.folder / "files/rank.3/stdout").read_text(), "rank 3\n")

    def test_the_environment_that_must_go_goes_and_no_other(self):
        result = self.succeed(self.run_on_hosts("env", slots=1), self.hosts.environment(
            COHORT_TIMEOUT="77s", OMP_NUM_THREADS="3", LD_LIBRARY_PATH="/here", NOT_ASKED_FOR="secret"))
        self.assertEqual(result.stdout.count("COHORT_TIMEOUT=77s\n"), 2)
        self.assertEqual(result.stdout.count("OMP_NUM_THREADS=3\n"), 2)
        self.assertEqual(result.stdout.count("LD_LIBRARY_PATH=/here\n"), 2)
        self.assertNotIn("NOT_ASKED_FOR", result.stdout)

    def test_values_are_on_no_command_line(self):
        process = self.start_on_hosts(RANK, "wait", options=["-x", "TOKEN=secret-of-the-user"])
        ranks = self.when_ranks_run(process)
        self.assertIn(b"TOKEN=secret-of-the-user", pathlib.Path(f"/proc/{ranks[3]}/environ").read_bytes())
        shown = [entry.read_bytes() for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                 if entry.parent.name != str(process.pid)]
        self.assertFalse(any(b"secret-of-the-user" in line for line in shown))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process).code, 128 + signal.SIGTERM)


class TrainingInFull(TrainingTest):
    def test_two_hosts_train_over_gloo_alone_too(self):
        self.trains_to_the_weights_of_the_joined_batch("gloo", "gloo")

    def test_this_machine_and_another_one_train_together(self):
        self.make_data()
        hostfile = self.folder / "hosts"
        hostfile.write_text(f"localhost slots=2\n{HOSTS[0]} slots=2  # over ssh\n")
        launcher = [COHORT, "run", "-np", str(RANKS), "--hostfile", hostfile, "--ssh-port", str(self.hosts.port),
                    "-i", self.hosts.key]
        got, _ = self.train(launcher, "mixed", "", self.hosts.environment())
        self.compare(got, self.single())


class BadHosts(SshTest):
    def test_a_name_that_does_not_exist(self):
        self.fails_to_start(USER, "no-such-host.invalid", "has no address", hosts="no-such-host.invalid:2")

    def test_an_address_where_nothing_answers(self):
        self.fails_to_start(USER, "127.0.0.9", "--ssh-port", hosts=f"{HOSTS[0]}:2,127.0.0.9:2")

    def test_a_port_where_nothing_answers(self):
        with reserved_port() as port:
            self.fails_to_start(USER, f"on port {port}", "--ssh-port", port=port)

    def test_a_host_that_says_nothing_within_its_time(self):
        with socket.socket() as silent:
            silent.bind((HOSTS[0], 0))
            silent.listen()
            port = silent.getsockname()[1]
            # Without its time it would be ssh's own, two minutes.
            result = self.run_program(self.run_on_hosts("true", hosts=HOSTS[0], port=port, options=["--start-timeout", "3s"]),
                                      self.hosts.environment(), timeout=NOTICED)
        self.assertIn(result.code, (USER, PEER), str(result))
        self.assertIn(HOSTS[0], result.stderr)

    def test_a_key_that_is_refused(self):
        self.hosts.authorized.write_text("")
        self.fails_to_start(USER, "host 127.0.0.", "refuses this user's key", "--ssh-identity-file")

    def test_the_right_key_among_wrong_ones(self):
        other = make_key(self.folder / "other key")
        self.hosts.authorized.write_text((self.folder / "other key.pub").read_text())
        self.succeed(self.run_on_hosts("true", options=["--ssh-identity-file", other]), self.hosts.environment())

    def test_a_host_whose_key_is_unknown_or_another(self):
        known = self.hosts.known_hosts.read_text()
        self.hosts.known_hosts.write_text("")
        self.fails_to_start(USER, "is not known to ssh here", "known_hosts")
        self.hosts.known_hosts.write_text(known.replace(known.split()[2], (self.hosts.folder / "key.pub").read_text().split()[1]))
        self.fails_to_start(USER, "another key than the one known here", "ssh-keygen -R")

    def test_cohort_missing_there(self):
        moved = self.folder / "bin/cohort"
        moved.parent.mkdir()
        shutil.copy(COHORT, moved)
        libraries = str(BUILD / "lib")
        # The path exists when this machine asks, and not any more when the host does.
        self.hosts.command.write_text(self.hosts.command.read_text().replace("exec", f"rm -f {moved}; exec"))
        command = [moved, *self.run_on_hosts("true")[1:]]
        result = self.fail_with(USER, command, str(moved), "install cohort under the same path",
                                environment=self.hosts.environment(LD_LIBRARY_PATH=libraries))
        self.assertEqual(len(result.stderr.splitlines()), 1, str(result))

    def test_a_program_missing_there(self):
        for program in ("./missing", "/no/such/program"):
            self.fails_to_start(USER, "host 127.0.0.", f"'{program}'", program=program)
        self.fail_with(USER, self.run_on_hosts("no-such-program-anywhere"), "PATH", environment=self.hosts.environment())

    def test_more_processes_than_slots(self):
        self.fails_to_start(USER, "-np 5", "4 slots", options=["-np", "5"])
        self.fails_to_start(USER, "equally many", options=["-np", "3"])

    def test_hosts_that_are_none(self):
        for text in ("", ",", "a:0", "a:x", "-oProxyCommand=touch:1", "a b", "a;b", "$(id)", "a:1:2", "a,,b", "::1", "a\nb", ":3"):
            with self.subTest(text=text):
                result = self.run_program([COHORT, "run", "-np", "1", "-H", text, "true"])
                self.assertEqual(result.code, USER, str(result))
                self.assertRegex(result.stderr, "-H|--hosts")

    def test_flags_that_contradict_each_other(self):
        for options, text in ((["-H", "a", "--hostfile", "b"], "leave one of them out"), (["-H", "a", "--nnodes=2"], "--nnodes"),
                              (["-n", "1", "--ssh-port=22"], "-H host1:4"), (["-n", "1", "-x", "NOT_SET_AT_ALL"], "NOT_SET_AT_ALL"),
                              (["-n", "1", "-x", "=3"], "no name"), (["--hostfile=/no/file"], "/no/file"),
                              (["-H", "a", "--start-timeout=never"], "--start-timeout"), (["-H", "a", "-p", "0"], "ssh-port"),
                              (["-H", "a", "--silence-timeout=5s"], "--silence-timeout"),
                              (["-H", "a", "--silence-timeout=25h"], "--silence-timeout"),
                              (["-n", "1", "--silence-timeout=6s"], "--silence-timeout")):
            with self.subTest(options=options):
                self.fail_with(USER, [COHORT, "run", *options, "true"], text)


class EndsTest(SshTest):
    def code_reaches_the_launcher(self, code, end, *texts):
        result = self.fail_with(code, self.run_on_hosts(RANK, f"3:{end}", "wait"), "rank 3 (pid ", *texts,
                                environment=self.hosts.environment())
        self.assertEqual(len(result.stderr.splitlines()), 1, str(result))


class Ends(EndsTest):
    def test_the_code_of_the_rank_that_failed_reaches_the_launcher(self):
        self.code_reaches_the_launcher(7, "exit=7", "exit code 7")

    def test_nothing_outlives_a_launcher_that_is_killed(self):
        for stubborn in ([], ["ignore=15", "ignore=2", "ignore=1"]):
            process = self.start_on_hosts(RANK, *stubborn, "wait")
            self.when_ranks_run(process)
            process.kill()
            process.communicate()
            self.when_no_rank_runs()
            self.nothing_is_left_behind()

    def test_a_connection_that_breaks_is_named_with_its_host(self):
        process = self.start_on_hosts(RANK, "wait")
        self.when_ranks_run(process)
        self.hosts.send(self.hosts.connections()[0], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, PEER, str(result))
        self.assertRegex(result.stderr, "the connection to host 127.0.0.[23] ended")
        self.when_no_rank_runs()


class EndsInFull(EndsTest):
    def test_every_code_and_signal_reaches_the_launcher(self):
        for code in (1, 127, 255):
            self.code_reaches_the_launcher(code, f"exit={code}", f"exit code {code}")
        self.code_reaches_the_launcher(KILLED, f"signal={signal.SIGKILL}", "signal 9")

    def test_a_killed_rank_is_named_and_ends_training_on_both_hosts(self):
        for victim in (3, 0):
            process, ranks = self.start_training()
            pid = ranks[victim]
            os.kill(pid, signal.SIGKILL)
            result = self.finish(process)
            self.assertEqual(result.code, KILLED, str(result))
            self.assertIn(f"rank {victim} (pid {pid}) on", result.stderr)
            for line in result.stderr.splitlines():
                if "error:" in line:
                    self.assertRegex(line, rf"\(pid {pid}\b", "who complains complains about the victim")
            self.nothing_is_left_behind()

    def test_a_job_that_is_told_to_stop_stops_everywhere(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, _ = self.start_training()
            process.send_signal(number)
            self.assertEqual(self.finish(process).code, 128 + number)
            self.nothing_is_left_behind()

    def test_a_host_that_is_gone_without_a_word_is_noticed(self):
        process = self.start_on_hosts(RANK, "wait", options=SHORT_SILENCE)
        self.when_ranks_run(process)
        gone = self.hosts.connections()[0]
        self.hosts.send(gone, signal.SIGSTOP)
        try:
            result = self.finish(process, NOTICED)
        finally:
            self.hosts.send(gone, signal.SIGKILL)
        self.assertEqual(result.code, PEER, str(result))
        self.assertRegex(result.stderr, r"the connection to host 127.0.0.[23] ended \(.*not responding")
        self.when_no_rank_runs()

    def test_nothing_is_left_where_a_launcher_dies_while_hosts_are_asked(self):
        for delay in (0.02, 0.1, 0.2, 0.3, 0.4, 0.6):
            process = self.start_on_hosts(RANK, "wait")
            time.sleep(delay)
            process.kill()
            process.communicate()
        self.wait_until(lambda: not self.hosts.agents(), "the agents have ended")


def kill_before_its_end(pid):
    """Kills the process and returns True; returns False if it has come to its own end, which no signal changes any more."""
    deadline = time.monotonic() + 10
    try:
        os.kill(pid, signal.SIGSTOP)
        while (state := pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) not in "TZX":
            if time.monotonic() > deadline:
                raise AssertionError(f"process {pid} neither stops nor ends; its state is {state}")
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state == "T"


class Soak(SshTest):
    rounds = int(os.environ.get("COHORT_SOAK_ROUNDS", "6"))

    def test_whoever_is_killed_at_any_moment_all_is_over_soon_and_nothing_is_left(self):
        """The launcher, its ssh, the server's process, an agent, a rank: by chance, while hosts are asked or ranks run."""
        chance = self.chance()
        for number in range(self.rounds):
            process = self.start_on_hosts(RANK, *chance.choice(([], ["ignore=15"])), "wait")
            time.sleep(chance.uniform(0.05, 1.2))
            involved = [pid for root in (process.pid, *self.hosts.connections()) for pid in (root, *descendants(root))]
            victim = chance.choice(involved)
            name = subprocess.run(["ps", "-o", "args=", "-p", str(victim)], capture_output=True, text=True).stdout.strip()
            with self.subTest(round=number, victim=name):
                if not kill_before_its_end(victim):
                    process.kill()
                self.assertNotEqual(self.finish(process).code, 0)
                self.when_no_rank_runs()
                self.wait_until(lambda: not self.hosts.agents(), "the agents have ended")
                self.nothing_is_left_behind()


NO_NETWORKS = why_no_networks()


@unittest.skipIf(NO_NETWORKS, NO_NETWORKS)
class NetworkTest(SshTest):
    """The launcher on one side of a wire, a host on the other: no address of one is loopback for the other."""

    @classmethod
    def make_hosts(cls, folder):
        cls.networks = TwoNetworks()
        cls.addClassCleanup(cls.networks.stop)
        return SshHosts(folder, cls.networks.addresses[1:], cls.networks.inside(1))

    def run_on_hosts(self, *arguments, **more):
        hosts = f"localhost:2,{self.networks.addresses[1]}:2"
        return [*self.networks.inside(0), *super().run_on_hosts(*arguments, hosts=hosts, **more)]


class OverANetwork(NetworkTest):
    def test_localhost_is_known_to_others_by_the_address_that_leads_to_them(self):
        result = self.succeed(self.run_on_hosts("sh", "-c", "echo $MASTER_ADDR"), self.hosts.environment())
        self.assertEqual(result.stdout.splitlines(), [self.networks.addresses[0]] * RANKS)


@unittest.skipIf(NO_NETWORKS, NO_NETWORKS)
class OverANetworkInFull(NetworkTest):
    def test_a_launcher_and_another_machine_train_together(self):
        self.make_data()
        wanted = self.single()
        for collective, name in (("", "hier(shm,gloo)"), ("gloo", "gloo")):
            with self.subTest(collective=name):
                got, summary = self.train(self.run_on_hosts(), f"net-{name[:4]}", collective, self.hosts.environment())
                self.assertEqual(summary["collective"], name)
                self.compare(got, wanted)

    def test_when_the_wire_is_cut_both_sides_end(self):
        process = self.start_on_hosts(RANK, "wait", options=SHORT_SILENCE)
        self.when_ranks_run(process)
        self.networks.cut()
        self.addCleanup(self.networks.mend)
        result = self.finish(process, NOTICED)
        self.assertEqual(result.code, PEER, str(result))
        self.assertRegex(result.stderr, rf"the connection to host {self.networks.addresses[1]} ended \(.*not responding")
        self.when_no_rank_runs()
        self.nothing_is_left_behind()


if __name__ == "__main__":
    harness.main(at_once=2)  # they wait for much of their time
