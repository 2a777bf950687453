#include "loggers/protobuf.hpp"

#include <bit>

namespace cohort {

static_assert(std::endian::native == std::endian::little,
              "protobuf is little-endian, and numbers are copied as they are");

namespace {

// Wire types.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kLengthDelimited = 2;
constexpr uint32_t kFixed32 = 5;

template <class Number>
void add_raw(std::string& encoded, const Number& value) {
  encoded.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

void ProtobufMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) encoded_.push_back(static_cast<char>((value & 0x7f) | 0x80));
  encoded_.push_back(static_cast<char>(value));
}

void ProtobufMessage::tag(uint32_t field, uint32_t wire_type) {
  varint(uint64_t{field} << 3 | wire_type);
}

ProtobufMessage& ProtobufMessage::integer(uint32_t field, uint64_t value) {
  tag(field, kVarint);
  varint(value);
  return *this;
}

ProtobufMessage& ProtobufMessage::real64(uint32_t field, double value) {
  tag(field, kFixed64);
  add_raw(encoded_, value);
  return *this;
}

ProtobufMessage& ProtobufMessage::real32(uint32_t field, float value) {
  tag(field, kFixed32);
  add_raw(encoded_, value);
  return *this;
}

ProtobufMessage& ProtobufMessage::reals64(uint32_t field, std::span<const double> values) {
  return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

ProtobufMessage& ProtobufMessage::bytes(uint32_t field, std::string_view value) {
  tag(field, kLengthDelimited);
  varint(value.size());
  encoded_ += value;
  return *this;
}

}  // namespace cohort
