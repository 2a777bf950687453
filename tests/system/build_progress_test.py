"""cmake/build.py builds, shows how far it is, and hands on what fails."""
import os
import signal

from harness import SOURCE, SystemTest, main

SCRIPT = SOURCE / "cmake/build.py"
RULES = """\
rule copy
  command = sh -c '%s; cp $in $out' -o $out
  description = Building $out
build one: copy source
build two: copy one
build both: phony two
"""


class BuildProgress(SystemTest):
    def build(self, command="true"):
        if not (self.folder / "source").exists():
            (self.folder / "source").touch()
        (self.folder / "build.ninja").write_text(RULES % command)
        return [SCRIPT, self.folder, "both"]

    def test_the_last_line_has_all_steps(self):
        result = self.succeed(self.build())
        self.assertRegex(result.stdout, r"\[#{30}\] 2/2 steps, 0 s\n$")
        self.assertTrue((self.folder / "two").exists())
        self.assertEqual(self.succeed(self.build()).stdout, "ninja: no work to do.\n")

    def test_the_output_of_what_fails_is_shown(self):
        result = self.run_program(self.build("echo broken; exit 3"))
        self.assertEqual(result.code, 1, str(result))
        self.assertRegex(result.stdout, r"(?s)FAILED: one.*\nbroken\n")

    def test_an_interrupted_build_is_resumed(self):
        command = self.build("[ $out = one ] || [ -e again ] || { touch here; sleep 60; }")
        process = self.start(command, start_new_session=True)
        self.wait_until((self.folder / "here").exists, "the second step runs", process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        result = self.finish(process)
        self.assertEqual(result.code, 130, str(result))
        self.assertIn("The same command resumes the build", result.stdout)
        (self.folder / "again").touch()
        self.assertRegex(self.succeed(command).stdout, r"1/1 steps")


if __name__ == "__main__":
    main()
