// A message in protobuf's binary form, field by field. LibTorch carries a protobuf library of its own, and a second one
// in the process might be of another version: the few messages of event files need none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

class ProtobufMessage {
 public:
  /// Adds an int32, int64, bool or enum, which must not be negative.
  ProtobufMessage& integer(uint32_t field, uint64_t value);
  ProtobufMessage& real64(uint32_t field, double value);
  ProtobufMessage& real32(uint32_t field, float value);
  /// Adds all elements of a repeated double.
  ProtobufMessage& reals64(uint32_t field, std::span<const double> values);
  /// Adds bytes, or text in UTF-8.
  ProtobufMessage& bytes(uint32_t field, std::string_view value);
  ProtobufMessage& message(uint32_t field, const ProtobufMessage& value) { return bytes(field, value.encoded_); }

  const std::string& encoded() const { return encoded_; }

 private:
  void varint(uint64_t value);
  void tag(uint32_t field, uint32_t wire_type);

  std::string encoded_;
};

}  // namespace cohort
