"""The set-up script explains itself, changes nothing when asked not to, says what it needs without root, and takes no file
from the package index that it does not know by its hash."""
import importlib.util
import os
import pathlib
import re

from harness import LIBTORCH, SOURCE, SystemTest, main

SCRIPT = SOURCE / "cmake/bootstrap.sh"
LISTS = SOURCE / "cmake/requirements"
PINNED, *OTHERS = (re.search(r"^torch==([\d.]+)", file.read_text(), re.M).group(1)
                   for file in (LISTS / "libtorch.txt", *sorted(LISTS.glob("libtorch-*.txt"))))
VENV = "venv-torch-" + PINNED
INSTALLED = "printf installed"
MISSING = "exit 1"


class Bootstrap(SystemTest):
    def with_tools(self, tools):
        """The environment of a machine on which these programs are shell scripts. Each call of one is a line in `calls`."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        self.calls = self.folder / "calls"
        self.calls.write_text("")
        for name, text in tools.items():
            (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.calls}"\n{text}\n')
            (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    def changes_by_root_that_lacks(self, package):
        environment = self.with_tools({"id": "echo 0", "dpkg-query": f'[ "$3" != {package} ] && {INSTALLED}',
                                       "apt-get": "", "install": "", "update-rc.d": "", "deb-systemd-helper": ""})
        self.succeed([SCRIPT, "--tests", "--packages"], environment)
        return [call for call in self.calls.read_text().splitlines() if not call.startswith(("id ", "dpkg-query ", "install "))]

    def test_a_second_run_finds_everything_and_prints_the_libtorch_folder(self):
        # Dry first: a venv that would be made anew is the one that tests run in at this moment.
        for arguments in (["--tests", "--dry-run"], ["--tests"]):
            result = self.succeed([SCRIPT, *arguments])
            self.assertTrue(os.path.exists(result.stdout.strip() + "/torch/lib/libtorch_cpu.so"), str(result))
            self.assertRegex(result.stderr, r"packages: all \d+ present(.*\n)+.*LibTorch.* present in (.*\n)+.*venv: present in")

    def test_the_venvs_torch_is_the_unpacked_libtorch(self):
        version = re.search(r"libtorch-([\d.]+)", str(LIBTORCH)).group(1)
        libtorch = pathlib.Path(self.succeed([SCRIPT, f"--libtorch={version}"]).stdout.strip())
        packages = pathlib.Path(importlib.util.find_spec("torch").origin).parent
        for name in ("lib/libtorch_cpu.so", "lib/libtorch_python.so", "__init__.py"):
            self.assertTrue(os.path.samefile(packages / name, libtorch / "torch" / name), name)

    def test_a_dry_run_says_what_it_would_do_and_does_nothing(self):
        arguments = ["--dry-run", "--tests", "--cuda"]
        result = self.succeed([SCRIPT, *arguments], environment={"COHORT_DEPS_DIR": str(self.folder / "deps")})
        self.assertRegex(result.stderr, r"LibTorch.*to download(.*\n)+.*venv.*to download(.*\n)+.*CUDA compiler.*to download")
        self.assertFalse((self.folder / "deps").exists())

    def dry_run_with(self, version):
        result = self.succeed([SCRIPT, "--dry-run", f"--libtorch={version}"], environment={"COHORT_DEPS_DIR": str(self.folder / "deps")})
        self.assertEqual(result.stdout, f"{self.folder}/deps/libtorch-{version}\n")
        self.assertIn(f"LibTorch {version}: 5", result.stderr)
        return result.stderr

    def test_another_libtorch_is_taken_and_one_that_is_not_tried_warned_of(self):
        for version in OTHERS:
            self.assertNotIn("warning", self.dry_run_with(version))
        self.assertIn(f"warning: cohort is not tried with LibTorch 9.8.7, but with {' '.join(sorted([PINNED, *OTHERS], key=lambda version: [int(part) for part in version.split('.')]))};",
                      self.dry_run_with("9.8.7"))
        self.fail_with(2, [SCRIPT, "--libtorch=new"], "--libtorch=new is no version")

    def test_the_readme_names_the_versions_that_are_tried(self):
        self.assertIn(f"LibTorch is {PINNED} from its wheel; the tests also pass with {', '.join(OTHERS)}",
                      " ".join((SOURCE / "README.md").read_text().split()))

    def test_a_venv_of_other_packages_is_made_anew(self):
        venv = self.folder / "deps" / VENV
        venv.mkdir(parents=True)
        (venv / ".complete").touch()
        environment = {"COHORT_DEPS_DIR": str(self.folder / "deps")}
        self.assertIn("test venv with", self.succeed([SCRIPT, "--dry-run", "--tests"], environment).stderr)
        self.assertTrue((venv / ".complete").exists())

    def test_without_root_it_says_what_to_ask_for(self):
        environment = self.with_tools({"id": "echo 1000", "dpkg-query": MISSING})
        self.fail_with(2, [SCRIPT, "--tests"], "missing: g++", "openssh-server", "ask for: sudo ",
                       "cmake/bootstrap.sh --tests --packages", environment=environment)

    def test_without_root_nothing_is_asked_for_where_the_packages_are(self):
        self.succeed([SCRIPT, "--tests"], self.with_tools({"id": "echo 1000", "dpkg-query": INSTALLED}))

    def test_a_server_that_it_installs_is_not_started_by_the_system(self):
        services = {"openssh-server": "ssh", "munge": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd"}
        for package, service in services.items():
            with self.subTest(package=package):
                update, install, *after = self.changes_by_root_that_lacks(package)
                self.assertRegex(f"{update}\n{install}", rf"^apt-get update.*\napt-get install.* {package}$")
                self.assertEqual(after, [f"update-rc.d {service} disable", f"deb-systemd-helper disable {service}.service"])

    def test_a_server_that_was_there_is_left_as_it_is(self):
        self.assertEqual([call.split()[:2] for call in self.changes_by_root_that_lacks("ninja-build")],
                         [["apt-get", "update"], ["apt-get", "install"]])

    def test_an_unknown_argument_is_refused_with_the_known_ones(self):
        self.fail_with(2, [SCRIPT, "--test"], "unknown argument '--test'", "--tests")


class Supply(SystemTest):
    def test_every_package_of_the_index_is_known_by_version_and_hash(self):
        lists = sorted(LISTS.glob("*.txt"))
        self.assertEqual({file.stem for file in lists},
                         {"cuda", "libtorch", *(f"libtorch-{version}" for version in OTHERS), "peers", "tests"})
        for file in lists:
            text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.M).replace("\\\n", "")
            for line in text.splitlines():
                with self.subTest(list=file.name, line=line):
                    self.assertRegex(line, r"^[\w-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+$")

    def test_no_script_takes_a_package_in_another_way(self):
        for script in sorted({*SOURCE.glob("*/*.sh"), *SOURCE.glob("*/*/*.sh")} - {LISTS / "refresh.sh"}):
            commands = re.findall(r"pip (?:install|download) (?:.*\\\n)*.*", script.read_text())
            for command in commands:
                with self.subTest(script=script.name, command=command):
                    self.assertRegex(command, r"--require-hashes|--no-deps --no-build-isolation \"\$sources")


if __name__ == "__main__":
    main()
