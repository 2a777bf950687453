"""Mistakes of programs that a compiler tells of in words of cohort's."""
import json
import shlex
import subprocess

import harness
from harness import BUILD, SystemTest


class CompilerTest(SystemTest):
    def messages(self, source):
        """Returns the exit code of the build's compiler for a program, and what it says."""
        entries = json.loads((BUILD / "compile_commands.json").read_text())
        entry = next(one for one in entries if one["file"].endswith("/examples/gan/main.cpp"))
        words = shlex.split(entry["command"])
        path = self.folder / "program.cpp"
        path.write_text(source)
        result = subprocess.run([*words[:words.index("-o")], "-fsyntax-only", path], cwd=entry["directory"], capture_output=True, text=True)
        return result.returncode, result.stderr

    def test_an_optimizer_that_would_be_copied(self):
        head = "".join(f"#include <torch/optim/{name}.h>\n" for name in ("sgd", "adam", "adamw")) + "#include <cohort/optimizers.hpp>\n"
        moved = "cohort::Optimizers one(torch::optim::SGD& it) { return {std::move(it), cohort::schedule::cosine()}; }"
        code, text = self.messages(head + moved)
        self.assertEqual(code, 0, text)
        copies = {"SGD": "it", "Adam": "{it, cohort::schedule::cosine()}", "AdamW": '{{"name", it}}'}
        lines = [f"cohort::Optimizers of_{kind}(torch::optim::{kind}& it) {{ return {copy}; }}\n" for kind, copy in copies.items()]
        code, text = self.messages(head + "".join(lines))
        self.assertNotEqual(code, 0)
        message = "an optimizer cannot be copied: give std::move(optimizer), or make it with std::make_shared"
        self.assertEqual(text.count("failed: " + message), len(copies), text)
        for line in range(5, 5 + len(copies)):
            self.assertRegex(text, rf"program.cpp:{line}:\d+: .*required from here")


if __name__ == "__main__":
    harness.main()
