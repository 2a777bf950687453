// Whatever comes over a connection between a launcher and a node agent: it is messages and jobs that survive being
// written and read again, or is refused; and no number in a message harms the files of the ranks' output.
#include "../support/temporary_folder.hpp"
#include "fuzz.hpp"
#include "message.hpp"
#include "node_job.hpp"
#include "rank_output.hpp"

namespace {

using namespace cohort;

nodes::RankOutput& rank_output() {
  static const testing::TemporaryFolder folder;
  static host::Log log(fuzz::no_log());
  static nodes::RankOutput output(folder.path(), /*ranks=*/12, /*signals=*/-1, log);
  return output;
}

void check_number(const nodes::Message& message) {
  const auto lies = [&](int low, int high) { return message.number >= low && message.number <= high; };
  const auto one_of = [&](std::string_view kinds) {
    return kinds.find(static_cast<char>(message.kind)) < kinds.size();
  };
  if (one_of("ls")) fuzz::require(lies(0, 65535), "no port: " + std::to_string(message.number));
  if (one_of("z")) fuzz::require(lies(0, 255), "no exit code: " + std::to_string(message.number));
  if (one_of("xf")) fuzz::require(lies(1, 255), "no exit code of a failure: " + std::to_string(message.number));
}

std::string read_messages(nodes::MessageReader& reader) {
  std::string again;
  while (const auto message = reader.next()) {
    again += nodes::encode(*message);
    check_number(*message);
    const bool is_output = message->kind == nodes::MessageKind::kOutput || message->kind == nodes::MessageKind::kErrors;
    if (is_output) rank_output().write(message->kind, message->number, "");
    if (message->kind == nodes::MessageKind::kJob) {
      const std::string job = to_text(nodes::node_job_from(message->text));
      fuzz::require(to_text(nodes::node_job_from(job)) == job, "a job is changed by being written");
    }
  }
  return again;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const uint8_t way = input.byte();  // how the bytes arrive
  nodes::MessageReader reader(/*is_greeted=*/way % 2 == 0);
  std::string stream = input.rest(), again;
  fuzz::accepts<PeerFailed>([&] {
    for (const std::string& piece : {stream.substr(0, way), stream.substr(std::min<std::size_t>(way, stream.size()))}) {
      reader.add(piece);
      again += read_messages(reader);
    }
  });
  if (way % 2 == 0) fuzz::require(stream.starts_with(again), "messages are changed by being read");
  return 0;
}
