"""Bad input gets one sentence, the right exit code, and leaves nothing behind."""
import pathlib
import socket
import subprocess

import numpy
from safetensors.numpy import save_file

import harness
from harness import COHORT, MNIST, NUMERICS, PLUGINS, SOURCE, SystemTest

USER, REFUSED, PEER = 2, 3, 4


class BadNames(SystemTest):
    def test_an_unknown_strategy_gets_the_nearest_name(self):
        self.fail_with(USER, [MNIST, "--strategy=dpp"], "strategy", "dpp", "ddp")

    def test_an_unknown_option_gets_the_nearest_and_the_table(self):
        self.fail_with(USER, [MNIST, "--strategy=ddp,compresion=fp16", "--devices=2"], "compresion", "compression", "bucket_size")

    def test_an_unknown_collective_is_refused(self):
        self.fail_with(USER, [MNIST, "--devices=2", "--collective=smh"], "smh", "shm")

    def test_an_unknown_flag_gets_the_nearest(self):
        self.fail_with(USER, [MNIST, "--devces=2"], "devces", "devices")


class MoreBadNames(SystemTest):
    def test_an_unknown_variant_is_refused(self):
        self.fail_with(USER, [MNIST, "--strategy=ddp:fast"], "variant", "fast")

    def test_a_duplicate_key_is_refused(self):
        self.fail_with(USER, [MNIST, "--strategy=ddp,compression=fp16,compression=none"], "compression", "twice")

    def test_a_bad_value_shows_what_is_allowed(self):
        self.fail_with(USER, [MNIST, "--strategy=ddp,compression=fp8", "--devices=2"], "fp8", "fp16")

    def test_an_unknown_accelerator_is_refused(self):
        self.fail_with(USER, [MNIST, "--accelerator=gpu4"], "gpu4")

    def test_a_flag_of_a_later_version_is_unknown_not_ignored(self):
        self.fail_with(USER, [MNIST, "--tensor-parallel=2"], "tensor-parallel")

    def test_a_name_never_becomes_a_path(self):
        self.fail_with(USER, [MNIST, "--strategy=../../etc/passwd"], "strategy")


class BadNumbers(SystemTest):
    def test_variables_that_contradict_each_other(self):
        self.fail_with(USER, [MNIST], "RANK=2", "WORLD_SIZE=2",
                       environment={"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"})

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            node = ["--nnodes=2", "--nproc-per-node=1", "--node-rank=0", "--master-addr=node0", "--master-port", str(port)]
            self.fail_with(USER, [COHORT, "run", *node, MNIST], str(port))

    def test_a_rank_that_waits_for_nobody_ends_at_the_deadline_and_names_the_missing(self):
        environment = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.reserve_port())}
        self.fail_with(PEER, [MNIST, "--timeout=2s"], "rank 1", environment=environment)


class MoreBadNumbers(SystemTest):
    def test_devices_that_cannot_be(self):
        for value in ("0", "-1", "auto", "two", "[0,0]", "-3", "[]", "1.5", "99999999999999999999"):
            with self.subTest(value=value):
                self.fail_with(USER, [MNIST, f"--devices={value}"], "devices")

    def test_numbers_with_trailing_garbage(self):
        for flag in ("--max-steps=10x", "--timeout=5parsecs", "--seed=-1", "--log-every-n-steps=0", "--bucket-size=12Q"):
            with self.subTest(flag=flag):
                self.fail_with(USER, [MNIST, flag], flag.split("=")[0].lstrip("-"))

    def test_a_world_size_that_contradicts_the_environment(self):
        self.fail_with(USER, [COHORT, "run", "-n", "2", MNIST, "--devices=3"], "devices", "3")

    def test_more_ranks_than_there_can_be(self):
        job = {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}
        for local in ("2147483647", "1"):
            self.fail_with(USER, [MNIST], "WORLD_SIZE", environment={**job, "WORLD_SIZE": "2147483647", "LOCAL_WORLD_SIZE": local})
        self.fail_with(USER, [COHORT, "run", "--nnodes=65536", "--nproc-per-node=65536", "--node-rank=1", "--master-addr=127.0.0.1",
                              "--master-port=29500", MNIST], "65536")


class BadFiles(SystemTest):
    def test_a_config_file_with_an_error_is_named_with_its_line(self):
        config = self.folder / "job.toml"
        config.write_text('devices = "2"\nstrtegy = "ddp"\n')
        self.fail_with(USER, [MNIST, f"--config={config}"], "job.toml", "strtegy", "strategy")
        config.write_text("devices = [\n")
        self.fail_with(USER, [MNIST, f"--config={config}"], "job.toml")


class MoreBadFiles(SystemTest):
    def test_a_truncated_data_file(self):
        folder = self.folder / "data"
        folder.mkdir()
        for file in (SOURCE / "examples/mnist/data").glob("*.gz"):
            content = file.read_bytes()
            for name in (file.name, file.name.replace("t10k", "train")):
                (folder / name).write_bytes(content[: len(content) // 2])
        self.fail_with(USER, [MNIST, f"--data-dir={folder}"], "idx")

    def test_images_under_other_names_are_refused_with_the_names(self):
        (self.folder / "data").mkdir()
        (self.folder / "data/train-images.bin").write_text("")
        self.fail_with(USER, [MNIST, f"--data-dir={self.folder / 'data'}"],
                       "data has neither train-images-idx3-ubyte nor train-images.idx3-ubyte, plain or as .gz, here or in MNIST/raw; give "
                       "the files of MNIST these names, or another --data-dir")

    def test_an_unwritable_log_directory(self):
        (self.folder / "file").write_text("")
        self.fail_with(USER, [MNIST, f"--log-dir={self.folder / 'file' / 'logs'}"], "log")

    def test_a_summary_in_a_folder_that_does_not_exist_is_known_before_training(self):
        self.fail_with(USER, [MNIST, "--summary-json=nowhere/s.json"], "nowhere", "does not exist")

    def test_a_weights_file_that_lies_about_its_header(self):
        weights = self.folder / "w.safetensors"
        weights.write_bytes(b"\xff" * 7 + b"\x7f" + b"{}")
        data = self.folder / "missing.safetensors"
        self.fail_with(USER, [NUMERICS, f"--init-from={weights}", f"--data-from={data}"], "w.safetensors")


class PluginTest(SystemTest):
    def fail_with_file(self, path, *texts):
        return self.fail_with(REFUSED, [MNIST, f"--plugin={path}", f"--strategy={pathlib.Path(path).stem[7:]}"],
                              str(path), *texts)

    def compiled(self, name, source, compiler="cc"):
        path = self.folder / f"cohort_{name}.so"
        code = self.folder / f"{name}.c"
        code.write_text(source)
        language = "c++" if compiler == "c++" else "c"
        subprocess.run([compiler, "-x", language, "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", str(code), "-o", str(path)],
                       check=True)
        return path

    def descriptor(self, name, abi="COHORT_ABI_VERSION", init="0", flags="0"):
        return f"""
static const cohort_strategy_vt vt = {{ sizeof vt, {flags} }};
static const cohort_component component = {{ sizeof component, COHORT_KIND_STRATEGY, "{name}", "a test", 0, 0, 0, 0, &vt, 0 }};
static const cohort_component *const components[] = {{ &component, 0 }};
const cohort_plugin cohort_plugin_0 = {{ COHORT_PLUGIN_MAGIC, sizeof(cohort_plugin), {abi}, {abi}, "org.example.{name}",
  "1.0.0", "Example", "MIT", components, {init}, 0 }};
"""


class BadPlugins(PluginTest):
    def test_a_file_that_is_no_elf_file(self):
        path = self.folder / "cohort_text.so"
        path.write_text("hello")
        self.fail_with_file(path, "ELF")

    def test_a_newer_abi_names_both_versions(self):
        source = "#include <cohort/api/cohort.h>\n" + self.descriptor("newer", "(COHORT_ABI_VERSION + 7)")
        self.fail_with_file(self.compiled("newer", source), "0.9", "0.2", "update cohort")

    def test_a_flag_that_no_host_knows(self):
        source = "#include <cohort/api/cohort.h>\n" + self.descriptor("flagged", flags="0x40000000u")
        self.fail_with_file(self.compiled("flagged", source), "its strategy sets the flags 0x40000000", "clear them")

    def test_an_init_that_crashes(self):
        source = ("#include <cohort/api/cohort.h>\n"
                  "static cohort_status init(const cohort_host *h) { (void)h; *(volatile int *)0 = 1; return 0; }\n" +
                  self.descriptor("crasher", init="init"))
        self.fail_with_file(self.compiled("crasher", source), "crashed with SIGSEGV in its init; ask its authors")

    def test_a_broken_plugin_is_one_line_in_the_list(self):
        (self.folder / "cohort_text.so").write_text("hello")
        result = self.succeed([COHORT, "plugins", "list", f"--plugin-dir={self.folder}"])
        self.assertIn("text", result.stdout)
        self.assertIn("ddp", result.stdout)


class MoreBadPlugins(PluginTest):
    def test_a_missing_file(self):
        self.fail_with(USER, [MNIST, "--plugin=./cohort_none.so", "--strategy=none"], "cohort_none.so")

    def test_a_directory(self):
        path = self.folder / "cohort_folder.so"
        path.mkdir()
        self.fail_with_file(path, "folder")

    def test_a_world_writable_file(self):
        path = self.compiled("open", "#include <cohort/api/cohort.h>\n" + self.descriptor("open"))
        path.chmod(0o777)
        self.fail_with_file(path, "everyone can change it")

    def test_a_library_without_the_symbol(self):
        self.fail_with_file(self.compiled("empty", "int nothing;"), "cohort_plugin_0")

    def test_an_init_that_throws(self):
        source = ("#include <stdexcept>\n#include <cohort/api/cohort.h>\n"
                  "static cohort_status init(const cohort_host *) noexcept(false) { throw std::runtime_error(\"oh no\"); }\n" +
                  'extern "C" {' + self.descriptor("thrower", init="(cohort_status (*)(const cohort_host *) noexcept)init") + "}")
        self.fail_with_file(self.compiled("thrower", source, "c++"))


class DisagreementTest(SystemTest):
    def ranks(self, *arguments_by_rank):
        processes, port = [], self.reserve_port()
        for rank, arguments in enumerate(arguments_by_rank):
            environment = {"RANK": str(rank), "WORLD_SIZE": str(len(arguments_by_rank)), "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": str(len(arguments_by_rank)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            processes.append(self.start(arguments, environment))
        return [(result.code, result.stderr) for result in map(self.finish, processes)]

    def data(self):
        path = self.folder / "data.safetensors"
        if not path.exists():
            save_file({"x": numpy.zeros((2, 2, 4, 32), numpy.float32), "y": numpy.zeros((2, 2, 4), numpy.int64)}, path)
        return path


class Disagreement(DisagreementTest):
    def test_different_models_stop_all_ranks_with_a_table(self):
        for code, stderr in self.ranks([NUMERICS, "--model=linear32", f"--data-from={self.data()}"],
                                       [NUMERICS, "--model=mlp_small", f"--data-from={self.data()}"]):
            self.assertEqual(code, USER, stderr)
            self.assertIn("different models", stderr)
            self.assertIn("fc1.weight", stderr)


class MoreDisagreement(DisagreementTest):
    def test_different_strategy_options_stop_all_ranks_with_a_table(self):
        for code, stderr in self.ranks([NUMERICS, "--strategy=ddp,compression=fp16", f"--data-from={self.data()}"],
                                       [NUMERICS, "--strategy=ddp", f"--data-from={self.data()}"]):
            self.assertEqual(code, USER, stderr)
            self.assertIn("compression=fp16", stderr)

    def test_different_accumulation_stops_all_ranks_with_a_table(self):
        for code, stderr in self.ranks([NUMERICS, "--accumulate-grad-batches=2", f"--data-from={self.data()}"],
                                       [NUMERICS, f"--data-from={self.data()}"]):
            self.assertEqual(code, USER, stderr)
            self.assertIn("accumulate-grad-batches = 2", stderr)

    def test_a_different_build_of_a_plugin_stops_all_ranks_with_a_table(self):
        changed = self.folder / "cohort_ddp.so"
        changed.write_bytes((PLUGINS / "cohort_ddp.so").read_bytes() + b"\0")
        for code, stderr in self.ranks([NUMERICS, f"--plugin={changed}", "--strategy=ddp", f"--data-from={self.data()}"],
                                       [NUMERICS, "--strategy=ddp", f"--data-from={self.data()}"]):
            self.assertEqual(code, USER, stderr)
            self.assertIn("cohort_ddp.so", stderr)


if __name__ == "__main__":
    harness.main()
