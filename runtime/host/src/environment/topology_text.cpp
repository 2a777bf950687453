#include <algorithm>
#include <array>
#include <string>

#include <cohort/host/environment.hpp>

namespace cohort::host {
namespace {

struct Row {
  std::string field, value;
};

std::array<Row, 14> rows_of(const Topology& topology) {
  const auto& t = topology;
  return {{{"launcher", std::string(to_string(t.launcher))},
           {"rank", std::to_string(t.rank)},
           {"world_size", std::to_string(t.world_size)},
           {"local_rank", std::to_string(t.local_rank)},
           {"local_world_size", std::to_string(t.local_world_size)},
           {"node_rank", std::to_string(t.node_rank)},
           {"num_nodes", std::to_string(t.num_nodes)},
           {"master_addr", t.master_addr},
           {"master_port", t.master_port == 0 ? "" : std::to_string(t.master_port)},
           {"run_id", t.run_id},
           {"store_is_external", t.store_is_external ? "true" : "false"},
           {"store_listen_fd", t.store_listen_fd ? std::to_string(*t.store_listen_fd) : ""},
           {"max_restarts", std::to_string(t.max_restarts)},
           {"sees_own_devices", t.sees_own_devices ? "true" : "false"}}};
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::string topology_text(const Topology& topology) {
  const auto rows = rows_of(topology);
  std::size_t field_width = 0, value_width = 0;
  for (const Row& row : rows) {
    field_width = std::max(field_width, row.field.size());
    value_width = std::max(value_width, row.value.size());
  }
  std::string text;
  for (const Row& row : rows) {
    const auto reason = topology.decided_by.find(row.field);
    const std::string why = reason == topology.decided_by.end() ? "default" : reason->second;
    text += padded(row.field, field_width) + "  " + padded(row.value.empty() ? "-" : row.value, value_width) + "  " +
            why + "\n";
  }
  return text;
}

}  // namespace cohort::host
