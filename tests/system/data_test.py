"""Data is prepared once for each node before ranks go on, and read by workers or a stream exactly, also after a kill."""
import harness
from harness import BUILD, COHORT, SystemTest, descendants, kill, processes_marked

PROGRAM = str(BUILD / "tests/data_program")
WAYS = {"ddp": ["--strategy=ddp", "--devices=2"], "ddp_spawn": ["--strategy=ddp_spawn", "--devices=2"]}
NODES = [COHORT, "run", "--nnodes=2", "--nproc-per-node=2", "--", PROGRAM]


class DataTest(SystemTest):
    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def prepare(self, command, preparing, ranks):
        """Ranks read what one of each node has written; that each call is there shows that none was too early."""
        self.succeed([*command, "--max-steps=1"])
        calls = self.calls()
        self.assertEqual(sorted(calls[:len(preparing)]), preparing)
        self.assertEqual(sorted(calls[len(preparing):]),
                         sorted(f"setup {stage} by {rank}" for stage in (0, 2) for rank in range(ranks)))

    def kill_and_compare(self, *flags):
        """A training that is killed in its second epoch and resumed ends as one that was left alone."""
        name = "-".join(word.strip("-") for word in flags).replace("=", "-")

        def training(folder, *more):
            (self.folder / folder).mkdir(exist_ok=True)
            return [PROGRAM, *flags, f"--folder={folder}", f"--checkpoint-dir={folder}/ckpt", "--checkpoint-every-n-steps=5",
                    "--threads=1", "--summary-json=summary.json", *more]

        whole, killed = f"whole-{name}", f"killed-{name}"
        self.succeed(training(whole))
        expected = self.summary()
        process = self.start(training(killed, "--step-ms=30"))
        checkpoints = self.folder / killed / "ckpt"
        self.wait_until(lambda: any(path.name >= "step-00000015" for path in checkpoints.glob("step-*")),
                        "there is a checkpoint in the middle of the second epoch", process)
        kill([process.pid, *processes_marked(self.marker)])
        self.finish(process)
        done = max(int(path.name.removeprefix("step-")) for path in checkpoints.glob("step-*"))
        reads = self.folder / killed / "reads"
        reads.unlink(missing_ok=True)
        self.succeed(training(killed, "--resume=auto"))
        for key in ("weights_sha256", "metrics", "steps", "epochs"):
            self.assertEqual(self.summary()[key], expected[key], key)
        return done, reads.read_text().splitlines() if reads.exists() else []


class Data(DataTest):
    def test_one_rank_prepares_before_any_sets_up(self):
        self.prepare([PROGRAM, *WAYS["ddp"], "--prepare-ms=300"], ["prepare by 0"], 2)

    def test_ranks_that_are_forked_find_it_prepared(self):
        self.prepare([PROGRAM, *WAYS["ddp_spawn"]], ["prepare by 0"], 2)

    def test_what_prepare_throws_ends_the_job(self):
        self.fail_with(2, [PROGRAM, *WAYS["ddp"], "--fail=throw"], "error: prepare, rank 0: the server says no")


class DataInFull(DataTest):
    def test_each_node_is_prepared_by_its_first_rank(self):
        self.prepare([*NODES, "--prepare-ms=300"], ["prepare by 0", "prepare by 2"], 4)

    def test_preparing_may_take_longer_than_the_timeout(self):
        self.prepare([PROGRAM, *WAYS["ddp"], "--prepare-ms=15000", "--timeout=10s"], ["prepare by 0"], 2)

    def test_a_rank_that_dies_while_it_prepares_ends_the_job(self):
        process = self.start([PROGRAM, *WAYS["ddp"], "--prepare-ms=600000"])
        file = self.folder / "preparing"
        self.wait_until(lambda: file.exists() and file.read_text().endswith("\n"), "a rank prepares", process)
        preparing = int(file.read_text())
        self.assertIn(preparing, descendants(process.pid))
        kill([preparing])
        result = self.finish(process)
        self.assertNotEqual(result.code, 0, str(result))
        self.assertIn("was ended by signal 9", result.stderr)
        self.assertNotIn("setup", (self.folder / "calls").read_text())

    def test_the_number_of_workers_changes_no_bit(self):
        digests = set()
        for workers in (0, 1, 3):
            self.succeed([PROGRAM, *WAYS["ddp"], f"--workers={workers}", "--threads=1", "--summary-json=summary.json"])
            digests.update(self.summary()["weights_sha256"])
        self.assertEqual(len(digests), 1)

    def test_workers_and_a_kill_change_nothing(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                self.kill_and_compare(*flags, "--workers=3")

    def test_a_stream_that_was_killed_goes_on_where_it_was(self):
        for way, flags in WAYS.items():
            with self.subTest(way=way):
                done, reads = self.kill_and_compare(*flags, "--source=stream")
                for rank in ("0", "1"):
                    own = [read for read in reads if read.startswith(rank)]
                    self.assertEqual(len(own), 3 * 12 - done, "three epochs of twelve")


if __name__ == "__main__":
    harness.main()
