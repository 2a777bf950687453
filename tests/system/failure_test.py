"""A rank that fails by itself, or calls something else, is named by the others with what it did."""
import json
import re
import socket

import harness
from harness import BUILD, COHORT, NUMERICS, PLUGINS, SystemTest

PROGRAM = str(BUILD / "tests/failing_program")
WIRES = [wire for wire in ("shm", "gloo") if (PLUGINS / f"cohort_{wire}.so").exists()]


class Failure(SystemTest):
    def fail_on_every_wire(self, how, code, *arguments, timeout=40):
        for wire in WIRES:
            for failing_rank in (1, 0):
                result = self.run_program([PROGRAM, "--strategy=ddp", "--devices=3", f"--collective={wire}", f"--how={how}",
                                           f"--failing-rank={failing_rank}", *arguments], timeout=timeout)
                self.assertEqual(result.code, code, f"{wire}, rank {failing_rank}: {result}")
                yield failing_rank, result.stderr

    def test_a_rank_that_throws_is_named_by_all_with_the_first_line_of_its_error(self):
        for failing_rank, stderr in self.fail_on_every_wire("throw", 1):
            self.assertEqual(len(re.findall(rf"rank {failing_rank} \(pid \d+ on \S+\) failed: the disk is on fire", stderr)), 2, stderr)
            self.assertEqual(len(re.findall(rf"rank {failing_rank} \(pid \d+\) on \S+ ended with exit code 1", stderr)), 1, stderr)

    def test_a_rank_that_notices_late_still_hears_who_threw(self):
        for wire in WIRES:
            result = self.run_program([PROGRAM, "--strategy=ddp", "--devices=3", f"--collective={wire}", "--how=throw", "--late-rank=2"])
            self.assertEqual(result.code, 1, f"{wire}: {result}")
            self.assertEqual(len(re.findall(r"rank 1 \(pid \d+ on \S+\) failed: the disk is on fire", result.stderr)), 2, str(result))

    def test_another_order_of_operations_is_found_and_ends_all_with_2(self):
        for failing_rank, stderr in self.fail_on_every_wire("order", 2, "--timeout=10s"):
            lines = [line for line in stderr.splitlines() if "ranks differ in operation" in line]
            self.assertEqual(len(lines), 3, stderr)
            for line in lines:
                others = {0: "ranks 1, 2", 1: "ranks 0, 2"}[failing_rank]
                self.assertIn(f"rank {failing_rank} called barrier", line)
                self.assertIn(f"{others} called all_reduce sum of float64[1] for reducing metrics", line)

    def test_another_type_is_found_and_ends_all_with_2(self):
        for failing_rank, stderr in self.fail_on_every_wire("type", 2, "--timeout=10s"):
            self.assertIn(f"rank {failing_rank} called all_reduce mean of float64[10]", stderr)
            self.assertIn("called all_reduce mean of float32[10]", stderr)

    def test_a_rank_that_is_busy_for_too_long_is_named_at_the_deadline(self):
        for failing_rank, stderr in self.fail_on_every_wire("busy", 4, "--timeout=4s"):
            self.assertRegex(stderr, rf"rank {failing_rank} \(pid \d+ on \S+\) runs but has not failed")
            self.assertIn("bucket 0 (fc.bias .. fc.weight, 2 parameters)", stderr)

    def test_the_last_operations_of_every_rank_are_written_to_the_log_folder(self):
        self.run_program([PROGRAM, "--strategy=ddp", "--devices=2", "--how=throw", "--log-dir=logs"])
        for rank, code in ((0, 4), (1, 1)):
            flight = json.loads((self.folder / f"logs/flight-rank-{rank}.json").read_text())
            self.assertEqual((flight["rank"], flight["exit_code"]), (rank, code))
            buckets = [one for one in flight["operations"] if one["purpose"].startswith("bucket 0 (fc.bias")]
            self.assertEqual([one["number"] for one in buckets], sorted(one["number"] for one in buckets))
            self.assertEqual({(one["operation"], one["dtype"], one["bytes"]) for one in buckets[:5]},
                             {("all_reduce", "float32", buckets[0]["count"] * 4)})
            self.assertEqual({one["status"] for one in buckets[:5]}, {"OK"})


class Deadlines(SystemTest):
    def test_a_time_that_is_no_deadline_is_refused_in_one_sentence(self):
        for value in ("0", "0s", "-1", "-5s", "1e9", "nan", "inf", "99999999999999999999s", "9223372036s", "87601h", "5parsecs", ""):
            with self.subTest(value=value):
                result = self.fail_with(2, [PROGRAM, f"--timeout={value}"], "timeout")
                self.assertEqual(len(result.stderr.splitlines()), 1, str(result))

    def test_a_time_in_which_no_host_can_answer_is_refused_as_well(self):
        for value in ("0s", "9223372036s", "87601h"):
            with self.subTest(value=value):
                self.fail_with(2, [COHORT, "run", "-H", "localhost", f"--start-timeout={value}", "true"], "start-timeout")

    def test_the_longest_deadline_works(self):
        self.succeed([PROGRAM, "--timeout=87600h", "--devices=2", "--max-steps=3"])


class Stranger(SystemTest):
    """Who knows the port of the rendezvous can neither disturb a job nor hang it."""

    def garbage(self):
        import random
        random.seed(5)
        validate, magic = b"\0", (0x3C85F7CE).to_bytes(4, "little")
        yield b""  # says nothing, hangs
        yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        yield validate  # half a message
        yield validate + magic
        yield validate + b"\xff\xff\xff\xff"
        yield validate + magic + b"\1" + (2**63).to_bytes(8, "little")  # a key of 2^63 bytes
        yield validate + magic + b"\1" + (2**20).to_bytes(8, "little") + b"x"  # a long key that never comes
        yield validate + magic + b"\6" + (2**62).to_bytes(8, "little")  # as many keys
        yield validate + magic + b"\xee" * 64  # an unknown question
        for size in (1, 100, 65536):
            yield bytes(random.randrange(256) for _ in range(size))

    def attack(self, port, connections=0):
        held = []
        for content in [*self.garbage(), *[b""] * connections]:
            try:
                link = socket.create_connection(("127.0.0.1", port), timeout=5)
                link.settimeout(5)
                link.sendall(content)
                held.append(link)
            except OSError:
                pass  # thrown out
        return held

    def two_ranks(self, before_the_second, *arguments):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [PROGRAM, "--max-steps=20", "--timeout=30s", *arguments]
        first = self.start(command, {**environment, "RANK": "0", "LOCAL_RANK": "0"})
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                self.assertIsNone(first.poll(), "rank 0 has ended")
        held = before_the_second(port)
        second = self.start(command, {**environment, "RANK": "1", "LOCAL_RANK": "1"})
        results = [(process.returncode, stderr) for process in (first, second)
                   for _, stderr in [process.communicate(timeout=60)]]
        for link in held:
            link.close()
        return results

    def test_garbage_before_the_ranks_have_met_disturbs_nothing(self):
        for code, stderr in self.two_ranks(self.attack):
            self.assertEqual(code, 0, stderr)

    def test_thousands_of_connections_disturb_nothing_or_end_the_job_with_a_sentence(self):
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for code, stderr in self.two_ranks(lambda port: self.attack(port, 3000)):
            self.assertIn(code, (0, 1, 2, 4), stderr)
            self.assertTrue(code == 0 or "rror" in stderr, stderr)


class Disagreement(SystemTest):
    def test_other_bucket_sizes_stop_all_ranks_with_a_table(self):
        import torch
        from safetensors.torch import save_file
        data = self.folder / "data.safetensors"
        save_file({"x": torch.zeros(2, 2, 4, 32), "y": torch.zeros(2, 2, 4, dtype=torch.int64)}, data)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = [self.start([NUMERICS, f"--data-from={data}", f"--bucket-size={size}"],
                                {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
                     for rank, size in enumerate(("1KiB", "25MiB"))]
        for process in processes:
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 2, stderr)
            self.assertIn("rank 1: bucket-size 26214400", stderr)


if __name__ == "__main__":
    harness.main(at_once=3)
