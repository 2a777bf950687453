"""A plugin that crashes, throws or closes files is named in one line, with the function where that is known."""
import signal

import harness
from bad_input_test import REFUSED, PluginTest
from harness import BUILD, COHORT, PLUGINS

PROGRAM = str(BUILD / "tests/failing_program")
FUNCTIONS = {
    "create": "cohort_status create(cohort_strategy *s, const char *variant, const cohort_key_value *options, uint64_t count)",
    "destroy": "void destroy(cohort_strategy *s)",
    "plan": "cohort_status plan(cohort_strategy *s, const cohort_job *job, cohort_plan *plan)",
    "end_step": "cohort_status end_step(cohort_strategy *s, const cohort_step *step)",
}


class PluginCrashTest(PluginTest):
    def layer(self, slot, code, init="0", fini="0"):
        """A strategy over ddp that runs `code` in `slot`."""
        function, filled = (f"static {FUNCTIONS[slot]} {{ {code} }}", f".{slot} = {slot}") if slot in FUNCTIONS else ("", "")
        source = f"""#include <stdlib.h>
#include <unistd.h>
#include <cohort/api/cohort.h>
{function}
static cohort_status init(const cohort_host *host) {{ {code if slot == "init" else "return 0;"} }}
static void fini(void) {{ {code if slot == "fini" else ""} }}
static const cohort_strategy_vt vt = {{ .struct_size = sizeof vt, {filled} }};
static const cohort_component component = {{ .struct_size = sizeof component, .kind = COHORT_KIND_STRATEGY, .name = "wild",
  .summary = "a test", .inherits = "ddp", .vtable = &vt }};
static const cohort_component *const components[] = {{ &component, 0 }};
const cohort_plugin cohort_plugin_0 = {{ .magic = COHORT_PLUGIN_MAGIC, .struct_size = sizeof(cohort_plugin),
  .abi_built = COHORT_ABI_VERSION, .abi_required = COHORT_RUNS_ON_ABI, .id = "org.example.wild", .version = "1.0.0",
  .vendor = "Example", .license = "MIT", .components = components, .init = init, .fini = fini }};
"""
        return self.compiled("wild", source)

    def run_with(self, plugin, *arguments, code):
        return self.fail_with(code, [PROGRAM, f"--plugin={plugin}", "--strategy=wild", "--max-steps=3", *arguments])

    def crash_in(self, slot):
        plugin = self.layer(slot, "abort();")
        result = self.run_with(plugin, code=REFUSED if slot == "init" else -signal.SIGABRT)
        who = f"plugin file '{plugin}'" if slot in ("init", "fini") else "strategy 'wild'"
        self.assertIn(f"error: {who} crashed with SIGABRT in its {slot}; ask its authors", result.stderr)


class PluginCrash(PluginCrashTest):
    def test_a_crash_before_and_after_training_names_plugin_and_function(self):
        for slot in ("init", "create", "plan", "destroy", "fini"):
            with self.subTest(slot=slot):
                self.crash_in(slot)

    def test_a_crash_in_a_step_names_the_plugin(self):
        plugin = self.layer("end_step", "*(volatile int *)8 = 1; return 0;")
        result = self.run_with(plugin, code=-signal.SIGSEGV)
        self.assertIn(f"error: plugin file '{plugin}' crashed with SIGSEGV in the optimizer's step, epoch 0, batch 0, rank 0; ask its authors",
                      result.stderr)

    def test_a_crash_of_the_program_blames_no_plugin(self):
        plugin = self.layer("", "")
        result = self.fail_with(-signal.SIGABRT, [PROGRAM, f"--plugin={plugin}", "--strategy=wild", "--how=abort", "--failing-rank=0"])
        self.assertNotIn("plugin file", result.stderr)

    def test_a_plugin_that_harms_the_process_is_refused(self):
        plugin = self.layer("init", "close(0); return 0;")
        result = self.run_with(plugin, code=REFUSED)
        self.assertIn("it closes files (descriptor 0) of the program while it is loaded or in its init", result.stderr)
        self.assertEqual(result.stderr.count("error: "), 1, str(result))
        self.run_with(self.layer("init", "closefrom(0); return 0;"), code=REFUSED)  # without a stream for a message

    def test_the_doctor_finds_a_plugin_that_cannot_be_used(self):
        self.succeed([COHORT, "plugins", "doctor"])
        plugin = self.layer("init", "abort();")
        result = self.fail_with(REFUSED, [COHORT, "plugins", "doctor", f"--plugin-dir={plugin.parent}"],
                                f"error: plugin file '{plugin}' crashed with SIGABRT in its init; ask its authors")
        self.assertRegex(result.stdout, r"(?m)^wild +- +- +cannot be used: plugin file '.*' crashed with SIGABRT in its init; ask its authors")
        self.assertRegex(result.stdout, r"(?m)^ddp +strategy ")

    def test_more_plugins_than_anybody_has_are_not_opened(self):
        for number in range(1001):
            (self.folder / f"cohort_p{number}.so").symlink_to(PLUGINS / "cohort_ddp.so")
        for command in (["plugins", "list"], ["strategies"]):
            self.fail_with(2, [COHORT, *command, f"--plugin-dir={self.folder}"], "at most 1000 are opened", "cohort plugins info")


class InFull(PluginCrashTest):
    def test_a_plugin_that_calls_exit_is_no_success(self):
        for slot in ("init", "create", "plan", "destroy", "fini", "end_step"):
            for strategy in ([], ["--devices=2"]):
                with self.subTest(slot=slot, strategy=strategy):
                    result = self.run_with(self.layer(slot, "exit(0);"), *strategy, code=REFUSED if slot == "init" else 1)
                    who = "the program called exit" if slot == "end_step" else f"called exit in its {slot}"
                    self.assertIn(f"{who} before its work was done", result.stderr)

    def test_a_crash_of_a_rank_names_plugin_and_function(self):
        for slot in ("create", "destroy"):
            last = "return 0;" if slot == "create" else ""
            plugin = self.layer(slot, f"const char *rank = getenv(\"RANK\"); if (rank && *rank == '1') abort(); {last}")
            result = self.run_with(plugin, "--devices=2", code=128 + signal.SIGABRT)
            self.assertIn(f"[rank 1] error: strategy 'wild' crashed with SIGABRT in its {slot}; ask its authors", result.stderr)


if __name__ == "__main__":
    harness.main()
