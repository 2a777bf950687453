#include <cohort/host/buckets.hpp>

#include <algorithm>
#include <utility>

#include <cohort/api/host/comm.h>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/sdk/dtype.hpp>

namespace cohort::host {
namespace {

constexpr uint64_t kBucketAlignmentBytes = 64;
constexpr uint64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xfb};  // huge as a number of any floating-point type, so that results show who reads it

uint64_t aligned(uint64_t nbytes) {
  return (nbytes + kBucketAlignmentBytes - 1) / kBucketAlignmentBytes * kBucketAlignmentBytes;
}

bool is_one_parameter(const BucketPlan& plan) {
  return plan.parts.size() == 1 && plan.parts[0].numel == plan.numel;
}

}  // namespace

void Buckets::reset() {
  clear_layout();
  wants_.clear();
}

void Buckets::clear_layout() {
  keep_state();
  buckets_.clear();
  buffers_.clear();
  guards_.clear();
  to_lend_.clear();
  blocks_.clear();
}

void Buckets::want(BufferWant want) {
  const auto known = std::ranges::find_if(
      wants_, [&](const BufferWant& other) { return other.kind == want.kind && other.name == want.name; });
  if (known == wants_.end()) return wants_.push_back(std::move(want));
  if (known->dtype != want.dtype || known->flags != want.flags) {
    throw UserError("buckets/1.want: STATE " + in_quotes(want.name) +
                    " is wanted twice, with different types or flags");
  }
}

bool Buckets::has(int32_t kind) const {
  return std::ranges::any_of(buffers_, [&](const auto& item) { return item.first.first == kind; });
}

std::vector<std::string> Buckets::names(int32_t kind) const {
  std::vector<std::string> names;
  for (const auto& [key, buffer] : buffers_) {
    if (key.first == kind) names.push_back(key.second);
  }
  return names;
}

void Buckets::configure(std::vector<LayoutParameter> order, const LayoutLimits& limits, InPlace in_place,
                        const std::function<void()>& before_gradients) {
  clear_layout();
  const std::vector<BufferWant> wants = std::exchange(wants_, {});
  for (const auto& [kind, name, dtype, flags] : wants) buffers_[{kind, name}] = {dtype, flags};
  if (!has(COHORT_BUCKET_GRAD)) in_place = InPlace::kNone;
  for (BucketPlan& plan : layout_buckets(order, limits)) add_bucket(std::move(plan), in_place);
  allocate(in_place, before_gradients);
  for (const LayoutParameter& parameter : order) laid_out_.insert(parameter.id);
  for (const auto& [key, buffer] : buffers_) {
    if (key.first == COHORT_BUCKET_STATE && !(buffer.flags & COHORT_STATE_SCRATCH)) restore_state(key.second);
  }
}

void Buckets::add_bucket(BucketPlan plan, InPlace in_place) {
  auto bucket = std::make_unique<Bucket>();
  bucket->plan = std::move(plan);
  for (const auto& part : bucket->plan.parts) {
    const uint32_t flags = laid_out_.contains(part.id) ? 0 : COHORT_PART_NEW;
    bucket->parts.push_back({part.name.c_str(), part.offset, part.numel, part.id, flags});
  }
  bucket->shape = static_cast<int64_t>(bucket->plan.numel);
  bucket->is_in_place = in_place == InPlace::kAll || (in_place == InPlace::kAlone && is_one_parameter(bucket->plan));
  cohort_bucket& abi = bucket->abi;
  abi.struct_size = sizeof abi;
  abi.index = static_cast<uint32_t>(buckets_.size());
  abi.parts = bucket->parts.data();
  abi.num_parts = bucket->parts.size();
  abi.numel = bucket->plan.numel;
  abi.nbytes = bucket->plan.nbytes;
  abi.dtype = bucket->plan.dtype;
  abi.phase = bucket->plan.phase;
  abi.device_type = bucket->plan.device.type;
  abi.device_index = bucket->plan.device.index;
  abi.role = COHORT_ROLE_WORLD;
  buckets_.push_back(std::move(bucket));
}

Buckets::Blocks& Buckets::blocks_of(Device device) {
  const auto known = std::ranges::find(blocks_, device, &Blocks::device);
  return known != blocks_.end() ? *known : blocks_.emplace_back(Blocks{device});
}

void Buckets::allocate(InPlace in_place, const std::function<void()>& before_gradients) {
  std::vector<std::pair<const Bucket*, uint64_t>> lent;  // and where, in bytes
  const uint64_t guard = has_guards_ ? kGuardBytes : 0;
  const auto add = [&](uint64_t& block, uint64_t n) { return std::exchange(block, block + aligned(n) + guard); };
  for (const auto& bucket : buckets_) {
    uint64_t& gradients = blocks_of(bucket->plan.device).num_gradient_bytes;
    if (!bucket->is_in_place || in_place != InPlace::kAlone) continue;
    lent.emplace_back(bucket.get(), add(gradients, bucket->plan.nbytes));
  }
  for (auto& [key, buffer] : buffers_) {
    const bool is_gradient = key.first == COHORT_BUCKET_GRAD;
    for (size_t index = 0; index < buckets_.size(); ++index) {
      const bool has_place = !is_gradient || !buckets_[index]->is_in_place;
      const uint64_t nbytes = buckets_[index]->plan.numel * sdk::size_of(dtype_of(buffer, index));
      Blocks& blocks = blocks_of(buckets_[index]->plan.device);
      uint64_t& block = is_gradient ? blocks.num_gradient_bytes : blocks.num_other_bytes;
      buffer.offsets.push_back(has_place ? add(block, nbytes) : kNoPlace);
    }
  }
  for (Blocks& blocks : blocks_) {
    if (blocks.num_other_bytes > 0) blocks.others = allocator_(blocks.device, blocks.num_other_bytes);
  }
  if (before_gradients) before_gradients();
  for (Blocks& blocks : blocks_) {
    if (blocks.num_gradient_bytes > 0) blocks.gradients = allocator_(blocks.device, blocks.num_gradient_bytes);
  }
  for (const auto& [bucket, offset] : lent) {
    auto* const block = static_cast<std::byte*>(blocks_of(bucket->plan.device).gradients.get());
    to_lend_.emplace_back(block + offset, bucket->plan.nbytes);
  }
  if (has_guards_) set_guards();
}

void Buckets::set_guards() {
  for (const auto& [key, buffer] : buffers_) {
    const auto& [kind, name] = key;
    const char* const what = kind == COHORT_BUCKET_GRAD     ? "GRAD"
                             : kind == COHORT_BUCKET_WEIGHT ? "WEIGHT"
                             : kind == COHORT_BUCKET_STATE  ? "STATE "
                                                            : "OPTIM ";
    for (size_t index = 0; index < buckets_.size(); ++index) {
      std::byte* const first = flat_data(index, kind, name);
      if (!first || !buckets_[index]->plan.device.is_cpu()) continue;
      const uint64_t nbytes = buckets_[index]->plan.numel * sdk::size_of(dtype_of(buffer, index));
      const std::span<std::byte> bytes(first + nbytes, aligned(nbytes) - nbytes + kGuardBytes);
      std::ranges::fill(bytes, kGuard);
      guards_.push_back({bytes, what + (name.empty() ? "" : in_quotes(name)) + " of bucket " + std::to_string(index)});
    }
  }
}

std::string Buckets::damage() const {
  const auto is_whole = [](const Guard& guard) {
    return std::ranges::all_of(guard.bytes, [](std::byte byte) { return byte == kGuard; });
  };
  const auto damaged = std::ranges::find_if_not(guards_, is_whole);
  return damaged == guards_.end() ? "" : damaged->behind;
}

const cohort_bucket* Buckets::get(size_t index) const {
  return index < buckets_.size() ? &buckets_[index]->abi : nullptr;
}

int32_t Buckets::dtype_of(const Buffer& buffer, size_t index) const {
  return buffer.dtype ? buffer.dtype : buckets_[index]->plan.dtype;
}

std::byte* Buckets::flat_data(size_t index, int32_t kind, const std::string& name) const {
  const auto buffer = buffers_.find({kind, name});
  if (buffer == buffers_.end() || buffer->second.offsets[index] == kNoPlace) return nullptr;
  const auto blocks = std::ranges::find(blocks_, buckets_[index]->plan.device, &Blocks::device);
  const BucketMemory& memory = kind == COHORT_BUCKET_GRAD ? blocks->gradients : blocks->others;
  return static_cast<std::byte*>(memory.get()) + buffer->second.offsets[index];
}

std::byte* Buckets::data(size_t index, int32_t kind, const std::string& name) const {
  if (index >= buckets_.size()) return nullptr;
  const Bucket& bucket = *buckets_[index];
  if (kind != COHORT_BUCKET_GRAD || !bucket.is_in_place) return flat_data(index, kind, name);
  return is_one_parameter(bucket.plan) ? static_cast<std::byte*>(gradient_of_(bucket.plan.parts[0].id)) : nullptr;
}

void Buckets::view(size_t index, int32_t kind, const std::string& name, cohort_tensor& view) const {
  const std::string what = "buckets/1.view of bucket " + std::to_string(index) + ": ";
  const auto buffer = buffers_.find({kind, name});
  if (index >= buckets_.size() || buffer == buffers_.end()) {
    throw UserError(what + "there is no such buffer; ask for it with want, in plan_buckets");
  }
  const Bucket& bucket = *buckets_[index];
  if (kind == COHORT_BUCKET_GRAD && !bucket.gradients_are_open) {
    throw UserError(what +
                    "GRAD may be viewed from the bucket's reduce_bucket to the end of the step, and is not kept");
  }
  std::byte* const first = data(index, kind, name);
  if (!first) throw UserError(what + "GRAD has no memory, as no layer fills a slot of the step");
  view = cohort_tensor{};
  view.data = first;
  view.shape = &bucket.shape;
  view.strides = &bucket.stride;
  view.name = "";
  view.dtype = dtype_of(buffer->second, index);
  view.nbytes = bucket.abi.numel * sdk::size_of(view.dtype);
  view.ndim = 1;
  view.device_type = bucket.abi.device_type;
  view.device_index = bucket.abi.device_index;
  view.flags = COHORT_TENSOR_DENSE;
  view.id = bucket.abi.index;
}

void Buckets::close_gradients(uint32_t phase) {
  for (const auto& bucket : buckets_) {
    if (bucket->plan.phase == phase) bucket->gradients_are_open = false;
  }
}

template <class Visit>
void Buckets::visit_parts(int32_t kind, const std::string& name, Visit visit) const {
  for (size_t index = 0; index < buckets_.size(); ++index) {
    std::byte* const first = flat_data(index, kind, name);
    if (!first) continue;
    const int32_t dtype = dtype_of(buffers_.at({kind, name}), index);
    for (const auto& part : buckets_[index]->plan.parts) {
      const uint64_t element = sdk::size_of(dtype);
      visit(part, std::span(first + part.offset * element, part.numel * element), dtype, buckets_[index]->plan);
    }
  }
}

std::vector<void*> Buckets::places(int32_t kind, size_t num_parameters, const std::string& name) const {
  std::vector<void*> places(num_parameters, nullptr);
  visit_parts(kind, name, [&](const BucketPlan::Part& part, std::span<std::byte> values, int32_t, const BucketPlan&) {
    places[part.id] = values.data();
  });
  return places;
}

std::vector<std::span<std::byte>> Buckets::memory_to_lend() const {
  return to_lend_;
}

void Buckets::take_back_memory(bool is_free) {
  if (is_free) lent_before_.clear();
  for (Blocks& blocks : blocks_) {
    BucketMemory memory = std::move(blocks.gradients);
    if (!is_free) lent_before_.push_back(std::move(memory));
  }
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
  for (const auto& bucket : buckets_) {
    for (cohort_bucket_part& part : bucket->parts) part.flags &= ~COHORT_PART_NEW;
  }
  for (const auto& [key, buffer] : buffers_) {
    if (key.first == COHORT_BUCKET_STATE && !(buffer.flags & COHORT_STATE_SCRATCH)) restore_state(key.second);
  }
}

void Buckets::end_training() {
  kept_state_.clear();
  laid_out_.clear();
}

void Buckets::keep_state() {
  for (const auto& [key, buffer] : buffers_) {
    const auto& [kind, name] = key;
    if (kind != COHORT_BUCKET_STATE || (buffer.flags & COHORT_STATE_SCRATCH)) continue;
    StrategyState::Buffer& kept = kept_state_[name];
    kept.dtype = buffer.dtype;
    kept.is_shared = (buffer.flags & COHORT_STATE_SHARED) != 0;
    const auto keep = [&](const BucketPlan::Part& part, std::span<std::byte> values, int32_t,
                          const BucketPlan& bucket) {
      auto& copy = kept.values[part.id];
      copy.resize(values.size());
      devices_.copy_to_host(bucket.device, copy.data(), values.data(), values.size());
    };
    visit_parts(kind, name, keep);
  }
}

void Buckets::restore_state(const std::string& name) {
  const auto kept = kept_state_.find(name);
  if (kept == kept_state_.end()) return;
  const StrategyState::Buffer& state = kept->second;
  const auto restore = [&](const BucketPlan::Part& part, std::span<std::byte> values, int32_t dtype,
                           const BucketPlan& bucket) {
    const auto saved = state.values.find(part.id);
    if (saved == state.values.end()) return;
    const int32_t saved_dtype = state.dtype ? state.dtype : bucket.dtype;
    if (saved_dtype != dtype || saved->second.size() != values.size()) {
      throw UserError("STATE " + in_quotes(name) + " of parameter " + in_quotes(part.name) + " was kept as " +
                      std::to_string(saved->second.size()) + " bytes of " + sdk::name_of(saved_dtype) +
                      ", and is wanted as " + std::to_string(values.size()) + " bytes of " + sdk::name_of(dtype));
    }
    devices_.copy_from_host(bucket.device, values.data(), saved->second.data(), values.size());
  };
  visit_parts(COHORT_BUCKET_STATE, name, restore);
  kept_state_.erase(kept);
}

}  // namespace cohort::host
