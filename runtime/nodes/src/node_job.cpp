#include "node_job.hpp"

#include <chrono>

#include "message.hpp"

namespace cohort::nodes {

std::string to_text(const NodeJob& job) {
  const launch::LaunchJob& launch = job.launch;
  TextWriter text;
  const auto put_number = [&](auto number) { text.put(std::to_string(number)); };
  for (const int number : {launch.processes_per_node, launch.num_nodes, launch.node_rank}) put_number(number);
  put_number(launch.stop_grace.count());
  put_number(launch.failure_grace.count());
  put_number(job.longest_silence.count());
  put_number(job.logs_as_json ? 1 : 0);
  text.put(launch.master_addr).put(launch.run_id).put(launch.secret).put(job.folder);
  put_number(launch.command.size());
  for (const std::string& word : launch.command) text.put(word);
  put_number(launch.environment.size());
  for (const auto& [name, value] : launch.environment) text.put(name).put(value);
  return text.text();
}

NodeJob node_job_from(std::string_view text) {
  TextReader reader(text);
  NodeJob job;
  launch::LaunchJob& launch = job.launch;
  for (int* number : {&launch.processes_per_node, &launch.num_nodes, &launch.node_rank}) *number = reader.take_number();
  launch.stop_grace = std::chrono::milliseconds(reader.take_number());
  launch.failure_grace = std::chrono::milliseconds(reader.take_number());
  job.longest_silence = std::chrono::milliseconds(reader.take_number());
  job.logs_as_json = reader.take_number() != 0;
  for (std::string* one : {&launch.master_addr, &launch.run_id, &launch.secret, &job.folder}) *one = reader.take();
  for (int words = reader.take_number(); words > 0; --words) launch.command.push_back(reader.take());
  for (int variables = reader.take_number(); variables > 0; --variables) {
    std::string name = reader.take();
    launch.environment[std::move(name)] = reader.take();
  }
  return job;
}

}  // namespace cohort::nodes
