#include "node_job.hpp"

#include <chrono>

#include <cohort/host/message.hpp>

#include "message.hpp"

namespace cohort::nodes {
namespace {

using Json = nlohmann::json;

NodeJob job_of(const Json& json) {
  const auto time = [&json](const char* name) { return std::chrono::milliseconds(json.at(name).get<int>()); };
  NodeJob job;
  launch::LaunchJob& launch = job.launch;
  json.at("processes_per_node").get_to(launch.processes_per_node);
  json.at("num_nodes").get_to(launch.num_nodes);
  json.at("node_rank").get_to(launch.node_rank);
  launch.stop_grace = time("stop_grace");
  launch.failure_grace = time("failure_grace");
  job.longest_silence = time("longest_silence");
  json.at("logs_as_json").get_to(job.logs_as_json);
  json.at("master_addr").get_to(launch.master_addr);
  json.at("run_id").get_to(launch.run_id);
  json.at("secret").get_to(launch.secret);
  json.at("folder").get_to(job.folder);
  json.at("command").get_to(launch.command);
  json.at("environment").get_to(launch.environment);
  return job;
}

}  // namespace

std::string to_text(const NodeJob& job) {
  const launch::LaunchJob& launch = job.launch;
  return to_message(Json{{"processes_per_node", launch.processes_per_node},
                         {"num_nodes", launch.num_nodes},
                         {"node_rank", launch.node_rank},
                         {"stop_grace", launch.stop_grace.count()},
                         {"failure_grace", launch.failure_grace.count()},
                         {"longest_silence", job.longest_silence.count()},
                         {"logs_as_json", job.logs_as_json},
                         {"master_addr", launch.master_addr},
                         {"run_id", launch.run_id},
                         {"secret", launch.secret},
                         {"folder", job.folder},
                         {"command", launch.command},
                         {"environment", launch.environment}});
}

NodeJob node_job_from(std::string_view text) {
  try {
    NodeJob job = job_of(Json::from_cbor(text.begin(), text.end()));
    if (to_text(job) == text) return job;  // else a number was cut
  } catch (const Json::exception&) {
  }
  throw_nonsense();
}

}  // namespace cohort::nodes
