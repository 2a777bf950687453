"""What is installed works from another folder: programs, plugins, and projects that find the package."""
import shutil
import subprocess
import sys

import harness
from harness import BUILD, LIBTORCH, SOURCE, SystemTest, clean_environment
from pages import PLUGIN_PAGES, blocks, blocks_below, only_block, whole_plugin

PLUGIN_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(loud LANGUAGES CXX)
""" + only_block("docs/plugins/README.md", "cmake", "## In C++")
PLUGIN_SOURCE = "#include <cohort/sdk/strategy.hpp>\n" + only_block("docs/plugins/README.md", "cpp", "## In C++")
PROGRAM_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES CXX)
add_executable(my_program tiny_program.cpp)
""" + only_block("docs/user.md", "cmake", "## A program")
SUBMIT_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(jobs LANGUAGES CXX)
find_package(cohort REQUIRED COMPONENTS runtime)
add_executable(jobs jobs.cpp)
target_link_libraries(jobs PRIVATE cohort::submit)
"""
SUBMIT_SOURCE = "#include <iostream>\n#include <cohort/submit.hpp>\nint main() {" + \
    only_block("docs/operator.md", "cpp", "## Submitting jobs") + "}\n"
TOY_HOST_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
find_package(cohort REQUIRED COMPONENTS toy_host)
add_executable(two_ranks two_ranks.cpp)
target_link_libraries(two_ranks PRIVATE cohort::toy_host)
"""
TOY_HOST_SOURCE = """#include <cstdio>
#include <cohort/toy_host/toy_host.hpp>
int main(int, char** argv) {
  cohort::toy::ToyJob job{.plugin_dirs = {argv[1]}};
  job.strategy.name = "ddp";
  job.collective.name = "shm";
  cohort::toy::run_ranks(job, [](cohort::toy::ToyRank& rank) {
    cohort::toy::ToyModel model({{"only", 1}}, 1.0, 1.0);
    auto& engine = rank.runtime.configure(model);
    rank.step(engine, model, std::vector<std::vector<double>>{{rank.rank + 1.0}});
    if (rank.rank == 0) std::printf("%g\\n", model.weights(0)[0]);
    rank.runtime.release_model(model);
  });
}
"""
# The user guide's code, under the names by which tiny_program.cpp includes it.
PROGRAM_PIECES = {"a_loss_over_the_whole_batch.inc": only_block("docs/user.md", "cpp", "## Several devices in one process"),
                  "steps_by_hand.inc": only_block("docs/user.md", "cpp", "## Several optimizers, steps by hand"),
                  "metrics.inc": only_block("docs/user.md", "cpp", "## Metrics"),
                  "a_data_module.inc": "\n".join(blocks_below("docs/user.md", "cpp", "## Data")),
                  "hooks.inc": only_block("docs/user.md", "cpp", "## Hooks of a module"),
                  "hyper_parameters.inc": only_block("docs/user.md", "cpp", "## Hyper-parameters, and modules"),
                  "normalized.inc": only_block("docs/user.md", "cpp", "## Batch normalization over all ranks"),
                  "wrapped.inc": only_block("docs/user.md", "cpp", "## TorchScript models"),
                  "a_callback.inc": only_block("docs/user.md", "cpp", "## Callbacks"),
                  "a_logger.inc": only_block("docs/user.md", "cpp", "## Loggers"),
                  "a_prediction.inc": only_block("docs/user.md", "cpp", "## Predictions"),
                  "a_schedule.inc": only_block("docs/user.md", "cpp", "## Learning-rate schedules"),
                  "a_connection.inc": only_block("docs/user.md", "cpp", "## Connecting the ranks in your own way"),
                  "a_loop_of_your_own.inc": only_block("docs/user.md", "cpp", "## A loop of your own")}


def compiler_cache(folder):
    """Returns options by which CMake compiles with a cache, if there is one: LibTorch's headers take half a minute. What lies below the
    folder is found in the cache when it lies alike below another one."""
    if not shutil.which("ccache"):
        return []
    return [f"-DCMAKE_CXX_COMPILER_LAUNCHER=cmake;-E;env;CCACHE_BASEDIR={folder};CCACHE_SLOPPINESS=pch_defines,time_macros;ccache",
            "-DCMAKE_CXX_FLAGS=-fpch-preprocess"]  # lets ccache see into precompiled headers


class InstallTest(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.class_folder()
        installed = subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "first"], env=clean_environment(),
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if installed.returncode != 0:
            raise RuntimeError(installed.stdout[-1500:] + installed.stderr[-3000:])
        cls.projects = folder / "projects"
        cls.projects.mkdir()
        cls.cache = compiler_cache(folder)
        cls.prefix = folder / "moved"  # an installation can be moved
        shutil.move(folder / "first", cls.prefix)
        subprocess.run([cls.prefix / "bin/cohort", "libtorch", "--install", f"--from={LIBTORCH}"], stdout=subprocess.DEVNULL, check=True)

    def project(self, name, files):
        folder = self.projects / name
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text)
        return self.build(folder, folder / "build")

    def build(self, folder, build):
        for command in (["cmake", "-S", folder, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}", *self.cache],
                        ["cmake", "--build", build]):
            self.succeed(command, timeout=300)
        return build

    def train_by_the_guide(self, project):
        source = (SOURCE / "tests/system/tiny_program.cpp").read_text()
        files = {"CMakeLists.txt": project, "tiny_program.cpp": source, **PROGRAM_PIECES}
        program = self.project("tiny", files) / "my_program"
        self.succeed([program, "--devices=2", "--summary-json=summary.json"])
        self.assertEqual(self.summary()["strategy"], "ddp_spawn")
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)
        for way, strategy in (("loop", "ddp"), ("data", "ddp"), ("callbacks", "ddp"), ("logger", "ddp_spawn"), ("whole", "dp"),
                              ("hand", "ddp"), ("schedule", "ddp"), ("metrics", "dp"), ("parts", "ddp")):
            with self.subTest(way=way):
                self.succeed([program, f"--way={way}", f"--strategy={strategy}", "--devices=2"])
        self.meet_where_the_program_says(program)

    def meet_where_the_program_says(self, program):
        (self.folder / "first_rank.txt").write_text(f"127.0.0.1 {self.reserve_port()}\n")
        for strategy in ("ddp", "ddp_spawn"):
            with self.subTest(connected_by="the program", strategy=strategy):
                self.succeed([program, f"--strategy={strategy}", "--devices=2", "--summary-json=summary.json"])
                self.assertEqual(self.summary()["layers"][-1], "program")


class Install(InstallTest):
    def test_installed_programs_find_their_plugins_and_data(self):
        mnist = self.prefix / "bin/mnist"
        self.succeed([mnist, "--devices=2", "--max-steps=3", "--epochs=1", "--summary-json=summary.json"])
        self.assertEqual(len(set(self.summary()["weights_sha256"])), 1)
        listed = self.succeed([self.prefix / "bin/cohort", "plugins", "list"]).stdout
        for name in ("ddp", "single", "shm", "cpu"):
            self.assertIn(name, listed)
        self.assertNotIn(str(BUILD), listed)

    def test_installed_suites_try_a_plugin(self):
        for suite, *arguments in (("collective_suite", "--collective=shm", "--gtest_filter=*Barrier*"),
                                  ("strategy_suite", "--strategy=ddp", "--ranks=1,2", "--gtest_filter=*Plan*")):
            with self.subTest(suite=suite):
                self.assertRegex(self.succeed([self.prefix / "bin" / suite, *arguments]).stdout, r"\[  PASSED  \] [1-9]")

    def test_a_plugin_built_against_the_package_without_libtorch_trains(self):
        plugin = self.project("loud", {"CMakeLists.txt": PLUGIN_PROJECT, "loud.cpp": PLUGIN_SOURCE}) / "cohort_loud.so"
        needed = subprocess.run(["readelf", "-d", plugin], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("torch", needed)
        result = self.succeed([self.prefix / "bin/mnist", "--devices=2", f"--plugin={plugin}", "--strategy=loud", "--max-steps=3",
                               "--epochs=1"])
        self.assertIn("step 2 is done", result.stderr)

    def test_a_project_in_c_alone_builds_a_plugin(self):
        source = (SOURCE / "examples/plugins/rendezvous_layer/rendezvous_layer.c").read_text()
        project = PLUGIN_PROJECT.replace("LANGUAGES CXX", "LANGUAGES C").replace("(loud SOURCES loud.cpp)",
                                                                               "(rendezvous_layer SOURCES rendezvous_layer.c)")
        build = self.project("c_alone", {"CMakeLists.txt": project, "rendezvous_layer.c": source})
        self.assertTrue((build / "cohort_rendezvous_layer.so").exists())

    def test_the_device_without_hardware_builds_against_the_package(self):
        build = self.build(SOURCE / "examples/plugins/fake_device", self.projects / "fake_device")
        cohort = self.prefix / "bin/cohort"
        shown = self.succeed([cohort, "plugins", "info", "fake", f"--plugin={build / 'cohort_fake.so'}"]).stdout
        self.assertIn("accelerator", shown)
        self.succeed([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", build / "libfake_torch.so"])

    def test_a_strategy_runs_on_the_installed_toy_host(self):
        program = self.project("toy", {"CMakeLists.txt": TOY_HOST_PROJECT, "two_ranks.cpp": TOY_HOST_SOURCE}) / "two_ranks"
        shown = self.succeed([program, self.prefix / "lib/cohort/plugins"], {"LD_LIBRARY_PATH": str(self.prefix / "lib")}).stdout
        self.assertEqual(shown, "-0.5\n")  # 1 - the mean of 1 and 2

    def test_all_code_of_the_guides_is_in_these_programs(self):
        compiled_by_uses_test = only_block("docs/plugins/uses.md", "cpp", "## In C and C++")
        compiled_by_plugin_pages_test = [whole_plugin(page)[1] for page in PLUGIN_PAGES]
        compiled = [PLUGIN_SOURCE, SUBMIT_SOURCE, compiled_by_uses_test, *compiled_by_plugin_pages_test, *PROGRAM_PIECES.values()]
        for page in ("docs/user.md", "docs/operator.md", "docs/plugins/README.md", "docs/plugins/uses.md", *PLUGIN_PAGES):
            for block in blocks(page, "cpp"):
                with self.subTest(page=page, block=block):
                    self.assertTrue(any(block in source for source in compiled))

    def test_every_plugin_exports_one_symbol(self):
        plugins = sorted((self.prefix / "lib/cohort/plugins").glob("cohort_*.so"))
        self.assertGreater(len(plugins), 5)
        for plugin in plugins:
            symbols = subprocess.run(["nm", "-D", "--defined-only", plugin], check=True, capture_output=True, text=True).stdout
            names = [line.split()[-1] for line in symbols.splitlines()]
            self.assertEqual(names, ["cohort_plugin_0"], plugin)


class InFull(InstallTest):
    def test_a_program_built_against_the_package_writes_the_job_of_the_command(self):
        (self.folder / "mnist").symlink_to(self.prefix / "bin/mnist")
        jobs = self.project("jobs", {"CMakeLists.txt": SUBMIT_PROJECT, "jobs.cpp": SUBMIT_SOURCE}) / "jobs"
        by_command = self.succeed([self.prefix / "bin/cohort", "submit", "slurm", "--dry-run", "--nodes=2", "--devices=8",
                                   "--module=NCCL/2.4.7-1-cuda.10.0", "--command=export NCCL_DEBUG=INFO", "--", "./mnist",
                                   "--checkpoint-dir=ckpt"]).stdout
        self.assertIn("scontrol requeue", by_command)
        self.assertEqual(self.succeed([jobs]).stdout, by_command)

    def test_a_program_built_against_the_package_trains_with_all_code_of_the_user_guide(self):
        self.train_by_the_guide(PROGRAM_PROJECT)


if __name__ == "__main__":
    harness.main()
