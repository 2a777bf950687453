"""What is installed works from another folder: programs, plugins, and projects that find the package."""
import re
import shutil
import subprocess
import unittest

from harness import BUILD, SOURCE, SystemTest



def snippet(page, language, after):
    """The first code block of a language below a heading of a page."""
    text = (SOURCE / "docs" / page).read_text().split(after, 1)[1]
    return re.search(rf"```{language}\n(.*?)```", text, re.S).group(1)


PLUGIN_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(loud LANGUAGES CXX)
""" + snippet("plugin_author.md", "cmake", "## In C++")
PLUGIN_SOURCE = "#include <cohort/sdk/strategy.hpp>\n" + snippet("plugin_author.md", "cpp", "## In C++")
LOOP_SOURCE = """
#include <cohort/cohort.hpp>
int main(int argc, char** argv) {
  return cohort::Program("tiny").run(argc, argv, [](cohort::App& app) {
    torch::nn::Linear linear(2, 1);
    auto& model = *linear;
    std::vector<std::pair<torch::Tensor, torch::Tensor>> batches(5, {torch::ones({4, 2}), torch::ones({4, 1})});
""" + snippet("user.md", "cpp", "## A loop of your own") + """
    if (session.steps() != 5) throw std::runtime_error("five batches make five steps");
  });
}
"""
PROGRAM_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES CXX)
find_package(cohort REQUIRED COMPONENTS trainer)
add_executable(tiny tiny.cpp)
target_link_libraries(tiny PRIVATE cohort::trainer)
"""


class Install(SystemTest):
    def project(self, name, **files):
        folder = self.folder / name
        folder.mkdir()
        for file, text in files.items():
            (folder / file.replace("_dot_", ".")).write_text(text)
        build = folder / "build"
        for command in (["cmake", "-S", folder, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                        ["cmake", "--build", build]):
            self.succeed(command, timeout=300)
        return build

    def setUp(self):
        super().setUp()
        first = self.folder / "first"
        self.succeed(["cmake", "--install", BUILD, "--prefix", first])
        self.prefix = self.folder / "moved"  # an installation can be moved
        shutil.move(first, self.prefix)

    def test_installed_programs_find_their_plugins_and_data(self):
        mnist = self.prefix / "bin/mnist"
        self.succeed([mnist, "--devices=2", "--max-steps=3", "--epochs=1", "--summary-json=summary.json"])
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)
        listed = self.succeed([self.prefix / "bin/cohort", "plugins", "list"]).stdout
        for name in ("ddp", "single", "shm", "cpu"):
            self.assertIn(name, listed)
        self.assertNotIn(str(BUILD), listed)

    def test_a_plugin_built_against_the_package_without_libtorch_trains(self):
        build = self.project("loud", CMakeLists_dot_txt=PLUGIN_PROJECT, loud_dot_cpp=PLUGIN_SOURCE)
        plugin = build / "cohort_loud.so"
        needed = subprocess.run(["readelf", "-d", plugin], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("torch", needed)
        result = self.succeed([self.prefix / "bin/mnist", "--devices=2", f"--plugin={plugin}", "--strategy=loud", "--max-steps=3",
                               "--epochs=1"])
        self.assertIn("step 2 is done", result.stderr)

    def test_a_project_in_c_alone_builds_a_plugin(self):
        source = (SOURCE / "examples/plugins/rendezvous_layer/rendezvous_layer.c").read_text()
        project = PLUGIN_PROJECT.replace("LANGUAGES CXX", "LANGUAGES C").replace("(loud SOURCES loud.cpp)",
                                                                               "(rendezvous_layer SOURCES rendezvous_layer.c)")
        build = self.project("c_alone", CMakeLists_dot_txt=project, rendezvous_layer_dot_c=source)
        self.assertTrue((build / "cohort_rendezvous_layer.so").exists())

    def test_a_program_built_against_the_package_trains(self):
        source = (SOURCE / "tests/system/tiny_program.cpp").read_text()
        build = self.project("tiny", CMakeLists_dot_txt=PROGRAM_PROJECT, tiny_dot_cpp=source)
        self.succeed([build / "tiny", "--devices=2", "--summary-json=summary.json"])
        self.assertEqual(self.summary()["strategy"], "ddp_spawn")
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)

    def test_the_loop_in_the_user_guide_trains(self):
        build = self.project("tiny", CMakeLists_dot_txt=PROGRAM_PROJECT, tiny_dot_cpp=LOOP_SOURCE)
        self.succeed([build / "tiny", "--devices=2"])

    def test_every_plugin_exports_one_symbol(self):
        for plugin in sorted((self.prefix / "lib/cohort/plugins").glob("*.so")):
            symbols = subprocess.run(["nm", "-D", "--defined-only", plugin], check=True, capture_output=True, text=True).stdout
            names = [line.split()[-1] for line in symbols.splitlines()]
            self.assertEqual(names, ["cohort_plugin_0"], plugin)


if __name__ == "__main__":
    unittest.main()
