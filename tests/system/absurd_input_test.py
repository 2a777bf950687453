"""Input that makes no sense is refused at once, in one sentence on one line."""
import os

import harness
from harness import COHORT, MNIST, SystemTest

USER = 2
STEP = ["--epochs=1", "--max-steps=1", "--threads=1", "--limit-val-batches=1", "--limit-test-batches=1"]


class AbsurdInputTest(SystemTest):
    def refuse(self, command, *texts, environment=None, begun=False):
        """Fails unless the program ends with 2 and a last line, the only one unless it had `begun`, that holds these texts."""
        result = self.run_program(command, environment)
        self.assertEqual(result.code, USER, str(result))
        *before, sentence = result.stderr.split("\n")[:-1]
        self.assertTrue(sentence.startswith("error: ") and (begun or not before), str(result))
        for text in texts:
            self.assertIn(text, sentence, str(result))
        self.assertFalse([c for c in sentence if ord(c) < 0x20], str(result))

    def pipe(self, name):
        os.mkfifo(self.folder / name)
        return name

    def config(self, text):
        (self.folder / "job.toml").write_text(text)
        return "--config=job.toml"


class AbsurdInput(AbsurdInputTest):
    def test_a_mistyped_variable_gets_the_nearest_name(self):
        self.refuse([MNIST], "COHORT_MAX_STEP", "COHORT_MAX_STEPS", environment={"COHORT_MAX_STEP": "3"})

    def test_an_option_that_is_given_twice(self):
        self.refuse([MNIST, "--config=a.toml", "--config=b.toml"], "--config", "twice", "a.toml", "b.toml")

    def test_a_table_of_a_plugin_that_there_is_not(self):
        config = self.config("[strategy.bagau]\n")
        self.fail_with(USER, [MNIST, config], "[strategy.bagau]", "did you mean 'bagua'")  # and where it was looked for

    def test_more_processes_or_threads_than_a_machine_can_run(self):
        self.refuse([COHORT, "run", "-n", "1000000", MNIST], "1000000 ranks", "at most")
        self.refuse([MNIST, "--threads=4096"], "--threads", "4096", "at most")

    def test_a_pipe_in_place_of_a_file(self):
        self.refuse([MNIST, f"--config={self.pipe('options')}"], "options", "not a regular file")
        self.refuse([COHORT, "run", f"--hostfile={self.pipe('hosts')}", MNIST], "hosts", "not a regular file")

    def test_a_value_with_a_new_line_stays_on_its_line(self):
        job = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "1\n2", "MASTER_PORT": "29999"}
        self.refuse([MNIST], "MASTER_ADDR", "1\\x0a2", environment=job)


class InFull(AbsurdInputTest):
    """More values, and more places for them."""

    def test_an_unknown_key_of_a_plugin_that_is_not_chosen(self):
        config = self.config("[strategy.bagua]\nsync_intervall_ms = 100\n")
        self.fail_with(USER, [MNIST, config], "[strategy.bagua]", "sync_intervall_ms", "sync_interval_ms")  # and what it takes

    def test_a_variable_and_a_table_that_mean_nothing_here_are_warnings(self):
        result = self.succeed([MNIST, self.config("[collective.elsewhere]\n"), *STEP],
                              {"COHORT_NOTHING": "1", "COHORT_SERVICE_HOST": "10.0.0.1", "COHORT_PORT": "tcp://10.0.0.1:80"})
        self.assertEqual(result.stderr.count("'COHORT_NOTHING'"), 1, str(result))
        self.assertEqual(result.stderr.count("[collective.elsewhere]"), 1, str(result))
        self.assertNotIn("COHORT_SERVICE_HOST", result.stderr)
        self.assertNotIn("COHORT_PORT", result.stderr)

    def test_tables_of_other_plugins_are_fine(self):
        tables = ("[strategy.bagua]\nsync_interval_ms = 100", "[strategy.ddp_spawn]\ncompression = \"fp16\"", "[collective.gloo]")
        self.succeed([MNIST, self.config("\n".join(tables)), *STEP])

    def test_more_devices_or_ranks_than_a_machine_can_run(self):
        self.refuse([MNIST, "--devices=4096"], "--devices", "4096", "at most")
        self.refuse([MNIST, "--strategy=dp", "--devices=4096"], "--devices", "4096", "at most")
        self.refuse([COHORT, "run", "--nnodes=1000", "--nproc-per-node=100", MNIST], "100000 ranks", "at most")
        self.refuse([COHORT, "run", "-H", "localhost:100000", MNIST], "100000 ranks", "at most")

    def test_numbers_below_their_range(self):
        for option in ("--epochs=-1", "--batch-size=0", "--batch-size=-1", "--batch-size=9223372036854775807", "--epochs=nan"):
            with self.subTest(option=option):
                self.refuse([MNIST, option, *STEP[1:]], option.split("=")[0], "whole number from", begun=True)

    def test_files_that_are_none(self):
        for file in ("/dev/zero", "."):
            with self.subTest(file=file):
                self.refuse([MNIST, f"--config={file}"], file, "not a regular file")
                self.refuse([COHORT, "run", f"--hostfile={file}", MNIST], file, "not a regular file")

    def test_names_with_control_characters(self):
        self.refuse([MNIST, self.config('summary-json = "a\\u0000b"\n')], "job.toml:1", "NUL byte")
        for option in ("--config", "--plugin", "--data-dir", "--resume", "--strategy", "--summary-json"):
            with self.subTest(option=option):
                self.refuse([MNIST, f"{option}=no\nwhere", *STEP], "no\\x0awhere", begun=option == "--data-dir")

    def test_options_of_the_launcher(self):
        for options in (["-n", "1\n2"], ["-n", "1", "--master-addr", "1\n2"], ["-n", "1", "-x", "1\n2"], ["-H", "1\n2"]):
            with self.subTest(options=options):
                self.refuse([COHORT, "run", *options, "true"], "1\\x0a2")
        self.refuse([COHORT, "run", "-n", "1", "-x", "A=1", "-x", "A=2", "true"], "'A'", "twice")
        self.refuse([COHORT, "run", "-n", "1", "-n", "2", "true"], "--num-proc")
        (self.folder / "rank.0").mkdir()
        self.pipe("rank.0/stdout")
        self.refuse([COHORT, "run", "-H", "localhost:1", "--output-filename=.", "true"], "rank.0/stdout", "cannot be written")

    def test_threads_of_openmp(self):
        for value in ("4096", "-1", "two", "1,", "1,two", "1 2"):
            with self.subTest(value=value):
                self.refuse([MNIST, *STEP[:2]], "OMP_NUM_THREADS", environment={"OMP_NUM_THREADS": value}, begun=True)
        for value in ("2,1", " 1", "+1 , 2 "):
            with self.subTest(value=value):
                self.succeed([MNIST, *STEP[:2], *STEP[3:]], environment={"OMP_NUM_THREADS": value})


if __name__ == "__main__":
    harness.main(at_once=2)
