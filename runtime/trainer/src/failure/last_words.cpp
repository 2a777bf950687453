#include "failure/last_words.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/machine.hpp>

#include "failure/process_state.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

std::string as_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string introduction() {
  const auto stat = read_process_stat(::getpid());
  return as_text({{"pid", ::getpid()},
                  {"host", host::host_name()},
                  {"space", process_space()},
                  {"started", stat ? stat->start_ticks : 0}});
}

Peer peer_from(int rank, const std::string& introduction) {
  const Json json = Json::parse(introduction);
  return {rank, json.at("pid"), json.at("host"), json.at("space"), json.at("started")};
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
    return LastWords{json.at("exit_code"), json.at("in_operation"), json.at("error"),
                     operations_from(json.at("operations"))};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace cohort
