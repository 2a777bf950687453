// A collective that connects while others write whatever an input says into the store in which its ranks meet.
#pragma once

#include <cohort/api/collective.h>
#include <cohort/host/host_object.hpp>
#include <cohort/sdk/error.hpp>

#include "hostile_store.hpp"

namespace cohort::fuzz {

constexpr int kRanks = 3;

/// Calls `connect` with the arguments of one rank of three. It returns, or throws an sdk::Error of which the host makes
/// a sentence.
template <class Connect>
void meet(Input input, Connect&& connect) {
  const uint8_t first = input.byte();
  HostileStore hostile(input);
  host::AbiStore store(hostile);
  cohort_connect_args args{};
  args.struct_size = sizeof args;
  args.rank = first % kRanks;
  args.size = kRanks;
  args.timeout_ns = 1'000'000;
  args.store = store.get();
  args.name = "world";
  args.master_addr = first & 0x80 ? "127.0.0.1" : nullptr;
  try {
    connect(args);
  } catch (const sdk::Error& error) {
    static host::Log log(no_log());
    host::HostObject host(log);
    accepts([&] { host.check(host.get()->fail(host.get(), error.status(), error.what()), "connect"); });
    const bool is_failure = error.status() > COHORT_OK && error.status() <= COHORT_UNAUTHENTICATED;
    require(is_failure, "fails with status " + std::to_string(error.status()));
  }
}

}  // namespace cohort::fuzz
