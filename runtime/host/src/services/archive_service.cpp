// Service archive/1.
#include <algorithm>
#include <cstring>
#include <string>

#include <cohort/api/host/archive.h>
#include <cohort/host/error.hpp>

#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"
#include "services.hpp"

namespace cohort::host {
namespace {

constexpr size_t kMaxKey = 256;

/// Returns the state that the running slot saves or restores.
StrategyState& state_in(const cohort_host* host, Archive::Use use) {
  const std::optional<Archive>& archive = rank_of(host).training.archive;
  if (archive && archive->use == use) return archive->state;
  throw UserError(use == Archive::Use::kSave ? "archive/1.set works inside of save_state only"
                                             : "archive/1.get works inside of load_state only");
}

/// Returns null outside of load_state.
const StrategyState* restored_state(const cohort_host* host) {
  const std::optional<Archive>& archive = rank_of(host).training.archive;
  return archive && archive->use == Archive::Use::kRestore ? &archive->state : nullptr;
}

// Keys belong to the layer that calls.
std::string full_key(const cohort_host* host, const char* key) {
  if (!key || !*key || std::strlen(key) > kMaxKey) throw UserError("archive/1: a key has 1 to 256 bytes");
  return HostObject::component_of(host) + "/" + key;
}

cohort_status set(const cohort_host* host, const char* key, uint32_t flags, const void* value,
                  uint64_t nbytes) noexcept {
  return guarded(host, [&] {
    StrategyState& state = state_in(host, Archive::Use::kSave);
    std::string name = full_key(host, key);
    if (flags & ~COHORT_ARCHIVE_SHARED) throw UserError("archive/1.set: unknown flags " + std::to_string(flags));
    if (!value && nbytes > 0) throw UserError("archive/1.set: the value is null");
    std::string bytes(static_cast<const char*>(value), nbytes);
    state.values[std::move(name)] = {std::move(bytes), (flags & COHORT_ARCHIVE_SHARED) != 0};
    return COHORT_OK;
  });
}

cohort_status get(const cohort_host* host, const char* key, void* value, uint64_t capacity, uint64_t* nbytes) noexcept {
  return guarded(host, [&] {
    const StrategyState::Values& values = state_in(host, Archive::Use::kRestore).values;
    const auto found = values.find(full_key(host, key));
    if (found == values.end()) return host->fail(host, COHORT_NOT_FOUND, "archive/1: the checkpoint has no such value");
    const std::string& bytes = found->second.bytes;
    *nbytes = bytes.size();
    if (*nbytes > capacity) {
      return host->fail(host, COHORT_RESOURCE_EXHAUSTED, "archive/1: the value is longer than that");
    }
    std::copy_n(bytes.data(), *nbytes, static_cast<char*>(value));
    return COHORT_OK;
  });
}

int32_t saved_world_size(const cohort_host* host) noexcept {
  const StrategyState* const state = restored_state(host);
  return state ? state->world_size : 0;
}

const char* saved_version(const cohort_host* host) noexcept {
  const StrategyState* const state = restored_state(host);
  if (!state) return nullptr;
  const auto found = state->versions.find(HostObject::component_of(host));
  return found == state->versions.end() ? nullptr : found->second.c_str();
}

constexpr cohort_archive_1 kArchive{
    .set = set, .get = get, .saved_world_size = saved_world_size, .saved_version = saved_version};

}  // namespace

const cohort_archive_1& archive_service() {
  return kArchive;
}

}  // namespace cohort::host
