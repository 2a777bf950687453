#include "store/store_message.hpp"

#include <cstring>

namespace cohort::host {
namespace {

// A request: operation, number, length of the key, key, value. An answer: is_there, number, value. Both ends are of the
// same build, which the ranks compare later, and of machines with the same byte order, as all messages of ranks are.
constexpr std::size_t kRequestHead = 1 + sizeof(int64_t) + sizeof(uint32_t);
constexpr std::size_t kAnswerHead = 1 + sizeof(int64_t);

template <class Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t place) {
  Number number{};
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

}  // namespace

std::string to_bytes(const StoreRequest& request) {
  std::string bytes(1, static_cast<char>(request.operation));
  put(bytes, request.number);
  put(bytes, static_cast<uint32_t>(request.key.size()));
  return bytes + request.key + request.value;
}

std::string to_bytes(const StoreAnswer& answer) {
  std::string bytes(1, static_cast<char>(answer.is_there));
  put(bytes, answer.number);
  return bytes + answer.value;
}

std::optional<StoreRequest> request_from(std::string_view bytes) {
  if (bytes.size() < kRequestHead) return std::nullopt;
  const auto operation = static_cast<StoreRequest::Operation>(bytes[0]);
  const std::size_t key_bytes = number_at<uint32_t>(bytes, 1 + sizeof(int64_t));
  if (operation > StoreRequest::Operation::kLast || bytes.size() - kRequestHead < key_bytes) return std::nullopt;
  return StoreRequest{operation, number_at<int64_t>(bytes, 1), std::string(bytes.substr(kRequestHead, key_bytes)),
                      std::string(bytes.substr(kRequestHead + key_bytes))};
}

std::optional<StoreAnswer> answer_from(std::string_view bytes) {
  if (bytes.size() < kAnswerHead) return std::nullopt;
  return StoreAnswer{bytes[0] != 0, number_at<int64_t>(bytes, 1), std::string(bytes.substr(kAnswerHead))};
}

}  // namespace cohort::host
