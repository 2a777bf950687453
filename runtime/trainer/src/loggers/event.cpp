// Encodes the messages field by field; the numbers of fields are those of TensorFlow's event.proto, summary.proto and
// tensor.proto, and of plugin_data.proto of TensorBoard's plugin hparams.
//
// A value names the plugin that shows it. Scalars and histograms are in the oldest form, which every reader knows and
// which needs no plugin.
#include "loggers/event.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace cohort {
namespace {

constexpr uint32_t kValueTag = 1;  // fields of Summary.Value
constexpr uint32_t kValueScalar = 2;
constexpr uint32_t kValueHistogram = 5;
constexpr uint32_t kValueTensor = 8;
constexpr uint32_t kValueMetadata = 9;

constexpr uint64_t kFloatTensor = 1;  // of the enum DataType
constexpr uint64_t kTextTensor = 7;

std::string in_utf8(std::string_view text) {
  using json = nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

ProtobufMessage event(const EventTime& time) {
  return ProtobufMessage().real64(1, time.seconds).integer(2, time.step);
}

ProtobufMessage plugin_metadata(std::string_view plugin, const ProtobufMessage& content) {
  return ProtobufMessage().message(1, ProtobufMessage().bytes(1, plugin).message(2, content));
}

/// Returns the value of the plugin hparams, whose data is all in the metadata: its tensor has no element.
ProtobufMessage hparams_value(std::string_view name, uint32_t field, const ProtobufMessage& info) {
  const ProtobufMessage no_elements = ProtobufMessage().message(2, ProtobufMessage().integer(1, 0));
  return ProtobufMessage()
      .bytes(kValueTag, name)
      .message(kValueTensor, ProtobufMessage().integer(1, kFloatTensor).message(2, no_elements))
      .message(kValueMetadata, plugin_metadata("hparams", ProtobufMessage().message(field, info)));
}

}  // namespace

ProtobufMessage file_version_event(double seconds) {
  return event({seconds, 0}).bytes(3, "brain.Event:2");
}

ProtobufMessage session_start_event(const EventTime& time) {
  constexpr uint64_t kStart = 1;
  return event(time).message(7, ProtobufMessage().integer(1, kStart));
}

ProtobufMessage summary_event(const EventTime& time, std::span<const ProtobufMessage> values) {
  ProtobufMessage summary;
  for (const auto& value : values) summary.message(1, value);
  return event(time).message(5, summary);
}

ProtobufMessage scalar_value(std::string_view name, double value) {
  return ProtobufMessage().bytes(kValueTag, in_utf8(name)).real32(kValueScalar, static_cast<float>(value));
}

ProtobufMessage text_value(std::string_view name, std::string_view text) {
  const ProtobufMessage scalar_shape;
  return ProtobufMessage()
      .bytes(kValueTag, in_utf8(name))
      .message(kValueTensor, ProtobufMessage().integer(1, kTextTensor).message(2, scalar_shape).bytes(8, in_utf8(text)))
      .message(kValueMetadata, plugin_metadata("text", {}));
}

ProtobufMessage histogram_value(std::string_view name, const Histogram& histogram) {
  return ProtobufMessage()
      .bytes(kValueTag, in_utf8(name))
      .message(kValueHistogram, ProtobufMessage()
                                    .real64(1, histogram.min)
                                    .real64(2, histogram.max)
                                    .real64(3, histogram.count)
                                    .real64(4, histogram.sum)
                                    .real64(5, histogram.sum_of_squares)
                                    .reals64(6, histogram.limits)
                                    .reals64(7, histogram.counts));
}

ProtobufMessage hyper_parameters_value(const HyperParameters& parameters, double start_seconds) {
  ProtobufMessage info;
  for (const auto& [name, parameter] : parameters) {
    const double* const number = std::get_if<double>(&parameter);
    ProtobufMessage value;
    if (number) {
      value.real64(2, *number);
    } else {
      value.bytes(3, in_utf8(std::get<std::string>(parameter)));
    }
    info.message(1, ProtobufMessage().bytes(1, in_utf8(name)).message(2, value));
  }
  return hparams_value("_hparams_/session_start_info", 3, info.real64(5, start_seconds));
}

ProtobufMessage success_value(double end_seconds) {
  constexpr uint64_t kSuccess = 1;
  return hparams_value("_hparams_/session_end_info", 4, ProtobufMessage().integer(1, kSuccess).real64(2, end_seconds));
}

}  // namespace cohort
