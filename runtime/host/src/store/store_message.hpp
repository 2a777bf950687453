// Requests of clients to a served store, and its answers; one sealed frame each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::host {

constexpr std::size_t kLongestMessage = std::size_t{256} << 20;
constexpr std::size_t kLongestProof = 64;  ///< of the first frame, by which a client proves that it knows the key

struct StoreRequest {
  enum class Operation : unsigned char { kSet, kGet, kAdd, kRemove, kCount, kLast = kCount };
  Operation operation = Operation::kCount;
  int64_t number = 0;      ///< kAdd: the amount; kGet: milliseconds to wait for the key
  std::string key = {};    ///< of all but kCount
  std::string value = {};  ///< kSet
};

struct StoreAnswer {
  bool is_there = true;    ///< kGet: the key exists
  int64_t number = 0;      ///< kAdd: the sum; kCount: keys
  std::string value = {};  ///< kGet
};

std::string to_bytes(const StoreRequest& request);
std::string to_bytes(const StoreAnswer& answer);
/// Return nothing if the bytes are no such message.
std::optional<StoreRequest> request_from(std::string_view bytes);
std::optional<StoreAnswer> answer_from(std::string_view bytes);

}  // namespace cohort::host
