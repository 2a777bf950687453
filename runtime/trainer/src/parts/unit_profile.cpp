// Every unit is a part here, by the same rules as in a training, so that the figures of a part are the sums of its
// units' wherever the model is cut.
#include "parts/unit_profile.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "copies/scatter.hpp"
#include "module/loss.hpp"
#include "parts/device_watches.hpp"
#include "parts/piece.hpp"
#include "parts/placement.hpp"
#include "parts/units.hpp"
#include "report/device_memory.hpp"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

constexpr int kTimedPasses = 2;  // the faster one counts

struct PartFigures {
  double seconds = 0;
  uint64_t kept_bytes = 0, crossing_bytes = 0, transient_bytes = 0;
};

/// Returns the bytes of the gradient that is there twice when it is added to that of earlier pieces.
uint64_t largest_gradient(const Unit& unit) {
  uint64_t most = 0;
  for (const at::Tensor& tensor : unit.tensors) {
    if (tensor.requires_grad()) most = std::max<uint64_t>(most, tensor.nbytes());
  }
  return most;
}

class Profiler {
 public:
  explicit Profiler(const ProfiledSteps& steps)
      : steps_(steps), units_(units_of(steps.copy)), buffers_(steps.copy.buffers()) {
    for (const at::Tensor& tensor : steps.copy.parameters()) note_input(tensor);
  }

  UnitProfile measure() {
    const PartDevices devices(devices_of_units(), steps_.devices);
    NearWeights near(steps_.copy, devices);
    const auto run = [this] {
      for (size_t phase = 0; phase < steps_.num_phases; ++phase) steps_.training_step(phase, 0);
    };
    const Reading reading = order_of_reading(units_, run, devices.are_apart() ? &near : nullptr);
    order_ = reading.order;
    stays_.assign(order_.size(), false);
    parts_of_pass_ = parts();
    if (reading.runs_backward) stay_together(0, order_.size() - 1, "training_step runs backward itself");
    while (!pass(steps_.num_pieces, /*is_timed=*/false)) continue;
    for (int passes = 0; passes < kTimedPasses;) {
      if (!pass(1, /*is_timed=*/true)) continue;
      keep_smaller();
      ++passes;
    }
    return result();
  }

 private:
  struct Users {
    size_t first, last;
  };

  const ProfiledSteps& steps_;
  const std::vector<Unit> units_;
  const std::vector<at::Tensor> buffers_;
  std::unordered_map<const c10::StorageImpl*, WeakStorage> inputs_;  // and weights; no other takes their addresses
  std::vector<size_t> order_;
  std::vector<bool> stays_;                                 // in this order
  std::vector<size_t> parts_of_pass_;                       // the same
  std::unordered_map<const at::TensorImpl*, Users> users_;  // of buffers
  std::vector<WrittenBuffer> written_;
  std::vector<std::string> reasons_;
  bool has_training_end_ = false, is_spoilt_ = false;
  std::vector<PartFigures> figures_, best_;
  std::optional<PartDevices> devices_;  // of the parts of the pass
  Clock::time_point entered_;
  uint64_t bytes_before_ = 0;  // on the device of the part that was entered

  /// Returns the part of each unit, in the order of reading.
  std::vector<size_t> parts() const {
    std::vector<size_t> parts;
    for (size_t i = 0; i < order_.size(); ++i) parts.push_back(i == 0 ? 0 : parts.back() + (stays_[i] ? 0 : 1));
    return parts;
  }
  std::vector<c10::Device> devices_of_units() const {
    std::vector<c10::Device> devices;
    for (const Unit& unit : units_) devices.push_back(unit.tensors[0].device());
    return devices;
  }
  /// Returns the device of each part of the pass, which is that of its first unit.
  std::vector<c10::Device> devices() const {
    std::vector<c10::Device> devices;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (parts_of_pass_[i] == devices.size()) devices.push_back(units_[order_[i]].tensors[0].device());
    }
    return devices;
  }
  void note_input(const at::Tensor& input) {
    if (!input.has_storage()) return;
    const c10::Storage& storage = input.storage();
    inputs_.try_emplace(storage.unsafeGetStorageImpl(), storage.getWeakStorageImpl());
  }
  void stay_together(size_t from, size_t to, const std::string& why) {
    const auto [first, last] = std::minmax(from, to);
    std::string names;
    for (size_t i = 1; i < order_.size(); ++i) {
      if (parts_of_pass_[i] <= first || parts_of_pass_[i] > last || stays_[i]) continue;
      stays_[i] = true;
      names += (names.empty() ? "" : ", ") + units_[order_[i]].name;
    }
    if (!names.empty()) reasons_.push_back("no part can begin at " + names + ": " + why);
    is_spoilt_ = true;
  }

  /// Returns false if some units stay together that were parts: then all figures are wrong.
  bool pass(size_t num_pieces, bool is_timed) {
    is_spoilt_ = false;
    parts_of_pass_ = parts();
    std::vector<size_t> by_unit(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) by_unit[order_[i]] = parts_of_pass_[i];
    PartTable table;
    add_to(table, steps_.copy, steps_.copy, by_unit);
    figures_.assign(parts_of_pass_.back() + 1, {});
    devices_.emplace(devices(), steps_.devices);
    if (devices_->are_apart()) move_units(steps_.copy, by_unit, *devices_);
    users_.clear();
    std::vector<at::Tensor> before;
    for (const at::Tensor& buffer : buffers_) before.push_back(buffer.defined() ? buffer.clone() : buffer);
    for (size_t phase = 0; phase < steps_.num_phases && !is_spoilt_; ++phase) {
      for (size_t piece = 0; piece < num_pieces && !is_spoilt_; ++piece) run(phase, piece, table, is_timed);
    }
    for (const at::Tensor& parameter : steps_.copy.parameters()) parameter.mutable_grad().reset();
    if (!is_timed) find_written(before);
    return !is_spoilt_;
  }

  void find_written(const std::vector<at::Tensor>& before) {
    written_.clear();
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const auto users = users_.find(buffers_[i].unsafeGetTensorImpl());
      if (users == users_.end() || buffers_[i].equal(before[i])) continue;
      const auto [first, last] = users->second;
      const auto unit = std::ranges::find(parts_of_pass_, first) - parts_of_pass_.begin();
      written_.push_back({i, static_cast<size_t>(unit)});
      const std::string name = steps_.copy.named_buffers()[i].key();
      if (first != last)
        stay_together(first, last, "buffer '" + name + "', which is written, is used there and before");
    }
  }

  Piece::Listener listener(std::unordered_map<const c10::StorageImpl*, std::pair<size_t, WeakStorage>>& made) {
    const auto enter = [this](size_t part) {
      forget_peak((*devices_)[part]);
      bytes_before_ = bytes_now((*devices_)[part]);
      entered_ = Clock::now();
    };
    const auto leave = [this](size_t part) {
      devices_->wait(part);
      const uint64_t stay = std::max(bytes_before_, bytes_now((*devices_)[part]));
      const uint64_t transient = peak_bytes((*devices_)[part]) - stay;
      figures_[part].transient_bytes = std::max(figures_[part].transient_bytes, transient);
      figures_[part].seconds += std::chrono::duration<double>(Clock::now() - entered_).count();
    };
    return {.enter_forward = enter,
            .leave_forward = leave,
            .enter_backward = enter,
            .leave_backward = leave,
            .cross = [this](size_t from, size_t to, const std::string& why) { stay_together(from, to, why); },
            .result =
                [this, &made](size_t part, const at::Tensor& result) {
                  if (!result.has_storage()) return;
                  const c10::Storage& storage = result.storage();
                  if (inputs_.contains(storage.unsafeGetStorageImpl())) return;
                  made.try_emplace(storage.unsafeGetStorageImpl(), part, storage.getWeakStorageImpl());
                },
            .input =
                [this](size_t part, const at::Tensor& input) {
                  note_input(input);
                  const auto users = users_.try_emplace(input.unsafeGetTensorImpl(), Users{part, part}).first;
                  users->second = {std::min(users->second.first, part), std::max(users->second.last, part)};
                },
            .is_strict = true};
  }

  void run(size_t phase, size_t number, const PartTable& table, bool is_timed) {
    std::unordered_map<const c10::StorageImpl*, std::pair<size_t, WeakStorage>> made;
    const auto chance = at::make_generator<at::CPUGeneratorImpl>(phase);
    Piece piece(table, *devices_, chance, listener(made));
    const Output output = piece.forward([&] { return steps_.training_step(phase, number); });
    check_graphs(piece, output);
    if (is_spoilt_ || !is_timed) return;
    for (const auto& [address, storage] : made) {
      if (const auto alive = storage.second.lock()) figures_[storage.first].kept_bytes += alive->nbytes();
    }
    note_crossings(piece);
    piece.backward(roots_of(output), [this](const auto&, const auto& here, const auto& gradients) {
      const NearNodes near(*devices_);
      torch::autograd::backward(here, gradients);
    });
  }

  /// Returns tensors of the output with the gradients of the loss.
  std::vector<std::pair<at::Tensor, at::Tensor>> roots_of(const Output& output) {
    Output whole;
    const auto there = [&](const at::Tensor& tensor) {
      return devices_->moved(tensor, (*devices_)[devices_->count() - 1]);
    };
    Gathered gathered = gather(std::vector{output}, there);
    has_training_end_ = steps_.training_step_end(gathered.list, whole);
    if (!has_training_end_) return {{loss_of(output), at::Tensor()}};
    torch::autograd::backward({loss_of(whole)});
    return take_gradients(gathered, 0);
  }

  void note_crossings(const Piece& piece) {
    std::unordered_map<const at::TensorImpl*, std::pair<at::Tensor, size_t>> last_reader;
    for (size_t part = 0; part < figures_.size(); ++part) {
      for (const auto& [source, here, gradient] : piece.entered()[part]) {
        last_reader[source.unsafeGetTensorImpl()] = {source, part};
      }
    }
    for (const auto& [address, read] : last_reader) {
      for (size_t part = piece.part_of(read.first); part < read.second; ++part) {
        figures_[part].crossing_bytes += read.first.nbytes();
      }
    }
  }

  void check_graphs(const Piece& piece, const Output& output) {
    const Gathered gathered = gather(std::vector{output});
    for (const at::Tensor& tensor : gathered.tensors[0]) piece.check_graph({tensor}, piece.part_of(tensor));
    for (const auto& entered : piece.entered()) {
      for (const auto& [source, here, gradient] : entered) piece.check_graph({source}, piece.part_of(source));
    }
  }

  void keep_smaller() {
    if (best_.size() != figures_.size()) best_ = figures_;
    for (size_t part = 0; part < best_.size(); ++part) {
      best_[part].seconds = std::min(best_[part].seconds, figures_[part].seconds);
    }
  }

  UnitProfile result() const {
    UnitProfile profile{order_, {}, has_training_end_, written_, reasons_};
    const std::vector<size_t> parts = this->parts();
    for (size_t i = 0; i < order_.size(); ++i) {
      const PartFigures& figures = best_[parts[i]];
      host::ModelUnit unit{
          .name = units_[order_[i]].name, .crossing_bytes = figures.crossing_bytes, .stays = stays_[i]};
      if (!stays_[i]) unit.seconds = figures.seconds, unit.kept_bytes = figures.kept_bytes;
      unit.transient_bytes = figures.transient_bytes + largest_gradient(units_[order_[i]]);
      profile.units.push_back(unit);
    }
    return profile;
  }
};

}  // namespace

UnitProfile profile_units(const ProfiledSteps& steps) {
  return Profiler(steps).measure();
}

}  // namespace cohort
