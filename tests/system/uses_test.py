"""A plugin of somebody else refuses what it cannot do: one sentence with its own words, exit code 2, before training starts."""
import re
import subprocess

import harness
from harness import BUILD, MNIST, NUMERICS, SOURCE, SystemTest
from pages import only_block

SESSION = str(BUILD / "tests/session_program")
USES = {name: int(number) for name, number in re.findall(
    r"#define COHORT_USE_(\w+) (\d+)", (SOURCE / "plugin_api/include/cohort/api/plugin.h").read_text())}
PLUGIN = """
#include <cohort/api/cohort.h>
%s
static const cohort_strategy_vt vtable = {.struct_size = sizeof vtable};
static const cohort_component component = {.struct_size = sizeof component, .kind = COHORT_KIND_STRATEGY, .name = "docs",
  .summary = "a test", .vtable = &vtable, .supports = supports};
static const cohort_component* const components[] = {&component, 0};
const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC, .struct_size = sizeof(cohort_plugin),
  .abi_built = COHORT_ABI_VERSION, .abi_required = COHORT_ABI_VERSION, .id = "org.example.docs", .version = "1.0.0",
  .vendor = "Example", .license = "MIT", .components = components};
"""


class UsesTest(SystemTest):
    def compile(self, name, source):
        path = self.folder / f"cohort_{name}.so"
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/plugin_api/include", source, "-o", path], check=True)
        return f"--plugin={path}"

    def refusing(self, use, where="strategy", **options):
        """A plugin that refuses one use, and the flag that puts it to work."""
        name = {"strategy": "refusing", "layer": "refusing_layer"}[where]
        options = "".join(f",{key}={value}" for key, value in {"use": USES[use], **options}.items())
        return [self.compile(name, SOURCE / f"tests/support/plugins/{name}.c"), f"--{where}={name}{options}"]

    def check_refused(self, command, sentence):
        result = self.fail_with(2, command, sentence)
        self.assertEqual(result.stderr.count("error: "), 1, str(result))
        self.assertNotRegex(result.stdout + result.stderr, "[Ee]poch|all checks passed", str(result))

    def data(self):
        import torch  # slow, and for this test alone
        from safetensors.torch import save_file
        path = self.folder / "data.safetensors"
        save_file({"x": torch.randn(2, 1, 8, 16, dtype=torch.float64), "y": torch.zeros(2, 1, 8, dtype=torch.int64)}, path)
        return f"--data-from={path}"


class Trainer(UsesTest):
    def test_a_strategy_refuses_to_accumulate(self):
        self.check_refused([MNIST, *self.refusing("ACCUMULATION", **{"from": 3}), "--accumulate-grad-batches=3"],
                           "strategy 'refusing:plain' cannot accumulate gradients over batches: refusing keeps no state for it; "
                           "choose --strategy=ddp")

    def test_a_layer_refuses_to_clip(self):
        self.check_refused([MNIST, *self.refusing("CLIPPING", "layer"), "--gradient-clip-val=1"],
                           "layer 'refusing_layer' cannot clip gradients: refusing_layer keeps no state for it; choose")


class Session(UsesTest):
    def test_a_loop_of_its_own_is_refused(self):
        self.check_refused([SESSION, *self.refusing("OWN_LOOP")],
                           "strategy 'refusing:plain' cannot serve a loop of one's own (Session): refusing keeps no state for it; "
                           "choose --strategy=ddp")

    def test_accumulation_is_refused_when_it_begins(self):
        self.check_refused([SESSION, *self.refusing("ACCUMULATION", "layer")],
                           "layer 'refusing_layer' cannot accumulate gradients over batches: refusing_layer keeps")


class Words(UsesTest):
    def test_an_answer_that_is_none_refuses_the_plugin(self):
        self.fail_with(3, [MNIST, *self.refusing("DEVICE_TYPE", answer=7)],
                       "strategy 'refusing:plain', supports: the answer 7 is none; set answer to a COHORT_ANSWER_ constant")

    def test_the_page_for_authors_refuses_in_c(self):
        source = self.folder / "docs.c"
        source.write_text(PLUGIN % only_block("docs/plugins/uses.md", "c", "## In C and C++"))
        plugin = self.compile("docs", source)
        self.check_refused([MNIST, plugin, "--strategy=docs", "--gradient-clip-val=1"],
                           "strategy 'docs' cannot clip gradients: it averages momenta, not gradients; choose --strategy=ddp")


class InFull(UsesTest):
    def test_several_optimizers_and_steps_by_hand_are_refused(self):
        for use, model, words in (("PHASES", "adversarial", "train with several optimizers"),
                                  ("BY_HAND", "adversarial_by_hand", "let training_step run the optimizers by hand")):
            self.check_refused([NUMERICS, self.data(), f"--model={model}", *self.refusing(use)],
                               f"strategy 'refusing:plain' cannot {words}: refusing keeps no state for it; choose")

    def test_nodes_and_devices_are_refused_before_any_rank_is_started(self):
        self.check_refused([MNIST, *self.refusing("NODES"), "--num-nodes=2"],
                           "--strategy: strategy 'refusing:plain' cannot train on 2 nodes (--num-nodes): refusing keeps")
        self.check_refused([MNIST, *self.refusing("DEVICE_TYPE", "layer")],
                           "--layer: layer 'refusing_layer' cannot use accelerator cpu: refusing_layer keeps")

    def test_what_is_not_refused_trains(self):
        self.succeed([MNIST, *self.refusing("ACCUMULATION", **{"from": 3}), "--accumulate-grad-batches=2", "--epochs=1",
                      "--max-steps=1"])

    def test_the_page_for_authors_compiles_in_cpp(self):
        source = self.folder / "quiet.cpp"
        source.write_text("#include <cohort/sdk/strategy.hpp>\nstruct Quiet : cohort::sdk::Strategy<Quiet> {};\n" +
                          only_block("docs/plugins/uses.md", "cpp", "## In C and C++"))
        subprocess.run(["c++", "-std=c++17", "-fsyntax-only", f"-I{SOURCE}/sdk/include", f"-I{SOURCE}/plugin_api/include", source],
                       check=True)


if __name__ == "__main__":
    harness.main()
