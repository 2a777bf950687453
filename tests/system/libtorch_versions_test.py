"""A training that a build with one LibTorch has begun is ended by another one's to the bits of a training that it begins itself."""
import unittest

import harness
from harness import BUILD, SOURCE, SystemTest

LIBTORCH = "lib/cohort/libtorch"
PROGRAM = "tests/resume_program"
NEWEST = max(file.stat().st_mtime for part in ("runtime", "plugins", "sdk", "plugin_api") for file in (SOURCE / part).rglob("*.?pp"))
OTHERS = [folder for folder in sorted((SOURCE / "build").glob("*"))
          if (folder / PROGRAM).exists() and (folder / LIBTORCH).exists()
          and (folder / LIBTORCH).resolve() != (BUILD / LIBTORCH).resolve() and (folder / PROGRAM).stat().st_mtime > NEWEST]


@unittest.skipUnless(OTHERS, "no build of this source with another LibTorch: tests/run.sh --libtorch=VERSION makes one")
class LibtorchVersions(SystemTest):
    def train(self, build, *more):
        self.succeed([build / PROGRAM, "--strategy=ddp", "--devices=2", "--threads=1", "--ema=0.9", "--summary-json=summary.json", *more])
        return self.summary()

    def test_a_checkpoint_of_another_version_is_resumed(self):
        for other in OTHERS:
            for number, (first, second) in enumerate(((other, BUILD), (BUILD, other))):
                with self.subTest(first=first, second=second):
                    whole = self.train(second)
                    folder = f"--checkpoint-dir={other.name}-{number}"
                    self.train(first, folder, "--max-steps=47")
                    resumed = self.train(second, folder, "--resume=auto")
                    for key in ("weights_sha256", "metrics", "steps"):
                        self.assertEqual(resumed[key], whole[key], key)


if __name__ == "__main__":
    harness.main()
