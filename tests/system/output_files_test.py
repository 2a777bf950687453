"""Files that a run writes: nothing but a regular file is replaced, and what cannot be written is said before the training."""
import os
import threading

import harness
from harness import MNIST, SystemTest


class OutputFiles(SystemTest):
    def mnist(self, *more):
        return [MNIST, "--epochs=1", "--max-steps=2", "--limit-val-batches=1", "--limit-test-batches=1", "--threads=1", *more]

    def refuse(self, *more, says, **options):
        """The training has not begun: it would log its model first."""
        result = self.fail_with(2, self.mnist(*more), *says, **options)
        self.assertNotIn("Trainable params", result.stderr, str(result))
        self.assertEqual([line for line in result.stderr.splitlines() if "error:" in line][1:], [], str(result))

    def test_a_summary_goes_through_a_link_into_a_file_and_into_a_pipe(self):
        (self.folder / "real.json").write_text("old")
        (self.folder / "link.json").symlink_to("real.json")
        self.succeed(self.mnist("--summary-json=link.json"))
        self.assertTrue((self.folder / "link.json").is_symlink())
        self.assertEqual(self.summary("real.json")["steps"], 2)
        pipe, got = self.folder / "pipe", []
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
        reader.start()
        self.succeed(self.mnist("--summary-json=pipe", "--barebones"))
        reader.join(harness.HANG)
        self.assertIn('"steps": 2', got[0])
        self.assertTrue(pipe.is_fifo())

    def test_what_cannot_be_written_is_said_before_the_training(self):
        (self.folder / "folder").mkdir()
        (self.folder / "logs").mkdir()
        self.refuse("--summary-json=folder", says=["--summary-json: cannot write ", "/folder: it is a folder; name a file"])
        self.refuse("--profile=folder,steps=3", says=["--profile: cannot write ", "/folder: it is a folder; name a file"])
        self.refuse("--autotune=folder", says=["--autotune: cannot write ", "it is a folder"])
        os.mkfifo(self.folder / "logs/rank-0.log")
        self.refuse("--log-dir=logs", says=["logs/rank-0.log' is not a regular file"])
        (self.folder / "ckpt/step-00000002").mkdir(parents=True)
        (self.folder / "ckpt/step-00000002/mine").write_text("x")
        self.fail_with(2, self.mnist("--checkpoint-dir=ckpt"), "step-00000002' has the name of a checkpoint, but has no manifest")
        self.assertEqual((self.folder / "ckpt/step-00000002/mine").read_text(), "x")


if __name__ == "__main__":
    harness.main()
