#include "failure/last_words.hpp"

#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/process_state.hpp>

#include "files/json_fields.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

std::string as_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A text that will stand in a sentence.
std::string line(const Json& json, const char* field) {
  return host::on_one_line(json.at(field).get_ref<const std::string&>());
}

}  // namespace

std::string introduction() {
  const host::ProcessId own = host::own_process();
  return as_text({{"pid", own.pid}, {"host", host::host_name()}, {"space", own.space}, {"started", own.started}});
}

Peer peer_from(int rank, const std::string& introduction) {
  try {
    const Json json = Json::parse(introduction);
    return {rank, whole_field<pid_t>(json, "pid"), line(json, "host"), json.at("space"),
            whole_field<uint64_t>(json, "started")};
  } catch (const std::exception&) {
    throw PeerFailed(
        "rank " + std::to_string(rank) +
        " introduced itself with something that cannot be read; check that all ranks run the same program");
  }
}

std::string to_text(const LastWords& words) {
  return as_text({{"exit_code", words.exit_code},
                  {"in_operation", words.in_operation},
                  {"error", words.error},
                  {"operations", to_json(words.operations)}});
}

std::optional<LastWords> last_words_from(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return LastWords{whole_field<int>(json, "exit_code"), json.at("in_operation"), line(json, "error"),
                     operations_from(json.at("operations"))};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string to_text(const Verdict& verdict) {
  return as_text({{"causes", verdict.causes}, {"ranks_disagree", verdict.ranks_disagree}});
}

std::optional<Verdict> verdict_from(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return Verdict{line(json, "causes"), json.at("ranks_disagree")};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace cohort
