#include "nodes_run.hpp"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/launch/job.hpp>

#include "node_job.hpp"
#include "ssh.hpp"

namespace cohort::nodes {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTravel = 5s;

}  // namespace

NodesRun::NodesRun(const NodesJob& job, Placement placement, std::vector<NodeSlots> missing, const NodesScene& scene)
    : Supervisor(scene.signals, Stage::kStarting),
      job_(job),
      placement_(std::move(placement)),
      scene_(scene),
      run_id_(launch::random_run_id()),
      secret_(job.secret.empty() ? host::JobSecret::random().text() : job.secret),
      missing_(std::move(missing)),
      next_search_(Clock::now() + job.search_pause) {
  set_deadline(job.start_timeout);
  for (std::size_t node = 0; node < placement_.hosts.size(); ++node) connect(static_cast<int>(node));
  heartbeat_ = std::jthread([this](std::stop_token stop) { keep_alive(std::move(stop)); });
}

void NodesRun::connect(int node) {
  const std::string& host = placement_.hosts[static_cast<std::size_t>(node)];
  nodes_.push_back(std::make_unique<NodeLink>(host, node * placement_.processes_per_node,
                                              is_this_machine(host) ? job_.node_command : ssh_command(job_, host)));
}

std::string NodesRun::job_text(const NodeLink& link) const {
  const auto place = std::ranges::find(nodes_, &link, [](const auto& node) { return node.get(); });
  NodeJob job;
  job.launch.command = job_.command;
  job.launch.processes_per_node = placement_.processes_per_node;
  job.launch.num_nodes = static_cast<int>(placement_.hosts.size());
  job.launch.node_rank = static_cast<int>(place - nodes_.begin());
  job.launch.master_addr = placement_.master_addr;
  job.launch.run_id = run_id_;
  job.launch.secret = secret_;
  job.launch.environment = job_.environment;
  job.launch.stop_grace = job_.stop_grace;
  job.launch.failure_grace = job_.failure_grace;
  job.folder = std::filesystem::current_path();
  job.longest_silence = job_.longest_silence;
  job.logs_as_json = job_.logs_as_json;
  return to_text(job);
}

NodesEnd NodesRun::run() {
  watch();
  const launch::RanksEnd ranks = end();
  return {ranks, ranks.stop_signal == 0 && makes_room_ && is_unfinished_};
}

// Nodes that have not started yet are not started any more once the job ends.
bool NodesRun::has_ended(const NodeLink& node) const {
  return node.is_over || (stage() > Stage::kRunning && !node.is_started);
}

bool NodesRun::all_ended() const {
  return std::ranges::all_of(nodes_, [&](const auto& node) { return has_ended(*node); });
}

void NodesRun::wait(std::chrono::milliseconds longest) {
  std::vector<pollfd> waits{{scene_.signal_descriptor, POLLIN, 0}};
  for (const auto& node : nodes_) {
    waits.push_back({node->output(), POLLIN, 0});
    waits.push_back({node->errors(), POLLIN, 0});
  }
  if (search_) search_->add_to(waits);
  ::poll(waits.data(), waits.size(), static_cast<int>(longest.count()));
  while (const auto signal = signals().wait(0ms)) {
    if (signal->number != SIGCHLD) scene_.output.hurry();
    on_signal({signal->number, false, signal->at_once});  // the terminal reaches no rank of another machine
  }
  if (stage() == Stage::kStarting && stop_signal() != 0) return;  // a node that is ready now must not start
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (waits[2 * i + 2].revents != 0) nodes_[i]->read_errors();
    if (waits[2 * i + 1].revents != 0) read(*nodes_[i]);
  }
  look_for_missing();
}

// Ranks that are told to stop leave a checkpoint behind the step that they take, from which the larger job goes on.
void NodesRun::look_for_missing() {
  if (missing_.empty() || stage() != Stage::kRunning) return;
  if (!search_ && Clock::now() < next_search_) return;
  if (!search_) search_.emplace(job_, missing_);
  search_->read();
  const auto found = search_->found();
  if (found.empty() && !search_->is_over()) return;
  search_.reset();
  next_search_ = Clock::now() + job_.search_pause;
  if (found.empty()) return;
  scene_.log.info("host " + found.front().name + " answers: the ranks stop, and start again with it");
  makes_room_ = true;
  send(SIGTERM);
  enter(stage_after(SIGTERM));
}

void NodesRun::read(NodeLink& node) {
  const bool goes_on = node.read_output();
  while (const auto message = node.next()) handle(node, *message);
  if (node.is_greeted() && !node.is_told) {
    node.send({MessageKind::kJob, 0, job_text(node)});
    node.is_told = true;
  }
  if (!goes_on && !node.is_over) on_end_of_output(node);
}

void NodesRun::handle(NodeLink& node, const Message& message) {
  switch (message.kind) {
    case MessageKind::kReady:
      node.is_ready = true;
      return on_ready();
    case MessageKind::kListening:
      return start_others(message.number);
    case MessageKind::kOutput:
    case MessageKind::kErrors:
      return scene_.output.write(message.kind, message.number, message.text);
    case MessageKind::kFailed:
      return note_failure(message.number, message.text);
    case MessageKind::kRefused:
      if (stage() == Stage::kStarting) {
        throw Error(ExitCode{message.number}, "host " + node.host() + ": " + message.text);
      }
      node.is_over = true;
      return note_failure(message.number, "host " + node.host() + ": " + message.text);
    case MessageKind::kEnded:
      node.is_over = true;
      is_unfinished_ = is_unfinished_ || message.number != 0;
      if (message.number != 0 && last_sent_ == 0) {
        note_failure(message.number,
                     "the ranks of host " + node.host() + " ended with exit code " + std::to_string(message.number));
      }
      return;
    default:
      throw PeerFailed("host " + node.host() +
                       " sent what only a launcher says; install the same cohort on every host");
  }
}

void NodesRun::on_ready() {
  if (!std::ranges::all_of(nodes_, [](const auto& node) { return node->is_ready; })) return;
  scene_.output.begin();
  nodes_.front()->is_started = true;
  nodes_.front()->send({MessageKind::kStart, job_.master_port});
  if (nodes_.size() == 1) enter(Stage::kRunning);
}

void NodesRun::start_others(int port) {
  if (stage() != Stage::kStarting) return;
  for (const auto& node : nodes_) {
    if (!node->is_started) node->send({MessageKind::kStart, port});
    node->is_started = true;
  }
  enter(Stage::kRunning);
}

void NodesRun::on_end_of_output(NodeLink& node) {
  const int exit_code = node.exit_code();
  if (!node.is_greeted()) {
    const bool is_here = is_this_machine(node.host());
    if (job_.min_nodes > 0) throw PeerFailed(why_unreached(job_, node.host(), exit_code, node.said()));
    throw UserError(is_here ? job_.node_command.front() + " ended with exit code " + std::to_string(exit_code) + " (" +
                                  last_line(node.said()) + "); install cohort again"
                            : why_unreached(job_, node.host(), exit_code, node.said()));
  }
  node.is_over = is_unfinished_ = true;
  const std::string line = last_line(node.said());
  const std::string what = "the connection to host " + node.host() + " ended" +
                           (line.empty() ? "" : " (" + line + ")") +
                           "; its ranks end too, look there for what happened to the host or the network";
  if (stage() == Stage::kStarting) throw PeerFailed(what);
  if (last_sent_ == 0) note_failure(launch::kPeerFailedCode, what);
}

void NodesRun::report(const Cause& cause) {
  scene_.log.error(cause.what);
}

// A RankSupervisor kills at the second signal. It is sent another one, because of two equal ones that wait one is lost.
void NodesRun::send(int signal) {
  if (last_sent_ != 0 && signal != SIGKILL) return;  // the ranks are leaving already
  last_sent_ = signal != SIGKILL ? signal : last_sent_ == SIGTERM ? SIGINT : SIGTERM;
  for (const auto& node : nodes_) {
    if (!node->is_over) node->send({MessageKind::kSignal, last_sent_});
  }
}

// Told to stop, agents wait, send SIGTERM and kill by themselves.
launch::Supervisor::Stage NodesRun::stage_after(int) const {
  return Stage::kTerminating;
}

std::chrono::milliseconds NodesRun::patience(Stage stage) const {
  const bool agents_end_ranks = (stop_signal() != 0 || makes_room_) && stage == Stage::kTerminating;
  return agents_end_ranks ? 2 * job_.stop_grace + kTravel : job_.failure_grace;
}

void NodesRun::give_up() {
  if (stage() == Stage::kStarting) throw PeerFailed(unanswered());
  for (const auto& node : nodes_) {
    if (has_ended(*node)) continue;
    scene_.log.error("host " + node->host() +
                     " does not answer any more; look there for processes that cannot be ended");
    node->close();
    node->is_over = true;
  }
}

std::string NodesRun::unanswered() const {
  std::string names;
  for (const auto& node : nodes_) {
    if (!node->is_ready) names += (names.empty() ? "" : ", ") + node->host();
  }
  return "no answer from " + (names.empty() ? nodes_.front()->host() : names) + " within " +
         std::to_string(job_.start_timeout.count() / 1000) +
         " s; look at these hosts, or give them more time with --start-timeout";
}

void NodesRun::keep_alive(std::stop_token stop) {
  std::unique_lock lock(alive_);
  while (!stop.stop_requested()) {
    alive_wait_.wait_for(lock, stop, job_.longest_silence / kHeartbeatsInASilence, [] { return false; });
    for (const auto& node : nodes_) {
      if (node->is_told) node->send({MessageKind::kAlive});
    }
  }
}

}  // namespace cohort::nodes
