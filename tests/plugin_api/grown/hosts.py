"""Copies of the source tree, with today's headers or with grown ones, and what is built in them.

While the ABI is a draft, hosts refuse plugins of every other version. The copies leave out this rule.
"""
import os
import pathlib
import re
import shutil
import subprocess

from grow_headers import grow, replace_once

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = pathlib.Path(__file__).resolve().parent
# All that a build of the host and the toy host reads.
PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "plugin_api", "plugins", "runtime", "sdk", "tests/support/toy_host")
KERNELS = "runtime/host/src/accelerator/kernel_tables.cpp"
# Lines of the host's lists, and the lines that follow them in the grown host. Static assertions lead whoever adds a slot to these lists.
FOLLOWING_LINES = (
    ("runtime/host/src/layers/strategy_slots.hpp", 'visit.template operator()<&Table::get_extension>("get_extension");',
     'visit.template operator()<&Table::grown>("grown");'),
    ("runtime/host/src/connected_rank/base_strategy.cpp", ".get_extension = no_extension,", ".grown = nothing,"),
    (KERNELS, 'visit.template operator()<&Table::found_inf>("found_inf");', 'visit.template operator()<&Table::grown>("grown");'),
    (KERNELS, 'visit.template operator()<&Table::decode_add>("minmax_uint8.decode_add");',
     'visit.template operator()<&Table::grown>("minmax_uint8.grown");'),
    (KERNELS, 'visit.template operator()<&cohort_kernels_adam_1::step>("adam.step");',
     'visit.template operator()<&cohort_kernels_adam_1::grown>("adam.grown");'),
    (KERNELS, 'visit.template operator()<&cohort_kernels_ring_1::change>("change");',
     'visit.template operator()<&cohort_kernels_ring_1::grown>("ring.grown");'),
)
# Every step of the grown host has a flag that no plugin of today knows.
STEP_FLAG = ("runtime/host/src/step/step_engine.cpp", "return {sizeof(cohort_step), p.flags",
             "return {sizeof(cohort_step), COHORT_STEP_GROWN | p.flags")
DRAFT_RULE = ("runtime/host/src/plugin_host/descriptor_checks.cpp", "is_draft = host_abi >> 16 == 0;", "is_draft = false;")


class Host:
    """A copy of the tree, built without LibTorch, with the program toy_training."""

    def __init__(self, folder):
        self.source, self.build_folder = folder / "source", folder / "build"
        for part in PARTS:
            if (SOURCE / part).is_dir():
                shutil.copytree(SOURCE / part, self.source / part)
            else:
                self.source.mkdir(parents=True, exist_ok=True)
                shutil.copy2(SOURCE / part, self.source / part)
        self.edit(*DRAFT_RULE)
        with open(self.source / "tests/support/toy_host/CMakeLists.txt", "a") as file:
            file.write(f"add_executable(toy_training {PROGRAMS}/toy_training.cpp)\n"
                       "target_link_libraries(toy_training PRIVATE cohort_toy_host cohort_sdk)\n")

    def edit(self, file, text, replacement):
        path = self.source / file
        path.write_text(replace_once(path.read_text(), re.escape(text), replacement, file))

    def grow(self):
        """Grows the headers, and what of the host has to follow."""
        headers = self.source / "plugin_api/include"
        today = headers.rename(headers.with_name("today"))
        grow(today, headers)
        for file, line, following in FOLLOWING_LINES:
            self.edit(file, line, f"{line}\n{following}")
        self.edit(*STEP_FLAG)
        with open(self.source / "runtime/host/CMakeLists.txt", "a") as file:
            file.write("target_compile_definitions(cohort_host PUBLIC COHORT_GROWN_HOST)\n")

    @property
    def abi(self):
        """The version of the plugin ABI as one number."""
        text = (self.source / "plugin_api/include/cohort/api/version.h").read_text()
        major, minor = (int(re.search(rf"#define COHORT_ABI_{part} (\d+)u", text).group(1)) for part in ("MAJOR", "MINOR"))
        return (major << 16) + minor

    def build(self, plugins=(), flags=()):
        """Builds the toy host and these plugins, without optimization: they compute with a few numbers only."""
        all_flags = " ".join(flags)
        run("cmake", "-S", self.source, "-B", self.build_folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCOHORT_CORE=OFF",
            "-DCOHORT_EXAMPLES=OFF", "-DCOHORT_CUDA=OFF", f"-DCMAKE_C_FLAGS={all_flags}", f"-DCMAKE_CXX_FLAGS={all_flags}")
        run("cmake", "--build", self.build_folder, "--target", "toy_training", *(f"cohort_plugin_{name}" for name in plugins))

    def plugin(self, source, *flags):
        """Compiles a plugin of the tests against the headers of this tree. Returns its file."""
        folder = self.build_folder / "test_plugins" / re.sub(r"\W+", "_", "_".join(flags) or "plain")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"cohort_{pathlib.Path(source).stem}.so"
        compiler = [os.environ.get("CXX", "c++"), "-std=c++17"] if source.endswith(".cpp") else [os.environ.get("CC", "cc"), "-std=c11"]
        run(*compiler, "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", *flags,
            f"-I{self.source}/plugin_api/include", f"-I{self.source}/sdk/include", PROGRAMS / source, "-o", file)
        return file

    @property
    def plugins(self):
        return self.build_folder / "lib/cohort/plugins"

    @property
    def toy_training(self):
        return self.build_folder / "bin/toy_training"


def run(*command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{result.stdout[-6000:]}{result.stderr[-3000:]}")
