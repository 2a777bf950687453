#include <cohort/host/buckets.hpp>

#include <algorithm>
#include <cstring>

#include <cohort/sdk/dtype.hpp>

namespace cohort::host {
namespace {

constexpr uint64_t kBucketAlignmentBytes = 64;

uint64_t aligned(uint64_t nbytes) {
  return (nbytes + kBucketAlignmentBytes - 1) / kBucketAlignmentBytes * kBucketAlignmentBytes;
}

bool is_one_parameter(const BucketPlan& plan) {
  return plan.parts.size() == 1 && plan.parts[0].numel == plan.numel;
}

}  // namespace

void Buckets::reset() {
  clear_layout();
  wishes_.clear();
  asked_.clear();
}

void Buckets::clear_layout() {
  keep_state();
  buckets_.clear();
  memory_.clear();
  memory_to_lend_.reset();
}

void Buckets::want(int32_t kind, std::string name) {
  Wish wish{kind, std::move(name)};
  if (std::find(asked_.begin(), asked_.end(), wish) == asked_.end()) asked_.push_back(std::move(wish));
}

bool Buckets::wanted(int32_t kind) const {
  return std::any_of(wishes_.begin(), wishes_.end(), [&](const Wish& wish) { return wish.first == kind; });
}

std::vector<std::string> Buckets::names(int32_t kind) const {
  std::vector<std::string> names;
  for (const Wish& wish : wishes_) {
    if (wish.first == kind) names.push_back(wish.second);
  }
  return names;
}

void Buckets::configure(std::vector<LayoutParameter> order, const LayoutLimits& limits, int32_t device_type,
                        int32_t device_index, InPlace in_place) {
  clear_layout();
  wishes_ = std::exchange(asked_, {});
  if (!wanted(COHORT_BUCKET_GRAD)) in_place = InPlace::kNone;
  uint64_t total = 0, total_gradients = 0, total_to_lend = 0;
  for (BucketPlan& plan : layout_buckets(order, limits)) {
    auto bucket = std::make_unique<Bucket>();
    bucket->plan = std::move(plan);
    for (const auto& part : bucket->plan.parts) {
      bucket->parts.push_back({part.name.c_str(), part.offset, part.numel, part.id, 0});
    }
    bucket->shape = static_cast<int64_t>(bucket->plan.numel);
    bucket->is_in_place = in_place == InPlace::kAll || (in_place == InPlace::kAlone && is_one_parameter(bucket->plan));
    bucket->byte_offset = total;
    uint64_t& end = bucket->is_in_place ? total_to_lend : total_gradients;
    bucket->gradient_offset = end;
    end += aligned(bucket->plan.nbytes);
    total += aligned(bucket->plan.nbytes);
    cohort_bucket& abi = bucket->abi;
    abi.struct_size = sizeof abi;
    abi.index = static_cast<uint32_t>(buckets_.size());
    abi.parts = bucket->parts.data();
    abi.num_parts = bucket->parts.size();
    abi.numel = bucket->plan.numel;
    abi.nbytes = bucket->plan.nbytes;
    abi.dtype = bucket->plan.dtype;
    abi.phase = bucket->plan.phase;
    abi.stream = {nullptr, device_type, device_index};
    buckets_.push_back(std::move(bucket));
  }
  if (in_place == InPlace::kAlone && total_to_lend > 0) memory_to_lend_ = allocator_(total_to_lend);
  for (const Wish& wish : wishes_) {
    const auto& [kind, name] = wish;
    const uint64_t nbytes = kind == COHORT_BUCKET_GRAD ? total_gradients : total;
    if (nbytes > 0) memory_.insert_or_assign(wish, allocator_(nbytes));
    if (kind == COHORT_BUCKET_STATE) restore_state(name);
  }
}

const cohort_bucket* Buckets::get(size_t index) const {
  return index < buckets_.size() ? &buckets_[index]->abi : nullptr;
}

std::byte* Buckets::flat_data(const Bucket& bucket, int32_t kind, const std::string& name) const {
  const bool is_gradient = kind == COHORT_BUCKET_GRAD;
  const auto memory = memory_.find({kind, name});
  if (memory == memory_.end() || (is_gradient && bucket.is_in_place)) return nullptr;
  return static_cast<std::byte*>(memory->second.get()) + (is_gradient ? bucket.gradient_offset : bucket.byte_offset);
}

std::byte* Buckets::data(size_t index, int32_t kind, const std::string& name) const {
  if (index >= buckets_.size()) return nullptr;
  const Bucket& bucket = *buckets_[index];
  if (kind != COHORT_BUCKET_GRAD || !bucket.is_in_place) return flat_data(bucket, kind, name);
  return is_one_parameter(bucket.plan) ? static_cast<std::byte*>(gradient_of_(bucket.plan.parts[0].id)) : nullptr;
}

bool Buckets::view(size_t index, int32_t kind, const std::string& name, cohort_tensor& view) const {
  std::byte* const first = data(index, kind, name);
  if (!first) return false;
  const Bucket& bucket = *buckets_[index];
  view = cohort_tensor{};
  view.data = first;
  view.shape = &bucket.shape;
  view.strides = &bucket.stride;
  view.name = "";
  view.nbytes = bucket.abi.nbytes;
  view.dtype = bucket.abi.dtype;
  view.ndim = 1;
  view.device_type = bucket.abi.stream.device_type;
  view.device_index = bucket.abi.stream.device_index;
  view.flags = COHORT_TENSOR_CONTIGUOUS;
  view.id = bucket.abi.index;
  return true;
}

std::vector<void*> Buckets::places(int32_t kind, size_t num_parameters, const std::string& name) const {
  std::vector<void*> places(num_parameters, nullptr);
  for (size_t index = 0; index < buckets_.size(); ++index) {
    std::byte* const first = flat_data(*buckets_[index], kind, name);
    if (!first) continue;
    const uint64_t element = sdk::size_of(buckets_[index]->abi.dtype);
    for (const auto& part : buckets_[index]->plan.parts) places[part.id] = first + part.offset * element;
  }
  return places;
}

std::vector<std::span<std::byte>> Buckets::memory_to_lend() const {
  std::vector<std::span<std::byte>> pieces;
  for (const auto& bucket : buckets_) {
    if (!memory_to_lend_ || !bucket->is_in_place) continue;
    auto* const first = static_cast<std::byte*>(memory_to_lend_.get()) + bucket->gradient_offset;
    pieces.emplace_back(first, bucket->plan.nbytes);
  }
  return pieces;
}

void Buckets::take_back_memory(bool is_free) {
  if (is_free) return lent_before_.clear();
  lent_before_.push_back(std::move(memory_to_lend_));
  lent_before_.push_back(std::move(memory_[{COHORT_BUCKET_GRAD, ""}]));
}

void Buckets::leave_lent_memory() {
  for (BucketMemory& memory : lent_before_) static_cast<void>(memory.release());
  left_memory_ = left_memory_ || !lent_before_.empty();
  lent_before_.clear();
}

StrategyState::Buckets Buckets::state() {
  auto for_later_layouts = kept_state_;  // those of the present one lie in its buckets
  keep_state();
  return std::exchange(kept_state_, std::move(for_later_layouts));
}

void Buckets::set_state(StrategyState::Buckets state) {
  kept_state_ = std::move(state);
  for (const auto& [wish, memory] : memory_) {
    if (wish.first == COHORT_BUCKET_STATE) restore_state(wish.second);
  }
}

void Buckets::keep_state() {
  for (const auto& [wish, memory] : memory_) {
    const auto& [kind, name] = wish;
    if (kind != COHORT_BUCKET_STATE || name.starts_with('.')) continue;
    for (size_t index = 0; index < buckets_.size(); ++index) {
      const std::byte* const first = data(index, kind, name);
      const uint64_t element = sdk::size_of(buckets_[index]->abi.dtype);
      for (const auto& part : buckets_[index]->plan.parts) {
        const std::byte* const begin = first + part.offset * element;
        kept_state_[name][part.id].assign(begin, begin + part.numel * element);
      }
    }
  }
}

void Buckets::restore_state(const std::string& name) {
  const auto kept = kept_state_.find(name);
  if (kept == kept_state_.end()) return;
  for (size_t index = 0; index < buckets_.size(); ++index) {
    std::byte* const first = data(index, COHORT_BUCKET_STATE, name);
    const uint64_t element = sdk::size_of(buckets_[index]->abi.dtype);
    for (const auto& part : buckets_[index]->plan.parts) {
      const auto saved = kept->second.find(part.id);
      if (saved == kept->second.end() || saved->second.size() != part.numel * element) continue;
      std::memcpy(first + part.offset * element, saved->second.data(), saved->second.size());
    }
  }
  kept_state_.erase(kept);
}

}  // namespace cohort::host
