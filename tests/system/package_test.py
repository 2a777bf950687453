"""A user has a package and nothing of our tree: LibTorch comes beside it, `cohort new` begins a project, and that trains."""
import os
import pathlib
import re
import resource
import shutil
import subprocess
import time
import unittest

import harness
from harness import BUILD, COHORT, LIBTORCH, SOURCE, SystemTest, clean_environment
from pages import only_block

VERSION = re.search(r"^torch==([\d.]+)", (BUILD / "lib/cohort/requirements/libtorch.txt").read_text(), re.M).group(1)
PROJECT = SOURCE / "examples/new_project"
FIVE_MINUTES = "## Your own project in five minutes"

# Arguments: root, LibTorch, command. A root with this machine's Debian packages and nothing else of it: what dpkg installs there is
# laid over them and lost in the end.
ENTER = """
set -e
root=$1 libtorch=$2; shift 2
mount --make-rprivate /
mount -t tmpfs layers "$root/layers"
for one in usr etc var/lib/dpkg; do
  mkdir -p "$root/layers/$one/upper" "$root/layers/$one/work"
  mount -t overlay over -o "lowerdir=/$one,upperdir=$root/layers/$one/upper,workdir=$root/layers/$one/work" "$root/$one"
done
mount -t tmpfs none "$root/usr/local"
for one in null zero urandom random; do mount --bind "/dev/$one" "$root/dev/$one"; done
mount --bind "$libtorch" "$root/mnt"
mount -o remount,bind,ro "$root/mnt"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64m shm "$root/dev/shm"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -e -c "$@"
"""
INSTALL = """
dpkg --install /packages/cohort_*.deb /packages/cohort-dev_*.deb
cohort libtorch --install --from=/mnt
cd /root
"""


def without_numbers(line):
    return re.sub(r"[\d.]+", "#", line).strip()


def readme_commands():
    """Returns the README's commands for a project, as its reader types them."""
    return only_block("README.md", "sh", FIVE_MINUTES).splitlines()


def pack(generator, folder):
    """Returns the packages that cpack makes of the build."""
    subprocess.run(["cpack", "--config", BUILD / "CPackConfig.cmake", "-G", generator, "-B", folder], env=clean_environment(),
                   cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return sorted(file for file in folder.iterdir() if file.is_file())


def members(package):
    """Returns the names of the files in a .deb, below the root."""
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    return [line.split(maxsplit=5)[5].split(" -> ")[0].removeprefix("./") for line in listed.splitlines() if line[0] != "d"]


def control(package, field):
    return subprocess.run(["dpkg-deb", "--field", package, field], capture_output=True, text=True, check=True).stdout.strip()


class PackageTest(SystemTest):
    def check_output(self, shown):
        """Fails where the lines that the README shows are not in the output, in order; numbers may differ."""
        lines = iter(without_numbers(line) for line in shown.splitlines())
        for line in only_block("README.md", "text", FIVE_MINUTES).splitlines():
            if line.strip() != "...":
                self.assertIn(without_numbers(line), lines, shown)
        self.assertGreater(float(re.search(r"^test_acc +\| ([\d.]+)$", shown, re.M).group(1)), 0.97)

    def assert_relocatable(self, folder):
        """Fails where a file below the folder names a folder of this machine, or a library would be looked for in one."""
        machine = [str(place).encode() for place in (SOURCE, BUILD, LIBTORCH, pathlib.Path.home())]
        for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
            data = file.read_bytes()
            self.assertEqual([place for place in machine if place + b"/" in data], [], file)
            if data.startswith(b"\x7fELF"):
                dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
                for places in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", dynamic):
                    self.assertTrue(all(place.startswith("$ORIGIN") for place in places.split(":")), f"{file}: {places}")


class NewProject(PackageTest):
    def test_it_is_the_program_that_the_readme_shows(self):
        self.assertEqual(only_block("README.md", "cpp", FIVE_MINUTES),
                         (PROJECT / "main.cpp").read_text().replace("new_project", "my_project"))

    def test_its_files_have_its_name(self):
        result = self.succeed([COHORT, "new", "my_project"])
        for file in ("CMakeLists.txt", "main.cpp", ".gitignore"):
            self.assertEqual((self.folder / "my_project" / file).read_text(),
                             (PROJECT / file).read_text().replace("new_project", "my_project"))
        self.assertIn(f"cmake -B build -DCMAKE_PREFIX_PATH={BUILD}\n", result.stdout)
        self.assertNotIn("libtorch --install", result.stdout)
        self.succeed(["cmake", "-S", "my_project", "-B", "build", f"-DCMAKE_PREFIX_PATH={BUILD}"])  # the build tree is a package, too

    def test_its_program_prints_what_the_readme_shows(self):
        result = self.succeed(["sh", "-c", f"{BUILD / 'tests/new_project'} --devices=2 2>&1"])
        self.check_output(result.stdout)

    def test_a_name_that_cannot_be_is_refused_in_a_sentence(self):
        (self.folder / "there").mkdir()
        for name, text in (("my-project", "is no name for a program"), ("a/b", "is no name"), ("", "is no name"), ("1st", "is no name"),
                           ("test", "target of CMake's own"), ("there", "there is a folder 'there' already")):
            with self.subTest(name=name):
                result = self.fail_with(2, [COHORT, "new", name], "error: cohort new: ", text)
                self.assertEqual(result.stderr.count("\n"), 1, result)
        self.assertEqual(sorted(entry.name for entry in self.folder.iterdir()), ["there", "tmp"])


class Libtorch(PackageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.installed = cls.class_folder() / "installed"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.installed], env=clean_environment(), stdin=subprocess.DEVNULL,
                       capture_output=True, check=True)

    def setUp(self):
        super().setUp()
        self.prefix = self.folder / "prefix"
        shutil.copytree(self.installed, self.prefix, symlinks=True)
        self.cohort = self.prefix / "bin/cohort"
        self.link = self.prefix / "lib/cohort/libtorch"

    def fake(self, version="9.8.7"):
        """A folder that looks like a LibTorch of this version."""
        folder = self.folder / f"libtorch-{version}"
        for file in ("lib/libtorch_cpu.so", "lib/libc10.so", "include/torch/csrc/api/include/torch/torch.h"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()
        (folder / "include/torch/headeronly").mkdir()
        (folder / "include/torch/headeronly/version.h").write_text("".join(
            f"#define TORCH_VERSION_{part} {number}\n" for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."))))
        return folder

    def refused(self, *arguments, text, environment=None):
        result = self.fail_with(2, [self.cohort, "libtorch", *arguments], "error: cohort libtorch: ", text, environment=environment)
        self.assertEqual(result.stderr.count("error: cohort libtorch"), 1, result)
        return result

    def configure(self, *options):
        self.run_program([self.cohort, "new", "my_project"])
        return self.run_program(["cmake", "-S", "my_project", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", *options])

    def assert_none_found(self, result, text):
        self.assertEqual(result.code, 1, result)
        self.assertIn(text, " ".join(result.stderr.split()), result)

    def test_it_is_linked_from_a_folder_of_any_form(self):
        self.refused(text=f"no LibTorch in {self.link}: run {self.cohort} libtorch --install")
        self.assertIn(f"  {self.cohort} libtorch --install\n", self.succeed([self.cohort, "new", "first"]).stdout)
        for folder in (LIBTORCH, LIBTORCH.parent):
            self.succeed([self.cohort, "libtorch", "--install", f"--from={folder}"])
            self.assertEqual(self.link.resolve(), LIBTORCH)
        self.assertEqual(self.succeed([self.cohort, "libtorch"]).stdout,
                         f"LibTorch {VERSION} in {self.link}, a link to {LIBTORCH}\n")
        # The programs and plugins that need it find it.
        self.succeed([self.prefix / "bin/mnist", "--devices=2", "--collective=gloo", "--max-steps=3", "--epochs=1"])
        self.succeed([self.cohort, "plugins", "info", "gloo"])
        self.assertEqual(self.configure().code, 0)

    def test_what_cannot_be_linked_is_refused_in_a_sentence(self):
        (self.folder / "empty").mkdir()
        self.refused("--install", "--from=nowhere", text="--from=nowhere is no folder: give one with")
        self.refused("--install", "--from=empty", text="--from=empty holds no LibTorch: give a folder with")
        self.refused("--install", f"--from={self.fake()}", text=f"has version 9.8.7, and this cohort was built with {VERSION}: ")
        incomplete = self.fake(VERSION)
        for library, *needs in (("libabsent.so",), ("lib/libtorch_cpu.so", "-L.", "-Wl,--no-as-needed", "-labsent")):
            self.succeed(["cc", "-shared", "-x", "c", "/dev/null", "-x", "none", *needs, "-o", incomplete / library],
                         {"LIBRARY_PATH": str(incomplete)})
        (incomplete / "libabsent.so").unlink()
        self.refused("--install", f"--from={incomplete}", text=" does not find libabsent.so, ")
        self.fail_with(2, [self.cohort, "libtorch", "--from=empty"], "--from requires --install")
        self.assertFalse(self.link.is_symlink())

    def test_an_interrupted_download_leaves_nothing_that_looks_complete(self):
        tools = self.folder / "tools"
        tools.mkdir()
        # A pip that unpacks the beginning of LibTorch, and then ends, or has not got this far.
        (tools / "python3").write_text('#!/bin/sh\n[ "$3" = --version ] && exit "${NO_PIP:-0}"\n'
                                       'for target; do [ "$before" = --target ] && break; before=$target; done\n'
                                       f'mkdir -p "$target/torch/lib"\ncp -rs {self.fake(VERSION)}/. "$target/torch/"\nexit 1\n')
        (tools / "python3").chmod(0o755)
        path = {"PATH": f"{tools}:{os.environ['PATH']}"}
        self.refused("--install", text="check the network and the free space", environment=path)
        self.assertTrue((self.prefix / f"lib/cohort/libtorch-{VERSION}.partial/torch/lib/libtorch_cpu.so").exists())
        self.refused(text="no LibTorch in")
        self.refused("--install", text="install python3-pip", environment={**path, "NO_PIP": "1"})

    def test_a_folder_that_may_not_be_written_is_named(self):
        if os.geteuid() == 0:
            self.cohort = self.as_nobody()
        else:
            (self.prefix / "lib/cohort").chmod(0o555)
        self.refused("--install", f"--from={LIBTORCH}", text="cannot be written to: run it as its owner, as in sudo ")

    def as_nobody(self):
        """Makes commands of this test run without root's rights. Returns the command."""
        script = self.folder / "cohort"
        script.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs {self.cohort} "$@"\n')
        script.chmod(0o755)
        (self.prefix / "lib/cohort").chmod(0o555)
        return script

    def test_cmake_says_what_is_missing(self):
        self.assert_none_found(self.configure(), f"no LibTorch in {self.link}: run {self.cohort} libtorch --install")
        self.link.symlink_to(self.fake())
        self.assert_none_found(self.configure(), f"has version 9.8.7, and this cohort was built with {VERSION}: run")
        self.refused(text="has version 9.8.7")
        self.assertEqual(self.configure(f"-DCOHORT_LIBTORCH={LIBTORCH.parent}").code, 0)


class Notices(PackageTest):
    def test_they_are_those_that_debian_has_for_what_is_compiled_in(self):
        notices = (SOURCE / "cmake/package/THIRD_PARTY.txt").read_text()
        for name, package, *holders in (("spdlog", "libspdlog-dev", "2014-2016 Gabi Melman"), ("fmt", "libfmt-dev", "2012-2020 Victor Zverovich"),
                                        ("CLI11", "libcli11-dev", "2017-2020 University of Cincinnati"),
                                        ("toml++", "libtomlplusplus-dev", "2020-2022 Mark Gillard", "2008-2009 Bjoern Hoehrmann"),
                                        ("JSON", "nlohmann-json3-dev", "2013-2022 Niels Lohmann", "2009 Florian Loitsch"),
                                        ("Gloo", "libgloo-dev", "2017-present, Facebook"), ("GoogleTest", "libgtest-dev", "2008, Google Inc.")):
            text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text()
            for holder in holders:
                with self.subTest(name=name, holder=holder):
                    self.assertIn(holder, text)
                    self.assertRegex(notices, rf"(?s)\n  {re.escape(name)} .{{0,200}}{re.escape(holder)}")


class ArchiveInFull(PackageTest):
    def test_programs_of_the_archive_alone_train(self):
        folder = self.folder / "packages"
        folder.mkdir()
        (archive,) = pack("TGZ", folder)
        shutil.unpack_archive(archive, self.folder)
        (unpacked,) = self.folder.glob("cohort-*-Linux-*")
        self.assert_relocatable(unpacked)
        for file in ("LICENSE", "THIRD_PARTY.txt"):
            self.assertTrue((unpacked / "share/doc/cohort" / file).is_file())
        plugins = {file.stem.removeprefix("cohort_") for file in (unpacked / "lib/cohort/plugins").glob("cohort_*.so")}
        self.assertEqual(plugins, {folder.name for folder in SOURCE.glob("plugins/*/*") if (BUILD / f"lib/cohort/plugins/cohort_{folder.name}.so").exists()})
        cohort = unpacked / "bin/cohort"
        self.succeed([cohort, "libtorch", "--install", f"--from={LIBTORCH}"])
        self.succeed([cohort, "new", "my_project"])
        self.succeed(["cmake", "-S", "my_project", "-B", "build", f"-DCMAKE_PREFIX_PATH={unpacked}"])
        self.succeed([cohort, "run", "-n", "2", unpacked / "bin/mnist", "--max-steps=3", "--epochs=1"])
        (unpacked / "lib/cohort/libtorch").unlink()
        self.fail_with(127, [cohort, "run", "-n", "2", unpacked / "bin/mnist"], "libtorch_cpu.so", "cohort libtorch says if")


def why_no_root():
    """Why this user cannot have a root of his own; nothing where he can."""
    overlay = "mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w && mount -t overlay o -o lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w /mnt"
    made = subprocess.run(["unshare", "--mount", "sh", "-e", "-c", overlay], stderr=subprocess.DEVNULL).returncode == 0
    return None if made else "needs root: lays a root folder over this machine's packages"


def seconds_of_work():
    """Returns the processor time of all programs that this process has started and awaited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class DebInFull(PackageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.packages = cls.class_folder()
        pack("DEB", cls.packages)
        (cls.development,) = cls.packages.glob("cohort-dev_*.deb")
        (cls.runtime,) = cls.packages.glob("cohort_*.deb")

    def test_each_package_has_its_files_and_names_what_it_needs(self):
        runtime, development = members(self.runtime), members(self.development)
        self.assertEqual(set(runtime) & set(development), set())
        for name in ("usr/bin/cohort", "opt/cohort/bin/cohort", "opt/cohort/lib/cohort/libtorch.sh", "opt/cohort/lib/cohort/plugins/cohort_ddp.so",
                     "opt/cohort/share/cohort/new_project/main.cpp", "opt/cohort/share/doc/cohort/THIRD_PARTY.txt"):
            self.assertIn(name, runtime)
        for name in ("opt/cohort/include/cohort/cohort.hpp", "opt/cohort/lib/cmake/cohort/cohort-config.cmake", "opt/cohort/lib/libcohort_trainer.so"):
            self.assertIn(name, development)
        self.assertFalse([name for name in runtime if name.endswith((".hpp", ".cmake")) or "torch_cpu" in name])
        for library in ("libc6", "libsodium", "libopenmpi", "zlib1g"):
            self.assertIn(library, control(self.runtime, "Depends"))
        self.assertIn("python3-pip", control(self.runtime, "Recommends"))
        self.assertIn(f"cohort (= {control(self.runtime, 'Version')})", control(self.development, "Depends"))
        for package in (self.runtime, self.development):
            unpacked = self.folder / package.name
            subprocess.run(["dpkg-deb", "--extract", package, unpacked], check=True)
            self.assert_relocatable(unpacked)

    @unittest.skipIf(why_no_root(), why_no_root())
    def test_in_an_empty_root_a_project_is_made_and_trains(self):
        root = self.folder / "root"
        for name in ("usr", "etc", "var/lib/dpkg", "layers", "dev/shm", "proc", "root", "tmp", "mnt", "packages"):
            (root / name).mkdir(parents=True)
        for name in ("null", "zero", "urandom", "random"):
            (root / "dev" / name).touch()
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        for package in (self.runtime, self.development):
            shutil.copy(package, root / "packages")
        begin, begin_of_work = time.monotonic(), seconds_of_work()
        command = "mkdir -p /var/log\n" + INSTALL + "\n".join(readme_commands()) + " 2>&1\ndpkg --remove cohort-dev cohort"
        result = self.succeed(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", root, LIBTORCH.parent,
                               command], timeout=600)
        seconds, work = time.monotonic() - begin, seconds_of_work() - begin_of_work
        print(f"installed, built and trained in an empty root in {seconds:.0f} s, {work:.0f} s of a processor", flush=True)
        self.check_output(result.stdout)
        self.assertFalse((root / "opt/cohort").exists(), result)
        self.assertLess(work, 120, "a quiet machine takes about as long")


if __name__ == "__main__":
    harness.main()
