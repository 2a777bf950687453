#include "checkpoint/checkpoint_parts.hpp"

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;
using testing::ScriptedRun;
using testing::TemporaryFolder;

/// Returns the error of rank 0 of two where the other one's mark has this text, or "".
std::string mistake_of_mark(const std::string& text) {
  const TemporaryFolder folder;
  ScriptedRun run([](testing::Script& script) { script.topology.world_size = 2; });
  CheckpointParts parts(folder.path() / "step-00000001", run.runtime());
  parts.begin();
  host::write_file(partial_of(parts.checkpoint()) / "written-1.json", text);
  return error_text<UserError>([&] { parts.write({}); });
}

TEST(CheckpointParts, TakeNoMarkThatARankDidNotWrite) {
  for (const char* const text : {"garbage", "{}", R"({"files":{"x":{"bytes":-1,"sha256":""}},"own_state":[]})"}) {
    EXPECT_THAT(mistake_of_mark(text), HasSubstr("written-1.json' is not what rank 1 wrote; let nothing else write"));
  }
  EXPECT_THAT(mistake_of_mark(R"({"files":{"x":{"bytes":1,"sha256":""}},"own_state":[]})"),
              HasSubstr("as another rank wrote it"));
}

}  // namespace
}  // namespace cohort
